/*
 * A row is copied from its recorder at once, so recorders need not outlive the call. If a rank
 * makes calls while its row is copied, the row may be some calls old.
 */
#include "flight/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/ranks.h"
#include "flight/process.h"
#include "flight/text.h"

#define NS_PER_S 1e9

typedef struct flight_row {
  uint64_t communicator;
  int number; /* number of the communicator in this table, from 1 */
  int rank, ranks;
  int32_t pid;
  uint64_t pid_space;
  uint64_t completed;
  bool called, under_way,
      waits;                  /* it has made a call; the call is under way; it waits in the call */
  flight_past_t call;         /* the call it waits in, else its latest call */
  uint64_t begin_ns, seen_ns; /* begin of the wait; time at which the row was made */
  uint64_t peers[FLIGHT_RANKS_MAX / 64]; /* bit set of the ranks it waits for */
} flight_row_t;

bool flight_table_has(const flight_table_t *table, uint64_t communicator) {
  for (size_t i = 0; i < table->count; i++) {
    if (table->rows[i].communicator == communicator) return true;
  }
  return false;
}

bool flight_table_shows(const flight_table_t *table, int32_t pid) {
  uint64_t space = flight_pid_space();
  for (size_t i = 0; i < table->count; i++) {
    if (table->rows[i].pid == pid && table->rows[i].pid_space == space) return true;
  }
  return false;
}

/* ---- rows -----------------------------------------------------------------------------------*/

/* A collective is complete once it is counted in `completed`. A send or receive is known to be
 * under way only while it waits. */
static bool read_wait(const flight_wait_t *from, flight_row_t *row) {
  flight_standstill_t wait;
  for (size_t word = 0; word < base_ranks_words(row->ranks); word++) {
    row->peers[word] = atomic_load_explicit(&from->peers[word], memory_order_acquire);
  }
  if (!flight_standstill_read(from, &wait)) return false;
  row->called = row->under_way = row->waits = true;
  row->call = (flight_past_t){.number = wait.number, .call = wait.call};
  row->begin_ns = wait.begin_ns;
  return true;
}

static void read_call(const flight_recorder_t *from, flight_row_t *row) {
  if (read_wait(&from->wait, row) || read_wait(&from->gpu_wait, row)) return;
  row->called = flight_latest(from, &row->call);
  row->under_way =
      row->called && flight_is_collective(row->call.call) && row->call.number >= row->completed;
}

coll_status_t flight_table_add(flight_table_t *table, const flight_recorder_t *recorder,
                               uint64_t communicator, int rank, int ranks) {
  void *rows = table->rows;
  COLL_TRY(base_grow(&rows, &table->capacity, table->count + 1, sizeof(flight_row_t),
                     "the table of ranks"));
  table->rows = rows;
  bool another = table->count == 0 || table->rows[table->count - 1].communicator != communicator;
  if (another) table->communicators++;
  flight_row_t *row = &table->rows[table->count++];
  *row =
      (flight_row_t){.communicator = communicator,
                     .number = table->communicators,
                     .rank = rank,
                     .ranks = ranks,
                     .pid = atomic_load_explicit(&recorder->pid, memory_order_acquire),
                     .pid_space = atomic_load_explicit(&recorder->pid_space, memory_order_relaxed),
                     .completed = flight_completed(recorder),
                     .seen_ns = base_clock_now_ns()};
  read_call(recorder, row);
  return COLL_OK;
}

coll_status_t flight_table_add_found(flight_table_t *table, const flight_found_t *found) {
  for (size_t i = 0; i < found->count; i++) {
    const flight_group_t *group = &found->groups[i];
    if (flight_table_has(table, group->communicator)) continue;
    for (int rank = 0; rank < group->ranks; rank++) {
      COLL_TRY(flight_table_add(table, flight_group_recorder(group, rank), group->communicator,
                                rank, group->ranks));
    }
  }
  return COLL_OK;
}

void flight_table_free(flight_table_t *table) {
  free(table->rows);
  *table = (flight_table_t){0};
}

/* ---- text -----------------------------------------------------------------------------------*/

enum { COLUMN_COMM, COLUMN_RANK, COLUMN_PID, COLUMN_PROCESS, COLUMN_DONE, COLUMN_CALL, COLUMNS };

static const char *const headings[COLUMNS] = {"comm", "rank", "pid", "process", "done", "call"};
static const bool right_aligned[COLUMNS] = {
    [COLUMN_COMM] = true, [COLUMN_RANK] = true, [COLUMN_PID] = true, [COLUMN_DONE] = true};

#define WAITS_HEADING "waits"
#define CELL_BYTES (FLIGHT_TEXT_BYTES + 32)

typedef struct cells {
  char text[COLUMNS][CELL_BYTES];
  char waits[CELL_BYTES]; /* the last column, which is not padded */
} cells_t;

static void fill_call(const flight_row_t *row, cells_t *cells) {
  char call[FLIGHT_TEXT_BYTES];
  snprintf(cells->text[COLUMN_CALL], CELL_BYTES, "-");
  snprintf(cells->waits, CELL_BYTES, "-");
  if (!row->called) return;
  flight_call_describe(row->call.call, NULL, call, sizeof call);
  snprintf(cells->text[COLUMN_CALL], CELL_BYTES, "%s %llu, %s", row->under_way ? "in" : "last",
           (unsigned long long)row->call.number, call);
  if (!row->waits) return;
  flight_text_t waits = flight_text_in(cells->waits, CELL_BYTES);
  uint64_t waited_ns = row->seen_ns > row->begin_ns ? row->seen_ns - row->begin_ns : 0;
  flight_text_add(&waits, "at least %.1f s for ", (double)waited_ns / NS_PER_S);
  flight_text_add_ranks(&waits, row->peers, row->ranks);
}

static void fill_cells(const flight_row_t *row, cells_t *cells) {
  flight_process_t process = flight_process_of(row->pid, row->pid_space);
  snprintf(cells->text[COLUMN_COMM], CELL_BYTES, "%d", row->number);
  snprintf(cells->text[COLUMN_RANK], CELL_BYTES, "%d", row->rank);
  snprintf(cells->text[COLUMN_PID], CELL_BYTES, "%d", (int)row->pid);
  snprintf(cells->text[COLUMN_PROCESS], CELL_BYTES, "%s", flight_process_word(process));
  snprintf(cells->text[COLUMN_DONE], CELL_BYTES, "%llu", (unsigned long long)row->completed);
  fill_call(row, cells);
}

static void widen(int width[COLUMNS], const cells_t *cells) {
  for (int column = 0; column < COLUMNS; column++) {
    int length = (int)strlen(cells->text[column]);
    if (length > width[column]) width[column] = length;
  }
}

static void add_line(flight_text_t *to, const int width[COLUMNS], const cells_t *cells) {
  for (int column = 0; column < COLUMNS; column++) {
    int padded = right_aligned[column] ? width[column] : -width[column];
    flight_text_add(to, "%*s  ", padded, cells->text[column]);
  }
  flight_text_add(to, "%s\n", cells->waits);
}

coll_status_t flight_table_write(const flight_table_t *table, char **text, size_t *bytes) {
  cells_t *cells = NULL;
  char *memory = NULL;
  int width[COLUMNS] = {0};
  size_t lines = table->count + 1, line_bytes = CELL_BYTES + 1;
  COLL_TRY(base_alloc(lines, sizeof *cells, "the table of ranks", (void **)&cells));
  for (int column = 0; column < COLUMNS; column++) {
    snprintf(cells[0].text[column], CELL_BYTES, "%s", headings[column]);
  }
  snprintf(cells[0].waits, CELL_BYTES, WAITS_HEADING);
  for (size_t i = 0; i < table->count; i++) fill_cells(&table->rows[i], &cells[i + 1]);
  for (size_t i = 0; i < lines; i++) widen(width, &cells[i]);
  for (int column = 0; column < COLUMNS; column++) line_bytes += (size_t)width[column] + 2;
  coll_status_t status = base_alloc(lines, line_bytes, "the table of ranks", (void **)&memory);
  if (status == COLL_OK) {
    flight_text_t to = flight_text_in(memory, lines * line_bytes);
    for (size_t i = 0; i < lines; i++) add_line(&to, width, &cells[i]);
    *text = memory;
    *bytes = strlen(memory);
  }
  free(cells);
  return status;
}

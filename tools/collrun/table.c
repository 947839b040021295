/* The first process of a rank may be a shell or a profiler that started the program, so all
 * processes of the rank's process group are searched. */
#include "tools/collrun/table.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text.h"
#include "flight/process.h"
#include "flight/table.h"
#include "flight/text.h"

#define SEARCH_NS UINT64_C(1000000000)
#define TAIL_BYTES 1024 /* size of the text after the table */
#define LISTED_MAX 8    /* ranks without a communicator: listed at most */

typedef struct search {
  const collrun_rank_t *ranks;
  int count;
  bool *shown; /* [count]: a process of the rank's group is in the table */
  bool cut;    /* the search ran out of time */
  flight_found_t found;
  flight_table_t table;
} search_t;

static int rank_of_group(const search_t *search, int32_t group) {
  for (int rank = 0; rank < search->count; rank++) {
    if (search->ranks[rank].pid > 0 && search->ranks[rank].pid == group) return rank;
  }
  return -1;
}

static bool next_process(DIR *processes, int32_t *pid) {
  struct dirent *entry;
  while ((entry = readdir(processes)) != NULL) {
    int64_t number;
    if (!base_text_integer(entry->d_name, 1, INT32_MAX, &number)) continue;
    *pid = (int32_t)number;
    return true;
  }
  return false;
}

static coll_status_t find_communicators(search_t *search) {
  uint64_t until_ns = base_clock_now_ns() + SEARCH_NS;
  coll_status_t status = COLL_OK;
  DIR *processes = opendir("/proc");
  int32_t pid;
  if (processes == NULL) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot read /proc");
  while (status == COLL_OK && !search->cut && next_process(processes, &pid)) {
    if (rank_of_group(search, flight_process_group(pid)) < 0) continue;
    status = flight_found_add_process(&search->found, pid);
    search->cut = base_clock_now_ns() > until_ns;
  }
  closedir(processes);
  return status;
}

static void mark_shown(search_t *search) {
  DIR *processes = opendir("/proc");
  int32_t pid;
  if (processes == NULL) return;
  while (next_process(processes, &pid)) {
    int rank = rank_of_group(search, flight_process_group(pid));
    if (rank >= 0 && flight_table_shows(&search->table, pid)) search->shown[rank] = true;
  }
  closedir(processes);
}

/* Adds ranks without a communicator, or with one that cannot be read. */
static void add_others(flight_text_t *to, const search_t *search) {
  int others = 0;
  for (int rank = 0; rank < search->count; rank++) {
    int32_t pid = (int32_t)search->ranks[rank].pid;
    if (pid == 0 || search->shown[rank] || ++others > LISTED_MAX) continue;
    flight_process_t process = flight_process_of(pid, flight_pid_space());
    flight_text_add(to, "rank %d (pid %d) has no communicator; the process is %s\n", rank, (int)pid,
                    flight_process_word(process));
  }
  if (others > LISTED_MAX) {
    flight_text_add(to, "%d more ranks have no communicator\n", others - LISTED_MAX);
  }
  if (search->cut) flight_text_add(to, "the search timed out: communicators may be missing\n");
}

static coll_status_t write_text(const search_t *search, char **text) {
  char tail[TAIL_BYTES], *table = NULL, *whole = NULL;
  size_t table_bytes = 0;
  flight_text_t to = flight_text_in(tail, sizeof tail);
  add_others(&to, search);
  if (search->table.count > 0) COLL_TRY(flight_table_write(&search->table, &table, &table_bytes));
  size_t bytes = table_bytes + strlen(tail) + 1;
  coll_status_t status = base_alloc(1, bytes, "the table of ranks", (void **)&whole);
  if (status == COLL_OK) {
    snprintf(whole, bytes, "%s%s", table != NULL ? table : "", tail);
    *text = whole;
  }
  free(table);
  return status;
}

coll_status_t collrun_table_make(const collrun_rank_t ranks[], int count, char **text,
                                 int *communicators) {
  search_t search = {.ranks = ranks, .count = count};
  COLL_TRY(base_alloc((size_t)count, sizeof *search.shown, "the table of ranks",
                      (void **)&search.shown));
  coll_status_t status = find_communicators(&search);
  if (status == COLL_OK) status = flight_table_add_found(&search.table, &search.found);
  if (status == COLL_OK) {
    mark_shown(&search);
    status = write_text(&search, text);
  }
  *communicators = search.table.communicators;
  flight_table_free(&search.table);
  flight_found_free(&search.found);
  free(search.shown);
  return status;
}

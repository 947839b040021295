/*
 * Every kind of call (call_kinds.h) against every other: one rank makes the first, the others the
 * second; then each calls a barrier and destroys the communicator, also after failures. The oracle
 * (call_oracle.h) defines the reports they must get. The ranks are reused from pair to pair, each
 * pair on a new split of a communicator that never has a mismatch. A pair that hangs or crashes
 * ends the ranks; new ones continue with the next pair.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "call_kinds.h"
#include "call_oracle.h"
#include "harness/harness.h"
#include "harness/sample.h"
#include "verify/random.h"

#define STALL_MS (30000 / HARNESS_PATIENCE) /* when a pair counts as hung */
#define LOSSES_MAX 20 /* number of hung or crashed pairs that ends a run that is not a full one */
#define OFFENDERS_SHOWN 20
#define SEED 20
#define SENTENCE_BYTES 512
#define BARRIER_POLL_NS 20000

typedef struct pair {
  const call_kind_t *first, *others; /* of rank `first_rank`, and of all other ranks */
  int first_rank;
} pair_t;

/* What a rank's calls returned, in order. */
typedef enum stage { STAGE_CALL, STAGE_BARRIER, STAGE_ERROR, STAGE_DESTROY, STAGE_COUNT } stage_t;

typedef struct report {
  coll_status_t status[STAGE_COUNT];
  int stages; /* number of stages that have returned */
  bool wrong_result;
  uint64_t report_ns;            /* from the start of the call to the first mismatch; 0: none */
  char sentence[SENTENCE_BYTES]; /* error text of the first mismatch, else of the first failure */
} report_t;

typedef enum outcome {
  OUTCOME_REPORTED,
  OUTCOME_LEGAL,
  OUTCOME_HUNG,
  OUTCOME_CRASHED,
  OUTCOME_SILENT,
  OUTCOME_LOST,
  OUTCOME_OTHER,
  OUTCOME_WORDS,
  OUTCOME_REFUSED,
  OUTCOME_RESULT,
  OUTCOME_COUNT
} outcome_t;

static const char *const outcome_names[] = {
    "reported rightly",
    "legal, and successful",
    "hung",
    "crashed",
    "silent: a rank that must report a mismatch returned no error",
    "a rank only returned that another is lost",
    "a rank returned another error",
    "the report does not name both calls",
    "legal, but refused",
    "legal, but with a wrong result",
};

typedef struct record {
  outcome_t outcome;
  bool ended;
  uint64_t all_ns;
  report_t ranks[CALL_RANKS_MAX];
} record_t;

/* Shared by the ranks and the test that forked them. */
typedef struct show {
  int size, pair_count, first; /* the first pair of this run */
  bool threads;
  const pair_t *pairs;
  _Atomic int current; /* the pair that the ranks are in */
  _Atomic unsigned arrivals,
      returns; /* arrivals at barriers; returns from the calls of a pair: in the whole run */
  coll_unique_id_t id;
  coll_comm_t comms[CALL_RANKS_MAX]; /* threads only */
  record_t records[];
} show_t;

/* ---- ranks ----------------------------------------------------------------------------------*/

typedef struct actor {
  show_t *show;
  int rank;
  unsigned barriers;
  coll_comm_t base;
  call_memory_t memory;
} actor_t;

static void wait_at_barrier(actor_t *self) {
  show_t *show = self->show;
  unsigned all = ++self->barriers * (unsigned)show->size;
  atomic_fetch_add(&show->arrivals, 1);
  while (atomic_load(&show->arrivals) < all) base_clock_sleep_ns(BARRIER_POLL_NS);
}

static void note(report_t *report, coll_status_t status, coll_comm_t comm, uint64_t begin_ns) {
  bool first_failure = report->sentence[0] == '\0';
  bool first_mismatch = status == COLL_ERROR_MISMATCH && report->report_ns == 0;
  report->status[report->stages++] = status;
  if (status == COLL_OK || !(first_failure || first_mismatch)) return;
  snprintf(report->sentence, sizeof report->sentence, "%s", coll_last_error(comm));
  if (first_mismatch) report->report_ns = base_clock_now_ns() - begin_ns;
}

/* Threads do not free a failed communicator before the calls of all ranks have returned, as coll.h
 * requires. Processes do not wait, because their peers may get their report only from the end of
 * this rank. */
static void wait_for_returns(const actor_t *self, int index, bool failed) {
  show_t *show = self->show;
  unsigned all = (unsigned)((index - show->first + 1) * show->size);
  atomic_fetch_add(&show->returns, 1);
  while (show->threads && failed && atomic_load(&show->returns) < all) {
    base_clock_sleep_ns(BARRIER_POLL_NS);
  }
}

static const call_kind_t *kind_of(const pair_t *pair, int rank) {
  return rank == pair->first_rank ? pair->first : pair->others;
}

static int play_pair(actor_t *self, int index) {
  show_t *show = self->show;
  const pair_t *pair = &show->pairs[index];
  report_t *report = &show->records[index].ranks[self->rank];
  bool right;
  coll_comm_t comm;
  if (coll_comm_split(self->base, 0, self->rank, NULL, &comm) != COLL_OK) {
    return harness_fail("no communicator: %s", coll_last_error(NULL));
  }
  if (self->rank == 0) atomic_store(&show->current, index);
  wait_at_barrier(self);
  uint64_t begin_ns = base_clock_now_ns();
  note(
      report,
      call_kind_run(kind_of(pair, self->rank), comm, self->rank, show->size, &self->memory, &right),
      comm, begin_ns);
  report->wrong_result = !right;
  note(report, coll_barrier(comm, NULL), comm, begin_ns);
  note(report, coll_comm_error(comm), comm, begin_ns);
  wait_for_returns(self, index, report->sentence[0] != '\0');
  note(report, coll_comm_destroy(comm), NULL, begin_ns);
  wait_at_barrier(self);
  if (self->rank == 0) {
    show->records[index].all_ns = base_clock_now_ns() - begin_ns;
    show->records[index].ended = true;
    harness_progress();
  }
  return 0;
}

static int play_all(actor_t *self) {
  show_t *show = self->show;
  int code = 0;
  for (int i = show->first; i < show->pair_count && code == 0; i++) code = play_pair(self, i);
  call_memory_free(&self->memory);
  if (code == 0 && coll_comm_destroy(self->base) != COLL_OK) {
    return harness_fail("destroy: %s", coll_last_error(NULL));
  }
  return code;
}

static int process_main(int rank, int size, void *context) {
  actor_t self = {.show = context, .rank = rank};
  if (rank == 0 && coll_unique_id_create(NULL, &self.show->id) != COLL_OK) {
    return harness_fail("no unique id: %s", coll_last_error(NULL));
  }
  wait_at_barrier(&self);
  if (coll_comm_create(&self.show->id, rank, size, NULL, &self.base) != COLL_OK) {
    return harness_fail("no communicator: %s", coll_last_error(NULL));
  }
  return play_all(&self);
}

static void *thread_main(void *argument) {
  return (void *)(intptr_t)play_all(argument);
}

/* A separate process runs the threads, so that they can be killed. */
static int threads_main(int rank, int size, void *context) {
  (void)rank, (void)size;
  show_t *show = context;
  pthread_t threads[CALL_RANKS_MAX];
  actor_t actors[CALL_RANKS_MAX];
  int code = 0;
  if (coll_comm_create_local(show->size, NULL, show->comms) != COLL_OK) {
    return harness_fail("no communicators: %s", coll_last_error(NULL));
  }
  for (int i = 0; i < show->size; i++) {
    actors[i] = (actor_t){.show = show, .rank = i, .base = show->comms[i]};
    if (pthread_create(&threads[i], NULL, thread_main, &actors[i]) != 0) abort();
  }
  for (int i = 0; i < show->size; i++) {
    void *ended;
    pthread_join(threads[i], &ended);
    code = code != 0 ? code : (int)(intptr_t)ended;
  }
  return code;
}

/* ---- judging --------------------------------------------------------------------------------*/

static bool has_status(const report_t *report, coll_status_t status) {
  for (int i = 0; i < report->stages; i++) {
    if (report->status[i] == status) return true;
  }
  return false;
}

static bool all_returned(const record_t *record, int size) {
  for (int rank = 0; rank < size; rank++) {
    const report_t *report = &record->ranks[rank];
    if (report->status[STAGE_CALL] != COLL_OK || report->status[STAGE_BARRIER] != COLL_OK)
      return false;
  }
  return true;
}

/* The outcome of a rank that got no COLL_ERROR_MISMATCH. */
static outcome_t judge_without_report(const report_t *report, bool must_report) {
  if (has_status(report, COLL_ERROR_RANK_LOST)) return OUTCOME_LOST;
  if (report->sentence[0] != '\0') return OUTCOME_OTHER;
  return must_report ? OUTCOME_SILENT : OUTCOME_REPORTED;
}

static outcome_t judge_legal(const record_t *record, int size) {
  for (int rank = 0; rank < size; rank++) {
    if (record->ranks[rank].sentence[0] != '\0') return OUTCOME_REFUSED;
    if (record->ranks[rank].wrong_result) return OUTCOME_RESULT;
  }
  return OUTCOME_LEGAL;
}

static outcome_t judge(const show_t *show, const pair_t *pair, const record_t *record) {
  const call_kind_t *kinds[CALL_RANKS_MAX];
  call_verdict_t verdict;
  for (int rank = 0; rank < show->size; rank++) kinds[rank] = kind_of(pair, rank);
  call_oracle_judge(kinds, show->size, &verdict);
  if (verdict.legal) return judge_legal(record, show->size);
  bool returned = verdict.may_buffer && all_returned(record, show->size);
  int reports = 0;
  for (int rank = 0; rank < show->size; rank++) {
    const report_t *report = &record->ranks[rank];
    if (report->report_ns > 0) {
      reports++;
      continue;
    }
    outcome_t outcome = judge_without_report(report, verdict.must_report[rank] && !returned);
    if (outcome != OUTCOME_REPORTED) return outcome;
  }
  if (reports == 0) return OUTCOME_SILENT;
  for (int rank = 0; rank < show->size; rank++) {
    const report_t *report = &record->ranks[rank];
    if (report->report_ns == 0) continue;
    if (!call_oracle_accepts(kinds, show->size, &verdict, returned, report->sentence)) {
      return OUTCOME_WORDS;
    }
  }
  return OUTCOME_REPORTED;
}

/* ---- reporting ------------------------------------------------------------------------------*/

static void show_offender(const show_t *show, const pair_t *pair, const record_t *record) {
  static const char *const stages[] = {"the call", "the barrier", "coll_comm_error",
                                       "coll_comm_destroy", "the end"};
  printf("  %s\n    rank %d: %s; the other%s: %s\n", outcome_names[record->outcome],
         pair->first_rank, pair->first->name, show->size > 2 ? "s" : "", pair->others->name);
  for (int rank = 0; rank < show->size; rank++) {
    const report_t *report = &record->ranks[rank];
    printf("    rank %d:", rank);
    for (int i = 0; i < report->stages; i++) {
      printf(" %s%s", coll_status_string(report->status[i]), i + 1 < report->stages ? "," : "");
    }
    if (!record->ended && report->stages < STAGE_COUNT) printf(" in %s", stages[report->stages]);
    printf("%s%s\n", report->sentence[0] != '\0' ? ": " : "", report->sentence);
  }
}

static int compare_times(const void *left, const void *right) {
  uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
  return a < b ? -1 : a > b;
}

static void print_times(const show_t *show, uint64_t all_ns) {
  uint64_t *times = calloc((size_t)show->pair_count * CALL_RANKS_MAX, sizeof *times);
  size_t count = 0;
  if (times == NULL) abort();
  for (int i = 0; i < show->pair_count; i++) {
    for (int rank = 0; rank < show->size; rank++) {
      uint64_t time_ns = show->records[i].ranks[rank].report_ns;
      if (time_ns > 0) times[count++] = time_ns;
    }
  }
  qsort(times, count, sizeof *times, compare_times);
  if (count > 0) {
    printf("  reports took %.2f ms in the median, %.1f ms at most\n",
           (double)times[count / 2] * 1e-6, (double)times[count - 1] * 1e-6);
  }
  printf("  %.1f s in all, %.1f ms per pair\n", (double)all_ns * 1e-9,
         (double)all_ns * 1e-6 / (show->pair_count > 0 ? show->pair_count : 1));
  free(times);
}

/* Prints the table; returns the number of pairs with a wrong outcome. */
static int report(show_t *show, int tried, uint64_t all_ns) {
  int counts[OUTCOME_COUNT] = {0}, offenders = 0;
  for (int i = 0; i < tried; i++) {
    record_t *record = &show->records[i];
    if (record->ended) record->outcome = judge(show, &show->pairs[i], record);
    counts[record->outcome]++;
    if (record->outcome == OUTCOME_REPORTED || record->outcome == OUTCOME_LEGAL) continue;
    if (++offenders <= OFFENDERS_SHOWN) show_offender(show, &show->pairs[i], record);
  }
  printf("%d %s, %d of %d pairs tried\n", show->size, show->threads ? "threads" : "processes",
         tried, show->pair_count);
  for (int i = 0; i < OUTCOME_COUNT; i++) printf("  %-50s %6d\n", outcome_names[i], counts[i]);
  print_times(show, all_ns);
  fflush(stdout);
  return offenders + show->pair_count - tried;
}

/* ---- runs -----------------------------------------------------------------------------------*/

/* One pair in `every`, chosen by the seed; returns how many. */
static int choose_pairs(pair_t pairs[], int size, bool threads, int every) {
  int kinds = call_kind_count(), huge = call_kind_huge_count(), count = 0;
  uint64_t random = SEED + (uint64_t)(2 * size + threads);
  for (int i = 0; i < kinds * kinds; i++) {
    int rank = size == 2 ? 0 : random_below(&random, size);
    if (random_below(&random, every) > 0) continue;
    pairs[count++] = (pair_t){call_kind_at(i / kinds), call_kind_at(i % kinds), rank};
  }
  for (int i = 0; i < huge * huge && size == 2; i++) {
    if (i / huge == i % huge) continue;
    pairs[count++] = (pair_t){call_kind_huge_at(i / huge), call_kind_huge_at(i % huge), 0};
  }
  return count;
}

/* Runs the pairs, with new ranks after each lost pair; returns the number of pairs tried. */
static int run_pairs(show_t *show) {
  int losses = 0;
  while (show->first < show->pair_count && (losses < LOSSES_MAX || harness_full())) {
    harness_result_t result;
    atomic_store(&show->arrivals, 0);
    atomic_store(&show->returns, 0);
    atomic_store(&show->current, show->first);
    bool good = show->threads
                    ? harness_run_watched(1, STALL_MS, threads_main, show, &result)
                    : harness_run_watched(show->size, STALL_MS, process_main, show, &result);
    if (good) return show->pair_count;
    int lost = atomic_load(&show->current);
    bool crashed = false;
    for (int rank = 0; rank < result.size; rank++) {
      const harness_rank_t *end = &result.ranks[rank];
      if (end->end == HARNESS_KILLED) crashed = true;
      if (end->end == HARNESS_RETURNED && end->value != 0) crashed = true;
    }
    if (crashed) printf("  %s\n", result.text);
    show->records[lost].ended = false;
    show->records[lost].outcome = crashed ? OUTCOME_CRASHED : OUTCOME_HUNG;
    show->first = lost + 1;
    losses++;
  }
  return show->first;
}

static void run_show(int size, bool threads, int every) {
  if (!threads && HARNESS_BUILD == HARNESS_THREAD) cr_skip_test("threads are enough");
  /* after which a wait for a send or receive counts, of a process with several threads */
  setenv("COLL_HANG_MS", "20", 1);
  int kinds = call_kind_count(), huge = call_kind_huge_count();
  size_t pairs_max = (size_t)(kinds * kinds + huge * huge);
  size_t bytes = sizeof(show_t) + pairs_max * sizeof(record_t);
  pair_t *pairs = calloc(pairs_max, sizeof *pairs);
  show_t *show = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (pairs == NULL || show == MAP_FAILED) abort();
  if (HARNESS_BUILD != HARNESS_PLAIN) every *= 10;
  *show = (show_t){.size = size, .threads = threads, .pairs = pairs};
  if (harness_full()) every = 1;
  show->pair_count = choose_pairs(pairs, size, threads, every);
  uint64_t begin_ns = base_clock_now_ns();
  int tried = run_pairs(show);
  int offenders = report(show, tried, base_clock_now_ns() - begin_ns);
  munmap(show, bytes);
  free(pairs);
  cr_assert_eq(offenders, 0, "%d pairs of calls did not end as they must; see above", offenders);
}

Test(call_pairs, of_two_processes) {
  run_show(2, false, 5);
}

Test(call_pairs, of_four_processes) {
  run_show(4, false, 10);
}

Test(call_pairs, of_two_threads) {
  run_show(2, true, 10);
}

Test(call_pairs, of_four_threads) {
  run_show(4, true, 10);
}

/*
 * Ranks that abort, leave early, exit without destroying the communicator, or are stopped for a
 * while.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness/death.h"
#include "harness/party.h"

#define TIMEOUT_MS 60000
#define MS_NS UINT64_C(1000000)

/* Calls until one fails; `record`, if any, is told how late. */
static int loop_until(party_rank_t *self, coll_status_t expected, const char *words,
                      death_record_t *record) {
  /* Outlives the rank's thread: the last rank to learn of the abort may still be reading it. */
  static float all[HARNESS_RANKS_MAX][3000];
  float *data = all[self->rank];
  coll_status_t status = COLL_OK;
  uint64_t called_ns = 0;
  while (status == COLL_OK) {
    called_ns = base_clock_now_ns();
    status = coll_allreduce(data, data, 3000, COLL_FLOAT32, COLL_SUM, self->comm, NULL);
  }
  if (record != NULL) death_note_failure(record, called_ns, base_clock_now_ns());
  PARTY_REQUIRE(status == expected, "%s: %s", coll_status_string(status),
                coll_last_error(self->comm));
  PARTY_REQUIRE(strstr(coll_last_error(self->comm), words) != NULL, "no '%s' in: %s", words,
                coll_last_error(self->comm));
  return 0;
}

typedef struct aborting {
  coll_comm_t comm;
  death_record_t *record;
} aborting_t;

static void *abort_soon(void *argument) {
  const aborting_t *aborting = argument;
  base_clock_sleep_ns(30 * MS_NS);
  death_stamp(aborting->record);
  coll_comm_abort(aborting->comm);
  return NULL;
}

/* The rank that aborts waits in a call itself. */
static int abort_from_thread(party_rank_t *self) {
  pthread_t thread;
  aborting_t aborting = {self->comm, self->context};
  if (self->rank == 1) pthread_create(&thread, NULL, abort_soon, &aborting);
  int code = loop_until(self, COLL_ERROR_RANK_LOST,
                        self->rank == 1 ? "this rank aborted" : "rank 1", self->context);
  if (self->rank == 1) pthread_join(thread, NULL);
  return code;
}

Test(leaving, by_abort_from_another_thread) {
  for (int size = 2; size <= 5; size++) {
    PARTY_RUN(size, TIMEOUT_MS, abort_from_thread, death_record_create(-1));
  }
}

Test(timing_leaving, by_abort_is_noticed_soon) {
  enum { TIMES = 20 };
  uint64_t late_ns[TIMES];
  for (int i = 0; i < TIMES; i++) {
    harness_result_t result;
    death_record_t *record = death_record_create(-1);
    cr_assert(party_processes(2 + i % 3, TIMEOUT_MS, abort_from_thread, record, &result), "%s",
              result.text);
    late_ns[i] = record->late_ns;
  }
  cr_assert(death_check_times("comm abort", late_ns, TIMES));
}

/* No other rank wakes it: the aborted rank sleeps in a receive whose message is never sent. Its
 * peers are in no call, otherwise a deadlock would be reported. */
static int abort_sleeping_rank(party_rank_t *self) {
  pthread_t thread;
  float got;
  if (self->rank > 0) {
    harness_barrier();
    PARTY_REQUIRE(coll_recv(&got, 1, COLL_FLOAT32, 0, self->comm, NULL) == COLL_ERROR_RANK_LOST,
                  "a message arrived");
    return 0;
  }
  aborting_t aborting = {self->comm, self->context};
  pthread_create(&thread, NULL, abort_soon, &aborting);
  coll_status_t status = coll_recv(&got, 1, COLL_FLOAT32, 1, self->comm, NULL);
  pthread_join(thread, NULL);
  harness_barrier();
  PARTY_REQUIRE(status == COLL_ERROR_RANK_LOST, "%s", coll_status_string(status));
  return 0;
}

Test(leaving, by_abort_while_asleep) {
  PARTY_RUN(3, TIMEOUT_MS, abort_sleeping_rank, death_record_create(-1));
}

/* It may find its peers in a call that it does not make, or leave before they enter it. */
static void leave(party_rank_t *self) {
  coll_comm_destroy(self->comm);
  self->comm = NULL;
}

static int leave_early(party_rank_t *self) {
  if (self->rank == self->size - 1) {
    float one = 1, sum;
    PARTY_OK(coll_allreduce(&one, &sum, 1, COLL_FLOAT32, COLL_SUM, self->comm, NULL));
    harness_barrier();
    leave(self);
    return 0;
  }
  float one = 1, sum;
  char words[24];
  PARTY_OK(coll_allreduce(&one, &sum, 1, COLL_FLOAT32, COLL_SUM, self->comm, NULL));
  harness_barrier();
  PARTY_REQUIRE(sum == (float)self->size, "the call before it left: %g", (double)sum);
  snprintf(words, sizeof words, "rank %d", self->size - 1);
  return loop_until(self, COLL_ERROR_MISMATCH, words, NULL);
}

Test(leaving, before_the_others_are_done) {
  for (int size = 2; size <= 5; size++) PARTY_RUN(size, TIMEOUT_MS, leave_early, NULL);
}

/* A root that receives nothing detects a peer's exit when its multicasts are no longer received.
 * The peer is the last rank, which is not the first one that the root checks. */
static int leave_a_root(party_rank_t *self) {
  float value = 1;
  coll_status_t status = COLL_OK;
  PARTY_OK(coll_comm_algo_set(self->comm, COLL_BROADCAST, "linear"));
  for (int call = 0; status == COLL_OK; call++) {
    if (self->rank == self->size - 1 && call == 3) {
      leave(self);
      return 0;
    }
    status = coll_broadcast(&value, &value, 1, COLL_FLOAT32, 0, self->comm, NULL);
  }
  PARTY_REQUIRE(status == COLL_ERROR_MISMATCH, "%s", coll_last_error(self->comm));
  return 0;
}

Test(leaving, is_detected_by_a_root_that_multicasts) {
  for (int size = 2; size <= 5; size++) PARTY_RUN(size, TIMEOUT_MS, leave_a_root, NULL);
}

/* A rank that has completed its part of all calls may exit, with or without destroying the
 * communicator, and ranks that need nothing from it do not fail. */
static int work_without(party_rank_t *self) {
  bool destroys = *(bool *)self->context;
  int others = self->size - 1;
  float one = 1, sum;
  PARTY_OK(coll_allreduce(&one, &sum, 1, COLL_FLOAT32, COLL_SUM, self->comm, NULL));
  if (self->rank == others) {
    if (!destroys) self->comm = NULL; /* and leaks it */
    return 0;
  }
  static float data[2][20000];
  int next = (self->rank + 1) % others, before = (self->rank + others - 1) % others;
  for (int round = 0; round < 40; round++) { /* with pauses long enough for checks of the peers */
    if (round % 10 == 0 && self->rank == 0) base_clock_sleep_ns(40 * MS_NS);
    data[0][0] = (float)(round + self->rank);
    PARTY_OK(coll_group_start());
    PARTY_OK(coll_send(data[0], 20000, COLL_FLOAT32, next, self->comm, NULL));
    PARTY_OK(coll_recv(data[1], 20000, COLL_FLOAT32, before, self->comm, NULL));
    PARTY_OK(coll_group_end());
    PARTY_REQUIRE(data[1][0] == (float)(round + before), "round %d", round);
  }
  return 0;
}

Test(leaving, does_not_affect_ranks_that_need_nothing) {
  for (int destroys = 0; destroys < 2; destroys++) {
    bool context = destroys == 1;
    harness_result_t result;
    cr_assert(party_processes(4, TIMEOUT_MS, work_without, &context, &result), "%s", result.text);
  }
}

/* ---- stopped --------------------------------------------------------------------------------*/

/* The last rank is stopped for longer than the detection of a death takes; the others wait for it.
 */
static int stop_last_rank(party_rank_t *self) {
  pid_t *pid = harness_board();
  int32_t one = 1, sum = 0;
  bool is_last = self->rank == self->size - 1;
  if (is_last) *pid = getpid();
  PARTY_OK(coll_barrier(self->comm, NULL));
  if (self->rank == 0) {
    pid_t waker = fork();
    kill(*pid, SIGSTOP);
    if (waker == 0) {
      base_clock_sleep_ns(700 * MS_NS);
      kill(*pid, SIGCONT);
      _exit(0);
    }
  }
  for (int round = 0; round < 20; round++) {
    PARTY_OK(coll_allreduce(&one, &sum, 1, COLL_INT32, COLL_SUM, self->comm, NULL));
    PARTY_REQUIRE(sum == self->size, "sum %d", sum);
  }
  return 0;
}

Test(leaving, is_not_what_a_stopped_rank_does) {
  harness_result_t result;
  cr_assert(party_processes(3, TIMEOUT_MS, stop_last_rank, NULL, &result), "%s", result.text);
}

/* ---- connections that a living process closes -----------------------------------------------*/

static void execute(void) {
  execlp("sleep", "sleep", "60", (char *)NULL);
}

static void close_all(void) {
  closefrom(3);
  pause();
}

/* Rank 1 closes its connections and lives on, until rank 0 has been told. */
static int close_connections(party_rank_t *self) {
  void (*const *close_them)(void) = self->context;
  pid_t *pid = harness_board();
  if (self->rank == 1) *pid = getpid();
  PARTY_OK(coll_barrier(self->comm, NULL));
  if (self->rank == 1) {
    (*close_them)();
    return harness_fail("rank 1 goes on");
  }
  int code = loop_until(self, COLL_ERROR_RANK_LOST,
                        ") lives, but its connection has ended (it has called exec or closed all "
                        "its descriptors, or the connection was reset) while call ",
                        NULL);
  kill(*pid, SIGKILL);
  return code;
}

static void expect_closed(void (*close_them)(void)) {
  harness_result_t result;
  party_processes(2, TIMEOUT_MS, close_connections, &close_them, &result);
  cr_assert(result.ranks[0].end == HARNESS_RETURNED && result.ranks[0].value == 0, "%s",
            result.text);
  cr_assert_eq(result.ranks[1].end, HARNESS_KILLED, "%s", result.text);
}

Test(leaving, by_exec_is_no_death) {
  expect_closed(execute);
}

Test(leaving, by_exec_is_no_death_over_tcp) {
  setenv("COLL_TRANSPORTS", "tcp", 1);
  expect_closed(execute);
}

Test(leaving, by_closing_all_descriptors_is_no_death) {
  expect_closed(close_all);
}

/*
 * Calls that wait too long: one rank prints one report per call, which names the missing rank, its
 * last call and the state of its process. With a timeout, all ranks fail with the same text.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "hang_scene.h"
#include "harness/sample.h"
#include "lifetime/create.h"
#include "watch/missing.h"

/* ---- late ranks -----------------------------------------------------------------------------*/

#define LIMIT_MS 200

static bool run_processes(int size, party_body_t body, hang_scene_t *scene,
                          harness_result_t *result) {
  virtual_time_begin();
  return party_processes(size, 60000, body, scene, result);
}

static int require_one_report(party_rank_t *self) {
  const hang_waiters_t others = hang_all_others(self);
  return hang_require_reports(self, &others, LIMIT_MS * MS, 1);
}

static int be_late_for_allreduce(party_rank_t *self) {
  return hang_be_late_for_allreduce(self, require_one_report);
}

static bool begins_with(const char *text, const char *words) {
  return strncmp(text, words, strlen(words)) == 0;
}

/* The thread of ThreadSanitizer may run. */
static bool is_asleep(const char *text) {
  if (HARNESS_BUILD == HARNESS_THREAD && begins_with(text, "running\n")) return true;
  return begins_with(text, "sleeping\n");
}

/* Rank 1 of 4 is late; the report must be exactly this line. */
static void expect_report(hang_lateness_t lateness, const char *process) {
  hang_scene_t scene = {.lateness = lateness, .late_rank = 1, .errors = hang_open_errors()};
  harness_result_t result;
  char text[HANG_REPORT_BYTES], *at;
  hang_set_limits("200", "0");
  cr_assert(run_processes(4, be_late_for_allreduce, &scene, &result), "%s", result.text);
  int lines = hang_read_errors(scene.errors, text);
  cr_assert(lines == 1, "%d reports: %s", lines, text);
  const char *begins = "libcoll: rank 1 (pid ";
  cr_assert(strncmp(text, begins, strlen(begins)) == 0, "%s", text);
  at = strstr(text,
              ") has not entered call 1, allreduce(float32, sum, count 5), which ranks 0, 2 "
              "and 3 have been in for at least 0.2 s; its last call was 0, broadcast(float32, "
              "count 5, root 0); the process is ");
  cr_assert(at != NULL, "%s", text);
  at = strstr(at, "process is ") + strlen("process is ");
  bool is_right = lateness == LATE_SLEEPING ? is_asleep(at) : begins_with(at, process);
  cr_assert(is_right, "%s", text);
}

Test(hang, names_a_rank_that_sleeps) {
  expect_report(LATE_SLEEPING, "sleeping\n");
}

Test(hang, names_a_rank_that_is_stopped) {
  expect_report(LATE_STOPPED, "stopped\n");
}

Test(hang, names_a_rank_that_loops) {
  expect_report(LATE_LOOPING, "running\n");
}

/* Threads of one process; several are missing. */
static int be_late_among_threads(party_rank_t *self) {
  hang_waiters_t waiters = {0};
  int code = 0;
  for (int rank = 0; rank < 2; rank++) hang_add_waiter(&waiters, self->comm, rank);
  virtual_time_freeze();
  harness_barrier();
  if (self->rank == 2) {
    code = hang_require_reports(self, &waiters, LIMIT_MS * MS, 1);
    atomic_store(&hang_note()->is_over, true);
  }
  while (self->rank == 3 && !atomic_load(&hang_note()->is_over)) base_clock_sleep_ns(MS);
  PARTY_OK(coll_barrier(self->comm, NULL));
  return code;
}

Test(hang, names_several_threads) {
  hang_scene_t scene = {.errors = hang_open_errors()};
  harness_result_t result;
  char text[HANG_REPORT_BYTES], *at;
  int own_errors = dup(STDERR_FILENO);
  hang_set_limits("200", "0");
  virtual_time_begin();
  dup2(scene.errors, STDERR_FILENO);
  bool good = party_threads(4, 60000, be_late_among_threads, &scene, &result);
  dup2(own_errors, STDERR_FILENO);
  cr_assert(good, "%s", result.text);
  int lines = hang_read_errors(scene.errors, text);
  cr_assert(lines == 1, "%d reports: %s", lines, text);
  at = strstr(text, "ranks 2 and 3 have not entered call 0, barrier(), which ranks 0 and 1 have ");
  cr_assert(at != NULL, "%s", text);
  at = strstr(at, "): it has made no call; it is a thread of this process; rank 3 (pid ");
  cr_assert(at != NULL, "%s", text);
}

/* Rank 0 should report but is stopped while it waits: rank 1 reports rank 2, after twice the limit.
 */
static int stop_the_first(party_rank_t *self) {
  const hang_scene_t *scene = self->context;
  const hang_waiters_t both = hang_all_others(self);
  const pid_t first = atomic_load(&hang_note()->pids[0]);
  hang_waiters_t second = {0};
  hang_add_waiter(&second, self->comm, 1);
  hang_await_waiters(&both);
  hang_let_pass(&both, 150 * MS);
  kill(first, SIGSTOP);
  hang_await_stopped(first);
  PARTY_REQUIRE(hang_let_pass(&second, 240 * MS), "rank 1 does not wait");
  PARTY_REQUIRE(hang_count_errors(scene->errors) == 0, "reported too early");
  PARTY_REQUIRE(hang_let_pass(&second, 10 * MS), "rank 1 does not wait");
  PARTY_REQUIRE(hang_count_errors(scene->errors) == 1, "not reported by rank 1");
  kill(first, SIGCONT);
  PARTY_REQUIRE(hang_let_pass(&both, 3 * LIMIT_MS * MS), "a wait has ended");
  return 0;
}

static int wait_and_be_stopped(party_rank_t *self) {
  hang_begin(self);
  if (self->rank == 2) PARTY_TRY(stop_the_first(self));
  PARTY_OK(coll_barrier(self->comm, NULL));
  return 0;
}

Test(hang, is_reported_by_the_next_rank) {
  hang_scene_t scene = {.errors = hang_open_errors()};
  harness_result_t result;
  char text[HANG_REPORT_BYTES];
  hang_set_limits("200", "0");
  cr_assert(run_processes(3, wait_and_be_stopped, &scene, &result), "%s", result.text);
  int lines = hang_read_errors(scene.errors, text);
  cr_assert(lines == 1, "%d reports: %s", lines, text);
  cr_assert(strncmp(text, "libcoll: rank 2 (pid ", 21) == 0, "%s", text);
}

/* The report of a rank that is in the call and does not wait. */
Test(hang, names_a_rank_that_does_not_go_on) {
  const flight_words_t words = {.verb = COLL_BARRIER, .op = FLIGHT_OP_NONE};
  const flight_call_t call = flight_call_make(&words);
  const uint64_t peers = 2;
  coll_comm_t comms[4];
  char text[512], *at;
  hang_set_limits("0", "0");
  cr_assert(coll_comm_create_local(4, NULL, comms) == COLL_OK);
  for (int rank = 0; rank < 4; rank++) {
    flight_recorder_t *own = comms[rank]->local->flight;
    const flight_standstill_t wait = {
        .begin_ns = 1, .call = call, .peers = &peers, .words = 1, .collectives = 1};
    flight_record(own, 0, call.what, call.count);
    if (rank != 1) flight_wait_publish(own, &wait);
  }
  comms[0]->watched.hang.seen_ns = 31000 * MS;
  cr_assert(watch_missing_describe(comms[0], 30500 * MS, text, sizeof text) == 1);
  at = strstr(text,
              ") does not go on in call 0, barrier(), which ranks 0, 2 and 3 have been in "
              "for at least 30 s; it does not wait; it is a thread of this process");
  cr_assert(at != NULL && strncmp(text, "rank 1 (pid ", 12) == 0, "%s", text);
  flight_wait_publish(
      comms[1]->local->flight,
      &(flight_standstill_t){
          .begin_ns = 1, .call = call, .peers = &peers, .words = 1, .collectives = 1});
  cr_assert(watch_missing_describe(comms[0], 30500 * MS, text, sizeof text) == 1);
  at = strstr(text,
              ") does not go on in call 0, barrier(), which ranks 0 to 3 have been in for "
              "at least 30 s; it waits in call 0, barrier(), for rank 1");
  cr_assert(at != NULL, "%s", text);
  for (int rank = 0; rank < 4; rank++) {
    flight_wait_end(comms[rank]->local->flight);
    coll_comm_destroy(comms[rank]);
  }
}

/* ---- what no report is made of --------------------------------------------------------------*/

/* Rank 0 waits while both ranks are stopped, and is resumed a little earlier than the rank it waits
 * for. */
static int suspend_both(party_rank_t *self) {
  const hang_scene_t *scene = self->context;
  const hang_waiters_t others = hang_all_others(self);
  const pid_t pid = atomic_load(&hang_note()->pids[0]);
  hang_await_waiters(&others);
  hang_let_pass(&others, 100 * MS);
  kill(pid, SIGSTOP);
  hang_await_stopped(pid);
  virtual_time_advance(1500 * MS);
  kill(pid, SIGCONT);
  PARTY_REQUIRE(hang_let_pass(&others, 100 * MS), "rank 0 does not wait any longer");
  PARTY_REQUIRE(hang_count_errors(scene->errors) == 0, "a report");
  return 0;
}

static int be_suspended(party_rank_t *self) {
  hang_begin(self);
  if (self->rank == 1) PARTY_TRY(hang_be_late(self, suspend_both));
  PARTY_OK(coll_barrier(self->comm, NULL));
  return 0;
}

Test(hang, reports_nothing_of_a_suspended_job) {
  hang_scene_t scene = {.lateness = LATE_STOPPED, .errors = hang_open_errors()};
  harness_result_t result;
  char text[HANG_REPORT_BYTES];
  hang_set_limits("700", "900");
  cr_assert(run_processes(2, be_suspended, &scene, &result), "%s", result.text);
  cr_assert(hang_read_errors(scene.errors, text) == 0, "%s", text);
}

static int wait_without_limits(party_rank_t *self) {
  hang_begin(self);
  if (self->rank == 1) {
    const hang_waiters_t others = hang_all_others(self);
    hang_await_waiters(&others);
    for (int hours = 0; hours < 50; hours++) {
      virtual_time_advance(3600 * 1000 * MS);
      PARTY_REQUIRE(hang_look_again(&others), "the wait has ended");
    }
  }
  PARTY_OK(coll_barrier(self->comm, NULL));
  return 0;
}

Test(hang, reports_nothing_with_0) {
  hang_scene_t scene = {.errors = hang_open_errors()};
  harness_result_t result;
  char text[HANG_REPORT_BYTES];
  hang_set_limits("0", "0");
  cr_assert(run_processes(2, wait_without_limits, &scene, &result), "%s", result.text);
  cr_assert(hang_read_errors(scene.errors, text) == 0, "%s", text);
}

/* ---- other waits ----------------------------------------------------------------------------*/

/* Rank 0 waits for rank 1, which waits for rank 2 on another communicator. */
static int wait_elsewhere(party_rank_t *self) {
  coll_comm_t child;
  hang_begin(self);
  PARTY_OK(coll_comm_split(self->comm, self->rank > 0, 0, NULL, &child));
  if (self->rank == 2) {
    hang_waiters_t waiters = {0};
    hang_add_waiter(&waiters, self->comm, 0);
    hang_add_waiter(&waiters, child, 0);
    PARTY_TRY(hang_require_reports(self, &waiters, LIMIT_MS * MS, 2));
  }
  if (self->rank > 0) PARTY_OK(coll_barrier(child, NULL));
  PARTY_OK(coll_barrier(self->comm, NULL));
  PARTY_OK(coll_comm_destroy(child));
  return 0;
}

Test(hang, names_the_other_communicator) {
  hang_scene_t scene = {.errors = hang_open_errors()};
  harness_result_t result;
  char text[HANG_REPORT_BYTES];
  hang_set_limits("200", "0");
  cr_assert(run_processes(3, wait_elsewhere, &scene, &result), "%s", result.text);
  int lines = hang_read_errors(scene.errors, text);
  cr_assert(lines == 2, "%d reports: %s", lines, text);
  cr_assert(strstr(text,
                   "ranks 1 and 2 have not entered call 2, barrier(), which rank 0 has been "
                   "in for at least 0.") != NULL,
            "%s", text);
  cr_assert(strstr(text,
                   "): it waits in call 0, barrier(), of another communicator, as rank 0 of "
                   "2, for rank 1; rank 2 (pid ") != NULL,
            "%s", text);
  cr_assert(strstr(text, "has not entered call 0, barrier(), which rank 0 has been in") != NULL,
            "%s", text);
}

/* Ranks 0 and 2 wait for rank 1 in a receive and in a barrier. */
static int require_two_reports(party_rank_t *self) {
  const hang_waiters_t others = hang_all_others(self);
  return hang_require_reports(self, &others, LIMIT_MS * MS, 2);
}

static int wait_for_sends(party_rank_t *self) {
  float value = 1;
  hang_begin(self);
  if (self->rank == 1) {
    PARTY_TRY(hang_be_late(self, require_two_reports));
    PARTY_OK(coll_send(&value, 1, COLL_FLOAT32, 0, self->comm, NULL));
  } else if (self->rank == 0) {
    PARTY_OK(coll_recv(&value, 1, COLL_FLOAT32, 1, self->comm, NULL));
  }
  PARTY_OK(coll_barrier(self->comm, NULL));
  return 0;
}

Test(hang, names_sends_that_are_missing) {
  hang_scene_t scene = {.errors = hang_open_errors()};
  harness_result_t result;
  char text[HANG_REPORT_BYTES];
  hang_set_limits("200", "0");
  cr_assert(run_processes(3, wait_for_sends, &scene, &result), "%s", result.text);
  int lines = hang_read_errors(scene.errors, text);
  cr_assert(lines == 2, "%d reports: %s", lines, text);
  cr_assert(strstr(text,
                   ") has not sent to rank 0, which has been in call 0, recv(float32, count "
                   "1, from rank 1), for at least 0.") != NULL,
            "%s", text);
  const char *at = strstr(text, " s; it has made no call; the process is ");
  cr_assert(at != NULL, "%s", text);
  at = strstr(at, "process is ") + strlen("process is ");
  cr_assert(is_asleep(at), "%s", text);
  cr_assert(strstr(text,
                   "): it waits in call 0, recv(float32, count 1, from rank 1), for rank 1; "
                   "rank 1 (pid ") != NULL,
            "%s", text);
}

/* ---- timeouts -------------------------------------------------------------------------------*/

static int time_out(party_rank_t *self) {
  float values[5] = {0};
  hang_begin(self);
  PARTY_OK(coll_barrier(self->comm, NULL));
  if (self->rank == 2) {
    const hang_waiters_t others = hang_all_others(self);
    hang_await_waiters(&others);
    PARTY_REQUIRE(hang_let_pass(&others, 190 * MS), "a wait has ended too early");
    (void)hang_let_pass(&others, 10 * MS);
  }
  coll_status_t status =
      coll_allreduce(values, values, 5, COLL_FLOAT32, COLL_SUM, self->comm, NULL);
  PARTY_REQUIRE(status == COLL_ERROR_TIMEOUT, "%s: %s", coll_status_string(status),
                coll_last_error(NULL));
  snprintf(hang_note()->sentences[self->rank], COMM_ERROR_BYTES, "%s", coll_last_error(NULL));
  harness_barrier();
  const char *own = hang_note()->sentences[self->rank];
  PARTY_REQUIRE(strcmp(own, hang_note()->sentences[0]) == 0, "sentences differ: %s", own);
  PARTY_REQUIRE(strncmp(own, "rank 2 (pid ", 12) == 0, "%s", own);
  PARTY_REQUIRE(strstr(own,
                       ") has not entered call 1, allreduce(float32, sum, count 5), which "
                       "rank") != NULL,
                "%s", own);
  /* asleep, but for moments: a sanitizer has a thread of its own */
  PARTY_REQUIRE(strstr(own, "its last call was 0, barrier(); the process is ") != NULL, "%s", own);
  PARTY_REQUIRE(coll_comm_error(self->comm) == COLL_ERROR_TIMEOUT, "the communicator works");
  int missing = -2;
  PARTY_REQUIRE(coll_comm_failed_rank(self->comm, &missing) == COLL_OK, "%s",
                coll_last_error(NULL));
  PARTY_REQUIRE(missing == 2, "rank %d is given as the missing one", missing);
  return 0;
}

Test(hang, times_out_for_all_ranks_alike) {
  hang_scene_t scene = {.errors = hang_open_errors()};
  harness_result_t result;
  char text[HANG_REPORT_BYTES];
  hang_set_limits("0", "200");
  cr_assert(run_processes(4, time_out, &scene, &result), "%s", result.text);
  cr_assert(hang_read_errors(scene.errors, text) == 0, "%s", text);
}

/* Ranks that time out at the same time. */
Test(hang, has_one_sentence_for_all_timeouts) {
  coll_comm_t comms[2];
  hang_set_limits("0", "0");
  cr_assert(coll_comm_create_local(2, NULL, comms) == COLL_OK);
  comm_fail(comms[1], base_fail(COLL_ERROR_TIMEOUT, "the first"), 0);
  comm_fail(comms[0], base_fail(COLL_ERROR_TIMEOUT, "the second"), 1);
  for (int rank = 0; rank < 2; rank++) {
    cr_assert(coll_comm_error(comms[rank]) == COLL_ERROR_TIMEOUT);
    cr_assert(strcmp(coll_last_error(comms[rank]), "the first") == 0, "rank %d: %s", rank,
              coll_last_error(comms[rank]));
    coll_comm_destroy(comms[rank]);
  }
}

/* ---- settings -------------------------------------------------------------------------------*/

static comm_limits_t limits_of(const coll_comm_config_t *config) {
  coll_unique_id_t id;
  coll_comm_t comm, child;
  cr_assert(coll_unique_id_create(NULL, &id) == COLL_OK);
  cr_assert(coll_comm_create(&id, 0, 1, config, &comm) == COLL_OK, "%s", coll_last_error(NULL));
  cr_assert(coll_comm_split(comm, 0, 0, NULL, &child) == COLL_OK);
  comm_limits_t limits = comm->watched.limits;
  cr_assert(memcmp(&limits, &child->watched.limits, sizeof limits) == 0, "a child has others");
  coll_comm_destroy(child);
  coll_comm_destroy(comm);
  return limits;
}

Test(hang, is_set_by_variables) {
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  hang_set_limits("300", "700");
  comm_limits_t limits = limits_of(NULL);
  cr_assert(limits.hang_ns == 300 * MS && limits.timeout_ns == 700 * MS);
  config.hang_ms = 100;
  config.call_timeout_ms = -1;
  limits = limits_of(&config);
  cr_assert(limits.hang_ns == 300 * MS && limits.timeout_ns == 700 * MS);
}

Test(hang, is_set_by_config) {
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  unsetenv("COLL_HANG_MS");
  unsetenv("COLL_CALL_TIMEOUT_MS");
  config.hang_ms = 100;
  config.call_timeout_ms = -1;
  comm_limits_t limits = limits_of(&config);
  cr_assert(limits.hang_ns == 100 * MS && limits.timeout_ns == 0);
  config.hang_ms = -5;
  config.call_timeout_ms = 50;
  limits = limits_of(&config);
  cr_assert(limits.hang_ns == 0 && limits.timeout_ns == 50 * MS);
}

Test(hang, refuses_wrong_knobs) {
  coll_comm_t comm;
  hang_set_limits("soon", "0");
  cr_assert(coll_comm_create_local(1, NULL, &comm) == COLL_ERROR_INVALID);
  cr_assert(strstr(coll_last_error(NULL), "COLL_HANG_MS") != NULL);
}

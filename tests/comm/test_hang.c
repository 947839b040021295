/*
 * Calls that wait too long: one rank prints one report per call, which names the missing rank, its
 * last call and the state of its process. With a timeout, all ranks fail with the same text. What
 * the ranks print is collected in a file that replaces standard error.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/comm.h"
#include "comm/create.h"
#include "comm/missing.h"
#include "harness/party.h"

#define MS UINT64_C(1000000)
#define LATE_NS (800 * MS) /* how late a rank is, so that it is reported */
#define REPORT_BYTES 8192

typedef enum lateness { LATE_SLEEPING, LATE_STOPPED, LATE_LOOPING, LATE_GONE } lateness_t;

typedef struct scene {
  lateness_t lateness;
  int late_rank;
  int errors; /* the file that replaces standard error; 0: none */
} scene_t;

/* On the harness's board, behind the data of party.h. */
typedef struct note {
  _Atomic int pids[HARNESS_RANKS_MAX];
  char sentences[HARNESS_RANKS_MAX][COMM_ERROR_BYTES];
} note_t;

static note_t *note(void) {
  return (note_t *)(void *)((char *)harness_board() + 4096);
}

/* A file without a name. */
static int open_errors(void) {
  char path[] = "/tmp/libcoll-hang-XXXXXX";
  int fd = mkstemp(path);
  cr_assert(fd >= 0);
  unlink(path);
  fcntl(fd, F_SETFL, O_APPEND);
  return fd;
}

static int read_errors(int errors, char text[REPORT_BYTES]) {
  ssize_t got = pread(errors, text, REPORT_BYTES - 1, 0);
  int lines = 0;
  text[got > 0 ? got : 0] = '\0';
  for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++) lines++;
  close(errors);
  return lines;
}

static void begin(party_rank_t *self) {
  const scene_t *scene = self->context;
  if (scene->errors > 0) dup2(scene->errors, STDERR_FILENO);
  atomic_store(&note()->pids[self->rank], (int)getpid());
  harness_barrier();
}

static void set_limits(const char *hang_ms, const char *timeout_ms) {
  setenv("COLL_HANG_MS", hang_ms, 1);
  setenv("COLL_CALL_TIMEOUT_MS", timeout_ms, 1);
}

/* ---- late ranks -----------------------------------------------------------------------------*/

/* Sends signals to all ranks of [from, to] and exits. It is a separate process, so that it runs
 * while they are stopped. */
static void signal_later(int from, int to, int number, uint64_t delay_ns) {
  if (fork() != 0) return;
  base_clock_sleep_ns(delay_ns);
  for (int rank = from; rank <= to; rank++) kill(atomic_load(&note()->pids[rank]), number);
  _exit(0);
}

static void loop_for(uint64_t duration_ns) {
  uint64_t end_ns = base_clock_now_ns() + duration_ns;
  while (base_clock_now_ns() < end_ns) continue;
}

static void be_late(const scene_t *scene, int rank) {
  switch (scene->lateness) {
    case LATE_SLEEPING: base_clock_sleep_ns(LATE_NS * HARNESS_PATIENCE); break;
    case LATE_LOOPING: loop_for(LATE_NS * HARNESS_PATIENCE); break;
    case LATE_GONE: _exit(0);
    case LATE_STOPPED:
      signal_later(rank, rank, SIGCONT, LATE_NS * HARNESS_PATIENCE);
      raise(SIGSTOP);
      break;
  }
}

static int be_late_for_allreduce(party_rank_t *self) {
  const scene_t *scene = self->context;
  float values[5] = {1, 2, 3, 4, 5};
  begin(self);
  PARTY_OK(coll_broadcast(values, values, 5, COLL_FLOAT32, 0, self->comm, NULL));
  if (self->rank == scene->late_rank) be_late(scene, self->rank);
  PARTY_OK(coll_allreduce(values, values, 5, COLL_FLOAT32, COLL_SUM, self->comm, NULL));
  PARTY_OK(coll_barrier(self->comm, NULL));
  return 0;
}

/* Rank 1 of 4 is late; the report must be exactly this line. */
static void expect_report(lateness_t lateness, const char *process) {
  scene_t scene = {.lateness = lateness, .late_rank = 1, .errors = open_errors()};
  harness_result_t result;
  char text[REPORT_BYTES], *at;
  set_limits("200", "0");
  cr_assert(party_processes(4, 20000, be_late_for_allreduce, &scene, &result), "%s", result.text);
  int lines = read_errors(scene.errors, text);
  cr_assert(lines == 1, "%d reports: %s", lines, text);
  const char *begins = "libcoll: rank 1 (pid ";
  cr_assert(strncmp(text, begins, strlen(begins)) == 0, "%s", text);
  at = strstr(text,
              ") has not entered call 1, allreduce(float32, sum, count 5), which ranks 0, 2 "
              "and 3 have been in for at least 0.");
  cr_assert(at != NULL, "%s", text);
  at = strstr(at, " s; its last call was 0, broadcast(float32, count 5, root 0); the process is ");
  cr_assert(at != NULL && strstr(at, process) != NULL, "%s", text);
}

Test(hang, names_a_rank_that_sleeps) {
  expect_report(LATE_SLEEPING, "the process is sleeping\n");
}

Test(hang, names_a_rank_that_is_stopped) {
  expect_report(LATE_STOPPED, "the process is stopped\n");
}

Test(hang, names_a_rank_that_loops) {
  expect_report(LATE_LOOPING, "the process is running\n");
}

/* Threads of one process; several are missing. */
static int be_late_among_threads(party_rank_t *self) {
  if (self->rank > 1) base_clock_sleep_ns(LATE_NS * HARNESS_PATIENCE);
  PARTY_OK(coll_barrier(self->comm, NULL));
  return 0;
}

Test(hang, names_several_threads) {
  scene_t scene = {.errors = open_errors()};
  harness_result_t result;
  char text[REPORT_BYTES], *at;
  int own_errors = dup(STDERR_FILENO);
  set_limits("200", "0");
  dup2(scene.errors, STDERR_FILENO);
  bool good = party_threads(4, 20000, be_late_among_threads, &scene, &result);
  dup2(own_errors, STDERR_FILENO);
  cr_assert(good, "%s", result.text);
  int lines = read_errors(scene.errors, text);
  cr_assert(lines == 1, "%d reports: %s", lines, text);
  at = strstr(text, "ranks 2 and 3 have not entered call 0, barrier(), which ranks 0 and 1 have ");
  cr_assert(at != NULL, "%s", text);
  at = strstr(at, "): it has made no call; it is a thread of this process; rank 3 (pid ");
  cr_assert(at != NULL, "%s", text);
}

/* Rank 0 should report but is stopped while it waits: rank 1 reports rank 2. */
static int wait_and_be_stopped(party_rank_t *self) {
  begin(self);
  if (self->rank == 0) {
    signal_later(0, 0, SIGSTOP, 150 * MS);
    signal_later(0, 0, SIGCONT, 2000 * MS * HARNESS_PATIENCE);
  }
  if (self->rank == 2) base_clock_sleep_ns(1500 * MS * HARNESS_PATIENCE);
  PARTY_OK(coll_barrier(self->comm, NULL));
  return 0;
}

Test(hang, is_reported_by_the_next_rank) {
  scene_t scene = {.errors = open_errors()};
  harness_result_t result;
  char text[REPORT_BYTES];
  set_limits("250", "0");
  cr_assert(party_processes(3, 20000, wait_and_be_stopped, &scene, &result), "%s", result.text);
  int lines = read_errors(scene.errors, text);
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
  set_limits("0", "0");
  cr_assert(coll_comm_create_local(4, comms) == COLL_OK);
  for (int rank = 0; rank < 4; rank++) {
    flight_recorder_t *own = comms[rank]->local->flight;
    const flight_standstill_t wait = {
        .begin_ns = 1, .call = call, .peers = &peers, .words = 1, .collectives = 1};
    flight_record(own, 0, call.what, call.count);
    if (rank != 1) flight_wait_publish(own, &wait);
  }
  comms[0]->hang.seen_ns = 31000 * MS;
  cr_assert(comm_missing_describe(comms[0], 30500 * MS, text, sizeof text) == 1);
  at = strstr(text,
              ") does not go on in call 0, barrier(), which ranks 0, 2 and 3 have been in "
              "for at least 30 s; it does not wait; it is a thread of this process");
  cr_assert(at != NULL && strncmp(text, "rank 1 (pid ", 12) == 0, "%s", text);
  flight_wait_publish(
      comms[1]->local->flight,
      &(flight_standstill_t){
          .begin_ns = 1, .call = call, .peers = &peers, .words = 1, .collectives = 1});
  cr_assert(comm_missing_describe(comms[0], 30500 * MS, text, sizeof text) == 1);
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
static int be_suspended(party_rank_t *self) {
  begin(self);
  if (self->rank == 0) {
    signal_later(0, 1, SIGSTOP, 100 * MS);
    signal_later(0, 0, SIGCONT, 1500 * MS);
    signal_later(1, 1, SIGCONT, 1600 * MS);
  } else {
    base_clock_sleep_ns(150 * MS);
  }
  PARTY_OK(coll_barrier(self->comm, NULL));
  return 0;
}

Test(hang, reports_nothing_of_a_suspended_job) {
  scene_t scene = {.errors = open_errors()};
  harness_result_t result;
  char text[REPORT_BYTES];
  set_limits("700", "900");
  cr_assert(party_processes(2, 20000, be_suspended, &scene, &result), "%s", result.text);
  cr_assert(read_errors(scene.errors, text) == 0, "%s", text);
}

static int wait_without_limits(party_rank_t *self) {
  begin(self);
  if (self->rank == 1) base_clock_sleep_ns(300 * MS);
  PARTY_OK(coll_barrier(self->comm, NULL));
  return 0;
}

Test(hang, reports_nothing_with_0) {
  scene_t scene = {.errors = open_errors()};
  harness_result_t result;
  char text[REPORT_BYTES];
  set_limits("0", "0");
  cr_assert(party_processes(2, 20000, wait_without_limits, &scene, &result), "%s", result.text);
  cr_assert(read_errors(scene.errors, text) == 0, "%s", text);
}

/* ---- other waits ----------------------------------------------------------------------------*/

/* Rank 0 waits for rank 1, which waits for rank 2 on another communicator. */
static int wait_elsewhere(party_rank_t *self) {
  coll_comm_t child;
  begin(self);
  PARTY_OK(coll_comm_split(self->comm, self->rank > 0, 0, &child));
  if (self->rank == 2) base_clock_sleep_ns(LATE_NS * HARNESS_PATIENCE);
  if (self->rank > 0) PARTY_OK(coll_barrier(child, NULL));
  PARTY_OK(coll_barrier(self->comm, NULL));
  PARTY_OK(coll_comm_destroy(child));
  return 0;
}

Test(hang, names_the_other_communicator) {
  scene_t scene = {.errors = open_errors()};
  harness_result_t result;
  char text[REPORT_BYTES];
  set_limits("200", "0");
  cr_assert(party_processes(3, 20000, wait_elsewhere, &scene, &result), "%s", result.text);
  int lines = read_errors(scene.errors, text);
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
static int wait_for_sends(party_rank_t *self) {
  float value = 1;
  begin(self);
  if (self->rank == 1) {
    base_clock_sleep_ns(LATE_NS * HARNESS_PATIENCE);
    PARTY_OK(coll_send(&value, 1, COLL_FLOAT32, 0, self->comm, NULL));
  } else if (self->rank == 0) {
    PARTY_OK(coll_recv(&value, 1, COLL_FLOAT32, 1, self->comm, NULL));
  }
  PARTY_OK(coll_barrier(self->comm, NULL));
  return 0;
}

Test(hang, names_sends_that_are_missing) {
  scene_t scene = {.errors = open_errors()};
  harness_result_t result;
  char text[REPORT_BYTES];
  set_limits("200", "0");
  cr_assert(party_processes(3, 20000, wait_for_sends, &scene, &result), "%s", result.text);
  int lines = read_errors(scene.errors, text);
  cr_assert(lines == 2, "%d reports: %s", lines, text);
  cr_assert(strstr(text,
                   ") has not sent to rank 0, which has been in call 0, recv(float32, count "
                   "1, from rank 1), for at least 0.") != NULL,
            "%s", text);
  cr_assert(strstr(text, " s; it has made no call; the process is sleeping\n") != NULL, "%s", text);
  cr_assert(strstr(text,
                   "): it waits in call 0, recv(float32, count 1, from rank 1), for rank 1; "
                   "rank 1 (pid ") != NULL,
            "%s", text);
}

/* ---- timeouts -------------------------------------------------------------------------------*/

static int time_out(party_rank_t *self) {
  float values[5] = {0};
  begin(self);
  PARTY_OK(coll_barrier(self->comm, NULL));
  if (self->rank == 2) base_clock_sleep_ns(LATE_NS * HARNESS_PATIENCE);
  coll_status_t status =
      coll_allreduce(values, values, 5, COLL_FLOAT32, COLL_SUM, self->comm, NULL);
  PARTY_REQUIRE(status == COLL_ERROR_TIMEOUT, "%s: %s", coll_status_string(status),
                coll_last_error(NULL));
  snprintf(note()->sentences[self->rank], COMM_ERROR_BYTES, "%s", coll_last_error(NULL));
  harness_barrier();
  const char *own = note()->sentences[self->rank];
  PARTY_REQUIRE(strcmp(own, note()->sentences[0]) == 0, "sentences differ: %s", own);
  PARTY_REQUIRE(strncmp(own, "rank 2 (pid ", 12) == 0, "%s", own);
  PARTY_REQUIRE(strstr(own,
                       ") has not entered call 1, allreduce(float32, sum, count 5), which "
                       "rank") != NULL,
                "%s", own);
  PARTY_REQUIRE(strstr(own, "its last call was 0, barrier(); the process is sleeping") != NULL,
                "%s", own);
  PARTY_REQUIRE(coll_comm_error(self->comm) == COLL_ERROR_TIMEOUT, "the communicator works");
  return 0;
}

Test(hang, times_out_for_all_ranks_alike) {
  scene_t scene = {.errors = open_errors()};
  harness_result_t result;
  char text[REPORT_BYTES];
  set_limits("0", "200");
  cr_assert(party_processes(4, 20000, time_out, &scene, &result), "%s", result.text);
  cr_assert(read_errors(scene.errors, text) == 0, "%s", text);
}

/* Ranks that time out at the same time. */
Test(hang, has_one_sentence_for_all_timeouts) {
  coll_comm_t comms[2];
  set_limits("0", "0");
  cr_assert(coll_comm_create_local(2, comms) == COLL_OK);
  comm_finish(comms[1], base_fail(COLL_ERROR_TIMEOUT, "the first"), 0);
  comm_finish(comms[0], base_fail(COLL_ERROR_TIMEOUT, "the second"), 1);
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
  cr_assert(coll_unique_id_create(&id) == COLL_OK);
  cr_assert(coll_comm_create(&id, 0, 1, config, &comm) == COLL_OK, "%s", coll_last_error(NULL));
  cr_assert(coll_comm_split(comm, 0, 0, &child) == COLL_OK);
  comm_limits_t limits = comm->limits;
  cr_assert(memcmp(&limits, &child->limits, sizeof limits) == 0, "a child has others");
  coll_comm_destroy(child);
  coll_comm_destroy(comm);
  return limits;
}

Test(hang, is_set_by_config) {
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  set_limits("300", "700");
  comm_limits_t limits = limits_of(NULL);
  cr_assert(limits.hang_ns == 300 * MS && limits.timeout_ns == 700 * MS);
  limits = limits_of(&config);
  cr_assert(limits.hang_ns == 300 * MS && limits.timeout_ns == 700 * MS);
  config.hang_ms = 100;
  config.call_timeout_ms = -1;
  limits = limits_of(&config);
  cr_assert(limits.hang_ns == 100 * MS && limits.timeout_ns == 0);
  config.hang_ms = -5;
  config.call_timeout_ms = 50;
  limits = limits_of(&config);
  cr_assert(limits.hang_ns == 0 && limits.timeout_ns == 50 * MS);
  config.struct_bytes = 16; /* a program that was built with an older coll.h without these fields */
  limits = limits_of(&config);
  cr_assert(limits.hang_ns == 300 * MS && limits.timeout_ns == 700 * MS);
}

Test(hang, refuses_wrong_knobs) {
  coll_comm_t comm;
  set_limits("soon", "0");
  cr_assert(coll_comm_create_local(1, &comm) == COLL_ERROR_INVALID);
  cr_assert(strstr(coll_last_error(NULL), "COLL_HANG_MS") != NULL);
}

/* ---- dumps ----------------------------------------------------------------------------------*/

typedef struct dumper {
  coll_comm_t comm;
  char text[REPORT_BYTES];
  coll_status_t status, status_of_none;
} dumper_t;

static void *dump_later(void *argument) {
  dumper_t *dumper = argument;
  char path[] = "/tmp/libcoll-dump-XXXXXX";
  int fd = mkstemp(path);
  base_clock_sleep_ns(300 * MS);
  dumper->status = coll_comm_dump(dumper->comm, path);
  dumper->status_of_none = coll_comm_dump(dumper->comm, "/nowhere/at/all");
  FILE *file = fopen(path, "r");
  size_t got = file != NULL ? fread(dumper->text, 1, sizeof dumper->text - 1, file) : 0;
  dumper->text[got] = '\0';
  if (file != NULL) fclose(file);
  close(fd);
  unlink(path);
  return NULL;
}

/* Checks that the text is a table of so many lines and contains these words. */
static int check_table(party_rank_t *self, const char *table) {
  int pids[2] = {atomic_load(&note()->pids[0]), atomic_load(&note()->pids[1])};
  const char *second = strchr(table, '\n');
  const char *third = second != NULL ? strchr(second + 1, '\n') : NULL;
  PARTY_REQUIRE(third != NULL, "rank %d: %s", self->rank, table);
  PARTY_REQUIRE(strncmp(table, "comm  rank", 10) == 0, "%s", table);
  char pid[32];
  snprintf(pid, sizeof pid, "%d", pids[0]);
  PARTY_REQUIRE(
      strstr(second, pid) != NULL && strstr(second, "in 1, allreduce(float32, sum, ") != NULL, "%s",
      table);
  PARTY_REQUIRE(strstr(second, "for rank 1\n") != NULL, "%s", table);
  snprintf(pid, sizeof pid, "%d  stopped", pids[1]);
  PARTY_REQUIRE(
      strstr(third, pid) != NULL && strstr(third, "last 0, broadcast(float32, count 5, ") != NULL,
      "%s", table);
  return 0;
}

static int dump_while_all_hang(party_rank_t *self) {
  scene_t *scene = self->context;
  dumper_t dumper = {.comm = self->comm};
  pthread_t thread;
  if (self->rank == 0) pthread_create(&thread, NULL, dump_later, &dumper);
  int code = be_late_for_allreduce(self);
  if (self->rank != 0) return code;
  pthread_join(thread, NULL);
  PARTY_REQUIRE(dumper.status == COLL_OK, "%s", coll_status_string(dumper.status));
  PARTY_REQUIRE(dumper.status_of_none == COLL_ERROR_SYSTEM, "a file nowhere was written");
  PARTY_REQUIRE(coll_comm_dump(self->comm, NULL) == COLL_ERROR_INVALID, "NULL was written");
  PARTY_OK(coll_comm_dump(self->comm, "/dev/null"));
  PARTY_REQUIRE(access("/dev/null", F_OK) == 0, "a device was replaced");
  PARTY_REQUIRE(scene->lateness == LATE_STOPPED, "another scene");
  PARTY_TRY(check_table(self, dumper.text));
  return code;
}

Test(dump, by_another_thread_while_all_hang) {
  scene_t scene = {.lateness = LATE_STOPPED, .late_rank = 1};
  harness_result_t result;
  set_limits("0", "0");
  cr_assert(party_processes(2, 20000, dump_while_all_hang, &scene, &result), "%s", result.text);
}

/* The row of a rank that has exited. */
static int dump_the_dead(party_rank_t *self) {
  scene_t *scene = self->context;
  begin(self);
  PARTY_OK(coll_barrier(self->comm, NULL));
  if (self->rank == scene->late_rank) be_late(scene, self->rank);
  coll_status_t status = coll_barrier(self->comm, NULL);
  PARTY_REQUIRE(status == COLL_ERROR_RANK_LOST, "%s", coll_last_error(NULL));
  PARTY_REQUIRE(strstr(coll_last_error(NULL), "rank 1 (pid ") != NULL, "%s", coll_last_error(NULL));
  PARTY_OK(coll_comm_dump(self->comm, "-"));
  return 0;
}

Test(dump, shows_the_dead_on_standard_error) {
  scene_t scene = {.lateness = LATE_GONE, .late_rank = 1, .errors = open_errors()};
  harness_result_t result;
  char text[REPORT_BYTES];
  set_limits("0", "0");
  party_processes(2, 20000, dump_the_dead, &scene, &result);
  cr_assert(result.ranks[0].end == HARNESS_RETURNED && result.ranks[0].value == 0, "%s",
            result.text);
  int lines = read_errors(scene.errors, text);
  cr_assert(lines == 3 && strstr(text, "  exited") != NULL, "%s", text);
}

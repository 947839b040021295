/*
 * The rendezvous server and a process that plays many ranks: slow ones, a thousand of them, and one
 * that is stopped.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "bootstrap/rendezvous/server_state.h"
#include "bootstrap/rendezvous/wire.h"
#include "harness/party.h"
#include "harness/virtual_time.h"
#include "rendezvous_scenario.h"

#define LONG_MS 60000

enum { CROWD = 1024, FEW_FILES = 32, HELLO_BYTES = sizeof(wire_hello_t) + RENDEZVOUS_RECORD_MAX };

/* Sends bytes `from` to `to` of a rank's hello and record. */
static bool send_part_of_hello(int fd, int rank, int size, int timeout_ms, size_t from, size_t to) {
  struct {
    wire_hello_t hello;
    char record[RENDEZVOUS_RECORD_MAX];
  } message = {.hello = {.magic = WIRE_MAGIC,
                         .rank = rank,
                         .size = size,
                         .timeout_ms = timeout_ms,
                         .pid = (int32_t)getpid(),
                         .record_bytes = RENDEZVOUS_RECORD_MAX}};
  _Static_assert(sizeof message == HELLO_BYTES, "no padding between hello and record");
  uint64_t deadline_ns = base_clock_now_ns() + UINT64_C(60000000000);
  snprintf(message.record, sizeof message.record, "I am rank %d", rank);
  return wire_send(fd, (const char *)&message + from, to - from, deadline_ns);
}

static bool send_hello(int fd, int rank, int size, int timeout_ms) {
  return send_part_of_hello(fd, rank, size, timeout_ms, 0, HELLO_BYTES);
}

static bool receives_greeting(int fd) {
  wire_greeting_t greeting;
  uint64_t deadline_ns = base_clock_now_ns() + UINT64_C(60000000000);
  return wire_recv(fd, &greeting, sizeof greeting, deadline_ns) && greeting.magic == WIRE_MAGIC &&
         greeting.pid > 0;
}

/* After the greeting. */
static bool receives_records(int fd, int size) {
  static char records[CROWD][RENDEZVOUS_RECORD_MAX];
  uint64_t deadline_ns = base_clock_now_ns() + UINT64_C(60000000000);
  wire_answer_t answer;
  char expected[32];
  snprintf(expected, sizeof expected, "I am rank %d", size - 1);
  return wire_recv(fd, &answer, sizeof answer, deadline_ns) && answer.status == COLL_OK &&
         wire_recv(fd, records, (size_t)size * sizeof *records, deadline_ns) &&
         strcmp(records[size - 1], expected) == 0;
}

static bool send_report(int fd) {
  const wire_report_t report = {.status = COLL_OK};
  uint64_t deadline_ns = base_clock_now_ns() + UINT64_C(60000000000);
  return wire_send(fd, &report, sizeof report, deadline_ns);
}

static bool receives_verdict(int fd) {
  uint64_t deadline_ns = base_clock_now_ns() + UINT64_C(60000000000);
  wire_answer_t verdict;
  return wire_recv(fd, &verdict, sizeof verdict, deadline_ns) && verdict.status == COLL_OK;
}

static wire_answer_t answer_to(int fd) {
  uint64_t deadline_ns = base_clock_now_ns() + UINT64_C(60000000000);
  wire_answer_t answer;
  if (!wire_recv(fd, &answer, sizeof answer, deadline_ns)) answer.status = -1;
  return answer;
}

/* One of two callers pauses in the middle of its hello while the other is served. */
Test(rendezvous, waits_for_a_rank_that_is_slow_to_send_its_hello) {
  enum { HALF = 20 };
  rendezvous_scenario_t scenario = rendezvous_scenario(2);
  cr_assert_eq(rendezvous_server_start(&scenario.address), COLL_OK, "%s", base_last_error());
  int slow = rendezvous_dial(&scenario.address), quick = rendezvous_dial(&scenario.address);
  cr_assert(rendezvous_shake_hands(slow, &scenario.address));
  cr_assert(rendezvous_shake_hands(quick, &scenario.address));
  cr_assert(send_part_of_hello(slow, 0, 2, LONG_MS, 0, HALF));
  cr_assert(send_hello(quick, 1, 2, LONG_MS));
  cr_assert(receives_greeting(quick), "the quick one got no greeting");
  base_clock_sleep_ns(600000000);
  cr_assert(send_part_of_hello(slow, 0, 2, LONG_MS, HALF, HELLO_BYTES));
  cr_assert(receives_greeting(slow) && receives_records(slow, 2), "the slow one got no records");
  cr_assert(receives_records(quick, 2), "the quick one got no records");
  cr_assert(send_report(quick) && send_report(slow));
  cr_assert(receives_verdict(quick) && receives_verdict(slow));
  close(slow);
  close(quick);
}

/* ---- ranks that are missing -----------------------------------------------------------------*/

typedef struct missing {
  int size;
  bool has_few_files;
  const char *expected;
} missing_t;

/* Ranks 0 and 1 have joined, with time enough; then rank 4 joins, with little, in vain. */
static int miss_ranks(int process, int size, void *context) {
  const missing_t *missing = context;
  rendezvous_scenario_t scenario = rendezvous_scenario(0);
  static char records[CROWD][RENDEZVOUS_RECORD_MAX];
  char record[RENDEZVOUS_RECORD_MAX] = "";
  struct rlimit limit = {.rlim_cur = 40, .rlim_max = 40};
  int lines[2];
  rendezvous_link_t link;
  uint64_t session;
  (void)process, (void)size;
  if (missing->has_few_files) setrlimit(RLIMIT_NOFILE, &limit);
  PARTY_OK(rendezvous_server_start(&scenario.address));
  for (int rank = 0; rank < 2; rank++) {
    lines[rank] = rendezvous_join_until_greeted(&scenario.address, rank, missing->size, LONG_MS,
                                                sizeof record);
    PARTY_REQUIRE(lines[rank] >= 0, "rank %d cannot join", rank);
  }
  rendezvous_rank_t own = {
      .rank = 4, .size = missing->size, .record = record, .record_bytes = sizeof record};
  coll_status_t status = rendezvous_join(&scenario.address, &own, 1000, records, &session, &link);
  PARTY_REQUIRE(status == COLL_ERROR_TIMEOUT, "%s", base_status_string(status));
  PARTY_REQUIRE(strstr(base_last_error(), missing->expected) != NULL, "%s", base_last_error());
  for (int rank = 0; rank < 2; rank++) {
    wire_answer_t answer = answer_to(lines[rank]);
    PARTY_REQUIRE(answer.status == COLL_ERROR_TIMEOUT, "rank %d: status %d", rank, answer.status);
    PARTY_REQUIRE(strstr(answer.text, missing->expected) != NULL, "%s", answer.text);
  }
  return 0;
}

static void run_missing(const missing_t *missing) {
  harness_result_t result;
  missing_t context = *missing;
  cr_assert(harness_run(1, RENDEZVOUS_RUN_MS, miss_ranks, &context, &result), "%s", result.text);
}

Test(rendezvous, names_the_missing) {
  run_missing(&(missing_t){.size = 5, .expected = "(missing: 2, 3)"});
}

/* More ranks than the server may have open files. */
Test(rendezvous, names_the_missing_of_more_ranks_than_files) {
  run_missing(
      &(missing_t){.size = 100, .has_few_files = true, .expected = "97 of 100 ranks did not join"});
}

/* ---- a thousand ranks -----------------------------------------------------------------------*/

/* Process 0 runs the server, with a soft limit of open files that is too low; process 1 plays all
 * ranks. */
static int join_as_crowd(int process, int size, void *context) {
  (void)size, (void)context;
  static int lines[CROWD];
  rendezvous_address_t *shared = harness_board();
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = process == 0 ? FEW_FILES : limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (process == 0) {
    rendezvous_scenario_t scenario = rendezvous_scenario(0);
    PARTY_OK(rendezvous_server_start(&scenario.address));
    *shared = scenario.address;
  }
  harness_barrier();
  for (int rank = 0; process == 1 && rank < CROWD; rank++) {
    lines[rank] = rendezvous_dial(shared);
    PARTY_REQUIRE(lines[rank] >= 0, "rank %d cannot connect", rank);
    PARTY_REQUIRE(rendezvous_shake_hands(lines[rank], shared), "rank %d is no rank", rank);
    PARTY_REQUIRE(send_hello(lines[rank], rank, CROWD, LONG_MS), "rank %d's hello", rank);
  }
  for (int rank = CROWD - 1; process == 1 && rank >= 0; rank--) {
    PARTY_REQUIRE(receives_greeting(lines[rank]) && receives_records(lines[rank], CROWD),
                  "rank %d got no records", rank);
    PARTY_REQUIRE(send_report(lines[rank]), "rank %d cannot report", rank);
  }
  for (int rank = CROWD - 1; process == 1 && rank >= 0; rank--) {
    PARTY_REQUIRE(receives_verdict(lines[rank]), "rank %d got no verdict", rank);
    close(lines[rank]); /* rank 0 gets the result last */
  }
  harness_barrier();
  return 0;
}

Test(rendezvous, serves_a_thousand_ranks) {
  harness_result_t result;
  cr_assert(harness_run(2, 60000, join_as_crowd, NULL, &result), "%s", result.text);
}

static void *run_server(void *server) {
  rendezvous_server_run(server);
  return NULL;
}

/* Ten times as fast as it is. */
static void *pass_time(void *has_ended) {
  while (!atomic_load((_Atomic bool *)has_ended)) {
    virtual_time_advance(UINT64_C(10000000));
    base_clock_sleep_ns(1000000);
  }
  return NULL;
}

/* With socket buffers smaller than the records: one rank reads nothing and does not report. The
 * others get the records at once, and after their timeout, which passes when they have, an error
 * that names that rank. */
Test(rendezvous, serves_all_but_a_rank_that_is_stopped) {
  enum { SIZE = RENDEZVOUS_CALLERS_MAX - FEW_FILES, STOPPED = 400, TIMEOUT_MS = 6000 };
  static int lines[SIZE];
  struct sockaddr_un address = {.sun_family = AF_UNIX}; /* the kernel chooses an address */
  socklen_t bytes = sizeof(sa_family_t);
  pthread_t thread, clock;
  _Atomic bool has_ended = false;
  rendezvous_server_t *server;
  const rendezvous_scenario_t scenario = rendezvous_scenario(0);
  virtual_time_begin();
  virtual_time_freeze();
  base_descriptors_make_room(SIZE + FEW_FILES); /* the server raises its own limit */
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  cr_assert_eq(bind(listener, (struct sockaddr *)&address, bytes), 0);
  cr_assert_eq(listen(listener, SIZE), 0);
  bytes = sizeof address;
  cr_assert_eq(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
  cr_assert_eq(rendezvous_server_create(listener, &scenario.address, true, &server), COLL_OK, "%s",
               base_last_error());
  cr_assert_eq(pthread_create(&thread, NULL, run_server, server), 0);
  for (int rank = 0; rank < SIZE; rank++) {
    lines[rank] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(lines[rank], (struct sockaddr *)&address, bytes), 0);
    cr_assert(rendezvous_shake_hands(lines[rank], &scenario.address), "rank %d is no rank", rank);
  }
  for (int rank = 0; rank < SIZE; rank++) {
    cr_assert(send_hello(lines[rank], rank, SIZE, TIMEOUT_MS), "rank %d's hello", rank);
  }
  for (int rank = SIZE - 1; rank >= 0; rank--) {
    if (rank == STOPPED) continue;
    cr_assert(receives_greeting(lines[rank]) && receives_records(lines[rank], SIZE),
              "rank %d got no records", rank);
    cr_assert(send_report(lines[rank]), "rank %d cannot report", rank);
  }
  cr_assert_eq(pthread_create(&clock, NULL, pass_time, &has_ended), 0);
  for (int rank = SIZE - 1; rank >= 0; rank--) {
    if (rank == STOPPED) continue;
    wire_answer_t verdict = answer_to(lines[rank]);
    cr_assert_eq(verdict.status, COLL_ERROR_TIMEOUT, "rank %d: status %d", rank, verdict.status);
    cr_assert_not_null(strstr(verdict.text, "rank 400 (pid"), "%s", verdict.text);
    close(lines[rank]);
  }
  pthread_join(thread, NULL);
  atomic_store(&has_ended, true);
  pthread_join(clock, NULL);
  cr_assert_not(receives_greeting(lines[STOPPED]) && receives_records(lines[STOPPED], SIZE),
                "the buffers hold all that a rank is sent");
  close(lines[STOPPED]);
  rendezvous_server_destroy(server);
}

/*
 * The rendezvous server and its clients, in success and failure: ranks that are missing, duplicate,
 * inconsistent or dead, unknown callers, and unreachable servers.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/deadline.h"
#include "base/net/handshake.h"
#include "bootstrap/rendezvous/rendezvous.h"
#include "bootstrap/rendezvous/server.h"
#include "harness/party.h"
#include "rendezvous_scenario.h"

#define RECORD_BYTES 24
#define LATE_NS 100000000u

static int connect_unknown_callers(const rendezvous_scenario_t *scenario) {
  static char garbage[4096];
  memset(garbage, 0x77, sizeof garbage);
  for (int i = 0; i < scenario->unknown_callers; i++) {
    int fd = rendezvous_dial(&scenario->address);
    PARTY_REQUIRE(fd >= 0, "an unknown caller cannot connect");
    if (scenario->garbage && write(fd, garbage, sizeof garbage) < 0) return 1;
    /* never closed: this process holds all connections open */
  }
  return 0;
}

/* Joins, then reports `status` as its own result. */
static coll_status_t join_and_finish(const rendezvous_address_t *address,
                                     const rendezvous_rank_t *own, int timeout_ms, void *records,
                                     uint64_t *session, coll_status_t status) {
  rendezvous_link_t link;
  COLL_TRY(rendezvous_join(address, own, timeout_ms, records, session, &link));
  if (status != COLL_OK) base_fail(status, "rank %d: no memory for this test", own->rank);
  uint64_t deadline_ns = base_clock_now_ns() + (uint64_t)timeout_ms * 1000000u;
  int failed_rank;
  return rendezvous_finish(&link, status, deadline_ns, &failed_rank);
}

/* A process that dies after it has sent its hello, while others wait for further ranks. */
static int die_meanwhile(const rendezvous_scenario_t *scenario, int rank, int size) {
  pid_t pid = fork();
  if (pid == 0) {
    rendezvous_join_until_greeted(&scenario->address, rank, size, 20000, RECORD_BYTES);
    raise(SIGKILL);
  }
  PARTY_REQUIRE(pid > 0, "cannot fork");
  return 0;
}

static int check_records(char records[][RECORD_BYTES], int size) {
  for (int rank = 0; rank < size; rank++) {
    char expected[RECORD_BYTES];
    snprintf(expected, sizeof expected, "I am rank %d", rank);
    PARTY_REQUIRE(strcmp(records[rank], expected) == 0, "record %d says '%s'", rank, records[rank]);
  }
  return 0;
}

/* Process 0 starts the server. */
static int run_process(int process, int size, void *context) {
  rendezvous_scenario_t scenario = *(rendezvous_scenario_t *)context;
  rendezvous_address_t *shared = harness_board();
  uint64_t *sessions = (uint64_t *)(shared + 1);
  char record[RECORD_BYTES], records[100][RECORD_BYTES] = {""};
  if (process == 0) {
    PARTY_OK(rendezvous_server_start(&scenario.address));
    *shared = scenario.address;
    if (connect_unknown_callers(&scenario) != 0) return 1;
  }
  harness_barrier();
  scenario.address = *shared;
  int rank = scenario.ranks[process];
  snprintf(record, sizeof record, "I am rank %d", rank);
  if (process == scenario.late) base_clock_sleep_ns(LATE_NS * HARNESS_PATIENCE);
  if (process == scenario.dies) return die_meanwhile(&scenario, rank, scenario.sizes[process]);
  rendezvous_rank_t own = {.rank = rank,
                           .size = scenario.sizes[process],
                           .record = record,
                           .record_bytes = sizeof record};
  coll_status_t status = join_and_finish(&scenario.address, &own, scenario.timeout_ms, records,
                                         &sessions[process], COLL_OK);
  PARTY_REQUIRE(status == scenario.status, "status %s: %s", base_status_string(status),
                base_last_error());
  if (status != COLL_OK) {
    PARTY_REQUIRE(strstr(base_last_error(), scenario.expected) != NULL, "no '%s' in: %s",
                  scenario.expected, base_last_error());
    return 0;
  }
  harness_barrier();
  PARTY_REQUIRE(sessions[process] == sessions[0] && sessions[0] != 0, "different sessions");
  return check_records(records, size);
}

static void run_scenario(int size, rendezvous_scenario_t *scenario) {
  harness_result_t result;
  cr_assert(harness_run(size, RENDEZVOUS_RUN_MS, run_process, scenario, &result), "%s",
            result.text);
}

Test(rendezvous, sends_all_records_to_all) {
  for (int size = 1; size <= 8; size++) {
    rendezvous_scenario_t scenario = rendezvous_scenario(size);
    run_scenario(size, &scenario);
  }
}

Test(rendezvous, names_two_processes_of_one_rank) {
  rendezvous_scenario_t scenario = rendezvous_scenario(3);
  scenario.ranks[2] = 1;
  scenario.late = 2;
  scenario.status = COLL_ERROR_INVALID;
  snprintf(scenario.expected, sizeof scenario.expected, "both call themselves rank 1");
  run_scenario(3, &scenario);
}

Test(rendezvous, reports_different_sizes) {
  rendezvous_scenario_t scenario = rendezvous_scenario(3);
  scenario.sizes[1] = 4;
  scenario.ranks[1] = 3;
  scenario.late = 1;
  scenario.status = COLL_ERROR_INVALID;
  snprintf(scenario.expected, sizeof scenario.expected, "the ranks disagree");
  run_scenario(3, &scenario);
}

Test(rendezvous, names_a_rank_that_dies_while_others_join) {
  rendezvous_scenario_t scenario = rendezvous_scenario(4);
  scenario.ranks[2] = 3; /* rank 2 never joins, so the others wait */
  scenario.dies = 2;
  scenario.status = COLL_ERROR_RANK_LOST;
  snprintf(scenario.expected, sizeof scenario.expected, "rank 3 (pid");
  run_scenario(3, &scenario);
}

Test(rendezvous, ignores_unknown_callers) {
  rendezvous_scenario_t scenario = rendezvous_scenario(3);
  scenario.unknown_callers = 5;
  scenario.garbage = true;
  run_scenario(3, &scenario);
}

Test(rendezvous, ignores_silent_unknown_callers) {
  rendezvous_scenario_t scenario = rendezvous_scenario(3);
  scenario.unknown_callers = 5;
  run_scenario(3, &scenario);
}

/* The server disconnects the oldest callers to make room. */
Test(rendezvous, ignores_more_silent_callers_than_it_holds) {
  rendezvous_scenario_t scenario = rendezvous_scenario(3);
  scenario.unknown_callers = 200;
  run_scenario(3, &scenario);
}

typedef struct attempts {
  rendezvous_address_t address;
  _Atomic bool failed; /* the first attempt failed on some rank */
} attempts_t;

/* Two rendezvous on one port: in the first, rank 1 is missing until the others got the error. */
static int join_at_second_attempt(int process, int size, void *context) {
  (void)context;
  rendezvous_scenario_t scenario = rendezvous_scenario(size);
  attempts_t *attempts = harness_board();
  char record[RECORD_BYTES], records[8][RECORD_BYTES];
  uint64_t session;
  coll_status_t status = COLL_ERROR_TIMEOUT;
  snprintf(record, sizeof record, "I am rank %d", process);
  rendezvous_rank_t own = {
      .rank = process, .size = size, .record = record, .record_bytes = sizeof record};
  for (int attempt = 0; attempt < 2 && status == COLL_ERROR_TIMEOUT; attempt++) {
    if (process == 0) {
      if (attempt > 0) scenario.address = attempts->address;
      PARTY_REQUIRE(rendezvous_server_start(&scenario.address) == COLL_OK, "%s", base_last_error());
      scenario.address.pid = 0; /* unknown, as in launched jobs */
      attempts->address = scenario.address;
    }
    if (attempt == 0) harness_barrier();
    while (process == 1 && !atomic_load(&attempts->failed)) base_clock_sleep_ns(1000000);
    int timeout_ms = attempt == 0 && process != 1 ? 3000 : scenario.timeout_ms;
    status = join_and_finish(&attempts->address, &own, timeout_ms, records, &session, COLL_OK);
    PARTY_REQUIRE(status == COLL_OK || attempt == 0, "%s", base_last_error());
    PARTY_REQUIRE(status != COLL_OK || attempt == 1 || process == 1, "joined without rank 1");
    if (status != COLL_OK) atomic_store(&attempts->failed, true);
  }
  return check_records(records, size);
}

Test(rendezvous, succeeds_on_a_port_where_one_has_just_failed) {
  harness_result_t result;
  cr_assert(harness_run(3, RENDEZVOUS_RUN_MS, join_at_second_attempt, NULL, &result), "%s",
            result.text);
}

/* ---- while the communicator is made ---------------------------------------------------------*/

/* Rank 2 joins and then fails: all others get its error and its number. */
static int fail_own_part(int process, int size, void *context) {
  rendezvous_scenario_t scenario = *(rendezvous_scenario_t *)context;
  rendezvous_address_t *shared = harness_board();
  char record[RECORD_BYTES] = "", records[8][RECORD_BYTES], expected[64];
  uint64_t session;
  if (process == 0) PARTY_OK(rendezvous_server_start(&scenario.address));
  if (process == 0) *shared = scenario.address;
  harness_barrier();
  rendezvous_rank_t own = {
      .rank = process, .size = size, .record = record, .record_bytes = sizeof record};
  coll_status_t part = process == 2 ? COLL_ERROR_MEMORY : COLL_OK;
  coll_status_t wanted = process == 2 ? COLL_ERROR_MEMORY : COLL_ERROR_RANK_LOST;
  coll_status_t status =
      join_and_finish(shared, &own, scenario.timeout_ms, records, &session, part);
  PARTY_REQUIRE(status == wanted, "%s: %s", base_status_string(status), base_last_error());
  snprintf(expected, sizeof expected, "rank %d: %s", process, process == 2 ? "no" : "rank 2 (pid");
  PARTY_REQUIRE(strncmp(base_last_error(), expected, strlen(expected)) == 0 &&
                    strstr(base_last_error(), "no memory for this test") != NULL,
                "%s", base_last_error());
  return 0;
}

Test(rendezvous, reports_a_failed_rank_to_all) {
  rendezvous_scenario_t scenario = rendezvous_scenario(4);
  harness_result_t result;
  cr_assert(harness_run(4, RENDEZVOUS_RUN_MS, fail_own_part, &scenario, &result), "%s",
            result.text);
}

/* ---- ranks that are cancelled ---------------------------------------------------------------*/

static coll_status_t join_as(const rendezvous_address_t *address, int rank,
                             const base_cancel_t *cancel) {
  char record = 0, records[3];
  uint64_t session;
  rendezvous_rank_t own = {.rank = rank, .size = 3, .record = &record, .record_bytes = 1};
  rendezvous_link_t link;
  base_cancel_watch(cancel);
  coll_status_t status = rendezvous_join(address, &own, 120000, records, &session, &link);
  base_cancel_watch(NULL);
  return status;
}

/* Rank 1 is cancelled before anyone has called. The server tells a late rank, too. */
Test(rendezvous, names_a_rank_that_was_cancelled_first) {
  rendezvous_scenario_t scenario = rendezvous_scenario(3);
  const base_cancel_t cancel = {.requested = true, .why = "it was cancelled"};
  cr_assert_eq(rendezvous_server_start(&scenario.address), COLL_OK, "%s", base_last_error());
  cr_assert_eq(join_as(&scenario.address, 1, &cancel), COLL_ERROR_SYSTEM);
  base_clock_sleep_ns(600000000); /* longer than RENDEZVOUS_LINGER_NS */
  cr_assert_eq(join_as(&scenario.address, 2, NULL), COLL_ERROR_RANK_LOST, "%s", base_last_error());
  cr_assert_not_null(strstr(base_last_error(), "it was cancelled"), "%s", base_last_error());
}

typedef struct slow_server {
  int listener;
  rendezvous_address_t address;
  base_cancel_t cancel;
  wire_report_t report;
  const char *failed; /* what the caller did not do; NULL: nothing */
} slow_server_t;

/* Reads a hello, has its sender cancelled before it answers, and reads the report. */
static void *cancel_before_the_greeting(void *context) {
  slow_server_t *self = context;
  struct pollfd polled = {.fd = self->listener, .events = POLLIN};
  char purpose[RENDEZVOUS_PURPOSE_BYTES], record;
  wire_hello_t hello;
  const wire_greeting_t greeting = {.magic = WIRE_MAGIC, .pid = getpid()};
  base_handshake_t handshake;
  uint64_t end_ns = base_clock_now_ns() + UINT64_C(60000000000);
  rendezvous_purpose(&self->address, purpose);
  base_handshake_begin_listener(&handshake, &self->address.secret, purpose);
  bool called = base_deadline_poll_any(&polled, 1, end_ns);
  int fd = called ? accept(self->listener, NULL, NULL) : -1;
  if (base_handshake_finish(&handshake, fd, end_ns) != BASE_HANDSHAKE_DONE) {
    self->failed = "handshake";
  } else if (!wire_recv(fd, &hello, sizeof hello, end_ns) ||
             !wire_recv(fd, &record, sizeof record, end_ns)) {
    self->failed = "hello";
  } else {
    atomic_store(&self->cancel.requested, true);
    base_clock_sleep_ns(3 * BASE_CANCEL_CHECK_NS); /* a caller that gives up now would hang up */
    bool greeted = wire_send(fd, &greeting, sizeof greeting, end_ns);
    bool reported = greeted && wire_recv(fd, &self->report, sizeof self->report, end_ns);
    if (!reported) self->failed = "report";
  }
  close(fd);
  return NULL;
}

/* The server would name a rank that hangs up after its hello as one that died. */
Test(rendezvous, is_told_why_by_a_rank_that_is_cancelled_before_the_greeting) {
  slow_server_t server = {.address = rendezvous_scenario(3).address,
                          .cancel.why = "it was cancelled"};
  pthread_t thread;
  cr_assert_eq(rendezvous_listen(&server.address, &server.listener, &server.address.port), COLL_OK,
               "%s", base_last_error());
  pthread_create(&thread, NULL, cancel_before_the_greeting, &server);
  cr_assert_eq(join_as(&server.address, 1, &server.cancel), COLL_ERROR_SYSTEM);
  pthread_join(thread, NULL);
  close(server.listener);
  cr_assert_null(server.failed, "no %s", server.failed);
  cr_assert_not_null(strstr(server.report.text, "it was cancelled"), "%s", server.report.text);
}

typedef struct cancelled_rank {
  rendezvous_address_t address;
  int rank;
  base_cancel_t cancel;
  coll_status_t status;
  char text[512];
} cancelled_rank_t;

static void *join_and_succeed(void *context) {
  cancelled_rank_t *self = context;
  char record = 0, records[3];
  uint64_t session;
  rendezvous_rank_t own = {.rank = self->rank, .size = 3, .record = &record, .record_bytes = 1};
  base_cancel_watch(&self->cancel);
  self->status = join_and_finish(&self->address, &own, 120000, records, &session, COLL_OK);
  snprintf(self->text, sizeof self->text, "%s", base_last_error());
  return NULL;
}

/* Ranks 0 and 1 have made their parts and wait for rank 2, which has joined; then rank 1 is
 * cancelled. */
Test(rendezvous, names_a_rank_that_was_cancelled_after_success) {
  rendezvous_scenario_t scenario = rendezvous_scenario(3);
  cancelled_rank_t ranks[2] = {{.rank = 0}, {.rank = 1, .cancel.why = "it was cancelled"}};
  pthread_t threads[2];
  char record = 0, records[3];
  uint64_t session;
  rendezvous_link_t link;
  rendezvous_rank_t own = {.rank = 2, .size = 3, .record = &record, .record_bytes = 1};
  cr_assert_eq(rendezvous_server_start(&scenario.address), COLL_OK, "%s", base_last_error());
  for (int i = 0; i < 2; i++) {
    ranks[i].address = scenario.address;
    pthread_create(&threads[i], NULL, join_and_succeed, &ranks[i]);
  }
  cr_assert_eq(rendezvous_join(&scenario.address, &own, 120000, records, &session, &link), COLL_OK);
  base_clock_sleep_ns(300000000);
  atomic_store(&ranks[1].cancel.requested, true);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  cr_assert_eq(ranks[1].status, COLL_ERROR_SYSTEM, "%s", ranks[1].text);
  cr_assert_eq(ranks[0].status, COLL_ERROR_RANK_LOST, "%s", ranks[0].text);
  cr_assert_not_null(strstr(ranks[0].text, "rank 1"), "%s", ranks[0].text);
  cr_assert_not_null(strstr(ranks[0].text, "it was cancelled"), "%s", ranks[0].text);
  int failed_rank;
  cr_assert_eq(rendezvous_finish(&link, COLL_OK, base_clock_now_ns() + 60000000000, &failed_rank),
               COLL_ERROR_RANK_LOST);
  cr_assert_eq(failed_rank, 1);
}

/* ---- no server ------------------------------------------------------------------------------*/

static coll_status_t join_alone(const rendezvous_address_t *address, int timeout_ms) {
  char record = 0, records[2];
  uint64_t session;
  rendezvous_rank_t own = {.rank = 1, .size = 2, .record = &record, .record_bytes = 1};
  rendezvous_link_t link;
  return rendezvous_join(address, &own, timeout_ms, records, &session, &link);
}

Test(rendezvous, reports_that_no_server_answers) {
  rendezvous_scenario_t scenario = rendezvous_scenario(2);
  cr_assert_eq(rendezvous_server_start(&scenario.address), COLL_OK, "%s", base_last_error());
  rendezvous_address_t wrong = scenario.address;
  wrong.port = 1; /* no process listens there */
  wrong.pid = 0;  /* and no server is known to have listened there */
  cr_assert_eq(join_alone(&wrong, 300), COLL_ERROR_TIMEOUT);
  cr_assert_not_null(strstr(base_last_error(), "port 1"), "%s", base_last_error());
  snprintf(wrong.host, sizeof wrong.host, "no.such.host.invalid");
  cr_assert_eq(join_alone(&wrong, 300), COLL_ERROR_TIMEOUT, "a name may be made later");
  cr_assert_not_null(strstr(base_last_error(), "no.such.host.invalid"), "%s", base_last_error());
  cr_assert_not_null(strstr(base_last_error(), "cannot resolve"), "%s", base_last_error());
}

/* In much less than the 120 s for which a name is waited for. */
Test(rendezvous, reports_a_name_that_no_host_can_have) {
  static const char *const wrong[] = {"no such host", "host..net", "-host", "10.0.0.256", "fd00::g",
                                      "host/24",      "1.2.3.4.5", "[::1",  "h\xf6st"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    rendezvous_scenario_t scenario = rendezvous_scenario(2);
    scenario.address.port = 1;
    snprintf(scenario.address.host, sizeof scenario.address.host, "%s", wrong[i]);
    uint64_t began_ns = base_clock_now_ns();
    cr_assert_eq(join_alone(&scenario.address, 120000), COLL_ERROR_INVALID, "%s", wrong[i]);
    cr_assert_lt(base_clock_now_ns() - began_ns, UINT64_C(60000000000));
    cr_assert_not_null(strstr(base_last_error(), wrong[i]), "%s", base_last_error());
    cr_assert_eq(rendezvous_server_start(&scenario.address), COLL_ERROR_INVALID, "%s", wrong[i]);
  }
}

/* Waiting does not help: it fails in much less than its 120 s. */
static void expect_other_job(const rendezvous_address_t *wrong) {
  uint64_t began_ns = base_clock_now_ns();
  cr_assert_eq(join_alone(wrong, 120000), COLL_ERROR_INVALID, "%s", base_last_error());
  cr_assert_lt(base_clock_now_ns() - began_ns, UINT64_C(60000000000));
  cr_assert_not_null(strstr(base_last_error(), "does not know this job's secret"), "%s",
                     base_last_error());
}

Test(rendezvous, disconnects_callers_without_the_secret) {
  rendezvous_scenario_t scenario = rendezvous_scenario(2);
  cr_assert_eq(rendezvous_server_start(&scenario.address), COLL_OK, "%s", base_last_error());
  rendezvous_address_t wrong = scenario.address;
  wrong.secret.bytes[31]++;
  wrong.process.space = 0; /* no unique id's, but of a launcher's variables */
  expect_other_job(&wrong);
  wrong.pid = 0; /* another job's server might leave this port */
  expect_other_job(&wrong);
}

Test(rendezvous, disconnects_callers_of_another_job) {
  rendezvous_scenario_t scenario = rendezvous_scenario(2);
  cr_assert_eq(rendezvous_server_start(&scenario.address), COLL_OK, "%s", base_last_error());
  rendezvous_address_t wrong = scenario.address;
  wrong.job++;
  wrong.process.space = 0;
  expect_other_job(&wrong);
}

Test(rendezvous, reports_a_port_in_use) {
  rendezvous_scenario_t scenario = rendezvous_scenario(2);
  cr_assert_eq(rendezvous_server_start(&scenario.address), COLL_OK, "%s", base_last_error());
  rendezvous_address_t again = scenario.address;
  cr_assert_eq(rendezvous_server_start(&again), COLL_ERROR_SYSTEM);
  cr_assert_not_null(strstr(base_last_error(), "port"), "%s", base_last_error());
}

/* The server's process dies: before the rank calls (late), or while it waits for the others. */
static int lose_server(int process, int size, void *context) {
  (void)size;
  bool late = *(bool *)context;
  rendezvous_address_t *shared = harness_board();
  char pid[32];
  if (process == 0) {
    rendezvous_scenario_t scenario = rendezvous_scenario(2);
    PARTY_OK(rendezvous_server_start(&scenario.address));
    *shared = scenario.address;
    harness_barrier();
    if (!late) base_clock_sleep_ns(200000000);
    harness_kill(0);
  }
  harness_barrier();
  while (late && kill(shared->pid, 0) == 0) base_clock_sleep_ns(1000000);
  coll_status_t status = join_alone(shared, 120000);
  snprintf(pid, sizeof pid, "(pid %d)", (int)shared->pid);
  PARTY_REQUIRE(status == COLL_ERROR_RANK_LOST, "%s", base_status_string(status));
  PARTY_REQUIRE(strstr(base_last_error(), pid) != NULL, "%s", base_last_error());
  PARTY_REQUIRE(strstr(base_last_error(), "is rank 0") != NULL, "%s", base_last_error());
  return 0;
}

Test(rendezvous, names_the_server_that_died) {
  for (int late = 0; late < 2; late++) {
    harness_result_t result;
    bool context = late != 0;
    harness_run(2, RENDEZVOUS_RUN_MS, lose_server, &context, &result);
    cr_assert_eq(result.ranks[1].end, HARNESS_RETURNED, "%s", result.text);
    cr_assert_eq(result.ranks[1].value, 0, "%s", result.text);
  }
}

/* A full queue of connections: the kernel drops further ones without an answer, like an unreachable
 * network. */
Test(rendezvous, ends_in_time_where_connections_are_dropped) {
  enum { CALLERS = 3 };
  rendezvous_scenario_t scenario = rendezvous_scenario(2);
  struct sockaddr_in address = {.sin_family = AF_INET};
  socklen_t bytes = sizeof address;
  inet_pton(AF_INET, scenario.address.host, &address.sin_addr);
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), callers[CALLERS];
  cr_assert_eq(bind(listener, (struct sockaddr *)&address, bytes), 0);
  cr_assert_eq(listen(listener, 0), 0);
  cr_assert_eq(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
  for (int i = 0; i < CALLERS; i++) {
    callers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    connect(callers[i], (struct sockaddr *)&address, bytes);
  }
  scenario.address.port = ntohs(address.sin_port);
  uint64_t began_ns = base_clock_now_ns();
  cr_assert_eq(join_alone(&scenario.address, 500), COLL_ERROR_TIMEOUT, "%s", base_last_error());
  cr_assert_lt(base_clock_now_ns() - began_ns, UINT64_C(60000000000));
  for (int i = 0; i < CALLERS; i++) close(callers[i]);
  close(listener);
}

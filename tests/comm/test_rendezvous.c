/*
 * Meetings that go wrong: ranks that are missing, double, of another mind or dead, strangers at the
 * door, and a door that is shut.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "comm/meeting.h"
#include "comm/rendezvous.h"
#include "comm/wire.h"
#include "harness/party.h"

#define KEY 815u
#define RECORD_BYTES 24
#define LATE_NS 100000000u

/* What a rank brings, and what it must get from the others. */
typedef struct visit {
  rendezvous_place_t place;
  int ranks[8], sizes[8]; /* what each process says of itself */
  int timeout_ms;
  int late;       /* process that comes when the others are there, or -1 */
  int dies;       /* process that hangs up in the middle, or -1 */
  int strangers;  /* that call first */
  bool garbage;   /* what they say; else nothing */
  int files;      /* that the server may have open, hard limit and all; 0: as many as usual */
  char words[64]; /* in every sentence; "" where the meeting succeeds */
  coll_status_t status;
} visit_t;

static visit_t usual_visit(int size) {
  visit_t visit = {.timeout_ms = 5000, .late = -1, .dies = -1};
  snprintf(visit.place.host, sizeof visit.place.host, "127.0.0.1");
  visit.place.key = KEY;
  for (int i = 0; i < size; i++) {
    visit.ranks[i] = i;
    visit.sizes[i] = size;
  }
  return visit;
}

static int dial(const rendezvous_place_t *place) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(place->port)};
  inet_pton(AF_INET, place->host, &address.sin_addr);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

static int call_as_strangers(const visit_t *visit) {
  static char garbage[4096];
  memset(garbage, 0x77, sizeof garbage);
  for (int i = 0; i < visit->strangers; i++) {
    int fd = dial(&visit->place);
    PARTY_REQUIRE(fd >= 0, "a stranger cannot connect");
    if (visit->garbage && write(fd, garbage, sizeof garbage) < 0) return 1;
    /* never closed: this process keeps all of them on the line */
  }
  return 0;
}

/* Says hello as a rank would, and is gone before the answer. */
static int die_meanwhile(const visit_t *visit, int rank, int size) {
  char record[RECORD_BYTES] = "";
  rendezvous_rank_t own = {
      .rank = rank, .size = size, .record = record, .record_bytes = sizeof record};
  pid_t pid = fork();
  if (pid == 0) {
    char records[8 * sizeof record];
    uint64_t session;
    alarm(1);
    rendezvous_meet(&visit->place, &own, 20000, records, &session);
    _exit(0);
  }
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

/* Process 0 opens the door, unless it is open already. */
static int visit_body(int process, int size, void *context) {
  visit_t visit = *(visit_t *)context;
  rendezvous_place_t *shared = harness_board();
  uint64_t *sessions = (uint64_t *)(shared + 1);
  char record[RECORD_BYTES], records[100][RECORD_BYTES] = {""};
  if (process == 0) {
    struct rlimit limit = {.rlim_cur = (rlim_t)visit.files, .rlim_max = (rlim_t)visit.files};
    if (visit.files > 0) setrlimit(RLIMIT_NOFILE, &limit);
    if (rendezvous_open(&visit.place) != COLL_OK) return harness_fail("%s", base_last_error());
    *shared = visit.place;
    if (call_as_strangers(&visit) != 0) return 1;
  }
  harness_meet();
  visit.place = *shared;
  int rank = visit.ranks[process];
  snprintf(record, sizeof record, "I am rank %d", rank);
  if (process == visit.late) base_clock_sleep_ns(LATE_NS * HARNESS_PATIENCE);
  if (process == visit.dies) return die_meanwhile(&visit, rank, visit.sizes[process]);
  rendezvous_rank_t own = {
      .rank = rank, .size = visit.sizes[process], .record = record, .record_bytes = sizeof record};
  coll_status_t status =
      rendezvous_meet(&visit.place, &own, visit.timeout_ms, records, &sessions[process]);
  PARTY_REQUIRE(status == visit.status, "status %s: %s", base_status_string(status),
                base_last_error());
  if (status != COLL_OK) {
    PARTY_REQUIRE(strstr(base_last_error(), visit.words) != NULL, "no '%s' in: %s", visit.words,
                  base_last_error());
    return 0;
  }
  harness_meet();
  PARTY_REQUIRE(sessions[process] == sessions[0] && sessions[0] != 0, "different sessions");
  return check_records(records, size);
}

static uint64_t hold(int size, visit_t *visit) {
  harness_result_t result;
  uint64_t begin = base_clock_now_ns();
  cr_assert(harness_run(size, 20000, visit_body, visit, &result), "%s", result.text);
  return (base_clock_now_ns() - begin) / 1000000u;
}

Test(rendezvous, brings_all_records_to_all) {
  for (int size = 1; size <= 8; size++) {
    visit_t visit = usual_visit(size);
    hold(size, &visit);
  }
}

Test(rendezvous, names_the_missing) {
  visit_t visit = usual_visit(5);
  visit.ranks[2] = 4; /* of 5, but only three come */
  visit.timeout_ms = 500;
  visit.status = COLL_ERROR_TIMEOUT;
  snprintf(visit.words, sizeof visit.words, "(missing: 2, 3)");
  uint64_t ms = hold(3, &visit);
  cr_assert(ms >= 400 && ms < 2500 * HARNESS_PATIENCE, "it took %d ms", (int)ms);
}

/* More ranks than its keeper may have files open, though few of them come. */
Test(rendezvous, names_the_missing_of_more_than_can_be) {
  visit_t visit = usual_visit(3);
  for (int i = 0; i < 3; i++) visit.sizes[i] = 100;
  visit.files = 40;
  visit.timeout_ms = 500;
  visit.status = COLL_ERROR_TIMEOUT;
  snprintf(visit.words, sizeof visit.words, "97 of 100 ranks did not come");
  hold(3, &visit);
}

Test(rendezvous, names_two_of_one_rank) {
  visit_t visit = usual_visit(3);
  visit.ranks[2] = 1;
  visit.late = 2;
  visit.status = COLL_ERROR_INVALID;
  snprintf(visit.words, sizeof visit.words, "both call themselves rank 1");
  hold(3, &visit);
}

Test(rendezvous, tells_of_different_sizes) {
  visit_t visit = usual_visit(3);
  visit.sizes[1] = 4;
  visit.ranks[1] = 3;
  visit.late = 1;
  visit.status = COLL_ERROR_INVALID;
  snprintf(visit.words, sizeof visit.words, "the ranks disagree");
  hold(3, &visit);
}

Test(rendezvous, names_one_that_dies_meanwhile) {
  visit_t visit = usual_visit(4);
  visit.ranks[2] = 3; /* rank 2 never comes, so that the others wait */
  visit.dies = 2;
  visit.timeout_ms = 8000;
  visit.status = COLL_ERROR_RANK_LOST;
  snprintf(visit.words, sizeof visit.words, "rank 3 (process");
  uint64_t ms = hold(3, &visit);
  cr_assert_lt(ms, 4000 * HARNESS_PATIENCE, "it took %d ms", (int)ms);
}

Test(rendezvous, minds_no_strangers) {
  visit_t visit = usual_visit(3);
  visit.strangers = 5;
  visit.garbage = true;
  cr_assert_lt(hold(3, &visit), 2000 * HARNESS_PATIENCE);
}

Test(rendezvous, minds_no_silent_strangers) {
  visit_t visit = usual_visit(3);
  visit.strangers = 5;
  visit.timeout_ms = 3000;
  uint64_t ms = hold(3, &visit);
  cr_assert_lt(ms, 2000 * HARNESS_PATIENCE, "it took %d ms", (int)ms);
}

/* They fill the server's ears while the ranks call. */
Test(rendezvous, minds_no_crowd_of_silent_strangers) {
  visit_t visit = usual_visit(3);
  visit.strangers = 200;
  cr_assert_lt(hold(3, &visit), 2000 * HARNESS_PATIENCE);
}

typedef struct tries {
  rendezvous_place_t place;
  _Atomic bool failed; /* the first meeting has, for some */
} tries_t;

/* On one port: rank 1 is missing, all are told so, and call again at once. */
static int meet_at_second_try(int process, int size, void *context) {
  (void)context;
  visit_t visit = usual_visit(size);
  tries_t *tries = harness_board();
  char record[RECORD_BYTES], records[8][RECORD_BYTES];
  uint64_t session;
  coll_status_t status = COLL_ERROR_TIMEOUT;
  snprintf(record, sizeof record, "I am rank %d", process);
  rendezvous_rank_t own = {
      .rank = process, .size = size, .record = record, .record_bytes = sizeof record};
  for (int meeting = 0; meeting < 2 && status == COLL_ERROR_TIMEOUT; meeting++) {
    if (process == 0) {
      if (meeting > 0) visit.place = tries->place;
      if (rendezvous_open(&visit.place) != COLL_OK) return harness_fail("%s", base_last_error());
      tries->place = visit.place;
    }
    if (meeting == 0) harness_meet();
    while (process == 1 && !atomic_load(&tries->failed)) base_clock_sleep_ns(1000000);
    int timeout_ms = meeting == 0 && process != 1 ? 500 : 10000 * HARNESS_PATIENCE;
    status = rendezvous_meet(&tries->place, &own, timeout_ms, records, &session);
    PARTY_REQUIRE(status == COLL_OK || meeting == 0, "%s", base_last_error());
    PARTY_REQUIRE(status != COLL_OK || meeting == 1 || process == 1, "met without rank 1");
    if (status != COLL_OK) atomic_store(&tries->failed, true);
  }
  return check_records(records, size);
}

Test(rendezvous, can_be_at_once_where_one_has_failed) {
  harness_result_t result;
  cr_assert(harness_run(3, 20000, meet_at_second_try, NULL, &result), "%s", result.text);
}

/* ---- callers that speak for many -------------------------------------------------------------*/

enum { CROWD = 1024, FEW_FILES = 32, WORDS_BYTES = sizeof(wire_hello_t) + RENDEZVOUS_RECORD_MOST };

/* Bytes `from` to `to` of what a rank says. */
static bool say_part_as(int fd, int rank, int size, size_t from, size_t to) {
  struct {
    wire_hello_t hello;
    char record[RENDEZVOUS_RECORD_MOST];
  } words = {.hello = {.magic = WIRE_MAGIC,
                       .key = KEY,
                       .rank = rank,
                       .size = size,
                       .timeout_ms = 20000 * HARNESS_PATIENCE,
                       .pid = (int32_t)getpid(),
                       .record_bytes = RENDEZVOUS_RECORD_MOST}};
  _Static_assert(sizeof words == WORDS_BYTES, "nothing between hello and record");
  uint64_t deadline_ns = base_clock_now_ns() + UINT64_C(20000000000) * HARNESS_PATIENCE;
  snprintf(words.record, sizeof words.record, "I am rank %d", rank);
  return wire_send(fd, (const char *)&words + from, to - from, deadline_ns);
}

static bool say_hello_as(int fd, int rank, int size) {
  return say_part_as(fd, rank, size, 0, WORDS_BYTES);
}

static bool is_greeted(int fd) {
  uint64_t greeting, deadline_ns = base_clock_now_ns() + UINT64_C(20000000000) * HARNESS_PATIENCE;
  return wire_recv(fd, &greeting, sizeof greeting, deadline_ns) && greeting == WIRE_MAGIC;
}

/* Behind the greeting. */
static bool hears_all(int fd, int size) {
  static char records[CROWD][RENDEZVOUS_RECORD_MOST];
  uint64_t deadline_ns = base_clock_now_ns() + UINT64_C(20000000000) * HARNESS_PATIENCE;
  wire_answer_t answer;
  char expected[32];
  snprintf(expected, sizeof expected, "I am rank %d", size - 1);
  return wire_recv(fd, &answer, sizeof answer, deadline_ns) && answer.status == COLL_OK &&
         wire_recv(fd, records, (size_t)size * sizeof *records, deadline_ns) &&
         strcmp(records[size - 1], expected) == 0;
}

/* Two callers, of whom one stops in the middle of its hello while the other is heard. */
Test(rendezvous, waits_for_one_that_is_slow_to_say_hello) {
  enum { HALF = 20 };
  visit_t visit = usual_visit(2);
  cr_assert_eq(rendezvous_open(&visit.place), COLL_OK, "%s", base_last_error());
  int slow = dial(&visit.place), quick = dial(&visit.place);
  cr_assert(say_part_as(slow, 0, 2, 0, HALF));
  cr_assert(say_hello_as(quick, 1, 2));
  cr_assert(is_greeted(quick), "the quick one is not heard");
  base_clock_sleep_ns(600000000);
  cr_assert(say_part_as(slow, 0, 2, HALF, WORDS_BYTES));
  cr_assert(is_greeted(slow) && hears_all(slow, 2), "the slow one is not answered");
  cr_assert(hears_all(quick, 2), "the quick one is not answered");
  close(slow);
  close(quick);
}

/* One process serves, and may open too few files for it; the other is all of the ranks. */
static int meet_as_crowd(int process, int size, void *context) {
  (void)size, (void)context;
  static int lines[CROWD];
  rendezvous_place_t *shared = harness_board();
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = process == 0 ? FEW_FILES : limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (process == 0) {
    visit_t visit = usual_visit(0);
    if (rendezvous_open(&visit.place) != COLL_OK) return harness_fail("%s", base_last_error());
    *shared = visit.place;
  }
  harness_meet();
  for (int rank = 0; process == 1 && rank < CROWD; rank++) {
    lines[rank] = dial(shared);
    PARTY_REQUIRE(lines[rank] >= 0, "rank %d cannot connect", rank);
    PARTY_REQUIRE(say_hello_as(lines[rank], rank, CROWD), "rank %d cannot say hello", rank);
  }
  for (int rank = CROWD - 1; process == 1 && rank >= 0; rank--) {
    PARTY_REQUIRE(is_greeted(lines[rank]) && hears_all(lines[rank], CROWD),
                  "rank %d is not answered", rank);
  }
  harness_meet();
  return 0;
}

Test(rendezvous, brings_a_thousand_together) {
  harness_result_t result;
  cr_assert(harness_run(2, 60000, meet_as_crowd, NULL, &result), "%s", result.text);
}

static void *hold_meeting(void *meeting) {
  meeting_hold(meeting);
  return NULL;
}

/* By sockets that hold less than what a rank is told. */
Test(rendezvous, tells_all_but_one_that_has_stopped) {
  enum { SIZE = 600, STOPPED = 400 };
  static int lines[SIZE];
  struct sockaddr_un address = {.sun_family = AF_UNIX}; /* a name of the kernel's choice */
  socklen_t bytes = sizeof(sa_family_t);
  pthread_t thread;
  meeting_t *meeting;
  base_descriptors_make_room(SIZE + FEW_FILES); /* the server sees to its own */
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  cr_assert_eq(bind(listener, (struct sockaddr *)&address, bytes), 0);
  cr_assert_eq(listen(listener, SIZE), 0);
  bytes = sizeof address;
  cr_assert_eq(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
  cr_assert_eq(meeting_create(listener, KEY, &meeting), COLL_OK, "%s", base_last_error());
  cr_assert_eq(pthread_create(&thread, NULL, hold_meeting, meeting), 0);
  for (int rank = 0; rank < SIZE; rank++) {
    lines[rank] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(lines[rank], (struct sockaddr *)&address, bytes), 0);
    cr_assert(say_hello_as(lines[rank], rank, SIZE), "rank %d cannot say hello", rank);
  }
  for (int rank = SIZE - 1; rank >= 0; rank--) {
    if (rank == STOPPED) continue;
    cr_assert(is_greeted(lines[rank]) && hears_all(lines[rank], SIZE), "rank %d is not answered",
              rank);
  }
  pthread_join(thread, NULL);
  cr_assert_not(is_greeted(lines[STOPPED]) && hears_all(lines[STOPPED], SIZE),
                "what should stop a rank is too little");
  for (int rank = 0; rank < SIZE; rank++) close(lines[rank]);
  meeting_destroy(meeting);
}

/* ---- nobody there ---------------------------------------------------------------------------*/

static coll_status_t knock(const rendezvous_place_t *place, int timeout_ms) {
  char record = 0, records[2];
  uint64_t session;
  rendezvous_rank_t own = {.rank = 1, .size = 2, .record = &record, .record_bytes = 1};
  return rendezvous_meet(place, &own, timeout_ms, records, &session);
}

Test(rendezvous, tells_when_nobody_answers) {
  visit_t visit = usual_visit(2);
  cr_assert_eq(rendezvous_open(&visit.place), COLL_OK, "%s", base_last_error());
  rendezvous_place_t wrong = visit.place;
  wrong.port = 1; /* nobody listens there */
  cr_assert_eq(knock(&wrong, 300), COLL_ERROR_TIMEOUT);
  cr_assert_not_null(strstr(base_last_error(), "port 1"), "%s", base_last_error());
  snprintf(wrong.host, sizeof wrong.host, "no.such.host.invalid");
  cr_assert_eq(knock(&wrong, 300), COLL_ERROR_INVALID);
  cr_assert_not_null(strstr(base_last_error(), "no.such.host.invalid"), "%s", base_last_error());
}

/* A key that the server does not know: it hangs up. */
Test(rendezvous, keeps_out_callers_without_the_key) {
  visit_t visit = usual_visit(2);
  cr_assert_eq(rendezvous_open(&visit.place), COLL_OK, "%s", base_last_error());
  rendezvous_place_t wrong = visit.place;
  wrong.key++;
  cr_assert_eq(knock(&wrong, 1000), COLL_ERROR_TIMEOUT);
  cr_assert_not_null(strstr(base_last_error(), "gave no answer"), "%s", base_last_error());
}

Test(rendezvous, tells_when_the_port_is_in_use) {
  visit_t visit = usual_visit(2);
  cr_assert_eq(rendezvous_open(&visit.place), COLL_OK, "%s", base_last_error());
  rendezvous_place_t again = visit.place;
  cr_assert_eq(rendezvous_open(&again), COLL_ERROR_SYSTEM);
  cr_assert_not_null(strstr(base_last_error(), "port"), "%s", base_last_error());
}

/* The process that keeps the door dies before all have come. */
static int deserted(int process, int size, void *context) {
  (void)size, (void)context;
  rendezvous_place_t *shared = harness_board();
  if (process == 0) {
    visit_t visit = usual_visit(2);
    if (rendezvous_open(&visit.place) != COLL_OK) return harness_fail("%s", base_last_error());
    *shared = visit.place;
    harness_meet();
    base_clock_sleep_ns(200000000);
    harness_kill(0);
  }
  harness_meet();
  coll_status_t status = knock(shared, 10000);
  PARTY_REQUIRE(status == COLL_ERROR_TIMEOUT || status == COLL_ERROR_RANK_LOST, "%s",
                base_status_string(status));
  PARTY_REQUIRE(strstr(base_last_error(), "did rank 0 end") != NULL, "%s", base_last_error());
  return 0;
}

Test(rendezvous, tells_when_its_keeper_dies) {
  harness_result_t result;
  uint64_t begin = base_clock_now_ns();
  harness_run(2, 20000, deserted, NULL, &result);
  cr_assert_eq(result.ranks[1].end, HARNESS_RETURNED, "%s", result.text);
  cr_assert_eq(result.ranks[1].value, 0, "%s", result.text);
  cr_assert_lt(base_clock_now_ns() - begin, UINT64_C(3000000000) * HARNESS_PATIENCE);
}

/* Where nobody takes connections the kernel drops callers, as a network that leads nowhere does. */
Test(rendezvous, with_who_takes_no_callers_ends_in_time) {
  enum { CALLERS = 3 };
  visit_t visit = usual_visit(2);
  struct sockaddr_in address = {.sin_family = AF_INET};
  socklen_t bytes = sizeof address;
  inet_pton(AF_INET, visit.place.host, &address.sin_addr);
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), callers[CALLERS];
  cr_assert_eq(bind(listener, (struct sockaddr *)&address, bytes), 0);
  cr_assert_eq(listen(listener, 0), 0);
  cr_assert_eq(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
  for (int i = 0; i < CALLERS; i++) {
    callers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    connect(callers[i], (struct sockaddr *)&address, bytes);
  }
  visit.place.port = ntohs(address.sin_port);
  uint64_t began_ns = base_clock_now_ns();
  cr_assert_eq(knock(&visit.place, 500), COLL_ERROR_TIMEOUT, "%s", base_last_error());
  cr_assert_lt(base_clock_now_ns() - began_ns, UINT64_C(3000000000) * HARNESS_PATIENCE);
  for (int i = 0; i < CALLERS; i++) close(callers[i]);
  close(listener);
}

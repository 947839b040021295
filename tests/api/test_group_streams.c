/*
 * Groups in which the calls of one communicator name several streams: they are one operation of all
 * of these streams.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>

#include "base/clock.h"
#include "harness/party.h"

#define LIMIT_NS 8000000000u

/* The communicator of the groups, and one per stream whose calls a late rank holds up. */
typedef struct fixture {
  coll_comm_t comm, sides[3];
  coll_stream_t streams[3];
} fixture_t;

static int open_fixture(party_rank_t *self, fixture_t *f) {
  f->comm = self->comm;
  for (int i = 0; i < 3; i++) {
    PARTY_OK(coll_stream_create(&f->streams[i]));
    PARTY_OK(coll_comm_split(self->comm, 0, self->rank, NULL, &f->sides[i]));
  }
  return 0;
}

static int close_fixture(fixture_t *f) {
  for (int i = 0; i < 3; i++) {
    PARTY_OK(coll_stream_destroy(f->streams[i]));
    PARTY_OK(coll_comm_destroy(f->sides[i]));
  }
  return 0;
}

static coll_status_t add_up(const int32_t *in, int32_t *out, coll_comm_t comm,
                            coll_stream_t stream) {
  return coll_allreduce(in, out, 1, COLL_INT32, COLL_SUM, comm, stream);
}

static coll_status_t query_until_done(coll_stream_t stream) {
  uint64_t limit_ns = base_clock_now_ns() + LIMIT_NS;
  coll_status_t status;
  while ((status = coll_stream_query(stream)) == COLL_IN_PROGRESS) {
    if (base_clock_now_ns() > limit_ns) break;
    sched_yield();
  }
  return status;
}

/* ---- order ----------------------------------------------------------------------------------*/

/* Each stream's call in the group reads what the other stream's earlier call wrote, and each later
 * call what the group wrote for the other stream. Rank 0 has queued all of them before the others
 * begin. */
static int chain(party_rank_t *self, fixture_t *f, int round) {
  int32_t one = 1 + round, before[2] = {0}, grouped[2] = {0}, behind[2] = {0};
  int first = round % 2, n = self->size;
  if (self->rank > 0 && round < 4) harness_barrier();
  for (int i = 0; i < 2; i++) PARTY_OK(add_up(&one, &before[i], f->sides[i], f->streams[i]));
  PARTY_OK(coll_group_start());
  for (int k = 0; k < 2; k++) {
    int i = (first + k) % 2;
    PARTY_OK(add_up(&before[1 - i], &grouped[i], f->comm, f->streams[i]));
  }
  PARTY_OK(coll_group_end());
  for (int i = 0; i < 2; i++) {
    PARTY_OK(add_up(&grouped[1 - i], &behind[i], f->sides[i], f->streams[i]));
  }
  if (self->rank == 0 && round < 4) {
    for (int i = 0; i < 2; i++) {
      coll_status_t status = coll_stream_query(f->streams[i]);
      PARTY_REQUIRE(status == COLL_IN_PROGRESS, "stream %d: %s", i, coll_status_string(status));
    }
    harness_barrier();
  }
  for (int i = 0; i < 2; i++) {
    PARTY_OK(round % 3 == 0 ? query_until_done(f->streams[i]) : coll_stream_sync(f->streams[i]));
    PARTY_OK(coll_stream_query(f->streams[i]));
  }
  for (int i = 0; i < 2; i++) {
    PARTY_REQUIRE(before[i] == one * n && grouped[i] == one * n * n && behind[i] == one * n * n * n,
                  "round %d, stream %d: %d, %d, %d", round, i, before[i], grouped[i], behind[i]);
  }
  return 0;
}

static int run_chains(party_rank_t *self) {
  fixture_t f;
  PARTY_TRY(open_fixture(self, &f));
  for (int round = 0; round < 200; round++) PARTY_TRY(chain(self, &f, round));
  return close_fixture(&f);
}

Test(group_streams, order_what_is_before_and_behind) {
  PARTY_RUN(2, 40000, run_chains, NULL);
  PARTY_RUN(3, 40000, run_chains, NULL);
}

/* A call without a stream makes the end of the group wait for the streams that its communicator
 * names beside it. */
static int block(party_rank_t *self) {
  fixture_t f;
  PARTY_TRY(open_fixture(self, &f));
  for (int round = 0; round < 50; round++) {
    int32_t one = 1, before = 0, grouped[2] = {0}, behind = 0, n = self->size;
    if (self->rank > 0) base_clock_sleep_ns(round < 5 ? 5000000u : 0);
    PARTY_OK(add_up(&one, &before, f.sides[0], f.streams[0]));
    PARTY_OK(coll_group_start());
    PARTY_OK(add_up(&before, &grouped[0], f.comm, round % 2 ? NULL : f.streams[0]));
    PARTY_OK(add_up(&before, &grouped[1], f.comm, round % 2 ? f.streams[0] : NULL));
    PARTY_OK(coll_group_end());
    PARTY_REQUIRE(grouped[0] == n * n && grouped[1] == n * n, "round %d: %d, %d", round, grouped[0],
                  grouped[1]);
    PARTY_OK(add_up(&grouped[1], &behind, f.sides[0], f.streams[0]));
    PARTY_OK(coll_stream_sync(f.streams[0]));
    PARTY_REQUIRE(behind == n * n * n, "round %d: %d", round, behind);
  }
  return close_fixture(&f);
}

Test(group_streams, may_be_named_beside_none) {
  PARTY_RUN(2, 20000, block, NULL);
}

/* Sends and receives on different streams, also of a rank to itself. */
static int exchange(party_rank_t *self) {
  fixture_t f;
  int next = (self->rank + 1) % self->size, last = (self->rank + self->size - 1) % self->size;
  int32_t got[2], sum;
  PARTY_TRY(open_fixture(self, &f));
  for (int32_t round = 0; round < 100; round++) {
    int32_t sent = 100 * round + self->rank;
    PARTY_OK(coll_group_start());
    PARTY_OK(coll_send(&sent, 1, COLL_INT32, next, f.comm, f.streams[0]));
    PARTY_OK(coll_recv(&got[0], 1, COLL_INT32, last, f.comm, f.streams[1]));
    PARTY_OK(coll_send(&sent, 1, COLL_INT32, self->rank, f.comm, f.streams[1]));
    PARTY_OK(coll_recv(&got[1], 1, COLL_INT32, self->rank, f.comm, f.streams[2]));
    PARTY_OK(add_up(&sent, &sum, f.comm, f.streams[round % 3]));
    PARTY_OK(coll_group_end());
    for (int i = 0; i < 3; i++) PARTY_OK(coll_stream_sync(f.streams[i]));
    PARTY_REQUIRE(got[0] == 100 * round + last && got[1] == sent, "round %d: %d, %d", round, got[0],
                  got[1]);
  }
  return close_fixture(&f);
}

Test(group_streams, carry_sends_and_receives) {
  PARTY_RUN(2, 20000, exchange, NULL);
  PARTY_RUN(3, 20000, exchange, NULL);
}

/* A communicator waits for the streams that its own calls name, and holds no others: the group's
 * second one runs while its first one waits. */
static int hold_only_named(party_rank_t *self) {
  fixture_t f;
  int32_t one = 1, before = 0, first[2] = {0}, second[2] = {0}, n = self->size;
  PARTY_TRY(open_fixture(self, &f));
  if (self->rank == 0) PARTY_OK(add_up(&one, &before, f.sides[0], f.streams[0]));
  PARTY_OK(coll_group_start());
  for (int i = 0; i < 2; i++) PARTY_OK(add_up(&one, &first[i], f.comm, f.streams[i]));
  for (int i = 1; i < 3; i++) PARTY_OK(add_up(&one, &second[i - 1], f.sides[1], f.streams[i]));
  PARTY_OK(coll_group_end());
  PARTY_OK(query_until_done(f.streams[2]));
  PARTY_REQUIRE(second[0] == n && second[1] == n, "%d, %d", second[0], second[1]);
  for (int i = 0; i < 2 && self->rank == 0; i++) {
    coll_status_t status = coll_stream_query(f.streams[i]);
    PARTY_REQUIRE(status == COLL_IN_PROGRESS, "stream %d: %s", i, coll_status_string(status));
  }
  harness_barrier();
  if (self->rank > 0) PARTY_OK(add_up(&one, &before, f.sides[0], NULL));
  for (int i = 0; i < 2; i++) PARTY_OK(coll_stream_sync(f.streams[i]));
  PARTY_REQUIRE(before == n && first[0] == n && first[1] == n, "%d, %d, %d", before, first[0],
                first[1]);
  return close_fixture(&f);
}

Test(group_streams, are_held_only_by_communicators_that_name_them) {
  PARTY_RUN(2, 20000, hold_only_named, NULL);
}

/* ---- deadlocks ------------------------------------------------------------------------------*/

/* One thread makes the calls of three ranks, whose streams form a circle. */
Test(group_streams, may_form_a_circle_of_ranks) {
  enum { SIZE = 3, ROUNDS = 300 };
  coll_comm_t comms[SIZE];
  coll_stream_t streams[SIZE];
  cr_assert_eq(coll_comm_create_local(SIZE, NULL, comms), COLL_OK, "%s", coll_last_error(NULL));
  for (int r = 0; r < SIZE; r++) cr_assert_eq(coll_stream_create(&streams[r]), COLL_OK);
  for (int round = 0; round < ROUNDS; round++) {
    int32_t one = round, sums[SIZE][2] = {{0}};
    coll_group_start();
    for (int r = 0; r < SIZE; r++) {
      cr_assert_eq(add_up(&one, &sums[r][0], comms[r], streams[r]), COLL_OK);
      cr_assert_eq(add_up(&one, &sums[r][1], comms[r], streams[(r + 1) % SIZE]), COLL_OK);
    }
    cr_assert_eq(coll_group_end(), COLL_OK, "%s", coll_last_error(NULL));
    for (int r = 0; r < SIZE; r++) {
      cr_assert_eq(coll_stream_sync(streams[r]), COLL_OK, "%s", coll_last_error(NULL));
    }
    for (int r = 0; r < SIZE; r++) {
      cr_assert(sums[r][0] == SIZE * round && sums[r][1] == SIZE * round, "round %d", round);
    }
  }
  for (int r = 0; r < SIZE; r++) {
    coll_stream_destroy(streams[r]);
    coll_comm_destroy(comms[r]);
  }
}

/* A thread that names the two streams of all threads in its own order. */
typedef struct caller {
  coll_comm_t comms[2];
  coll_stream_t streams[2];
  int rounds;
  bool also_alone; /* between its groups it calls on one stream, and waits sometimes */
  coll_status_t status;
} caller_t;

static coll_status_t call_in_group(const caller_t *caller, int round) {
  static const int32_t one = 1;
  static _Thread_local int32_t sums[3];
  coll_status_t status = COLL_OK;
  coll_group_start();
  for (int i = 0; i < 2; i++) {
    add_up(&one, &sums[i], caller->comms[round % 2], caller->streams[i]);
  }
  status = coll_group_end();
  if (status != COLL_OK || !caller->also_alone) return status;
  status = add_up(&one, &sums[2], caller->comms[1], caller->streams[round % 2]);
  return status == COLL_OK && round % 16 == 0 ? coll_stream_sync(caller->streams[0]) : status;
}

static void *call_often(void *argument) {
  caller_t *caller = argument;
  for (int i = 0; i < caller->rounds && caller->status == COLL_OK; i++) {
    caller->status = call_in_group(caller, i);
  }
  for (int i = 0; i < 2; i++) {
    if (caller->status == COLL_OK) caller->status = coll_stream_sync(caller->streams[i]);
  }
  return NULL;
}

static int run_callers(caller_t callers[], int threads) {
  pthread_t handles[3];
  for (int i = 0; i < threads; i++) {
    PARTY_REQUIRE(pthread_create(&handles[i], NULL, call_often, &callers[i]) == 0, "no thread");
  }
  for (int i = 0; i < threads; i++) pthread_join(handles[i], NULL);
  for (int i = 0; i < threads; i++) {
    PARTY_REQUIRE(callers[i].status == COLL_OK, "thread %d: %s", i,
                  coll_status_string(callers[i].status));
  }
  return 0;
}

static void set_streams(caller_t *caller, const fixture_t *f, int thread) {
  caller->streams[0] = f->streams[thread % 2];
  caller->streams[1] = f->streams[1 - thread % 2];
}

/* All threads make the same calls of one communicator. */
static int share_a_communicator(party_rank_t *self) {
  fixture_t f;
  caller_t callers[3];
  PARTY_TRY(open_fixture(self, &f));
  for (int i = 0; i < 3; i++) {
    callers[i] = (caller_t){.comms = {f.comm, f.comm}, .rounds = 200};
    set_streams(&callers[i], &f, i);
  }
  PARTY_TRY(run_callers(callers, 3));
  return close_fixture(&f);
}

/* Each thread has communicators of its own, of which this process is the only rank. */
static int share_streams(party_rank_t *self) {
  fixture_t f;
  caller_t callers[3];
  PARTY_TRY(open_fixture(self, &f));
  for (int i = 0; i < 3; i++) {
    callers[i] = (caller_t){.rounds = 500, .also_alone = true};
    set_streams(&callers[i], &f, i);
    for (int c = 0; c < 2; c++) PARTY_OK(coll_comm_create_local(1, NULL, &callers[i].comms[c]));
  }
  PARTY_TRY(run_callers(callers, 3));
  for (int i = 0; i < 3; i++) {
    for (int c = 0; c < 2; c++) PARTY_OK(coll_comm_destroy(callers[i].comms[c]));
  }
  return close_fixture(&f);
}

Test(group_streams, may_be_named_in_any_order) {
  PARTY_RUN(2, 40000, share_a_communicator, NULL);
  PARTY_RUN(1, 40000, share_streams, NULL);
}

/* ---- failures -------------------------------------------------------------------------------*/

static int require_failure(coll_stream_t stream, const char *which) {
  for (int i = 0; i < 2; i++) {
    coll_status_t status = query_until_done(stream);
    PARTY_REQUIRE(status == COLL_ERROR_RANK_LOST, "%s: %s", which, coll_status_string(status));
  }
  PARTY_REQUIRE(coll_stream_sync(stream) == COLL_ERROR_RANK_LOST, "%s: no failure", which);
  PARTY_REQUIRE(strstr(coll_last_error(NULL), "rank 0") != NULL, "%s: '%s'", which,
                coll_last_error(NULL));
  PARTY_OK(coll_stream_sync(stream)); /* it is returned once */
  return 0;
}

/* A call of the group fails: all streams that its communicator names have the failure, others have
 * none. */
static int fail_in_group(party_rank_t *self) {
  fixture_t f;
  int32_t one = 1, sums[3] = {0};
  PARTY_TRY(open_fixture(self, &f));
  if (self->rank == 0) {
    harness_barrier();
    PARTY_OK(coll_comm_abort(f.comm));
    PARTY_OK(add_up(&one, &sums[2], f.sides[2], NULL));
  } else {
    PARTY_OK(coll_group_start());
    for (int i = 0; i < 2; i++) PARTY_OK(add_up(&one, &sums[i], f.comm, f.streams[i]));
    PARTY_OK(add_up(&one, &sums[2], f.sides[2], f.streams[2]));
    PARTY_OK(coll_group_end());
    harness_barrier();
    PARTY_TRY(require_failure(f.streams[0], "first"));
    PARTY_TRY(require_failure(f.streams[1], "second"));
    PARTY_OK(coll_stream_sync(f.streams[2]));
    PARTY_REQUIRE(sums[0] == 0 && sums[1] == 0 && sums[2] == self->size, "%d", sums[2]);
  }
  return close_fixture(&f);
}

/* A stream has failed before the group: the group's calls of the communicator are dropped, whether
 * it is the stream that would have run them or another. */
static int fail_before_group(party_rank_t *self) {
  fixture_t f;
  int32_t one = 1, sums[3] = {0};
  int failing = self->size - 2; /* 0 or 1 */
  PARTY_TRY(open_fixture(self, &f));
  if (self->rank == 0) {
    harness_barrier();
    PARTY_OK(coll_comm_abort(f.sides[2]));
    PARTY_REQUIRE(add_up(&one, &sums[0], f.comm, NULL) == COLL_ERROR_RANK_LOST, "it ran");
  } else {
    PARTY_OK(add_up(&one, &sums[2], f.sides[2], f.streams[failing]));
    PARTY_OK(coll_group_start());
    for (int i = 0; i < 2; i++) PARTY_OK(add_up(&one, &sums[i], f.comm, f.streams[i]));
    PARTY_OK(coll_group_end());
    harness_barrier();
    for (int i = 0; i < 2; i++) PARTY_TRY(require_failure(f.streams[i], i ? "second" : "first"));
    PARTY_REQUIRE(sums[0] == 0 && sums[1] == 0, "a dropped call ran");
    PARTY_REQUIRE(coll_comm_error(f.comm) == COLL_ERROR_RANK_LOST, "the communicator works");
  }
  return close_fixture(&f);
}

/* The same with a call without a stream, whose group returns the failure. */
static int fail_beside_none(party_rank_t *self) {
  fixture_t f;
  int32_t one = 1, sums[2] = {0};
  PARTY_TRY(open_fixture(self, &f));
  if (self->rank == 0) {
    PARTY_OK(coll_comm_abort(f.sides[2]));
  } else {
    PARTY_OK(add_up(&one, &sums[0], f.sides[2], f.streams[0]));
    PARTY_OK(coll_group_start());
    for (int i = 0; i < 2; i++) PARTY_OK(add_up(&one, &sums[i], f.comm, i ? NULL : f.streams[0]));
    PARTY_REQUIRE(coll_group_end() == COLL_ERROR_RANK_LOST, "the group ran");
    PARTY_TRY(require_failure(f.streams[0], "the stream"));
  }
  return close_fixture(&f);
}

/* A wrong call keeps the group from running, and leaves no trace. */
static int refuse(party_rank_t *self) {
  fixture_t f;
  int32_t one = 1, sums[3] = {0};
  PARTY_TRY(open_fixture(self, &f));
  PARTY_OK(coll_group_start());
  for (int i = 0; i < 2; i++) PARTY_OK(add_up(&one, &sums[i], f.comm, f.streams[i]));
  PARTY_REQUIRE(add_up(NULL, &sums[2], f.comm, NULL) == COLL_ERROR_INVALID, "NULL was accepted");
  PARTY_REQUIRE(coll_group_end() == COLL_ERROR_INVALID, "the group ran");
  PARTY_OK(coll_group_start());
  for (int i = 0; i < 3; i++) PARTY_OK(add_up(&one, &sums[0], f.comm, f.streams[i]));
  PARTY_REQUIRE(coll_group_end() == COLL_ERROR_INVALID, "calls that share memory ran");
  for (int i = 0; i < 3; i++) PARTY_OK(coll_stream_query(f.streams[i]));
  PARTY_OK(add_up(&one, &sums[0], f.comm, f.streams[0]));
  return close_fixture(&f);
}

Test(group_streams, all_get_the_failure_of_a_call) {
  PARTY_RUN(2, 20000, fail_in_group, NULL);
  PARTY_RUN(3, 20000, fail_in_group, NULL);
}

Test(group_streams, all_get_the_failure_of_one_stream) {
  PARTY_RUN(2, 20000, fail_before_group, NULL);
  PARTY_RUN(3, 20000, fail_before_group, NULL);
  PARTY_RUN(2, 20000, fail_beside_none, NULL);
}

Test(group_streams, are_untouched_by_a_group_that_is_refused) {
  PARTY_RUN(2, 20000, refuse, NULL);
}

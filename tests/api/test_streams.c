/*
 * Host streams: order, overlap, stored errors, and calls still queued at destruction.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "base/clock.h"
#include "harness/party.h"

/* Each call uses the result of the one before it. */
static int in_order(party_rank_t *self) {
  enum { COUNT = 5000, CALLS = 40 };
  coll_stream_t stream;
  uint64_t *data = malloc(COUNT * sizeof *data), expected = 1;
  for (int i = 0; i < COUNT; i++) data[i] = 1;
  PARTY_OK(coll_stream_create(&stream));
  for (int call = 0; call < CALLS; call++) {
    PARTY_OK(coll_allreduce(data, data, COUNT, COLL_UINT64, COLL_SUM, self->comm, stream));
    expected *= (uint64_t)self->size;
  }
  PARTY_OK(coll_stream_sync(stream));
  for (int i = 0; i < COUNT; i++) PARTY_REQUIRE(data[i] == expected, "element %d", i);
  PARTY_OK(coll_stream_sync(stream)); /* nothing more to wait for */
  PARTY_OK(coll_stream_destroy(stream));
  free(data);
  return 0;
}

Test(streams, run_in_order) {
  PARTY_RUN(2, 20000, in_order, NULL);
  PARTY_RUN(5, 20000, in_order, NULL);
}

/* Calls return before their peers call: rank 0 queues first, and only then the others begin. */
static int queued(party_rank_t *self) {
  coll_stream_t stream;
  int32_t one = 1, sum = 0, second = 0;
  PARTY_OK(coll_stream_create(&stream));
  if (self->rank > 0) harness_barrier();
  PARTY_OK(coll_allreduce(&one, &sum, 1, COLL_INT32, COLL_SUM, self->comm, stream));
  PARTY_OK(coll_allreduce(&sum, &second, 1, COLL_INT32, COLL_MAX, self->comm, stream));
  if (self->rank == 0) harness_barrier();
  PARTY_OK(coll_stream_destroy(stream)); /* drains */
  PARTY_REQUIRE(sum == self->size && second == self->size, "sum %d, then %d", sum, second);
  return 0;
}

Test(streams, return_before_the_call_is_complete) {
  PARTY_RUN(3, 10000, queued, NULL);
}

/* The arrays of alltoallv may be freed as soon as the call returns. */
static int arrays(party_rank_t *self) {
  coll_stream_t stream;
  size_t counts[4] = {1, 1, 1, 1}, displs[4] = {0, 1, 2, 3};
  int32_t in[4], out[4];
  for (int i = 0; i < self->size; i++) in[i] = 10 * self->rank + i;
  PARTY_OK(coll_stream_create(&stream));
  PARTY_OK(coll_alltoallv(in, counts, displs, out, counts, displs, COLL_INT32, self->comm, stream));
  memset(counts, 0xff, sizeof counts);
  memset(displs, 0xff, sizeof displs);
  PARTY_OK(coll_stream_destroy(stream));
  for (int i = 0; i < self->size; i++) PARTY_REQUIRE(out[i] == 10 * i + self->rank, "%d", out[i]);
  return 0;
}

Test(streams, copy_the_arrays_of_alltoallv) {
  PARTY_RUN(4, 10000, arrays, NULL);
}

/* And so may those of the other verbs. Rank r's block has r + 1 elements. */
static int vector_arrays(party_rank_t *self) {
  coll_stream_t stream;
  size_t counts[4] = {1, 2, 3, 4}, displs[4] = {0, 1, 3, 6}, own = (size_t)self->rank + 1;
  int32_t in[10], all[2][10] = {{0}}, block[2][4];
  for (int i = 0; i < 10; i++) in[i] = 10 * self->rank + i;
  PARTY_OK(coll_stream_create(&stream));
  PARTY_OK(coll_allgatherv(in, all[0], counts, displs, COLL_INT32, self->comm, stream));
  PARTY_OK(coll_reduce_scatterv(in, block[0], counts, COLL_INT32, COLL_MAX, self->comm, stream));
  PARTY_OK(coll_gatherv(in, own, all[1], counts, displs, COLL_INT32, 1, self->comm, stream));
  PARTY_OK(coll_scatterv(in, counts, displs, block[1], own, COLL_INT32, 1, self->comm, stream));
  memset(counts, 0xff, sizeof counts);
  memset(displs, 0xff, sizeof displs);
  PARTY_OK(coll_stream_destroy(stream));
  int first = self->rank * (self->rank + 1) / 2;
  for (int r = 0, at = 0; r < 4; r++) {
    for (int i = 0; i <= r; i++, at++) {
      int expected = 10 * r + i;
      PARTY_REQUIRE(all[0][at] == expected, "allgatherv: %d", all[0][at]);
      PARTY_REQUIRE(all[1][at] == (self->rank == 1 ? expected : 0), "gatherv: %d", all[1][at]);
    }
  }
  for (int i = 0; i <= self->rank; i++) {
    PARTY_REQUIRE(block[0][i] == 30 + first + i, "reduce_scatterv: %d", block[0][i]);
    PARTY_REQUIRE(block[1][i] == 10 + first + i, "scatterv: %d", block[1][i]);
  }
  return 0;
}

Test(streams, copy_the_arrays_of_vector_collectives) {
  PARTY_RUN(4, 10000, vector_arrays, NULL);
}

/* The first failure is stored until sync; the calls behind it do not run. */
static int failing(party_rank_t *self) {
  coll_stream_t stream;
  int32_t one = 1, sum = 0;
  PARTY_OK(coll_stream_create(&stream));
  if (self->rank == 0) {
    harness_barrier();
    PARTY_OK(coll_comm_abort(self->comm));
  } else {
    PARTY_OK(coll_allreduce(&one, &sum, 1, COLL_INT32, COLL_SUM, self->comm, stream));
    PARTY_OK(coll_allreduce(&one, &sum, 1, COLL_INT32, COLL_SUM, self->comm, stream));
    harness_barrier();
    PARTY_REQUIRE(coll_stream_sync(stream) == COLL_ERROR_RANK_LOST, "no failure");
    PARTY_REQUIRE(strstr(coll_last_error(NULL), "rank 0") != NULL, "who was it? '%s'",
                  coll_last_error(NULL));
    PARTY_REQUIRE(sum == 0, "a dropped call ran");
    PARTY_OK(coll_stream_sync(stream)); /* the failure is returned once */
  }
  PARTY_OK(coll_stream_destroy(stream));
  return 0;
}

Test(streams, keep_the_first_failure_until_sync) {
  PARTY_RUN(3, 10000, failing, NULL);
}

/* ---- queries --------------------------------------------------------------------------------*/

#define QUERY_LIMIT_NS 8000000000u

/* Asks until the stream has done its work. */
static coll_status_t query_until_done(coll_stream_t stream) {
  uint64_t limit_ns = base_clock_now_ns() + QUERY_LIMIT_NS;
  coll_status_t status;
  while ((status = coll_stream_query(stream)) == COLL_IN_PROGRESS) {
    if (base_clock_now_ns() > limit_ns) break;
    sched_yield();
  }
  return status;
}

/* Rank 0 gets its answers while the other ranks have not made their call. */
static int query_a_late_peer(party_rank_t *self) {
  coll_stream_t stream;
  int32_t one = 1, sum = 0;
  PARTY_OK(coll_stream_create(&stream));
  PARTY_OK(coll_stream_query(NULL));
  PARTY_OK(coll_stream_query(stream)); /* nothing was queued */
  if (self->rank > 0) harness_barrier();
  PARTY_OK(coll_allreduce(&one, &sum, 1, COLL_INT32, COLL_SUM, self->comm, stream));
  PARTY_OK(coll_barrier(self->comm, stream));
  if (self->rank == 0) {
    PARTY_REQUIRE(coll_stream_create(NULL) == COLL_ERROR_INVALID, "no stream was set");
    for (int i = 0; i < 100; i++) {
      coll_status_t status = coll_stream_query(stream);
      PARTY_REQUIRE(status == COLL_IN_PROGRESS, "%s", coll_status_string(status));
    }
    PARTY_REQUIRE(strstr(coll_last_error(NULL), "coll_stream_create") != NULL,
                  "a query set the last error: %s", coll_last_error(NULL));
    harness_barrier();
  }
  PARTY_OK(query_until_done(stream));
  PARTY_REQUIRE(sum == self->size, "sum %d", sum);
  PARTY_OK(coll_stream_query(stream));
  PARTY_OK(coll_stream_destroy(stream));
  return 0;
}

Test(streams, are_queried_without_waiting_for_a_peer) {
  PARTY_RUN(3, 20000, query_a_late_peer, NULL);
}

/* Queries return the failure again and again, and leave it for sync. */
static int query_a_failure(party_rank_t *self) {
  coll_stream_t stream;
  int32_t one = 1, sum = 0;
  PARTY_OK(coll_stream_create(&stream));
  if (self->rank == 0) {
    harness_barrier();
    PARTY_OK(coll_comm_abort(self->comm));
  } else {
    for (int i = 0; i < 3; i++) {
      PARTY_OK(coll_allreduce(&one, &sum, 1, COLL_INT32, COLL_SUM, self->comm, stream));
    }
    harness_barrier();
    for (int i = 0; i < 3; i++) {
      coll_status_t status = query_until_done(stream);
      PARTY_REQUIRE(status == COLL_ERROR_RANK_LOST, "%s", coll_status_string(status));
      PARTY_REQUIRE(strstr(coll_last_error(NULL), "rank 0") != NULL, "who was it? '%s'",
                    coll_last_error(NULL));
    }
    PARTY_REQUIRE(coll_stream_sync(stream) == COLL_ERROR_RANK_LOST, "a query took the failure");
    PARTY_OK(coll_stream_query(stream));
  }
  PARTY_OK(coll_stream_destroy(stream));
  return 0;
}

Test(streams, show_a_failure_to_queries_and_keep_it) {
  PARTY_RUN(2, 20000, query_a_failure, NULL);
}

/* ---- groups ---------------------------------------------------------------------------------*/

/* One group over two streams and the caller's thread, each with its own communicator. */
static int group_over_streams(party_rank_t *self) {
  enum { ROUNDS = 30 };
  coll_stream_t streams[3] = {NULL};
  coll_comm_t comms[3] = {self->comm};
  int32_t one = 1 + self->rank, sums[3];
  for (int i = 1; i < 3; i++) {
    PARTY_OK(coll_stream_create(&streams[i]));
    PARTY_OK(coll_comm_split(self->comm, 0, -self->rank, NULL, &comms[i]));
  }
  for (int round = 0; round < ROUNDS; round++) {
    PARTY_OK(coll_group_start());
    for (int i = 0; i < 3; i++) {
      PARTY_OK(coll_allreduce(&one, &sums[i], 1, COLL_INT32, COLL_SUM, comms[i], streams[i]));
    }
    PARTY_OK(coll_group_end());
    for (int i = 1; i < 3; i++) PARTY_OK(coll_stream_sync(streams[i]));
    for (int i = 0; i < 3; i++) {
      PARTY_REQUIRE(sums[i] == self->size * (self->size + 1) / 2, "stream %d: %d", i, sums[i]);
    }
  }
  for (int i = 1; i < 3; i++) {
    PARTY_OK(coll_stream_destroy(streams[i]));
    PARTY_OK(coll_comm_destroy(comms[i]));
  }
  return 0;
}

Test(streams, share_a_group) {
  PARTY_RUN(3, 10000, group_over_streams, NULL);
}

/* A communicator may be destroyed when its own calls of a queued group are done, even while others
 * wait. */
static int leave_a_group(party_rank_t *self) {
  coll_comm_t other;
  coll_stream_t stream;
  int32_t sent = 7, got = 0, last = 0;
  PARTY_OK(coll_stream_create(&stream));
  PARTY_OK(coll_comm_create_local(1, NULL, &other));
  PARTY_OK(coll_group_start());
  PARTY_OK(coll_send(&sent, 1, COLL_INT32, 0, other, stream));
  PARTY_OK(coll_recv(&got, 1, COLL_INT32, 0, other, stream));
  if (self->rank == 1) PARTY_OK(coll_recv(&last, 1, COLL_INT32, 0, self->comm, stream));
  PARTY_OK(coll_group_end());
  PARTY_OK(coll_comm_destroy(other));
  harness_barrier();
  if (self->rank == 0) PARTY_OK(coll_send(&sent, 1, COLL_INT32, 1, self->comm, NULL));
  PARTY_OK(coll_stream_destroy(stream));
  PARTY_REQUIRE(got == 7 && (self->rank == 0 || last == 7), "%d, %d", (int)got, (int)last);
  return 0;
}

Test(streams, release_a_communicator_whose_calls_are_done) {
  PARTY_RUN(2, 10000, leave_a_group, NULL);
}

/* ---- several threads ------------------------------------------------------------------------*/

/* Threads of one rank that make the same call many times, on streams or directly. */
typedef struct caller {
  coll_comm_t comms[2];
  coll_stream_t stream;
  coll_op_t op;
  bool in_groups;
  int rounds;
  coll_status_t status;
} caller_t;

static coll_status_t call_both(const caller_t *caller) {
  static const int32_t one = 1;
  static _Thread_local int32_t sums[2];
  coll_status_t status = COLL_OK;
  for (int c = 0; c < 2 && status == COLL_OK; c++) {
    if (caller->comms[c] == NULL) continue;
    status =
        coll_allreduce(&one, &sums[c], 1, COLL_INT32, caller->op, caller->comms[c], caller->stream);
  }
  return status;
}

static void *call_often(void *argument) {
  caller_t *caller = argument;
  for (int i = 0; i < caller->rounds && caller->status == COLL_OK; i++) {
    if (caller->in_groups) coll_group_start();
    caller->status = call_both(caller);
    if (caller->in_groups) caller->status = coll_group_end();
  }
  if (caller->status == COLL_OK && caller->stream != NULL) {
    caller->status = coll_stream_sync(caller->stream);
  }
  return NULL;
}

static int run_callers(caller_t callers[], int threads) {
  pthread_t handles[4];
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

/* streams[i]: the stream of thread i; NULL: it calls directly. */
static int call_from_threads(party_rank_t *self, coll_comm_t other, coll_stream_t streams[],
                             int threads) {
  caller_t callers[4];
  for (int i = 0; i < threads; i++) {
    callers[i] = (caller_t){.comms = {self->comm, other},
                            .stream = streams[i],
                            .op = COLL_SUM,
                            .in_groups = true,
                            .rounds = 200};
    if (i % 2 == 1 && other != NULL) { /* the other way round */
      callers[i].comms[0] = other;
      callers[i].comms[1] = self->comm;
    }
  }
  return run_callers(callers, threads);
}

static int threads_without_streams(party_rank_t *self) {
  coll_stream_t none[4] = {NULL};
  return call_from_threads(self, NULL, none, 3);
}

/* Sums take the fast path and averages do not; both must respect the order of tickets. */
static int threads_without_groups(party_rank_t *self) {
  static const coll_op_t ops[] = {COLL_SUM, COLL_AVG};
  for (int o = 0; o < 2; o++) {
    const caller_t each = {.comms = {self->comm, NULL}, .op = ops[o], .rounds = 2000};
    caller_t callers[4] = {each, each, each};
    PARTY_TRY(run_callers(callers, 3));
  }
  return 0;
}

static int threads_on_one_stream(party_rank_t *self) {
  coll_stream_t stream;
  PARTY_OK(coll_stream_create(&stream));
  coll_stream_t streams[4] = {stream, stream, stream, stream};
  PARTY_TRY(call_from_threads(self, NULL, streams, 3));
  PARTY_OK(coll_stream_destroy(stream));
  return 0;
}

static int threads_on_two_communicators(party_rank_t *self) {
  coll_comm_t other;
  coll_stream_t none[4] = {NULL};
  PARTY_OK(coll_comm_split(self->comm, 0, self->rank, NULL, &other));
  PARTY_TRY(call_from_threads(self, other, none, 2));
  PARTY_OK(coll_comm_destroy(other));
  return 0;
}

static int threads_on_streams_and_communicators(party_rank_t *self) {
  coll_comm_t other;
  coll_stream_t streams[4] = {NULL};
  PARTY_OK(coll_comm_split(self->comm, 0, self->rank, NULL, &other));
  PARTY_OK(coll_stream_create(&streams[1]));
  PARTY_OK(coll_stream_create(&streams[2]));
  PARTY_TRY(call_from_threads(self, other, streams, 4));
  PARTY_OK(coll_stream_destroy(streams[1]));
  PARTY_OK(coll_stream_destroy(streams[2]));
  PARTY_OK(coll_comm_destroy(other));
  return 0;
}

Test(lock, orders_threads) {
  PARTY_RUN(2, 20000, threads_without_streams, NULL);
  PARTY_RUN(2, 60000, threads_without_groups, NULL);
}

Test(lock, orders_threads_on_one_stream) {
  PARTY_RUN(2, 20000, threads_on_one_stream, NULL);
}

Test(lock, orders_threads_on_two_communicators) {
  PARTY_RUN(2, 20000, threads_on_two_communicators, NULL);
}

Test(lock, orders_threads_streams_and_communicators) {
  PARTY_RUN(2, 20000, threads_on_streams_and_communicators, NULL);
}

/*
 * The collectives of an axis with 1 to 5 ranks, in all element types, at once and queued. Values
 * are small integers, so that sums are exact in every type and order.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "harness/party.h"
#include "libtrain/parallel/axis.h"

#define TIMEOUT_MS 30000
#define RANKS_MAX 5
#define COUNT 301 /* not divisible by 2 to 5 */
#define ALL (RANKS_MAX * COUNT)

typedef struct trial {
  train_dtype_t dtype;
  bool queued;
} trial_t;

/* What a rank has at an index: -8 .. 8. */
static float value_of(int rank, size_t index) {
  return (float)((int)((index * 7 + (size_t)rank * 5) % 17) - 8);
}

static float sum_of(int ranks, size_t index) {
  float sum = 0;
  for (int rank = 0; rank < ranks; rank++) sum += value_of(rank, index);
  return sum;
}

/* Buffers of a rank, in the dtype of the trial, and the axis under test. */
typedef struct bench {
  party_rank_t *self;
  train_axis_t axis;
  train_dtype_t dtype;
  bool queued;
  float from[ALL], to[ALL]; /* storage of any dtype */
} bench_t;

static void fill(bench_t *bench, size_t count) {
  float wide[ALL];
  for (size_t i = 0; i < count; i++) wide[i] = value_of(bench->self->rank, i);
  train_dtype_narrow(bench->dtype, wide, count, bench->from);
  memset(bench->to, 0xee, sizeof bench->to);
  if (bench->queued) train_axis_queue(&bench->axis);
}

static int require(const bench_t *bench, const void *values, size_t index, float expected,
                   const char *what) {
  float given;
  train_dtype_widen(bench->dtype, train_dtype_const_at(bench->dtype, values, index), 1, &given);
  PARTY_REQUIRE(given == expected, "%s: element %zu is %g, not %g", what, index, (double)given,
                (double)expected);
  return 0;
}

static int end_call(bench_t *bench, uint64_t elements, const char *what) {
  uint64_t bytes = elements * train_dtype_bytes(bench->dtype);
  train_axis_wait(&bench->axis);
  PARTY_OK(train_axis_status(&bench->axis));
  PARTY_REQUIRE(bench->axis.bytes_sent == bytes, "%s: %llu bytes are counted, not %llu", what,
                (unsigned long long)bench->axis.bytes_sent, (unsigned long long)bytes);
  bench->axis.bytes_sent = 0;
  return 0;
}

static int check_allreduce(bench_t *bench) {
  size_t size = (size_t)bench->self->size;
  fill(bench, COUNT);
  train_axis_allreduce(&bench->axis, bench->dtype, bench->from, COUNT);
  PARTY_TRY(end_call(bench, 2 * COUNT * (size - 1) / size, "allreduce"));
  for (size_t i = 0; i < COUNT; i++) {
    PARTY_TRY(require(bench, bench->from, i, sum_of(bench->self->size, i), "allreduce"));
  }
  return 0;
}

/* Out of place, then in place. */
static int check_allgather(bench_t *bench) {
  size_t size = (size_t)bench->self->size;
  void *place = train_dtype_at(bench->dtype, bench->to, (size_t)bench->self->rank * COUNT);
  for (int in_place = 0; in_place < 2; in_place++) {
    fill(bench, COUNT);
    if (in_place) memcpy(place, bench->from, COUNT * train_dtype_bytes(bench->dtype));
    train_axis_allgather(&bench->axis, bench->dtype, in_place ? place : bench->from, bench->to,
                         COUNT);
    PARTY_TRY(end_call(bench, (size - 1) * COUNT, "allgather"));
    for (size_t i = 0; i < size * COUNT; i++) {
      PARTY_TRY(require(bench, bench->to, i, value_of((int)(i / COUNT), i % COUNT), "allgather"));
    }
  }
  return 0;
}

static int check_reduce_scatter(bench_t *bench) {
  size_t size = (size_t)bench->self->size, first = (size_t)bench->self->rank * COUNT;
  void *place = train_dtype_at(bench->dtype, bench->from, first);
  for (int in_place = 0; in_place < 2; in_place++) {
    void *own = in_place ? place : bench->to;
    fill(bench, size * COUNT);
    train_axis_reduce_scatter(&bench->axis, bench->dtype, bench->from, own, COUNT);
    PARTY_TRY(end_call(bench, (size - 1) * COUNT, "reduce-scatter"));
    for (size_t i = 0; i < COUNT; i++) {
      float expected = sum_of(bench->self->size, first + i);
      PARTY_TRY(require(bench, own, i, expected, "reduce-scatter"));
    }
    for (size_t i = 0; i < size * COUNT; i++) {
      if (i >= first && i < first + COUNT) continue;
      PARTY_TRY(require(bench, bench->from, i, value_of(bench->self->rank, i), "other parts"));
    }
  }
  return 0;
}

static int check_alltoall(bench_t *bench) {
  size_t size = (size_t)bench->self->size, first = (size_t)bench->self->rank * COUNT;
  for (int in_place = 0; in_place < 2; in_place++) {
    void *to = in_place ? bench->from : bench->to;
    fill(bench, size * COUNT);
    train_axis_alltoall(&bench->axis, bench->dtype, bench->from, to, COUNT);
    PARTY_TRY(end_call(bench, (size - 1) * COUNT, "alltoall"));
    for (size_t i = 0; i < size * COUNT; i++) {
      float expected = value_of((int)(i / COUNT), first + i % COUNT);
      PARTY_TRY(require(bench, to, i, expected, "alltoall"));
    }
  }
  return 0;
}

/* Rank r sends 10 r + 3 s elements to rank s: none from 0 to 0. */
static size_t block_count(size_t from, size_t to) {
  return 10 * from + 3 * to;
}

static int check_alltoallv(bench_t *bench) {
  size_t size = (size_t)bench->self->size, rank = (size_t)bench->self->rank, sent = 0;
  size_t from_counts[RANKS_MAX], from_offsets[RANKS_MAX], to_counts[RANKS_MAX] = {0},
                                                          to_offsets[RANKS_MAX];
  for (size_t i = 0; i < size; i++) {
    from_counts[i] = block_count(rank, i);
    from_offsets[i] = i * COUNT;
    to_offsets[i] = i * COUNT + 1;
    if (i != rank) sent += from_counts[i];
  }
  train_axis_exchange_counts(&bench->axis, from_counts, to_counts);
  bench->axis.bytes_sent = 0;
  fill(bench, size * COUNT);
  train_axis_alltoallv(&bench->axis, bench->dtype, bench->from, bench->to,
                       &(train_axis_blocks_t){.from_counts = from_counts,
                                              .from_offsets = from_offsets,
                                              .to_counts = to_counts,
                                              .to_offsets = to_offsets});
  PARTY_TRY(end_call(bench, sent, "alltoallv"));
  for (size_t from = 0; from < size; from++) {
    PARTY_REQUIRE(to_counts[from] == block_count(from, rank), "count of %zu", from);
    for (size_t i = 0; i < to_counts[from]; i++) {
      float expected = value_of((int)from, rank * COUNT + i);
      PARTY_TRY(require(bench, bench->to, to_offsets[from] + i, expected, "alltoallv"));
    }
  }
  return 0;
}

static int check_broadcast(bench_t *bench) {
  int size = bench->self->size, rank = bench->self->rank;
  for (int root = 0; root < size; root++) {
    fill(bench, COUNT);
    train_axis_broadcast(&bench->axis, bench->dtype, bench->from, COUNT, root);
    PARTY_TRY(end_call(bench, (rank + 1) % size == root ? 0 : COUNT, "broadcast"));
    for (size_t i = 0; i < COUNT; i++) {
      PARTY_TRY(require(bench, bench->from, i, value_of(root, i), "broadcast"));
    }
  }
  return 0;
}

/* Around the ring in both directions, and to this rank itself. */
static int check_sendrecv(bench_t *bench) {
  int size = bench->self->size;
  for (int steps = -size; steps <= size; steps++) {
    int to = train_axis_neighbour(&bench->axis, steps);
    int from = train_axis_neighbour(&bench->axis, -steps);
    fill(bench, COUNT);
    train_axis_sendrecv(&bench->axis, bench->dtype, bench->from, to, bench->to, from, COUNT);
    PARTY_TRY(end_call(bench, steps % size == 0 ? 0 : COUNT, "sendrecv"));
    for (size_t i = 0; i < COUNT; i++) {
      PARTY_TRY(require(bench, bench->to, i, value_of(from, i), "sendrecv"));
    }
  }
  return 0;
}

/* Along a chain: each rank but the last sends what it has received, which is rank 0's. */
static int check_chain(bench_t *bench) {
  int size = bench->self->size, rank = bench->self->rank;
  fill(bench, COUNT);
  if (rank > 0) train_axis_recv(&bench->axis, bench->dtype, bench->from, COUNT, rank - 1);
  if (rank + 1 < size) train_axis_send(&bench->axis, bench->dtype, bench->from, COUNT, rank + 1);
  PARTY_TRY(end_call(bench, rank + 1 < size ? COUNT : 0, "send"));
  for (size_t i = 0; i < COUNT; i++) {
    PARTY_TRY(require(bench, bench->from, i, value_of(0, i), "chain"));
  }
  return 0;
}

static int check_statistics(bench_t *bench) {
  int size = bench->self->size, rank = bench->self->rank;
  float maximum[2] = {(float)-rank, (float)rank}, sum[2] = {1, (float)rank};
  double precise[2] = {1 + rank * 1e-12, 2};
  fill(bench, 1);
  train_axis_max(&bench->axis, maximum, 2);
  train_axis_sum_floats(&bench->axis, sum, 2);
  train_axis_sum_doubles(&bench->axis, precise, 2);
  train_axis_wait(&bench->axis);
  bench->axis.bytes_sent = 0;
  PARTY_REQUIRE(maximum[0] == 0 && maximum[1] == (float)(size - 1), "maxima");
  PARTY_REQUIRE(sum[0] == (float)size && sum[1] == (float)(size * (size - 1) / 2), "sums");
  PARTY_REQUIRE(fabs(precise[0] - size - 1e-12 * (size * (size - 1) / 2)) < 1e-14, "doubles");
  return 0;
}

static int (*const checks[])(bench_t *) = {
    check_allreduce, check_allgather, check_reduce_scatter, check_alltoall,   check_alltoallv,
    check_broadcast, check_sendrecv,  check_chain,          check_statistics, check_allreduce};

static int check_all(party_rank_t *self) {
  const trial_t *trial = self->context;
  bench_t bench = {.self = self, .dtype = trial->dtype, .queued = trial->queued};
  int failed = 0;
  PARTY_OK(train_axis_init(self->size == 1 ? NULL : self->comm, &bench.axis));
  for (size_t i = 0; i < sizeof checks / sizeof *checks && !failed; i++) failed = checks[i](&bench);
  train_axis_free(&bench.axis);
  return failed;
}

Test(parallel_axis, collectives_of_all_types) {
  for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
    for (int dtype = 0; dtype < TRAIN_DTYPES; dtype++) {
      for (int queued = 0; queued < 2; queued++) {
        trial_t trial = {(train_dtype_t)dtype, queued};
        harness_result_t result;
        cr_assert(party_threads(ranks, TIMEOUT_MS, check_all, &trial, &result),
                  "%d ranks, %s%s: %s", ranks, train_dtype_name(trial.dtype),
                  queued ? ", queued" : "", result.text);
      }
    }
  }
}

Test(parallel_axis, ranks_can_be_processes) {
  trial_t trial = {TRAIN_BFLOAT16, true};
  harness_result_t result;
  cr_assert(party_processes(3, TIMEOUT_MS, check_all, &trial, &result), "%s", result.text);
}

/* ---- failures ---- */

/* Rank 1 passes another count: every rank keeps that failure, and later calls send nothing. */
static int mismatch_body(party_rank_t *self) {
  train_axis_t axis;
  float values[4] = {0};
  PARTY_OK(train_axis_init(self->comm, &axis));
  for (int queued = 0; queued < 2; queued++) {
    if (queued) train_axis_queue(&axis);
    for (int call = 0; call < 3; call++) {
      train_axis_allreduce(&axis, TRAIN_FLOAT32, values, self->rank == 1 ? 3 : 4);
      if (call == 0 && !queued) axis.bytes_sent = 0;
    }
    train_axis_wait(&axis);
    coll_status_t status = train_axis_status(&axis);
    PARTY_REQUIRE(status == COLL_ERROR_MISMATCH, "%s", coll_status_string(status));
    PARTY_REQUIRE(strstr(base_last_error(), "allreduce") != NULL, "text: %s", base_last_error());
    PARTY_REQUIRE(axis.bytes_sent == 0, "calls are made after a failure");
    base_fail(COLL_ERROR_INVALID, "another failure of this thread");
  }
  train_axis_free(&axis);
  return 0;
}

Test(parallel_axis, the_first_failure_is_kept) {
  harness_result_t result;
  cr_assert(party_threads(3, TIMEOUT_MS, mismatch_body, NULL, &result), "%s", result.text);
}

/* Rank 2 fails outside of a call; the others are in one, and get an error that names it. */
static int fail_body(party_rank_t *self) {
  const trial_t *trial = self->context;
  train_axis_t axis;
  float values[2] = {0};
  PARTY_OK(train_axis_init(self->comm, &axis));
  if (trial->queued) train_axis_queue(&axis);
  if (self->rank == 2) {
    train_axis_fail(&axis, base_fail(COLL_ERROR_MEMORY, "no memory for a layer"));
  }
  train_axis_sendrecv(&axis, TRAIN_FLOAT32, &values[0], train_axis_neighbour(&axis, 1), &values[1],
                      train_axis_neighbour(&axis, -1), 1);
  train_axis_allreduce(&axis, TRAIN_FLOAT32, values, 2);
  train_axis_wait(&axis);
  coll_status_t status = train_axis_status(&axis);
  coll_status_t expected = self->rank == 2 ? COLL_ERROR_MEMORY : COLL_ERROR_RANK_LOST;
  const char *text = self->rank == 2 ? "no memory for a layer" : "rank 2";
  PARTY_REQUIRE(status == expected, "%s", coll_status_string(status));
  PARTY_REQUIRE(strstr(base_last_error(), text) != NULL, "text: %s", base_last_error());
  train_axis_free(&axis);
  return 0;
}

Test(parallel_axis, the_failure_of_one_rank_ends_the_calls_of_all) {
  for (int queued = 0; queued < 2; queued++) {
    trial_t trial = {.queued = queued};
    harness_result_t result;
    cr_assert(party_threads(3, TIMEOUT_MS, fail_body, &trial, &result), "%s", result.text);
  }
}

/* A wrong argument on one rank only: its call sends nothing, and the others do not wait. */
static int argument_body(party_rank_t *self) {
  train_axis_t axis;
  float value = 0;
  PARTY_OK(train_axis_init(self->comm, &axis));
  train_axis_broadcast(&axis, TRAIN_FLOAT32, &value, 1, self->rank == 0 ? 7 : 1);
  train_axis_allreduce(&axis, TRAIN_FLOAT32, &value, 1);
  coll_status_t status = train_axis_status(&axis);
  coll_status_t expected = self->rank == 0 ? COLL_ERROR_INVALID : COLL_ERROR_RANK_LOST;
  PARTY_REQUIRE(status == expected, "%s: %s", coll_status_string(status), base_last_error());
  train_axis_free(&axis);
  return 0;
}

Test(parallel_axis, a_wrong_argument_of_one_rank_ends_the_calls_of_all) {
  harness_result_t result;
  cr_assert(party_threads(3, TIMEOUT_MS, argument_body, NULL, &result), "%s", result.text);
}

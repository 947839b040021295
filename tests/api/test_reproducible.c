/*
 * Reproducible communicators: a reduction has the same bits with any algorithm, memory, cores,
 * root, group, and in place or not. Every output is compared with the canonical expression, which
 * is evaluated here one element at a time, for inputs whose results are inexact. The suite runs a
 * sample; a full run covers the whole matrix.
 */
#include <criterion/criterion.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "device/reference.h"
#include "harness/party.h"
#include "verify/random.h"

enum {
  BLOCK = 17,    /* distinct elements of a block of a reduce-scatter */
  LARGE = 20000, /* elements of a call of several passes */
  RANKS_MAX = 16,
  OP_PREMUL = COLL_OP_BUILTIN_COUNT,
  OPS,
  GROUPED = 3 /* calls of one group */
};

/* One rank's part of a run. */
typedef struct bench {
  party_rank_t *self;
  coll_dtype_t dtype;
  coll_op_t op; /* OP_PREMUL: `premul` */
  coll_op_t premul;
  size_t element_bytes;
  size_t distinct; /* elements from which all inputs and outputs are made: size * BLOCK */
  char *inputs[RANKS_MAX];
  char *expected;
  coll_stream_t stream;
  uint64_t random;
} bench_t;

/* How a call is made. */
typedef struct manner {
  coll_collective_t collective;
  const char *algo;
  size_t repeats; /* of the distinct elements, or of each block's */
  int root;
  bool coll_memory, in_place, grouped, streamed;
} manner_t;

static void *memory_of(size_t bytes) {
  void *memory = calloc(1, bytes + 1);
  if (memory == NULL) abort();
  return memory;
}

/* ---- what must come out ---------------------------------------------------------------------*/

/* Between 1/2 and 2 and of either sign, so that no product overflows. */
static void fill_input(const bench_t *b, int rank) {
  uint64_t random = random_mix(1000 * (uint64_t)b->dtype + (uint64_t)rank + 1);
  for (size_t i = 0; i < b->distinct; i++) {
    double value = 0.5 + (double)random_below(&random, 1500001) / 1000000.0;
    bool negative = random_below(&random, 2) == 0;
    if (reference_is_float(b->dtype)) {
      reference_encode(b->dtype, negative ? -value : value, b->inputs[rank], i);
    } else {
      uint64_t bits = random_next(&random);
      memcpy(b->inputs[rank] + i * b->element_bytes, &bits, b->element_bytes);
    }
  }
}

/* The rank's scalar of a premul-sum. */
static void scalar_of(coll_dtype_t dtype, int rank, void *scalar) {
  int64_t whole = rank - 1;
  memcpy(scalar, &whole, sizeof whole);
  if (reference_is_float(dtype)) reference_encode(dtype, 0.7 + 0.1 * rank, scalar, 0);
}

static void expect(bench_t *b) {
  const void *operands[RANKS_MAX];
  char *scaled[RANKS_MAX];
  bool divides = b->op == COLL_AVG && !reference_is_float(b->dtype);
  coll_op_t op = divides || b->op == (coll_op_t)OP_PREMUL ? COLL_SUM : b->op;
  for (int rank = 0; rank < b->self->size; rank++) {
    uint64_t scalar;
    scaled[rank] = memory_of(b->distinct * b->element_bytes);
    scalar_of(b->dtype, rank, &scalar);
    for (size_t i = 0; i < b->distinct && b->op == (coll_op_t)OP_PREMUL; i++) {
      reference_scale(b->dtype, &scalar, b->inputs[rank], i, scaled[rank]);
    }
    operands[rank] = b->op == (coll_op_t)OP_PREMUL ? scaled[rank] : b->inputs[rank];
  }
  for (size_t i = 0; i < b->distinct; i++) {
    reference_reduce(b->dtype, op, operands, b->self->size, i, b->expected);
    if (divides) reference_divide(b->dtype, b->self->size, b->expected, i, b->expected);
  }
  for (int rank = 0; rank < b->self->size; rank++) free(scaled[rank]);
}

/* ---- calls ----------------------------------------------------------------------------------*/

/* Copies `count` of the distinct elements, from `first` on, `repeats` times. */
static void lay(const bench_t *b, char *to, const char *from, size_t first, size_t count,
                size_t repeats) {
  size_t bytes = count * b->element_bytes;
  for (size_t i = 0; i < repeats; i++) {
    memcpy(to + i * bytes, from + first * b->element_bytes, bytes);
  }
}

static bool scatters(const manner_t *m) {
  return m->collective == COLL_REDUCE_SCATTER || m->collective == COLL_REDUCE_SCATTERV;
}

/* A block of a reduce-scatter; the whole vector otherwise. */
static size_t block_of(const bench_t *b, const manner_t *m) {
  return scatters(m) ? BLOCK : b->distinct;
}

/* How often the block of a rank is repeated. Those of reduce_scatterv differ in size. */
static size_t repeats_of(const manner_t *m, int rank) {
  return m->repeats + (m->collective == COLL_REDUCE_SCATTERV && rank == 0);
}

/* Elements before the block of a rank in the input of a reduce-scatter. */
static size_t elements_before(const manner_t *m, int rank) {
  size_t repeats = 0;
  for (int r = 0; r < rank; r++) repeats += repeats_of(m, r);
  return repeats * BLOCK;
}

static void lay_input(const bench_t *b, const manner_t *m, char *to) {
  size_t block = block_of(b, m);
  for (size_t first = 0; first < b->distinct; first += block) {
    int rank = (int)(first / block);
    lay(b, to + elements_before(m, rank) * b->element_bytes, b->inputs[b->self->rank], first, block,
        repeats_of(m, rank));
  }
}

static coll_status_t call(const bench_t *b, const manner_t *m, const void *in, void *out) {
  coll_comm_t comm = b->self->comm;
  size_t count = block_of(b, m) * m->repeats;
  coll_op_t op = b->op == (coll_op_t)OP_PREMUL ? b->premul : b->op;
  coll_stream_t stream = m->streamed ? b->stream : NULL;
  switch (m->collective) {
    case COLL_ALLREDUCE: return coll_allreduce(in, out, count, b->dtype, op, comm, stream);
    case COLL_REDUCE: return coll_reduce(in, out, count, b->dtype, op, m->root, comm, stream);
    case COLL_REDUCE_SCATTERV: {
      size_t counts[RANKS_MAX];
      for (int r = 0; r < b->self->size; r++) counts[r] = block_of(b, m) * repeats_of(m, r);
      return coll_reduce_scatterv(in, out, counts, b->dtype, op, comm, stream);
    }
    default: return coll_reduce_scatter(in, out, count, b->dtype, op, comm, stream);
  }
}

static int check_output(const bench_t *b, const manner_t *m, const char *out) {
  size_t block = block_of(b, m), bytes = block * b->element_bytes;
  if (m->collective == COLL_REDUCE && m->root != b->self->rank) return 0;
  const char *expected = b->expected + (scatters(m) ? (size_t)b->self->rank * bytes : 0);
  for (size_t i = 0; i < repeats_of(m, b->self->rank); i++) {
    PARTY_REQUIRE(
        memcmp(out + i * bytes, expected, bytes) == 0,
        "%s by %s (set: %s) of %d ranks, %s, op %d, repeat %zu of %zu%s%s%s%s, root %d: "
        "other bits",
        coll_collective_name(m->collective), coll_comm_algo_used(b->self->comm, m->collective),
        m->algo != NULL ? m->algo : "none", b->self->size, coll_dtype_name(b->dtype), (int)b->op, i,
        m->repeats, m->coll_memory ? ", coll_mem_alloc" : "", m->in_place ? ", in place" : "",
        m->grouped ? ", grouped" : "", m->streamed ? ", on a stream" : "", m->root);
  }
  return 0;
}

/* Every call has its own buffers: input, then output. */
static int make_calls(bench_t *b, const manner_t *m) {
  size_t in_bytes = (b->distinct * m->repeats + BLOCK) * b->element_bytes;
  size_t own = elements_before(m, b->self->rank) * b->element_bytes;
  int calls = m->grouped ? GROUPED : 1;
  char *memory = NULL;
  if (m->coll_memory) {
    PARTY_OK(coll_mem_alloc(COLL_DEVICE_HOST, 2 * in_bytes * (size_t)calls, (void **)&memory));
  } else {
    memory = memory_of(2 * in_bytes * (size_t)calls);
  }
  if (m->grouped) PARTY_OK(coll_group_start());
  for (int i = 0; i < calls; i++) {
    char *in = memory + 2 * in_bytes * (size_t)i, *out = in + in_bytes;
    if (m->in_place) out = scatters(m) ? in + own : in;
    lay_input(b, m, in);
    PARTY_OK(call(b, m, in, out));
  }
  if (m->grouped) PARTY_OK(coll_group_end());
  if (m->streamed) PARTY_OK(coll_stream_sync(b->stream));
  for (int i = 0; i < calls; i++) {
    char *in = memory + 2 * in_bytes * (size_t)i, *out = in + in_bytes;
    if (m->in_place) out = scatters(m) ? in + own : in;
    PARTY_TRY(check_output(b, m, out));
  }
  if (m->coll_memory) {
    PARTY_OK(coll_mem_free(memory));
  } else {
    free(memory);
  }
  return 0;
}

/* ---- the matrix -----------------------------------------------------------------------------*/

enum { MANNERS = 16 };

/* The bits of a number below MANNERS determine the manner; the other fields are random. */
static int try_manner(bench_t *b, coll_collective_t collective, const char *algo, uint64_t bits,
                      bool large) {
  uint64_t drawn = random_next(&b->random);
  manner_t m = {.collective = collective,
                .algo = algo,
                .repeats = bits % 2 == 1 && large ? LARGE / b->distinct : 1 + drawn % 3,
                .root = (int)(drawn / 4 % (uint64_t)b->self->size),
                .coll_memory = bits / 2 % 2 == 1,
                .in_place = bits / 4 % 2 == 1,
                .grouped = bits / 8 % 2 == 1,
                .streamed = drawn / 1024 % 4 == 0};
  return make_calls(b, &m);
}

/* In a full run, sums in every manner and all other ops in two; otherwise in one random manner,
 * sometimes a large one. */
static int try_algo(bench_t *b, coll_collective_t collective, const char *algo) {
  bool every = harness_full() && b->op == COLL_SUM;
  int tries = every ? MANNERS : harness_full() ? 2 : 1;
  for (int i = 0; i < tries; i++) {
    uint64_t drawn = random_next(&b->random);
    uint64_t bits = every ? (uint64_t)i : drawn % MANNERS;
    PARTY_TRY(try_manner(b, collective, algo, bits, every || drawn / MANNERS % 8 == 0));
  }
  return 0;
}

/* The library's choice, and all algorithms that may be forced. */
static int try_collective(bench_t *b, coll_collective_t collective) {
  const char *algo = NULL;
  int index = 0, refused = 0;
  do {
    coll_status_t status = coll_comm_algo_set(b->self->comm, collective, algo);
    if (status == COLL_OK) {
      PARTY_TRY(try_algo(b, collective, algo));
    } else {
      PARTY_REQUIRE(status == COLL_ERROR_INVALID, "algo_set: %s", coll_last_error(NULL));
      refused++;
    }
    algo = coll_algo_name(collective, index++);
  } while (algo != NULL);
  PARTY_REQUIRE(refused > 0 || b->self->size == 1, "no algorithm is refused");
  int least = collective == COLL_REDUCE_SCATTERV ? 2 : 3;
  PARTY_REQUIRE(refused + least < index, "only %d of %d algorithms may serve", index - refused,
                index);
  PARTY_OK(coll_comm_algo_set(b->self->comm, collective, NULL));
  return 0;
}

static int try_dtype(bench_t *b) {
  uint64_t scalar;
  scalar_of(b->dtype, b->self->rank, &scalar);
  PARTY_OK(coll_op_create_premul_sum(&scalar, b->dtype, COLL_SCALAR_HOST_IMMEDIATE, b->self->comm,
                                     &b->premul));
  for (int op = 0; op < OPS; op++) {
    bool sampled = op == COLL_SUM || (op + (int)b->dtype + b->self->size) % 3 == 0;
    if (!harness_full() && !sampled) continue;
    if (!base_op_takes((coll_op_t)op, b->dtype)) continue;
    b->op = (coll_op_t)op;
    expect(b);
    PARTY_TRY(try_collective(b, COLL_ALLREDUCE));
    PARTY_TRY(try_collective(b, COLL_REDUCE));
    PARTY_TRY(try_collective(b, COLL_REDUCE_SCATTER));
    PARTY_TRY(try_collective(b, COLL_REDUCE_SCATTERV));
  }
  PARTY_OK(coll_op_destroy(b->premul, b->self->comm));
  return 0;
}

static int try_all(party_rank_t *self) {
  size_t distinct = (size_t)self->size * BLOCK;
  bench_t b = {.self = self, .distinct = distinct, .random = 7 + (uint64_t)self->size};
  PARTY_OK(coll_stream_create(&b.stream));
  b.expected = memory_of(distinct * 8);
  for (int rank = 0; rank < self->size; rank++) b.inputs[rank] = memory_of(distinct * 8);
  for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++) {
    b.dtype = (coll_dtype_t)dtype;
    b.element_bytes = coll_dtype_bytes(b.dtype);
    for (int rank = 0; rank < self->size; rank++) fill_input(&b, rank);
    PARTY_TRY(try_dtype(&b));
  }
  for (int rank = 0; rank < self->size; rank++) free(b.inputs[rank]);
  free(b.expected);
  PARTY_OK(coll_stream_destroy(b.stream));
  return 0;
}

/* Restricts the thread, and those it starts, to the first so many of the cores that it may use. */
static void allow_cores(const cpu_set_t *all, int count) {
  cpu_set_t few;
  CPU_ZERO(&few);
  for (int cpu = 0; cpu < CPU_SETSIZE && count > 0; cpu++) {
    if (!CPU_ISSET(cpu, all)) continue;
    CPU_SET(cpu, &few);
    count--;
  }
  cr_assert_eq(sched_setaffinity(0, sizeof few, &few), 0);
}

static void try_sizes(const int sizes[], int count) {
  cpu_set_t all;
  cr_assert_eq(sched_getaffinity(0, sizeof all, &all), 0);
  setenv("COLL_REPRODUCIBLE", "1", 1);
  for (int i = 0; i < count; i++) {
    for (int cores = 1; cores <= 2; cores++) {
      harness_result_t result;
      allow_cores(&all, cores);
      int limit_ms = harness_full() ? 600000 : 60000;
      bool threads = (i + cores) % 2 == 0; /* the others are processes */
      bool good = threads ? party_threads(sizes[i], limit_ms, try_all, NULL, &result)
                          : party_processes(sizes[i], limit_ms, try_all, NULL, &result);
      cr_expect(good, "%s on %d cores: %s", threads ? "threads" : "processes", cores, result.text);
    }
  }
  sched_setaffinity(0, sizeof all, &all);
}

Test(reproducible, same_bits_for_all_manners_of_a_call) {
  static const int few[] = {2, 3, 4, 7}, many[] = {1, 2, 3, 4, 5, 8};
  if (harness_full()) {
    try_sizes(many, (int)(sizeof many / sizeof many[0]));
  } else {
    try_sizes(few, (int)(sizeof few / sizeof few[0]));
  }
}

/* ---- the setting ----------------------------------------------------------------------------*/

static int settings_differ(int rank, int size, void *context) {
  coll_unique_id_t *id = harness_board();
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  coll_comm_t comm;
  (void)context;
  config.reproducible = rank == 2 ? 1 : -1;
  if (rank == 0) PARTY_OK(coll_unique_id_create(NULL, id));
  harness_barrier();
  coll_status_t status = coll_comm_create(id, rank, size, &config, &comm);
  PARTY_REQUIRE(status == COLL_ERROR_MISMATCH, "%s: %s", coll_status_string(status),
                coll_last_error(NULL));
  char sentence[160];
  snprintf(sentence, sizeof sentence,
           "rank %d: rank 0 creates the communicator with reproducible 0, but rank 2 with 1", rank);
  PARTY_REQUIRE(strncmp(coll_last_error(NULL), sentence, strlen(sentence)) == 0, "%s",
                coll_last_error(NULL));
  return 0;
}

Test(reproducible, different_settings_of_ranks_are_refused) {
  harness_result_t result;
  cr_assert(harness_run(4, 20000, settings_differ, NULL, &result), "%s", result.text);
}

static int set_ring(coll_comm_t comm, bool allowed) {
  coll_status_t status = coll_comm_algo_set(comm, COLL_ALLREDUCE, "ring");
  PARTY_REQUIRE(status == (allowed ? COLL_OK : COLL_ERROR_INVALID), "ring: %s",
                coll_status_string(status));
  PARTY_REQUIRE(allowed || strstr(coll_last_error(comm), "reproducible") != NULL, "%s",
                coll_last_error(comm));
  return 0;
}

/* The config overrides the knob, and a child has its parent's setting. */
static int settings_count(int rank, int size, void *context) {
  coll_unique_id_t *ids = harness_board();
  (void)context;
  for (int setting = -1; setting <= 1; setting++) {
    coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
    coll_comm_t comm, child;
    bool knob = setting == 0;
    setenv("COLL_REPRODUCIBLE", knob || setting < 0 ? "1" : "0", 1);
    config.reproducible = setting;
    if (rank == 0) PARTY_OK(coll_unique_id_create(NULL, &ids[setting + 1]));
    harness_barrier();
    PARTY_OK(coll_comm_create(&ids[setting + 1], rank, size, &config, &comm));
    setenv("COLL_REPRODUCIBLE", setting < 0 ? "1" : "0", 1);
    PARTY_OK(coll_comm_split(comm, 0, -rank, NULL, &child));
    PARTY_TRY(set_ring(comm, setting < 0));
    PARTY_TRY(set_ring(child, setting < 0));
    PARTY_OK(coll_comm_algo_set(comm, COLL_ALLREDUCE, "tree"));
    PARTY_OK(coll_comm_algo_set(comm, COLL_BROADCAST, "chain"));
    PARTY_OK(coll_comm_destroy(child));
    PARTY_OK(coll_comm_destroy(comm));
  }
  return 0;
}

Test(reproducible, config_overrides_the_knob_and_is_inherited) {
  harness_result_t result;
  cr_assert(harness_run(3, 20000, settings_count, NULL, &result), "%s", result.text);
}

Test(reproducible, other_settings_are_refused) {
  coll_unique_id_t id = {{0}};
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  coll_comm_t comms[1];
  config.reproducible = 2;
  cr_assert_eq(coll_unique_id_create(NULL, &id), COLL_OK);
  cr_expect_eq(coll_comm_create(&id, 0, 1, &config, &comms[0]), COLL_ERROR_INVALID);
  cr_expect_not_null(strstr(coll_last_error(NULL), "reproducible 2"));
  config.reproducible = 0;
  cr_assert_eq(coll_comm_create(&id, 0, 1, &config, &comms[0]), COLL_OK);
  cr_assert_eq(coll_comm_destroy(comms[0]), COLL_OK);
  setenv("COLL_REPRODUCIBLE", "yes", 1);
  cr_expect_eq(coll_comm_create_local(1, NULL, comms), COLL_ERROR_INVALID);
  cr_expect_not_null(strstr(coll_last_error(NULL), "COLL_REPRODUCIBLE"));
}

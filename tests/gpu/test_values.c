/*
 * Whole calls of every dtype and operation, averages and premul-sums among them, have the bits of
 * the host's kernels: inputs are random bits, reduced by a plan whose order is exact. Integers go
 * over plans of several lanes too, in several passes.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/names.h"
#include "device/ops.h"
#include "gpu/ranks.h"
#include "verify/random.h"

enum { SIZE = 3, COUNT = 700, BYTES_MAX = COUNT * 8, CAPACITY = 4096 };

typedef struct values {
  ranks_t ranks;
  const char *algorithm;
  coll_dtype_t dtype;
  coll_op_t op;
  bool premul;
  int slices;
  uint64_t scalar;
  _Alignas(GPU_VECTOR_BYTES) char inputs[SIZE][BYTES_MAX], outputs[SIZE][BYTES_MAX];
  gpu_program_t *programs[SIZE];
} values_t;

static void run_rank(void *context, int rank) {
  values_t *values = context;
  ranks_t *ranks = &values->ranks;
  _Alignas(GPU_VECTOR_BYTES) char scaled[BYTES_MAX];
  gpu_program_t *program = values->programs[rank];
  const gpu_request_t request = {.input = values->inputs[rank],
                                 .output = values->outputs[rank],
                                 .scaled = scaled,
                                 .count = COUNT,
                                 .dtype = values->dtype,
                                 .op = values->op,
                                 .scalar = values->premul ? &values->scalar : NULL};
  gpu_call_t call;
  if (gpu_bind_call(&ranks->room, &ranks->ranks[rank], program, program, &request, values->slices,
                    &call) != COLL_OK) {
    abort();
  }
  virtual_launch(&ranks->device, &call, gpu_call_blocks(program, values->slices),
                 values->scalar + (uint64_t)rank);
}

/* As the host carries out such a call. */
static void compute_expected(const values_t *values, char *expected) {
  const device_ops_t *host = &device_host_portable;
  static _Alignas(GPU_VECTOR_BYTES) char scaled[SIZE][BYTES_MAX];
  const void *sources[SIZE];
  void *dst = expected;
  for (int rank = 0; rank < SIZE; rank++) {
    sources[rank] = values->inputs[rank];
    if (!values->premul) continue;
    sources[rank] = scaled[rank];
    host->scale(scaled[rank], values->inputs[rank], COUNT, values->dtype, &values->scalar);
  }
  bool divides = values->op == COLL_AVG && base_dtype_is_integer(values->dtype);
  coll_op_t op = divides ? COLL_SUM : values->op;
  host->reduce(&dst, 1, 0, sources, SIZE, COUNT, values->dtype, op, 0);
  if (divides) host->divide(expected, COUNT, values->dtype, SIZE);
}

static void bind_programs(values_t *values) {
  const plan_shape_t shape = {.collective = COLL_ALLREDUCE, .size = SIZE};
  const algo_t *algo;
  plan_t *plan;
  cr_assert_eq(algo_find(COLL_ALLREDUCE, values->algorithm, &algo), COLL_OK);
  for (int rank = 0; rank < SIZE; rank++) {
    cr_assert_eq(algo_build(algo, &shape, rank, false, &plan), COLL_OK);
    cr_assert_eq(gpu_bind_program(plan, rank, &values->programs[rank]), COLL_OK);
    plan_free(plan);
  }
}

static void check(values_t *values, uint64_t *random) {
  static _Alignas(GPU_VECTOR_BYTES) char expected[BYTES_MAX];
  size_t bytes = COUNT * base_dtype_bytes(values->dtype);
  values->scalar = random_next(random);
  values->slices = 1 + random_below(random, 4);
  for (int rank = 0; rank < SIZE; rank++) {
    for (size_t i = 0; i < BYTES_MAX; i++) values->inputs[rank][i] = (char)random_next(random);
  }
  cr_assert(ranks_run(&values->ranks, run_rank, values), "deadlock");
  compute_expected(values, expected);
  for (int rank = 0; rank < SIZE; rank++) {
    cr_assert(memcmp(values->outputs[rank], expected, bytes) == 0, "%s, %s, op %d, premul %d, %s",
              values->algorithm, base_dtype_name(values->dtype), (int)values->op,
              (int)values->premul, rank == 0 ? "rank 0" : "another rank");
  }
}

static void check_all(const char *algorithm, bool is_exact) {
  static values_t values;
  gpu_room_t room = ranks_room(SIZE);
  uint64_t random = 17;
  values = (values_t){.algorithm = algorithm};
  ranks_init(&values.ranks, &room, CAPACITY);
  bind_programs(&values);
  for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++) {
    bool is_integer = base_dtype_is_integer((coll_dtype_t)dtype);
    if (!is_exact && !is_integer) continue;
    values.dtype = (coll_dtype_t)dtype;
    for (int op = 0; op < (is_integer ? COLL_OP_BUILTIN_COUNT : COLL_BAND); op++) {
      values.op = (coll_op_t)op;
      values.premul = false;
      check(&values, &random);
      values.premul = op == COLL_SUM;
      if (values.premul) check(&values, &random);
    }
  }
  for (int rank = 0; rank < SIZE; rank++) free(values.programs[rank]);
  ranks_free(&values.ranks);
}

Test(gpu, values_in_exact_order) {
  check_all("staged", true);
}

Test(gpu, values_over_messages) {
  check_all("ring", false);
}

Test(gpu, values_over_lanes) {
  check_all("double_tree", false);
}

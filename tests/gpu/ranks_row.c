/* Calls of every algorithm, drawn at random. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/names.h"
#include "gpu/ranks.h"
#include "verify/random.h"

static size_t some_count(uint64_t *random) {
  switch (random_below(random, 6)) {
    case 0: return 0;
    case 1: return 1;
    case 2: return 2 + (size_t)random_below(random, 15);
    case 3: return 97;
    case 4: return 256 + (size_t)random_below(random, 9);
    default: return 1025 + (size_t)random_below(random, 1500);
  }
}

static ranks_call_t some_call(uint64_t *random, const algo_t *algo, const plan_shape_t *shape) {
  static const coll_dtype_t dtypes[] = {COLL_INT8,    COLL_FLOAT16, COLL_FLOAT32,
                                        COLL_FLOAT64, COLL_UINT64,  COLL_BFLOAT16,
                                        COLL_INT16,   COLL_INT32,   COLL_FLOAT8_E5M2};
  question_t q = {.collective = algo->collective,
                  .size = shape->size,
                  .count = algo->collective == COLL_BARRIER ? 0 : some_count(random),
                  .dtype = dtypes[random_below(random, sizeof dtypes / sizeof *dtypes)],
                  .seed = random_next(random) % 100000};
  bool averages =
      base_dtype_is_integer(q.dtype) || algo_order(algo, shape->size) == PLAN_ORDER_EXACT;
  q.op = (coll_op_t)random_below(random, base_dtype_is_integer(q.dtype) ? 8 : averages ? 5 : 4);
  if (algo_has_root(algo)) q.root = random_below(random, q.size);
  return (ranks_call_t){.algo = algo,
                        .layout = shape->layout,
                        .question = q,
                        .place = (ranks_place_t)random_below(random, RANKS_PLACE_COUNT),
                        .slices = 1 + random_below(random, 4),
                        .protocol = (gpu_protocol_t)random_below(random, GPU_PROTOCOL_COUNT)};
}

static bool is_within(const algo_t *algo, const plan_shape_t *any, plan_reach_t reach) {
  plan_shape_t shape = *any;
  plan_t *outline = NULL;
  bool is = false;
  shape.collective = algo->collective;
  if (!base_collective_is_on_gpus(algo->collective)) return false;
  cr_assert_eq(algo_is_legal(algo, &shape, &is), COLL_OK, "%s", base_last_error());
  if (!is) return false;
  cr_assert_eq(algo_outline(algo, &shape, &outline), COLL_OK, "%s", base_last_error());
  is = outline->reach <= reach && !outline->multicast;
  plan_free(outline);
  return is;
}

int ranks_row_within(uint64_t *random, const plan_shape_t *shape, plan_reach_t reach,
                     ranks_call_t row[RANKS_ROW_MAX]) {
  int count = 0;
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    const algo_t *algo;
    for (int i = 0; (algo = algo_at((coll_collective_t)c, i)) != NULL; i++) {
      if (!is_within(algo, shape, reach)) continue;
      cr_assert_lt(count, RANKS_ROW_MAX);
      row[count++] = some_call(random, algo, shape);
    }
  }
  return count;
}

int ranks_row(uint64_t *random, const plan_shape_t *shape, ranks_call_t row[RANKS_ROW_MAX]) {
  return ranks_row_within(random, shape, PLAN_REACH_SCRATCH, row);
}

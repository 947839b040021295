/*
 * Every algorithm whose plans the kernel runs, on virtual GPUs, in series of consecutive calls of
 * all collectives: counts from none to several passes, 1 to 4 slices, ranks in place and not, under
 * seeds of block starts and delays.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/names.h"
#include "gpu/ranks.h"
#include "verify/random.h"

#define CALLS_MAX 192
#define CAPACITY 4096
#if defined(__SANITIZE_THREAD__)
#define ROUNDS 1
#else
#define ROUNDS 3
#endif

static bool runs_all(void) {
  return getenv("COLL_TEST_FULL") != NULL;
}

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
  q.op = (coll_op_t)random_below(random, base_dtype_is_integer(q.dtype) ? 8 : 5);
  if (algo_has_root(algo)) q.root = random_below(random, q.size);
  return (ranks_call_t){.algo = algo,
                        .layout = shape->layout,
                        .question = q,
                        .place = (ranks_place_t)random_below(random, RANKS_PLACE_COUNT),
                        .slices = 1 + random_below(random, 4)};
}

static bool is_run_by_kernel(const algo_t *algo, const plan_shape_t *any) {
  plan_shape_t shape = *any;
  plan_t *outline = NULL;
  bool is = false;
  shape.collective = algo->collective;
  cr_assert_eq(algo_is_legal(algo, &shape, &is), COLL_OK, "%s", base_last_error());
  if (!is) return false;
  cr_assert_eq(algo_outline(algo, &shape, &outline), COLL_OK, "%s", base_last_error());
  is = outline->reach <= PLAN_REACH_SCRATCH;
  plan_free(outline);
  return is;
}

/* Every algorithm once. */
static int make_row(uint64_t *random, const plan_shape_t *shape, ranks_call_t row[CALLS_MAX]) {
  int count = 0;
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    const algo_t *algo;
    for (int i = 0; (algo = algo_at((coll_collective_t)c, i)) != NULL; i++) {
      if (!is_run_by_kernel(algo, shape)) continue;
      cr_assert_lt(count, CALLS_MAX);
      row[count++] = some_call(random, algo, shape);
    }
  }
  return count;
}

/* layout: as topo_layout_parse takes it, or NULL. */
static void play(int size, const char *layout, uint64_t rounds) {
  ranks_call_t row[CALLS_MAX];
  char text[RANKS_TEXT_BYTES] = "";
  topo_layout_t *where = NULL;
  ranks_t ranks;
  gpu_room_t room = ranks_room(size);
  ranks_init(&ranks, &room, CAPACITY);
  if (layout != NULL) {
    cr_assert_eq(topo_layout_parse(layout, size, &where), COLL_OK, "%s", base_last_error());
  }
  const plan_shape_t shape = {.size = size, .layout = where};
  for (uint64_t round = 0; round < rounds; round++) {
    uint64_t seed = 1000 * (uint64_t)size + round, random = seed;
    int count = make_row(&random, &shape, row);
    cr_assert_gt(count, 40, "%d", count);
    cr_assert(ranks_carry_out(&ranks, row, count, seed, text), "%s, seed %d", text, (int)seed);
  }
  topo_layout_free(where);
  ranks_free(&ranks);
}

#define PLAY(size)                              \
  Test(gpu, runs_##size) {                      \
    play(size, NULL, runs_all() ? 25 : ROUNDS); \
  }

PLAY(2)
PLAY(3)
PLAY(4)
PLAY(5)

/* Lanes of composed plans wait for each other. */
Test(gpu, runs_composed) {
  play(4, "hosts:2x2", ROUNDS);
  play(4, "grid:2x2", ROUNDS);
  play(5, "hosts:2+3", ROUNDS);
}

Test(gpu, runs_more_ranks) {
  if (!runs_all()) cr_skip_test("COLL_TEST_FULL=1 runs 6 to 8 ranks");
  for (int size = 6; size <= 8; size++) play(size, NULL, ROUNDS);
  play(8, "grid:2x2x2", ROUNDS);
  play(8, "hosts:2x4", ROUNDS);
}

/*
 * Every algorithm, on virtual GPUs, in series of consecutive calls of all collectives: counts from
 * none to several passes, 1 to 4 slices, ranks in place and not, by each protocol, under seeds of
 * block starts and delays.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/names.h"
#include "gpu/ranks.h"
#include "verify/random.h"

#define CAPACITY 4096
#if defined(__SANITIZE_THREAD__)
#define ROUNDS 1
#else
#define ROUNDS 3
#endif

static bool runs_all(void) {
  return getenv("COLL_TEST_FULL") != NULL;
}

/* layout: as topo_layout_parse takes it, or NULL. */
static void play(int size, const char *layout, uint64_t rounds) {
  ranks_call_t row[RANKS_ROW_MAX];
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
    int count = ranks_row_within(&random, &shape, PLAN_REACH_USER, row);
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

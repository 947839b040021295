/*
 * Every algorithm on every small number of ranks, in series of consecutive calls: counts from none
 * to many passes, ranks in place and not, slots and scratch of all sizes, under schedules
 * determined by a seed.
 */
#include <criterion/criterion.h>

#include "base/names.h"
#include "engine/fleet.h"
#include "harness/sample.h"
#include "verify/random.h"

#define ALGOS_MAX 192
#define GROUP_SIZE_MAX 9
#define ROUNDS 6 /* series per number of ranks */

/* How often each algorithm was run, over all series of one size. */
typedef struct tally {
  const algo_t *algos[ALGOS_MAX];
  int carried_out[ALGOS_MAX];
} tally_t;

static const coll_dtype_t dtypes[] = {COLL_INT8,        COLL_FLOAT16, COLL_FLOAT32, COLL_FLOAT64,
                                      COLL_FLOAT8_E5M2, COLL_UINT64,  COLL_INT16};

static coll_op_t some_op(uint64_t *random, coll_dtype_t dtype) {
  static const coll_op_t ops[] = {COLL_SUM,  COLL_SUM,  COLL_MAX, COLL_MIN,
                                  COLL_PROD, COLL_BAND, COLL_BOR, COLL_BXOR};
  return ops[random_below(random, base_dtype_is_integer(dtype) ? 8 : 5)];
}

static size_t some_count(uint64_t *random, const fleet_options_t *options) {
  size_t slot = options->slot_bytes > 0 ? options->slot_bytes : 32768;
  switch (random_below(random, 6)) {
    case 0: return 1;
    case 5: return 0;
    case 1: return 2 + (size_t)random_below(random, 15);
    case 2: return 97;
    case 3: return slot / 8 + (size_t)random_below(random, 9);
    default: return slot + 1 + (size_t)random_below(random, 500);
  }
}

static fleet_call_t some_call(uint64_t *random, const fleet_options_t *options,
                              const algo_t *algo) {
  question_t q = {.collective = algo->collective,
                  .size = options->size,
                  .count = some_count(random, options),
                  .dtype = dtypes[random_below(random, (int32_t)(sizeof dtypes / sizeof *dtypes))],
                  .seed = random_next(random) % 100000};
  q.op = some_op(random, q.dtype);
  if (algo->collective == COLL_BARRIER) q.count = 0;
  bool rooted = algo->collective == COLL_REDUCE || algo->collective == COLL_BROADCAST ||
                algo->collective == COLL_GATHER || algo->collective == COLL_SCATTER;
  if (rooted) q.root = random_below(random, options->size);
  return (fleet_call_t){
      .algo = algo, .question = q, .place = (fleet_place_t)random_below(random, FLEET_PLACE_COUNT)};
}

/* Every algorithm once, in a random order. */
static int some_row(uint64_t *random, const fleet_options_t *options, fleet_call_t row[ALGOS_MAX]) {
  int count = 0;
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    const algo_t *algo;
    for (int i = 0; (algo = algo_at((coll_collective_t)c, i)) != NULL; i++) {
      cr_assert_lt(count, ALGOS_MAX);
      row[count++] = some_call(random, options, algo);
    }
  }
  for (int i = count - 1; i > 0; i--) {
    int other = random_below(random, i + 1);
    fleet_call_t kept = row[i];
    row[i] = row[other];
    row[other] = kept;
  }
  return count;
}

static void count_row(tally_t *tally, const fleet_call_t row[], const bool fitted[], int count) {
  for (int i = 0; i < count; i++) {
    int at = 0;
    while (tally->algos[at] != NULL && tally->algos[at] != row[i].algo) at++;
    tally->algos[at] = row[i].algo;
    tally->carried_out[at] += fitted[i];
  }
}

static void play(int size) {
  static const size_t slots[] = {0, 1024, 256, 0, 64, 0};
  static const size_t scratches[] = {0, 0, 4096, 2048, 1024, 100000};
  static const int refusals[] = {0, 20, 60, 40, 5, 80};
  fleet_call_t row[ALGOS_MAX];
  bool fitted[ALGOS_MAX];
  char text[FLEET_TEXT_BYTES] = "";
  tally_t tally = {0};
  for (uint64_t round = 0; round < ROUNDS; round++) {
    fleet_options_t options = {.size = size,
                               .seed = 1000 * (uint64_t)size + round,
                               .refuse_percent = refusals[round],
                               .slot_bytes = slots[round],
                               .scratch_bytes = scratches[round]};
    uint64_t random = options.seed;
    int count = some_row(&random, &options, row);
    cr_assert(fleet_run(&options, row, count, fitted, text), "%s", text);
    count_row(&tally, row, fitted, count);
  }
  for (int i = 0; i < ALGOS_MAX && tally.algos[i] != NULL; i++) {
    cr_assert_gt(tally.carried_out[i], 0, "%s never ran at %d ranks", tally.algos[i]->name, size);
  }
}

#define PLAY(size)            \
  Test(engine, runs_##size) { \
    play(size);               \
  }

#define PLAY_IN_SOAK(size)                                             \
  Test(engine, runs_##size) {                                          \
    if (!harness_full()) cr_skip_test("COLL_TEST_FULL=1 runs " #size); \
    play(size);                                                        \
  }

PLAY(1)
PLAY(2)
PLAY(3)
PLAY(4)
PLAY(5)
PLAY_IN_SOAK(6)
PLAY_IN_SOAK(7)
PLAY(8)
PLAY_IN_SOAK(9)

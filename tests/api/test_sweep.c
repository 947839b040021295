/*
 * Every algorithm of every collective through coll.h, by processes and by threads: with every dtype
 * and op, all roots, counts from 0 to several passes, in place or not, and with memory that peers
 * can map, cannot map, or can map on some ranks only.
 */
#include <criterion/criterion.h>

#include "base/names.h"
#include "harness/party.h"
#include "harness/sample.h"
#include "verify/random.h"

#define LARGE_COUNT 20000 /* several passes for data staged in slots of a few KiB */

/* The same on all ranks except for what may differ between them: in-place use and kind of memory.
 */
static party_style_t some_style(uint64_t seed, int rank, coll_stream_t stream) {
  uint64_t all = random_mix(seed), own = random_mix(seed + 77 + (uint64_t)rank);
  static const bool always[] = {false, true};
  bool in_place = all % 3 < 2 ? always[all % 3] : own % 2 == 0;
  bool coll_memory = all / 3 % 3 < 2 ? always[all / 3 % 3] : own / 2 % 2 == 0;
  return (party_style_t){
      .in_place = in_place, .coll_memory = coll_memory, .stream = all / 9 % 4 == 0 ? stream : NULL};
}

static int ask(party_rank_t *self, question_t q, coll_stream_t stream) {
  party_style_t style = some_style(q.seed, self->rank, stream);
  if (base_collective_is_rooted(q.collective)) q.root = (int)(q.seed % (uint64_t)self->size);
  return party_ask(self, &q, &style);
}

/* All dtypes, with all ops where there are any, and a few counts. With a sanitizer, some of them:
 * for each algorithm others. */
static int ask_small(party_rank_t *self, coll_collective_t collective, uint64_t *seed,
                     coll_stream_t stream) {
  static const size_t counts[] = {1, 7, 0, 64, 2, 33, 500};
  int ops = base_collective_reduces(collective) ? COLL_OP_BUILTIN_COUNT : 1;
  unsigned number = (unsigned)*seed;
  for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++) {
    for (int op = 0; op < ops; op++) {
      if (!base_op_takes((coll_op_t)op, (coll_dtype_t)dtype)) continue;
      bool is_taken = HARNESS_BUILD == HARNESS_PLAIN || harness_takes(HARNESS_VALUES, number);
      number++;
      if (!is_taken) continue;
      question_t q = {.collective = collective,
                      .size = self->size,
                      .count = counts[*seed % 7],
                      .dtype = (coll_dtype_t)dtype,
                      .op = (coll_op_t)op,
                      .seed = (*seed)++};
      PARTY_TRY(ask(self, q, stream));
    }
  }
  return 0;
}

/* With a sanitizer, two dtypes: for each algorithm others, of which each has other passes. */
static int ask_large(party_rank_t *self, coll_collective_t collective, uint64_t *seed,
                     coll_stream_t stream) {
  static const coll_dtype_t dtypes[] = {COLL_UINT8, COLL_BFLOAT16, COLL_FLOAT32, COLL_INT64,
                                        COLL_INT16};
  int first = (int)(*seed % 5), kinds = harness_stride(HARNESS_VALUES) == 1 ? 5 : 2;
  for (int i = 0; i < kinds; i++) {
    question_t q = {.collective = collective,
                    .size = self->size,
                    .count = LARGE_COUNT + *seed % 100,
                    .dtype = dtypes[(first + i) % 5],
                    .op = COLL_SUM,
                    .seed = (*seed)++};
    PARTY_TRY(ask(self, q, stream));
  }
  return 0;
}

static int ask_by(party_rank_t *self, coll_collective_t collective, const char *algo,
                  uint64_t *seed, coll_stream_t stream) {
  PARTY_OK(coll_comm_algo_set(self->comm, collective, algo));
  if (collective == COLL_BARRIER) {
    for (int i = 0; i < 10; i++) PARTY_OK(coll_barrier(self->comm, i % 2 == 0 ? stream : NULL));
    PARTY_OK(coll_stream_sync(stream));
    return 0;
  }
  PARTY_TRY(ask_small(self, collective, seed, stream));
  return ask_large(self, collective, seed, stream);
}

static int ask_everything(party_rank_t *self) {
  coll_stream_t stream;
  uint64_t seed = 1;
  PARTY_OK(coll_stream_create(&stream));
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    const char *algo;
    for (int i = 0; (algo = coll_algo_name((coll_collective_t)c, i)) != NULL; i++) {
      PARTY_TRY(ask_by(self, (coll_collective_t)c, algo, &seed, stream));
    }
    PARTY_TRY(ask_by(self, (coll_collective_t)c, NULL, &seed, stream));
  }
  PARTY_OK(coll_stream_destroy(stream));
  return 0;
}

#define TIMEOUT_MS 200000 /* eight ranks on two cores, beside other tests */

/* Whether a tier runs this size: the larger ones take longer than all others together, and of the
 * powers of two it has 2. Ranks that are threads take the same paths as processes. */
static bool takes_size(int size, bool are_threads) {
  int most = HARNESS_BUILD == HARNESS_PLAIN && !are_threads ? 5 : 3;
  return (size <= most && size != 4) || harness_full();
}

#define SWEEP(size)                                                                               \
  Test(sweep, processes_##size) {                                                                 \
    harness_result_t result;                                                                      \
    if (!harness_takes_processes()) cr_skip_test("ThreadSanitizer does not see other processes"); \
    if (!takes_size(size, false)) cr_skip_test("COLL_TEST_FULL=1 runs it");                       \
    cr_assert(party_processes(size, TIMEOUT_MS, ask_everything, NULL, &result), "%s",             \
              result.text);                                                                       \
  }                                                                                               \
  Test(sweep, threads_##size) {                                                                   \
    harness_result_t result;                                                                      \
    if (!takes_size(size, true)) cr_skip_test("COLL_TEST_FULL=1 runs it");                        \
    cr_assert(party_threads(size, TIMEOUT_MS, ask_everything, NULL, &result), "%s", result.text); \
  }

SWEEP(1)
SWEEP(2)
SWEEP(3)
SWEEP(5)
#if HARNESS_BUILD_PATIENCE == 1
SWEEP(4)
SWEEP(8)
#endif

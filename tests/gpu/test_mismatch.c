/*
 * Ranks whose calls differ. One of two to five ranks makes another call than the others: any
 * algorithm of any collective, of another kind, dtype, operation, root or count; or it skips a
 * call. Equal calls follow on all ranks. No rank may hang, or end a call with a wrong result, and
 * the report names the odd rank, and the two calls. Blocks of an alltoallv whose sizes differ at
 * both ends are found too.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/names.h"
#include "gpu/ranks.h"
#include "verify/random.h"

#define CAPACITY 4096
#if defined(__SANITIZE_THREAD__)
#define SEEDS 60
#else
#define SEEDS 300
#endif

enum { CALLS = 4, ODD_CALL = 1 };

static uint64_t seeds(void) {
  return getenv("COLL_TEST_FULL") != NULL ? 20 * SEEDS : SEEDS;
}

/* Whether the test runs it. Under ThreadSanitizer none of reach scratch: a peer whose call is
 * another may write SCRATCH while this rank reads it, which is harmless, as the call fails. Plans
 * of reach read and user access nothing before all ranks are known to make the same call. */
static bool is_run(const algo_t *algo, int size) {
  const plan_shape_t shape = {.collective = algo->collective, .size = size};
  plan_t *outline = NULL;
  bool is = false;
  if (!base_collective_is_on_gpus(algo->collective)) return false;
  cr_assert_eq(algo_is_legal(algo, &shape, &is), COLL_OK);
  if (!is) return false;
  cr_assert_eq(algo_outline(algo, &shape, &outline), COLL_OK);
#if defined(__SANITIZE_THREAD__)
  is = outline->reach != PLAN_REACH_SCRATCH;
#else
  is = true;
#endif
  plan_free(outline);
  return is;
}

static const algo_t *some_algo(uint64_t *random, int size) {
  const algo_t *all[256];
  int count = 0;
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    const algo_t *algo;
    for (int i = 0; (algo = algo_at((coll_collective_t)c, i)) != NULL; i++) {
      if (count < 256 && is_run(algo, size)) all[count++] = algo;
    }
  }
  return all[random_below(random, count)];
}

static ranks_call_t some_call(uint64_t *random, const algo_t *algo, int size) {
  static const coll_dtype_t dtypes[] = {COLL_INT8, COLL_FLOAT32, COLL_INT32, COLL_UINT64};
  static const size_t counts[] = {1, 10, 97, 700};
  question_t q = {.collective = algo->collective,
                  .size = size,
                  .count = algo->collective == COLL_BARRIER ? 0 : counts[random_below(random, 4)],
                  .dtype = dtypes[random_below(random, 4)],
                  .op = (coll_op_t)random_below(random, 4),
                  .seed = random_next(random) % 1000};
  if (algo_has_root(algo)) q.root = random_below(random, size);
  return (ranks_call_t){.algo = algo,
                        .question = q,
                        .slices = 1 + random_below(random, 3),
                        .protocol = (gpu_protocol_t)random_below(random, GPU_PROTOCOL_COUNT)};
}

static bool are_equal(const ranks_call_t *a, const ranks_call_t *b) {
  gpu_words_t one = ranks_words(a), two = ranks_words(b);
  return one.what == two.what && one.count == two.count;
}

/* Another call: the same algorithm in every second case. */
static ranks_call_t odd_call(uint64_t *random, const ranks_call_t *call) {
  for (;;) {
    const algo_t *algo = call->algo;
    int size = call->question.size;
    if (random_below(random, 2) == 0) algo = some_algo(random, size);
    ranks_call_t other = some_call(random, algo, size);
    if (!are_equal(call, &other)) return other;
  }
}

/* What the odd rank calls: in one case of four it skips a call. */
static void make_other(uint64_t *random, const ranks_call_t usual[CALLS],
                       ranks_call_t other[CALLS]) {
  bool skips = random_below(random, 4) == 0 && !are_equal(&usual[ODD_CALL], &usual[ODD_CALL + 1]);
  for (int i = 0; i < CALLS; i++) {
    other[i] = usual[skips && i >= ODD_CALL && i + 1 < CALLS ? i + 1 : i];
  }
  if (!skips) other[ODD_CALL] = odd_call(random, &usual[ODD_CALL]);
}

static bool is_entry(const gpu_entry_t *entry, const ranks_call_t *call) {
  gpu_words_t words = ranks_words(call);
  return entry->check != 0 && entry->number == ODD_CALL && entry->words.what == words.what &&
         entry->words.count == words.count;
}

/* Whether this rank found the mismatch, and could name both calls: not if it was aborted before the
 * peer's call was known. */
static bool is_named(const ranks_t *ranks, int rank, int odd, const ranks_call_t *usual,
                     const ranks_call_t *other) {
  const gpu_mismatch_t *found = &ranks->records[rank]->mismatch;
  int peer = (int)found->peer;
  if (ranks->failed[rank] != GPU_FAILED_MISMATCH) return false;
  cr_assert_eq(found->is_found, 1u);
  cr_assert((rank == odd) != (peer == odd), "rank %d names rank %d; rank %d is odd", rank, peer,
            odd);
  if (found->theirs.check == 0) return false;
  cr_assert(is_entry(&found->own, rank == odd ? other : usual), "rank %d, own call", rank);
  cr_assert(is_entry(&found->theirs, peer == odd ? other : usual), "rank %d, peer's call", rank);
  return true;
}

static void check_odd_rank(uint64_t seed) {
  char text[RANKS_TEXT_BYTES] = "", question[2][QUESTION_TEXT_BYTES];
  uint64_t random = random_mix(seed);
  int size = 2 + random_below(&random, 4), odd = random_below(&random, size);
  ranks_call_t usual[CALLS], other[CALLS];
  const ranks_call_t *calls[QUESTION_RANKS_MAX];
  const algo_t *ring;
  bool found = false;
  ranks_t ranks;
  gpu_room_t room = ranks_room(size);
  ranks_init(&ranks, &room, CAPACITY);
  cr_assert_eq(algo_find(COLL_ALLREDUCE, "ring", &ring), COLL_OK);
  for (int i = 0; i < CALLS; i++) {
    usual[i] = some_call(&random, i == ODD_CALL ? some_algo(&random, size) : ring, size);
  }
  make_other(&random, usual, other);
  for (int rank = 0; rank < size; rank++) calls[rank] = rank == odd ? other : usual;
  question_describe(&usual[ODD_CALL].question, question[0]);
  question_describe(&other[ODD_CALL].question, question[1]);
  cr_assert(ranks_carry_out_each(&ranks, calls, CALLS, seed, text),
            "%s; seed %d: rank %d makes %s by %s, the others %s by %s", text, (int)seed, odd,
            question[1], other[ODD_CALL].algo->name, question[0], usual[ODD_CALL].algo->name);
  for (int rank = 0; rank < size; rank++) {
    found |= is_named(&ranks, rank, odd, &usual[ODD_CALL], &other[ODD_CALL]);
  }
  cr_assert(found, "no rank found it; seed %d: rank %d makes %s, the others %s", (int)seed, odd,
            question[1], question[0]);
  ranks_free(&ranks);
}

Test(gpu, finds_calls_that_differ) {
  for (uint64_t seed = 0; seed < seeds(); seed++) check_odd_rank(seed);
}

/* The first message of the next call, by which the odd rank can find it, has no data. */
Test(gpu, finds_calls_that_differ_by_an_empty_message) {
  check_odd_rank(1866);
}

/* ---- blocks of an alltoallv -----------------------------------------------------------------*/

enum { UNEVEN_SIZE = 3, UNEVEN_CALLS = 2, BLOCK_MAX = 40 };

typedef struct uneven {
  ranks_t ranks;
  gpu_program_t *programs[UNEVEN_SIZE];
  int from, to; /* the block that rank `from` sends with another size */
  size_t odd_size;
  int slices;
  gpu_protocol_t protocol;
} uneven_t;

static size_t block_size(int from, int to) {
  return 10 + (size_t)(3 * from + to);
}

static void run_uneven(void *context, int rank) {
  uneven_t *uneven = context;
  ranks_t *ranks = &uneven->ranks;
  int32_t input[UNEVEN_SIZE * BLOCK_MAX] = {0}, output[UNEVEN_SIZE * BLOCK_MAX];
  size_t sends[UNEVEN_SIZE], receives[UNEVEN_SIZE], offsets[UNEVEN_SIZE];
  const gpu_words_t words = {.what = 7};
  gpu_program_t *program = uneven->programs[rank];
  gpu_call_t call;
  for (int peer = 0; peer < UNEVEN_SIZE; peer++) {
    bool is_odd = rank == uneven->from && peer == uneven->to;
    sends[peer] = is_odd ? uneven->odd_size : block_size(rank, peer);
    receives[peer] = block_size(peer, rank);
    offsets[peer] = (size_t)(peer * BLOCK_MAX);
  }
  const gpu_request_t request = {.input = input,
                                 .output = output,
                                 .count = BLOCK_MAX,
                                 .input_blocks = {sends, offsets},
                                 .output_blocks = {receives, offsets},
                                 .dtype = COLL_INT32,
                                 .words = &words,
                                 .protocol = uneven->protocol};
  if (gpu_bind_call(&ranks->room, &ranks->ranks[rank], program, program, &request, uneven->slices,
                    &call) != COLL_OK) {
    abort();
  }
  for (int i = 0; i < UNEVEN_CALLS && gpu_load_relaxed(&ranks->failed[rank]) == 0; i++) {
    virtual_launch(&ranks->device, &call, gpu_call_blocks(program, uneven->slices),
                   (uint64_t)(i * UNEVEN_SIZE + rank));
  }
}

static void check_uneven(const algo_t *algo, int from, int to, size_t odd_size,
                         gpu_protocol_t protocol) {
  const plan_shape_t shape = {.collective = COLL_ALLTOALLV, .size = UNEVEN_SIZE};
  uneven_t uneven = {
      .from = from, .to = to, .odd_size = odd_size, .slices = 1 + from, .protocol = protocol};
  gpu_room_t room = ranks_room(UNEVEN_SIZE);
  bool found = false;
  ranks_init(&uneven.ranks, &room, CAPACITY);
  for (int rank = 0; rank < UNEVEN_SIZE; rank++) {
    plan_t *plan;
    cr_assert_eq(algo_build(algo, &shape, rank, false, &plan), COLL_OK);
    cr_assert_eq(gpu_bind_program(plan, rank, &uneven.programs[rank]), COLL_OK);
    plan_free(plan);
  }
  cr_assert(ranks_run(&uneven.ranks, run_uneven, &uneven), "%s: deadlock", algo->name);
  for (int rank = 0; rank < UNEVEN_SIZE; rank++) {
    const gpu_mismatch_t *mismatch = &uneven.ranks.records[rank]->mismatch;
    bool finds = uneven.ranks.failed[rank] == GPU_FAILED_MISMATCH;
    free(uneven.programs[rank]);
    if (!finds) continue;
    bool is_named = (rank == to && mismatch->peer == (uint32_t)from) ||
                    (rank == from && mismatch->peer == (uint32_t)to);
    cr_assert(is_named, "%s: rank %d names rank %d", algo->name, rank, (int)mismatch->peer);
    cr_assert_neq(mismatch->own.check, 0u);
    found = true;
  }
  cr_assert(found, "%s: block %d to %d of %d elements", algo->name, from, to, (int)odd_size);
  ranks_free(&uneven.ranks);
}

static void check_all_uneven(gpu_protocol_t protocol) {
  const algo_t *algo;
  for (int i = 0; (algo = algo_at(COLL_ALLTOALLV, i)) != NULL; i++) {
    if (!is_run(algo, UNEVEN_SIZE)) continue;
    for (int from = 0; from < UNEVEN_SIZE; from++) {
      int to = (from + 1) % UNEVEN_SIZE;
      check_uneven(algo, from, to, block_size(from, to) + 1, protocol);
      check_uneven(algo, from, to, BLOCK_MAX, protocol);
      check_uneven(algo, from, to, 0, protocol);
    }
  }
}

Test(gpu, finds_blocks_that_differ) {
  check_all_uneven(GPU_PROTOCOL_SLOTS);
  check_all_uneven(GPU_PROTOCOL_LL);
  check_all_uneven(GPU_PROTOCOL_LL128);
}

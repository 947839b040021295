/*
 * Parallel aggregated trees (PAT): every block has a binomial tree over the distances from its
 * owner, the same for all blocks, and a message carries a few blocks at the same place of their
 * trees. Far distances come first, when there are few blocks, near ones last. A message holds at
 * most GROUP_MAX blocks: up to that many are aggregated in a logarithmic number of rounds, then the
 * rest of the trees is walked depth first by groups of blocks, one group per message. So buffers
 * hold one group per level of the trees. Any rank count.
 *
 * SCRATCH has slots of `group` chunks. Slot 0 holds the blocks at the distances offsets[i],
 * multiples of `stride`; slot d > 0 those at offsets[i] + w for the current w < stride with d bits
 * set.
 */
#include "algo/common.h"
#include "algo/list.h"

static const char jeaugey_2025[] =
    "Jeaugey, PAT: a new algorithm for all-gather and reduce-scatter operations at scale, 2025";

enum { GROUP_MAX = 16 };

typedef struct pat {
  int32_t size, stride, group;
  int32_t offsets[GROUP_MAX];
} pat_t;

/* How many of first, first + stride, first + 2 stride, … are below `end`. */
static int32_t count_of(int32_t first, int32_t stride, int32_t end) {
  return first >= end ? 0 : (end - first + stride - 1) / stride;
}

/* ---- aggregation -----------------------------------------------------------------------------
 * In the round of a distance, blocks at the multiples of twice the distance are sent on by it. Only
 * the farthest of them may have no rank to go to. It is kept last in slot 0, so that the others are
 * one run: received blocks are placed behind the others or, if the farthest was not sent, before
 * them. */

static bool is_placed_before(const pat_t *pat, int32_t distance) {
  return count_of(distance, 2 * distance, pat->size) < count_of(0, 2 * distance, pat->size);
}

/* The chunks of slot 0 that are in use before the round of the distance. */
static algo_run_t used_before(const pat_t *pat, int32_t distance) {
  algo_run_t used = {0, count_of(0, 2 * distance, pat->size)};
  for (int32_t d = distance; d >= pat->stride; d /= 2) {
    if (is_placed_before(pat, d)) used.first += count_of(d, 2 * d, pat->size);
  }
  return used;
}

/* Those sent in the round, and those received. */
static void round_of(const pat_t *pat, int32_t distance, algo_run_t *out, algo_run_t *in) {
  algo_run_t used = used_before(pat, distance);
  int32_t count = count_of(distance, 2 * distance, pat->size);
  *out = (algo_run_t){used.first, count};
  *in = (algo_run_t){is_placed_before(pat, distance) ? used.first - count : used.first + used.count,
                     count};
}

static int32_t farthest_of(int32_t size) {
  return algo_power_below(size - 1);
}

static pat_t pat_of(int32_t size) {
  pat_t pat = {.size = size, .stride = 1};
  while (count_of(0, pat.stride, size) > GROUP_MAX) pat.stride *= 2;
  pat.group = count_of(0, pat.stride, size);
  for (int32_t distance = farthest_of(size); distance >= pat.stride; distance /= 2) {
    algo_run_t out, in;
    round_of(&pat, distance, &out, &in);
    for (int32_t i = 0; i < in.count; i++) {
      pat.offsets[in.first + i] = pat.offsets[out.first + i] + distance;
    }
  }
  return pat;
}

static int32_t slots_of(const pat_t *pat) {
  return 1 + __builtin_popcount((unsigned)(pat->stride - 1));
}

/* The chunks of the slot for w, of which those beyond the last rank are missing. */
static algo_run_t slot_of(const pat_t *pat, int32_t w) {
  int32_t slot = __builtin_popcount((unsigned)w);
  return (algo_run_t){slot * pat->group, count_of(w, pat->stride, pat->size)};
}

/* Chunks of SCRATCH, and in the longest message. */
static int32_t chunks_of(const pat_t *pat) {
  int32_t last = pat->stride - 1;
  return last == 0 ? pat->group : (slots_of(pat) - 1) * pat->group + slot_of(pat, last).count;
}

static int32_t longest_of(const pat_t *pat) {
  return count_of(1, pat->stride == 1 ? 2 : pat->stride, pat->size);
}

/* ---- allgather -------------------------------------------------------------------------------
 * p - 1 blocks in volume: ceil(log2 p) rounds up to GROUP_MAX ranks; for 2^k times as many, k
 * rounds less of aggregation and 2^k - 1 more messages. */

static void allgather_outline(plan_t *plan) {
  pat_t pat = pat_of(plan->shape.size);
  algo_outline_messages(plan, 1, chunks_of(&pat), longest_of(&pat));
}

/* Sends the chunks `out` of SCRATCH on by the distance; receives the same of another rank's blocks
 * to `in`, whose distances are offsets[] + w, and copies them to OUTPUT. */
static void pass_on(plan_emitter_t *e, const pat_t *pat, int32_t distance, algo_run_t out,
                    algo_run_t in, int32_t w) {
  int32_t size = pat->size;
  plan_emit_send(e, 0, algo_mod(e->rank + distance, size), plan_scratch(e, out.first, in.count));
  plan_emit_recv(e, 0, algo_mod(e->rank - distance, size), plan_scratch(e, in.first, in.count));
  for (int32_t chunk = in.first; chunk < in.first + in.count; chunk++) {
    int32_t block = algo_mod(e->rank - pat->offsets[chunk % pat->group] - w, size);
    plan_emit_copy(e, 0, plan_output(e, block, 1), plan_scratch(e, chunk, 1));
  }
}

/* The subtrees below the group of w, farthest first. */
static void spread(plan_emitter_t *e, const pat_t *pat, int32_t w, int32_t distance) {
  for (; distance >= 1; distance /= 2) {
    int32_t child = w + distance;
    algo_run_t in = slot_of(pat, child);
    if (in.count == 0) continue;
    pass_on(e, pat, distance, slot_of(pat, w), in, child);
    spread(e, pat, child, distance / 2);
  }
}

static void allgather_build(plan_emitter_t *e) {
  const pat_t pat = pat_of(e->plan->shape.size);
  int32_t farthest = farthest_of(pat.size);
  plan_emit_input_to_output(e, 0, e->rank, 0, 1);
  plan_emit_copy(e, 0, plan_scratch(e, used_before(&pat, farthest).first, 1), plan_input(e, 0, 1));
  for (int32_t distance = farthest; distance >= pat.stride; distance /= 2) {
    algo_run_t out, in;
    round_of(&pat, distance, &out, &in);
    pass_on(e, &pat, distance, out, in, 0);
  }
  spread(e, &pat, 0, pat.stride / 2);
}

const algo_t algo_allgather_pat = {
    .name = "pat",
    .collective = COLL_ALLGATHER,
    .paper = jeaugey_2025,
    .outline = allgather_outline,
    .build = allgather_build,
};

/* ---- reduce-scatter --------------------------------------------------------------------------
 * The same messages in reverse, each in the opposite direction: near distances first. A group
 * starts as this rank's operands, and the groups of its children are added to it. */

static void reduce_scatter_outline(plan_t *plan) {
  pat_t pat = pat_of(plan->shape.size);
  algo_outline_messages(plan, 1, chunks_of(&pat) + longest_of(&pat), longest_of(&pat));
}

/* Copies this rank's operands of the blocks of the group of w to their slot. */
static void load_group(plan_emitter_t *e, const pat_t *pat, int32_t w) {
  algo_run_t slot = slot_of(pat, w);
  for (int32_t i = 0; i < slot.count; i++) {
    int32_t block = algo_mod(e->rank - pat->offsets[i] - w, pat->size);
    plan_emit_copy(e, 0, plan_scratch(e, slot.first + i, 1), plan_input(e, block, 1));
  }
}

/* Sends the reduced chunks `out` back by the distance; receives another rank's and adds them to
 * `sum`, of which the result is stored in dst. */
static void pass_back(plan_emitter_t *e, const pat_t *pat, int32_t distance, algo_run_t out,
                      int32_t sum, plan_span_t dst) {
  plan_span_t sources[2] = {plan_scratch(e, sum, out.count),
                            plan_scratch(e, chunks_of(pat), out.count)};
  plan_emit_send(e, 0, algo_mod(e->rank - distance, pat->size),
                 plan_scratch(e, out.first, out.count));
  plan_emit_recv(e, 0, algo_mod(e->rank + distance, pat->size), sources[1]);
  plan_emit_reduce(e, 0, dst, sources, 2);
}

/* Adds the subtrees below the group of w to it, nearest first. */
static void collect(plan_emitter_t *e, const pat_t *pat, int32_t w, int32_t end) {
  load_group(e, pat, w);
  for (int32_t distance = 1; distance < end; distance *= 2) {
    int32_t child = w + distance, sum = slot_of(pat, w).first;
    algo_run_t out = slot_of(pat, child);
    if (out.count == 0) continue;
    collect(e, pat, child, distance);
    pass_back(e, pat, distance, out, sum, plan_scratch(e, sum, out.count));
  }
}

static void reduce_scatter_build(plan_emitter_t *e) {
  const pat_t pat = pat_of(e->plan->shape.size);
  int32_t farthest = farthest_of(pat.size);
  collect(e, &pat, 0, pat.stride);
  for (int32_t distance = pat.stride; distance <= farthest; distance *= 2) {
    algo_run_t out, in;
    round_of(&pat, distance, &in, &out);
    pass_back(e, &pat, distance, out, in.first,
              distance == farthest ? plan_output(e, 0, 1) : plan_scratch(e, in.first, in.count));
  }
}

const algo_t algo_reduce_scatter_pat = {
    .name = "pat",
    .collective = COLL_REDUCE_SCATTER,
    .paper = jeaugey_2025,
    .outline = reduce_scatter_outline,
    .build = reduce_scatter_build,
};

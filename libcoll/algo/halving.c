/*
 * Recursive halving and doubling: partners at distance 1, 2, 4, … exchange halves of what they are
 * responsible for, so a power of two of ranks needs log2 p rounds. Where p is not a power of two,
 * let P be the largest power of two <= p. Each extra rank (P and above) sends its data to the rank
 * P below it and receives the result from that rank at the end.
 */
#include "algo/common.h"
#include "algo/list.h"

static const char thakur_2005[] =
    "Thakur, Rabenseifner & Gropp, Optimization of collective communication operations in MPICH, "
    "2005";

/* ---- shared phases ---------------------------------------------------------------------------*/

static algo_run_t half_of(algo_run_t whole, bool upper) {
  int32_t half = whole.count / 2;
  return (algo_run_t){whole.first + (upper ? half : 0), half};
}

algo_run_t algo_halving_segment(int32_t parts, int32_t size, int32_t index) {
  algo_run_t segment = {0, parts};
  for (int32_t bit = 1; bit < size; bit *= 2) segment = half_of(segment, (index & bit) != 0);
  return segment;
}

plan_buffer_t algo_halving_reduce_scatter(plan_emitter_t *e, int32_t base, int32_t size,
                                          plan_buffer_t held) {
  int32_t index = e->rank - base;
  algo_run_t mine = {0, e->plan->parts};
  for (int32_t distance = 1; distance < size; distance *= 2) {
    bool upper = (index & distance) != 0;
    int32_t peer = base + (index ^ distance);
    algo_run_t keep = half_of(mine, upper), give = half_of(mine, !upper);
    plan_span_t arrived = plan_scratch(e, keep.first, keep.count);
    plan_emit_send(e, 0, peer, algo_own(e, held, give.first, give.count));
    plan_emit_recv(e, 0, peer, arrived);
    algo_reduce_pair(e, peer, plan_output(e, keep.first, keep.count),
                     algo_own(e, held, keep.first, keep.count), arrived);
    held = PLAN_OUTPUT;
    mine = keep;
  }
  return held;
}

void algo_doubling_allgather(plan_emitter_t *e, int32_t base, int32_t size) {
  int32_t index = e->rank - base, parts = e->plan->parts;
  for (int32_t distance = size / 2; distance >= 1; distance /= 2) {
    int32_t other = index ^ distance;
    algo_run_t mine = algo_halving_segment(parts, 2 * distance, index);
    algo_run_t theirs = algo_halving_segment(parts, 2 * distance, other);
    plan_emit_send(e, 0, base + other, plan_output(e, mine.first, mine.count));
    plan_emit_recv(e, 0, base + other, plan_output(e, theirs.first, theirs.count));
  }
}

plan_buffer_t algo_extra_reduce(plan_emitter_t *e, int32_t extra) {
  int32_t parts = e->plan->parts;
  algo_recv_pieces(e, extra, plan_scratch(e, 0, parts));
  algo_reduce_pair(e, extra, plan_output(e, 0, parts), plan_input(e, 0, parts),
                   plan_scratch(e, 0, parts));
  return PLAN_OUTPUT;
}

void algo_extra_allreduce(plan_emitter_t *e, int32_t member) {
  algo_send_pieces(e, member, plan_input(e, 0, e->plan->parts));
  algo_recv_pieces(e, member, plan_output(e, 0, e->plan->parts));
}

/* Receives and reduces the vector of the extra rank `power` above this one, if there is one.
 * Returns the buffer of this rank's operand from then on. */
static plan_buffer_t reduce_extra(plan_emitter_t *e, int32_t power) {
  int32_t extra = e->rank + power;
  return extra < e->plan->shape.size ? algo_extra_reduce(e, extra) : PLAN_INPUT;
}

static void send_to_extra(plan_emitter_t *e, int32_t power) {
  int32_t extra = e->rank + power;
  if (extra < e->plan->shape.size) {
    algo_send_pieces(e, extra, plan_output(e, 0, e->plan->parts));
  }
}

/* ---- allreduce: butterfly --------------------------------------------------------------------
 * Recursive doubling of Thakur, Rabenseifner & Gropp 2005. log2 P rounds of the whole vector, and
 * two more where p is not a power of two. The fewest rounds, n log2 P volume. */

static void butterfly_outline(plan_t *plan) {
  algo_outline_messages(plan, 1, 1, 1);
}

static void butterfly_build(plan_emitter_t *e) {
  int32_t power = algo_power_below(e->plan->shape.size);
  if (e->rank >= power) {
    algo_extra_allreduce(e, e->rank - power);
    return;
  }
  plan_buffer_t held = reduce_extra(e, power);
  for (int32_t distance = 1; distance < power; distance *= 2) {
    int32_t peer = e->rank ^ distance;
    plan_emit_send(e, 0, peer, algo_own(e, held, 0, 1));
    plan_emit_recv(e, 0, peer, plan_scratch(e, 0, 1));
    algo_reduce_pair(e, peer, plan_output(e, 0, 1), algo_own(e, held, 0, 1), plan_scratch(e, 0, 1));
    held = PLAN_OUTPUT;
  }
  send_to_extra(e, power);
}

const algo_t algo_allreduce_butterfly = {
    .name = "butterfly",
    .collective = COLL_ALLREDUCE,
    .paper = thakur_2005,
    .power_order = PLAN_ORDER_CANONICAL,
    .outline = butterfly_outline,
    .build = butterfly_build,
};

/* ---- allreduce: halving_doubling -------------------------------------------------------------
 * Recursive halving reduce-scatter, recursive doubling allgather (Thakur, Rabenseifner & Gropp
 * 2005). 2 log2 P rounds and the volume 2n(P-1)/P of a ring. Where p is not a power of two, the
 * extra ranks add two vectors to the critical path, each as two messages so that no message is
 * longer than half a vector. */

static void halving_doubling_outline(plan_t *plan) {
  int32_t power = algo_power_below(plan->shape.size);
  algo_outline_messages(plan, power, power, power / 2);
}

static void halving_doubling_build(plan_emitter_t *e) {
  int32_t power = algo_power_below(e->plan->shape.size);
  if (e->rank >= power) {
    algo_extra_allreduce(e, e->rank - power);
    return;
  }
  algo_halving_reduce_scatter(e, 0, power, reduce_extra(e, power));
  algo_doubling_allgather(e, 0, power);
  send_to_extra(e, power);
}

const algo_t algo_allreduce_halving_doubling = {
    .name = "halving_doubling",
    .collective = COLL_ALLREDUCE,
    .paper = thakur_2005,
    .power_order = PLAN_ORDER_CANONICAL,
    .outline = halving_doubling_outline,
    .build = halving_doubling_build,
};

/* ---- reduce-scatter: halving -----------------------------------------------------------------
 * Recursive halving of Thakur, Rabenseifner & Gropp 2005, farthest partner first so that halves are
 * runs of ranks. log2 P rounds, (p-1)/p of the input in volume. Where p is not a power of two, rank
 * i < P receives the whole input of rank P+i and is responsible for that rank's block too:
 * responsibility for the ranks [a, a+d) covers the blocks [a, a+d) and those of [P+a, P+a+d) that
 * exist. The volume of a rank with an extra rank grows by one input. Partial results are in
 * SCRATCH, block b at chunk b. Received blocks overwrite the blocks that were just sent; if blocks
 * differ in size, each has a second block of SCRATCH for that. */

static void halving_outline(plan_t *plan) {
  int32_t power = algo_power_below(plan->shape.size);
  bool by_rank = base_collective_counts_by_rank(plan->shape.collective);
  algo_outline_messages(plan, 1, plan->shape.size * (by_rank ? 2 : 1), power / 2);
}

/* The blocks of the extra ranks that belong to the ranks in `ranks`. */
static algo_run_t extras_of(algo_run_t ranks, int32_t power, int32_t size) {
  int32_t first = power + ranks.first;
  int32_t count = size - first < ranks.count ? size - first : ranks.count;
  return (algo_run_t){first, count > 0 ? count : 0};
}

/* Sends the blocks `give` to the peer, receives its operands of the blocks `keep` into SCRATCH,
 * from chunk `scratch_first` on if blocks are of equal size, and reduces them into dst. */
static void exchange_blocks(plan_emitter_t *e, int32_t peer, plan_buffer_t held, algo_run_t give,
                            plan_span_t dst, algo_run_t keep, int32_t scratch_first) {
  bool by_rank = base_collective_counts_by_rank(e->plan->shape.collective);
  int32_t first = by_rank ? e->plan->shape.size + keep.first : scratch_first;
  plan_span_t arrived = plan_scratch(e, first, keep.count);
  plan_emit_send(e, 0, peer, algo_own(e, held, give.first, give.count));
  plan_emit_recv(e, 0, peer, arrived);
  algo_reduce_pair(e, peer, dst, algo_own(e, held, keep.first, keep.count), arrived);
}

static void halving_rounds(plan_emitter_t *e, int32_t power, plan_buffer_t held) {
  int32_t size = e->plan->shape.size;
  algo_run_t mine = {0, power};
  for (int32_t distance = power / 2; distance >= 1; distance /= 2) {
    bool upper = (e->rank & distance) != 0;
    int32_t peer = e->rank ^ distance;
    algo_run_t keep = half_of(mine, upper), give = half_of(mine, !upper);
    plan_span_t partial = plan_scratch(e, keep.first, keep.count);
    exchange_blocks(e, peer, held, give, distance == 1 ? plan_output(e, 0, 1) : partial, keep,
                    give.first);
    algo_run_t keep_extras = extras_of(keep, power, size);
    exchange_blocks(e, peer, held, extras_of(give, power, size),
                    plan_scratch(e, keep_extras.first, keep_extras.count), keep_extras, give.first);
    held = PLAN_SCRATCH;
    mine = keep;
  }
}

static void halving_build(plan_emitter_t *e) {
  int32_t size = e->plan->shape.size, power = algo_power_below(size), extra = e->rank + power;
  if (e->rank >= power) {
    algo_send_pieces(e, e->rank - power, plan_input(e, 0, size));
    plan_emit_recv(e, 0, e->rank - power, plan_output(e, 0, 1));
    return;
  }
  plan_buffer_t held = PLAN_INPUT;
  if (extra < size) {
    held = PLAN_SCRATCH;
    algo_recv_pieces(e, extra, plan_scratch(e, 0, size));
    algo_reduce_pair(e, extra, plan_scratch(e, 0, size), plan_input(e, 0, size),
                     plan_scratch(e, 0, size));
  }
  halving_rounds(e, power, held);
  if (extra < size) plan_emit_send(e, 0, extra, plan_scratch(e, extra, 1));
}

const algo_t algo_reduce_scatter_halving = {
    .name = "halving",
    .collective = COLL_REDUCE_SCATTER,
    .paper = thakur_2005,
    .outline = halving_outline,
    .build = halving_build,
};

const algo_t algo_reduce_scatterv_halving = {
    .name = "halving",
    .collective = COLL_REDUCE_SCATTERV,
    .paper = thakur_2005,
    .outline = halving_outline,
    .build = halving_build,
};

/* ---- allgather: doubling ---------------------------------------------------------------------
 * Recursive doubling of Thakur, Rabenseifner & Gropp 2005. log2 P rounds, p - 1 blocks in volume.
 * Where p is not a power of two, rank i < P contributes the block of rank P+i together with its
 * own, and at the end sends that rank all other blocks, at most P/2 blocks per message. */

static void doubling_outline(plan_t *plan) {
  algo_outline_messages(plan, 1, 0, algo_power_below(plan->shape.size) / 2);
}

static void doubling_rounds(plan_emitter_t *e, int32_t power) {
  int32_t size = e->plan->shape.size;
  for (int32_t distance = 1; distance < power; distance *= 2) {
    int32_t peer = e->rank ^ distance;
    algo_run_t mine = {e->rank & ~(distance - 1), distance};
    algo_run_t theirs = {peer & ~(distance - 1), distance};
    algo_run_t my_extras = extras_of(mine, power, size);
    algo_run_t their_extras = extras_of(theirs, power, size);
    plan_emit_send(e, 0, peer, plan_output(e, mine.first, mine.count));
    plan_emit_recv(e, 0, peer, plan_output(e, theirs.first, theirs.count));
    plan_emit_send(e, 0, peer, plan_output(e, my_extras.first, my_extras.count));
    plan_emit_recv(e, 0, peer, plan_output(e, their_extras.first, their_extras.count));
  }
}

void algo_move_other_blocks(plan_emitter_t *e, int32_t extra, int32_t peer,
                            void (*pieces)(plan_emitter_t *, int32_t, plan_span_t)) {
  pieces(e, peer, plan_output(e, 0, extra));
  pieces(e, peer, plan_output(e, extra + 1, e->plan->shape.size - extra - 1));
}

static void doubling_build(plan_emitter_t *e) {
  int32_t size = e->plan->shape.size, power = algo_power_below(size), extra = e->rank + power;
  plan_emit_input_to_output(e, 0, e->rank, 0, 1);
  if (e->rank >= power) {
    plan_emit_send(e, 0, e->rank - power, plan_input(e, 0, 1));
    algo_move_other_blocks(e, e->rank, e->rank - power, algo_recv_pieces);
    return;
  }
  if (extra < size) plan_emit_recv(e, 0, extra, plan_output(e, extra, 1));
  doubling_rounds(e, power);
  if (extra < size) algo_move_other_blocks(e, extra, extra, algo_send_pieces);
}

const algo_t algo_allgather_doubling = {
    .name = "doubling",
    .collective = COLL_ALLGATHER,
    .paper = thakur_2005,
    .outline = doubling_outline,
    .build = doubling_build,
};

const algo_t algo_allgatherv_doubling = {
    .name = "doubling",
    .collective = COLL_ALLGATHERV,
    .paper = thakur_2005,
    .outline = doubling_outline,
    .build = doubling_build,
};

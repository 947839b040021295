/*
 * Bine butterflies: recursive halving and doubling at negabinary distances (negabinary.h), nearest
 * peers for the most data. Blocks are split in the order of the members' numbers, in which the
 * blocks of a message are consecutive, so a member is responsible for the block of its number and
 * not its own; one more message per rank moves blocks between the two (the paper's strategy
 * `send`). Where p is not a power of two, ranks are folded (algo_fold_t): a number stands for the
 * blocks of the member of that number and its extra.
 */
#include "algo/list.h"
#include "algo/negabinary.h"

static const char de_sensi_2025[] =
    "De Sensi et al., Bine trees: Enhancing collective operations by optimizing communication "
    "locality, 2025";

typedef struct butterfly {
  algo_fold_t fold;
  int32_t member, number;
  int32_t holder;  /* the rank that is responsible for this rank's block */
  algo_run_t held; /* the blocks that this rank is responsible for; none if it is an extra */
} butterfly_t;

static butterfly_t butterfly_of(const plan_emitter_t *e) {
  butterfly_t b = {.fold = algo_fold_of(e->plan->shape.size)};
  b.member = algo_fold_member(&b.fold, e->rank);
  b.number = algo_negabinary_number(&b.fold, b.member);
  b.holder = algo_fold_position(&b.fold, algo_negabinary_member(&b.fold, b.member));
  if (!algo_fold_is_extra(&b.fold, e->rank)) b.held = algo_fold_positions(&b.fold, b.number, 1);
  return b;
}

/* The blocks of the `count` numbers, a power of two, that contain the number. */
static algo_run_t blocks_of(const butterfly_t *b, int32_t number, int32_t count) {
  return algo_fold_positions(&b->fold, number & ~(count - 1), count);
}

static int32_t peer_of(const butterfly_t *b, int step) {
  int32_t other = algo_mod(algo_negabinary_peer(b->member, step), b->fold.power);
  return algo_fold_position(&b->fold, other);
}

/* The longest message is the half of the blocks that has most extras. */
static int32_t longest_of(int32_t size) {
  butterfly_t b = {.fold = algo_fold_of(size)};
  return blocks_of(&b, 0, b.fold.power / 2).count;
}

/* ---- reduce-scatter --------------------------------------------------------------------------
 * log2 P + 1 rounds and p blocks in volume for P = p a power of two. An extra rank sends all its
 * blocks to its member first. Partial results are in SCRATCH, block b at chunk b, received operands
 * p chunks behind. */

static void reduce_scatter_outline(plan_t *plan) {
  algo_outline_messages(plan, 1, 2 * plan->shape.size, longest_of(plan->shape.size));
}

static void halve(plan_emitter_t *e, const butterfly_t *b, plan_buffer_t held) {
  for (int step = 0; step < b->fold.steps; step++) {
    int32_t half = b->fold.power >> (step + 1), peer = peer_of(b, step);
    algo_run_t keep = blocks_of(b, b->number, half), give = blocks_of(b, b->number ^ half, half);
    plan_span_t arrived = plan_scratch(e, e->plan->shape.size + keep.first, keep.count);
    plan_emit_send(e, 0, peer, algo_own(e, held, give.first, give.count));
    plan_emit_recv(e, 0, peer, arrived);
    algo_reduce_pair(e, peer, plan_scratch(e, keep.first, keep.count),
                     algo_own(e, held, keep.first, keep.count), arrived);
    held = PLAN_SCRATCH;
  }
}

static void reduce_scatter_build(plan_emitter_t *e) {
  int32_t size = e->plan->shape.size;
  butterfly_t b = butterfly_of(e);
  if (b.held.count == 0) {
    algo_send_pieces(e, e->rank - 1, plan_input(e, 0, size));
  } else {
    plan_buffer_t held = PLAN_INPUT;
    if (b.member < b.fold.extras) {
      held = PLAN_SCRATCH;
      algo_recv_pieces(e, e->rank + 1, plan_scratch(e, size, size));
      algo_reduce_pair(e, e->rank + 1, plan_scratch(e, 0, size), plan_input(e, 0, size),
                       plan_scratch(e, size, size));
    }
    halve(e, &b, held);
  }
  for (int32_t block = b.held.first; block < b.held.first + b.held.count; block++) {
    if (block == e->rank) {
      plan_emit_copy(e, 0, plan_output(e, 0, 1), plan_scratch(e, block, 1));
    } else {
      plan_emit_send(e, 0, block, plan_scratch(e, block, 1));
    }
  }
  if (b.holder != e->rank) plan_emit_recv(e, 0, b.holder, plan_output(e, 0, 1));
}

const algo_t algo_reduce_scatter_bine = {
    .name = "bine",
    .collective = COLL_REDUCE_SCATTER,
    .paper = de_sensi_2025,
    .outline = reduce_scatter_outline,
    .build = reduce_scatter_build,
};

/* ---- allgather -------------------------------------------------------------------------------
 * The same in reverse: blocks move to the ranks that are responsible for them, then these double
 * what they have, farthest peers first. An extra rank receives all other blocks last. */

static void allgather_outline(plan_t *plan) {
  algo_outline_messages(plan, 1, 0, longest_of(plan->shape.size));
}

static void double_up(plan_emitter_t *e, const butterfly_t *b) {
  for (int step = b->fold.steps - 1; step >= 0; step--) {
    int32_t half = b->fold.power >> (step + 1), peer = peer_of(b, step);
    algo_run_t mine = blocks_of(b, b->number, half), theirs = blocks_of(b, b->number ^ half, half);
    plan_emit_send(e, 0, peer, plan_output(e, mine.first, mine.count));
    plan_emit_recv(e, 0, peer, plan_output(e, theirs.first, theirs.count));
  }
}

static void allgather_build(plan_emitter_t *e) {
  butterfly_t b = butterfly_of(e);
  plan_emit_input_to_output(e, 0, e->rank, 0, 1);
  if (b.holder != e->rank) plan_emit_send(e, 0, b.holder, plan_output(e, e->rank, 1));
  for (int32_t block = b.held.first; block < b.held.first + b.held.count; block++) {
    if (block != e->rank) plan_emit_recv(e, 0, block, plan_output(e, block, 1));
  }
  if (b.held.count == 0) {
    algo_move_other_blocks(e, e->rank, e->rank - 1, algo_recv_pieces);
    return;
  }
  double_up(e, &b);
  if (b.member < b.fold.extras) {
    algo_move_other_blocks(e, e->rank + 1, e->rank + 1, algo_send_pieces);
  }
}

const algo_t algo_allgather_bine = {
    .name = "bine",
    .collective = COLL_ALLGATHER,
    .paper = de_sensi_2025,
    .outline = allgather_outline,
    .build = allgather_build,
};

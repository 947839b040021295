/*
 * Allreduce over binary blocks, for any rank count. The ranks are divided into blocks of the powers
 * of two that make up p, the largest first. Each block reduce-scatters by recursive halving. Then,
 * from the smallest block up, every block adds its partial result to that of the next larger block,
 * which has more and shorter segments. The result of the largest block goes back down the same way,
 * and each block allgathers.
 *
 * 2 log2 P rounds of halving and doubling in the largest block of P ranks. A rank of a block of S
 * exchanges one message with the next smaller block and S'/S messages, one after the other, with
 * the next larger block of S', so p = P + 1 is the worst case. No rank sends more than 2n. Where p
 * is a power of two, this is halving and doubling and sends 2n(p-1)/p.
 */
#include "algo/common.h"
#include "algo/list.h"

/* Ranks [base, base+size), size a power of two; size 0 where there is no such block. */
typedef struct block {
  int32_t base, size;
} block_t;

/* This rank's block and the next larger and smaller blocks. */
typedef struct blocks {
  block_t larger, mine, smaller;
} blocks_t;

static blocks_t find_blocks(const plan_emitter_t *e) {
  int32_t size = e->plan->shape.size;
  blocks_t at = {.mine = {0, algo_power_below(size)}};
  while (e->rank >= at.mine.base + at.mine.size) {
    int32_t base = at.mine.base + at.mine.size;
    at.larger = at.mine;
    at.mine = (block_t){base, algo_power_below(size - base)};
  }
  int32_t base = at.mine.base + at.mine.size;
  if (base < size) at.smaller = (block_t){base, algo_power_below(size - base)};
  return at;
}

static void outline(plan_t *plan) {
  int32_t power = algo_power_below(plan->shape.size);
  algo_outline_messages(plan, power, power, power / 2);
}

/* The rank of the smaller block whose segment contains this rank's segment. */
static int32_t partner_below(const plan_emitter_t *e, const blocks_t *at) {
  return at->smaller.base + (e->rank - at->mine.base) % at->smaller.size;
}

/* Moves one message between this rank and each rank of the larger block whose segment is a piece of
 * this rank's segment: the piece, from or to `buffer`. */
static void move_pieces(plan_emitter_t *e, const blocks_t *at, plan_buffer_t buffer,
                        int32_t (*move)(plan_emitter_t *, int, int32_t, plan_span_t)) {
  for (int32_t i = e->rank - at->mine.base; i < at->larger.size; i += at->mine.size) {
    algo_run_t piece = algo_halving_segment(e->plan->parts, at->larger.size, i);
    move(e, 0, at->larger.base + i, algo_own(e, buffer, piece.first, piece.count));
  }
}

static void build(plan_emitter_t *e) {
  blocks_t at = find_blocks(e);
  algo_run_t segment = algo_halving_segment(e->plan->parts, at.mine.size, e->rank - at.mine.base);
  plan_span_t result = plan_output(e, segment.first, segment.count);
  plan_buffer_t held = algo_halving_reduce_scatter(e, at.mine.base, at.mine.size, PLAN_INPUT);
  if (at.smaller.size > 0) {
    plan_span_t arrived = plan_scratch(e, segment.first, segment.count);
    plan_emit_recv(e, 0, partner_below(e, &at), arrived);
    algo_reduce_pair(e, partner_below(e, &at), result,
                     algo_own(e, held, segment.first, segment.count), arrived);
  }
  if (at.larger.size > 0) {
    move_pieces(e, &at, held, plan_emit_send);
    move_pieces(e, &at, PLAN_OUTPUT, plan_emit_recv);
  }
  if (at.smaller.size > 0) plan_emit_send(e, 0, partner_below(e, &at), result);
  algo_doubling_allgather(e, at.mine.base, at.mine.size);
}

const algo_t algo_allreduce_rabenseifner = {
    .name = "rabenseifner",
    .collective = COLL_ALLREDUCE,
    .paper = "Rabenseifner, Optimization of collective reduction operations, 2004",
    .order = PLAN_ORDER_CANONICAL,
    .outline = outline,
    .build = build,
};

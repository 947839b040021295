/*
 * Swing: recursive halving and doubling whose peers alternate between both sides at the distances
 * 1, 1, 3, 5, 11, … (negabinary.h) instead of 1, 2, 4, …, so that messages cross fewer links of a
 * ring or torus. The bandwidth-optimal variant. The chunks that a rank sends in a step are not
 * consecutive in the order of ranks; a rank here is responsible for the chunk of its number
 * (algo_negabinary_number), in which order they are, so each step is one message.
 */
#include "algo/list.h"
#include "algo/negabinary.h"

/* The `count` chunks, a power of two, that contain the chunk. */
static plan_span_t run_of(const plan_emitter_t *e, plan_buffer_t buffer, int32_t chunk,
                          int32_t count) {
  return algo_own(e, buffer, chunk & ~(count - 1), count);
}

/* ---- allreduce -------------------------------------------------------------------------------
 * 2 log2 P rounds and the volume 2n(P-1)/P for P = p a power of two. Other rank counts are folded:
 * an extra rank (algo_fold_t) adds its vector before and receives the result after, one neighbour
 * away, which adds two vectors to the critical path. */

static void outline(plan_t *plan) {
  int32_t power = algo_power_below(plan->shape.size);
  algo_outline_messages(plan, power, power, power / 2);
}

static void reduce_scatter(plan_emitter_t *e, const algo_fold_t *fold, int32_t member,
                           plan_buffer_t held) {
  int32_t chunk = algo_negabinary_number(fold, member);
  for (int step = 0; step < fold->steps; step++) {
    int32_t half = fold->power >> (step + 1);
    int32_t other = algo_mod(algo_negabinary_peer(member, step), fold->power);
    int32_t peer = algo_fold_position(fold, other);
    plan_span_t arrived = run_of(e, PLAN_SCRATCH, chunk, half);
    plan_emit_send(e, 0, peer, run_of(e, held, chunk ^ half, half));
    plan_emit_recv(e, 0, peer, arrived);
    algo_reduce_pair(e, peer, run_of(e, PLAN_OUTPUT, chunk, half), run_of(e, held, chunk, half),
                     arrived);
    held = PLAN_OUTPUT;
  }
}

static void allgather(plan_emitter_t *e, const algo_fold_t *fold, int32_t member) {
  int32_t chunk = algo_negabinary_number(fold, member);
  for (int step = fold->steps - 1; step >= 0; step--) {
    int32_t half = fold->power >> (step + 1);
    int32_t other = algo_mod(algo_negabinary_peer(member, step), fold->power);
    int32_t peer = algo_fold_position(fold, other);
    plan_emit_send(e, 0, peer, run_of(e, PLAN_OUTPUT, chunk, half));
    plan_emit_recv(e, 0, peer, run_of(e, PLAN_OUTPUT, chunk ^ half, half));
  }
}

static void build(plan_emitter_t *e) {
  algo_fold_t fold = algo_fold_of(e->plan->shape.size);
  int32_t member = algo_fold_member(&fold, e->rank);
  if (algo_fold_is_extra(&fold, e->rank)) {
    algo_extra_allreduce(e, e->rank - 1);
    return;
  }
  bool has_extra = member < fold.extras;
  plan_buffer_t held = has_extra ? algo_extra_reduce(e, e->rank + 1) : PLAN_INPUT;
  reduce_scatter(e, &fold, member, held);
  allgather(e, &fold, member);
  if (has_extra) algo_send_pieces(e, e->rank + 1, plan_output(e, 0, e->plan->parts));
}

const algo_t algo_allreduce_swing = {
    .name = "swing",
    .collective = COLL_ALLREDUCE,
    .paper =
        "De Sensi, Bonato, Saam & Hoefler, Swing: Short-cutting rings for higher bandwidth "
        "allreduce, 2024",
    .outline = outline,
    .build = build,
};

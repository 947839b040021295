/*
 * Chains: the ranks form a line that starts (broadcast) or ends (reduce) at the root, and each rank
 * forwards to the next. One pass over the plan takes p - 1 rounds, but different ranks work on
 * different passes at the same time, so a long vector moves at the speed of one link: n volume per
 * rank. Any rank count.
 */
#include "algo/common.h"
#include "algo/list.h"

/* ---- broadcast -------------------------------------------------------------------------------
 * Patarasuk, Faraj & Yuan 2006. */

static void broadcast_outline(plan_t *plan) {
  algo_outline_messages(plan, 1, 0, 1);
}

static void broadcast_build(plan_emitter_t *e) {
  int32_t position = algo_tree_position(e);
  plan_span_t held = position == 0 ? plan_input(e, 0, 1) : plan_output(e, 0, 1);
  if (position > 0) plan_emit_recv(e, 0, algo_tree_rank(e, position - 1), held);
  if (position < e->plan->shape.size - 1) {
    plan_emit_send(e, 0, algo_tree_rank(e, position + 1), held);
  }
  if (position == 0) algo_copy_through(e);
}

const algo_t algo_broadcast_chain = {
    .name = "chain",
    .collective = COLL_BROADCAST,
    .paper = "Patarasuk, Faraj & Yuan, Pipelined broadcast on Ethernet switched clusters, 2006",
    .outline = broadcast_outline,
    .build = broadcast_build,
};

/* ---- reduce ----------------------------------------------------------------------------------
 * The same line in the opposite direction (the pipeline of Pješivac-Grbović et al. 2007). Every
 * rank adds its operand. */

static void reduce_outline(plan_t *plan) {
  algo_outline_messages(plan, 1, 1, 1);
}

static void reduce_build(plan_emitter_t *e) {
  int32_t position = algo_tree_position(e), size = e->plan->shape.size;
  plan_span_t held = plan_input(e, 0, 1);
  if (position < size - 1) {
    plan_span_t sources[2] = {held, plan_scratch(e, 0, 1)};
    held = position == 0 ? plan_output(e, 0, 1) : plan_scratch(e, 0, 1);
    plan_emit_recv(e, 0, algo_tree_rank(e, position + 1), sources[1]);
    plan_emit_reduce(e, 0, held, sources, 2);
  }
  if (position > 0) plan_emit_send(e, 0, algo_tree_rank(e, position - 1), held);
}

const algo_t algo_reduce_chain = {
    .name = "chain",
    .collective = COLL_REDUCE,
    .paper = "Pješivac-Grbović et al., Performance analysis of MPI collective operations, 2007",
    .outline = reduce_outline,
    .build = reduce_build,
};

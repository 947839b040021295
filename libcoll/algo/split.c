/*
 * Rooted collectives of a long vector, divided into one piece per rank so that all ranks share the
 * work. Piece v belongs to the rank at position v from the root, so the subtrees of a binomial tree
 * are runs of pieces. Any rank count.
 */
#include "algo/common.h"
#include "algo/list.h"

/* ---- broadcast: scatter_allgather ------------------------------------------------------------
 * Barnett, Gupta, Payne, Shuler, van de Geijn & Watts 1994: binomial scatter, ring allgather. At
 * most 2n(p-1)/p volume per rank. Every message is one piece: if the scatter sent a subtree's run
 * as one message, the ring's messages would be small in comparison and passes short. So the scatter
 * takes p - 1 rounds of the root, as many as the ring, instead of ceil(log2 p). Pieces that the
 * next rank already has from the scatter are not sent again (Zhou, Marjanović, Niethammer & Gracia
 * 2015). */

static void broadcast_outline(plan_t *plan) {
  algo_outline_messages(plan, plan->shape.size, 0, 1);
}

static void scatter_pieces(plan_emitter_t *e) {
  int32_t position = algo_tree_position(e), size = e->plan->shape.size;
  plan_buffer_t held = position == 0 ? PLAN_INPUT : PLAN_OUTPUT;
  if (position > 0) {
    algo_recv_pieces(e, algo_tree_rank(e, algo_tree_parent(position)),
                     plan_output(e, position, algo_tree_span(position, size)));
  }
  for (int32_t distance = algo_tree_distance(position, size); distance >= 1; distance /= 2) {
    int32_t child = position + distance;
    algo_send_pieces(e, algo_tree_rank(e, child),
                     algo_own(e, held, child, algo_tree_span(child, size)));
  }
}

/* Whether the position received the piece in the scatter. */
static bool has_piece(int32_t position, int32_t piece, int32_t size) {
  return piece >= position && piece - position < algo_tree_span(position, size);
}

static void allgather_pieces(plan_emitter_t *e) {
  int32_t position = algo_tree_position(e), size = e->plan->shape.size;
  int32_t next = algo_mod(position + 1, size), previous = algo_mod(position - 1, size);
  plan_buffer_t held = position == 0 ? PLAN_INPUT : PLAN_OUTPUT;
  for (int32_t round = 0; round < size - 1; round++) {
    int32_t out = algo_mod(position - round, size), in = algo_mod(position - round - 1, size);
    if (!has_piece(next, out, size)) {
      plan_emit_send(e, 0, algo_tree_rank(e, next), algo_own(e, held, out, 1));
    }
    if (!has_piece(position, in, size)) {
      plan_emit_recv(e, 0, algo_tree_rank(e, previous), plan_output(e, in, 1));
    }
  }
}

static void broadcast_build(plan_emitter_t *e) {
  scatter_pieces(e);
  allgather_pieces(e);
  if (e->rank == e->plan->shape.root) algo_copy_through(e);
}

const algo_t algo_broadcast_scatter_allgather = {
    .name = "scatter_allgather",
    .collective = COLL_BROADCAST,
    .paper =
        "Barnett, Gupta, Payne, Shuler, van de Geijn & Watts, Interprocessor collective "
        "communication library (InterCom), 1994",
    .outline = broadcast_outline,
    .build = broadcast_build,
};

/* ---- reduce: reduce_scatter_gather -----------------------------------------------------------
 * Rabenseifner's reduce (2004), with Träff's circulant reduce-scatter (2024) instead of recursive
 * halving, so that all rank counts cost alike, then a binomial gather. 2 ceil(log2 p) rounds;
 * n(p-1)/p volume per rank for the first half and at most n/2 for the second. */

static void reduce_outline(plan_t *plan) {
  int32_t size = plan->shape.size;
  algo_outline_messages(plan, size, 2 * size, size / 2);
}

static void reduce_build(plan_emitter_t *e) {
  int32_t position = algo_tree_position(e), size = e->plan->shape.size;
  plan_buffer_t result = position == 0 ? PLAN_OUTPUT : PLAN_SCRATCH;
  algo_circulant_reduce_scatter(
      e, &(algo_circulant_t){
             .partial = PLAN_SCRATCH, .arrived = size, .result = algo_own(e, result, position, 1)});
  int32_t farthest = algo_tree_distance(position, size);
  for (int32_t distance = 1; distance <= farthest; distance *= 2) {
    int32_t child = position + distance;
    plan_emit_recv(e, 0, algo_tree_rank(e, child),
                   algo_own(e, result, child, algo_tree_span(child, size)));
  }
  if (position > 0) {
    plan_emit_send(e, 0, algo_tree_rank(e, algo_tree_parent(position)),
                   plan_scratch(e, position, algo_tree_span(position, size)));
  }
}

const algo_t algo_reduce_reduce_scatter_gather = {
    .name = "reduce_scatter_gather",
    .collective = COLL_REDUCE,
    .paper = "Rabenseifner, Optimization of collective reduction operations, 2004",
    .outline = reduce_outline,
    .build = reduce_build,
};

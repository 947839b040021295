/*
 * Reductions by direct exchange: every rank receives one share of all operands, one message from
 * each peer, reduces it in one step, and sends the result to the ranks that need it. All operands
 * of a chunk are reduced in one place, so the result is the canonical expression, rounded once. Any
 * rank count, p - 1 messages per rank and phase.
 */
#include <stdlib.h>

#include "algo/common.h"
#include "algo/list.h"
#include "base/alloc.h"

static const char iannello_1997[] =
    "Iannello, Efficient algorithms for the reduce-scatter operation in LogGP, 1997";

/* One share per rank. SCRATCH is an array of vectors; a rank uses its own share of each. */
static plan_span_t own_share(const plan_emitter_t *e, int32_t vector) {
  return plan_scratch(e, vector * e->plan->shape.size + e->rank, 1);
}

/* Where the peer's operand of this rank's share is received. */
static plan_span_t receive_chunk(const plan_emitter_t *e, int32_t peer) {
  return own_share(e, peer < e->rank ? peer : peer - 1);
}

/* Exchanges the shares and reduces this rank's own share into `result`. */
static void reduce_share(plan_emitter_t *e, plan_span_t result) {
  int32_t size = e->plan->shape.size;
  plan_span_t *sources = NULL;
  if (e->status != COLL_OK) return;
  e->status = base_alloc((size_t)size, sizeof *sources, "reduce sources", (void **)&sources);
  if (e->status != COLL_OK) return;
  algo_send_blocks(e);
  for (int32_t i = size - 1; i > 0; i--) {
    plan_emit_recv(e, 0, algo_peer(e, i), receive_chunk(e, algo_peer(e, i)));
  }
  for (int32_t rank = 0; rank < size; rank++) {
    sources[rank] = rank == e->rank ? plan_input(e, rank, 1) : receive_chunk(e, rank);
  }
  plan_emit_reduce(e, 0, result, sources, size);
  free(sources);
}

/* ---- allreduce -------------------------------------------------------------------------------
 * The results go to all: two rounds, volume 2n(p-1)/p. */

static void allreduce_outline(plan_t *plan) {
  int32_t size = plan->shape.size;
  algo_outline_messages(plan, size, size * (size - 1), 1);
}

static void allreduce_build(plan_emitter_t *e) {
  plan_span_t share = plan_output(e, e->rank, 1);
  reduce_share(e, share);
  algo_multicast(e, share);
  algo_recv_blocks(e, PLAN_OUTPUT);
}

const algo_t algo_allreduce_direct = {
    .name = "direct",
    .collective = COLL_ALLREDUCE,
    .paper = iannello_1997,
    .order = PLAN_ORDER_EXACT,
    .outline = allreduce_outline,
    .build = allreduce_build,
};

/* ---- reduce ----------------------------------------------------------------------------------
 * The results go to the root: two rounds, volume n(p-1)/p for each of them. */

/* One more vector, for the result until it is sent. */
static void reduce_outline(plan_t *plan) {
  int32_t size = plan->shape.size;
  algo_outline_messages(plan, size, size * size, 1);
}

static void reduce_build(plan_emitter_t *e) {
  int32_t size = e->plan->shape.size, root = e->plan->shape.root;
  if (e->rank != root) {
    plan_span_t share = own_share(e, size - 1);
    reduce_share(e, share);
    plan_emit_send(e, 0, root, share);
    return;
  }
  reduce_share(e, plan_output(e, root, 1));
  algo_recv_blocks(e, PLAN_OUTPUT);
}

const algo_t algo_reduce_direct = {
    .name = "direct",
    .collective = COLL_REDUCE,
    .paper = iannello_1997,
    .order = PLAN_ORDER_EXACT,
    .outline = reduce_outline,
    .build = reduce_build,
};

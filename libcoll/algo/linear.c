/*
 * Direct messages: every rank that has a block sends it directly to every rank that needs it.
 * Nothing is forwarded, so the volume is minimal; the root of a gather or scatter has p - 1 rounds.
 * Any rank count.
 */
#include <stdlib.h>

#include "algo/common.h"
#include "algo/list.h"
#include "base/alloc.h"

static const char pjesivac_grbovic_2007[] =
    "Pješivac-Grbović et al., Performance analysis of MPI collective operations, 2007";

static void outline(plan_t *plan) {
  algo_outline_messages(plan, 1, 0, 1);
}

/* ---- gather and scatter ----------------------------------------------------------------------
 * The flat tree of Pješivac-Grbović et al. 2007: p - 1 rounds of one block at the root. */

static void gather_build(plan_emitter_t *e) {
  int32_t root = e->plan->shape.root;
  if (e->rank != root) {
    plan_emit_send(e, 0, root, plan_input(e, 0, 1));
    return;
  }
  plan_emit_input_to_output(e, 0, root, 0, 1);
  for (int32_t i = 1; i < e->plan->shape.size; i++) {
    plan_emit_recv(e, 0, algo_peer(e, i), plan_output(e, algo_peer(e, i), 1));
  }
}

const algo_t algo_gather_linear = {
    .name = "linear",
    .collective = COLL_GATHER,
    .paper = pjesivac_grbovic_2007,
    .outline = outline,
    .build = gather_build,
};

/* A rank needs to know the sizes of its own blocks only. */
const algo_t algo_gatherv_linear = {
    .name = "linear",
    .collective = COLL_GATHERV,
    .paper = pjesivac_grbovic_2007,
    .outline = outline,
    .build = gather_build,
};

static void scatter_build(plan_emitter_t *e) {
  int32_t root = e->plan->shape.root;
  if (e->rank != root) {
    plan_emit_recv(e, 0, root, plan_output(e, 0, 1));
    return;
  }
  algo_send_blocks(e);
  plan_emit_input_to_output(e, 0, 0, root, 1);
}

const algo_t algo_scatter_linear = {
    .name = "linear",
    .collective = COLL_SCATTER,
    .paper = pjesivac_grbovic_2007,
    .outline = outline,
    .build = scatter_build,
};

const algo_t algo_scatterv_linear = {
    .name = "linear",
    .collective = COLL_SCATTERV,
    .paper = pjesivac_grbovic_2007,
    .outline = outline,
    .build = scatter_build,
};

/* ---- allreduce -------------------------------------------------------------------------------
 * Every rank multicasts its vector and reduces all vectors itself, directly from the received
 * messages. One round, which suits small data and more ranks than cores; n stores and p n loads per
 * rank. */

/* OUTPUT = the reduction of this rank's operand `own` and the vectors received from each peer r in
 * SCRATCH chunk r. */
static void reduce_arrived(plan_emitter_t *e, plan_span_t own) {
  int32_t size = e->plan->shape.size;
  plan_span_t *sources = NULL;
  if (e->status != COLL_OK) return;
  e->status = base_alloc((size_t)size, sizeof *sources, "reduce sources", (void **)&sources);
  if (e->status != COLL_OK) return;
  for (int32_t rank = 0; rank < size; rank++) {
    sources[rank] = rank == e->rank ? own : plan_scratch(e, rank, 1);
  }
  plan_emit_reduce(e, 0, plan_output(e, 0, 1), sources, size);
  free(sources);
}

static void allpairs_outline(plan_t *plan) {
  algo_outline_multicast(plan, 1, plan->shape.size, 1);
}

static void allpairs_build(plan_emitter_t *e) {
  algo_multicast(e, plan_input(e, 0, 1));
  algo_recv_blocks(e, PLAN_SCRATCH);
  reduce_arrived(e, plan_input(e, 0, 1));
}

const algo_t algo_allreduce_allpairs = {
    .name = "allpairs",
    .collective = COLL_ALLREDUCE,
    .paper = pjesivac_grbovic_2007,
    .order = PLAN_ORDER_EXACT,
    .outline = allpairs_outline,
    .build = allpairs_build,
};

/* ---- reduce ----------------------------------------------------------------------------------
 * Every rank sends its vector to the root, which reduces all of them directly from the received
 * messages: one round, p n loads at the root. */

static void scattered_outline(plan_t *plan) {
  algo_outline_messages(plan, 1, plan->shape.size, 1);
}

static void reduce_build(plan_emitter_t *e) {
  int32_t root = e->plan->shape.root;
  if (e->rank != root) {
    plan_emit_send(e, 0, root, plan_input(e, 0, 1));
    return;
  }
  algo_recv_blocks(e, PLAN_SCRATCH);
  reduce_arrived(e, plan_input(e, 0, 1));
}

const algo_t algo_reduce_linear = {
    .name = "linear",
    .collective = COLL_REDUCE,
    .paper = pjesivac_grbovic_2007,
    .order = PLAN_ORDER_EXACT,
    .outline = scattered_outline,
    .build = reduce_build,
};

/* ---- reduce-scatter --------------------------------------------------------------------------
 * Every rank sends every other rank its block and reduces the blocks it receives directly from the
 * messages. One round, for the same reason as allreduce; volume n(p-1)/p. */

static void reduce_scatter_build(plan_emitter_t *e) {
  algo_send_blocks(e);
  algo_recv_blocks(e, PLAN_SCRATCH);
  reduce_arrived(e, plan_input(e, e->rank, 1));
}

const algo_t algo_reduce_scatter_allpairs = {
    .name = "allpairs",
    .collective = COLL_REDUCE_SCATTER,
    .paper = pjesivac_grbovic_2007,
    .order = PLAN_ORDER_EXACT,
    .outline = scattered_outline,
    .build = reduce_scatter_build,
};

static void reduce_scatterv_outline(plan_t *plan) {
  scattered_outline(plan);
  plan->own_scratch = true;
}

const algo_t algo_reduce_scatterv_allpairs = {
    .name = "allpairs",
    .collective = COLL_REDUCE_SCATTERV,
    .paper = pjesivac_grbovic_2007,
    .order = PLAN_ORDER_EXACT,
    .outline = reduce_scatterv_outline,
    .build = reduce_scatter_build,
};

/* ---- allgather -------------------------------------------------------------------------------
 * Every rank multicasts its block: one round. */

static void multicast_outline(plan_t *plan) {
  algo_outline_multicast(plan, 1, 0, 1);
}

static void allgather_build(plan_emitter_t *e) {
  algo_multicast(e, plan_input(e, 0, 1));
  plan_emit_input_to_output(e, 0, e->rank, 0, 1);
  algo_recv_blocks(e, PLAN_OUTPUT);
}

const algo_t algo_allgather_allpairs = {
    .name = "allpairs",
    .collective = COLL_ALLGATHER,
    .paper = pjesivac_grbovic_2007,
    .outline = multicast_outline,
    .build = allgather_build,
};

const algo_t algo_allgatherv_allpairs = {
    .name = "allpairs",
    .collective = COLL_ALLGATHERV,
    .paper = pjesivac_grbovic_2007,
    .outline = multicast_outline,
    .build = allgather_build,
};

/* ---- alltoall --------------------------------------------------------------------------------
 * Every rank sends all its blocks before it receives any: one round. */

static void alltoall_build(plan_emitter_t *e) {
  algo_send_blocks(e);
  plan_emit_input_to_output(e, 0, e->rank, e->rank, 1);
  algo_recv_blocks(e, PLAN_OUTPUT);
}

const algo_t algo_alltoall_allpairs = {
    .name = "allpairs",
    .collective = COLL_ALLTOALL,
    .paper = pjesivac_grbovic_2007,
    .outline = outline,
    .build = alltoall_build,
};

/* ---- broadcast -------------------------------------------------------------------------------
 * The root multicasts its vector, which is a single write where the transport supports it. */

static void broadcast_build(plan_emitter_t *e) {
  int32_t root = e->plan->shape.root;
  if (e->rank != root) {
    plan_emit_recv(e, 0, root, plan_output(e, 0, 1));
    return;
  }
  algo_multicast(e, plan_input(e, 0, 1));
  algo_copy_through(e);
}

const algo_t algo_broadcast_linear = {
    .name = "linear",
    .collective = COLL_BROADCAST,
    .paper = pjesivac_grbovic_2007,
    .outline = multicast_outline,
    .build = broadcast_build,
};

/* ---- sendrecv --------------------------------------------------------------------------------
 * The ring shift: one message to the next rank, one from the previous rank. */

static void sendrecv_build(plan_emitter_t *e) {
  int32_t size = e->plan->shape.size;
  plan_emit_send(e, 0, algo_mod(e->rank + 1, size), plan_input(e, 0, 1));
  plan_emit_recv(e, 0, algo_mod(e->rank - 1, size), plan_output(e, 0, 1));
}

const algo_t algo_sendrecv_direct = {
    .name = "direct",
    .collective = COLL_SENDRECV,
    .paper = "a single message needs no algorithm",
    .outline = outline,
    .build = sendrecv_build,
};

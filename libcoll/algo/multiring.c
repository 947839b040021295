/*
 * Several rings at once, one lane for each: the rings over disjoint paths that the layout has
 * (topo/rings.h). Ring r serves the r-th part of each block, so with R rings every link carries
 * what its rings need for 1/R of the data. Without such rings there is one, in the order of the
 * ranks. Any rank count.
 */
#include "algo/common.h"
#include "algo/list.h"
#include "topo/rings.h"

static const char rings_of_nccl[] =
    "Jeaugey, NCCL 2.0, 2017 (rings over disjoint paths); Alspach, Bermond & Sotteau, "
    "Decomposition into cycles I: Hamilton decompositions, 1990";

/* NULL: one ring in the order of the ranks. */
static const topo_rings_t *rings_of(const plan_t *plan) {
  return plan->shape.layout != NULL ? plan->shape.layout->rings : NULL;
}

static int32_t count_of(const plan_t *plan) {
  const topo_rings_t *rings = rings_of(plan);
  return rings != NULL ? rings->count : 1;
}

static algo_ring_t ring_of(const plan_emitter_t *e, int lane, int32_t first, int32_t stride) {
  const topo_rings_t *rings = rings_of(e->plan);
  algo_ring_t ring = {
      .lane = lane, .direction = 1, .first = first, .stride = stride, .position = e->rank};
  if (rings == NULL) return ring;
  ring.order = topo_rings_order(rings, lane);
  for (ring.position = 0; ring.order[ring.position] != e->rank;) ring.position++;
  return ring;
}

static void outline(plan_t *plan, int32_t parts, int32_t scratch_chunks) {
  algo_outline_messages(plan, parts, scratch_chunks, 1);
  plan->lanes = count_of(plan);
}

/* ---- allreduce -------------------------------------------------------------------------------
 * 2(p-1) rounds of R messages, each 1/(Rp) of the vector. The volume is the lower bound
 * 2n(p-1)/p. */

static void allreduce_outline(plan_t *plan) {
  int32_t chunks = count_of(plan) * plan->shape.size;
  outline(plan, chunks, chunks);
}

static void allreduce_build(plan_emitter_t *e) {
  for (int lane = 0; lane < e->plan->lanes; lane++) {
    algo_ring_t ring = ring_of(e, lane, lane * e->plan->shape.size, 1);
    algo_ring_allreduce(e, &ring);
  }
}

const algo_t algo_allreduce_multiring = {
    .name = "multiring",
    .collective = COLL_ALLREDUCE,
    .paper = rings_of_nccl,
    .over_rings = true,
    .outline = allreduce_outline,
    .build = allreduce_build,
};

/* ---- reduce-scatter, allgather and broadcast -------------------------------------------------
 * p - 1 rounds of R messages, each 1/R of a block. */

static void parts_outline(plan_t *plan) {
  outline(plan, count_of(plan), 0);
}

static void parts_build(plan_emitter_t *e,
                        void (*build)(plan_emitter_t *e, const algo_ring_t *ring)) {
  for (int lane = 0; lane < e->plan->lanes; lane++) {
    algo_ring_t ring = ring_of(e, lane, lane, e->plan->lanes);
    build(e, &ring);
  }
}

static void reduce_scatter_outline(plan_t *plan) {
  outline(plan, count_of(plan), count_of(plan));
}

static void reduce_scatter_build(plan_emitter_t *e) {
  parts_build(e, algo_ring_reduce_scatter);
}

const algo_t algo_reduce_scatter_multiring = {
    .name = "multiring",
    .collective = COLL_REDUCE_SCATTER,
    .paper = rings_of_nccl,
    .over_rings = true,
    .outline = reduce_scatter_outline,
    .build = reduce_scatter_build,
};

static void allgather_build(plan_emitter_t *e) {
  parts_build(e, algo_ring_allgather);
}

const algo_t algo_allgather_multiring = {
    .name = "multiring",
    .collective = COLL_ALLGATHER,
    .paper = rings_of_nccl,
    .over_rings = true,
    .outline = parts_outline,
    .build = allgather_build,
};

static void broadcast_build(plan_emitter_t *e) {
  parts_build(e, algo_ring_broadcast);
}

const algo_t algo_broadcast_multiring = {
    .name = "multiring",
    .collective = COLL_BROADCAST,
    .paper = rings_of_nccl,
    .over_rings = true,
    .outline = parts_outline,
    .build = broadcast_build,
};

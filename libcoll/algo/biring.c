/*
 * Bidirectional rings: the even and the odd chunks, or the two halves of a vector, travel around
 * the ring in opposite directions, one lane for each. Both directions of every link carry half of
 * what a ring (ring.c) sends in one. Any rank count.
 */
#include "algo/common.h"
#include "algo/list.h"

static const char jain_2010[] =
    "Jain & Sabharwal, Optimal bucket algorithms for large MPI collectives on torus interconnects, "
    "2010 (one dimension)";

enum { LANES = 2 };

static const int32_t directions[LANES] = {1, -1};

static void outline(plan_t *plan, int32_t parts, int32_t scratch_chunks) {
  algo_outline_messages(plan, parts, scratch_chunks, 1);
  plan->lanes = LANES;
}

/* ---- allreduce -------------------------------------------------------------------------------
 * 2(p-1) rounds of two messages, each 1/(2p) of the vector. The volume is the lower bound
 * 2n(p-1)/p. */

static void allreduce_outline(plan_t *plan) {
  outline(plan, LANES * plan->shape.size, LANES * plan->shape.size);
}

static void allreduce_build(plan_emitter_t *e) {
  for (int lane = 0; lane < LANES; lane++) {
    algo_ring_allreduce(e, &(algo_ring_t){.lane = lane,
                                          .direction = directions[lane],
                                          .first = lane * e->plan->shape.size,
                                          .stride = 1,
                                          .position = e->rank});
  }
}

const algo_t algo_allreduce_biring = {
    .name = "biring",
    .collective = COLL_ALLREDUCE,
    .paper = jain_2010,
    .two_way = true,
    .outline = allreduce_outline,
    .build = allreduce_build,
};

/* ---- reduce-scatter and allgather ------------------------------------------------------------
 * p - 1 rounds of two messages, each half a block. */

static algo_ring_t half_blocks(const plan_emitter_t *e, int lane) {
  return (algo_ring_t){.lane = lane,
                       .direction = directions[lane],
                       .first = lane,
                       .stride = LANES,
                       .position = e->rank};
}

static void reduce_scatter_outline(plan_t *plan) {
  outline(plan, LANES, LANES);
}

static void reduce_scatter_build(plan_emitter_t *e) {
  for (int lane = 0; lane < LANES; lane++) {
    algo_ring_t ring = half_blocks(e, lane);
    algo_ring_reduce_scatter(e, &ring);
  }
}

const algo_t algo_reduce_scatter_biring = {
    .name = "biring",
    .collective = COLL_REDUCE_SCATTER,
    .paper = jain_2010,
    .two_way = true,
    .outline = reduce_scatter_outline,
    .build = reduce_scatter_build,
};

static void halves_outline(plan_t *plan) {
  outline(plan, LANES, 0);
}

static void allgather_build(plan_emitter_t *e) {
  for (int lane = 0; lane < LANES; lane++) {
    algo_ring_t ring = half_blocks(e, lane);
    algo_ring_allgather(e, &ring);
  }
}

const algo_t algo_allgather_biring = {
    .name = "biring",
    .collective = COLL_ALLGATHER,
    .paper = jain_2010,
    .two_way = true,
    .outline = halves_outline,
    .build = allgather_build,
};

/* ---- broadcast -------------------------------------------------------------------------------
 * Two chains from the root, one around each side, for half of the vector each: p - 1 rounds, and
 * ranks work on different passes at the same time. */

static void broadcast_build(plan_emitter_t *e) {
  for (int lane = 0; lane < LANES; lane++) {
    algo_ring_t ring = half_blocks(e, lane);
    algo_ring_broadcast(e, &ring);
  }
}

const algo_t algo_broadcast_biring = {
    .name = "biring",
    .collective = COLL_BROADCAST,
    .paper = jain_2010,
    .two_way = true,
    .outline = halves_outline,
    .build = broadcast_build,
};

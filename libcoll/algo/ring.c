/*
 * Rings: every rank sends to the next rank and receives from the previous one, p - 1 times for each
 * of reduce-scatter and allgather. The volume is minimal for any rank count; the number of rounds
 * grows with the rank count.
 */
#include "algo/common.h"
#include "algo/list.h"

static const char chan_2007[] =
    "Chan, Heimlich, Purkayastha & van de Geijn, Collective communication: theory, practice, and "
    "experience, 2007";

/* A ring of one lane over every stride-th chunk, or over a run of chunks (algo_ring_t in common.h).
 * The rank at a position, modulo p. */
static int32_t rank_at(const plan_emitter_t *e, const algo_ring_t *ring, int32_t position) {
  int32_t within = algo_mod(position, e->plan->shape.size);
  return ring->order != NULL ? ring->order[within] : within;
}

/* The chunk of the rank at a position. */
static int32_t chunk_of(const plan_emitter_t *e, const algo_ring_t *ring, int32_t position) {
  return ring->first + ring->stride * rank_at(e, ring, position);
}

static int32_t next_rank(const plan_emitter_t *e, const algo_ring_t *ring) {
  return rank_at(e, ring, ring->position + ring->direction);
}

static int32_t previous_rank(const plan_emitter_t *e, const algo_ring_t *ring) {
  return rank_at(e, ring, ring->position - ring->direction);
}

/* p - 1 rounds. Each rank sends the chunk of position `own` of OUTPUT first, then in each round the
 * chunk it received last. */
static void allgather_rounds(plan_emitter_t *e, const algo_ring_t *ring, int32_t own) {
  for (int32_t round = 0; round < e->plan->shape.size - 1; round++) {
    int32_t out = chunk_of(e, ring, own - ring->direction * round);
    int32_t in = chunk_of(e, ring, own - ring->direction * (round + 1));
    plan_emit_send(e, ring->lane, next_rank(e, ring), plan_output(e, out, 1));
    plan_emit_recv(e, ring->lane, previous_rank(e, ring), plan_output(e, in, 1));
  }
}

static algo_ring_t single(const plan_emitter_t *e) {
  return (algo_ring_t){.direction = 1, .stride = 1, .position = e->rank};
}

/* ---- allreduce -------------------------------------------------------------------------------
 * Patarasuk & Yuan 2009. 2(p-1) rounds of one chunk, 1/p of the vector: the volume 2n(p-1)/p per
 * rank is the lower bound. Chunk c travels from rank c around to rank c-1, which completes it; then
 * the results travel around. */

static void allreduce_outline(plan_t *plan) {
  int32_t size = plan->shape.size;
  algo_outline_messages(plan, size, size, 1);
}

void algo_ring_allreduce(plan_emitter_t *e, const algo_ring_t *ring) {
  for (int32_t round = 0; round < e->plan->shape.size - 1; round++) {
    int32_t out = chunk_of(e, ring, ring->position - ring->direction * round);
    int32_t in = chunk_of(e, ring, ring->position - ring->direction * (round + 1));
    plan_span_t sources[2] = {plan_scratch(e, in, 1), plan_input(e, in, 1)};
    plan_emit_send(e, ring->lane, next_rank(e, ring),
                   algo_own(e, round == 0 ? PLAN_INPUT : PLAN_OUTPUT, out, 1));
    plan_emit_recv(e, ring->lane, previous_rank(e, ring), sources[0]);
    plan_emit_reduce(e, ring->lane, plan_output(e, in, 1), sources, 2);
  }
  allgather_rounds(e, ring, ring->position + ring->direction);
}

static void allreduce_build(plan_emitter_t *e) {
  algo_ring_t ring = single(e);
  algo_ring_allreduce(e, &ring);
}

const algo_t algo_allreduce_ring = {
    .name = "ring",
    .collective = COLL_ALLREDUCE,
    .paper =
        "Patarasuk & Yuan, Bandwidth optimal all-reduce algorithms for clusters of "
        "workstations, 2009",
    .outline = allreduce_outline,
    .build = allreduce_build,
};

/* ---- reduce-scatter --------------------------------------------------------------------------
 * The bucket algorithm of Chan, Heimlich, Purkayastha & van de Geijn 2007. p - 1 rounds of one
 * block. Block b travels from rank b+1 around to rank b. One block of SCRATCH holds the block in
 * transit; if blocks differ in size, each has a block of SCRATCH. */

static void reduce_scatter_outline(plan_t *plan) {
  algo_outline_messages(plan, 1, 1, 1);
}

static void reduce_scatterv_outline(plan_t *plan) {
  algo_outline_messages(plan, 1, plan->shape.size, 1);
}

/* Where the block is that is chunk `chunk` of INPUT. */
static plan_span_t transit_of(const plan_emitter_t *e, const algo_ring_t *ring, int32_t chunk) {
  bool by_rank = base_collective_counts_by_rank(e->plan->shape.collective);
  return plan_scratch(e, by_rank ? chunk : ring->first, 1);
}

void algo_ring_reduce_scatter(plan_emitter_t *e, const algo_ring_t *ring) {
  for (int32_t round = 0; round < e->plan->shape.size - 1; round++) {
    bool is_last = round == e->plan->shape.size - 2;
    int32_t out = chunk_of(e, ring, ring->position - ring->direction * (round + 1));
    int32_t in = chunk_of(e, ring, ring->position - ring->direction * (round + 2));
    plan_span_t arrived = transit_of(e, ring, in);
    plan_span_t sources[2] = {arrived, plan_input(e, in, 1)};
    plan_emit_send(e, ring->lane, next_rank(e, ring),
                   round == 0 ? plan_input(e, out, 1) : transit_of(e, ring, out));
    plan_emit_recv(e, ring->lane, previous_rank(e, ring), arrived);
    plan_emit_reduce(e, ring->lane, is_last ? plan_output(e, ring->first, 1) : arrived, sources, 2);
  }
}

static void reduce_scatter_build(plan_emitter_t *e) {
  algo_ring_t ring = single(e);
  algo_ring_reduce_scatter(e, &ring);
}

const algo_t algo_reduce_scatter_ring = {
    .name = "ring",
    .collective = COLL_REDUCE_SCATTER,
    .paper = chan_2007,
    .outline = reduce_scatter_outline,
    .build = reduce_scatter_build,
};

const algo_t algo_reduce_scatterv_ring = {
    .name = "ring",
    .collective = COLL_REDUCE_SCATTERV,
    .paper = chan_2007,
    .outline = reduce_scatterv_outline,
    .build = reduce_scatter_build,
};

/* ---- allgather -------------------------------------------------------------------------------
 * The bucket algorithm for allgather: p - 1 rounds of one block. */

static void allgather_outline(plan_t *plan) {
  algo_outline_messages(plan, 1, 0, 1);
}

void algo_ring_allgather(plan_emitter_t *e, const algo_ring_t *ring) {
  plan_emit_input_to_output(e, ring->lane, chunk_of(e, ring, ring->position), ring->first, 1);
  allgather_rounds(e, ring, ring->position);
}

static void allgather_build(plan_emitter_t *e) {
  algo_ring_t ring = single(e);
  algo_ring_allgather(e, &ring);
}

const algo_t algo_allgather_ring = {
    .name = "ring",
    .collective = COLL_ALLGATHER,
    .paper = chan_2007,
    .outline = allgather_outline,
    .build = allgather_build,
};

/* Blocks are never cut or joined, so they may differ in size. */
const algo_t algo_allgatherv_ring = {
    .name = "ring",
    .collective = COLL_ALLGATHERV,
    .paper = chan_2007,
    .outline = allgather_outline,
    .build = allgather_build,
};

/* ---- broadcast -------------------------------------------------------------------------------
 * p - 1 rounds; ranks work on different passes at the same time. */

void algo_ring_broadcast(plan_emitter_t *e, const algo_ring_t *ring) {
  int32_t size = e->plan->shape.size, root = ring->position;
  while (rank_at(e, ring, root) != e->plan->shape.root) root--;
  int32_t behind = algo_mod(ring->direction * (ring->position - root), size);
  plan_span_t held = algo_own(e, behind == 0 ? PLAN_INPUT : PLAN_OUTPUT, ring->first, 1);
  if (behind > 0) plan_emit_recv(e, ring->lane, previous_rank(e, ring), held);
  if (behind < size - 1) plan_emit_send(e, ring->lane, next_rank(e, ring), held);
  if (behind == 0) plan_emit_input_to_output(e, ring->lane, ring->first, ring->first, 1);
}

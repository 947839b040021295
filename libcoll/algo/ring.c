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

static int32_t next_rank(const plan_emitter_t *e) {
  return algo_mod(e->rank + 1, e->plan->shape.size);
}

static int32_t previous_rank(const plan_emitter_t *e) {
  return algo_mod(e->rank - 1, e->plan->shape.size);
}

/* p - 1 rounds. Rank r sends chunk `first` of OUTPUT first, then in each round the chunk it
 * received last. */
static void allgather_rounds(plan_emitter_t *e, int32_t first) {
  int32_t size = e->plan->shape.size;
  for (int32_t round = 0; round < size - 1; round++) {
    int32_t out = algo_mod(first - round, size), in = algo_mod(first - round - 1, size);
    plan_emit_send(e, 0, next_rank(e), plan_output(e, out, 1));
    plan_emit_recv(e, 0, previous_rank(e), plan_output(e, in, 1));
  }
}

/* ---- allreduce -------------------------------------------------------------------------------
 * Patarasuk & Yuan 2009. 2(p-1) rounds of one chunk, 1/p of the vector: the volume 2n(p-1)/p per
 * rank is the lower bound. Chunk c travels from rank c around to rank c-1, which completes it; then
 * the results travel around. */

static void allreduce_outline(plan_t *plan) {
  int32_t size = plan->shape.size;
  algo_outline_messages(plan, size, size, 1);
}

static void allreduce_build(plan_emitter_t *e) {
  int32_t size = e->plan->shape.size;
  for (int32_t round = 0; round < size - 1; round++) {
    int32_t out = algo_mod(e->rank - round, size), in = algo_mod(e->rank - round - 1, size);
    plan_span_t sources[2] = {plan_scratch(e, in, 1), plan_input(e, in, 1)};
    plan_emit_send(e, 0, next_rank(e), algo_own(e, round == 0 ? PLAN_INPUT : PLAN_OUTPUT, out, 1));
    plan_emit_recv(e, 0, previous_rank(e), sources[0]);
    plan_emit_reduce(e, 0, plan_output(e, in, 1), sources, 2);
  }
  allgather_rounds(e, e->rank + 1);
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
 * transit. */

static void reduce_scatter_outline(plan_t *plan) {
  algo_outline_messages(plan, 1, 1, 1);
}

static void reduce_scatter_build(plan_emitter_t *e) {
  int32_t size = e->plan->shape.size;
  plan_span_t in_transit = plan_scratch(e, 0, 1);
  for (int32_t round = 0; round < size - 1; round++) {
    bool is_last = round == size - 2;
    int32_t out = algo_mod(e->rank - round - 1, size), in = algo_mod(e->rank - round - 2, size);
    plan_span_t sources[2] = {in_transit, plan_input(e, in, 1)};
    plan_emit_send(e, 0, next_rank(e), round == 0 ? plan_input(e, out, 1) : in_transit);
    plan_emit_recv(e, 0, previous_rank(e), in_transit);
    plan_emit_reduce(e, 0, is_last ? plan_output(e, 0, 1) : in_transit, sources, 2);
  }
}

const algo_t algo_reduce_scatter_ring = {
    .name = "ring",
    .collective = COLL_REDUCE_SCATTER,
    .paper = chan_2007,
    .outline = reduce_scatter_outline,
    .build = reduce_scatter_build,
};

/* ---- allgather -------------------------------------------------------------------------------
 * The bucket algorithm for allgather: p - 1 rounds of one block. */

static void allgather_outline(plan_t *plan) {
  algo_outline_messages(plan, 1, 0, 1);
}

static void allgather_build(plan_emitter_t *e) {
  plan_emit_input_to_output(e, 0, e->rank, 0, 1);
  allgather_rounds(e, e->rank);
}

const algo_t algo_allgather_ring = {
    .name = "ring",
    .collective = COLL_ALLGATHER,
    .paper = chan_2007,
    .outline = allgather_outline,
    .build = allgather_build,
};

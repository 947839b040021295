/*
 * Pairwise exchange (Thakur, Rabenseifner & Gropp 2005), paired as in a round-robin tournament so
 * that any rank count works: in round t the ranks whose sum is t modulo p exchange their blocks,
 * and a rank that is its own partner copies. p rounds of one block, p - 1 blocks of volume; nothing
 * is forwarded. The received block overwrites the block just sent, so the exchange works in place.
 * Blocks are never cut, so they may differ in size, as in alltoallv.
 */
#include "algo/common.h"
#include "algo/list.h"

static const char thakur_2005[] =
    "Thakur, Rabenseifner & Gropp, Optimization of collective communication operations in MPICH, "
    "2005";

static void outline(plan_t *plan) {
  algo_outline_messages(plan, 1, 0, 1);
}

static void build(plan_emitter_t *e) {
  int32_t size = e->plan->shape.size;
  for (int32_t round = 0; round < size; round++) {
    int32_t partner = algo_mod(round - e->rank, size);
    if (partner == e->rank) {
      plan_emit_input_to_output(e, 0, partner, partner, 1);
      continue;
    }
    plan_emit_send(e, 0, partner, plan_input(e, partner, 1));
    plan_emit_recv(e, 0, partner, plan_output(e, partner, 1));
  }
}

const algo_t algo_alltoall_pairwise = {
    .name = "pairwise",
    .collective = COLL_ALLTOALL,
    .paper = thakur_2005,
    .outline = outline,
    .build = build,
};

const algo_t algo_alltoallv_pairwise = {
    .name = "pairwise",
    .collective = COLL_ALLTOALLV,
    .paper = thakur_2005,
    .outline = outline,
    .build = build,
};

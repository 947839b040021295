/*
 * The index algorithm of Bruck, Ho, Kipnis, Upfal & Weathersby 1997: alltoall in ceil(log2 p)
 * rounds for any rank count. It suits blocks so small that a round costs more than forwarding. A
 * block whose destination is i ranks ahead moves by the distances that are the set bits of i: about
 * (p/2) log2 p blocks of volume. All of INPUT is copied to SCRATCH before OUTPUT is written, so the
 * algorithm works in place.
 *
 * SCRATCH holds p blocks, indexed by their distance at the start, followed by a packing area for
 * the blocks of one message. Received blocks overwrite the blocks that were just sent.
 */
#include "algo/common.h"
#include "algo/list.h"

static void outline(plan_t *plan) {
  int32_t size = plan->shape.size;
  algo_outline_messages(plan, 1, size + size / 2, size / 2);
}

/* Copies the blocks whose distance has the bit `distance` set, which are runs of that length, into
 * the packing area or back. Returns the number of blocks. */
static int32_t pack(plan_emitter_t *e, int32_t distance, bool back) {
  int32_t size = e->plan->shape.size, packed = 0;
  for (int32_t first = distance; first < size; first += 2 * distance) {
    int32_t count = size - first < distance ? size - first : distance;
    plan_span_t blocks = plan_scratch(e, first, count),
                packed_blocks = plan_scratch(e, size + packed, count);
    plan_emit_copy(e, 0, back ? blocks : packed_blocks, back ? packed_blocks : blocks);
    packed += count;
  }
  return packed;
}

static void build(plan_emitter_t *e) {
  int32_t size = e->plan->shape.size, ahead = 1;
  algo_run_t runs[2];
  int count = algo_wrap(e->rank + 1, size - 1, size, runs);
  for (int i = 0; i < count; i++) {
    plan_emit_copy(e, 0, plan_scratch(e, ahead, runs[i].count),
                   plan_input(e, runs[i].first, runs[i].count));
    ahead += runs[i].count;
  }
  for (int32_t distance = 1; distance < size; distance *= 2) {
    plan_span_t packed_blocks = plan_scratch(e, size, pack(e, distance, false));
    plan_emit_send(e, 0, algo_mod(e->rank + distance, size), packed_blocks);
    plan_emit_recv(e, 0, algo_mod(e->rank - distance, size), packed_blocks);
    pack(e, distance, true);
  }
  plan_emit_input_to_output(e, 0, e->rank, e->rank, 1);
  for (int32_t behind = 1; behind < size; behind++) {
    plan_emit_copy(e, 0, plan_output(e, algo_mod(e->rank - behind, size), 1),
                   plan_scratch(e, behind, 1));
  }
}

const algo_t algo_alltoall_bruck = {
    .name = "bruck",
    .collective = COLL_ALLTOALL,
    .paper =
        "Bruck, Ho, Kipnis, Upfal & Weathersby, Efficient algorithms for all-to-all "
        "communications in multiport message-passing systems, 1997",
    .outline = outline,
    .build = build,
};

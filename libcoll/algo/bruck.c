/*
 * The index algorithm of Bruck, Ho, Kipnis, Upfal & Weathersby 1997: alltoall in ceil(log2 p)
 * rounds for any rank count, for blocks so small that a round costs more than forwarding. A block
 * that has i ranks to go moves by the distances that are the bits of i: about (p/2) log2 p blocks
 * of volume. All of INPUT is copied to SCRATCH before OUTPUT is written, so it serves in place.
 *
 * SCRATCH holds p blocks by how far they had to go at the start, and then room to pack the blocks
 * of a message; what arrives lands where the message sent was.
 */
#include "algo/common.h"
#include "algo/list.h"

static void outline(plan_t *plan) {
  int32_t size = plan->shape.size;
  algo_outline_messages(plan, 1, size + size / 2, size / 2);
}

/* Copies the blocks with the bit `distance` in the number of ranks to go, which come in runs of
 * that length, into the packing room or back. Returns how many. */
static int32_t pack(plan_emitter_t *e, int32_t distance, bool back) {
  int32_t size = e->plan->shape.size, packed = 0;
  for (int32_t first = distance; first < size; first += 2 * distance) {
    int32_t count = size - first < distance ? size - first : distance;
    plan_span_t home = plan_scratch(e, first, count), room = plan_scratch(e, size + packed, count);
    plan_emit_copy(e, 0, back ? home : room, back ? room : home);
    packed += count;
  }
  return packed;
}

static void build(plan_emitter_t *e) {
  int32_t size = e->plan->shape.size, to_go = 1;
  algo_run_t runs[2];
  int count = algo_wrap(e->rank + 1, size - 1, size, runs);
  for (int i = 0; i < count; i++) {
    plan_emit_copy(e, 0, plan_scratch(e, to_go, runs[i].count),
                   plan_input(e, runs[i].first, runs[i].count));
    to_go += runs[i].count;
  }
  for (int32_t distance = 1; distance < size; distance *= 2) {
    plan_span_t room = plan_scratch(e, size, pack(e, distance, false));
    plan_emit_send(e, 0, algo_mod(e->rank + distance, size), room);
    plan_emit_recv(e, 0, algo_mod(e->rank - distance, size), room);
    pack(e, distance, true);
  }
  plan_emit_input_to_output(e, 0, e->rank, e->rank, 1);
  for (int32_t gone = 1; gone < size; gone++) {
    plan_emit_copy(e, 0, plan_output(e, algo_mod(e->rank - gone, size), 1),
                   plan_scratch(e, gone, 1));
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

/*
 * Circulant graphs: in every round each rank sends to the rank a fixed distance ahead and receives
 * from the one that distance behind. ceil(log2 p) rounds and (p-1)/p of the vector for
 * reduce-scatter, and the same for allgather, for any rank count: the least of both that there is.
 * A run of chunks that goes around the end travels as two messages.
 */
#include "algo/common.h"
#include "algo/list.h"

static const char traeff_2024[] =
    "Träff, Optimal, non-pipelined reduce-scatter and allreduce algorithms, 2024";

/* ---- shared phases ---------------------------------------------------------------------------*/

/* What has arrived for `run` into where it belongs; `held` is where this rank's own operand is. */
static void take_in(plan_emitter_t *e, const algo_circulant_t *where, plan_buffer_t held,
                    algo_run_t run, bool is_last) {
  plan_span_t sources[2] = {algo_own(e, held, run.first, run.count),
                            plan_scratch(e, where->arrived + run.first, run.count)};
  plan_span_t dst = is_last ? where->result : algo_own(e, where->partial, run.first, run.count);
  plan_emit_reduce(e, 0, dst, sources, 2);
}

/* The round that leaves `next` of `span` chunks to this rank's care: gives those from `next` up to
 * the rank that far ahead, takes in as many of its first ones. Sends and receives alternate, so
 * that one message per FIFO is room enough. */
static void reduce_round(plan_emitter_t *e, const algo_circulant_t *where, plan_buffer_t held,
                         int32_t span, int32_t next) {
  int32_t size = e->plan->shape.size, position = algo_tree_position(e);
  int32_t ahead = algo_tree_rank(e, position + next), behind = algo_tree_rank(e, position - next);
  algo_run_t give[2], take[2];
  int gives = algo_wrap(position + next, span - next, size, give);
  int takes = algo_wrap(position, span - next, size, take);
  for (int i = 0; i < 2; i++) {
    if (i < gives) plan_emit_send(e, 0, ahead, algo_own(e, held, give[i].first, give[i].count));
    if (i >= takes) continue;
    plan_emit_recv(e, 0, behind, plan_scratch(e, where->arrived + take[i].first, take[i].count));
    take_in(e, where, held, take[i], next == 1);
  }
}

/* Brings a chunk that nothing arrived for to where the partial results are. */
static void keep_untouched(plan_emitter_t *e, plan_buffer_t partial, int32_t chunk) {
  if (partial == PLAN_OUTPUT) {
    plan_emit_input_to_output(e, 0, chunk, chunk, 1);
  } else {
    plan_emit_copy(e, 0, algo_own(e, partial, chunk, 1), plan_input(e, chunk, 1));
  }
}

void algo_circulant_reduce_scatter(plan_emitter_t *e, const algo_circulant_t *where) {
  int32_t size = e->plan->shape.size, position = algo_tree_position(e);
  plan_buffer_t held = PLAN_INPUT;
  for (int32_t span = size, next; span > 1; span = next) {
    next = (span + 1) / 2;
    reduce_round(e, where, held, span, next);
    if (span == size && size % 2 == 1) {
      keep_untouched(e, where->partial, algo_mod(position + size / 2, size));
    }
    held = where->partial;
  }
}

/* This rank and those after it hold a run of OUTPUT chunks each, their own first: takes `count` of
 * them from the rank `distance` ahead, gives as many to the one behind. */
static void gather_round(plan_emitter_t *e, int32_t distance, int32_t count) {
  int32_t size = e->plan->shape.size;
  int32_t ahead = algo_mod(e->rank + distance, size), behind = algo_mod(e->rank - distance, size);
  algo_run_t give[2], take[2];
  int gives = algo_wrap(e->rank, count, size, give);
  int takes = algo_wrap(ahead, count, size, take);
  for (int i = 0; i < 2; i++) {
    if (i < gives) plan_emit_send(e, 0, behind, plan_output(e, give[i].first, give[i].count));
    if (i < takes) plan_emit_recv(e, 0, ahead, plan_output(e, take[i].first, take[i].count));
  }
}

/* ---- allreduce -------------------------------------------------------------------------------
 * Träff 2024: reduce-scatter by distances ceil(p/2), ceil(p/4), …, 1 and allgather by the same ones
 * backwards. 2 ceil(log2 p) rounds, volume 2n(p-1)/p. */

static void allreduce_outline(plan_t *plan) {
  int32_t size = plan->shape.size;
  algo_outline_messages(plan, size, size, size / 2);
}

/* Undoes the reduce-scatter's rounds from the last (two chunks, one left) to the first. */
static void allgather_back(plan_emitter_t *e, int32_t span) {
  if (span == 1) return;
  int32_t next = (span + 1) / 2;
  allgather_back(e, next);
  gather_round(e, next, span - next);
}

static void allreduce_build(plan_emitter_t *e) {
  algo_circulant_reduce_scatter(
      e, &(algo_circulant_t){.partial = PLAN_OUTPUT, .result = plan_output(e, e->rank, 1)});
  allgather_back(e, e->plan->shape.size);
}

const algo_t algo_allreduce_circulant = {
    .name = "circulant",
    .collective = COLL_ALLREDUCE,
    .paper = traeff_2024,
    .outline = allreduce_outline,
    .build = allreduce_build,
};

/* ---- reduce-scatter --------------------------------------------------------------------------
 * Träff 2024: ceil(log2 p) rounds, p - 1 blocks. Partial results and arrivals each have a place per
 * block in SCRATCH. */

static void reduce_scatter_outline(plan_t *plan) {
  int32_t size = plan->shape.size;
  algo_outline_messages(plan, 1, 2 * size, size / 2);
}

static void reduce_scatter_build(plan_emitter_t *e) {
  algo_circulant_reduce_scatter(e, &(algo_circulant_t){.partial = PLAN_SCRATCH,
                                                       .arrived = e->plan->shape.size,
                                                       .result = plan_output(e, 0, 1)});
}

const algo_t algo_reduce_scatter_circulant = {
    .name = "circulant",
    .collective = COLL_REDUCE_SCATTER,
    .paper = traeff_2024,
    .outline = reduce_scatter_outline,
    .build = reduce_scatter_build,
};

/* ---- allgather -------------------------------------------------------------------------------
 * The concatenation of Bruck, Ho, Kipnis, Upfal & Weathersby 1997: distances 1, 2, 4, …, the last
 * round carrying what is left. ceil(log2 p) rounds, p - 1 blocks. Blocks are received where they
 * belong, so nothing is rotated at the end. */

/* A rank gathers the blocks ahead of it as a binomial tree's root gathers its subtrees. */
static void allgather_outline(plan_t *plan) {
  algo_outline_messages(plan, 1, 0, algo_tree_widest(plan->shape.size));
}

static void allgather_build(plan_emitter_t *e) {
  int32_t size = e->plan->shape.size;
  plan_emit_input_to_output(e, 0, e->rank, 0, 1);
  for (int32_t distance = 1; distance < size; distance *= 2) {
    int32_t missing = size - distance;
    gather_round(e, distance, distance < missing ? distance : missing);
  }
}

const algo_t algo_allgather_circulant = {
    .name = "circulant",
    .collective = COLL_ALLGATHER,
    .paper =
        "Bruck, Ho, Kipnis, Upfal & Weathersby, Efficient algorithms for all-to-all "
        "communications in multiport message-passing systems, 1997",
    .outline = allgather_outline,
    .build = allgather_build,
};

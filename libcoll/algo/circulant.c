/*
 * Circulant graphs: in every round each rank sends to the rank a fixed distance ahead and receives
 * from the rank that distance behind. Reduce-scatter receives ceil(log2 p) rounds and (p-1)/p of
 * the vector for any rank count, and so does allgather: the lower bound of both. A run of chunks
 * that wraps around the end travels as two messages.
 */
#include "algo/common.h"
#include "algo/list.h"

static const char traeff_2024[] =
    "Träff, Optimal, non-pipelined reduce-scatter and allreduce algorithms, 2024";

/* ---- shared phases ---------------------------------------------------------------------------*/

/* Reduces the chunks of `run` that have arrived with this rank's own operand, which is in `held`.
 * Stores the result in `partial`, or in `result` in the last round. */
static void reduce_arrived(plan_emitter_t *e, const algo_circulant_t *where, plan_buffer_t held,
                           algo_run_t run, bool is_last) {
  plan_span_t sources[2] = {algo_own(e, held, run.first, run.count),
                            plan_scratch(e, where->arrived + run.first, run.count)};
  plan_span_t dst = is_last ? where->result : algo_own(e, where->partial, run.first, run.count);
  plan_emit_reduce(e, 0, dst, sources, 2);
}

/* One round: of the `span` chunks that this rank is responsible for, it keeps `next`. It sends the
 * others to the rank `next` ahead and receives as many of its first ones from the rank `next`
 * behind. Sends and receives alternate, so a FIFO depth of one message is enough. */
static void reduce_round(plan_emitter_t *e, const algo_circulant_t *where, plan_buffer_t held,
                         int32_t span, int32_t next) {
  int32_t size = e->plan->shape.size, position = algo_tree_position(e);
  int32_t ahead = algo_tree_rank(e, position + next), behind = algo_tree_rank(e, position - next);
  algo_run_t sent[2], received[2];
  int sends = algo_wrap(position + next, span - next, size, sent);
  int receives = algo_wrap(position, span - next, size, received);
  for (int i = 0; i < 2; i++) {
    if (i < sends) plan_emit_send(e, 0, ahead, algo_own(e, held, sent[i].first, sent[i].count));
    if (i >= receives) continue;
    plan_emit_recv(e, 0, behind,
                   plan_scratch(e, where->arrived + received[i].first, received[i].count));
    reduce_arrived(e, where, held, received[i], next == 1);
  }
}

/* Copies a chunk that no rank sent to where the partial results are. */
static void copy_unreduced(plan_emitter_t *e, plan_buffer_t partial, int32_t chunk) {
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
      copy_unreduced(e, where->partial, algo_mod(position + size / 2, size));
    }
    held = where->partial;
  }
}

/* Every rank holds a run of OUTPUT chunks that begins with its own chunk. Receives `count` chunks
 * from the rank `distance` ahead and sends as many to the rank `distance` behind. */
static void gather_round(plan_emitter_t *e, int32_t distance, int32_t count) {
  int32_t size = e->plan->shape.size;
  int32_t ahead = algo_mod(e->rank + distance, size), behind = algo_mod(e->rank - distance, size);
  algo_run_t sent[2], received[2];
  int sends = algo_wrap(e->rank, count, size, sent);
  int receives = algo_wrap(ahead, count, size, received);
  for (int i = 0; i < 2; i++) {
    if (i < sends) plan_emit_send(e, 0, behind, plan_output(e, sent[i].first, sent[i].count));
    if (i < receives)
      plan_emit_recv(e, 0, ahead, plan_output(e, received[i].first, received[i].count));
  }
}

/* ---- allreduce -------------------------------------------------------------------------------
 * Träff 2024: reduce-scatter by distances ceil(p/2), ceil(p/4), …, 1 and allgather by the same
 * distances in reverse. 2 ceil(log2 p) rounds, volume 2n(p-1)/p. */

static void allreduce_outline(plan_t *plan) {
  int32_t size = plan->shape.size;
  algo_outline_messages(plan, size, size, size / 2);
}

/* The reduce-scatter's rounds in reverse: from the last (two chunks, of which one was kept) to the
 * first. */
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
 * Träff 2024: ceil(log2 p) rounds, p - 1 blocks. SCRATCH has one chunk per block for partial
 * results and another for arrivals. */

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
 * The concatenation of Bruck, Ho, Kipnis, Upfal & Weathersby 1997: distances 1, 2, 4, …; the last
 * round carries the rest. ceil(log2 p) rounds, p - 1 blocks. Blocks are received at their final
 * place, so no rotation follows. */

/* The longest message is the same as in a binomial gather: the widest subtree. */
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

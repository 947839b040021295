/*
 * Lines: rank i exchanges messages with the ranks i - 1 and i + 1 only, and there is no link
 * between the last rank and the first: one dimension of a mesh. Data move in both directions at the
 * same time. Reductions combine the ranks on the left, this rank and the ranks on the right in this
 * order. Any rank count.
 */
#include "algo/common.h"
#include "algo/list.h"

static const char saad_1989[] =
    "Saad & Schultz, Data communication in parallel architectures, 1989 (linear arrays)";

/* ---- the phases ------------------------------------------------------------------------------*/

/* Where the reduce-scatter has its data: chunk b of OUTPUT and SCRATCH for block b of a vector, or
 * one chunk of SCRATCH per direction and this rank's own block in OUTPUT. */
typedef struct line {
  plan_emitter_t *e;
  int32_t rank, last;
  bool is_vector;
} line_t;

static line_t line_of(plan_emitter_t *e, bool is_vector) {
  return (line_t){e, e->rank, e->plan->shape.size - 1, is_vector};
}

static plan_span_t arrived(const line_t *line, int32_t block) {
  if (line->is_vector) return plan_scratch(line->e, block, 1);
  return plan_scratch(line->e, block < line->rank ? 1 : 0, 1);
}

static plan_span_t partial(const line_t *line, int32_t block) {
  if (line->is_vector) return plan_output(line->e, block, 1);
  return block == line->rank ? plan_output(line->e, 0, 1) : arrived(line, block);
}

/* Receives what the ranks on one side contribute to the block, and reduces it with `mine`. */
static void receive_partial(const line_t *line, bool from_left, int32_t block, plan_span_t mine) {
  plan_span_t theirs = arrived(line, block);
  plan_span_t sources[2] = {from_left ? theirs : mine, from_left ? mine : theirs};
  plan_emit_recv(line->e, 0, line->rank + (from_left ? -1 : 1), theirs);
  plan_emit_reduce(line->e, 0, partial(line, block), sources, 2);
}

/* p - 1 rounds. Contributions to the blocks on the right of a rank move to the right, those to the
 * farthest block first, and contributions to the blocks on its left to the left. Both for its own
 * block arrive in the last round. */
static void reduce_scatter(plan_emitter_t *e, bool is_vector) {
  const line_t line = line_of(e, is_vector);
  int32_t rank = line.rank, last = line.last;
  for (int32_t round = 0; round < last; round++) {
    int32_t right = last - (round - rank), left = round - (last - rank);
    if (right > rank && right <= last) {
      plan_emit_send(e, 0, rank + 1, rank == 0 ? plan_input(e, right, 1) : partial(&line, right));
    }
    if (left >= 0 && left < rank) {
      plan_emit_send(e, 0, rank - 1, rank == last ? plan_input(e, left, 1) : partial(&line, left));
    }
    int32_t from_left = right - 1, from_right = left + 1;
    if (rank > 0 && from_left <= last) {
      receive_partial(&line, true, from_left, plan_input(e, from_left, 1));
    }
    if (rank < last && from_right >= 0) {
      bool is_second = from_right == rank && rank > 0;
      receive_partial(&line, false, from_right,
                      is_second ? partial(&line, rank) : plan_input(e, from_right, 1));
    }
  }
}

/* p - 1 rounds: each rank sends its own block of OUTPUT in both directions, then what it has just
 * received on in the same direction. */
static void allgather(plan_emitter_t *e) {
  int32_t rank = e->rank, last = e->plan->shape.size - 1;
  for (int32_t round = 0; round < last; round++) {
    int32_t right = rank - round, left = rank + round;
    if (right >= 0 && rank < last) plan_emit_send(e, 0, rank + 1, plan_output(e, right, 1));
    if (left <= last && rank > 0) plan_emit_send(e, 0, rank - 1, plan_output(e, left, 1));
    if (right > 0) plan_emit_recv(e, 0, rank - 1, plan_output(e, right - 1, 1));
    if (left < last) plan_emit_recv(e, 0, rank + 1, plan_output(e, left + 1, 1));
  }
}

/* ---- allreduce -------------------------------------------------------------------------------
 * Reduce-scatter and allgather of the vector cut into p chunks: 2(p-1) rounds; every link carries
 * the vector once in each direction. */

static void allreduce_outline(plan_t *plan) {
  algo_outline_messages(plan, plan->shape.size, plan->shape.size, 1);
}

static void allreduce_build(plan_emitter_t *e) {
  reduce_scatter(e, true);
  allgather(e);
}

const algo_t algo_allreduce_line = {
    .name = "line",
    .collective = COLL_ALLREDUCE,
    .paper = saad_1989,
    .outline = allreduce_outline,
    .build = allreduce_build,
};

/* ---- reduce-scatter and allgather ------------------------------------------------------------
 * p - 1 rounds. In the reduce-scatter every rank sends p - 1 blocks; in the allgather the ranks at
 * the ends send one block and the others p + 1. Over each link p blocks, both directions added. */

static void reduce_scatter_outline(plan_t *plan) {
  algo_outline_messages(plan, 1, plan->shape.size > 2 ? 2 : 1, 1);
}

static void reduce_scatter_build(plan_emitter_t *e) {
  reduce_scatter(e, false);
}

const algo_t algo_reduce_scatter_line = {
    .name = "line",
    .collective = COLL_REDUCE_SCATTER,
    .paper = saad_1989,
    .outline = reduce_scatter_outline,
    .build = reduce_scatter_build,
};

static void allgather_outline(plan_t *plan) {
  algo_outline_messages(plan, 1, 0, 1);
}

static void allgather_build(plan_emitter_t *e) {
  plan_emit_input_to_output(e, 0, e->rank, 0, 1);
  allgather(e);
}

const algo_t algo_allgather_line = {
    .name = "line",
    .collective = COLL_ALLGATHER,
    .paper = saad_1989,
    .outline = allgather_outline,
    .build = allgather_build,
};

/* ---- broadcast and reduce --------------------------------------------------------------------
 * From the root to both ends, or back: as many rounds as the root is away from the farther end. As
 * in a chain, ranks work on different passes at the same time. */

static void broadcast_build(plan_emitter_t *e) {
  int32_t rank = e->rank, root = e->plan->shape.root, last = e->plan->shape.size - 1;
  plan_span_t held = rank == root ? plan_input(e, 0, 1) : plan_output(e, 0, 1);
  if (rank != root) plan_emit_recv(e, 0, rank < root ? rank + 1 : rank - 1, held);
  if (rank >= root && rank < last) plan_emit_send(e, 0, rank + 1, held);
  if (rank <= root && rank > 0) plan_emit_send(e, 0, rank - 1, held);
  if (rank == root) algo_copy_through(e);
}

const algo_t algo_broadcast_line = {
    .name = "line",
    .collective = COLL_BROADCAST,
    .paper = saad_1989,
    .outline = allgather_outline,
    .build = broadcast_build,
};

static void reduce_outline(plan_t *plan) {
  algo_outline_messages(plan, 1, 1, 1);
}

/* Receives the reduction of all ranks on one side and returns it reduced with `mine`. */
static plan_span_t add_side(plan_emitter_t *e, bool from_left, plan_span_t mine) {
  plan_span_t theirs = plan_scratch(e, 0, 1);
  plan_span_t sum = e->rank == e->plan->shape.root ? plan_output(e, 0, 1) : theirs;
  plan_span_t sources[2] = {from_left ? theirs : mine, from_left ? mine : theirs};
  plan_emit_recv(e, 0, e->rank + (from_left ? -1 : 1), theirs);
  plan_emit_reduce(e, 0, sum, sources, 2);
  return sum;
}

static void reduce_build(plan_emitter_t *e) {
  int32_t rank = e->rank, root = e->plan->shape.root, last = e->plan->shape.size - 1;
  plan_span_t held = plan_input(e, 0, 1);
  if (rank <= root && rank > 0) held = add_side(e, true, held);
  if (rank >= root && rank < last) held = add_side(e, false, held);
  if (rank != root) plan_emit_send(e, 0, rank < root ? rank + 1 : rank - 1, held);
}

const algo_t algo_reduce_line = {
    .name = "line",
    .collective = COLL_REDUCE,
    .paper = saad_1989,
    .outline = reduce_outline,
    .build = reduce_build,
};

/*
 * Reduction by a binary tree with the shape of the canonical expression (plan.h). Each of its p - 1
 * operations is done by a different rank, the last one by the root. So a rank sends at most two
 * vectors and does at most one reduction per pass: the throughput over many passes does not depend
 * on the number of ranks. One pass takes ceil(log2 p) rounds. Any rank count.
 */
#include "algo/common.h"
#include "algo/list.h"

/* The first rank of the right half. */
static int32_t cut_of(algo_run_t run) {
  return run.first + algo_power_below(run.count - 1);
}

static algo_run_t left_of(algo_run_t run) {
  return (algo_run_t){run.first, cut_of(run) - run.first};
}

static algo_run_t right_of(algo_run_t run) {
  int32_t cut = cut_of(run);
  return (algo_run_t){cut, run.first + run.count - cut};
}

/* The rank that does the operation whose operands are split at rank `cut`. It is rank `cut` itself,
 * with one exchange: the root does the last operation, which is split at `top`, and rank `top` does
 * the one split at the root. */
static int32_t performer(const plan_emitter_t *e, int32_t cut) {
  int32_t root = e->plan->shape.root, top = cut_of((algo_run_t){0, e->plan->shape.size});
  if (cut == top) return root;
  return cut == root ? top : cut;
}

/* The rank that has the result of the run. */
static int32_t owner(const plan_emitter_t *e, algo_run_t run) {
  return run.count == 1 ? run.first : performer(e, cut_of(run));
}

/* Finds the run that is split at `cut` or, if `alone`, the run of that one rank. *parent: the run
 * that it is a half of; count 0 where it is the whole. */
static algo_run_t find_run(const plan_emitter_t *e, int32_t cut, bool alone, algo_run_t *parent) {
  algo_run_t run = {0, e->plan->shape.size};
  *parent = (algo_run_t){0, 0};
  while (run.count > 1 && (alone || cut_of(run) != cut)) {
    *parent = run;
    run = cut < cut_of(run) ? left_of(run) : right_of(run);
  }
  return run;
}

/* Receives the result of one half into the next chunk of SCRATCH, unless it is this rank's own
 * operand. */
static void receive_half(plan_emitter_t *e, algo_run_t half, plan_span_t *operand,
                         int32_t *arrived) {
  int32_t from = owner(e, half);
  *operand = plan_input(e, 0, 1);
  if (from == e->rank) return;
  *operand = plan_scratch(e, (*arrived)++, 1);
  plan_emit_recv(e, 0, from, *operand);
}

/* Ranks send single operands before results, so single operands are received first. */
static void build(plan_emitter_t *e) {
  algo_run_t parent;
  find_run(e, e->rank, true, &parent);
  if (owner(e, parent) != e->rank) plan_emit_send(e, 0, owner(e, parent), plan_input(e, 0, 1));
  int32_t cut = performer(e, e->rank), arrived = 0; /* performer() is its own inverse */
  if (cut == 0) return;
  algo_run_t run = find_run(e, cut, false, &parent), left = left_of(run), right = right_of(run);
  plan_span_t sources[2];
  if (right.count == 1) receive_half(e, right, &sources[1], &arrived);
  receive_half(e, left, &sources[0], &arrived);
  if (right.count > 1) receive_half(e, right, &sources[1], &arrived);
  plan_span_t result = parent.count > 0 ? plan_scratch(e, arrived, 1) : plan_output(e, 0, 1);
  plan_emit_reduce(e, 0, result, sources, 2);
  if (parent.count > 0) plan_emit_send(e, 0, owner(e, parent), result);
}

/* SCRATCH for two received operands and a result; fewer where no rank other than the root needs all
 * three. */
static void outline(plan_t *plan) {
  int32_t size = plan->shape.size, chunks = 3;
  if (plan->shape.root == 0 && size <= 4) chunks = 2;
  algo_outline_messages(plan, 1, size == 2 ? 1 : chunks, 1);
}

const algo_t algo_reduce_inorder = {
    .name = "inorder",
    .collective = COLL_REDUCE,
    .paper =
        "Sanders, Speck & Träff, Two-tree algorithms for full bandwidth broadcast, reduction and "
        "scan, 2009",
    .order = PLAN_ORDER_CANONICAL,
    .outline = outline,
    .build = build,
};

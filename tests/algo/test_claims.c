/* Counts rounds and volumes and compares them with what the builders' comments and the papers
 * state. n is the whole vector, counted in the plan's parts. */
#include <criterion/criterion.h>

#include "plans.h"

enum { MOST = 64 };

/* Checks a claim for all sizes and the roots 0, 1 and size-1. */
typedef void claim_t(const plan_t *plan, int size);

static void each_size(coll_collective_t collective, const char *name, claim_t *claim) {
  for (int size = 1; size <= MOST; size++) {
    for (int root = -1; (root = test_next_root(collective, size, 1, root)) >= 0;) {
      plan_t *plan = test_plan_named(collective, name, size, root, TEST_APART);
      claim(plan, size);
      plan_free(plan);
    }
  }
}

static bool is_power(int size) {
  return (size & (size - 1)) == 0;
}

static int power_below(int size) {
  return 1 << (test_log2_up(size + 1) - 1);
}

/* The counts of every rank, or the sum over the ranks. */
static void expect_each(const plan_t *plan, int messages, int chunks) {
  for (int rank = 0; rank < plan->shape.size; rank++) {
    test_traffic_t t = test_traffic_rank(plan, rank);
    cr_assert(t.messages == messages && t.chunks == chunks,
              "%s of %d: rank %d sends %d chunks in %d messages, not %d in %d", plan->algorithm,
              plan->shape.size, rank, t.chunks, t.messages, chunks, messages);
  }
}

static void expect_total(const plan_t *plan, int messages, int chunks) {
  test_traffic_t t = test_traffic_all(plan);
  cr_assert(t.messages == messages && t.chunks == chunks,
            "%s of %d: %d chunks in %d messages, not %d in %d", plan->algorithm, plan->shape.size,
            t.chunks, t.messages, chunks, messages);
}

static void expect_max(const plan_t *plan, int chunks) {
  int sent = test_traffic_max(plan).chunks;
  cr_assert_leq(sent, chunks, "%s of %d: a rank sends %d chunks of at most %d", plan->algorithm,
                plan->shape.size, sent, chunks);
}

static void expect_rounds(const plan_t *plan, int rounds) {
  int counted = test_rounds(plan);
  cr_assert_eq(counted, rounds, "%s of %d: %d rounds, not %d", plan->algorithm, plan->shape.size,
               counted, rounds);
}

/* In circulant graphs a round is one peer; runs that wrap around the end take two messages. */
static void expect_peers(const plan_t *plan, int rounds) {
  for (int rank = 0; rank < plan->shape.size; rank++) {
    const plan_lane_t *lane = &plan->programs[rank].lanes[0];
    int changes = 0, last = -1;
    for (size_t i = 0; i < lane->count; i++) {
      if (lane->steps[i].kind != PLAN_SEND || lane->steps[i].send.peer == last) continue;
      last = lane->steps[i].send.peer;
      changes++;
    }
    cr_assert_eq(changes, rounds, "%s of %d: rank %d sends in %d rounds, not %d", plan->algorithm,
                 plan->shape.size, rank, changes, rounds);
  }
}

/* ---- allreduce -------------------------------------------------------------------------------*/

static void allreduce_ring(const plan_t *plan, int size) {
  cr_assert_eq(plan->parts, size);
  expect_each(plan, 2 * (size - 1), 2 * (size - 1));
  expect_rounds(plan, 2 * (size - 1));
}

static void allreduce_butterfly(const plan_t *plan, int size) {
  int log2 = test_log2_up(power_below(size));
  if (is_power(size)) expect_each(plan, log2, log2);
  expect_max(plan, log2 + (is_power(size) ? 0 : 1));
  expect_rounds(plan, log2 + (is_power(size) ? 0 : 2));
}

static void allreduce_allpairs(const plan_t *plan, int size) {
  expect_each(plan, size - 1, size - 1);
  expect_rounds(plan, size - 1); /* of one message each; none depends on another */
}

static void allreduce_halving_doubling(const plan_t *plan, int size) {
  int power = power_below(size), log2 = test_log2_up(power);
  cr_assert_eq(plan->parts, power);
  if (is_power(size)) expect_each(plan, 2 * log2, 2 * (size - 1));
  expect_max(plan, 2 * (power - 1) + (is_power(size) ? 0 : power));
  expect_rounds(plan, 2 * log2 + (is_power(size) ? 0 : 4));
}

static void allreduce_rabenseifner(const plan_t *plan, int size) {
  int power = power_below(size), log2 = test_log2_up(power);
  if (is_power(size)) {
    expect_each(plan, 2 * log2, 2 * (size - 1));
    expect_rounds(plan, 2 * log2);
  }
  expect_max(plan, 2 * power);
}

static void allreduce_tree(const plan_t *plan, int size) {
  expect_total(plan, 2 * (size - 1), 2 * (size - 1));
  expect_rounds(plan, 2 * test_log2_up(size));
}

static void allreduce_direct(const plan_t *plan, int size) {
  cr_assert_eq(plan->parts, size);
  expect_each(plan, 2 * (size - 1), 2 * (size - 1));
}

static void allreduce_circulant(const plan_t *plan, int size) {
  int chunks = test_traffic_max(plan).chunks;
  cr_assert_eq(plan->parts, size);
  cr_assert_eq(test_traffic_all(plan).chunks, size * chunks);
  cr_assert_eq(chunks, 2 * (size - 1));
  /* The last reducing and the first gathering round may share a peer, for two ranks only. */
  expect_peers(plan, size == 2 ? 1 : 2 * test_log2_up(size));
}

Test(claims, allreduce_by_messages) {
  each_size(COLL_ALLREDUCE, "ring", allreduce_ring);
  each_size(COLL_ALLREDUCE, "butterfly", allreduce_butterfly);
  each_size(COLL_ALLREDUCE, "allpairs", allreduce_allpairs);
  each_size(COLL_ALLREDUCE, "halving_doubling", allreduce_halving_doubling);
  each_size(COLL_ALLREDUCE, "rabenseifner", allreduce_rabenseifner);
  each_size(COLL_ALLREDUCE, "tree", allreduce_tree);
  each_size(COLL_ALLREDUCE, "circulant", allreduce_circulant);
  each_size(COLL_ALLREDUCE, "direct", allreduce_direct);
}

/* Loads from peers' memory, stores to it, and signals, of each rank. */
static void expect_memory(const plan_t *plan, int loads, int stores, int signals) {
  for (int rank = 0; rank < plan->shape.size; rank++) {
    test_traffic_t t = test_traffic_rank(plan, rank);
    cr_assert(t.remote_loads == loads && t.remote_stores == stores && t.signals == signals,
              "%s of %d: rank %d loads %d, stores %d, signals %d", plan->algorithm,
              plan->shape.size, rank, t.remote_loads, t.remote_stores, t.signals);
  }
}

static void one_shot(const plan_t *plan, int size) {
  expect_memory(plan, (size - 1) * plan->parts, 0, size - 1);
}

static void push(const plan_t *plan, int size) {
  expect_memory(plan, size - 1, size - 1, size - 1);
}

static void pull(const plan_t *plan, int size) {
  expect_memory(plan, 2 * (size - 1), 0, 2 * (size - 1));
}

static void staged(const plan_t *plan, int size) {
  expect_memory(plan, 2 * (size - 1), 0, 3 * (size - 1));
}

static void each_from_each(const plan_t *plan, int size) {
  expect_memory(plan, size - 1, 0, size - 1);
}

static void each_from_each_staged(const plan_t *plan, int size) {
  expect_memory(plan, size - 1, 0, 2 * (size - 1));
}

Test(claims, through_memory) {
  each_size(COLL_ALLREDUCE, "oneshot", one_shot);
  each_size(COLL_ALLREDUCE, "twophase_push", push);
  each_size(COLL_ALLREDUCE, "twophase_pull", pull);
  each_size(COLL_ALLREDUCE, "staged", staged);
  each_size(COLL_REDUCE_SCATTER, "mapped", each_from_each);
  each_size(COLL_REDUCE_SCATTER, "staged", each_from_each_staged);
  each_size(COLL_REDUCE_SCATTERV, "mapped", each_from_each);
  each_size(COLL_ALLGATHERV, "mapped", each_from_each);
  each_size(COLL_ALLGATHER, "mapped", each_from_each);
  each_size(COLL_ALLGATHER, "staged", each_from_each_staged);
  each_size(COLL_ALLTOALL, "mapped", each_from_each);
  each_size(COLL_ALLTOALL, "staged", each_from_each_staged);
}

/* Each of two ranks loads or stores one half of the vector for p - 1 others. Chunks are halves. */
static void by_two(const plan_t *plan, int size, int loads, int stores, int signals) {
  test_traffic_t t = test_traffic_all(plan);
  int workers = size > 1 ? 2 : 0, others = workers * (size - 1);
  cr_assert(t.remote_loads == loads * others && t.remote_stores == stores * others &&
                t.signals == signals * others,
            "%s of %d: loads %d, stores %d, signals %d", plan->algorithm, size, t.remote_loads,
            t.remote_stores, t.signals);
}

static void mapped_by_two(const plan_t *plan, int size) {
  by_two(plan, size, 1, 1, 1);
}

/* Operands and results are loaded. Ranks signal after staging, reducing and loading the result. */
static void staged_by_two(const plan_t *plan, int size) {
  by_two(plan, size, 2, 0, 3);
}

static void staged_by_two_push(const plan_t *plan, int size) {
  by_two(plan, size, 1, 1, 2);
}

Test(claims, through_memory_by_two) {
  each_size(COLL_ALLREDUCE, "mapped_by_two", mapped_by_two);
  each_size(COLL_ALLREDUCE, "staged_by_two", staged_by_two);
  each_size(COLL_ALLREDUCE, "staged_by_two_push", staged_by_two_push);
}

static void reduce_mapped(const plan_t *plan, int size) {
  test_traffic_t t = test_traffic_all(plan);
  cr_assert_eq(t.remote_loads, size * (size - 1));
  cr_assert_eq(t.remote_stores, size - 1);
  cr_assert_eq(t.signals, size * (size - 1));
}

static void reduce_staged(const plan_t *plan, int size) {
  test_traffic_t t = test_traffic_all(plan);
  cr_assert_eq(t.remote_loads, size * (size - 1) + size - 1);
  cr_assert_eq(t.signals, size * (size - 1) + 2 * (size - 1));
}

/* Each peer's block moves once, by the peer, with one signal. */
static void one_block_per_peer(const plan_t *plan, int size) {
  test_traffic_t t = test_traffic_all(plan);
  cr_assert_eq(t.remote_loads + t.remote_stores, size - 1);
  cr_assert_eq(t.signals, size - 1);
}

static void one_block_per_peer_staged(const plan_t *plan, int size) {
  test_traffic_t t = test_traffic_all(plan);
  cr_assert_eq(t.remote_loads + t.remote_stores, size - 1);
  cr_assert_eq(t.signals, 2 * (size - 1));
}

Test(claims, rooted_through_memory) {
  each_size(COLL_REDUCE, "mapped", reduce_mapped);
  each_size(COLL_REDUCE, "staged", reduce_staged);
  each_size(COLL_BROADCAST, "mapped", one_block_per_peer);
  each_size(COLL_GATHER, "mapped", one_block_per_peer);
  each_size(COLL_SCATTER, "mapped", one_block_per_peer);
  each_size(COLL_BROADCAST, "staged", one_block_per_peer_staged);
  each_size(COLL_GATHER, "staged", one_block_per_peer_staged);
  each_size(COLL_SCATTER, "staged", one_block_per_peer_staged);
}

/* ---- reduce-scatter and allgather ------------------------------------------------------------*/

static void half_ring(const plan_t *plan, int size) {
  expect_each(plan, size - 1, size - 1);
  expect_rounds(plan, size - 1);
}

static void halving_or_doubling(const plan_t *plan, int size) {
  if (!is_power(size)) return;
  expect_each(plan, test_log2_up(size), size - 1);
  expect_rounds(plan, test_log2_up(size));
}

static void half_circulant(const plan_t *plan, int size) {
  test_traffic_t most = test_traffic_max(plan);
  cr_assert_eq(most.chunks, size - 1);
  cr_assert_eq(test_traffic_all(plan).chunks, size * (size - 1));
  expect_peers(plan, test_log2_up(size));
}

Test(claims, reduce_scatter_and_allgather) {
  each_size(COLL_REDUCE_SCATTER, "ring", half_ring);
  each_size(COLL_REDUCE_SCATTER, "halving", halving_or_doubling);
  each_size(COLL_REDUCE_SCATTER, "circulant", half_circulant);
  each_size(COLL_REDUCE_SCATTERV, "ring", half_ring);
  each_size(COLL_REDUCE_SCATTERV, "halving", halving_or_doubling);
  each_size(COLL_ALLGATHERV, "ring", half_ring);
  each_size(COLL_ALLGATHERV, "doubling", halving_or_doubling);
  each_size(COLL_ALLGATHER, "ring", half_ring);
  each_size(COLL_ALLGATHER, "doubling", halving_or_doubling);
  each_size(COLL_ALLGATHER, "circulant", half_circulant);
}

/* ---- rooted ----------------------------------------------------------------------------------*/

static void binomial(const plan_t *plan, int size) {
  expect_total(plan, size - 1, size - 1);
  expect_rounds(plan, test_log2_up(size));
}

static void chain(const plan_t *plan, int size) {
  expect_total(plan, size - 1, size - 1);
  expect_max(plan, 1);
  expect_rounds(plan, size - 1);
}

static void reduce_linear(const plan_t *plan, int size) {
  expect_total(plan, size - 1, size - 1);
}

static void reduce_direct(const plan_t *plan, int size) {
  expect_total(plan, (size - 1) * (size + 1), (size - 1) * (size + 1));
  expect_max(plan, size > 1 ? size : 0);
}

/* At most one reduction and two messages per rank. */
static void inorder(const plan_t *plan, int size) {
  for (int rank = 0; rank < size; rank++) {
    const plan_lane_t *lane = &plan->programs[rank].lanes[0];
    int reductions = 0;
    for (size_t i = 0; i < lane->count; i++) reductions += lane->steps[i].kind == PLAN_REDUCE;
    cr_assert_leq(reductions, 1);
    cr_assert_leq(test_traffic_rank(plan, rank).messages, 2);
  }
}

static void scatter_allgather(const plan_t *plan, int size) {
  expect_max(plan, 2 * (size - 1));
  cr_assert_eq(plan->message_chunks, size > 1);
  expect_rounds(plan, 2 * (size - 1));
}

static void reduce_scatter_gather(const plan_t *plan, int size) {
  expect_max(plan, size - 1 + size / 2);
}

Test(claims, broadcast_and_reduce) {
  each_size(COLL_BROADCAST, "binomial", binomial);
  each_size(COLL_REDUCE, "binomial", binomial);
  each_size(COLL_BROADCAST, "chain", chain);
  each_size(COLL_REDUCE, "chain", chain);
  each_size(COLL_REDUCE, "linear", reduce_linear);
  each_size(COLL_REDUCE, "direct", reduce_direct);
  each_size(COLL_REDUCE, "inorder", inorder);
  each_size(COLL_BROADCAST, "scatter_allgather", scatter_allgather);
  each_size(COLL_REDUCE, "reduce_scatter_gather", reduce_scatter_gather);
}

static void subtrees(const plan_t *plan, int size) {
  if (is_power(size)) {
    cr_assert_eq(test_traffic_all(plan).chunks, size / 2 * test_log2_up(size));
  }
  if (plan->shape.root == 0) {
    cr_assert_eq(test_traffic_all(plan).messages, size - 1);
    expect_rounds(plan, test_log2_up(size));
  }
}

static void linear(const plan_t *plan, int size) {
  expect_total(plan, size - 1, size - 1);
  expect_rounds(plan, size - 1);
}

Test(claims, gather_and_scatter) {
  each_size(COLL_GATHER, "binomial", subtrees);
  each_size(COLL_SCATTER, "binomial", subtrees);
  each_size(COLL_GATHER, "linear", linear);
  each_size(COLL_SCATTER, "linear", linear);
  each_size(COLL_GATHERV, "linear", linear);
  each_size(COLL_SCATTERV, "linear", linear);
}

/* ---- the rest --------------------------------------------------------------------------------*/

static void pairwise(const plan_t *plan, int size) {
  expect_each(plan, size - 1, size - 1);
}

static void bruck(const plan_t *plan, int size) {
  int forwarded = 0;
  for (int to_go = 1; to_go < size; to_go++) {
    for (int rest = to_go; rest > 0; rest &= rest - 1) forwarded++;
  }
  expect_each(plan, test_log2_up(size), forwarded);
  expect_rounds(plan, test_log2_up(size));
}

static void dissemination(const plan_t *plan, int size) {
  for (int rank = 0; rank < size; rank++) {
    cr_assert_eq(test_traffic_rank(plan, rank).signals, test_log2_up(size));
  }
}

static void tournament(const plan_t *plan, int size) {
  cr_assert_eq(test_traffic_all(plan).signals, 2 * (size - 1));
}

static void everyone_signals(const plan_t *plan, int size) {
  for (int rank = 0; rank < size; rank++) {
    cr_assert_eq(test_traffic_rank(plan, rank).signals, size - 1);
  }
}

static void direct(const plan_t *plan, int size) {
  expect_each(plan, size > 1, size > 1);
  expect_rounds(plan, size > 1);
}

Test(claims, exchanges_and_barriers) {
  each_size(COLL_ALLTOALL, "pairwise", pairwise);
  each_size(COLL_ALLTOALLV, "pairwise", pairwise);
  each_size(COLL_ALLTOALL, "bruck", bruck);
  each_size(COLL_BARRIER, "dissemination", dissemination);
  each_size(COLL_BARRIER, "tournament", tournament);
  each_size(COLL_BARRIER, "allpairs", everyone_signals);
  each_size(COLL_SENDRECV, "direct", direct);
}

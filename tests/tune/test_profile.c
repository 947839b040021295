/* Profiles: small plans counted by hand, and invariants of all plans. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "base/names.h"
#include "tune/profile.h"

static tune_profile_t profile_of(coll_collective_t collective, const char *name, int size) {
  const algo_t *algo;
  tune_profile_t profile;
  cr_assert_eq(algo_find(collective, name, &algo), COLL_OK, "%s", base_last_error());
  cr_assert_eq(tune_profile_make(algo, size, NULL, &plan_host_capabilities, &profile), COLL_OK,
               "%s", base_last_error());
  return profile;
}

static void expect(const tune_counts_t *found, tune_counts_t wanted) {
  cr_expect_eq(found->hops, wanted.hops, "%ld hops, not %ld", found->hops, wanted.hops);
  cr_expect_eq(found->messages, wanted.messages, "%ld messages", found->messages);
  cr_expect_eq(found->flags, wanted.flags, "%ld flags", found->flags);
  cr_expect_eq(found->steps, wanted.steps, "%ld steps", found->steps);
  for (int move = 0; move < TUNE_MOVE_COUNT; move++) {
    cr_expect_eq(found->chunks[move], wanted.chunks[move], "%s: %ld chunks, not %ld",
                 tune_move_name((tune_move_t)move), found->chunks[move], wanted.chunks[move]);
  }
}

/* Both ranks send their vector, then reduce it, which is in the cache by then, with the received
 * one. */
Test(profile, of_a_butterfly) {
  tune_profile_t profile = profile_of(COLL_ALLREDUCE, "butterfly", 2);
  tune_counts_t chain = {.hops = 1,
                         .messages = 2,
                         .steps = 1,
                         .chunks = {[TUNE_LOAD] = 1,
                                    [TUNE_STORE] = 1,
                                    [TUNE_PUSH] = 1,
                                    [TUNE_PULL] = 1,
                                    [TUNE_NEAR] = 1,
                                    [TUNE_FOLD] = 1}};
  cr_expect_eq(profile.load.parts, 1);
  cr_expect_eq(profile.reach, PLAN_REACH_OWN);
  expect(&profile.once[TUNE_SMALL], chain);
  expect(&profile.once[TUNE_LARGE], chain);
}

/* The same between hosts: both ends of each message are distant, and so are its bytes. */
Test(profile, of_a_butterfly_between_hosts) {
  topo_layout_t *layout;
  const algo_t *algo;
  tune_profile_t profile;
  cr_assert_eq(topo_layout_parse("hosts:2x1", 2, &layout), COLL_OK);
  cr_assert_eq(algo_find(COLL_ALLREDUCE, "butterfly", &algo), COLL_OK);
  cr_assert_eq(tune_profile_make(algo, 2, layout, &plan_host_capabilities, &profile), COLL_OK);
  expect(&profile.once[TUNE_LARGE], (tune_counts_t){.hops = 1,
                                                    .messages = 2,
                                                    .distant = 2,
                                                    .steps = 1,
                                                    .chunks = {[TUNE_LOAD] = 1,
                                                               [TUNE_STORE] = 1,
                                                               [TUNE_PUSH] = 1,
                                                               [TUNE_PULL] = 1,
                                                               [TUNE_NEAR] = 1,
                                                               [TUNE_FOLD] = 1,
                                                               [TUNE_CROSS] = 2}});
  topo_layout_free(layout);
}

/* One pass over both operands stores both results: the copy to the peer costs only its store. */
Test(profile, of_a_reduction_to_two_destinations) {
  tune_profile_t profile = profile_of(COLL_ALLREDUCE, "twophase_push", 2);
  expect(&profile.once[TUNE_LARGE], (tune_counts_t){.hops = 1,
                                                    .flags = 2,
                                                    .steps = 1,
                                                    .chunks = {[TUNE_LOAD] = 1,
                                                               [TUNE_LOAD_FAR] = 1,
                                                               [TUNE_STORE] = 1,
                                                               [TUNE_ALONG] = 1,
                                                               [TUNE_FOLD] = 1}});
  cr_expect_eq(profile.load.parts, 2);
  cr_expect_eq(profile.reach, PLAN_REACH_USER);
}

/* A fused copy to two destinations that is not a reduction of several operands. */
Test(profile, of_a_copy_to_two_destinations) {
  tune_profile_t profile = profile_of(COLL_ALLGATHER, "mapped_push", 2);
  expect(&profile.once[TUNE_LARGE],
         (tune_counts_t){.hops = 1,
                         .flags = 2,
                         .steps = 1,
                         .chunks = {[TUNE_LOAD] = 1, [TUNE_STORE] = 1, [TUNE_STORE_FAR] = 1}});
}

/* In a sequence of calls a sender runs ahead; a rank that accesses a peer's buffer waits for it. */
Test(profile, of_two_calls_in_a_row) {
  tune_profile_t sent = profile_of(COLL_BROADCAST, "linear", 2);
  tune_profile_t mapped = profile_of(COLL_BROADCAST, "mapped", 2);
  cr_expect_eq(sent.once[TUNE_SMALL].hops, 1);
  cr_expect_eq(sent.twice[TUNE_SMALL].hops, 1);
  cr_expect_eq(mapped.once[TUNE_SMALL].hops, 1);
  cr_expect_eq(mapped.twice[TUNE_SMALL].hops, 3);
}

/* The exchange of addresses before the second call takes one hop, however many ranks there are. */
Test(profile, of_two_calls_with_an_exchange) {
  for (int size = 2; size <= TUNE_WHOLE; size++) {
    tune_profile_t mapped = profile_of(COLL_BROADCAST, "mapped", size);
    for (int regime = TUNE_SMALL; regime <= TUNE_LARGE; regime++) {
      cr_expect_eq(mapped.once[regime].hops, 1, "%d ranks", size);
      cr_expect_eq(mapped.twice[regime].hops, 3, "%d ranks: %ld", size, mapped.twice[regime].hops);
    }
  }
}

Test(profile, of_scratch_that_peers_load) {
  tune_profile_t profile = profile_of(COLL_BROADCAST, "staged", 2);
  /* The root stages; the other rank loads the staged data and releases the root. */
  expect(&profile.once[TUNE_LARGE],
         (tune_counts_t){
             .hops = 2,
             .flags = 4,
             .steps = 2,
             .chunks = {[TUNE_LOAD] = 1, [TUNE_STORE] = 1, [TUNE_PUSH] = 1, [TUNE_PULL] = 1}});
}

Test(profile, rounds_of_rings_and_trees) {
  for (int size = 2; size <= TUNE_WHOLE; size++) {
    tune_profile_t ring = profile_of(COLL_ALLREDUCE, "ring", size);
    cr_expect_eq(ring.once[TUNE_SMALL].hops, 2 * (size - 1), "a ring of %d", size);
    cr_expect_eq(ring.all.messages, 2 * 2 * size * (size - 1));
  }
  for (int depth = 1; 1 << depth <= TUNE_WHOLE; depth++) {
    tune_profile_t tree = profile_of(COLL_BROADCAST, "binomial", 1 << depth);
    for (int regime = 0; regime < TUNE_REGIME_COUNT; regime++) {
      cr_expect_eq(tree.once[regime].hops, depth, "a tree of depth %d", depth);
      cr_expect_eq(tree.once[regime].chunks[TUNE_PULL], depth, "a tree of depth %d", depth);
    }
  }
}

static int64_t moved(const tune_counts_t *counts) {
  int64_t sum = 0;
  for (int move = 0; move < TUNE_MOVE_COUNT; move++) sum += counts->chunks[move];
  return sum;
}

static void check_sums(const tune_profile_t *profile, const char *what) {
  for (int regime = 0; regime < TUNE_REGIME_COUNT; regime++) {
    const tune_counts_t *once = &profile->once[regime];
    cr_assert_leq(moved(once), moved(&profile->all), "%s: a chain moves more than all", what);
    cr_assert_leq(once->messages, profile->all.messages, "%s", what);
    cr_assert_leq(once->flags, profile->all.flags, "%s", what);
    cr_assert_leq(once->hops, once->messages + once->flags, "%s: hops without messages", what);
  }
  const tune_counts_t *once = &profile->once[TUNE_LARGE], *twice = &profile->twice[TUNE_LARGE];
  cr_assert_geq(moved(twice), moved(once), "%s: two passes move less than one", what);
  cr_assert_leq(moved(twice), 2 * moved(&profile->all), "%s: a chain moves more than all", what);
  bool has_messages = profile->all.messages > 0, has_flags = profile->all.flags > 0;
  cr_assert(profile->reach == PLAN_REACH_OWN ? !has_flags : !has_messages, "%s", what);
}

Test(profile, chains_do_not_exceed_totals) {
  const algo_t *algo;
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    for (int i = 0; (algo = algo_at((coll_collective_t)c, i)) != NULL; i++) {
      for (int size = 2; size <= TUNE_WHOLE; size++) {
        char what[64];
        tune_profile_t profile = profile_of(algo->collective, algo->name, size);
        snprintf(what, sizeof what, "%s %s among %d", base_collective_name(algo->collective),
                 algo->name, size);
        if (profile.verdict != TUNE_POSSIBLE) continue;
        check_sums(&profile, what);
        cr_assert(size > 2 || profile.once[TUNE_SMALL].hops > 0, "%s: no rank waits", what);
      }
    }
  }
}

/* Beyond the ranks that are all counted, totals keep growing. */
Test(profile, many_ranks_are_sampled) {
  const algo_t *algo;
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    for (int i = 0; (algo = algo_at((coll_collective_t)c, i)) != NULL; i++) {
      tune_profile_t whole = profile_of(algo->collective, algo->name, TUNE_WHOLE);
      tune_profile_t sample = profile_of(algo->collective, algo->name, 4 * TUNE_WHOLE);
      cr_assert_eq(sample.verdict, whole.verdict);
      if (whole.verdict != TUNE_POSSIBLE) continue;
      cr_assert_gt(sample.all.messages + sample.all.flags, whole.all.messages + whole.all.flags,
                   "%s %s", base_collective_name(algo->collective), algo->name);
      cr_assert_eq(sample.reach, whole.reach);
    }
  }
}

Test(profile, is_deterministic) {
  for (int size = 2; size <= 64; size *= 2) {
    tune_profile_t first = profile_of(COLL_ALLREDUCE, "rabenseifner", size);
    tune_profile_t second = profile_of(COLL_ALLREDUCE, "rabenseifner", size);
    cr_assert_arr_eq(&first.once, &second.once, sizeof first.once);
    cr_assert_arr_eq(&first.twice, &second.twice, sizeof first.twice);
    cr_assert_arr_eq(&first.all, &second.all, sizeof first.all);
  }
}

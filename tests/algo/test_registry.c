/* The table of algorithms, and properties of all plans of all builders. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/names.h"
#include "plans.h"

Test(registry, every_collective_has_algorithms_with_unique_names_and_papers) {
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    cr_assert_not_null(algo_at(c, 0), "%s", base_collective_name(c));
    for (int i = 0; algo_at(c, i) != NULL; i++) {
      const algo_t *algo = algo_at(c, i), *found = NULL;
      cr_assert_eq((int)algo->collective, c);
      cr_assert_lt(strlen(algo->name), PLAN_NAME_BYTES);
      cr_assert_gt(strlen(algo->paper), 0);
      cr_assert_eq(algo_find(c, algo->name, &found), COLL_OK);
      cr_assert_eq(found, algo, "%s twice in %s", algo->name, base_collective_name(c));
    }
  }
}

Test(registry, ends_with_null) {
  cr_assert_null(algo_at(COLL_SENDRECV, 1));
  cr_assert_null(algo_at(COLL_ALLREDUCE, 1000));
}

Test(registry, unknown_name_suggests_the_most_similar) {
  const algo_t *algo = NULL;
  cr_assert_eq(algo_find(COLL_ALLREDUCE, "rnig", &algo), COLL_ERROR_INVALID);
  cr_assert_null(algo);
  cr_assert_str_eq(base_last_error(), "allreduce has no algorithm 'rnig'; did you mean 'ring'?");
  cr_assert_eq(algo_find(COLL_GATHER, "ring", &algo), COLL_ERROR_INVALID);
  cr_assert_eq(algo_find(COLL_COLLECTIVE_COUNT, "ring", &algo), COLL_ERROR_INVALID);
}

Test(registry, invalid_shapes_are_rejected) {
  const algo_t *algo = algo_at(COLL_BROADCAST, 0);
  plan_t *plan = NULL;
  plan_shape_t shapes[] = {{COLL_BROADCAST, 0, 0},
                           {COLL_BROADCAST, PLAN_RANKS_MAX + 1, 0},
                           {COLL_BROADCAST, 4, 4},
                           {COLL_BROADCAST, 4, -1}};
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    cr_assert_eq(algo_build(algo, &shapes[i], ALGO_ALL_RANKS, false, &plan), COLL_ERROR_INVALID);
    cr_assert_null(plan);
  }
}

static bool headers_equal(const plan_t *a, const plan_t *b) {
  return a->parts == b->parts && a->scratch_chunks == b->scratch_chunks && a->lanes == b->lanes &&
         a->depth == b->depth && a->message_chunks == b->message_chunks && a->reach == b->reach;
}

static char text[1 << 16], other_text[1 << 16];

static void one_rank_equals_its_part_of_all(const algo_t *algo) {
  for (int size = 1; size <= 9; size++) {
    int root = algo_has_root(algo) ? size / 3 : 0;
    plan_t *all = test_plan_build(algo, size, root, TEST_IN_PLACE);
    for (int rank = 0; rank < size; rank++) {
      plan_t *one = NULL;
      cr_assert_eq(algo_build(algo, &all->shape, rank, true, &one), COLL_OK);
      cr_assert(headers_equal(all, one));
      for (int r = 0; r < size; r++) {
        cr_assert(r == rank || one->programs[r].lanes[0].count == 0);
      }
      cr_assert_str_eq(test_program_text(one, rank, text, sizeof text),
                       test_program_text(all, rank, other_text, sizeof other_text));
      plan_free(one);
    }
    plan_free(all);
  }
}

Test(builders, one_rank_equals_its_part_of_all) {
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++)
    test_each_algo(c, one_rank_equals_its_part_of_all);
}

/* plan.h: in_place changes only what a rank does to its own buffers. */
static void in_place_is_invisible(const algo_t *algo) {
  for (int size = 1; size <= 17; size++) {
    for (int root = -1; (root = test_next_lead(algo, size, 8, root)) >= 0;) {
      plan_t *apart = test_plan_build(algo, size, root, TEST_APART);
      plan_t *in_place = test_plan_build(algo, size, root, TEST_IN_PLACE);
      cr_assert(headers_equal(apart, in_place));
      for (int rank = 0; rank < size; rank++) {
        cr_assert_str_eq(test_program_seen(apart, rank, text, sizeof text),
                         test_program_seen(in_place, rank, other_text, sizeof other_text),
                         "%s/%s, rank %d of %d, root %d", base_collective_name(algo->collective),
                         algo->name, rank, size, root);
      }
      plan_free(apart);
      plan_free(in_place);
    }
  }
}

Test(builders, in_place_is_invisible_to_peers) {
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) test_each_algo(c, in_place_is_invisible);
}

/* Headers state exactly what the programs use; a single rank needs nothing. */
static void header_is_tight(const algo_t *algo) {
  for (int size = 1; size <= 33; size++) {
    plan_t *apart = test_plan_build(algo, size, 0, TEST_APART);
    plan_t *in_place = test_plan_build(algo, size, 0, TEST_IN_PLACE);
    test_traffic_t a = test_traffic_max(apart), b = test_traffic_max(in_place);
    int scratch = a.scratch > b.scratch ? a.scratch : b.scratch;
    const char *verb = base_collective_name(algo->collective);
    cr_assert_eq(apart->message_chunks, a.longest, "%s/%s of %d: %d stated, %d used", verb,
                 algo->name, size, apart->message_chunks, a.longest);
    cr_assert_eq(apart->scratch_chunks, scratch, "%s/%s of %d: %d stated, %d used", verb,
                 algo->name, size, apart->scratch_chunks, scratch);
    cr_assert_eq(apart->depth, a.messages > 0 ? 1 : 0);
    cr_assert(apart->reach != PLAN_REACH_OWN || a.signals == 0);
    plan_free(apart);
    plan_free(in_place);
  }
}

Test(builders, headers_state_what_programs_use) {
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) test_each_algo(c, header_is_tight);
}

Test(builders, the_largest_plans_are_built_rank_by_rank) {
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    for (int i = 0; algo_at(c, i) != NULL; i++) {
      plan_shape_t shape = {.collective = c, .size = PLAN_RANKS_MAX};
      plan_t *plan = NULL;
      coll_status_t status = algo_build(algo_at(c, i), &shape, PLAN_RANKS_MAX - 1, false, &plan);
      cr_assert_eq(status, COLL_OK, "%s", base_last_error());
      plan_free(plan);
    }
  }
}

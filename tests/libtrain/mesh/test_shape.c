/* All shapes of up to 64 ranks in all orders; what is derived; what is refused. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "libtrain/mesh/shape.h"

#define RANKS_MAX 64

/* ---- every rank is in one group of each kind ---- */

static const char *describe(const train_mesh_shape_t *shape) {
  static char text[128];
  snprintf(text, sizeof text, "tp %d cp %d dp %d pp %d ep %d etp %d, order %d %d %d %d",
           shape->size[0], shape->size[1], shape->size[2], shape->size[3],
           shape->size[TRAIN_MESH_EP], shape->etp, (int)shape->order[0], (int)shape->order[1],
           (int)shape->order[2], (int)shape->order[3]);
  return text;
}

/* Every place of a kind of group has a seat of its own, and all seats are taken. */
static void check_partition(const train_mesh_shape_t *shape, train_mesh_group_t group) {
  bool is_taken[RANKS_MAX][RANKS_MAX] = {{false}};
  int members = shape->size[group], groups = train_mesh_group_count(shape, group), taken = 0;
  for (int place = 0; place < shape->ranks; place++) {
    int number = train_mesh_group_of(shape, group, place);
    int coordinate = train_mesh_coordinate(shape, group, place);
    if (group == TRAIN_MESH_EMBEDDING && number == -1 && coordinate == -1) continue;
    cr_assert(number >= 0 && number < groups && coordinate >= 0 && coordinate < members,
              "%s: place %d is %d of group %d of %s", describe(shape), place, coordinate, number,
              train_mesh_group_name(group));
    cr_assert(!is_taken[number][coordinate], "%s: two places are %d of group %d of %s",
              describe(shape), coordinate, number, train_mesh_group_name(group));
    is_taken[number][coordinate] = true;
    taken++;
  }
  cr_assert_eq(taken, groups * members, "%s: %s", describe(shape), train_mesh_group_name(group));
}

static void check_coordinates(const train_mesh_shape_t *shape) {
  for (int place = 0; place < shape->ranks; place++) {
    int at[TRAIN_MESH_AXES];
    for (int axis = 0; axis < TRAIN_MESH_AXES; axis++) {
      at[axis] = train_mesh_coordinate(shape, (train_mesh_group_t)axis, place);
    }
    cr_assert_eq(train_mesh_place(shape, at), place, "%s", describe(shape));
  }
}

/* Two places are in one group of dense (expert) data exactly if they have the same parameters. */
static void check_meaning(const train_mesh_shape_t *shape) {
  for (int a = 0; a < shape->ranks; a++) {
    for (int b = 0; b < a; b++) {
      bool same_tp = train_mesh_coordinate(shape, TRAIN_MESH_TP, a) ==
                     train_mesh_coordinate(shape, TRAIN_MESH_TP, b);
      bool same_pp = train_mesh_coordinate(shape, TRAIN_MESH_PP, a) ==
                     train_mesh_coordinate(shape, TRAIN_MESH_PP, b);
      bool same_ep = train_mesh_coordinate(shape, TRAIN_MESH_EP, a) ==
                     train_mesh_coordinate(shape, TRAIN_MESH_EP, b);
      bool share = train_mesh_group_of(shape, TRAIN_MESH_DATA, a) ==
                   train_mesh_group_of(shape, TRAIN_MESH_DATA, b);
      bool share_experts = train_mesh_group_of(shape, TRAIN_MESH_EXPERT_DATA, a) ==
                           train_mesh_group_of(shape, TRAIN_MESH_EXPERT_DATA, b);
      cr_assert_eq(share, same_tp && same_pp, "%s: %d %d", describe(shape), a, b);
      cr_assert_eq(share_experts, same_pp && same_ep && (same_tp || shape->etp == 1), "%s: %d %d",
                   describe(shape), a, b);
    }
  }
}

static void check_shape(const train_mesh_options_t *options, int ranks, bool thorough) {
  train_mesh_shape_t shape;
  cr_assert_eq(train_mesh_shape_init(options, ranks, &shape), COLL_OK, "%s", base_last_error());
  for (int group = 0; group < TRAIN_MESH_GROUPS; group++) {
    check_partition(&shape, (train_mesh_group_t)group);
  }
  check_coordinates(&shape);
  if (thorough) check_meaning(&shape);
}

/* "tp-cp-dp-pp" and so on; ep at one of two places. Returns false after the last. */
static bool write_order(int index, char text[24]) {
  const char *left[TRAIN_MESH_AXES] = {"tp", "cp", "dp", "pp"};
  int rest = index / 2, below = 24; /* orders of the axes that are left */
  size_t used = 0;
  if (index >= 48) return false;
  if (index % 2 == 0) used += (size_t)snprintf(text, 24, "ep-");
  for (int count = TRAIN_MESH_AXES; count > 0; count--) {
    below /= count;
    int choice = rest / below;
    rest %= below;
    used += (size_t)snprintf(text + used, 24 - used, "%s%s", left[choice], count > 1 ? "-" : "");
    for (int j = choice; j + 1 < count; j++) left[j] = left[j + 1];
  }
  if (index % 2 == 1) snprintf(text + used, 24 - used, "-ep");
  return true;
}

static void check_sizes(int tp, int cp, int dp, int pp) {
  int ranks = tp * cp * dp * pp;
  char order[24];
  for (int ep = 1; ep <= dp * cp; ep++) {
    if (dp * cp % ep != 0) continue;
    for (int etp = 1; etp <= tp; etp += tp > 1 ? tp - 1 : 1) {
      for (int index = 0; write_order(index, order); index += ranks <= 16 ? 1 : 7) {
        const train_mesh_options_t options = {
            .size = {tp, cp, dp, pp}, .ep = ep, .etp = etp, .order = order};
        check_shape(&options, ranks, ranks <= 16 && index % 5 == 0);
      }
    }
  }
}

Test(mesh_shape, every_rank_is_in_one_group_of_each_kind) {
  for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
    for (int tp = 1; tp <= ranks; tp++) {
      for (int cp = 1; ranks % tp == 0 && cp <= ranks / tp; cp++) {
        for (int dp = 1; ranks / tp % cp == 0 && dp <= ranks / tp / cp; dp++) {
          if (ranks / tp / cp % dp == 0) check_sizes(tp, cp, dp, ranks / tp / cp / dp);
        }
      }
    }
  }
}

Test(mesh_shape, orders_are_all_different) {
  char orders[48][24];
  for (int i = 0; write_order(i, orders[i]); i++) {
    for (int j = 0; j < i; j++) cr_assert_str_neq(orders[i], orders[j], "%d %d", i, j);
  }
}

/* ---- the default order, as Megatron-LM's groups are ---- */

static void expect_members(const train_mesh_shape_t *shape, train_mesh_group_t group, int number,
                           const int *expected) {
  int places[RANKS_MAX];
  train_mesh_members(shape, group, number, places);
  for (int i = 0; i < shape->size[group]; i++) {
    cr_assert_eq(places[i], expected[i], "%s %d: member %d is %d", train_mesh_group_name(group),
                 number, i, places[i]);
  }
}

/* The example of Megatron-LM's initialize_model_parallel: 16 ranks, tp 2, pp 4. */
Test(mesh_shape, groups_are_those_of_megatron) {
  train_mesh_shape_t shape;
  const train_mesh_options_t options = {.size = {2, 0, 0, 4}};
  cr_assert_eq(train_mesh_shape_init(&options, 16, &shape), COLL_OK);
  cr_assert_eq(shape.size[TRAIN_MESH_DP], 2);
  expect_members(&shape, TRAIN_MESH_DP, 0, (int[]){0, 2});
  expect_members(&shape, TRAIN_MESH_DP, 1, (int[]){1, 3});
  expect_members(&shape, TRAIN_MESH_DP, 7, (int[]){13, 15});
  expect_members(&shape, TRAIN_MESH_TP, 0, (int[]){0, 1});
  expect_members(&shape, TRAIN_MESH_TP, 7, (int[]){14, 15});
  expect_members(&shape, TRAIN_MESH_PP, 0, (int[]){0, 4, 8, 12});
  expect_members(&shape, TRAIN_MESH_PP, 3, (int[]){3, 7, 11, 15});
  expect_members(&shape, TRAIN_MESH_EMBEDDING, 1, (int[]){1, 13});
}

Test(mesh_shape, experts_cut_data_and_context) {
  train_mesh_shape_t shape;
  train_mesh_options_t options = {.size = {2, 2, 4, 1}, .ep = 4};
  cr_assert_eq(train_mesh_shape_init(&options, 16, &shape), COLL_OK);
  expect_members(&shape, TRAIN_MESH_EP, 0, (int[]){0, 2, 4, 6});
  expect_members(&shape, TRAIN_MESH_EXPERT_DATA, 0, (int[]){0, 8});
  options.order = "tp-cp-dp-ep-pp";
  cr_assert_eq(train_mesh_shape_init(&options, 16, &shape), COLL_OK);
  expect_members(&shape, TRAIN_MESH_EP, 0, (int[]){0, 4, 8, 12});
  expect_members(&shape, TRAIN_MESH_EXPERT_DATA, 0, (int[]){0, 2});
  options.etp = 1;
  cr_assert_eq(train_mesh_shape_init(&options, 16, &shape), COLL_OK);
  expect_members(&shape, TRAIN_MESH_EXPERT_DATA, 0, (int[]){0, 2, 1, 3});
}

/* ---- derived sizes ---- */

static void expect_sizes(const int given[TRAIN_MESH_AXES], int ranks,
                         const int expected[TRAIN_MESH_AXES]) {
  train_mesh_shape_t shape;
  train_mesh_options_t options = {0};
  memcpy(options.size, given, sizeof options.size);
  cr_assert_eq(train_mesh_shape_init(&options, ranks, &shape), COLL_OK, "%s", base_last_error());
  for (int axis = 0; axis < TRAIN_MESH_AXES; axis++) {
    cr_assert_eq(shape.size[axis], expected[axis], "%s: %d, not %d",
                 train_mesh_group_name((train_mesh_group_t)axis), shape.size[axis], expected[axis]);
  }
}

Test(mesh_shape, missing_sizes_are_derived) {
  expect_sizes((int[]){0, 0, 0, 0}, 6, (int[]){1, 1, 6, 1});
  expect_sizes((int[]){2, 0, 0, 0}, 6, (int[]){2, 1, 3, 1});
  expect_sizes((int[]){2, 0, 0, 3}, 6, (int[]){2, 1, 1, 3});
  expect_sizes((int[]){2, 1, 1, 0}, 6, (int[]){2, 1, 1, 3});
  expect_sizes((int[]){0, 1, 2, 3}, 6, (int[]){1, 1, 2, 3});
  expect_sizes((int[]){2, 0, 3, 4}, 48, (int[]){2, 2, 3, 4});
  expect_sizes((int[]){4, 0, 1, 0}, 4, (int[]){4, 1, 1, 1});
}

/* ---- refusals ---- */

static void expect_refusal(const train_mesh_options_t *options, int ranks, const char *text) {
  train_mesh_shape_t shape;
  cr_assert_eq(train_mesh_shape_init(options, ranks, &shape), COLL_ERROR_INVALID, "%s", text);
  cr_assert(strstr(base_last_error(), text) != NULL, "'%s' is not in: %s", text, base_last_error());
}

Test(mesh_shape, wrong_products_are_refused_with_the_nearest_shape) {
  expect_refusal(&(train_mesh_options_t){.size = {3, 0, 0, 0}}, 8,
                 "--tp 3: the product 3 does not divide the job's 8 ranks; the nearest that fits "
                 "is --tp 4 --dp 2");
  expect_refusal(&(train_mesh_options_t){.size = {4, 0, 2, 2}}, 12,
                 "--tp 4 --dp 2 --pp 2: the product 16 is more than the job's 12 ranks");
  expect_refusal(&(train_mesh_options_t){.size = {2, 1, 1, 2}}, 8,
                 "the product 4 is less than the job's 8 ranks");
  expect_refusal(&(train_mesh_options_t){.size = {16, 0, 0, 0}}, 4,
                 "the product 16 is more than the job's 4 ranks; the nearest that fits is --tp 4");
  expect_refusal(&(train_mesh_options_t){.size = {60000, 60000, 60000, 60000}}, 4, "of over 65536");
  expect_refusal(&(train_mesh_options_t){.size = {-1, 0, 0, 0}}, 4, "--tp -1: give 1 to");
}

Test(mesh_shape, wrong_experts_are_refused) {
  expect_refusal(&(train_mesh_options_t){.size = {0, 2, 2, 2}, .ep = 3}, 8,
                 "--ep 3 does not divide dp x cp = 2 x 2; the nearest that does is --ep 4");
  expect_refusal(&(train_mesh_options_t){.ep = -2}, 8, "--ep -2");
  expect_refusal(&(train_mesh_options_t){.size = {4, 0, 0, 0}, .etp = 2}, 8,
                 "--etp 2: give 1 or 4, the ranks of tp; the nearest that fits is --etp 1");
  expect_refusal(&(train_mesh_options_t){.size = {4, 0, 0, 0}, .etp = 3}, 8,
                 "the nearest that fits is --etp 4");
  expect_refusal(&(train_mesh_options_t){.size = {2, 0, 0, 0}, .etp = -1}, 8,
                 "the nearest that fits is --etp 1");
}

Test(mesh_shape, wrong_orders_are_refused) {
  expect_refusal(&(train_mesh_options_t){.order = "tp-cp-xp-pp"}, 4, "'xp' is no axis");
  expect_refusal(&(train_mesh_options_t){.order = "tp-cp-data-pp"}, 4, "'data' is no axis");
  expect_refusal(&(train_mesh_options_t){.order = "tp--dp"}, 4, "'' is no axis");
  expect_refusal(&(train_mesh_options_t){.order = "tp-dp-tp"}, 4, "it has tp twice");
  expect_refusal(&(train_mesh_options_t){.order = "tp-pp-cp"}, 4, "lacks dp, which has 4 ranks");
  expect_refusal(&(train_mesh_options_t){.order = "ep-ep"}, 4, "it has ep twice");
  expect_refusal(&(train_mesh_options_t){.order = "a-very-long-word-that-is-no-axis"}, 4, "'a'");
}

Test(mesh_shape, axes_of_one_rank_may_be_left_out_of_the_order) {
  train_mesh_shape_t shape;
  cr_assert_eq(train_mesh_shape_init(
                   &(train_mesh_options_t){.size = {2, 0, 0, 0}, .order = "dp-tp"}, 8, &shape),
               COLL_OK);
  cr_assert_eq(shape.stride[TRAIN_MESH_TP], 4);
  cr_assert_eq(shape.stride[TRAIN_MESH_DP], 1);
}

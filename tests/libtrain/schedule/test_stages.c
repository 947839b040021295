/* Partitions into stages against all possible ones. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "libtrain/schedule/stages.h"

enum { MAX_LAYERS = 8 };

/* The best time of the layers from `first` on over `ranks` ranks, straight from the definition. */
static double best_from(const train_stage_profile_t *profile, int first, int ranks,
                        int max_replicas) {
  double best = INFINITY, compute = 0, weights = 0;
  if (first == profile->layers) return ranks == 0 ? 0 : INFINITY;
  for (int end = first + 1; end <= profile->layers; end++) {
    compute += profile->times[end - 1];
    weights += profile->weights[end - 1];
    for (int replicas = 1; replicas <= ranks && replicas <= max_replicas; replicas++) {
      double time = fmax(compute, 2.0 * (replicas - 1) / replicas * weights) / replicas;
      double transfer = end < profile->layers ? profile->transfers[end - 1] : 0;
      double rest = best_from(profile, end, ranks - replicas, max_replicas);
      best = fmin(best, fmax(fmax(time, transfer), rest));
    }
  }
  return best;
}

static double next_number(unsigned *state) {
  *state = *state * 1664525u + 1013904223u;
  return (double)(*state >> 16) / 65536;
}

/* All layers and ranks are used, and the slowest stage is as reported. */
static void check_cuts(const train_stage_profile_t *profile, int ranks,
                       const train_stage_cut_t cuts[], int count, double slowest) {
  int layer = 0, used = 0;
  double time = 0;
  for (int i = 0; i < count; i++) {
    cr_assert_eq(cuts[i].first, layer);
    cr_assert_geq(cuts[i].layers, 1);
    if (i > 0) time = fmax(time, profile->transfers[layer - 1]);
    time = fmax(time, cuts[i].time);
    layer += cuts[i].layers;
    used += cuts[i].replicas;
  }
  cr_assert_eq(layer, profile->layers);
  cr_assert_eq(used, ranks);
  cr_assert_float_eq(time, slowest, 1e-12);
}

Test(stages, are_the_best_of_all) {
  unsigned state = 1;
  double times[MAX_LAYERS], transfers[MAX_LAYERS], weights[MAX_LAYERS], slowest;
  train_stage_cut_t cuts[MAX_LAYERS];
  int count;
  for (int round = 0; round < 200; round++) {
    const train_stage_profile_t profile = {1 + round % MAX_LAYERS, times, transfers, weights};
    for (int i = 0; i < MAX_LAYERS; i++) {
      times[i] = next_number(&state);
      transfers[i] = round % 3 > 0 ? next_number(&state) / 2 : 0;
      weights[i] = round % 2 > 0 ? next_number(&state) : 0;
    }
    for (int max_replicas = 1; max_replicas <= 4; max_replicas++) {
      for (int ranks = 1; ranks <= 6 && ranks <= profile.layers * max_replicas; ranks++) {
        cr_assert_eq(train_stages_cut(&profile, ranks, max_replicas, cuts, &count, &slowest),
                     COLL_OK, "%s", base_last_error());
        cr_assert_float_eq(slowest, best_from(&profile, 0, ranks, max_replicas), 1e-12);
        check_cuts(&profile, ranks, cuts, count, slowest);
      }
    }
  }
}

/* 4, 3, 3, 3 and not 4, 4, 4, 1, which is as fast. */
Test(stages, are_even_where_that_costs_nothing) {
  double times[13];
  train_stage_cut_t cuts[4];
  int count, most = 0, least = 13;
  for (int i = 0; i < 13; i++) times[i] = 1;
  const train_stage_profile_t profile = {.layers = 13, .times = times};
  cr_assert_eq(train_stages_cut(&profile, 4, 1, cuts, &count, NULL), COLL_OK);
  cr_assert_eq(count, 4);
  for (int i = 0; i < 4; i++) {
    most = cuts[i].layers > most ? cuts[i].layers : most;
    least = cuts[i].layers < least ? cuts[i].layers : least;
  }
  cr_assert(most == 4 && least == 3);
}

/* A head as dear as three blocks gets a stage with fewer of them. */
Test(stages, count_embedding_and_head) {
  const double times[] = {0.5, 1, 1, 1, 1, 1, 1, 1, 1, 3};
  const train_stage_profile_t profile = {.layers = 10, .times = times};
  train_stage_cut_t cuts[3];
  int count;
  double slowest;
  cr_assert_eq(train_stages_cut(&profile, 3, 1, cuts, &count, &slowest), COLL_OK);
  cr_assert_float_eq(slowest, 4, 1e-12);
  cr_assert_eq(cuts[2].layers, 2);
}

/* PipeDream's point: a slow stage gets more replicas. */
Test(stages, may_have_unequal_replicas) {
  const double times[] = {3, 1};
  const train_stage_profile_t profile = {.layers = 2, .times = times};
  const double transfers[] = {0.2}, weights[] = {0.1, 50};
  const train_stage_profile_t dear = {2, times, transfers, weights};
  train_stage_cut_t cuts[2];
  int count;
  double slowest;
  cr_assert_eq(train_stages_cut(&dear, 4, 4, cuts, &count, &slowest), COLL_OK);
  cr_assert(count == 2 && cuts[0].replicas == 3 && cuts[1].replicas == 1);
  cr_assert_float_eq(slowest, 1, 1e-12);
  cr_assert_eq(train_stages_cut(&profile, 4, 4, cuts, &count, &slowest), COLL_OK);
  cr_assert_float_eq(slowest, 1, 1e-12);
}

/* Embedding and head are not counted as blocks, and may be alone. */
Test(stages, of_blocks) {
  double costs[14] = {0.5};
  int counts[14];
  char text[TRAIN_STAGES_TEXT_BYTES];
  for (int i = 1; i <= 12; i++) costs[i] = 1;
  costs[13] = 3;
  cr_assert_eq(train_stages_blocks(costs, 12, 3, counts), COLL_OK);
  cr_assert_str_eq(train_stages_text(counts, 3, text), "2*5,2");
  costs[13] = 12;
  cr_assert_eq(train_stages_blocks(costs, 12, 2, counts), COLL_OK);
  cr_assert_str_eq(train_stages_text(counts, 2, text), "12,0");
  costs[0] = 12;
  cr_assert_eq(train_stages_blocks(costs, 12, 3, counts), COLL_OK);
  cr_assert_str_eq(train_stages_text(counts, 3, text), "0,12,0");
  cr_assert_eq(train_stages_blocks(costs, 12, 14, counts), COLL_OK);
  cr_assert_str_eq(train_stages_text(counts, 14, text), "0,12*1,0");
  cr_assert_eq(train_stages_blocks(costs, 12, 1, counts), COLL_OK);
  cr_assert_eq(counts[0], 12);
  cr_assert_eq(train_stages_blocks(costs, 12, 15, counts), COLL_ERROR_INVALID);
}

Test(stages, that_cannot_be_are_refused) {
  const double times[] = {1, 1};
  const train_stage_profile_t profile = {.layers = 2, .times = times};
  train_stage_cut_t cuts[4];
  int count;
  cr_assert_eq(train_stages_cut(&profile, 3, 1, cuts, &count, NULL), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "not enough for 3 ranks") != NULL);
  cr_assert_eq(train_stages_cut(&profile, 0, 1, cuts, &count, NULL), COLL_ERROR_INVALID);
}

/*
 * Two dynamic programmes over (layers, ranks): the first one finds the time of the slowest stage,
 * the second one the most even partition among those that are not slower.
 */
#include "libtrain/schedule/stages.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

/* The best partition of the first layers over a number of ranks. */
typedef struct state {
  double value;
  int layers, replicas; /* of its last stage */
} state_t;

typedef struct partition {
  const train_stage_profile_t *profile;
  int ranks, max_replicas;
  double *times, *weights; /* [layers + 1]: sums over the layers before */
  state_t *states;         /* [(layers + 1) * (ranks + 1)] */
} partition_t;

static state_t *state_at(const partition_t *partition, int layers, int ranks) {
  return &partition->states[(size_t)layers * (size_t)(partition->ranks + 1) + (size_t)ranks];
}

static double stage_time(const partition_t *partition, int first, int end, int replicas) {
  double compute = partition->times[end] - partition->times[first];
  double weights = partition->weights[end] - partition->weights[first];
  double allreduce = 2.0 * (replicas - 1) / replicas * weights;
  return fmax(compute, allreduce) / replicas;
}

static double transfer_before(const partition_t *partition, int layer) {
  const double *transfers = partition->profile->transfers;
  return transfers != NULL && layer > 0 ? transfers[layer - 1] : 0;
}

/* The value of a partition whose last stage is given. limit INFINITY: its slowest stage or
 * transfer. Otherwise its sum of squares, or INFINITY if the stage is slower than the limit. */
static double value_of(const partition_t *partition, double before, int first, int end,
                       int replicas, double limit) {
  double time = stage_time(partition, first, end, replicas);
  double slowest = fmax(time, transfer_before(partition, first));
  if (isinf(limit)) return fmax(before, slowest);
  return slowest <= limit ? before + time * time : INFINITY;
}

static void improve(const partition_t *partition, int end, int ranks, double limit) {
  state_t *state = state_at(partition, end, ranks);
  state->value = INFINITY;
  for (int replicas = 1; replicas <= ranks && replicas <= partition->max_replicas; replicas++) {
    for (int first = 0; first < end; first++) {
      double before = state_at(partition, first, ranks - replicas)->value;
      if (isinf(before)) continue;
      double value = value_of(partition, before, first, end, replicas, limit);
      if (value >= state->value) continue;
      *state = (state_t){value, end - first, replicas};
    }
  }
}

/* The value of the best partition of all layers. */
static double search(const partition_t *partition, double limit) {
  int layers = partition->profile->layers;
  for (int end = 0; end <= layers; end++) {
    for (int ranks = 0; ranks <= partition->ranks; ranks++) {
      if (end > 0 && ranks > 0) {
        improve(partition, end, ranks, limit);
      } else {
        state_at(partition, end, ranks)->value = end == 0 && ranks == 0 ? 0 : INFINITY;
      }
    }
  }
  return state_at(partition, layers, partition->ranks)->value;
}

static void list_cuts(const partition_t *partition, train_stage_cut_t cuts[], int *count) {
  int end = partition->profile->layers, ranks = partition->ranks, at;
  *count = 0;
  for (int layers = end, left = ranks; layers > 0; ++*count) {
    const state_t *state = state_at(partition, layers, left);
    layers -= state->layers;
    left -= state->replicas;
  }
  for (at = *count - 1; at >= 0; at--) {
    const state_t *state = state_at(partition, end, ranks);
    int first = end - state->layers;
    cuts[at] = (train_stage_cut_t){first, state->layers, state->replicas,
                                   stage_time(partition, first, end, state->replicas)};
    end = first;
    ranks -= state->replicas;
  }
}

static coll_status_t allocate(partition_t *partition) {
  static const char what[] = "a partition into stages";
  const train_stage_profile_t *profile = partition->profile;
  size_t ends = (size_t)profile->layers + 1;
  COLL_TRY(base_alloc(ends, sizeof(double), what, (void **)&partition->times));
  COLL_TRY(base_alloc(ends, sizeof(double), what, (void **)&partition->weights));
  COLL_TRY(base_alloc(ends * (size_t)(partition->ranks + 1), sizeof(state_t), what,
                      (void **)&partition->states));
  for (int i = 0; i < profile->layers; i++) {
    double weight = profile->weights != NULL ? profile->weights[i] : 0;
    partition->times[i + 1] = partition->times[i] + profile->times[i];
    partition->weights[i + 1] = partition->weights[i] + weight;
  }
  return COLL_OK;
}

static coll_status_t check_request(const train_stage_profile_t *profile, int ranks,
                                   int max_replicas) {
  if (profile->layers < 1 || ranks < 1 || max_replicas < 1) {
    return base_fail(COLL_ERROR_INVALID,
                     "%d layers cannot be cut over %d ranks with up to %d per stage: each must be "
                     "at least 1",
                     profile->layers, ranks, max_replicas);
  }
  if ((int64_t)profile->layers * max_replicas >= ranks) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "%d layers (with embedding and head) make at most %d stages of up to %d ranks, "
                   "not enough for %d ranks; use fewer ranks or more layers",
                   profile->layers, profile->layers, max_replicas, ranks);
}

coll_status_t train_stages_cut(const train_stage_profile_t *profile, int ranks, int max_replicas,
                               train_stage_cut_t cuts[], int *count, double *slowest) {
  COLL_TRY(check_request(profile, ranks, max_replicas));
  partition_t partition = {.profile = profile, .ranks = ranks, .max_replicas = max_replicas};
  coll_status_t status = allocate(&partition);
  if (status == COLL_OK) {
    double limit = search(&partition, INFINITY);
    search(&partition, limit);
    list_cuts(&partition, cuts, count);
    if (slowest != NULL) *slowest = limit;
  }
  free(partition.times);
  free(partition.weights);
  free(partition.states);
  return status;
}

coll_status_t train_stages_blocks(const double costs[], int blocks, int stages, int counts[]) {
  const train_stage_profile_t profile = {.layers = blocks + 2, .times = costs};
  void *memory;
  int count;
  COLL_TRY(base_alloc((size_t)profile.layers, sizeof(train_stage_cut_t), "stages", &memory));
  train_stage_cut_t *cuts = memory;
  coll_status_t status = train_stages_cut(&profile, stages, 1, cuts, &count, NULL);
  for (int i = 0; i < stages && status == COLL_OK; i++) {
    counts[i] = cuts[i].layers - (i == 0) - (i == stages - 1);
  }
  free(memory);
  return status;
}

const char *train_stages_text(const int counts[], int stages, char text[TRAIN_STAGES_TEXT_BYTES]) {
  size_t used = 0;
  text[0] = '\0';
  for (int i = 0, alike; i < stages && used < TRAIN_STAGES_TEXT_BYTES; i += alike) {
    for (alike = 1; i + alike < stages && counts[i + alike] == counts[i];) alike++;
    const char *comma = i > 0 ? "," : "";
    char *at = text + used;
    size_t room = TRAIN_STAGES_TEXT_BYTES - used;
    used += (size_t)(alike > 1 ? snprintf(at, room, "%s%d*%d", comma, alike, counts[i])
                               : snprintf(at, room, "%s%d", comma, counts[i]));
  }
  return text;
}

/* The dynamic programme of libtrain/schedule/stages.h, beside a single stage and a pipeline of
 * single ranks. */
#include "tools/gpt/schedule_replicas.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "libtrain/schedule/stages.h"
#include "tools/gpt/lists.h"

#define RANKS_MAX 1024
#define WORK_MAX 4e9 /* steps of the dynamic programme: some ten seconds */

void gpt_replicas_options(gpt_replicas_t *replicas, base_option_t options[GPT_REPLICAS_OPTIONS]) {
  const base_option_t all[GPT_REPLICAS_OPTIONS] = {
      {0, "ranks", BASE_OPTION_INTEGER, &replicas->ranks, "N",
       "cut --layer-costs over so many ranks instead, stages having unequal replicas", 0,
       RANKS_MAX},
      {0, "max-replicas", BASE_OPTION_INTEGER, &replicas->max_replicas, "N",
       "of a stage, with --ranks; 0: no limit", 0, RANKS_MAX},
      {0, "layer-weights", BASE_OPTION_TEXT, &replicas->weights_text, "LIST",
       "with --ranks: times to send the gradient of each layer's weights once; default 0"},
      {0, "transfers", BASE_OPTION_TEXT, &replicas->transfers_text, "LIST",
       "with --ranks: times to send activations from each layer to the next, and the gradient "
       "back; default 0"}};
  memcpy(options, all, sizeof all);
}

coll_status_t gpt_replicas_check_absent(const gpt_replicas_t *replicas) {
  const char *given = replicas->weights_text != NULL     ? "--layer-weights"
                      : replicas->transfers_text != NULL ? "--transfers"
                      : replicas->max_replicas > 0       ? "--max-replicas"
                                                         : NULL;
  if (given == NULL) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "%s is of stages that have replicas: give --ranks N, or leave it out", given);
}

/* `count` times; NULL text: none. The caller frees *values. */
static coll_status_t read_times(const char *name, const char *text, int count, double **values) {
  *values = NULL;
  if (text == NULL) return COLL_OK;
  COLL_TRY(base_alloc(GPT_LIST_MAX, sizeof(double), "times", (void **)values));
  int given = gpt_list_numbers(text, *values);
  if (given == count) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "%s %s: give %d times of at least 0, such as %d*0.1", name,
                   text, count, count);
}

static coll_status_t check_work(const gpt_replicas_t *replicas, int layers, int max_replicas) {
  double ranks = (double)replicas->ranks, work = (double)layers * layers / 2 * ranks;
  if (work * max_replicas <= WORK_MAX) return COLL_OK;
  double fits = floor(WORK_MAX / work);
  return base_fail(COLL_ERROR_INVALID,
                   "all partitions of %d layers over %d ranks with up to %d replicas are too many: "
                   "give --max-replicas %.0f, or fewer ranks",
                   layers, (int)replicas->ranks, max_replicas, fmax(fits, 1));
}

static void print_stages(const train_stage_cut_t cuts[], int count) {
  printf("%5s  %-12s %8s  %s\n", "stage", "layers", "replicas", "time");
  for (int i = 0; i < count; i++) {
    const train_stage_cut_t *cut = &cuts[i];
    char layers[32];
    snprintf(layers, sizeof layers, cut->layers > 1 ? "%d to %d" : "%d", cut->first,
             cut->first + cut->layers - 1);
    printf("%5d  %-12s %8d  %g\n", i, layers, cut->replicas, cut->time);
  }
}

/* A stage with all layers on all ranks. */
static double one_stage_time(const train_stage_profile_t *profile, int ranks) {
  double compute = 0, weights = 0;
  for (int i = 0; i < profile->layers; i++) {
    compute += profile->times[i];
    if (profile->weights != NULL) weights += profile->weights[i];
  }
  return fmax(compute, 2.0 * (ranks - 1) / ranks * weights) / ranks;
}

/* The first stage takes micro-batches until its replicas have as many as all ranks can work on
 * (NOAM, Narayanan et al. 2019). */
static void print_summary(const train_stage_profile_t *profile, int ranks,
                          const train_stage_cut_t cuts[], double time) {
  int first = cuts[0].replicas;
  printf(
      "\npredicted: a micro-batch every %g; micro-batches in flight per replica of stage 0: %d\n",
      time, (ranks + first - 1) / first);
  printf("one stage of %d replicas (data parallelism): every %g\n", ranks,
         one_stage_time(profile, ranks));
}

static coll_status_t print_single_ranks(const train_stage_profile_t *profile, int ranks,
                                        train_stage_cut_t cuts[]) {
  int count;
  double time;
  if (ranks > profile->layers) return COLL_OK;
  COLL_TRY(train_stages_cut(profile, ranks, 1, cuts, &count, &time));
  printf("%d stages of one rank (pipeline alone): every %g\n", ranks, time);
  return COLL_OK;
}

static coll_status_t show(const gpt_replicas_t *replicas, const train_stage_profile_t *profile,
                          train_stage_cut_t cuts[]) {
  int ranks = (int)replicas->ranks, count;
  int max = replicas->max_replicas > 0 ? (int)replicas->max_replicas : ranks;
  double time;
  if (max > ranks) max = ranks;
  COLL_TRY(check_work(replicas, profile->layers, max));
  COLL_TRY(train_stages_cut(profile, ranks, max, cuts, &count, &time));
  printf("%d layers over %d ranks, the slowest stage as fast as possible:\n", profile->layers,
         ranks);
  print_stages(cuts, count);
  print_summary(profile, ranks, cuts, time);
  COLL_TRY(print_single_ranks(profile, ranks, cuts));
  printf("gpt train gives all stages the same number of replicas, --dp\n");
  return COLL_OK;
}

coll_status_t gpt_replicas_show(const gpt_replicas_t *replicas, const double layers[], int count) {
  double *weights = NULL, *transfers = NULL;
  void *cuts = NULL;
  coll_status_t status = read_times("--layer-weights", replicas->weights_text, count, &weights);
  if (status == COLL_OK) {
    status = read_times("--transfers", replicas->transfers_text, count - 1, &transfers);
  }
  if (status == COLL_OK) {
    status = base_alloc((size_t)count, sizeof(train_stage_cut_t), "stages", &cuts);
  }
  if (status == COLL_OK) {
    const train_stage_profile_t profile = {count, layers, transfers, weights};
    status = show(replicas, &profile, cuts);
  }
  free(cuts);
  free(transfers);
  free(weights);
  return status;
}

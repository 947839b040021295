/*
 * Measuring the two ways, and choosing one.
 */
#include "frontends/mpi/choice.h"

#include <stdlib.h>
#include <string.h>

/* Blocks of calls that go one way. Large calls take long and vary little. */
#define LARGE_BYTES 65536
#define SMALL_BLOCK 6
#define SMALL_SKIPPED 2 /* calls at the beginning of a block that are not timed */
#define LARGE_BLOCK 3
#define LARGE_SKIPPED 1
#define BLOCKS_MAX 8 /* of one trial */

/* How much faster libcoll has to be in a whole trial to get the calls, and to keep them. */
#define GAIN_TO_SERVE 1.05
#define GAIN_TO_STAY 1.0
#define GAIN_OF_SUMS 1.1
/* The factor between the ways that ends a trial before all its blocks. */
#define CLEAR_FACTOR 1.25

#define TRIAL_COST 0.005 /* fraction of the time that trials may take */
#define HOLD_MIN 200
#define HOLD_MAX (1u << 24)
#define CONFIRMED_MAX 6 /* each one doubles the time to the next trial */

_Static_assert(BLOCKS_MAX / 2 * (SMALL_BLOCK - SMALL_SKIPPED) <= LAYER_SAMPLES_MAX,
               "a trial has room for its times");
_Static_assert(LARGE_BLOCK - LARGE_SKIPPED <= SMALL_BLOCK - SMALL_SKIPPED, "large ones fit too");

/* What rank 0 tells the others. */
typedef struct verdict {
  double is_made, way, hold, time_us[LAYER_WAY_COUNT];
} verdict_t;

#define VERDICT_DOUBLES ((int)(sizeof(verdict_t) / sizeof(double)))
#define TIMES_DOUBLES ((int)(sizeof(layer_times_t) / sizeof(double)))

/* ---- classes -------------------------------------------------------------------------------*/

void layer_choices_free(layer_choices_t *choices) {
  for (int i = 0; i < LAYER_VERBS_MAX; i++) {
    for (int class = 0; class < LAYER_CLASS_COUNT && choices->rows[i] != NULL; class ++) {
      free(choices->rows[i][class]);
    }
    free(choices->rows[i]);
  }
}

int layer_class_of(size_t bytes) {
  int class = bytes <= 1 ? (int)bytes : 65 - __builtin_clzll(bytes - 1);
  return class < LAYER_CLASS_COUNT ? class : LAYER_CLASS_COUNT - 1;
}

size_t layer_class_bytes(int class) {
  return class == 0 ? 0 : (size_t)1 << (class - 1);
}

layer_choice_t *layer_choice_find(layer_choices_t *choices, int verb, int class) {
  layer_choice_t ***row = &choices->rows[verb];
  if (*row == NULL) *row = calloc(LAYER_CLASS_COUNT, sizeof **row);
  if (*row == NULL) return NULL;
  layer_choice_t **choice = &(*row)[class];
  if (*choice == NULL) *choice = calloc(1, sizeof **choice);
  return *choice;
}

/* ---- a trial -------------------------------------------------------------------------------*/

static unsigned block_calls(const layer_trial_t *trial) {
  return trial->bytes < LARGE_BYTES ? SMALL_BLOCK : LARGE_BLOCK;
}

/* ABBA ABBA */
layer_way_t layer_choice_next(const layer_choice_t *choice, const layer_trial_t *trial) {
  unsigned block = choice->calls / block_calls(trial);
  return (block + 1) / 2 % 2 == 0 ? LAYER_SERVED : LAYER_PASSED;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* What calls of one way took, at least, at most, and as median or mean. */
typedef struct summary {
  double least_us, most_us, middle_us;
} summary_t;

static summary_t summarize(const layer_times_t *last, layer_way_t way, unsigned count,
                           bool is_sum) {
  double times[LAYER_SAMPLES_MAX], sum = 0;
  for (unsigned i = 0; i < count; i++) {
    times[i] = last->end_us[way][i] - last->begin_us[way][i];
    sum += times[i];
  }
  qsort(times, count, sizeof *times, compare);
  double median = (times[(count - 1) / 2] + times[count / 2]) / 2;
  return (summary_t){times[0], times[count - 1], is_sum ? sum / count : median};
}

/* Calls until the next trial: its cost is what the slower way has taken too long, and what it takes
 * to agree. */
static double hold_of(const layer_choice_t *choice, const verdict_t *verdict, double agreement_us) {
  double served = verdict->time_us[LAYER_SERVED], passed = verdict->time_us[LAYER_PASSED];
  double faster = served < passed ? served : passed, slower = served < passed ? passed : served;
  double cost_us = (slower - faster) * choice->calls / 2 + agreement_us;
  bool is_same = choice->is_made && choice->way == (layer_way_t)verdict->way;
  unsigned confirmed = is_same ? choice->confirmed + 1 : 0;
  double hold = faster > 0 ? cost_us / TRIAL_COST / faster : HOLD_MAX;
  if (hold < HOLD_MIN) hold = HOLD_MIN;
  hold *= 1u << (confirmed < CONFIRMED_MAX ? confirmed : CONFIRMED_MAX);
  return hold < HOLD_MAX ? hold : HOLD_MAX;
}

/* Whether the trial ends here: before its last block, if each call of one way was faster than each
 * call of the other one, so that neither chance nor a disturbance of few calls decides. */
static void decide(const layer_choice_t *choice, const layer_trial_t *trial,
                   const layer_times_t *last, verdict_t *verdict) {
  summary_t served = summarize(last, LAYER_SERVED, choice->samples[LAYER_SERVED], trial->is_sum);
  summary_t passed = summarize(last, LAYER_PASSED, choice->samples[LAYER_PASSED], trial->is_sum);
  double gain = passed.middle_us / served.middle_us;
  double needed = trial->is_sum ? GAIN_OF_SUMS : GAIN_TO_SERVE;
  bool is_last = choice->calls == BLOCKS_MAX * block_calls(trial);
  bool is_faster = gain > CLEAR_FACTOR && passed.least_us > served.most_us;
  bool is_slower = gain < 1 / CLEAR_FACTOR && served.least_us > passed.most_us;
  if (choice->is_made && choice->way == LAYER_SERVED) needed = GAIN_TO_STAY;
  verdict->is_made = is_last || is_faster || is_slower;
  verdict->way = is_faster || (is_last && gain > needed) ? LAYER_SERVED : LAYER_PASSED;
  verdict->time_us[LAYER_SERVED] = served.middle_us;
  verdict->time_us[LAYER_PASSED] = passed.middle_us;
}

/* Of begin_us and end_us the largest ones count. */
static void agree(layer_choice_t *choice, const layer_trial_t *trial, double now_us) {
  layer_times_t last = {0};
  verdict_t verdict = {0};
  if (pmpi.Reduce(&choice->times, &last, TIMES_DOUBLES, MPI_DOUBLE, MPI_MAX, 0, trial->comm) !=
      MPI_SUCCESS) {
    return;
  }
  if (trial->rank == 0) {
    decide(choice, trial, &last, &verdict);
    verdict.hold = hold_of(choice, &verdict, 2 * (layer_now_us() - now_us));
  }
  if (pmpi.Bcast(&verdict, VERDICT_DOUBLES, MPI_DOUBLE, 0, trial->comm) != MPI_SUCCESS) return;
  if (verdict.is_made == 0) return;
  layer_way_t way = (layer_way_t)verdict.way;
  choice->confirmed = choice->is_made && choice->way == way ? choice->confirmed + 1 : 0;
  choice->is_made = true;
  choice->way = way;
  choice->hold = (unsigned)verdict.hold;
  memcpy(choice->time_us, verdict.time_us, sizeof choice->time_us);
  memset(choice->samples, 0, sizeof choice->samples);
  choice->calls = 0;
}

void layer_choice_record(layer_choice_t *choice, const layer_trial_t *trial, double begin_us,
                         double end_us) {
  layer_way_t way = layer_choice_next(choice, trial);
  unsigned block = block_calls(trial);
  unsigned skipped = block == SMALL_BLOCK ? SMALL_SKIPPED : LARGE_SKIPPED;
  if (choice->calls % block >= skipped) {
    unsigned sample = choice->samples[way]++;
    choice->times.begin_us[way][sample] = trial->has_one_clock ? begin_us : 0;
    choice->times.end_us[way][sample] = trial->has_one_clock ? end_us : end_us - begin_us;
  }
  choice->calls++;
  for (unsigned blocks = 2; blocks <= BLOCKS_MAX; blocks *= 2) {
    if (choice->calls == blocks * block) agree(choice, trial, end_us);
  }
}

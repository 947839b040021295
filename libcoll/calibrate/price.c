/*
 * Calls whose plans differ in one kind of step, and moves that differ in one kind of access, differ
 * in time by its cost. Differences of measured times can be absurd, so each is held within bounds
 * that costs measured before it give.
 */
#include "calibrate/price.h"

#define SWITCH_MAX_PS 2000000 /* no context switch takes longer: another process ran in between */

typedef struct pricing {
  const calibrate_timings_t *timings;
  const tune_counts_t *const *counts;
  bool gets;
  tune_machine_t *costs;
} pricing_t;

bool calibrate_fits_shared(int index) {
  return tune_sizes[index] <= CALIBRATE_SHARED_BYTES;
}

static int64_t clamp(int64_t value, int64_t min, int64_t max) {
  return value < min ? min : value > max ? max : value;
}

static uint32_t cost(int64_t ps) {
  return (uint32_t)clamp(ps, 1, UINT32_MAX);
}

/* The time of the probe's call, less its hops and steps. */
static int64_t rest_of(const pricing_t *pricing, calibrate_probe_t probe) {
  const uint32_t *fixed_ps = pricing->costs->fixed_ps;
  const tune_counts_t *counts = pricing->counts[probe];
  return pricing->timings->calls[probe] - counts->hops * fixed_ps[TUNE_HOP] -
         counts->steps * fixed_ps[TUNE_STEP];
}

static void price_steps(const pricing_t *pricing) {
  uint32_t *fixed_ps = pricing->costs->fixed_ps;
  int64_t min = fixed_ps[TUNE_STEP], ps[CALIBRATE_PROBE_COUNT];
  fixed_ps[TUNE_HOP] = cost(pricing->timings->trip);
  for (int probe = 0; probe < CALIBRATE_PROBE_COUNT; probe++) {
    ps[probe] = rest_of(pricing, (calibrate_probe_t)probe);
  }
  int64_t rounds = pricing->counts[CALIBRATE_ONE_ROUND]->messages;
  int64_t more_rounds = pricing->counts[CALIBRATE_TWO_ROUNDS]->messages - rounds;
  int64_t message =
      clamp((ps[CALIBRATE_TWO_ROUNDS] - ps[CALIBRATE_ONE_ROUND]) / more_rounds, min, INT32_MAX);
  int64_t call = clamp(ps[CALIBRATE_ONE_ROUND] - rounds * message, min, INT32_MAX);
  int64_t flag = clamp((ps[CALIBRATE_FLAGS] - call) / pricing->counts[CALIBRATE_FLAGS]->flags,
                       min / 4, message);
  int64_t line = (ps[CALIBRATE_LONGER] - ps[CALIBRATE_ONE_ROUND]) / rounds;
  int64_t entry = ps[CALIBRATE_MAPPED] - call - pricing->counts[CALIBRATE_MAPPED]->flags * flag -
                  fixed_ps[TUNE_HOP];
  fixed_ps[TUNE_MESSAGE] = cost(message);
  fixed_ps[TUNE_LINES] = cost(clamp(line, 1, INT32_MAX));
  fixed_ps[TUNE_CALL] = cost(call);
  fixed_ps[TUNE_FLAG] = cost(flag);
  if (pricing->gets) fixed_ps[TUNE_GET_CALL] = cost(pricing->timings->get);
  fixed_ps[TUNE_ENTRY] = cost(clamp(entry, min, INT32_MAX));
  fixed_ps[TUNE_SWITCH] = cost(clamp(pricing->timings->context_switch, 0, SWITCH_MAX_PS));
}

/* The cost of handing over beyond that of a copy, half of it for either end. */
static void price_handed(const pricing_t *pricing, int index) {
  uint32_t *push = pricing->costs->move_ps[TUNE_PUSH], *pull = pricing->costs->move_ps[TUNE_PULL];
  if (!calibrate_fits_shared(index)) {
    push[index] = push[index - 1];
    pull[index] = pull[index - 1];
    return;
  }
  int64_t own = pricing->timings->moves[CALIBRATE_OWN][index];
  int64_t flags = 2 * (int64_t)(pricing->costs->fixed_ps[TUNE_HOP] / (tune_sizes[index] / 1024));
  int64_t handed =
      clamp(pricing->timings->moves[CALIBRATE_HANDED][index] - own - flags, own / 4, UINT32_MAX);
  push[index] = cost(handed / 2);
  pull[index] = cost(handed - handed / 2);
}

/* Moves that differ in one kind of access give the cost of that access. */
static void price_moves(const pricing_t *pricing, int index) {
  const int64_t(*timed)[TUNE_SIZES] = pricing->timings->moves;
  int64_t own = timed[CALIBRATE_OWN][index], far = timed[CALIBRATE_FAR][index],
          sum = timed[CALIBRATE_SUM][index];
  int64_t both = 2 * timed[CALIBRATE_SUM_FOR_BOTH][index], pushed = timed[CALIBRATE_PUSHED][index];
  int64_t load = clamp(sum - far, own / 8, own / 2), store = own - load;
  uint32_t(*move_ps)[TUNE_SIZES] = pricing->costs->move_ps;
  move_ps[TUNE_LOAD][index] = cost(load);
  move_ps[TUNE_STORE][index] = cost(store);
  move_ps[TUNE_LOAD_FAR][index] = cost(clamp(far - store, load, far));
  move_ps[TUNE_STORE_FAR][index] = cost(clamp(pushed - load, store, pushed));
  if (pricing->gets) {
    int64_t get_call = pricing->timings->get / (int64_t)(tune_sizes[index] / 1024);
    move_ps[TUNE_GET][index] =
        cost(clamp(timed[CALIBRATE_GOT][index] - get_call - far, 0, UINT32_MAX));
  }
  move_ps[TUNE_FOLD][index] = cost(clamp(sum - far - load, 0, own));
  move_ps[TUNE_NEAR][index] = index == 0 ? cost(own / 2) : move_ps[TUNE_NEAR][0];
  price_handed(pricing, index);
  /* A line in the peer's cache is fetched before it is written; others are written as one's own. */
  int64_t pull = move_ps[TUNE_PULL][index], dearest = pull > store ? pull : store;
  if (calibrate_fits_shared(index)) dearest *= 2;
  move_ps[TUNE_ALONG][index] = cost(clamp(both - sum, store / 2, dearest));
}

void calibrate_price(const calibrate_timings_t *timings, const tune_counts_t *const counts[],
                     bool gets, tune_machine_t *costs) {
  const pricing_t pricing = {timings, counts, gets, costs};
  price_steps(&pricing);
  for (int i = 0; i < TUNE_SIZES; i++) price_moves(&pricing, i);
}

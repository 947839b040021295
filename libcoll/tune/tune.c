/*
 * With a core for every rank, a call takes as long as it makes the longest chain of steps of a row
 * of such calls: ranks that wait for nobody are ahead in the row. With fewer cores, they are always
 * busy with some rank, and have to turn from one to the next.
 */
#include "tune/tune.h"

#include <assert.h>

/* ---- order ----------------------------------------------------------------------------------*/

static bool is_integer(coll_dtype_t dtype) {
  return dtype <= COLL_UINT64;
}

static bool is_narrow(coll_dtype_t dtype) {
  return !is_integer(dtype) && dtype != COLL_FLOAT32 && dtype != COLL_FLOAT64;
}

tune_order_t tune_order_of(coll_collective_t collective, coll_dtype_t dtype, coll_op_t op,
                           bool reproducible) {
  if (!base_collective_reduces(collective) || is_integer(dtype)) return TUNE_ORDER_ANY;
  if (reproducible) return is_narrow(dtype) ? TUNE_ORDER_EXACT : TUNE_ORDER_CANONICAL;
  bool rounds = op != COLL_MAX && op != COLL_MIN;
  return is_narrow(dtype) && rounds ? TUNE_ORDER_PREFER_EXACT : TUNE_ORDER_ANY;
}

bool tune_order_allows(tune_order_t order, plan_order_t stated) {
  if (order == TUNE_ORDER_EXACT) return stated == PLAN_ORDER_EXACT;
  return order != TUNE_ORDER_CANONICAL || stated != PLAN_ORDER_FIXED;
}

/* ---- estimates ------------------------------------------------------------------------------*/

typedef struct pricing {
  const tune_machine_t *machine;
  const tune_profile_t *profile;
  const tune_call_t *call;
  uint64_t passes;
  uint64_t crowd; /* ranks that share a core; 1 where none do */
} pricing_t;

static uint64_t divide_up(uint64_t value, uint64_t divisor) {
  return (value + divisor - 1) / divisor;
}

/* Bytes of a block that a pass takes at most; 0: none can be made. */
static uint64_t pass_bytes_max(const tune_profile_t *profile, const tune_call_t *call) {
  size_t grain, bytes;
  size_t most = plan_pass_max(&call->room, &profile->load, call->element_bytes, &grain);
  return __builtin_mul_overflow(most, call->element_bytes, &bytes) ? UINT64_MAX : bytes;
}

static uint64_t passes_of(const tune_profile_t *profile, const tune_call_t *call) {
  return call->bytes == 0 ? 1 : (call->bytes - 1) / pass_bytes_max(profile, call) + 1;
}

__extension__ typedef unsigned __int128 product_t;

static uint64_t share_of(uint64_t value, uint64_t part, uint64_t whole) {
  return whole > 0 ? (uint64_t)((product_t)value * part / whole) : 0;
}

/* ---- prices ---------------------------------------------------------------------------------*/

static tune_term_t term_of(tune_move_t move) {
  switch (move) {
    case TUNE_LOAD_FAR:
    case TUNE_STORE_FAR:
    case TUNE_ALONG: return TUNE_TERM_FAR;
    case TUNE_PUSH:
    case TUNE_PULL: return TUNE_TERM_SHARED;
    default: return TUNE_TERM_OWN;
  }
}

/* Bytes of the larger of a rank's buffers: what is in use. */
static size_t buffer_bytes(const tune_call_t *call) {
  plan_shape_t shape = {.collective = call->collective, .size = call->size};
  int32_t input = plan_blocks(&shape, 0, PLAN_INPUT), output = plan_blocks(&shape, 0, PLAN_OUTPUT);
  return call->bytes * (size_t)(input > output ? input : output);
}

/* Of a chunk in one pass. */
static uint64_t part_bytes_of(const pricing_t *pricing) {
  return divide_up(pricing->call->bytes, pricing->passes * (uint64_t)pricing->profile->load.parts);
}

/* What goes through slots and scratch goes by the chunk, whatever the call's size. What a peer has
 * just stored into its user's memory comes no cheaper than what lay there. */
static uint64_t move_ps(const pricing_t *pricing, tune_move_t move) {
  const tune_machine_t *machine = pricing->machine;
  size_t used = buffer_bytes(pricing->call);
  if (term_of(move) != TUNE_TERM_SHARED) return tune_machine_move_ps(machine, move, used);
  if (pricing->profile->reach != PLAN_REACH_USER) {
    return tune_machine_move_ps(machine, move, (size_t)part_bytes_of(pricing));
  }
  uint64_t stored_ps = tune_machine_move_ps(machine, move, used);
  uint64_t lay_ps = tune_machine_move_ps(machine, TUNE_LOAD_FAR, used);
  return stored_ps > lay_ps ? stored_ps : lay_ps;
}

static uint64_t bytes_ps(const pricing_t *pricing, tune_move_t move, int64_t chunks) {
  uint64_t bytes = (uint64_t)chunks * part_bytes_of(pricing), kib_ps = move_ps(pricing, move);
  return bytes / 1024 * kib_ps + bytes % 1024 * kib_ps / 1024;
}

static void price(const pricing_t *pricing, const tune_counts_t *counts,
                  uint64_t term_ps[TUNE_TERM_COUNT]) {
  const uint32_t *fixed_ps = pricing->machine->fixed_ps;
  uint64_t hop_ps = fixed_ps[TUNE_HOP];
  if (pricing->crowd > 1) hop_ps += pricing->crowd * fixed_ps[TUNE_SWITCH];
  for (int term = 0; term < TUNE_TERM_COUNT; term++) term_ps[term] = 0;
  term_ps[TUNE_TERM_HOPS] = (uint64_t)counts->hops * hop_ps;
  uint64_t longest = part_bytes_of(pricing) * (uint64_t)pricing->profile->load.message_chunks;
  uint64_t lines_ps = longest >= TUNE_LINE_BYTES ? fixed_ps[TUNE_LINES] : 0;
  term_ps[TUNE_TERM_MESSAGES] = (uint64_t)counts->messages * (fixed_ps[TUNE_MESSAGE] + lines_ps) +
                                (uint64_t)counts->flags * fixed_ps[TUNE_FLAG];
  term_ps[TUNE_TERM_STEPS] = (uint64_t)counts->steps * fixed_ps[TUNE_STEP];
  for (int move = 0; move < TUNE_MOVE_COUNT; move++) {
    if (counts->chunks[move] == 0) continue;
    term_ps[term_of((tune_move_t)move)] +=
        bytes_ps(pricing, (tune_move_t)move, counts->chunks[move]);
  }
}

static uint64_t sum_of(const uint64_t term_ps[TUNE_TERM_COUNT]) {
  uint64_t sum = 0;
  for (int term = 0; term < TUNE_TERM_COUNT; term++) sum += term_ps[term];
  return sum;
}

/* What a call adds to a row of them, as programs make one call after the other: for each pass what
 * a second one adds to the chain of the first. By terms: as they share in the chain of both. */
static uint64_t price_row(const pricing_t *pricing, tune_regime_t regime,
                          uint64_t term_ps[TUNE_TERM_COUNT]) {
  uint64_t once_ps[TUNE_TERM_COUNT], twice_ps[TUNE_TERM_COUNT], sum_ps = 0;
  price(pricing, &pricing->profile->once[regime], once_ps);
  price(pricing, &pricing->profile->twice[regime], twice_ps);
  uint64_t first_ps = sum_of(once_ps), both_ps = sum_of(twice_ps);
  uint64_t row_ps = both_ps > first_ps ? pricing->passes * (both_ps - first_ps) : 0;
  for (int term = 0; term < TUNE_TERM_COUNT; term++) {
    term_ps[term] = share_of(row_ps, twice_ps[term], both_ps);
    sum_ps += term_ps[term];
  }
  term_ps[TUNE_TERM_STEPS] += row_ps - sum_ps; /* what was rounded off */
  return row_ps;
}

/* The chain of two such calls in a row, halved: the first pass of the first one, and for every
 * other pass what a second one adds. */
static uint64_t price_chain(const pricing_t *pricing, tune_regime_t regime,
                            uint64_t term_ps[TUNE_TERM_COUNT]) {
  uint64_t twice_ps[TUNE_TERM_COUNT];
  price(pricing, &pricing->profile->once[regime], term_ps);
  price(pricing, &pricing->profile->twice[regime], twice_ps);
  for (int term = 0; term < TUNE_TERM_COUNT; term++) {
    uint64_t more_ps = twice_ps[term] > term_ps[term] ? twice_ps[term] - term_ps[term] : 0;
    term_ps[term] = (term_ps[term] + (2 * pricing->passes - 1) * more_ps) / 2;
  }
  return sum_of(term_ps);
}

static void price_alone(const pricing_t *pricing, uint64_t term_ps[TUNE_TERM_COUNT]) {
  uint64_t longest_ps = 0;
  for (int regime = TUNE_SMALL; regime <= TUNE_LARGE; regime++) {
    uint64_t chain_ps[TUNE_TERM_COUNT];
    if (price_row(pricing, (tune_regime_t)regime, chain_ps) < longest_ps) continue;
    longest_ps = sum_of(chain_ps);
    for (int term = 0; term < TUNE_TERM_COUNT; term++) term_ps[term] = chain_ps[term];
  }
}

/* Of what arrives, the share that comes from another core's cache. */
static uint64_t far_ps(const pricing_t *pricing, uint64_t arrivals) {
  uint64_t others = (uint64_t)pricing->call->size - 1, near = pricing->crowd - 1;
  return arrivals * (others - near) * pricing->machine->fixed_ps[TUNE_HOP] / others;
}

static void price_crowded(const pricing_t *pricing, uint64_t term_ps[TUNE_TERM_COUNT]) {
  uint64_t chain_ps[TUNE_TERM_COUNT];
  price_chain(pricing, TUNE_CROWDED, chain_ps);
  price(pricing, &pricing->profile->all, term_ps);
  /* What is waited for in a row comes at once. */
  term_ps[TUNE_TERM_MESSAGES] += far_ps(pricing, (uint64_t)pricing->profile->all.hops);
  /* Ranks that do more than others and may run anywhere may run on the same core. */
  bool may_queue = pricing->profile->uneven && !pricing->call->bound;
  uint64_t cores = may_queue ? 1 : (uint64_t)pricing->call->cores;
  for (int term = 0; term < TUNE_TERM_COUNT; term++) {
    term_ps[term] = term_ps[term] * pricing->passes / cores;
  }
  term_ps[TUNE_TERM_HOPS] = chain_ps[TUNE_TERM_HOPS];
  if (pricing->profile->turns > 0) {
    uint64_t turns = (uint64_t)pricing->profile->turns * pricing->passes;
    term_ps[TUNE_TERM_HOPS] = turns * pricing->machine->fixed_ps[TUNE_SWITCH] / TUNE_SIM_CALLS;
  }
}

/* What it takes among two was measured, who meet by messages; of every further peer a rank has but
 * one more, or what costs about as much of a post. */
static uint64_t price_entry(const pricing_t *pricing) {
  const uint32_t *fixed_ps = pricing->machine->fixed_ps;
  uint64_t others = (uint64_t)pricing->call->size - 1, crowd = pricing->crowd;
  if (others == 0) return 0;
  uint64_t message_ps = fixed_ps[TUNE_MESSAGE] + fixed_ps[TUNE_LINES];
  uint64_t entry_ps = crowd * (fixed_ps[TUNE_ENTRY] + (others - 1) * message_ps);
  if (crowd == 1) return entry_ps;
  uint64_t turns = pricing->profile->turns == 0 ? crowd : 0; /* that nobody has counted */
  return entry_ps + fixed_ps[TUNE_HOP] + far_ps(pricing, crowd * others) +
         turns * fixed_ps[TUNE_SWITCH];
}

tune_estimate_t tune_estimate(const tune_machine_t *machine, const tune_profile_t *profile,
                              const tune_call_t *call) {
  tune_estimate_t estimate = {.verdict = TUNE_POSSIBLE};
  if (pass_bytes_max(profile, call) == 0) estimate.verdict = TUNE_NO_ROOM;
  if (profile->reach > call->reach) estimate.verdict = TUNE_TOO_FAR;
  if (!tune_order_allows(call->order, profile->order)) estimate.verdict = TUNE_OTHER_ORDER;
  if (estimate.verdict != TUNE_POSSIBLE) return estimate;
  uint64_t ranks = (uint64_t)call->size, cores = (uint64_t)call->cores;
  const pricing_t pricing = {.machine = machine,
                             .profile = profile,
                             .call = call,
                             .passes = passes_of(profile, call),
                             .crowd = ranks > cores ? divide_up(ranks, cores) : 1};
  if (pricing.crowd > 1) {
    price_crowded(&pricing, estimate.term_ps);
  } else {
    price_alone(&pricing, estimate.term_ps);
  }
  const uint32_t *fixed_ps = machine->fixed_ps;
  estimate.term_ps[TUNE_TERM_CALL] = pricing.crowd * fixed_ps[TUNE_CALL];
  if (profile->reach == PLAN_REACH_USER) {
    estimate.term_ps[TUNE_TERM_ENTRY] = price_entry(&pricing);
  }
  estimate.passes = pricing.passes;
  estimate.total_ps = sum_of(estimate.term_ps);
  return estimate;
}

/* By which plans that are as good are told apart: the steps of all passes, on the chain that small
 * calls go by. Where ranks share cores, a hop weighs more than any steps, as it may find the other
 * rank without its core; and what is rounded more than once, where that matters, more than all. */
static uint64_t steps_of(const tune_profile_t *profile, const tune_call_t *call, uint64_t passes) {
  const tune_counts_t *counts = &profile->once[TUNE_SMALL];
  uint64_t steps = (uint64_t)(counts->messages + counts->flags + counts->steps);
  if (call->size > call->cores) steps += (uint64_t)profile->once[TUNE_CROWDED].hops << 20;
  bool inexact = call->order == TUNE_ORDER_PREFER_EXACT && profile->order != PLAN_ORDER_EXACT;
  return passes * steps + ((uint64_t)inexact << 62);
}

int tune_choose(const tune_machine_t *machine, const tune_profile_t profiles[], int count,
                const tune_call_t *call) {
  int best = -1;
  uint64_t least_ps = UINT64_MAX, fewest = UINT64_MAX;
  for (int i = 0; i < count; i++) {
    tune_estimate_t estimate = tune_estimate(machine, &profiles[i], call);
    if (estimate.verdict == TUNE_POSSIBLE && estimate.total_ps < least_ps) {
      least_ps = estimate.total_ps;
    }
  }
  for (int i = 0; i < count; i++) {
    tune_estimate_t estimate = tune_estimate(machine, &profiles[i], call);
    if (estimate.verdict != TUNE_POSSIBLE) continue;
    uint64_t as_good_ps =
        least_ps / (profiles[i].turns > 0 ? TUNE_AS_GOOD_SIMULATED : TUNE_AS_GOOD);
    if (estimate.total_ps - least_ps > as_good_ps) continue;
    uint64_t steps = steps_of(&profiles[i], call, estimate.passes);
    if (steps >= fewest) continue;
    best = i;
    fewest = steps;
  }
  return best;
}

const char *tune_term_name(tune_term_t term) {
  static const char *const names[TUNE_TERM_COUNT] = {"call",  "entry", "hops", "messages",
                                                     "steps", "own",   "far",  "shared"};
  assert((unsigned)term < TUNE_TERM_COUNT);
  return names[term];
}

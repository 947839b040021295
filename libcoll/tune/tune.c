/*
 * With a core for every rank, the time of a call is what it adds to the longest chain of steps in a
 * sequence of such calls; a rank that waits for no peer runs ahead in the sequence. With fewer
 * cores than ranks (oversubscription), the cores are always busy with some rank, and context
 * switches are added.
 */
#include "tune/tune.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/names.h"
#include "tune/link_rounds.h"

/* ---- order ----------------------------------------------------------------------------------*/

static bool is_narrow(coll_dtype_t dtype) {
  return !base_dtype_is_integer(dtype) && dtype != COLL_FLOAT32 && dtype != COLL_FLOAT64;
}

tune_order_t tune_order_of(coll_collective_t collective, coll_dtype_t dtype, coll_op_t op,
                           bool reproducible) {
  if (!base_collective_reduces(collective) || base_dtype_is_integer(dtype)) return TUNE_ORDER_ANY;
  if (is_narrow(dtype) && (reproducible || op == COLL_AVG)) return TUNE_ORDER_EXACT;
  if (reproducible) return TUNE_ORDER_CANONICAL;
  bool rounds = op != COLL_MAX && op != COLL_MIN;
  return (is_narrow(dtype) && rounds) || op == COLL_AVG ? TUNE_ORDER_PREFER_EXACT : TUNE_ORDER_ANY;
}

bool tune_order_allows(tune_order_t order, plan_order_t stated) {
  if (stated == PLAN_ORDER_ANY) return false;
  if (order == TUNE_ORDER_EXACT) return stated == PLAN_ORDER_EXACT;
  return order != TUNE_ORDER_CANONICAL || stated != PLAN_ORDER_FIXED;
}

/* ---- estimates ------------------------------------------------------------------------------*/

/* The most bytes of a block that a pass carries; 0: the plan does not fit. */
static uint64_t pass_bytes_max(const tune_profile_t *profile, const tune_call_t *call) {
  size_t grain, bytes, count = call->bytes / call->element_bytes;
  size_t max = plan_pass_of(&call->room, &profile->load, call->element_bytes, count, &grain);
  return __builtin_mul_overflow(max, call->element_bytes, &bytes) ? UINT64_MAX : bytes;
}

static uint64_t passes_of(const tune_profile_t *profile, const tune_call_t *call) {
  return call->bytes == 0 ? 1 : (call->bytes - 1) / pass_bytes_max(profile, call) + 1;
}

/* The cost that a call adds to a sequence of calls: for each pass, what a second pass adds to the
 * chain of the first. The terms are divided in the proportions of the chain of two passes. */
static uint64_t price_steady(const tune_pricing_t *pricing, tune_regime_t regime,
                             uint64_t term_ps[TUNE_TERM_COUNT]) {
  uint64_t once_ps[TUNE_TERM_COUNT], twice_ps[TUNE_TERM_COUNT], sum_ps = 0;
  tune_price(pricing, &pricing->profile->once[regime], once_ps);
  tune_price(pricing, &pricing->profile->twice[regime], twice_ps);
  uint64_t first_ps = tune_price_sum(once_ps), both_ps = tune_price_sum(twice_ps);
  uint64_t steady_ps = both_ps > first_ps ? pricing->passes * (both_ps - first_ps) : 0;
  for (int term = 0; term < TUNE_TERM_COUNT; term++) {
    term_ps[term] = tune_share(steady_ps, twice_ps[term], both_ps);
    sum_ps += term_ps[term];
  }
  term_ps[TUNE_TERM_STEPS] += steady_ps - sum_ps; /* rounding error */
  return steady_ps;
}

/* The chain of two consecutive calls, halved: the first pass of the first call, and for every other
 * pass what a second pass adds. */
static uint64_t price_chain(const tune_pricing_t *pricing, tune_regime_t regime,
                            uint64_t term_ps[TUNE_TERM_COUNT]) {
  uint64_t twice_ps[TUNE_TERM_COUNT];
  tune_price(pricing, &pricing->profile->once[regime], term_ps);
  tune_price(pricing, &pricing->profile->twice[regime], twice_ps);
  for (int term = 0; term < TUNE_TERM_COUNT; term++) {
    uint64_t more_ps = twice_ps[term] > term_ps[term] ? twice_ps[term] - term_ps[term] : 0;
    term_ps[term] = (term_ps[term] + (2 * pricing->passes - 1) * more_ps) / 2;
  }
  return tune_price_sum(term_ps);
}

static void price_own_cores(const tune_pricing_t *pricing, uint64_t term_ps[TUNE_TERM_COUNT]) {
  uint64_t longest_ps = 0;
  for (int regime = TUNE_SMALL; regime <= TUNE_LARGE; regime++) {
    uint64_t chain_ps[TUNE_TERM_COUNT];
    if (price_steady(pricing, (tune_regime_t)regime, chain_ps) < longest_ps) continue;
    longest_ps = tune_price_sum(chain_ps);
    for (int term = 0; term < TUNE_TERM_COUNT; term++) term_ps[term] = chain_ps[term];
  }
}

/* The cost of arrivals that come from another core's cache. */
static uint64_t transfer_ps(const tune_pricing_t *pricing, uint64_t arrivals) {
  uint64_t others = (uint64_t)pricing->call->size - 1, near = pricing->ranks_per_core - 1;
  return arrivals * (others - near) * pricing->machine->fixed_ps[TUNE_HOP] / others;
}

/* Some rank does much more work than others. */
static bool is_uneven(const tune_profile_t *profile, uint64_t size) {
  uint64_t work = (uint64_t)profile->work;
  return (uint64_t)profile->max_work * size > work + work / 2;
}

/* What one core has of a cost that the ranks share. Ranks that do more work than others and are not
 * bound to cores may run on the same core. */
static uint64_t core_share(const tune_pricing_t *pricing, uint64_t cost_ps) {
  const tune_call_t *call = pricing->call;
  bool may_queue = !call->bound && is_uneven(pricing->profile, (uint64_t)call->size);
  return may_queue ? cost_ps : cost_ps / (uint64_t)call->cores;
}

/* The same for moving bytes, where the part of one rank, which no other core can do, may be larger.
 */
static uint64_t core_share_of_moves(const tune_pricing_t *pricing, uint64_t cost_ps) {
  const tune_profile_t *profile = pricing->profile;
  uint64_t share_ps = core_share(pricing, cost_ps);
  uint64_t alone_ps = tune_share(cost_ps, (uint64_t)profile->max_work, (uint64_t)profile->work);
  return alone_ps > share_ps ? alone_ps : share_ps;
}

static void price_oversubscribed(const tune_pricing_t *pricing, uint64_t term_ps[TUNE_TERM_COUNT]) {
  uint64_t chain_ps[TUNE_TERM_COUNT];
  price_chain(pricing, TUNE_OVERSUBSCRIBED, chain_ps);
  tune_price(pricing, &pricing->profile->all, term_ps);
  /* Arrivals that are waited for by adjacent waits overlap. */
  term_ps[TUNE_TERM_MESSAGES] += transfer_ps(pricing, (uint64_t)pricing->profile->all.hops);
  for (int term = 0; term < TUNE_TERM_COUNT; term++) {
    bool moves = term == TUNE_TERM_OWN || term == TUNE_TERM_FAR || term == TUNE_TERM_SHARED;
    term_ps[term] =
        (moves ? core_share_of_moves : core_share)(pricing, term_ps[term] * pricing->passes);
  }
  term_ps[TUNE_TERM_HOPS] = chain_ps[TUNE_TERM_HOPS];
  if (pricing->profile->switches > 0) {
    uint64_t switches = (uint64_t)pricing->profile->switches * pricing->passes;
    term_ps[TUNE_TERM_HOPS] = switches * pricing->machine->fixed_ps[TUNE_SWITCH] / TUNE_SIM_CALLS;
  }
}

/* The cost of the address exchange. It was measured between two ranks, which use messages; each
 * further peer adds one message per rank, or about the same cost of a multicast. */
static uint64_t price_entry(const tune_pricing_t *pricing) {
  const uint32_t *fixed_ps = pricing->machine->fixed_ps;
  uint64_t others = (uint64_t)pricing->call->size - 1, ranks_per_core = pricing->ranks_per_core;
  if (others == 0) return 0;
  uint64_t message_ps = fixed_ps[TUNE_MESSAGE] + fixed_ps[TUNE_LINES];
  uint64_t entry_ps = ranks_per_core * (fixed_ps[TUNE_ENTRY] + (others - 1) * message_ps);
  if (ranks_per_core == 1) return entry_ps;
  /* Where switches were not simulated: one per rank of the core. */
  uint64_t switches = pricing->profile->switches == 0 ? ranks_per_core : 0;
  return entry_ps + fixed_ps[TUNE_HOP] + transfer_ps(pricing, ranks_per_core * others) +
         switches * fixed_ps[TUNE_SWITCH];
}

static coll_status_t simulate(const tune_pricing_t *pricing, tune_link_times_t *times) {
  const plan_shape_t shape = {.collective = pricing->call->collective,
                              .size = pricing->call->size,
                              .layout = pricing->profile->layout};
  plan_t *plan;
  COLL_TRY(algo_build(pricing->profile->algo, &shape, ALGO_ALL_RANKS, false, &plan));
  coll_status_t status = tune_link_sim(pricing, plan, times);
  plan_free(plan);
  return status;
}

/* Every rank simulates, so those that share a core have to share its time. */
static int64_t simulated_max(const tune_pricing_t *pricing) {
  return TUNE_SIMULATED_MAX / (int64_t)pricing->ranks_per_core;
}

static coll_status_t price_links(const tune_pricing_t *pricing, tune_estimate_t *estimate) {
  const tune_counts_t *all = &pricing->profile->all;
  bool many = all->messages + all->flags + all->steps > simulated_max(pricing);
  tune_link_times_t times;
  COLL_TRY(many ? tune_link_rounds(pricing, &times) : simulate(pricing, &times));
  memcpy(estimate->term_ps, times.term_ps, sizeof estimate->term_ps);
  estimate->bottleneck = times.bottleneck;
  return COLL_OK;
}

static tune_verdict_t verdict_of(const tune_profile_t *profile, const tune_call_t *call) {
  if (profile->verdict != TUNE_POSSIBLE) return profile->verdict;
  if (!tune_order_allows(call->order, profile->order)) return TUNE_OTHER_ORDER;
  if (profile->reach > call->reach) return TUNE_TOO_FAR;
  return pass_bytes_max(profile, call) == 0 ? TUNE_NO_ROOM : TUNE_POSSIBLE;
}

coll_status_t tune_estimate(const tune_machine_t *machine, const tune_profile_t *profile,
                            const tune_call_t *call, tune_estimate_t *estimate) {
  *estimate = (tune_estimate_t){.verdict = verdict_of(profile, call), .bottleneck.wire = -1};
  if (estimate->verdict != TUNE_POSSIBLE) return COLL_OK;
  uint64_t ranks = (uint64_t)call->size, cores = (uint64_t)call->cores;
  tune_call_t slice = *call;
  if (call->slices > 1) slice.bytes = tune_divide_up(call->bytes, (uint64_t)call->slices);
  const tune_pricing_t pricing = {
      .machine = machine,
      .profile = profile,
      .call = &slice,
      .passes = passes_of(profile, &slice),
      .ranks_per_core = ranks > cores ? tune_divide_up(ranks, cores) : 1};
  if (profile->layout != NULL && profile->layout->fabric != NULL) {
    COLL_TRY(price_links(&pricing, estimate));
  } else if (pricing.ranks_per_core > 1) {
    price_oversubscribed(&pricing, estimate->term_ps);
  } else {
    price_own_cores(&pricing, estimate->term_ps);
  }
  const uint32_t *fixed_ps = machine->fixed_ps;
  estimate->term_ps[TUNE_TERM_CALL] = pricing.ranks_per_core * fixed_ps[TUNE_CALL];
  if (plan_reach_exchanges(profile->reach)) {
    estimate->term_ps[TUNE_TERM_ENTRY] = price_entry(&pricing);
  }
  estimate->passes = pricing.passes;
  estimate->total_ps = tune_price_sum(estimate->term_ps);
  return COLL_OK;
}

/* The tie-breaker among plans of about equal price: the steps of all passes on the chain for small
 * calls. With oversubscription a hop outweighs any number of steps, as the other rank may not be
 * running; and where exactness is preferred, an inexact plan loses to all exact ones. */
static uint64_t steps_of(const tune_profile_t *profile, const tune_call_t *call, uint64_t passes) {
  const tune_counts_t *counts = &profile->once[TUNE_SMALL];
  uint64_t steps = (uint64_t)(counts->messages + counts->flags + counts->steps);
  if (call->size > call->cores) steps += (uint64_t)profile->once[TUNE_OVERSUBSCRIBED].hops << 20;
  bool inexact = call->order == TUNE_ORDER_PREFER_EXACT && profile->order != PLAN_ORDER_EXACT;
  return passes * steps + ((uint64_t)inexact << 62);
}

int tune_choose_of(const tune_profile_t profiles[], const tune_estimate_t estimates[], int count,
                   const tune_call_t *call) {
  int best = -1;
  uint64_t least_ps = UINT64_MAX, fewest = UINT64_MAX;
  for (int i = 0; i < count; i++) {
    if (estimates[i].verdict == TUNE_POSSIBLE && estimates[i].total_ps < least_ps) {
      least_ps = estimates[i].total_ps;
    }
  }
  for (int i = 0; i < count; i++) {
    if (estimates[i].verdict != TUNE_POSSIBLE) continue;
    uint64_t as_good_ps =
        least_ps / (profiles[i].switches > 0 ? TUNE_AS_GOOD_SIMULATED : TUNE_AS_GOOD);
    if (estimates[i].total_ps - least_ps > as_good_ps) continue;
    uint64_t steps = steps_of(&profiles[i], call, estimates[i].passes);
    if (steps >= fewest) continue;
    best = i;
    fewest = steps;
  }
  return best;
}

coll_status_t tune_choose(const tune_machine_t *machine, const tune_profile_t profiles[], int count,
                          const tune_call_t *call, int *best) {
  tune_estimate_t *estimates;
  coll_status_t status = COLL_OK;
  COLL_TRY(base_alloc((size_t)count, sizeof *estimates, "estimates", (void **)&estimates));
  for (int i = 0; i < count && status == COLL_OK; i++) {
    status = tune_estimate(machine, &profiles[i], call, &estimates[i]);
  }
  if (status == COLL_OK) *best = tune_choose_of(profiles, estimates, count, call);
  free(estimates);
  return status;
}

const char *tune_term_name(tune_term_t term) {
  static const char *const names[TUNE_TERM_COUNT] = {"call", "entry", "hops",   "messages", "steps",
                                                     "own",  "far",   "shared", "links"};
  assert((unsigned)term < TUNE_TERM_COUNT);
  return names[term];
}

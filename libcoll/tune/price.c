/* Prices counted operations at the machine's costs. */
#include "tune/price.h"

static tune_term_t term_of(tune_move_t move) {
  switch (move) {
    case TUNE_LOAD_FAR:
    case TUNE_STORE_FAR:
    case TUNE_GET:
    case TUNE_ALONG: return TUNE_TERM_FAR;
    case TUNE_PUSH:
    case TUNE_PULL:
    case TUNE_CROSS: return TUNE_TERM_SHARED;
    default: return TUNE_TERM_OWN;
  }
}

/* The memory that the call uses: the larger of a rank's buffers, in bytes. */
static size_t buffer_bytes(const tune_call_t *call) {
  plan_shape_t shape = {.collective = call->collective, .size = call->size};
  int32_t input = plan_blocks(&shape, 0, PLAN_INPUT), output = plan_blocks(&shape, 0, PLAN_OUTPUT);
  return call->bytes * (size_t)(input > output ? input : output);
}

uint64_t tune_part_bytes(const tune_pricing_t *pricing) {
  return tune_divide_up(pricing->call->bytes,
                        pricing->passes * (uint64_t)pricing->profile->load.parts);
}

/* Data in slots and scratch is reused per pass, so its price depends on the chunk size, not on the
 * call's size. Loading a peer's user memory that was just stored is at least as expensive as
 * loading data stored earlier. */
static uint64_t move_ps(const tune_pricing_t *pricing, tune_move_t move) {
  const tune_machine_t *machine = pricing->machine;
  size_t used = buffer_bytes(pricing->call);
  if (term_of(move) != TUNE_TERM_SHARED || move == TUNE_CROSS) {
    return tune_machine_move_ps(machine, move, used);
  }
  if (!plan_reach_exchanges(pricing->profile->reach)) {
    return tune_machine_move_ps(machine, move, (size_t)tune_part_bytes(pricing));
  }
  uint64_t stored_ps = tune_machine_move_ps(machine, move, used);
  uint64_t lay_ps = tune_machine_move_ps(machine, TUNE_LOAD_FAR, used);
  return stored_ps > lay_ps ? stored_ps : lay_ps;
}

/* Of all slices. */
static uint64_t bytes_ps(const tune_pricing_t *pricing, tune_move_t move, int64_t chunks) {
  uint64_t slices = pricing->call->slices > 1 ? (uint64_t)pricing->call->slices : 1;
  uint64_t bytes = (uint64_t)chunks * tune_part_bytes(pricing) * slices;
  uint64_t kib_ps = move_ps(pricing, move);
  return bytes / 1024 * kib_ps + bytes % 1024 * kib_ps / 1024;
}

/* Whether the call's plan gets what it reads: its memory may be unmapped. */
static bool is_by_get(const tune_pricing_t *pricing) {
  return pricing->call->reach == PLAN_REACH_READ;
}

void tune_price(const tune_pricing_t *pricing, const tune_counts_t *counts,
                uint64_t term_ps[TUNE_TERM_COUNT]) {
  const uint32_t *fixed_ps = pricing->machine->fixed_ps;
  uint64_t hop_ps = fixed_ps[TUNE_HOP];
  if (pricing->ranks_per_core > 1) hop_ps += pricing->ranks_per_core * fixed_ps[TUNE_SWITCH];
  for (int term = 0; term < TUNE_TERM_COUNT; term++) term_ps[term] = 0;
  term_ps[TUNE_TERM_HOPS] = (uint64_t)counts->hops * hop_ps;
  uint64_t longest = tune_part_bytes(pricing) * (uint64_t)pricing->profile->load.message_chunks;
  uint64_t lines_ps = longest >= TUNE_LINE_BYTES ? fixed_ps[TUNE_LINES] : 0;
  term_ps[TUNE_TERM_MESSAGES] = (uint64_t)counts->messages * (fixed_ps[TUNE_MESSAGE] + lines_ps) +
                                (uint64_t)counts->flags * fixed_ps[TUNE_FLAG] +
                                (uint64_t)counts->distant * fixed_ps[TUNE_DISTANT];
  term_ps[TUNE_TERM_STEPS] = (uint64_t)counts->steps * fixed_ps[TUNE_STEP];
  if (is_by_get(pricing)) {
    term_ps[TUNE_TERM_STEPS] += (uint64_t)counts->gets * fixed_ps[TUNE_GET_CALL];
  }
  for (int move = 0; move < TUNE_MOVE_COUNT; move++) {
    if (counts->chunks[move] == 0 || (move == TUNE_GET && !is_by_get(pricing))) continue;
    term_ps[term_of((tune_move_t)move)] +=
        bytes_ps(pricing, (tune_move_t)move, counts->chunks[move]);
  }
}

uint64_t tune_price_sum(const uint64_t term_ps[TUNE_TERM_COUNT]) {
  uint64_t sum = 0;
  for (int term = 0; term < TUNE_TERM_COUNT; term++) sum += term_ps[term];
  return sum;
}

/* What counted operations of a call cost on a machine. */
#ifndef TUNE_PRICE_H
#define TUNE_PRICE_H

#include "tune/tune.h"

typedef struct tune_pricing {
  const tune_machine_t *machine;
  const tune_profile_t *profile;
  const tune_call_t *call;
  uint64_t passes;
  uint64_t ranks_per_core; /* 1 where every rank has a core */
} tune_pricing_t;

/* The size of a chunk in one pass, in bytes. */
uint64_t tune_part_bytes(const tune_pricing_t *pricing);

void tune_price(const tune_pricing_t *pricing, const tune_counts_t *counts,
                uint64_t term_ps[TUNE_TERM_COUNT]);

uint64_t tune_price_sum(const uint64_t term_ps[TUNE_TERM_COUNT]);

static inline uint64_t tune_divide_up(uint64_t value, uint64_t divisor) {
  return (value + divisor - 1) / divisor;
}

__extension__ typedef unsigned __int128 tune_product_t;

/* value * part / whole; 0 if whole is. */
static inline uint64_t tune_share(uint64_t value, uint64_t part, uint64_t whole) {
  return whole > 0 ? (uint64_t)((tune_product_t)value * part / whole) : 0;
}

#endif

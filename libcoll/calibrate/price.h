/*
 * The costs that follow from measured times (measure.c): pure arithmetic.
 */
#ifndef CALIBRATE_PRICE_H
#define CALIBRATE_PRICE_H

#include <stdbool.h>
#include <stdint.h>

#include "tune/machine.h"
#include "tune/profile.h"

#define CALIBRATE_SHARED_BYTES                                     \
  ((size_t)512 << 10) /* a side's buffer that the peer copies from \
                       */

/* Small calls that are timed, by algorithm. */
typedef enum calibrate_probe {
  CALIBRATE_ONE_ROUND,
  CALIBRATE_LONGER,
  CALIBRATE_TWO_ROUNDS,
  CALIBRATE_FLAGS,
  CALIBRATE_MAPPED,
  CALIBRATE_PROBE_COUNT
} calibrate_probe_t;

/* Ways to move bytes; CALIBRATE_HANDED comes last. */
typedef enum calibrate_move {
  CALIBRATE_OWN,
  CALIBRATE_FAR,
  CALIBRATE_PUSHED,
  CALIBRATE_SUM,
  CALIBRATE_SUM_FOR_BOTH,
  CALIBRATE_GOT,
  CALIBRATE_HANDED,
  CALIBRATE_MOVE_COUNT
} calibrate_move_t;

/* Minimum of all repetitions, in picoseconds; 0: not timed yet. */
typedef struct calibrate_timings {
  int64_t trip, get, context_switch, calls[CALIBRATE_PROBE_COUNT];
  int64_t moves[CALIBRATE_MOVE_COUNT][TUNE_SIZES]; /* per KiB */
} calibrate_timings_t;

/* Whether the index-th size of tune_sizes fits the buffer that the peer copies from. */
bool calibrate_fits_shared(int index);

/* Sets the costs that the timings tell; the others, which are those of a typical machine, stay.
 * counts: of the plan that each probe runs. gets: the system permits them. */
void calibrate_price(const calibrate_timings_t *timings, const tune_counts_t *const counts[],
                     bool gets, tune_machine_t *costs);

#endif

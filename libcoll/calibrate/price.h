/*
 * The costs that follow from measured times (measure.c): pure arithmetic.
 */
#ifndef CALIBRATE_PRICE_H
#define CALIBRATE_PRICE_H

#include <stdbool.h>
#include <stdint.h>

#include "tune/machine.h"
#include "tune/profile.h"

#define CALIBRATION_SHARED_BYTES                                   \
  ((size_t)512 << 10) /* a side's buffer that the peer copies from \
                       */

/* Small calls that are timed, by algorithm. */
typedef enum calibration_probe {
  CALIBRATION_ONE_ROUND,
  CALIBRATION_LONGER,
  CALIBRATION_TWO_ROUNDS,
  CALIBRATION_FLAGS,
  CALIBRATION_MAPPED,
  CALIBRATION_PROBE_COUNT
} calibration_probe_t;

/* Ways to move bytes; CALIBRATION_HANDED comes last. */
typedef enum calibration_move {
  CALIBRATION_OWN,
  CALIBRATION_FAR,
  CALIBRATION_PUSHED,
  CALIBRATION_SUM,
  CALIBRATION_SUM_FOR_BOTH,
  CALIBRATION_GOT,
  CALIBRATION_HANDED,
  CALIBRATION_MOVE_COUNT
} calibration_move_t;

/* Minimum of all rounds, in picoseconds; 0: not timed yet. */
typedef struct calibration_timings {
  int64_t trip, get, context_switch, calls[CALIBRATION_PROBE_COUNT];
  int64_t moves[CALIBRATION_MOVE_COUNT][TUNE_SIZES]; /* per KiB */
} calibration_timings_t;

/* Whether the index-th size of tune_sizes fits the buffer that the peer copies from. */
bool calibration_fits_shared(int index);

/* Sets the costs that the timings tell; the others, which are those of a typical machine, stay.
 * counts: of the plan that each probe runs. gets: the system permits them. */
void calibration_price(const calibration_timings_t *timings, const tune_counts_t *const counts[],
                       bool gets, tune_machine_t *costs);

#endif

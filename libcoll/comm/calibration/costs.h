/* What things cost on this machine, for the tuner: found out once per machine, kept for later. */
#ifndef COMM_CALIBRATION_COSTS_H
#define COMM_CALIBRATION_COSTS_H

#include <stdbool.h>

#include "base/status.h"
#include "tune/machine.h"

/* As the COLL_TUNE knob says: what the library has built in, or what was measured on this machine,
 * now if never before (some 100 ms). COLL_ERROR_INVALID: the knob is wrong. */
coll_status_t calibration_costs_find(tune_machine_t *costs);

/* Measures, on two cores; false where there are not two or the system refuses something.
 * (calibrate.c) */
bool calibration_costs_measure(tune_machine_t *costs);

#endif

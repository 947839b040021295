/* The knobs of where a job's secret comes from; NULL past the last. */
#ifndef COMM_RENDEZVOUS_SECRET_SOURCE_H
#define COMM_RENDEZVOUS_SECRET_SOURCE_H

#include "base/knob.h"

const base_knob_t *rendezvous_knob(int index);

#endif

/*
 * Lengths of token slices for TeraPipe (Li et al. 2021, section 3.3): later slices attend to longer
 * prefixes, so slices of equal time become shorter.
 */
#ifndef LIBTRAIN_SCHEDULE_SLICES_H
#define LIBTRAIN_SCHEDULE_SLICES_H

#include "base/status.h"

#define TRAIN_SLICES_MAX_UNITS 512 /* tokens / unit: the search takes units^2 steps many times */

/* Time of the forward and backward pass of `length` tokens after `prefix` tokens on one stage; not
 * negative. */
typedef double train_slice_cost_t(const void *context, int length, int prefix);

typedef struct train_slices_request {
  int tokens; /* length of the sequences */
  int unit;   /* slices are multiples of it; divides tokens */
  int slices; /* exactly so many; 0: as many as are best */
  int stages;
  int micro_batches; /* of one update */
  train_slice_cost_t *cost;
  const void *context; /* of cost */
} train_slices_request_t;

/* Chooses the slices that minimise micro_batches * (sum of times) + (stages - 1) * (longest time),
 * the time of an update. lengths[tokens / unit] gets *count lengths; *time may be NULL.
 * COLL_ERROR_INVALID: the unit does not divide the tokens, or is too small, or the tokens have
 * fewer units than slices are wanted. */
coll_status_t train_slices_choose(const train_slices_request_t *request, int lengths[], int *count,
                                  double *time);

#endif

/*
 * The process group that trains together, on top of a communicator: sums over all ranks, and
 * agreement on errors, so that a failure of one rank makes all ranks fail instead of waiting for
 * it.
 */
#ifndef LIBTRAIN_PARALLEL_GROUP_H
#define LIBTRAIN_PARALLEL_GROUP_H

#include <coll.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct train_group {
  coll_comm_t comm; /* owned by the caller */
  int rank, size;
} train_group_t;

coll_status_t train_group_init(coll_comm_t comm, train_group_t *group);

/* All functions below are collective over the group. */

/* COLL_OK if every rank passes COLL_OK; otherwise an error on every rank. Only the lowest failed
 * rank keeps its message; on the others base_last_error is "", so that the message is printed
 * once. */
coll_status_t train_group_agree(const train_group_t *group, coll_status_t status);

/* COLL_ERROR_MISMATCH on every rank unless all pass the same digest; `what` describes it. */
coll_status_t train_group_check_same(const train_group_t *group, uint64_t digest, const char *what);

/* Replaces the values by their sums over all ranks, bit-identical on each. */
coll_status_t train_group_sum_floats(const train_group_t *group, float *values, size_t count);
coll_status_t train_group_sum_doubles(const train_group_t *group, double *values, size_t count);

/* Replaces the values by their maxima over all ranks. */
coll_status_t train_group_max(const train_group_t *group, int64_t *values, size_t count);

/* Replaces the values by those of rank `root`. */
coll_status_t train_group_broadcast_floats(const train_group_t *group, float *values, size_t count,
                                           int root);

#endif

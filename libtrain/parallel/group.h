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
#include "libtrain/common/dtype.h"

typedef struct train_group {
  coll_comm_t comm; /* owned by the caller; NULL: a group of one rank, which sends nothing */
  int rank, size;
} train_group_t;

coll_status_t train_group_init(coll_comm_t comm, train_group_t *group);

/* Returns the status of a call of coll.h on the group's communicator. If it is an error,
 * base_last_error becomes libcoll's text: that of the communicator if the communicator has failed,
 * otherwise that of this thread. */
coll_status_t train_group_check(const train_group_t *group, coll_status_t status);

/* libcoll's name of an element type. */
coll_dtype_t train_group_dtype(train_dtype_t dtype);

/* The functions up to train_group_send are collective over the group. */

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

/* The same for integers, modulo 2^64. */
coll_status_t train_group_sum_integers(const train_group_t *group, uint64_t *values, size_t count);

/* Replaces the bytes by those of rank `root`. */
coll_status_t train_group_broadcast_bytes(const train_group_t *group, void *bytes, size_t count,
                                          int root);

/* Replaces the values by those of rank `root`. */
coll_status_t train_group_broadcast_floats(const train_group_t *group, float *values, size_t count,
                                           int root);

/* ---- between two ranks -------------------------------------------------------------------- */

/* Sends bytes to rank `to`, which receives as many. */
coll_status_t train_group_send(const train_group_t *group, const void *bytes, size_t count, int to);
coll_status_t train_group_receive(const train_group_t *group, void *bytes, size_t count, int from);

#endif

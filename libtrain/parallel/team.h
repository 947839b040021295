/*
 * The ranks that train together, on top of a communicator: sums over all ranks, and agreement, so
 * that a failure of one rank becomes a failure of all and none waits for another in vain.
 */
#ifndef LIBTRAIN_TEAM_H
#define LIBTRAIN_TEAM_H

#include <coll.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct train_team {
  coll_comm_t comm; /* owned by the caller */
  int rank, size;
} train_team_t;

coll_status_t train_team_init(coll_comm_t comm, train_team_t *team);

/* Each of these is a collective: every rank calls it. */

/* COLL_OK when every rank came with COLL_OK; else a failure on every rank. The sentence stays with
 * the lowest rank that failed; on the others base_last_error is "", so it is told only once. */
coll_status_t train_team_agree(const train_team_t *team, coll_status_t status);

/* COLL_ERROR_MISMATCH on every rank unless all came with the same digest; `what` names it. */
coll_status_t train_team_check_same(const train_team_t *team, uint64_t digest, const char *what);

/* Replaces the values with their sums over all ranks, bit-identical on each. */
coll_status_t train_team_sum_floats(const train_team_t *team, float *values, size_t count);
coll_status_t train_team_sum_doubles(const train_team_t *team, double *values, size_t count);

/* Replaces the values with those of rank `root`. */
coll_status_t train_team_broadcast_floats(const train_team_t *team, float *values, size_t count,
                                          int root);

#endif

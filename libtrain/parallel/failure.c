/* The job's communicator contains the lost rank, whoever noticed first. */
#include "libtrain/parallel/failure.h"

#include <stdio.h>

/* All that ranks wait in, except the job's own. */
enum { AXES = 4, GROUPS = 3 };

static void list_axes(const train_ranks_t *ranks, train_axis_t *axes[AXES]) {
  axes[0] = ranks->axes.tensor;
  axes[1] = ranks->axes.context;
  axes[2] = ranks->axes.experts;
  axes[3] = ranks->embedding;
}

static void list_groups(const train_ranks_t *ranks, coll_comm_t comms[GROUPS]) {
  comms[0] = ranks->data.comm;
  comms[1] = ranks->experts.comm;
  comms[2] = ranks->pipeline.comm;
}

bool train_failure_finished(coll_comm_t comm) {
  return comm != NULL && coll_comm_error(comm) != COLL_OK;
}

bool train_ranks_failed(const train_ranks_t *ranks) {
  train_axis_t *axes[AXES];
  coll_comm_t comms[GROUPS];
  bool failed = train_failure_finished(ranks->all.comm);
  list_axes(ranks, axes);
  list_groups(ranks, comms);
  for (int i = 0; i < AXES; i++) failed = failed || (axes[i] != NULL && axes[i]->status != COLL_OK);
  for (int i = 0; i < GROUPS; i++) failed = failed || train_failure_finished(comms[i]);
  return failed;
}

static void abort_working(coll_comm_t comm) {
  if (comm != NULL && !train_failure_finished(comm)) coll_comm_abort(comm);
}

static void abort_all(const train_ranks_t *ranks, coll_status_t status) {
  train_axis_t *axes[AXES];
  coll_comm_t comms[GROUPS];
  list_axes(ranks, axes);
  list_groups(ranks, comms);
  for (int i = 0; i < AXES; i++) {
    if (axes[i] != NULL) train_axis_fail(axes[i], status);
  }
  for (int i = 0; i < GROUPS; i++) {
    if (comms[i] != ranks->all.comm) abort_working(comms[i]);
  }
}

coll_status_t train_failure_watch_create(const train_ranks_t *ranks, coll_comm_t *watch) {
  const train_model_axes_t *axes = &ranks->axes;
  bool own_only =
      ranks->stages == 1 && axes->tensor == NULL && axes->context == NULL && axes->experts == NULL;
  *watch = NULL;
  if (own_only || ranks->all.comm == NULL) return COLL_OK;
  return train_group_check(&ranks->all,
                           coll_comm_split(ranks->all.comm, 0, ranks->all.rank, NULL, watch));
}

static bool lost_rank(coll_comm_t comm) {
  return comm != NULL && coll_comm_error(comm) == COLL_ERROR_RANK_LOST;
}

/* A failure that is not the loss of a rank began here, or where the same call failed. */
coll_status_t train_ranks_fail(const train_ranks_t *ranks, coll_comm_t watch,
                               coll_status_t status) {
  char text[TRAIN_AXIS_MESSAGE_BYTES];
  coll_comm_t job = ranks->all.comm;
  if (status == COLL_OK) return status;
  snprintf(text, sizeof text, "%s", base_last_error());
  abort_all(ranks, status);
  if (status != COLL_ERROR_RANK_LOST) {
    abort_working(job);
    abort_working(watch);
    return base_fail(status, "%s", text);
  }
  if (watch != NULL && !lost_rank(job)) coll_barrier(watch, NULL);
  coll_comm_t named = lost_rank(job) ? job : lost_rank(watch) ? watch : NULL;
  return base_fail(status, "%s", named != NULL ? coll_last_error(named) : text);
}

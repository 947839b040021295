/*
 * One rank of a layout (job.h): what it creates, and the calls of which its training consists, for
 * tests that do something else with it.
 */
#ifndef TESTS_LIBTRAIN_LAYOUTS_WORKER_H
#define TESTS_LIBTRAIN_LAYOUTS_WORKER_H

#include "libtrain/layouts/job.h"
#include "libtrain/parallel/store_state.h"

/* Factors of the losses of routers. */
#define LAYOUT_BALANCE 0.01f
#define LAYOUT_Z 0.001f

typedef struct layout_worker layout_worker_t;

/* What a rank does between layout_worker_open and layout_worker_close. 0, or what harness_fail
 * returns. */
typedef int (*layout_work_t)(layout_worker_t *worker);

/* The context of the ranks' body. */
typedef struct layout_job {
  const layout_trial_t *trial;
  layout_outcome_t *outcome; /* may be NULL */
  layout_work_t work;        /* of layout_run */
} layout_job_t;

struct layout_worker {
  const layout_job_t *job;
  train_mesh_t *mesh;
  train_ranks_t ranks;
  train_layout_t *layout;
  train_store_t *store;
  train_executor_t *executor;
  layout_router_t router;
  train_router_replay_t replay;
  uint64_t step;
  double losses[LAYOUT_STEPS_MAX];    /* this rank's parts, of an asynchronous schedule */
  int32_t *evaluated;                 /* tokens and targets of a batch */
  uint64_t wired[TRAIN_TRAFFIC_AXES]; /* in this step */
};

/* Runs the ranks of the trial, of which each does the work. A failure of one fails the test. */
layout_outcome_t layout_run(const layout_trial_t *trial, layout_work_t work);

/* Creates all that the rank has, with the weights to begin with. worker->job is set by the caller;
 * to be closed also after a failure. */
int layout_worker_open(party_rank_t *party, layout_worker_t *worker);
void layout_worker_close(layout_worker_t *worker);

/* Computes the gradients of scale * the loss of the next step, and waits for their reduction.
 * sums: this rank's parts of the loss and of the squares of gradients. */
coll_status_t layout_worker_gradients(layout_worker_t *worker, float scale, double sums[2]);

/* This rank's part of the loss of some sequences of the next step, of one micro-batch at most. */
int layout_worker_loss(const layout_worker_t *worker, int first, int count, double *loss);

/* Copies values of this rank's shards to their places in whole[], where the rank owns them. */
void layout_worker_collect(const layout_worker_t *worker, const store_array_t *array, float *whole);

#endif

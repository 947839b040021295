/*
 * Trains a small model in a layout, all ranks being threads, and collects what it computes as the
 * whole model has it.
 */
#ifndef TESTS_LIBTRAIN_LAYOUTS_JOB_H
#define TESTS_LIBTRAIN_LAYOUTS_JOB_H

#include "harness/party.h"
#include "harness/sample.h"
#include "libtrain/layouts/routing.h"
#include "libtrain/mesh/mesh.h"
#include "libtrain/parallel/executor.h"
#include "libtrain/parallel/optimizer.h"
#include "libtrain/parallel/ranks.h"

#define LAYOUT_STEPS_MAX 20
#define LAYOUT_BATCH 16
#define LAYOUT_BUCKET_BYTES 4096

/* All in a soak. The code that runs is the same in every step, but in the first ones. */
static inline int layout_steps(void) {
  return harness_full() && HARNESS_BUILD == HARNESS_PLAIN ? LAYOUT_STEPS_MAX : 8;
}

typedef struct layout_trial {
  int dp, tp, cp, pp, ep;             /* 0: 1 */
  int etp;                            /* 0: tp */
  const train_model_config_t *config; /* NULL: layout_config */
  bool sequence_parallel;
  int tensor_overlap; /* train_model_axes_t.tensor_overlap */
  bool serial;        /* nothing overlaps; overlap changes chunks only */
  train_context_kind_t context_kind;
  int zero, micro_batches; /* 0: 1 micro-batch */
  bool naive;              /* data parallelism with one rank that updates */
  train_schedule_kind_t schedule;
  int chunks; /* virtual stages of each stage; 0: 1 */
  train_slices_t slices;
  train_recompute_t recompute;
  train_precision_t precision;
  bool bfloat16_wire;  /* the store sends float32 as bfloat16 */
  bool compare_copies; /* fails unless all ranks that hold a weight have the same bits of it at
                        * the end; below ZeRO stage 3 */
  bool rings;          /* libcoll uses rings on the axes */
  const layout_routing_t *replay; /* of another run, whose choices of experts this one takes: in the
                                   * first step they must be its own; NULL: it chooses itself */
  const train_ops_t *ops;         /* NULL: those of the host */
  int steps;                      /* after those of the checkpoint; 0: layout_steps */
  const char *resume;             /* checkpoint to begin with; NULL: a new model */
  const char *again;              /* where to save it again before the first step; NULL: nowhere */
  const char *save;               /* where to save at the end; NULL: nowhere */
  int saved_step; /* layout_train_rank saves after so many steps instead; 0: at the end */
} layout_trial_t;

/* Arrays of the whole model's flat space. */
typedef struct layout_outcome {
  train_layout_t *layout;
  double losses[LAYOUT_STEPS_MAX], norms[LAYOUT_STEPS_MAX];
  double evaluated;          /* the loss after the last step, by the executor's evaluation */
  uint64_t context_bytes;    /* that rank 0 sent on the context axis in the last step */
  float *gradients;          /* of the first step */
  float *weights;            /* after the last step */
  float *copies;             /* of what the passes read, if they are compared */
  layout_routing_t *routing; /* the choices of a run that replays none; the step after the last one
                              * is the evaluation. NULL: no experts */
  /* Bytes that all ranks have sent in the last step: as the axes count, and as libcoll does. */
  uint64_t counted[TRAIN_TRAFFIC_AXES], wired[TRAIN_TRAFFIC_AXES];
} layout_outcome_t;

extern const train_model_config_t layout_config;
extern const train_model_config_t layout_two_of_eight; /* experts, of which a token uses two */
const train_model_config_t *layout_trial_config(const layout_trial_t *trial);

/* "dp 2 tp 2 sp zero 1". */
const char *layout_trial_text(const layout_trial_t *trial, char text[200]);

/* Trains steps of LAYOUT_BATCH sequences. Losses of steps that were not taken are 0. A failure of a
 * rank fails the test. Asynchronous schedules need trial->steps, and have losses and weights only.
 */
layout_outcome_t layout_train(const layout_trial_t *trial);
void layout_outcome_free(layout_outcome_t *outcome);

/* The body of one rank: trains trial->steps, until a step fails. *status and base_last_error are
 * those of train_executor_fail. Nothing is left of the run then. */
int layout_train_rank(party_rank_t *party, const layout_trial_t *trial, coll_status_t *status);

#endif

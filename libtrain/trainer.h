/*
 * Data-parallel training: every rank computes its rows of the global batch, in one micro-batch or
 * several, on a model that is held as the store's stage says (parallel/store.h). What is computed
 * depends on the options and the data alone, not on ranks, stage or micro-batches, but for the
 * order in which floats are added.
 */
#ifndef LIBTRAIN_TRAINER_H
#define LIBTRAIN_TRAINER_H

#include "libtrain/data/corpus.h"
#include "libtrain/evaluate.h"
#include "libtrain/files/metadata.h"
#include "libtrain/model/model.h"
#include "libtrain/model/optimizer.h"
#include "libtrain/parallel/group.h"
#include "libtrain/parallel/store.h"

typedef struct train_options {
  uint64_t steps; /* the run ends at this step ... */
  double seconds; /* ... or after this time, whichever is first; 0 stands for no such limit */
  int batch;      /* sequences per step, of all ranks */
  train_model_options_t model; /* its sequences: of a micro-batch; batch / ranks is a multiple */
  double rate;                 /* the highest learning rate */
  double warmup;               /* the part of the run in which it rises, 0 to 1 */
  double clip;                 /* largest global norm of the gradients */
  train_adamw_t adamw;
  int evaluations;            /* how often to evaluate (and save), evenly over the run; >= 1 */
  uint64_t evaluation_tokens; /* how many held-out tokens to predict each time */
  const train_tokenizer_t *tokenizer; /* of the tokens; NULL when nobody knows it */
  const char *checkpoint;             /* saved after each evaluation; NULL for never */
} train_options_t;

/* What a step came to, the same on all ranks but for what is said to be the rank's own. */
typedef struct train_step {
  uint64_t step;   /* from 1 */
  double progress; /* of the run, 0 to 1 */
  double loss;     /* nats per token over the global batch */
  double rate, gradient_norm;
  double tokens_per_s; /* over all ranks, since the run began, evaluations left out */
  double ms;           /* what this step took */
  /* This rank's own communication: what the step's takes when nothing goes on beside it, which the
   * run's second step finds out (0 before), and what this step waited for. */
  double comm_ms, exposed_comm_ms;
  uint64_t bytes_sent; /* by this rank: see parallel/memory.h */
} train_step_t;

/* Told about the run as it goes, on every rank; either may be NULL. */
typedef struct train_observer {
  void (*on_step)(void *context, const train_step_t *step);
  void (*on_evaluation)(void *context, const train_step_t *step,
                        const train_evaluation_t *evaluation);
  void *context;
} train_observer_t;

typedef struct train_result {
  train_step_t last;
  train_evaluation_t held_out; /* at the end */
} train_result_t;

/* Trains what is in the store from record->position on until the run is over; the position moves
 * along, and its seed gives the order of the data. Checkpoints are the store and the record. Fails
 * on all ranks together, with the sentence on one (see train_group_agree): wrong options, ranks
 * that differ, a loss that is not finite (COLL_ERROR_INVALID, the last good checkpoint stays), a
 * checkpoint that cannot be written. */
coll_status_t train_run(const train_options_t *options, const train_corpus_t *corpus,
                        const train_group_t *group, const train_observer_t *observer,
                        train_store_t *store, train_metadata_t *metadata, train_result_t *result);

#endif

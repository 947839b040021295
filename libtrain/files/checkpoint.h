/*
 * A checkpoint: one file with a header, the parameters and AdamW's two moments, little-endian
 * float32 each, and a digest over all of it. It is written beside its place, synced and renamed,
 * so that a run killed at any moment leaves the old file or the new one whole.
 */
#ifndef LIBTRAIN_CHECKPOINT_H
#define LIBTRAIN_CHECKPOINT_H

#include <stdint.h>

#include "libtrain/model/layout.h"

/* What a run continues from. The arrays have the layout's parameter_count elements. */
typedef struct train_state {
  train_layout_t *layout;
  float *parameters, *first_moments, *second_moments;
  uint64_t step; /* optimizer steps taken */
} train_state_t;

/* Zero parameters and moments, step 0. */
coll_status_t train_state_create(const train_model_config_t *config, train_state_t *state);
void train_state_free(train_state_t *state);

/* COLL_ERROR_SYSTEM, naming the path, when a checkpoint cannot be written there; leaves nothing. */
coll_status_t train_checkpoint_probe(const char *path);

/* Replaces the file at `path`. On failure it is as it was and nothing is left beside it. */
coll_status_t train_checkpoint_save(const char *path, const train_state_t *state);

/* A new state from the file. A file that is no checkpoint, is cut short or damaged is refused with
 * COLL_ERROR_INVALID saying which. */
coll_status_t train_checkpoint_load(const char *path, train_state_t *state);

#endif

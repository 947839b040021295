/*
 * All that training changes, in one place: what a run without shards holds, saves and goes on from.
 */
#ifndef LIBTRAIN_FILES_STATE_H
#define LIBTRAIN_FILES_STATE_H

#include <stdint.h>

#include "libtrain/files/record.h"
#include "libtrain/model/layout.h"

/* What a run continues from. The arrays have the layout's parameter_count elements. */
typedef struct train_state {
  train_layout_t *layout;
  float *parameters, *first_moments, *second_moments;
  uint64_t step;         /* optimizer steps taken */
  train_record_t record; /* what else is saved; its config, step and moments follow from above */
} train_state_t;

/* Zero parameters and moments, step 0. */
coll_status_t train_state_create(const train_model_config_t *config, train_state_t *state);
void train_state_free(train_state_t *state);

/* Replaces the checkpoint at `path`: train_checkpoint_write with all that there is. */
coll_status_t train_checkpoint_save(const char *path, const train_state_t *state);

/* A new state from the model at `path`, of any format that train_file_open reads. */
coll_status_t train_checkpoint_load(const char *path, train_state_t *state);

#endif

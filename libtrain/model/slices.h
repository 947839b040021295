/*
 * Slices of sequences for TeraPipe (Li et al. 2021): every sequence of a micro-batch is cut alike
 * into slices of consecutive tokens, in order of position, which are computed by passes of their
 * own. How long they should be is the planner's business (planner/slices.h).
 */
#ifndef LIBTRAIN_MODEL_SLICES_H
#define LIBTRAIN_MODEL_SLICES_H

#include "base/status.h"
#include "libtrain/model/layout.h"

#define TRAIN_SLICES_MAX 128

typedef struct train_slices {
  int count;                     /* 0: one, the whole sequence */
  int lengths[TRAIN_SLICES_MAX]; /* [count]: tokens of each, at least 1 */
} train_slices_t;

/* Whether passes compute slices instead of whole sequences. */
static inline bool train_slices_are_cut(const train_slices_t *slices) {
  return slices->count > 1;
}

/* Passes of a micro-batch in each direction. */
static inline int train_slices_count(const train_slices_t *slices) {
  return slices->count > 1 ? slices->count : 1;
}

/* Tokens of a slice of sequences of `length`; those of the longest one; and those before it. */
int train_slices_length(const train_slices_t *slices, int slice, int length);
int train_slices_longest(const train_slices_t *slices, int length);
int train_slices_first(const train_slices_t *slices, int slice);

/* Whether a model can be trained so on a mesh with these ranks. COLL_ERROR_INVALID: the lengths
 * are not those of a context, or with sequence parallelism no multiples of the tensor ranks; or
 * sequences are cut over context ranks, too; or blocks have experts. The message says what fits. */
coll_status_t train_slices_check(const train_slices_t *slices, const train_model_config_t *config,
                                 int tensor_ranks, bool sequence_parallel, int context_ranks);

#endif

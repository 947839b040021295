/*
 * The seam between file formats and who holds a model: the flat parameter space (model/layout.h)
 * and the two moments beside it, read piece by piece. An arena, the shares of many ranks and an
 * opened file all look like this, so that a format knows none of them and no rank needs to hold
 * everything: to save, a format reads from the holder; to load, the holder reads from the file.
 */
#ifndef LIBTRAIN_FILES_FLAT_H
#define LIBTRAIN_FILES_FLAT_H

#include <stddef.h>

#include "base/status.h"

typedef enum train_array {
  TRAIN_PARAMETERS,
  TRAIN_FIRST_MOMENTS,
  TRAIN_SECOND_MOMENTS,
  TRAIN_ARRAYS
} train_array_t;

/* Formats read this many elements at a time, or fewer. */
#define TRAIN_PIECE ((size_t)1 << 20)

typedef struct train_flat {
  void *context;

  /* Elements first .. first + count - 1 of the array into values[count]. What is spread over ranks
   * may make this a collective: see train_checkpoint_write for who calls it and in which order. */
  coll_status_t (*read)(void *context, train_array_t array, size_t first, size_t count,
                        float *values);
} train_flat_t;

/* Arrays in memory, owned by the caller; one that is NULL reads as zeros. */
typedef struct train_flat_arrays {
  const float *values[TRAIN_ARRAYS];
} train_flat_arrays_t;

/* A flat space that reads *arrays, which must outlive it. It never fails. */
train_flat_t train_flat_of(train_flat_arrays_t *arrays);

#endif

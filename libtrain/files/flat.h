/*
 * The interface between file formats and the owner of a model: the flat parameter space
 * (model/layout.h) and the two moments of the same layout, read in chunks. An arena in memory, the
 * shards of many ranks and an opened file all implement it. Formats therefore need not know how a
 * model is stored, and no rank needs to hold all of it: saving reads from the owner, loading reads
 * from the file.
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

/* Formats read at most this many elements at a time. */
#define TRAIN_CHUNK ((size_t)1 << 20)

typedef struct train_flat {
  void *context;

  /* Reads elements first .. first + count - 1 of the array into values[count]. An implementation
   * that is sharded over ranks may be collective: train_checkpoint_write documents which ranks call
   * it, in which order. */
  coll_status_t (*read)(void *context, train_array_t array, size_t first, size_t count,
                        float *values);
} train_flat_t;

/* Arrays in memory, owned by the caller. An array that is NULL reads as zeros. */
typedef struct train_flat_arrays {
  const float *values[TRAIN_ARRAYS];
} train_flat_arrays_t;

/* A flat space that reads *arrays, which must outlive it. Reads never fail. */
train_flat_t train_flat_of(train_flat_arrays_t *arrays);

#endif

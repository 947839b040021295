/*
 * The interface between file formats and the owner of a model: the flat parameter space
 * (model/layout.h) and the two moments of the same layout, read in chunks. An arena in memory, the
 * shards of many ranks and an opened file all implement it. Formats therefore need not know how a
 * model is stored, and no rank needs to hold all of it: loading reads from the file, and other
 * programs' formats are written from the owner. Ranks that save a checkpoint together do not read
 * each other's elements, they list their own (files/pieces.h).
 */
#ifndef LIBTRAIN_FILES_FLAT_H
#define LIBTRAIN_FILES_FLAT_H

#include <stddef.h>

#include "base/status.h"
#include "libtrain/common/dtype.h"

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
   * that is sharded over ranks may be collective (train_store_flat). */
  coll_status_t (*read)(void *context, train_array_t array, size_t first, size_t count,
                        float *values);
} train_flat_t;

/* Reads elements into values[count] of that type; buffer[TRAIN_CHUNK] is for types other than
 * float32. */
coll_status_t train_flat_read_as(const train_flat_t *from, train_array_t array, size_t first,
                                 size_t count, train_dtype_t dtype, void *values, float *buffer);

/* Arrays in memory, owned by the caller. An array that is NULL reads as zeros. */
typedef struct train_flat_arrays {
  const float *values[TRAIN_ARRAYS];
} train_flat_arrays_t;

/* A flat space that reads *arrays, which must outlive it. Reads never fail. */
train_flat_t train_flat_of(train_flat_arrays_t *arrays);

#endif

/*
 * The interface between a model that is divided over ranks and the file that they save together:
 * each rank lists the pieces that it owns, in any order and of any length. Every element of the
 * flat space (files/flat.h) is in exactly one piece of one rank. What the file contains does not
 * depend on how the elements are divided.
 */
#ifndef LIBTRAIN_FILES_PIECES_H
#define LIBTRAIN_FILES_PIECES_H

#include "libtrain/common/dtype.h"
#include "libtrain/files/flat.h"

/* values[count]: elements first .. first + count - 1 of an array, in the flat space of the whole
 * model. They are widened to float32. Owned by whoever lists them, valid during the call. */
typedef struct train_piece {
  train_array_t array;
  size_t first, count;
  train_dtype_t dtype;
  const void *values;
} train_piece_t;

/* Takes a piece. A failure ends the list. */
typedef struct train_piece_taker {
  void *context;
  coll_status_t (*take)(void *context, const train_piece_t *piece);
} train_piece_taker_t;

typedef struct train_pieces {
  const void *context;

  /* Passes each piece of the array that the calling rank owns to `taker`; neighbours in the flat
   * space should follow each other. Returns the first failure. Not collective. */
  coll_status_t (*list)(const void *context, train_array_t array, const train_piece_taker_t *taker);
} train_pieces_t;

/* A flat space of `elements` elements per array as pieces of a single owner. */
typedef struct train_flat_pieces {
  const train_flat_t *flat;
  size_t elements;
} train_flat_pieces_t;

/* Lists *from, which must outlive it, in order, TRAIN_CHUNK elements at a time. */
train_pieces_t train_pieces_of(const train_flat_pieces_t *from);

#endif

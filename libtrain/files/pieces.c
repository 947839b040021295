/* A flat space as pieces, read into one buffer. */
#include "libtrain/files/pieces.h"

#include <stdlib.h>

#include "base/alloc.h"

static coll_status_t list_chunks(const train_flat_pieces_t *from, train_array_t array,
                                 float *buffer, const train_piece_taker_t *taker) {
  for (size_t first = 0; first < from->elements; first += TRAIN_CHUNK) {
    size_t left = from->elements - first, count = left < TRAIN_CHUNK ? left : TRAIN_CHUNK;
    const train_piece_t piece = {
        .array = array, .first = first, .count = count, .dtype = TRAIN_FLOAT32, .values = buffer};
    COLL_TRY(from->flat->read(from->flat->context, array, first, count, buffer));
    COLL_TRY(taker->take(taker->context, &piece));
  }
  return COLL_OK;
}

static coll_status_t list_flat(const void *context, train_array_t array,
                               const train_piece_taker_t *taker) {
  void *buffer;
  COLL_TRY(base_alloc(TRAIN_CHUNK, sizeof(float), "the buffer of a save", &buffer));
  coll_status_t status = list_chunks(context, array, buffer, taker);
  free(buffer);
  return status;
}

train_pieces_t train_pieces_of(const train_flat_pieces_t *from) {
  return (train_pieces_t){.context = from, .list = list_flat};
}

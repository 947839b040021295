/* Offsets follow from the header alone; chunks also from the tensors of the model. */
#include "libtrain/files/checkpoint_file.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "libtrain/files/digest.h"

#define ALIGNMENT 64

_Static_assert(sizeof(train_checkpoint_header_t) == 48, "the header has no padding");

/* ---- offsets ---- */

size_t train_checkpoint_header_bytes(const train_checkpoint_header_t *header) {
  return header->version == TRAIN_CHECKPOINT_OLD_VERSION
             ? offsetof(train_checkpoint_header_t, chunks)
             : sizeof *header;
}

uint64_t train_checkpoint_arrays_at(const train_checkpoint_header_t *header) {
  return base_round_up(
      train_checkpoint_header_bytes(header) + header->metadata_bytes + header->tokenizer_bytes,
      ALIGNMENT);
}

uint64_t train_checkpoint_element_at(const train_checkpoint_header_t *header, train_array_t array,
                                     size_t element) {
  return train_checkpoint_arrays_at(header) + (array * header->elements + element) * sizeof(float);
}

uint64_t train_checkpoint_digests_at(const train_checkpoint_header_t *header) {
  return train_checkpoint_arrays_at(header) + header->arrays * header->elements * sizeof(float);
}

uint64_t train_checkpoint_bytes(const train_checkpoint_header_t *header) {
  return train_checkpoint_digests_at(header) +
         (header->arrays * header->chunks + 1) * sizeof(uint64_t);
}

uint64_t train_checkpoint_rest_digest(const train_checkpoint_header_t *header, const char *start,
                                      const uint64_t *digests) {
  uint64_t digest = train_digest(0, start, train_checkpoint_arrays_at(header));
  return train_digest(digest, digests, header->arrays * header->chunks * sizeof *digests);
}

/* ---- chunks ---- */

coll_status_t train_chunks_create(uint32_t version, const train_layout_t *layout,
                                  train_chunks_t *chunks) {
  bool old = version == TRAIN_CHECKPOINT_OLD_VERSION;
  int tensors = old ? 1 : layout->tensor_count;
  void *memory;
  COLL_TRY(base_alloc(2 * ((size_t)tensors + 1), sizeof(size_t), "a checkpoint's chunks", &memory));
  train_chunks_t made = {.version = version,
                         .elements = old ? TRAIN_CHUNK : TRAIN_CHECKPOINT_CHUNK,
                         .tensor_count = tensors,
                         .tensor_starts = memory};
  made.tensor_chunks = made.tensor_starts + tensors + 1;
  for (int i = 1; i <= tensors; i++) {
    made.tensor_starts[i] = i < tensors ? layout->tensors[i].offset : layout->parameter_count;
    size_t count = made.tensor_starts[i] - made.tensor_starts[i - 1];
    made.tensor_chunks[i] = made.tensor_chunks[i - 1] + (count + made.elements - 1) / made.elements;
  }
  *chunks = made;
  return COLL_OK;
}

void train_chunks_free(train_chunks_t *chunks) {
  free(chunks->tensor_starts);
}

size_t train_chunks_count(const train_chunks_t *chunks) {
  return chunks->tensor_chunks[chunks->tensor_count];
}

train_chunk_t train_chunks_find(const train_chunks_t *chunks, size_t element) {
  int low = 0, high = chunks->tensor_count - 1; /* the tensor is among these */
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (chunks->tensor_starts[middle] <= element) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  size_t start = chunks->tensor_starts[low], end = chunks->tensor_starts[low + 1];
  size_t number = (element - start) / chunks->elements, in_tensor = number * chunks->elements;
  size_t left = end - start - in_tensor;
  return (train_chunk_t){.index = chunks->tensor_chunks[low] + number,
                         .first = start + in_tensor,
                         .count = left < chunks->elements ? left : chunks->elements,
                         .in_tensor = in_tensor,
                         .tensor = low};
}

uint64_t train_chunk_digest(const train_chunks_t *chunks, const train_chunk_t *chunk, size_t first,
                            const float *values, size_t count) {
  if (chunks->version == TRAIN_CHECKPOINT_OLD_VERSION) {
    return train_digest(0, values, count * sizeof *values);
  }
  return train_digest_elements(chunk->in_tensor + (first - chunk->first), values, count);
}

/*
 * Where everything is in a checkpoint file, for its reader and its writers: the header, the offsets
 * that follow from it, and the chunks, the parts of a tensor that have a digest.
 */
#ifndef LIBTRAIN_FILES_CHECKPOINT_FILE_H
#define LIBTRAIN_FILES_CHECKPOINT_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "libtrain/files/flat.h"
#include "libtrain/model/layout.h"

#define TRAIN_CHECKPOINT_MAGIC "collgpt" /* with its terminating zero */
#define TRAIN_CHECKPOINT_VERSION 4
#define TRAIN_CHECKPOINT_OLD_VERSION 3 /* is read, no longer written */

/* Elements of a chunk. A rank that needs a part of a tensor reads and verifies whole chunks, so
 * they are small enough for a second-level cache. */
#define TRAIN_CHECKPOINT_CHUNK ((size_t)1 << 18)

/* The beginning of the file. */
typedef struct train_checkpoint_header {
  char magic[8];
  uint32_t version, arrays; /* number of arrays, 1 or TRAIN_ARRAYS */
  uint64_t elements;        /* per array */
  uint64_t metadata_bytes, tokenizer_bytes;
  uint64_t chunks; /* per array; version 3 does not store it */
} train_checkpoint_header_t;

/* ---- offsets in the file, in bytes -------------------------------------------------------- */

/* Bytes that the header has in the file. */
size_t train_checkpoint_header_bytes(const train_checkpoint_header_t *header);

/* Where the arrays begin, and how many bytes precede them. */
uint64_t train_checkpoint_arrays_at(const train_checkpoint_header_t *header);

/* Of an element of an array. */
uint64_t train_checkpoint_element_at(const train_checkpoint_header_t *header, train_array_t array,
                                     size_t element);

/* Of the digests of the chunks, [arrays][chunks], which one more digest follows. */
uint64_t train_checkpoint_digests_at(const train_checkpoint_header_t *header);

/* Size of the file. */
uint64_t train_checkpoint_bytes(const train_checkpoint_header_t *header);

/* The last digest of the file, of everything outside of the arrays. `start` holds everything before
 * the arrays. */
uint64_t train_checkpoint_rest_digest(const train_checkpoint_header_t *header, const char *start,
                                      const uint64_t *digests);

/* ---- chunks ------------------------------------------------------------------------------- */

/* The chunks of an array in ascending order. */
typedef struct train_chunks {
  uint32_t version;      /* of the file */
  size_t elements;       /* of a chunk; the last one of a tensor may be shorter */
  int tensor_count;      /* version 3 divides the array as if it were one tensor */
  size_t *tensor_starts; /* [tensor_count + 1]: in the flat space; the last is its end */
  size_t *tensor_chunks; /* [tensor_count + 1]: first chunk of each; the last is their number */
} train_chunks_t;

typedef struct train_chunk {
  size_t index;
  size_t first, count; /* elements, in the flat space */
  size_t in_tensor;    /* index of `first` in its tensor */
  int tensor;
} train_chunk_t;

/* The chunks of a file of that version with a model of that layout. train_chunks_free is valid also
 * for zeroed *chunks. */
coll_status_t train_chunks_create(uint32_t version, const train_layout_t *layout,
                                  train_chunks_t *chunks);
void train_chunks_free(train_chunks_t *chunks);

/* Number of chunks per array. */
size_t train_chunks_count(const train_chunks_t *chunks);

/* The chunk that contains this element of the flat space. */
train_chunk_t train_chunks_find(const train_chunks_t *chunks, size_t element);

/* Digest of values[count], of which the first is element `first` of the flat space; all are in this
 * chunk. In version 4 it is a part of the chunk's digest, and the digest of a tensor is the sum of
 * those of its chunks. In version 3 only whole chunks have one. */
uint64_t train_chunk_digest(const train_chunks_t *chunks, const train_chunk_t *chunk, size_t first,
                            const float *values, size_t count);

#endif

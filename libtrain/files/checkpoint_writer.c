/*
 * Pieces are gathered in a buffer as long as they follow each other in the file, so that many small
 * ones make few writes. Long pieces of float32 are written from where they are. All are hashed in
 * parts that fit a second-level cache, just before they are written.
 */
#include "libtrain/files/checkpoint_writer.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define BUFFER TRAIN_CHECKPOINT_CHUNK /* elements */
#define DIRECT ((size_t)1 << 14)      /* from this many on, float32 is not copied to the buffer */

/* ---- opening ---- */

/* Builds everything before the arrays, and completes the header. */
static coll_status_t build_start(const train_metadata_t *metadata,
                                 train_checkpoint_writer_t *writer) {
  train_checkpoint_header_t *header = &writer->header;
  char *json;
  void *memory;
  COLL_TRY(train_metadata_to_json(metadata, &json));
  header->metadata_bytes = strlen(json);
  header->tokenizer_bytes = metadata->tokenizer_bytes;
  coll_status_t status =
      base_alloc(train_checkpoint_arrays_at(header), 1, "the checkpoint's metadata", &memory);
  if (status == COLL_OK) {
    char *to = writer->start = memory;
    memcpy(to, header, sizeof *header);
    memcpy(to + sizeof *header, json, header->metadata_bytes);
    if (header->tokenizer_bytes > 0) {
      memcpy(to + sizeof *header + header->metadata_bytes, metadata->tokenizer,
             header->tokenizer_bytes);
    }
  }
  free(json);
  return status;
}

/* Allocates what every writer needs. */
static coll_status_t prepare(const train_model_config_t *config, uint32_t arrays,
                             train_checkpoint_writer_t *writer) {
  void *memory;
  COLL_TRY(train_layout_create(config, &writer->layout));
  COLL_TRY(train_chunks_create(TRAIN_CHECKPOINT_VERSION, writer->layout, &writer->chunks));
  size_t digests = arrays * train_chunks_count(&writer->chunks);
  COLL_TRY(base_alloc(2 * digests, sizeof(uint64_t), "the digests", &memory));
  writer->digests = memory;
  writer->taken = writer->digests + digests;
  COLL_TRY(base_alloc(BUFFER, sizeof(float), "the buffer of a save", &memory));
  writer->buffer = memory;
  writer->header = (train_checkpoint_header_t){.magic = TRAIN_CHECKPOINT_MAGIC,
                                               .version = TRAIN_CHECKPOINT_VERSION,
                                               .arrays = arrays,
                                               .elements = writer->layout->parameter_count,
                                               .chunks = train_chunks_count(&writer->chunks)};
  return COLL_OK;
}

coll_status_t train_checkpoint_writer_open(const char *path, const train_metadata_t *metadata,
                                           train_checkpoint_writer_t *writer) {
  memset(writer, 0, sizeof *writer);
  train_output_open(NULL, &writer->output);
  COLL_TRY(prepare(&metadata->config, metadata->moments ? TRAIN_ARRAYS : 1, writer));
  COLL_TRY(build_start(metadata, writer));
  train_output_open(path, &writer->output);
  return COLL_OK;
}

void train_checkpoint_writer_invite(train_checkpoint_writer_t *writer,
                                    train_checkpoint_invitation_t *invitation) {
  invitation->header = writer->header;
  train_output_invite(&writer->output, &invitation->output);
}

coll_status_t train_checkpoint_writer_join(const train_checkpoint_invitation_t *invitation,
                                           const train_model_config_t *config,
                                           train_checkpoint_writer_t *writer, bool *sees_file) {
  memset(writer, 0, sizeof *writer);
  *sees_file = train_output_join(&invitation->output, &writer->output);
  COLL_TRY(prepare(config, invitation->header.arrays, writer));
  writer->header = invitation->header;
  return COLL_OK;
}

void train_checkpoint_writer_free(train_checkpoint_writer_t *writer) {
  train_output_discard(&writer->output);
  free(writer->buffer);
  free(writer->digests);
  free(writer->start);
  train_chunks_free(&writer->chunks);
  train_layout_destroy(writer->layout);
}

/* ---- pieces ---- */

static void write_buffer(train_checkpoint_writer_t *writer) {
  if (writer->buffered == 0) return;
  train_output_write_at(&writer->output, writer->buffered_at, writer->buffer,
                        writer->buffered * sizeof(float));
  writer->buffered = 0;
}

/* Copies or widens elements into the buffer; there is room for them. Returns where they are. */
static const float *append(train_checkpoint_writer_t *writer, const train_piece_t *piece,
                           size_t first, size_t count, uint64_t at) {
  uint64_t end = writer->buffered_at + writer->buffered * sizeof(float);
  if (writer->buffered + count > BUFFER || end != at) write_buffer(writer);
  if (writer->buffered == 0) writer->buffered_at = at;
  float *to = writer->buffer + writer->buffered;
  train_dtype_widen(piece->dtype, train_dtype_const_at(piece->dtype, piece->values, first), count,
                    to);
  writer->buffered += count;
  return to;
}

/* Writes and hashes elements of a piece that are in one chunk: `count` from `first` of the piece
 * on. */
static void take_part(train_checkpoint_writer_t *writer, const train_piece_t *piece,
                      const train_chunk_t *chunk, size_t first, size_t count) {
  const train_checkpoint_header_t *header = &writer->header;
  size_t element = piece->first + first, digest = piece->array * header->chunks + chunk->index;
  uint64_t at = train_checkpoint_element_at(header, piece->array, element);
  bool direct = piece->dtype == TRAIN_FLOAT32 && count >= DIRECT;
  const float *values =
      direct ? (const float *)piece->values + first : append(writer, piece, first, count, at);
  writer->digests[digest] += train_chunk_digest(&writer->chunks, chunk, element, values, count);
  writer->taken[digest] += count;
  if (!direct) return;
  write_buffer(writer);
  train_output_write_at(&writer->output, at, values, count * sizeof *values);
}

coll_status_t train_checkpoint_writer_take(train_checkpoint_writer_t *writer,
                                           const train_piece_t *piece) {
  for (size_t done = 0; done < piece->count;) {
    size_t element = piece->first + done, left = piece->count - done;
    const train_chunk_t chunk = train_chunks_find(&writer->chunks, element);
    size_t in_chunk = chunk.first + chunk.count - element, here = left < in_chunk ? left : in_chunk;
    take_part(writer, piece, &chunk, done, here);
    done += here;
  }
  return train_output_status(&writer->output);
}

static coll_status_t take(void *context, const train_piece_t *piece) {
  return train_checkpoint_writer_take(context, piece);
}

coll_status_t train_checkpoint_writer_take_all(train_checkpoint_writer_t *writer,
                                               const train_pieces_t *pieces) {
  const train_piece_taker_t taker = {.context = writer, .take = take};
  for (uint32_t array = 0; array < writer->header.arrays; array++) {
    COLL_TRY(pieces->list(pieces->context, (train_array_t)array, &taker));
  }
  return COLL_OK;
}

coll_status_t train_checkpoint_writer_flush(train_checkpoint_writer_t *writer) {
  write_buffer(writer);
  if (writer->output.joined) train_output_sync(&writer->output);
  return train_output_status(&writer->output);
}

/* ---- the end ---- */

uint64_t *train_checkpoint_writer_sums(train_checkpoint_writer_t *writer, size_t *count) {
  *count = 2 * writer->header.arrays * writer->header.chunks;
  return writer->digests;
}

/* Checks that every element was taken once. Overlaps that hide a gap in the same chunk are found
 * when the file is read. */
static coll_status_t check_complete(const train_checkpoint_writer_t *writer) {
  static const char *const names[TRAIN_ARRAYS] = {"parameters", "first moments", "second moments"};
  for (size_t array = 0; array < writer->header.arrays; array++) {
    const uint64_t *taken = writer->taken + array * writer->header.chunks;
    for (size_t element = 0; element < writer->header.elements;) {
      const train_chunk_t chunk = train_chunks_find(&writer->chunks, element);
      if (taken[chunk.index] != chunk.count) {
        return base_fail(COLL_ERROR_INVALID,
                         "cannot write %s: of %zu elements of the %s of %s from %zu on the ranks "
                         "own %llu",
                         writer->output.path, chunk.count, names[array],
                         writer->layout->tensors[chunk.tensor].name, chunk.in_tensor,
                         (unsigned long long)taken[chunk.index]);
      }
      element += chunk.count;
    }
  }
  return COLL_OK;
}

coll_status_t train_checkpoint_writer_finish(train_checkpoint_writer_t *writer) {
  const train_checkpoint_header_t *header = &writer->header;
  train_output_t *output = &writer->output;
  COLL_TRY(check_complete(writer));
  write_buffer(writer);
  size_t bytes = header->arrays * header->chunks * sizeof *writer->digests;
  uint64_t digest = train_checkpoint_rest_digest(header, writer->start, writer->digests);
  uint64_t at = train_checkpoint_digests_at(header);
  train_output_write_at(output, at, writer->digests, bytes);
  train_output_write_at(output, at + bytes, &digest, sizeof digest);
  train_output_write_at(output, 0, writer->start, train_checkpoint_arrays_at(header));
  return train_output_commit(output);
}

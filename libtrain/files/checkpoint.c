/*
 * The header determines the exact file size, so a truncated file is detected before anything else
 * is read. Every chunk has its own digest, so a rank that needs part of a tensor reads and verifies
 * only the chunks around it. The last chunk is cached: a rank that needs some columns of a tensor
 * makes many short reads that fall into the same chunk. A chunk that is needed as a whole is read
 * to where it is needed.
 */
#include "libtrain/files/checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "libtrain/files/checkpoint_writer.h"

#define ELEMENTS_MAX ((uint64_t)1 << 40)
#define METADATA_BYTES_MAX ((size_t)1 << 20)

static const char magic[8] = TRAIN_CHECKPOINT_MAGIC;

/* ---- writing ---- */

coll_status_t train_checkpoint_probe(const char *path) {
  return train_output_probe(path);
}

coll_status_t train_checkpoint_write(const char *path, const train_metadata_t *metadata,
                                     const train_pieces_t *pieces) {
  train_checkpoint_writer_t writer;
  coll_status_t status = train_checkpoint_writer_open(path, metadata, &writer);
  if (status == COLL_OK) status = train_checkpoint_writer_take_all(&writer, pieces);
  if (status == COLL_OK) status = train_checkpoint_writer_finish(&writer);
  train_checkpoint_writer_free(&writer);
  return status;
}

/* ---- reading ---- */

typedef struct reader {
  const train_input_t *input;
  train_checkpoint_header_t header;
  train_chunks_t chunks;
  char *start;          /* everything before the arrays */
  uint64_t *digests;    /* [arrays][chunks], then that of everything outside of the arrays */
  float *values;        /* [chunks.elements]: the cached chunk */
  train_chunk_t cached; /* count 0: none */
  train_array_t cached_array;
} reader_t;

static coll_status_t fail_damaged(const train_input_t *input) {
  return base_fail(COLL_ERROR_INVALID, "checkpoint %s is damaged: its digest does not match",
                   input->path);
}

/* Reads and verifies a chunk. */
static coll_status_t read_chunk(const reader_t *reader, train_array_t array,
                                const train_chunk_t *chunk, float *values) {
  const train_checkpoint_header_t *header = &reader->header;
  uint64_t at = train_checkpoint_element_at(header, array, chunk->first);
  COLL_TRY(train_input_read(reader->input, at, chunk->count * sizeof *values, values));
  uint64_t digest = train_chunk_digest(&reader->chunks, chunk, chunk->first, values, chunk->count);
  return digest == reader->digests[array * header->chunks + chunk->index]
             ? COLL_OK
             : fail_damaged(reader->input);
}

/* Whether the cached chunk contains the element. */
static bool is_cached(const reader_t *reader, train_array_t array, size_t element) {
  const train_chunk_t *cached = &reader->cached;
  return array == reader->cached_array && element - cached->first < cached->count;
}

/* Reads elements of one chunk, at most `count` from `first` on. *here: how many. */
static coll_status_t read_part(reader_t *reader, train_array_t array, size_t first, size_t count,
                               float *values, size_t *here) {
  train_chunk_t *cached = &reader->cached;
  if (!is_cached(reader, array, first)) {
    const train_chunk_t chunk = train_chunks_find(&reader->chunks, first);
    *here = chunk.count;
    if (chunk.first == first && chunk.count <= count) {
      return read_chunk(reader, array, &chunk, values);
    }
    cached->count = 0;
    COLL_TRY(read_chunk(reader, array, &chunk, reader->values));
    *cached = chunk;
    reader->cached_array = array;
  }
  size_t skipped = first - cached->first, left = cached->count - skipped;
  *here = left < count ? left : count;
  memcpy(values, reader->values + skipped, *here * sizeof *values);
  return COLL_OK;
}

static coll_status_t read_array(void *context, train_array_t array, size_t first, size_t count,
                                float *values) {
  reader_t *reader = context;
  if (array >= reader->header.arrays) {
    memset(values, 0, count * sizeof *values);
    return COLL_OK;
  }
  while (count > 0) {
    size_t here;
    COLL_TRY(read_part(reader, array, first, count, values, &here));
    first += here;
    values += here;
    count -= here;
  }
  return COLL_OK;
}

/* ---- opening ---- */

/* Version 3 stores no number of chunks. */
static void complete_old_header(train_checkpoint_header_t *header) {
  if (header->version != TRAIN_CHECKPOINT_OLD_VERSION) return;
  header->chunks = (header->elements + TRAIN_CHUNK - 1) / TRAIN_CHUNK;
}

static coll_status_t read_header(const train_input_t *input, train_checkpoint_header_t *header) {
  if (input->bytes < sizeof *header) {
    return base_fail(COLL_ERROR_INVALID, "%s is too short to be a checkpoint of gpt train",
                     input->path);
  }
  COLL_TRY(train_input_read(input, 0, sizeof *header, header));
  if (memcmp(header->magic, magic, sizeof magic) != 0) {
    return base_fail(COLL_ERROR_INVALID, "%s is not a checkpoint of gpt train", input->path);
  }
  if (header->version != TRAIN_CHECKPOINT_VERSION &&
      header->version != TRAIN_CHECKPOINT_OLD_VERSION) {
    return base_fail(COLL_ERROR_INVALID,
                     "checkpoint %s has format version %u, this program reads versions %d and %d",
                     input->path, header->version, TRAIN_CHECKPOINT_OLD_VERSION,
                     TRAIN_CHECKPOINT_VERSION);
  }
  complete_old_header(header);
  if ((header->arrays != 1 && header->arrays != TRAIN_ARRAYS) || header->elements > ELEMENTS_MAX ||
      header->chunks > header->elements || header->metadata_bytes > METADATA_BYTES_MAX ||
      header->tokenizer_bytes > TRAIN_TOKENIZER_BYTES_MAX) {
    return base_fail(COLL_ERROR_INVALID, "checkpoint %s is damaged: its header is invalid",
                     input->path);
  }
  uint64_t expected = train_checkpoint_bytes(header);
  if (input->bytes != expected) {
    return base_fail(COLL_ERROR_INVALID,
                     "checkpoint %s is truncated or padded: %llu bytes, but its header says %llu",
                     input->path, (unsigned long long)input->bytes, (unsigned long long)expected);
  }
  return COLL_OK;
}

/* Reads and verifies everything outside of the arrays. */
static coll_status_t read_rest(reader_t *reader) {
  const train_checkpoint_header_t *header = &reader->header;
  size_t count = header->arrays * header->chunks + 1, bytes = train_checkpoint_arrays_at(header);
  void *memory;
  COLL_TRY(base_alloc(bytes, 1, "the checkpoint's metadata", &memory));
  reader->start = memory;
  COLL_TRY(base_alloc(count, sizeof *reader->digests, "the digests", &memory));
  reader->digests = memory;
  COLL_TRY(train_input_read(reader->input, 0, bytes, reader->start));
  COLL_TRY(train_input_read(reader->input, train_checkpoint_digests_at(header),
                            count * sizeof *reader->digests, reader->digests));
  return reader->digests[count - 1] ==
                 train_checkpoint_rest_digest(header, reader->start, reader->digests)
             ? COLL_OK
             : fail_damaged(reader->input);
}

/* Parses the metadata and checks it against the header. */
static coll_status_t parse(reader_t *reader, train_model_file_t *file) {
  const train_checkpoint_header_t *header = &reader->header;
  const char *json = reader->start + train_checkpoint_header_bytes(header);
  train_metadata_t *metadata = &file->metadata;
  if (train_metadata_from_json(json, header->metadata_bytes, metadata) != COLL_OK) {
    return base_fail(COLL_ERROR_INVALID, "checkpoint %s cannot be used: %s", file->input.path,
                     base_last_error());
  }
  COLL_TRY(train_metadata_set_tokenizer(metadata, json + header->metadata_bytes,
                                        header->tokenizer_bytes));
  COLL_TRY(train_layout_create(&metadata->config, &file->layout));
  COLL_TRY(train_chunks_create(header->version, file->layout, &reader->chunks));
  if (file->layout->parameter_count == header->elements &&
      train_chunks_count(&reader->chunks) == header->chunks &&
      metadata->moments == (header->arrays == TRAIN_ARRAYS)) {
    return COLL_OK;
  }
  return base_fail(COLL_ERROR_INVALID,
                   "checkpoint %s is damaged: its header and its metadata give different sizes",
                   file->input.path);
}

static void close_checkpoint(train_model_file_t *file) {
  reader_t *reader = file->flat.context;
  if (reader == NULL) return;
  train_chunks_free(&reader->chunks);
  free(reader->values);
  free(reader->digests);
  free(reader->start);
  free(reader);
}

static coll_status_t open_checkpoint(const char *path, train_model_file_t *file) {
  void *memory;
  (void)path; /* file->input is already open */
  COLL_TRY(base_alloc(1, sizeof(reader_t), "a checkpoint", &memory));
  reader_t *reader = memory;
  reader->input = &file->input;
  file->flat = (train_flat_t){.context = reader, .read = read_array};
  COLL_TRY(read_header(&file->input, &reader->header));
  COLL_TRY(read_rest(reader));
  COLL_TRY(parse(reader, file));
  COLL_TRY(base_alloc(reader->chunks.elements, sizeof(float), "a checkpoint's chunk", &memory));
  reader->values = memory;
  return COLL_OK;
}

/* ---- format table entry ---- */

static bool matches_content(const char *path, bool folder, const uint8_t *start, size_t count) {
  (void)path;
  return !folder && count >= sizeof magic && memcmp(start, magic, sizeof magic) == 0;
}

static bool matches_path(const char *path) {
  return train_path_ends_in(path, ".ckpt");
}

static coll_status_t write_checkpoint(const char *path, const train_metadata_t *metadata,
                                      const train_flat_t *flat, train_dtype_t dtype) {
  (void)dtype; /* float32, the only type that it stores */
  train_layout_t *layout;
  COLL_TRY(train_layout_create(&metadata->config, &layout));
  const train_flat_pieces_t all = {.flat = flat, .elements = layout->parameter_count};
  train_layout_destroy(layout);
  const train_pieces_t pieces = train_pieces_of(&all);
  return train_checkpoint_write(path, metadata, &pieces);
}

const train_format_t train_format_checkpoint = {.name = "checkpoint",
                                                .pattern = "*.ckpt",
                                                .stores = {[TRAIN_FLOAT32] = true},
                                                .has_run_state = true,
                                                .has_tokenizer = true,
                                                .matches_content = matches_content,
                                                .matches_path = matches_path,
                                                .open = open_checkpoint,
                                                .close = close_checkpoint,
                                                .write = write_checkpoint};

/*
 * The header determines the exact file size, so a truncated file is detected before anything else
 * is read. Every chunk of an array has its own digest, so a rank that needs part of an array reads
 * and verifies only the chunks around it. The last chunk is cached, because consecutive reads often
 * fall into the same chunk.
 */
#include "libtrain/files/checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "libtrain/files/digest.h"

#define VERSION 3
#define ALIGNMENT 64
#define ELEMENTS_MAX ((uint64_t)1 << 40)
#define METADATA_BYTES_MAX ((size_t)1 << 20)

static const char magic[8] = "collgpt";

typedef struct header {
  char magic[8];
  uint32_t version;
  uint32_t arrays;
  uint64_t elements;
  uint64_t metadata_bytes, tokenizer_bytes;
} header_t;

_Static_assert(sizeof(header_t) == 40, "the header has no padding");

/* ---- file layout ---- */

static uint64_t chunks_of_array(const header_t *header) {
  return (header->elements + TRAIN_CHUNK - 1) / TRAIN_CHUNK;
}

static uint64_t arrays_at(const header_t *header) {
  uint64_t text = sizeof *header + header->metadata_bytes + header->tokenizer_bytes;
  return (text + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static uint64_t digests_at(const header_t *header) {
  return arrays_at(header) + header->arrays * header->elements * sizeof(float);
}

static uint64_t file_bytes(const header_t *header) {
  return digests_at(header) + (header->arrays * chunks_of_array(header) + 1) * sizeof(uint64_t);
}

static size_t chunk_elements(const header_t *header, uint64_t chunk) {
  uint64_t left = header->elements - chunk * TRAIN_CHUNK;
  return left < TRAIN_CHUNK ? (size_t)left : TRAIN_CHUNK;
}

/* Digest of everything outside of the arrays; `text` holds header, metadata, tokenizer and
 * padding. */
static uint64_t metadata_digest(const header_t *header, const char *text, const uint64_t *digests) {
  uint64_t digest = train_digest(0, text, arrays_at(header));
  return train_digest(digest, digests, header->arrays * chunks_of_array(header) * sizeof *digests);
}

/* ---- writing ---- */

coll_status_t train_checkpoint_probe(const char *path) {
  return train_output_probe(path);
}

/* Builds the beginning of the file in new memory: header, metadata, tokenizer and padding. */
static coll_status_t build_header(const train_metadata_t *metadata, header_t *header, char **text) {
  train_layout_t *layout;
  char *json;
  void *memory;
  COLL_TRY(train_layout_create(&metadata->config, &layout));
  size_t elements = layout->parameter_count;
  train_layout_destroy(layout);
  COLL_TRY(train_metadata_to_json(metadata, &json));
  header_t made = {.version = VERSION,
                   .arrays = metadata->moments ? TRAIN_ARRAYS : 1,
                   .elements = elements,
                   .metadata_bytes = strlen(json),
                   .tokenizer_bytes = metadata->tokenizer_bytes};
  memcpy(made.magic, magic, sizeof magic);
  coll_status_t status = base_alloc(arrays_at(&made), 1, "the checkpoint's metadata", &memory);
  if (status == COLL_OK) {
    char *to = memory;
    memcpy(to, &made, sizeof made);
    memcpy(to + sizeof made, json, made.metadata_bytes);
    if (made.tokenizer_bytes > 0) {
      memcpy(to + sizeof made + made.metadata_bytes, metadata->tokenizer, made.tokenizer_bytes);
    }
    *header = made;
    *text = to;
  }
  free(json);
  return status;
}

static coll_status_t write_arrays(const header_t *header, const train_flat_t *flat, float *chunk,
                                  uint64_t *digests, train_output_t *output) {
  for (uint32_t array = 0; array < header->arrays; array++) {
    for (uint64_t i = 0; i < chunks_of_array(header); i++) {
      size_t count = chunk_elements(header, i);
      COLL_TRY(flat->read(flat->context, (train_array_t)array, i * TRAIN_CHUNK, count, chunk));
      *digests++ = train_digest(0, chunk, count * sizeof *chunk);
      train_output_write(output, chunk, count * sizeof *chunk);
    }
  }
  return COLL_OK;
}

coll_status_t train_checkpoint_write(const char *path, const train_metadata_t *metadata,
                                     const train_flat_t *flat) {
  header_t header;
  char *text;
  void *chunk = NULL, *digests = NULL;
  train_output_t output;
  COLL_TRY(build_header(metadata, &header, &text));
  uint64_t chunks = header.arrays * chunks_of_array(&header);
  coll_status_t status = base_alloc(TRAIN_CHUNK, sizeof(float), "a checkpoint's chunk", &chunk);
  if (status == COLL_OK) status = base_alloc(chunks, sizeof(uint64_t), "the digests", &digests);
  if (status != COLL_OK) goto done;
  train_output_open(path, &output);
  train_output_write(&output, text, arrays_at(&header));
  status = write_arrays(&header, flat, chunk, digests, &output);
  if (status != COLL_OK) {
    train_output_discard(&output);
    goto done;
  }
  uint64_t digest = metadata_digest(&header, text, digests);
  train_output_write(&output, digests, chunks * sizeof(uint64_t));
  train_output_write(&output, &digest, sizeof digest);
  status = train_output_commit(&output);
done:
  free(digests);
  free(chunk);
  free(text);
  return status;
}

/* ---- reading ---- */

typedef struct reader {
  const train_input_t *input;
  header_t header;
  uint64_t *digests; /* [arrays * chunks_of_array] */
  float *chunk;      /* [TRAIN_CHUNK]: the cached chunk */
  uint64_t loaded;   /* its index, counted over all arrays; UINT64_MAX for none */
} reader_t;

static coll_status_t fail_damaged(const train_input_t *input) {
  return base_fail(COLL_ERROR_INVALID, "checkpoint %s is damaged: its digest does not match",
                   input->path);
}

/* Loads and verifies a chunk unless it is cached. */
static coll_status_t load_chunk(reader_t *reader, train_array_t array, uint64_t chunk) {
  const header_t *header = &reader->header;
  uint64_t index = array * chunks_of_array(header) + chunk;
  if (reader->loaded == index) return COLL_OK;
  reader->loaded = UINT64_MAX;
  size_t bytes = chunk_elements(header, chunk) * sizeof(float);
  uint64_t at =
      arrays_at(header) + (array * header->elements + chunk * TRAIN_CHUNK) * sizeof(float);
  COLL_TRY(train_input_read(reader->input, at, bytes, reader->chunk));
  if (train_digest(0, reader->chunk, bytes) != reader->digests[index]) {
    return fail_damaged(reader->input);
  }
  reader->loaded = index;
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
    uint64_t chunk = first / TRAIN_CHUNK;
    size_t skipped = first % TRAIN_CHUNK;
    size_t here = chunk_elements(&reader->header, chunk) - skipped;
    if (here > count) here = count;
    COLL_TRY(load_chunk(reader, array, chunk));
    memcpy(values, reader->chunk + skipped, here * sizeof *values);
    first += here;
    values += here;
    count -= here;
  }
  return COLL_OK;
}

static coll_status_t read_header(const train_input_t *input, header_t *header) {
  if (input->bytes < sizeof *header) {
    return base_fail(COLL_ERROR_INVALID, "%s is too short to be a checkpoint of gpt train",
                     input->path);
  }
  COLL_TRY(train_input_read(input, 0, sizeof *header, header));
  if (memcmp(header->magic, magic, sizeof magic) != 0) {
    return base_fail(COLL_ERROR_INVALID, "%s is not a checkpoint of gpt train", input->path);
  }
  if (header->version != VERSION) {
    return base_fail(COLL_ERROR_INVALID,
                     "checkpoint %s has format version %u, this program reads version %d",
                     input->path, header->version, VERSION);
  }
  if ((header->arrays != 1 && header->arrays != TRAIN_ARRAYS) || header->elements > ELEMENTS_MAX ||
      header->metadata_bytes > METADATA_BYTES_MAX ||
      header->tokenizer_bytes > TRAIN_TOKENIZER_BYTES_MAX) {
    return base_fail(COLL_ERROR_INVALID, "checkpoint %s is damaged: its header is invalid",
                     input->path);
  }
  uint64_t expected = file_bytes(header);
  if (input->bytes != expected) {
    return base_fail(COLL_ERROR_INVALID,
                     "checkpoint %s is truncated or padded: %llu bytes, but its header says %llu",
                     input->path, (unsigned long long)input->bytes, (unsigned long long)expected);
  }
  return COLL_OK;
}

/* Reads and verifies everything outside of the arrays. *text is the beginning of the file, in new
 * memory. */
static coll_status_t read_metadata(reader_t *reader, char **text) {
  const header_t *header = &reader->header;
  uint64_t chunks = header->arrays * chunks_of_array(header), digest;
  void *memory;
  COLL_TRY(base_alloc(arrays_at(header), 1, "the checkpoint's metadata", &memory));
  char *read = memory;
  coll_status_t status = train_input_read(reader->input, 0, arrays_at(header), read);
  if (status == COLL_OK) {
    status = train_input_read(reader->input, digests_at(header), chunks * sizeof(uint64_t),
                              reader->digests);
  }
  if (status == COLL_OK) {
    status = train_input_read(reader->input, digests_at(header) + chunks * sizeof(uint64_t),
                              sizeof digest, &digest);
  }
  if (status == COLL_OK && digest != metadata_digest(header, read, reader->digests)) {
    status = fail_damaged(reader->input);
  }
  if (status != COLL_OK) {
    free(read);
    return status;
  }
  *text = read;
  return COLL_OK;
}

/* Parses the metadata and checks it against the header. */
static coll_status_t parse(const reader_t *reader, const char *text, train_model_file_t *file) {
  const header_t *header = &reader->header;
  const char *json = text + sizeof *header;
  train_metadata_t *metadata = &file->metadata;
  if (train_metadata_from_json(json, header->metadata_bytes, metadata) != COLL_OK) {
    return base_fail(COLL_ERROR_INVALID, "checkpoint %s cannot be used: %s", file->input.path,
                     base_last_error());
  }
  COLL_TRY(train_metadata_set_tokenizer(metadata, json + header->metadata_bytes,
                                        header->tokenizer_bytes));
  COLL_TRY(train_layout_create(&metadata->config, &file->layout));
  if (file->layout->parameter_count == header->elements &&
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
  free(reader->chunk);
  free(reader->digests);
  free(reader);
}

static coll_status_t open_checkpoint(const char *path, train_model_file_t *file) {
  void *memory;
  char *text = NULL;
  (void)path; /* file->input is already open */
  COLL_TRY(base_alloc(1, sizeof(reader_t), "a checkpoint", &memory));
  reader_t *reader = memory;
  reader->input = &file->input;
  reader->loaded = UINT64_MAX;
  file->flat = (train_flat_t){.context = reader, .read = read_array};
  coll_status_t status = read_header(&file->input, &reader->header);
  if (status == COLL_OK) {
    uint64_t chunks = reader->header.arrays * chunks_of_array(&reader->header);
    status = base_alloc(chunks, sizeof(uint64_t), "the digests", &memory);
    if (status == COLL_OK) reader->digests = memory;
  }
  if (status == COLL_OK) {
    status = base_alloc(TRAIN_CHUNK, sizeof(float), "a checkpoint's chunk", &memory);
    if (status == COLL_OK) reader->chunk = memory;
  }
  if (status == COLL_OK) status = read_metadata(reader, &text);
  if (status == COLL_OK) status = parse(reader, text, file);
  free(text);
  return status;
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
  return train_checkpoint_write(path, metadata, flat);
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

/* Reading and writing visit the tensors in the file's order. */
#include "libtrain/files/llmc.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "libtrain/files/tensors.h"

#define MAGIC 20240326
#define VERSION_FLOAT32 3
#define VERSION_BFLOAT16 5
#define HEADER_INTS 256
#define VOCABULARY_MULTIPLE 128 /* llm.c pads the vocabulary to a multiple of this */

/* Indexes of the header fields. */
enum { AT_MAGIC, AT_VERSION, AT_CONTEXT, AT_VOCABULARY, AT_LAYERS, AT_HEADS, AT_WIDTH, AT_PADDED };

static size_t elements_of(const train_tensor_t *tensor) {
  return (size_t)tensor->rows * (size_t)tensor->columns;
}

/* The layout index of tensor `position` of the file, 0 .. layout->tensor_count - 1. The file stores
 * the tables, then each block tensor for all layers, then the final layernorm. */
static int tensor_at(const train_layout_t *layout, int position) {
  int layers = layout->config.layers, block = position - TRAIN_FINAL_WEIGHT;
  if (block < 0) return position;
  if (block >= layers * TRAIN_BLOCK_TENSORS) {
    return TRAIN_FINAL_WEIGHT + block - layers * TRAIN_BLOCK_TENSORS;
  }
  return TRAIN_ROOT_TENSORS + block % layers * TRAIN_BLOCK_TENSORS + block / layers;
}

/* ---- reading ---- */

static coll_status_t read_header(train_model_file_t *file, train_dtype_t *dtype, size_t *padded) {
  int32_t header[HEADER_INTS];
  const char *path = file->input.path;
  if (file->input.bytes < sizeof header) {
    return base_fail(COLL_ERROR_INVALID, "%s is too short to be a model file of llm.c", path);
  }
  COLL_TRY(train_input_read(&file->input, 0, sizeof header, header));
  if (header[AT_VERSION] != VERSION_FLOAT32 && header[AT_VERSION] != VERSION_BFLOAT16) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s is a model file of llm.c of version %d; versions %d and %d are supported",
                     path, header[AT_VERSION], VERSION_FLOAT32, VERSION_BFLOAT16);
  }
  const train_model_config_t config = {.vocabulary = header[AT_VOCABULARY],
                                       .context = header[AT_CONTEXT],
                                       .layers = header[AT_LAYERS],
                                       .heads = header[AT_HEADS],
                                       .width = header[AT_WIDTH]};
  if (train_model_config_check(&config) != COLL_OK) {
    return base_fail(COLL_ERROR_INVALID, "%s cannot be used: %s", path, base_last_error());
  }
  if (header[AT_PADDED] < config.vocabulary || header[AT_PADDED] > 2 * (1 << 20)) {
    return base_fail(COLL_ERROR_INVALID, "%s pads a vocabulary of %d to %d", path,
                     config.vocabulary, header[AT_PADDED]);
  }
  file->metadata.config = config;
  *dtype = header[AT_VERSION] == VERSION_FLOAT32 ? TRAIN_FLOAT32 : TRAIN_BFLOAT16;
  *padded = (size_t)header[AT_PADDED];
  return COLL_OK;
}

/* Fills locations[tensor_count]; returns the end of the last tensor. */
static uint64_t locate_tensors(const train_layout_t *layout, train_dtype_t dtype, size_t padded,
                               train_tensor_location_t *locations) {
  uint64_t at = HEADER_INTS * sizeof(int32_t);
  for (int i = 0; i < layout->tensor_count; i++) {
    int index = tensor_at(layout, i);
    const train_tensor_t *tensor = &layout->tensors[index];
    size_t elements =
        index == TRAIN_TOKEN_TABLE ? padded * (size_t)tensor->columns : elements_of(tensor);
    locations[index] = (train_tensor_location_t){.offset = at, .dtype = dtype};
    at += elements * train_dtype_bytes(dtype);
  }
  return at;
}

static coll_status_t open_llmc(const char *path, train_model_file_t *file) {
  train_dtype_t dtype;
  size_t padded;
  void *memory;
  COLL_TRY(read_header(file, &dtype, &padded));
  COLL_TRY(train_layout_create(&file->metadata.config, &file->layout));
  size_t tensors = (size_t)file->layout->tensor_count;
  COLL_TRY(base_alloc(tensors, sizeof(train_tensor_location_t), "the tensor locations", &memory));
  train_tensor_location_t *locations = memory;
  train_tensor_reader_t *reader;
  uint64_t end = locate_tensors(file->layout, dtype, padded, locations);
  coll_status_t status = COLL_OK;
  if (end != file->input.bytes) {
    status = base_fail(COLL_ERROR_INVALID,
                       "%s is truncated or padded: %llu bytes, but its header requires %llu", path,
                       (unsigned long long)file->input.bytes, (unsigned long long)end);
  }
  if (status == COLL_OK) {
    status = train_tensor_reader_create(&file->input, file->layout, locations, &reader);
  }
  if (status == COLL_OK) file->flat = train_tensor_reader_flat(reader);
  free(locations);
  return status;
}

static void close_llmc(train_model_file_t *file) {
  train_tensor_reader_destroy(file->flat.context);
}

/* ---- writing ---- */

static coll_status_t write_tensors(const train_layout_t *layout, train_tensor_writer_t *writer,
                                   size_t padded) {
  const train_model_config_t *config = &layout->config;
  for (int i = 0; i < layout->tensor_count; i++) {
    int index = tensor_at(layout, i);
    COLL_TRY(train_tensor_writer_add(writer, &layout->tensors[index], false));
    if (index == TRAIN_TOKEN_TABLE) {
      train_tensor_writer_pad(writer,
                              (padded - (size_t)config->vocabulary) * (size_t)config->width);
    }
  }
  return COLL_OK;
}

static coll_status_t write_llmc(const char *path, const train_metadata_t *metadata,
                                const train_flat_t *flat, train_dtype_t dtype) {
  const train_model_config_t *config = &metadata->config;
  size_t padded = base_round_up((size_t)config->vocabulary, VOCABULARY_MULTIPLE);
  int32_t version = dtype == TRAIN_FLOAT32 ? VERSION_FLOAT32 : VERSION_BFLOAT16;
  const int32_t header[HEADER_INTS] = {[AT_MAGIC] = MAGIC,
                                       [AT_VERSION] = version,
                                       [AT_CONTEXT] = config->context,
                                       [AT_VOCABULARY] = config->vocabulary,
                                       [AT_LAYERS] = config->layers,
                                       [AT_HEADS] = config->heads,
                                       [AT_WIDTH] = config->width,
                                       [AT_PADDED] = (int32_t)padded};
  train_layout_t *layout;
  train_output_t output;
  if (config->experts > 0 || config->untied) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s: models with %s cannot be written in this format: choose a name that ends "
                     "in .ckpt",
                     path, config->untied ? "an untied head" : "experts");
  }
  train_tensor_writer_t *writer = NULL;
  COLL_TRY(train_layout_create(config, &layout));
  train_output_open(path, &output);
  train_output_write(&output, header, sizeof header);
  coll_status_t status = train_tensor_writer_create(layout, flat, dtype, &output, &writer);
  if (status == COLL_OK) status = write_tensors(layout, writer, padded);
  train_tensor_writer_destroy(writer);
  train_layout_destroy(layout);
  if (status == COLL_OK) return train_output_commit(&output);
  train_output_discard(&output);
  return status;
}

/* ---- format table entry ---- */

static bool matches_content(const char *path, bool folder, const uint8_t *start, size_t count) {
  int32_t number;
  (void)path;
  if (folder || count < sizeof number) return false;
  memcpy(&number, start, sizeof number);
  return number == MAGIC;
}

static bool matches_path(const char *path) {
  return train_path_ends_in(path, ".bin");
}

const train_format_t train_format_llmc = {
    .name = "model of llm.c",
    .pattern = "*.bin",
    .stores = {[TRAIN_FLOAT32] = true, [TRAIN_BFLOAT16] = true},
    .matches_content = matches_content,
    .matches_path = matches_path,
    .open = open_llmc,
    .close = close_llmc,
    .write = write_llmc};

/* Tensors are found by name and checked against the shapes that config.json implies. */
#include "libtrain/files/huggingface.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "libtrain/files/huggingface_config.h"
#include "libtrain/files/safetensors.h"
#include "libtrain/files/tensors.h"

#define PREFIX "transformer."
#define CLASSIFIER "lm_head.weight"
#define COMPARED_BYTES ((size_t)1 << 20)

/* ---- file names ---- */

/* The three files of a model. `path` is a folder or the safetensors file in one. */
typedef struct paths {
  char tensors[PATH_MAX], config[PATH_MAX], tokenizer[PATH_MAX];
} paths_t;

static bool is_folder(const char *path) {
  struct stat found;
  return train_path_ends_in(path, "/") || (stat(path, &found) == 0 && S_ISDIR(found.st_mode));
}

static coll_status_t paths_of(const char *path, paths_t *paths) {
  char folder[PATH_MAX - 32];
  if (snprintf(folder, sizeof folder, "%s", path) >= (int)sizeof folder) {
    return base_fail(COLL_ERROR_INVALID, "the path is too long: %s", path);
  }
  if (is_folder(path)) {
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/') folder[--length] = '\0';
    snprintf(paths->tensors, sizeof paths->tensors, "%s/model.safetensors", folder);
  } else {
    snprintf(paths->tensors, sizeof paths->tensors, "%s", path);
    const char *parent = dirname(folder);
    memmove(folder, parent, strlen(parent) + 1);
  }
  snprintf(paths->config, sizeof paths->config, "%s/config.json", folder);
  snprintf(paths->tokenizer, sizeof paths->tokenizer, "%s/tokenizer.json", folder);
  return COLL_OK;
}

/* ---- reading ---- */

/* Names of element types in safetensors. */
static const char types[TRAIN_DTYPES][8] = {
    [TRAIN_FLOAT32] = "F32", [TRAIN_BFLOAT16] = "BF16", [TRAIN_FLOAT16] = "F16"};

static bool dtype_of(const char *type, train_dtype_t *dtype) {
  for (int i = 0; i < TRAIN_DTYPES; i++) {
    if (strcmp(type, types[i]) == 0) {
      *dtype = (train_dtype_t)i;
      return true;
    }
  }
  return false;
}

/* The tensor as transformers stores it, without name and offset. */
static train_safetensor_t stored_tensor(const train_tensor_t *tensor, train_dtype_t dtype) {
  uint64_t rows = (uint64_t)tensor->rows, columns = (uint64_t)tensor->columns;
  train_safetensor_t stored = {.bytes = rows * columns * train_dtype_bytes(dtype)};
  memcpy(stored.type, types[dtype], sizeof stored.type);
  if (tensor->decays) {
    stored.dimensions = 2;
    stored.shape[0] = tensor->linear ? columns : rows;
    stored.shape[1] = tensor->linear ? rows : columns;
  } else {
    stored.dimensions = 1;
    stored.shape[0] = columns;
  }
  return stored;
}

static bool has_shape(const train_safetensor_t *tensor, const train_safetensor_t *shape) {
  return tensor->dimensions == shape->dimensions &&
         memcmp(tensor->shape, shape->shape, (size_t)shape->dimensions * sizeof *shape->shape) == 0;
}

/* Finds the tensor in the list under its name with `prefix`. */
static coll_status_t locate_tensor(const char *path, const train_safetensors_t *list,
                                   const char *prefix, const train_tensor_t *tensor,
                                   train_tensor_location_t *location) {
  char name[64], texts[2][96];
  snprintf(name, sizeof name, "%s%s", prefix, tensor->name);
  const train_safetensor_t *found = train_safetensors_find(list, name);
  if (found == NULL) return base_fail(COLL_ERROR_INVALID, "%s has no tensor %s", path, name);
  train_safetensor_t expected = stored_tensor(tensor, TRAIN_FLOAT32);
  if (!has_shape(found, &expected)) {
    return base_fail(COLL_ERROR_INVALID, "%s: tensor %s is %s; its config.json requires %s", path,
                     name, train_safetensor_shape(found, texts[0]),
                     train_safetensor_shape(&expected, texts[1]));
  }
  if (!dtype_of(found->type, &location->dtype)) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s: tensor %s has type %s; F32, F16 and BF16 are supported", path, name,
                     found->type);
  }
  location->offset = found->offset;
  location->transposed = tensor->linear;
  return COLL_OK;
}

/* Whether the name is an attention mask (h.N.attn.bias), which older versions save. */
static bool is_mask(const char *name) {
  if (strncmp(name, "h.", 2) != 0) return false;
  size_t digits = strspn(name + 2, "0123456789");
  const char *rest = name + 2 + digits;
  return digits > 0 && (strcmp(rest, ".attn.bias") == 0 || strcmp(rest, ".attn.masked_bias") == 0);
}

static bool is_of_layout(const train_layout_t *layout, const char *name) {
  for (int i = 0; i < layout->tensor_count; i++) {
    if (strcmp(layout->tensors[i].name, name) == 0) return true;
  }
  return false;
}

/* A separate classifier tensor must be equal to the token table, because this GPT-2 ties them. */
static coll_status_t check_classifier(const train_input_t *input, const train_safetensor_t *head,
                                      const train_safetensor_t *table) {
  void *memory;
  bool same = strcmp(head->type, table->type) == 0 && head->bytes == table->bytes;
  COLL_TRY(base_alloc(2, COMPARED_BYTES, "a comparison", &memory));
  char *here = memory, *stored = here + COMPARED_BYTES;
  coll_status_t status = COLL_OK;
  for (uint64_t at = 0; same && at < head->bytes && status == COLL_OK; at += COMPARED_BYTES) {
    uint64_t left = head->bytes - at;
    size_t count = left < COMPARED_BYTES ? (size_t)left : COMPARED_BYTES;
    status = train_input_read(input, head->offset + at, count, here);
    if (status == COLL_OK) status = train_input_read(input, table->offset + at, count, stored);
    same = status == COLL_OK && memcmp(here, stored, count) == 0;
  }
  free(memory);
  if (status != COLL_OK || same) return status;
  return base_fail(COLL_ERROR_INVALID,
                   "%s: " CLASSIFIER " differs from wte.weight; this GPT-2 ties them", input->path);
}

static coll_status_t check_others(const train_model_file_t *file, const train_safetensors_t *list,
                                  const char *prefix) {
  char table[64];
  snprintf(table, sizeof table, "%swte.weight", prefix);
  for (size_t i = 0; i < list->count; i++) {
    const char *name = list->tensors[i].name;
    if (strcmp(name, CLASSIFIER) == 0) {
      COLL_TRY(
          check_classifier(&file->input, &list->tensors[i], train_safetensors_find(list, table)));
      continue;
    }
    bool prefixed = strncmp(name, prefix, strlen(prefix)) == 0;
    const char *bare = prefixed ? name + strlen(prefix) : name;
    if (!prefixed || (!is_mask(bare) && !is_of_layout(file->layout, bare))) {
      return base_fail(COLL_ERROR_INVALID,
                       "%s has a tensor %.64s; a GPT-2 of %d layers has none of that name",
                       file->input.path, name, file->layout->config.layers);
    }
  }
  return COLL_OK;
}

static coll_status_t locate_tensors(train_model_file_t *file, const train_safetensors_t *list) {
  void *memory;
  const train_layout_t *layout = file->layout;
  const char *prefix = train_safetensors_find(list, PREFIX "wte.weight") != NULL ? PREFIX : "";
  COLL_TRY(base_alloc((size_t)layout->tensor_count, sizeof(train_tensor_location_t),
                      "tensor locations", &memory));
  train_tensor_location_t *locations = memory;
  coll_status_t status = COLL_OK;
  for (int i = 0; i < layout->tensor_count && status == COLL_OK; i++) {
    status = locate_tensor(file->input.path, list, prefix, &layout->tensors[i], &locations[i]);
  }
  if (status == COLL_OK) status = check_others(file, list, prefix);
  train_tensor_reader_t *reader;
  if (status == COLL_OK) {
    status = train_tensor_reader_create(&file->input, layout, locations, &reader);
  }
  if (status == COLL_OK) file->flat = train_tensor_reader_flat(reader);
  free(locations);
  return status;
}

/* Opens the tensors of a folder. If they are missing, the error depends on what the folder
 * contains. */
static coll_status_t open_tensors(const char *path, const paths_t *paths, train_input_t *input) {
  char index[PATH_MAX + 16];
  if (access(paths->tensors, F_OK) == 0) return train_input_open(paths->tensors, input);
  snprintf(index, sizeof index, "%s.index.json", paths->tensors);
  if (access(index, F_OK) != 0) {
    return base_fail(COLL_ERROR_INVALID, "%s is a folder without a model.safetensors", path);
  }
  return base_fail(COLL_ERROR_INVALID,
                   "%s has a model in several files; save it as one file (max_shard_size)", path);
}

static coll_status_t open_huggingface(const char *path, train_model_file_t *file) {
  paths_t paths;
  train_safetensors_t list = {0};
  COLL_TRY(paths_of(path, &paths));
  if (is_folder(path)) COLL_TRY(open_tensors(path, &paths, &file->input));
  COLL_TRY(train_huggingface_config_read(paths.config, &file->metadata.config));
  COLL_TRY(train_layout_create(&file->metadata.config, &file->layout));
  if (access(paths.tokenizer, F_OK) == 0) {
    COLL_TRY(train_input_read_all(paths.tokenizer, TRAIN_TOKENIZER_BYTES_MAX,
                                  &file->metadata.tokenizer, &file->metadata.tokenizer_bytes));
  }
  COLL_TRY(train_safetensors_read(&file->input, &list));
  coll_status_t status = locate_tensors(file, &list);
  train_safetensors_free(&list);
  return status;
}

static void close_huggingface(train_model_file_t *file) {
  train_tensor_reader_destroy(file->flat.context);
}

/* ---- writing ---- */

/* Writes the safetensors header. Tensor names are owned by the layout. */
static coll_status_t write_header(const train_layout_t *layout, train_dtype_t dtype,
                                  train_output_t *output) {
  void *memory;
  size_t count = (size_t)layout->tensor_count;
  COLL_TRY(base_alloc(count, sizeof(train_safetensor_t), "a safetensors header", &memory));
  train_safetensor_t *tensors = memory;
  for (size_t i = 0; i < count; i++) {
    tensors[i] = stored_tensor(&layout->tensors[i], dtype);
    tensors[i].name = layout->tensors[i].name;
  }
  coll_status_t status = train_safetensors_begin(tensors, count, output);
  free(tensors);
  return status;
}

static coll_status_t write_tensors(const char *path, const train_layout_t *layout,
                                   const train_flat_t *flat, train_dtype_t dtype) {
  train_output_t output;
  train_tensor_writer_t *writer = NULL;
  train_output_open(path, &output);
  coll_status_t status = write_header(layout, dtype, &output);
  if (status == COLL_OK) status = train_tensor_writer_create(layout, flat, dtype, &output, &writer);
  for (int i = 0; status == COLL_OK && i < layout->tensor_count; i++) {
    const train_tensor_t *tensor = &layout->tensors[i];
    status = train_tensor_writer_add(writer, tensor, tensor->linear);
  }
  train_tensor_writer_destroy(writer);
  if (status == COLL_OK) return train_output_commit(&output);
  train_output_discard(&output);
  return status;
}

static coll_status_t write_config(const char *path, const train_metadata_t *metadata,
                                  train_dtype_t dtype) {
  train_output_t output;
  train_output_open(path, &output);
  coll_status_t status = train_huggingface_config_write(metadata, dtype, &output);
  if (status == COLL_OK) return train_output_commit(&output);
  train_output_discard(&output);
  return status;
}

/* Refuses to replace a different tokenizer, which belongs to something else. */
static coll_status_t check_tokenizer_replaceable(const char *path,
                                                 const train_metadata_t *metadata) {
  char *bytes = NULL;
  size_t count = 0;
  if (metadata->tokenizer == NULL || access(path, F_OK) != 0) return COLL_OK;
  bool same = train_input_read_all(path, metadata->tokenizer_bytes, &bytes, &count) == COLL_OK &&
              count == metadata->tokenizer_bytes && memcmp(bytes, metadata->tokenizer, count) == 0;
  free(bytes);
  if (same) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "%s exists and is not the model's tokenizer: write the model to another folder, "
                   "or move the file",
                   path);
}

static coll_status_t write_tokenizer(const char *path, const train_metadata_t *metadata) {
  train_output_t output;
  if (metadata->tokenizer == NULL) return COLL_OK;
  train_output_open(path, &output);
  train_output_write(&output, metadata->tokenizer, metadata->tokenizer_bytes);
  return train_output_commit(&output);
}

static coll_status_t write_huggingface(const char *path, const train_metadata_t *metadata,
                                       const train_flat_t *flat, train_dtype_t dtype) {
  const train_model_config_t *config = &metadata->config;
  paths_t paths;
  train_layout_t *layout;
  if (config->experts > 0 || config->untied) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s: models with %s cannot be written in this format: choose a name that ends "
                     "in .ckpt",
                     path, config->untied ? "an untied head" : "experts");
  }
  COLL_TRY(paths_of(path, &paths));
  if (is_folder(path) && mkdir(path, 0777) != 0 && errno != EEXIST) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "cannot create the folder %s", path);
  }
  COLL_TRY(train_huggingface_config_check_replaceable(paths.config));
  COLL_TRY(check_tokenizer_replaceable(paths.tokenizer, metadata));
  COLL_TRY(train_layout_create(&metadata->config, &layout));
  coll_status_t status = write_tensors(paths.tensors, layout, flat, dtype);
  train_layout_destroy(layout);
  if (status == COLL_OK) status = write_config(paths.config, metadata, dtype);
  if (status == COLL_OK) status = write_tokenizer(paths.tokenizer, metadata);
  return status;
}

/* ---- format table entry ---- */

static bool matches_content(const char *path, bool folder, const uint8_t *start, size_t count) {
  (void)path;
  return folder || train_safetensors_matches(start, count);
}

static bool matches_path(const char *path) {
  return train_path_ends_in(path, ".safetensors") || is_folder(path);
}

const train_format_t train_format_huggingface = {
    .name = "safetensors model",
    .pattern = "*.safetensors or a folder/",
    .has_tokenizer = true,
    .stores = {[TRAIN_FLOAT32] = true, [TRAIN_BFLOAT16] = true, [TRAIN_FLOAT16] = true},
    .matches_content = matches_content,
    .matches_path = matches_path,
    .open = open_huggingface,
    .close = close_huggingface,
    .write = write_huggingface};

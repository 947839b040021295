/* Tensors are matched by name, each held against the shape that config.json asks for. */
#include "libtrain/files/huggingface.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "libtrain/files/huggingface_config.h"
#include "libtrain/files/safetensors.h"
#include "libtrain/files/tensors.h"

#define PREFIX "transformer."
#define CLASSIFIER "lm_head.weight"
#define COMPARED_BYTES ((size_t)1 << 20)

/* ---- which files ---- */

/* The three files of a model at `path`, a folder or the safetensors file in one. */
typedef struct places {
  char tensors[PATH_MAX], config[PATH_MAX], tokenizer[PATH_MAX];
} places_t;

static bool is_folder(const char *path) {
  struct stat found;
  return train_path_ends_in(path, "/") || (stat(path, &found) == 0 && S_ISDIR(found.st_mode));
}

static coll_status_t places_of(const char *path, places_t *places) {
  char folder[PATH_MAX - 32];
  if (snprintf(folder, sizeof folder, "%s", path) >= (int)sizeof folder) {
    return base_fail(COLL_ERROR_INVALID, "the path is too long: %s", path);
  }
  if (is_folder(path)) {
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/') folder[--length] = '\0';
    snprintf(places->tensors, sizeof places->tensors, "%s/model.safetensors", folder);
  } else {
    snprintf(places->tensors, sizeof places->tensors, "%s", path);
    const char *parent = dirname(folder);
    memmove(folder, parent, strlen(parent) + 1);
  }
  snprintf(places->config, sizeof places->config, "%s/config.json", folder);
  snprintf(places->tokenizer, sizeof places->tokenizer, "%s/tokenizer.json", folder);
  return COLL_OK;
}

/* ---- reading ---- */

static bool element_of(const char *type, train_element_t *element) {
  static const char *const types[] = {
      [TRAIN_FLOAT32] = "F32", [TRAIN_FLOAT16] = "F16", [TRAIN_BFLOAT16] = "BF16"};
  for (int i = 0; i < 3; i++) {
    if (strcmp(type, types[i]) == 0) {
      *element = (train_element_t)i;
      return true;
    }
  }
  return false;
}

/* The shape in which transformers keeps the tensor. */
static train_safetensor_t as_there(const train_tensor_t *tensor) {
  uint64_t rows = (uint64_t)tensor->rows, columns = (uint64_t)tensor->columns;
  train_safetensor_t there = {.type = "F32", .bytes = rows * columns * sizeof(float)};
  if (tensor->decays) {
    there.dimensions = 2;
    there.shape[0] = tensor->linear ? columns : rows;
    there.shape[1] = tensor->linear ? rows : columns;
  } else {
    there.dimensions = 1;
    there.shape[0] = columns;
  }
  return there;
}

static bool has_shape(const train_safetensor_t *tensor, const train_safetensor_t *shape) {
  return tensor->dimensions == shape->dimensions &&
         memcmp(tensor->shape, shape->shape, (size_t)shape->dimensions * sizeof *shape->shape) == 0;
}

/* Where the tensor is in the list, its name with `prefix` before it. */
static coll_status_t place_of(const char *path, const train_safetensors_t *list, const char *prefix,
                              const train_tensor_t *tensor, train_place_t *place) {
  char name[64], texts[2][96];
  snprintf(name, sizeof name, "%s%s", prefix, tensor->name);
  const train_safetensor_t *found = train_safetensors_find(list, name);
  if (found == NULL) return base_fail(COLL_ERROR_INVALID, "%s has no tensor %s", path, name);
  train_safetensor_t expected = as_there(tensor);
  if (!has_shape(found, &expected)) {
    return base_fail(COLL_ERROR_INVALID, "%s: tensor %s is %s; its config.json asks for %s", path,
                     name, train_safetensor_shape(found, texts[0]),
                     train_safetensor_shape(&expected, texts[1]));
  }
  if (!element_of(found->type, &place->element)) {
    return base_fail(COLL_ERROR_INVALID, "%s: tensor %s is of type %s; F32, F16 and BF16 are read",
                     path, name, found->type);
  }
  place->offset = found->offset;
  place->transposed = tensor->linear;
  return COLL_OK;
}

/* Whether the name is one of the attention masks that older versions save: h.N.attn.bias. */
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

/* Whether the classifier that the file has is the token table once more, as it has to be. */
static coll_status_t check_classifier(const train_input_t *input, const train_safetensor_t *head,
                                      const train_safetensor_t *table) {
  void *memory;
  bool same = strcmp(head->type, table->type) == 0 && head->bytes == table->bytes;
  COLL_TRY(base_alloc(2, COMPARED_BYTES, "a comparison", &memory));
  char *here = memory, *there = here + COMPARED_BYTES;
  coll_status_t status = COLL_OK;
  for (uint64_t at = 0; same && at < head->bytes && status == COLL_OK; at += COMPARED_BYTES) {
    uint64_t left = head->bytes - at;
    size_t count = left < COMPARED_BYTES ? (size_t)left : COMPARED_BYTES;
    status = train_input_read(input, head->offset + at, count, here);
    if (status == COLL_OK) status = train_input_read(input, table->offset + at, count, there);
    same = status == COLL_OK && memcmp(here, there, count) == 0;
  }
  free(memory);
  if (status != COLL_OK || same) return status;
  return base_fail(COLL_ERROR_INVALID,
                   "%s: " CLASSIFIER " is not wte.weight once more; this GPT-2 ties them",
                   input->path);
}

static coll_status_t check_others(const train_file_t *file, const train_safetensors_t *list,
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

static coll_status_t place_all(train_file_t *file, const train_safetensors_t *list) {
  void *memory;
  const train_layout_t *layout = file->layout;
  const char *prefix = train_safetensors_find(list, PREFIX "wte.weight") != NULL ? PREFIX : "";
  COLL_TRY(base_alloc((size_t)layout->tensor_count, sizeof(train_place_t), "places", &memory));
  train_place_t *places = memory;
  coll_status_t status = COLL_OK;
  for (int i = 0; i < layout->tensor_count && status == COLL_OK; i++) {
    status = place_of(file->input.path, list, prefix, &layout->tensors[i], &places[i]);
  }
  if (status == COLL_OK) status = check_others(file, list, prefix);
  train_tensor_reader_t *reader;
  if (status == COLL_OK) {
    status = train_tensor_reader_create(&file->input, layout, places, &reader);
  }
  if (status == COLL_OK) file->flat = train_tensor_reader_flat(reader);
  free(places);
  return status;
}

/* Opens the tensors in a folder; one that lacks them is told apart by what it has instead. */
static coll_status_t open_tensors(const char *path, const places_t *places, train_input_t *input) {
  char index[PATH_MAX + 16];
  if (access(places->tensors, F_OK) == 0) return train_input_open(places->tensors, input);
  snprintf(index, sizeof index, "%s.index.json", places->tensors);
  if (access(index, F_OK) != 0) {
    return base_fail(COLL_ERROR_INVALID, "%s is a folder without a model.safetensors", path);
  }
  return base_fail(COLL_ERROR_INVALID,
                   "%s has its model in several files; save it as one (max_shard_size)", path);
}

static coll_status_t open_huggingface(const char *path, train_file_t *file) {
  places_t places;
  train_safetensors_t list = {0};
  COLL_TRY(places_of(path, &places));
  if (is_folder(path)) COLL_TRY(open_tensors(path, &places, &file->input));
  COLL_TRY(train_huggingface_config_read(places.config, &file->record.config));
  COLL_TRY(train_layout_create(&file->record.config, &file->layout));
  if (access(places.tokenizer, F_OK) == 0) {
    COLL_TRY(train_input_read_all(places.tokenizer, TRAIN_TOKENIZER_BYTES_MAX,
                                  &file->record.tokenizer, &file->record.tokenizer_bytes));
  }
  COLL_TRY(train_safetensors_read(&file->input, &list));
  coll_status_t status = place_all(file, &list);
  train_safetensors_free(&list);
  return status;
}

static void close_huggingface(train_file_t *file) {
  train_tensor_reader_destroy(file->flat.context);
}

/* ---- writing ---- */

/* The tensors of the layout as the header lists them; their names belong to the layout. */
static coll_status_t begin(const train_layout_t *layout, train_output_t *output) {
  void *memory;
  size_t count = (size_t)layout->tensor_count;
  COLL_TRY(base_alloc(count, sizeof(train_safetensor_t), "a safetensors header", &memory));
  train_safetensor_t *tensors = memory;
  for (size_t i = 0; i < count; i++) {
    tensors[i] = as_there(&layout->tensors[i]);
    tensors[i].name = layout->tensors[i].name;
  }
  coll_status_t status = train_safetensors_begin(tensors, count, output);
  free(tensors);
  return status;
}

static coll_status_t write_tensors(const char *path, const train_layout_t *layout,
                                   const train_flat_t *flat) {
  train_output_t output;
  train_tensor_writer_t *writer = NULL;
  train_output_open(path, &output);
  coll_status_t status = begin(layout, &output);
  if (status == COLL_OK) status = train_tensor_writer_create(layout, flat, &output, &writer);
  for (int i = 0; status == COLL_OK && i < layout->tensor_count; i++) {
    const train_tensor_t *tensor = &layout->tensors[i];
    status = train_tensor_writer_add(writer, tensor, tensor->linear);
  }
  train_tensor_writer_destroy(writer);
  if (status == COLL_OK) return train_output_commit(&output);
  train_output_discard(&output);
  return status;
}

static coll_status_t write_config(const char *path, const train_record_t *record) {
  train_output_t output;
  train_output_open(path, &output);
  coll_status_t status = train_huggingface_config_write(record, &output);
  if (status == COLL_OK) return train_output_commit(&output);
  train_output_discard(&output);
  return status;
}

/* Another one that lies there is somebody's work. */
static coll_status_t guard_tokenizer(const char *path, const train_record_t *record) {
  char *bytes = NULL;
  size_t count = 0;
  if (record->tokenizer == NULL || access(path, F_OK) != 0) return COLL_OK;
  bool same = train_input_read_all(path, record->tokenizer_bytes, &bytes, &count) == COLL_OK &&
              count == record->tokenizer_bytes && memcmp(bytes, record->tokenizer, count) == 0;
  free(bytes);
  if (same) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "%s is there and not the model's: write the model to another folder, or move it",
                   path);
}

static coll_status_t write_tokenizer(const char *path, const train_record_t *record) {
  train_output_t output;
  if (record->tokenizer == NULL) return COLL_OK;
  train_output_open(path, &output);
  train_output_write(&output, record->tokenizer, record->tokenizer_bytes);
  return train_output_commit(&output);
}

static coll_status_t write_huggingface(const char *path, const train_record_t *record,
                                       const train_flat_t *flat) {
  places_t places;
  train_layout_t *layout;
  COLL_TRY(places_of(path, &places));
  if (is_folder(path) && mkdir(path, 0777) != 0 && errno != EEXIST) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "cannot create the folder %s", path);
  }
  COLL_TRY(train_huggingface_config_guard(places.config));
  COLL_TRY(guard_tokenizer(places.tokenizer, record));
  COLL_TRY(train_layout_create(&record->config, &layout));
  coll_status_t status = write_tensors(places.tensors, layout, flat);
  train_layout_destroy(layout);
  if (status == COLL_OK) status = write_config(places.config, record);
  if (status == COLL_OK) status = write_tokenizer(places.tokenizer, record);
  return status;
}

/* ---- as a format ---- */

static bool recognizes(const char *path, bool folder, const uint8_t *start, size_t count) {
  (void)path;
  return folder || train_safetensors_recognizes(start, count);
}

static bool claims(const char *path) {
  return train_path_ends_in(path, ".safetensors") || is_folder(path);
}

const train_format_t train_format_huggingface = {.name = "safetensors model",
                                                 .names = "*.safetensors or a folder/",
                                                 .keeps_tokenizer = true,
                                                 .recognizes = recognizes,
                                                 .claims = claims,
                                                 .open = open_huggingface,
                                                 .close = close_huggingface,
                                                 .write = write_huggingface};

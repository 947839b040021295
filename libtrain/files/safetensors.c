/* Parses the header with jansson, then sorts the tensors by offset and checks them against each
 * other. */
#include "libtrain/files/safetensors.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define HEADER_BYTES_MAX ((uint64_t)16 << 20) /* the header of GPT-2 XL has 0.1 MB */
#define METADATA "__metadata__"

/* Bytes per element; 0 for an unknown type. */
static uint64_t bytes_of_type(const char *type) {
  static const struct {
    const char *name;
    uint64_t bytes;
  } types[] = {{"F32", 4}, {"F16", 2}, {"BF16", 2},    {"F64", 8},     {"BOOL", 1},   {"U8", 1},
               {"I8", 1},  {"U16", 2}, {"I16", 2},     {"U32", 4},     {"I32", 4},    {"U64", 8},
               {"I64", 8}, {"C64", 8}, {"F8_E8M0", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    if (strcmp(type, types[i].name) == 0) return types[i].bytes;
  }
  return 0;
}

bool train_safetensors_matches(const uint8_t *start, size_t count) {
  uint64_t header;
  if (count < sizeof header + 1) return false;
  memcpy(&header, start, sizeof header);
  return start[sizeof header] == '{' && header >> 32 == 0;
}

void train_safetensors_free(train_safetensors_t *list) {
  for (size_t i = 0; i < list->count; i++) free(list->tensors[i].name);
  free(list->tensors);
  *list = (train_safetensors_t){0};
}

const train_safetensor_t *train_safetensors_find(const train_safetensors_t *list,
                                                 const char *name) {
  for (size_t i = 0; i < list->count; i++) {
    if (strcmp(list->tensors[i].name, name) == 0) return &list->tensors[i];
  }
  return NULL;
}

const char *train_safetensor_shape(const train_safetensor_t *tensor, char text[96]) {
  size_t used = (size_t)snprintf(text, 96, "[");
  for (int i = 0; i < tensor->dimensions && used < 96; i++) {
    used +=
        (size_t)snprintf(text + used, 96 - used, "%s%" PRIu64, i > 0 ? ", " : "", tensor->shape[i]);
  }
  if (used < 96) snprintf(text + used, 96 - used, "]");
  return text;
}

/* ---- reading ---- */

/* Reads an array of exactly `count` non-negative integers into values; false for anything else. */
static bool read_integers(json_t *array, size_t count, uint64_t *values) {
  if (!json_is_array(array) || json_array_size(array) != count) return false;
  for (size_t i = 0; i < count; i++) {
    json_t *value = json_array_get(array, i);
    if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
    values[i] = (uint64_t)json_integer_value(value);
  }
  return true;
}

/* Whether the tensor's size matches its type and shape. */
static bool has_matching_size(const train_safetensor_t *tensor) {
  uint64_t bytes = bytes_of_type(tensor->type);
  for (int i = 0; i < tensor->dimensions; i++) {
    if (__builtin_mul_overflow(bytes, tensor->shape[i], &bytes)) return false;
  }
  return bytes_of_type(tensor->type) > 0 && bytes == tensor->bytes;
}

/* Parses a header entry. `data` is the file offset of the tensor data. */
static coll_status_t parse_entry(const train_input_t *input, const char *name, json_t *entry,
                                 uint64_t data, train_safetensor_t *tensor) {
  const char *type;
  json_t *shape, *offsets;
  uint64_t range[2];
  if (json_unpack(entry, "{s:s, s:o, s:o}", "dtype", &type, "shape", &shape, "data_offsets",
                  &offsets) != 0 ||
      strlen(type) >= sizeof tensor->type ||
      json_array_size(shape) > TRAIN_SAFETENSORS_DIMENSIONS ||
      !read_integers(shape, json_array_size(shape), tensor->shape) ||
      !read_integers(offsets, 2, range)) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s: its header has no valid dtype, shape and data_offsets for tensor %.64s",
                     input->path, name);
  }
  snprintf(tensor->type, sizeof tensor->type, "%s", type);
  tensor->dimensions = (int)json_array_size(shape);
  if (range[0] > range[1] || range[1] > input->bytes - data) {
    return base_fail(COLL_ERROR_INVALID, "%s: tensor %.64s is outside of the file", input->path,
                     name);
  }
  tensor->offset = data + range[0];
  tensor->bytes = range[1] - range[0];
  if (!has_matching_size(tensor)) {
    char text[96];
    return base_fail(COLL_ERROR_INVALID, "%s: tensor %.64s has %" PRIu64 " bytes for %s %s",
                     input->path, name, tensor->bytes, type, train_safetensor_shape(tensor, text));
  }
  return COLL_OK;
}

static int by_offset(const void *a, const void *b) {
  const train_safetensor_t *x = a, *y = b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Checks that the sorted tensors cover the file from `data` to its end. */
static coll_status_t check_offsets(const train_input_t *input, const train_safetensors_t *list,
                                   uint64_t data) {
  uint64_t end = data;
  for (size_t i = 0; i < list->count; i++) {
    const train_safetensor_t *tensor = &list->tensors[i];
    if (tensor->offset != end) {
      return base_fail(COLL_ERROR_INVALID, "%s: tensor %.64s %s", input->path, tensor->name,
                       tensor->offset < end ? "overlaps another one" : "comes after a gap");
    }
    end += tensor->bytes;
  }
  if (end == input->bytes) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "%s: %" PRIu64 " bytes after the last tensor", input->path,
                   input->bytes - end);
}

static coll_status_t parse_header(const train_input_t *input, json_t *root, uint64_t data,
                                  train_safetensors_t *list) {
  const char *name;
  json_t *entry;
  void *memory;
  if (!json_is_object(root)) {
    return base_fail(COLL_ERROR_INVALID, "%s: its header is not a JSON object", input->path);
  }
  COLL_TRY(base_alloc(json_object_size(root), sizeof *list->tensors, "the tensors", &memory));
  list->tensors = memory;
  json_object_foreach(root, name, entry) {
    if (strcmp(name, METADATA) == 0) continue;
    train_safetensor_t *tensor = &list->tensors[list->count];
    COLL_TRY(parse_entry(input, name, entry, data, tensor));
    COLL_TRY(base_alloc(strlen(name) + 1, 1, "a name", &memory));
    tensor->name = memory;
    memcpy(tensor->name, name, strlen(name));
    list->count++;
  }
  qsort(list->tensors, list->count, sizeof *list->tensors, by_offset);
  return check_offsets(input, list, data);
}

/* Parses the JSON header; *data is the offset of its end. */
static coll_status_t load_header(const train_input_t *input, json_t **root, uint64_t *data) {
  uint64_t count;
  void *text;
  json_error_t error;
  if (input->bytes < sizeof count) {
    return base_fail(COLL_ERROR_INVALID, "%s is too short to be a safetensors file", input->path);
  }
  COLL_TRY(train_input_read(input, 0, sizeof count, &count));
  if (count > HEADER_BYTES_MAX || count > input->bytes - sizeof count) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s: a header of %" PRIu64 " bytes; the file has %" PRIu64
                     " and at most %" PRIu64 " are supported",
                     input->path, count, input->bytes, HEADER_BYTES_MAX);
  }
  COLL_TRY(base_alloc(count, 1, "a safetensors header", &text));
  coll_status_t status = train_input_read(input, sizeof count, count, text);
  json_t *parsed = NULL;
  if (status == COLL_OK) {
    parsed = json_loadb(text, count, JSON_REJECT_DUPLICATES, &error);
    if (parsed == NULL) {
      status =
          base_fail(COLL_ERROR_INVALID, "%s: its header is not JSON: %s", input->path, error.text);
    }
  }
  free(text);
  if (status != COLL_OK) return status;
  *root = parsed;
  *data = sizeof count + count;
  return COLL_OK;
}

coll_status_t train_safetensors_read(const train_input_t *input, train_safetensors_t *list) {
  json_t *root = NULL;
  uint64_t data = 0;
  train_safetensors_t read = {0};
  COLL_TRY(load_header(input, &root, &data));
  coll_status_t status = parse_header(input, root, data, &read);
  json_decref(root);
  if (status != COLL_OK) {
    train_safetensors_free(&read);
    return status;
  }
  *list = read;
  return COLL_OK;
}

/* ---- writing ---- */

coll_status_t train_safetensors_begin(const train_safetensor_t *tensors, size_t count,
                                      train_output_t *output) {
  static const char spaces[8] = {' ', ' ', ' ', ' ', ' ', ' ', ' ', ' '};
  json_t *root = json_pack("{s:{s:s}}", METADATA, "format", "pt");
  uint64_t end = 0;
  for (size_t i = 0; i < count; i++) {
    const train_safetensor_t *tensor = &tensors[i];
    json_t *shape = json_array();
    for (int j = 0; j < tensor->dimensions; j++) {
      json_array_append_new(shape, json_integer((json_int_t)tensor->shape[j]));
    }
    json_object_set_new(
        root, tensor->name,
        json_pack("{s:s, s:o, s:[I, I]}", "dtype", tensor->type, "shape", shape, "data_offsets",
                  (json_int_t)end, (json_int_t)(end + tensor->bytes)));
    end += tensor->bytes;
  }
  char *text = json_dumps(root, JSON_COMPACT);
  json_decref(root);
  if (text == NULL) return base_fail(COLL_ERROR_MEMORY, "out of memory for a safetensors header");
  uint64_t length = strlen(text), padded = base_round_up(length, sizeof spaces);
  train_output_write(output, &padded, sizeof padded);
  train_output_write(output, text, length);
  train_output_write(output, spaces, padded - length);
  free(text);
  return COLL_OK;
}

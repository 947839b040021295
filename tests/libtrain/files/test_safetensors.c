/* Reading and writing of headers, and headers that must be rejected. */
#include "libtrain/files/safetensors.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "container.h"
#include "libtrain/common/random.h"

static folder_t folder;
static const char data[64];

static void setup(void) {
  folder_make(&folder);
}

static void teardown(void) {
  folder_remove(&folder);
}

TestSuite(safetensors, .init = setup, .fini = teardown);

static coll_status_t read_header(const char *path, train_safetensors_t *list) {
  train_input_t input;
  COLL_TRY(train_input_open(path, &input));
  coll_status_t status = train_safetensors_read(&input, list);
  train_input_close(&input);
  return status;
}

Test(safetensors, reads_a_handmade_header) {
  const char *header =
      "{\"__metadata__\":{\"format\":\"pt\"},"
      "\"b\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[24,26]},"
      "\"none\":{\"dtype\":\"I64\",\"shape\":[3,0],\"data_offsets\":[24,24]},"
      "\"a.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}   ";
  uint64_t begin = 8 + strlen(header);
  const char *path = container_write(&folder, "good", strlen(header), header, data, 26);
  train_safetensors_t list;
  char shape[96];
  cr_assert_eq(read_header(path, &list), COLL_OK, "%s", base_last_error());
  cr_assert_eq(list.count, 3);
  cr_assert_null(train_safetensors_find(&list, "a"));
  cr_assert_null(train_safetensors_find(&list, "__metadata__"));
  const train_safetensor_t *a = train_safetensors_find(&list, "a.weight");
  cr_assert_str_eq(a->type, "F32");
  cr_assert_str_eq(train_safetensor_shape(a, shape), "[2, 3]");
  cr_assert(a->offset == begin && a->bytes == 24);
  const train_safetensor_t *b = train_safetensors_find(&list, "b");
  cr_assert_str_eq(b->type, "BF16");
  cr_assert_str_eq(train_safetensor_shape(b, shape), "[]");
  cr_assert(b->offset == begin + 24 && b->bytes == 2);
  cr_assert_eq(train_safetensors_find(&list, "none")->bytes, 0);
  train_safetensors_free(&list);
}

Test(safetensors, reads_what_it_wrote) {
  const train_safetensor_t tensors[] = {
      {.name = "x", .type = "F32", .dimensions = 2, .shape = {2, 3}, .bytes = 24},
      {.name = "\"y\"", .type = "F16", .dimensions = 1, .shape = {5}, .bytes = 10}};
  const char *path = folder_path(&folder, "written");
  train_output_t output;
  train_output_open(path, &output);
  cr_assert_eq(train_safetensors_begin(tensors, 2, &output), COLL_OK);
  cr_assert_eq(output.written % 8, 0, "tensors begin at %zu", (size_t)output.written);
  train_output_write(&output, data, 34);
  cr_assert_eq(train_output_commit(&output), COLL_OK);
  train_safetensors_t list;
  cr_assert_eq(read_header(path, &list), COLL_OK, "%s", base_last_error());
  cr_assert_eq(list.count, 2);
  for (int i = 0; i < 2; i++) {
    const train_safetensor_t *read = &list.tensors[i];
    cr_assert_str_eq(read->name, tensors[i].name);
    cr_assert_str_eq(read->type, tensors[i].type);
    cr_assert(read->bytes == tensors[i].bytes && read->dimensions == tensors[i].dimensions);
    cr_assert_arr_eq(read->shape, tensors[i].shape, sizeof read->shape);
  }
  train_safetensors_free(&list);
}

#define ONE(type, shape, offsets) \
  "{\"a\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define TWO(first, second)                                         \
  "{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":" first \
  "},"                                                             \
  "\"b\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":" second "}}"

Test(safetensors, rejects_hostile_headers) {
  static const struct {
    const char *header;
    size_t data_bytes;
    const char *why;
  } cases[] = {{"{\"a\":", 0, "not JSON"},
               {"[]", 0, "not a JSON object"},
               {"", 0, "not JSON"},
               {"{\"a\":1}", 0, "no valid dtype"},
               {"{\"a\":{}}", 0, "no valid dtype"},
               {ONE("F32", "{}", "[0,8]"), 8, "no valid dtype"},
               {ONE("F32", "[2]", "[0]"), 8, "no valid dtype"},
               {ONE("F32", "[2]", "[0,8,8]"), 8, "no valid dtype"},
               {ONE("F32", "[-2]", "[0,8]"), 8, "no valid dtype"},
               {ONE("F32", "[2.0]", "[0,8]"), 8, "no valid dtype"},
               {ONE("F32", "[2]", "[-8,0]"), 8, "no valid dtype"},
               {ONE("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), 8, "no valid dtype"},
               {ONE("FLOAT32 OR SO", "[2]", "[0,8]"), 8, "no valid dtype"},
               {ONE("F33", "[2]", "[0,8]"), 8, "8 bytes for F33 [2]"},
               {ONE("F32", "[3]", "[0,8]"), 8, "8 bytes for F32 [3]"},
               {ONE("F32", "[4611686018427387904,4]", "[0,8]"), 8, "8 bytes for F32"},
               {ONE("F32", "[4294967296,1073741824,4]", "[0,0]"), 0, "0 bytes for F32"},
               {ONE("F32", "[2]", "[8,16]"), 8, "outside"},
               {ONE("F32", "[2]", "[8,0]"), 8, "outside"},
               {ONE("F32", "[2]", "[0,9223372036854775807]"), 8, "outside"},
               {ONE("F32", "[2]", "[0,9223372036854775808]"), 8, "not JSON"},
               {ONE("F32", "[2]", "[8,16]"), 16, "gap"},
               {ONE("F32", "[2]", "[0,8]"), 9, "1 bytes after the last tensor"},
               {TWO("[0,8]", "[4,12]"), 12, "overlaps"},
               {TWO("[0,8]", "[0,8]"), 8, "overlaps"},
               {TWO("[0,8]", "[9,17]"), 17, "gap"},
               {"{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},"
                "\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}",
                8, "not JSON: duplicate"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const char *header = cases[i].header;
    const char *path =
        container_write(&folder, "bad", strlen(header), header, data, cases[i].data_bytes);
    train_safetensors_t list;
    cr_assert_eq(read_header(path, &list), COLL_ERROR_INVALID, "%s", header);
    cr_assert(strstr(base_last_error(), cases[i].why), "%s: '%s'", header, base_last_error());
    cr_assert(strstr(base_last_error(), path), "%s", base_last_error());
  }
}

Test(safetensors, rejects_impossible_lengths) {
  const uint64_t lengths[] = {3, 17 << 20, UINT64_C(1) << 40, UINT64_MAX, UINT64_MAX - 7};
  train_safetensors_t list;
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
    const char *path = container_write(&folder, "long", lengths[i], "{}", NULL, 0);
    cr_assert_eq(read_header(path, &list), COLL_ERROR_INVALID);
    cr_assert(strstr(base_last_error(), "a header of"), "%s", base_last_error());
  }
  cr_assert_eq(read_header(folder_write(&folder, "short", data, 7), &list), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "too short"), "%s", base_last_error());
}

Test(safetensors, rejects_deeply_nested_headers) {
  char header[8192] = "{\"a\":";
  memset(header + 5, '[', sizeof header - 6);
  train_safetensors_t list;
  const char *path = container_write(&folder, "deep", strlen(header), header, NULL, 0);
  cr_assert_eq(read_header(path, &list), COLL_ERROR_INVALID);
}

/* Nearly valid headers give either a list of tensors within the file or an error. */
Test(safetensors, changed_header_bytes_are_handled) {
  const char *good = TWO("[0,8]", "[8,16]");
  size_t length = strlen(good);
  char *header = malloc(length + 1);
  int rejected = 0;
  for (uint64_t i = 0; i < 800; i++) {
    memcpy(header, good, length + 1);
    header[train_random_below(5, TRAIN_RANDOM_BATCHES, 2 * i, length)] =
        (char)(1 + train_random_below(5, TRAIN_RANDOM_BATCHES, 2 * i + 1, 255));
    const char *path = container_write(&folder, "changed", length, header, data, 16);
    train_safetensors_t list;
    coll_status_t status = read_header(path, &list);
    rejected += status != COLL_OK;
    cr_assert(status == COLL_OK || status == COLL_ERROR_INVALID);
    if (status != COLL_OK) continue;
    for (size_t j = 0; j < list.count; j++) {
      cr_assert_leq(list.tensors[j].offset + list.tensors[j].bytes, 8 + length + 16);
    }
    train_safetensors_free(&list);
  }
  cr_assert(rejected > 300 && rejected < 800, "%d refused", rejected);
  free(header);
}

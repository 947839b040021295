/* Model files of llm.c, generated in the order in which its train_gpt2.c reads them. */
#include "libtrain/files/llmc.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/files/model_file.h"
#include "libtrain/folder.h"
#include "sample.h"

#define PADDED 128 /* for the sample's vocabulary of 37 */
#define HEADER_BYTES 1024

static folder_t folder;

static void setup(void) {
  folder_make(&folder);
}

static void teardown(void) {
  folder_remove(&folder);
}

TestSuite(llmc, .init = setup, .fini = teardown);

/* The index in the flat space of the file's element at `position`, or -1 for padding: sixteen
 * arrays; the first dimension of block arrays is the layer. */
static long element_at(const train_model_config_t *config, size_t position) {
  size_t c = (size_t)config->width, layers = (size_t)config->layers;
  size_t v = (size_t)config->vocabulary, t = (size_t)config->context;
  const size_t sizes[] = {c, c, 3 * c * c, 3 * c, c * c, c, c, c, 4 * c * c, 4 * c, 4 * c * c, c};
  size_t block_elements = 12 * c * c + 13 * c, in_block = 0;
  if (position < PADDED * c) return position < v * c ? (long)position : -1;
  position -= PADDED * c;
  if (position < t * c) return (long)(v * c + position);
  position -= t * c;
  size_t ends = (v + t + 2) * c;
  for (int i = 0; i < 12; i++) {
    if (position < layers * sizes[i]) {
      return (long)(ends + position / sizes[i] * block_elements + in_block + position % sizes[i]);
    }
    position -= layers * sizes[i];
    in_block += sizes[i];
  }
  return (long)((v + t) * c + position);
}

static size_t elements_of_file(const sample_t *sample) {
  const train_model_config_t *config = &sample->metadata.config;
  return sample->elements + (size_t)(PADDED - config->vocabulary) * (size_t)config->width;
}

static train_dtype_t dtype_of(int version) {
  return version == 3 ? TRAIN_FLOAT32 : TRAIN_BFLOAT16;
}

/* Generates a file in new memory. */
static char *make(const sample_t *sample, int version, size_t *count) {
  const train_model_config_t *config = &sample->metadata.config;
  const int32_t header[8] = {20240326,       version,       config->context, config->vocabulary,
                             config->layers, config->heads, config->width,   PADDED};
  size_t elements = elements_of_file(sample), bytes = train_dtype_bytes(dtype_of(version));
  char *file = calloc(1, HEADER_BYTES + elements * bytes);
  memcpy(file, header, sizeof header);
  for (size_t i = 0; i < elements; i++) {
    long from = element_at(config, i);
    float value = from < 0 ? 0 : sample_element(sample, TRAIN_PARAMETERS, (size_t)from);
    train_dtype_narrow(dtype_of(version), &value, 1, file + HEADER_BYTES + i * bytes);
  }
  *count = HEADER_BYTES + elements * bytes;
  return file;
}

Test(llmc, reads_both_versions) {
  const sample_t sample = sample_of(1);
  for (int version = 3; version <= 5; version += 2) {
    size_t count;
    char *bytes = make(&sample, version, &count);
    train_model_file_t *file;
    const char *path = folder_write(&folder, "model", bytes, count);
    cr_assert_eq(train_model_file_open(path, &file), COLL_OK, "%s", base_last_error());
    cr_assert_eq(
        memcmp(&file->metadata.config, &sample.metadata.config, sizeof file->metadata.config), 0);
    float *values = malloc(sample.elements * sizeof *values);
    cr_assert_eq(file->flat.read(file->flat.context, TRAIN_PARAMETERS, 0, sample.elements, values),
                 COLL_OK);
    for (size_t i = 0; i < sample.elements; i++) {
      float expected = sample_element(&sample, TRAIN_PARAMETERS, i);
      train_dtype_narrow(dtype_of(version), &expected, 1, &expected);
      train_dtype_widen(dtype_of(version), &expected, 1, &expected);
      cr_assert_eq(memcmp(&values[i], &expected, sizeof expected), 0, "version %d, element %zu",
                   version, i);
    }
    cr_assert(sample_is_zero(&sample, &file->flat, TRAIN_SECOND_MOMENTS));
    free(values);
    train_model_file_close(file);
    free(bytes);
  }
}

Test(llmc, writes_the_expected_bytes) {
  sample_t sample = sample_of(2);
  const train_flat_t flat = sample_flat(&sample);
  const train_format_t *format;
  const char *path = folder_path(&folder, "model.bin");
  for (int version = 3; version <= 5; version += 2) {
    train_dtype_t dtype = dtype_of(version);
    cr_assert_eq(train_format_for_path(path, dtype, &format), COLL_OK);
    cr_assert_eq(format->write(path, &sample.metadata, &flat, dtype), COLL_OK, "%s",
                 base_last_error());
    size_t count, expected_count;
    char *written = folder_read(path, &count), *expected = make(&sample, version, &expected_count);
    cr_assert_eq(count, expected_count);
    cr_assert_eq(memcmp(written, expected, count), 0, "version %d", version);
    free(written);
    free(expected);
  }
}

Test(llmc, there_is_no_float16_version) {
  const train_format_t *format;
  cr_assert_eq(train_format_for_path("model.bin", TRAIN_FLOAT16, &format), COLL_ERROR_INVALID);
  cr_assert_str_eq(
      base_last_error(),
      "cannot write model.bin in float16: a model of llm.c stores float32 or bfloat16");
}

Test(llmc, rejects_bad_headers) {
  const sample_t sample = sample_of(3);
  static const struct {
    int at, value;
    const char *why;
  } cases[] = {{1, 2, "of version 2"},   {2, 0, "context 0"},
               {2, 12, "truncated"},     {3, -1, "vocabulary -1"},
               {4, 1 << 30, "layers"},   {5, 4, "do not divide"},
               {6, INT32_MAX, "width"},  {7, 36, "pads a vocabulary of 37 to 36"},
               {7, INT32_MAX, "pads"},   {7, 129, "truncated"},
               {0, 20240327, "is not a"}};
  size_t count;
  char *bytes = make(&sample, 3, &count);
  train_model_file_t *file;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int32_t old, changed = cases[i].value;
    memcpy(&old, bytes + 4 * cases[i].at, sizeof old);
    memcpy(bytes + 4 * cases[i].at, &changed, sizeof changed);
    const char *path = folder_write(&folder, "bad", bytes, count);
    memcpy(bytes + 4 * cases[i].at, &old, sizeof old);
    cr_assert_eq(train_model_file_open(path, &file), COLL_ERROR_INVALID, "%s", cases[i].why);
    cr_assert(strstr(base_last_error(), cases[i].why), "%s: '%s'", cases[i].why, base_last_error());
    cr_assert(strstr(base_last_error(), path), "%s", base_last_error());
  }
  const char *truncated_path = folder_write(&folder, "cut", bytes, count - 1);
  cr_assert_eq(train_model_file_open(truncated_path, &file), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "truncated"), "%s", base_last_error());
  truncated_path = folder_write(&folder, "cut", bytes, 1023);
  cr_assert_eq(train_model_file_open(truncated_path, &file), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "too short"), "%s", base_last_error());
  free(bytes);
}

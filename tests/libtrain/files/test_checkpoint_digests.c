/* Digests of elements: sums of parts, and what they find in a checkpoint. Files of version 3. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/common/random.h"
#include "libtrain/files/checkpoint.h"
#include "libtrain/files/checkpoint_file.h"
#include "libtrain/files/digest.h"
#include "libtrain/files/model_file.h"
#include "libtrain/folder.h"
#include "sample.h"

#define VALUES 1000

static folder_t folder;

static void setup(void) {
  folder_make(&folder);
}

static void teardown(void) {
  folder_remove(&folder);
}

TestSuite(checkpoint_digests, .init = setup, .fini = teardown);

static void draw(float values[VALUES]) {
  const sample_t sample = sample_of(51);
  for (size_t i = 0; i < VALUES; i++) values[i] = sample_element(&sample, TRAIN_PARAMETERS, i);
}

/* Stored in files: the digests must not change. */
Test(checkpoint_digests, values_are_fixed) {
  static const float values[] = {0, 1, -2.5f};
  cr_assert_eq(train_digest_elements(0, values, 0), 0);
  uint64_t sum = train_digest_elements(0, values, 1), expected = UINT64_C(0xe220a8397b1dcdaf);
  cr_assert_eq(sum, expected, "%llx", (unsigned long long)sum); /* SplitMix64's first of seed 0 */
  sum += train_digest_elements(1, values + 1, 1) + train_digest_elements(2, values + 2, 1);
  cr_assert_eq(train_digest_elements(0, values, 3), sum);
}

Test(checkpoint_digests, parts_add_up_in_any_division) {
  float values[VALUES];
  draw(values);
  uint64_t whole = train_digest_elements(7, values, VALUES);
  for (size_t part = 1; part < 50; part++) {
    uint64_t sum = 0;
    for (size_t first = 0; first < VALUES; first += part) {
      size_t left = VALUES - first;
      sum += train_digest_elements(7 + first, values + first, left < part ? left : part);
    }
    cr_assert_eq(sum, whole, "parts of %zu", part);
  }
}

static void swap(float *values, size_t a, size_t b) {
  float value = values[a];
  values[a] = values[b];
  values[b] = value;
}

Test(checkpoint_digests, every_flipped_bit_and_every_swap_changes_the_sum) {
  float values[VALUES];
  draw(values);
  uint64_t whole = train_digest_elements(0, values, VALUES);
  for (size_t i = 0; i < VALUES; i++) {
    for (int bit = 0; bit < 32; bit++) {
      float changed;
      uint32_t bits;
      memcpy(&bits, &values[i], sizeof bits);
      bits ^= UINT32_C(1) << bit;
      memcpy(&changed, &bits, sizeof changed);
      cr_assert_neq(train_digest_elements(i, &changed, 1), train_digest_elements(i, &values[i], 1));
    }
    for (size_t j = i + 1; j < VALUES; j += 1 + i % 13) {
      swap(values, i, j);
      cr_assert_neq(train_digest_elements(0, values, VALUES), whole, "%zu and %zu", i, j);
      swap(values, i, j);
    }
  }
}

/* ---- files ---- */

static coll_status_t write_sample(const char *path, sample_t *sample) {
  const train_flat_t flat = sample_flat(sample);
  return train_format_checkpoint.write(path, &sample->metadata, &flat, TRAIN_FLOAT32);
}

static coll_status_t read_parameters(const char *path) {
  train_model_file_t *file;
  void *parameters = NULL;
  COLL_TRY(train_model_file_open(path, &file));
  coll_status_t status = train_model_file_read_parameters(file, TRAIN_FLOAT32, &parameters);
  free(parameters);
  train_model_file_close(file);
  return status;
}

Test(checkpoint_digests, swapped_elements_are_found) {
  const char *path = folder_path(&folder, "model");
  sample_t sample = sample_of(52);
  train_checkpoint_header_t header;
  size_t count;
  cr_assert_eq(write_sample(path, &sample), COLL_OK, "%s", base_last_error());
  char *bytes = folder_read(path, &count);
  memcpy(&header, bytes, sizeof header);
  float *values = (float *)(void *)(bytes + train_checkpoint_arrays_at(&header));
  for (size_t i = 1; i < sample.elements; i += 97) {
    swap(values, 0, i);
    const char *damaged = folder_write(&folder, "damaged", bytes, count);
    cr_assert_eq(read_parameters(damaged), COLL_ERROR_INVALID, "element %zu", i);
    swap(values, 0, i);
  }
  cr_assert_eq(read_parameters(folder_write(&folder, "same", bytes, count)), COLL_OK);
  free(bytes);
}

/* A rank that needs some elements of a chunk verifies all of it. */
Test(checkpoint_digests, damage_beside_what_is_read_is_found) {
  const char *path = folder_path(&folder, "model");
  sample_t sample = sample_of(53);
  train_model_file_t *file;
  float values[3];
  size_t count;
  cr_assert_eq(write_sample(path, &sample), COLL_OK, "%s", base_last_error());
  cr_assert_eq(train_model_file_open(path, &file), COLL_OK);
  size_t first = file->layout->tensors[TRAIN_POSITION_TABLE].offset;
  char *bytes = folder_read(path, &count);
  train_checkpoint_header_t header;
  memcpy(&header, bytes, sizeof header);
  bytes[train_checkpoint_element_at(&header, TRAIN_FIRST_MOMENTS, first)] ^= 1;
  train_model_file_close(file);
  const char *damaged = folder_write(&folder, "damaged", bytes, count);
  free(bytes);
  cr_assert_eq(train_model_file_open(damaged, &file), COLL_OK);
  const train_flat_t *flat = &file->flat;
  cr_assert_eq(flat->read(flat->context, TRAIN_PARAMETERS, first + 5, 3, values), COLL_OK);
  cr_assert_eq(flat->read(flat->context, TRAIN_FIRST_MOMENTS, first - 5, 3, values), COLL_OK);
  for (int tries = 0; tries < 2; tries++) { /* a chunk that is damaged is not cached */
    cr_assert_eq(flat->read(flat->context, TRAIN_FIRST_MOMENTS, first + 5, 3, values),
                 COLL_ERROR_INVALID);
  }
  train_model_file_close(file);
}

/* Writes the sample as version 3 did. */
static const char *write_old_version(const sample_t *sample) {
  char *json;
  cr_assert_eq(train_metadata_to_json(&sample->metadata, &json), COLL_OK);
  train_checkpoint_header_t header = {.magic = TRAIN_CHECKPOINT_MAGIC,
                                      .version = TRAIN_CHECKPOINT_OLD_VERSION,
                                      .arrays = TRAIN_ARRAYS,
                                      .elements = sample->elements,
                                      .metadata_bytes = strlen(json)};
  header.chunks = (sample->elements + TRAIN_CHUNK - 1) / TRAIN_CHUNK;
  char *bytes = calloc(train_checkpoint_bytes(&header), 1);
  memcpy(bytes, &header, 40);
  memcpy(bytes + 40, json, header.metadata_bytes);
  uint64_t *digests = (uint64_t *)(void *)(bytes + train_checkpoint_digests_at(&header));
  for (size_t array = 0, chunk = 0; array < TRAIN_ARRAYS; array++) {
    uint64_t at = train_checkpoint_element_at(&header, (train_array_t)array, 0);
    float *values = (float *)(void *)(bytes + at);
    for (size_t i = 0; i < sample->elements; i++) {
      values[i] = sample_element(sample, (train_array_t)array, i);
    }
    for (size_t first = 0; first < sample->elements; first += TRAIN_CHUNK) {
      size_t left = sample->elements - first, count = left < TRAIN_CHUNK ? left : TRAIN_CHUNK;
      digests[chunk++] = train_digest(0, values + first, count * sizeof *values);
    }
  }
  digests[TRAIN_ARRAYS * header.chunks] = train_checkpoint_rest_digest(&header, bytes, digests);
  const char *path = folder_write(&folder, "old", bytes, train_checkpoint_bytes(&header));
  free(bytes);
  free(json);
  return path;
}

Test(checkpoint_digests, version_3_is_read) {
  const train_model_config_t config = {
      .vocabulary = 9001, .context = 16, .layers = 1, .heads = 1, .width = 128};
  const sample_t sample = sample_of_size(54, &config);
  const char *path = write_old_version(&sample);
  train_model_file_t *file;
  size_t count;
  cr_assert_gt(sample.elements, TRAIN_CHUNK);
  cr_assert_eq(train_model_file_open(path, &file), COLL_OK, "%s", base_last_error());
  for (int array = 0; array < TRAIN_ARRAYS; array++) {
    cr_assert(sample_is_in(&sample, &file->flat, (train_array_t)array));
  }
  train_model_file_close(file);
  char *bytes = folder_read(path, &count);
  bytes[count / 6] ^= 1;
  cr_assert_eq(read_parameters(folder_write(&folder, "damaged", bytes, count)), COLL_ERROR_INVALID);
  cr_assert_eq(read_parameters(folder_write(&folder, "cut", bytes, count - 8)), COLL_ERROR_INVALID);
  free(bytes);
}

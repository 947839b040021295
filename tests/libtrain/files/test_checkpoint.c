/* Round trips, rejected files, and atomic replacement. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness/harness.h"
#include "libtrain/files/checkpoint.h"
#include "libtrain/files/checkpoint_file.h"
#include "libtrain/files/model_file.h"
#include "libtrain/folder.h"
#include "sample.h"

#define KILLS 60

static folder_t folder;

static void setup(void) {
  folder_make(&folder);
}

static void teardown(void) {
  folder_remove(&folder);
}

TestSuite(checkpoint, .init = setup, .fini = teardown);

static coll_status_t save(const char *path, sample_t *sample) {
  const train_flat_t flat = sample_flat(sample);
  return train_format_checkpoint.write(path, &sample->metadata, &flat, TRAIN_FLOAT32);
}

static train_model_file_t *open_complete(const char *path) {
  train_model_file_t *file = NULL;
  cr_assert_eq(train_model_file_open(path, &file), COLL_OK, "%s", base_last_error());
  return file;
}

/* Whether the file at `path` contains exactly this sample. */
static bool contains_sample(const char *path, const sample_t *sample) {
  train_model_file_t *file = open_complete(path);
  bool same = true;
  for (int array = 0; array < TRAIN_ARRAYS; array++) {
    same = same && sample_is_in(sample, &file->flat, (train_array_t)array);
  }
  train_model_file_close(file);
  return same;
}

/* The status of reading the complete file. */
static coll_status_t read_completely(const char *path) {
  train_model_file_t *file;
  COLL_TRY(train_model_file_open(path, &file));
  size_t count = file->layout->parameter_count;
  float *values = malloc(count * sizeof *values);
  coll_status_t status = COLL_OK;
  for (int array = 0; status == COLL_OK && array < TRAIN_ARRAYS; array++) {
    status = file->flat.read(file->flat.context, (train_array_t)array, 0, count, values);
  }
  free(values);
  train_model_file_close(file);
  return status;
}

static void check_rejected(const char *path, const char *why) {
  cr_assert_eq(read_completely(path), COLL_ERROR_INVALID, "%s", why);
  cr_assert(strstr(base_last_error(), why), "'%s' in '%s'", why, base_last_error());
  cr_assert(strstr(base_last_error(), path));
}

Test(checkpoint, restores_every_bit) {
  sample_t sample = sample_of(3);
  const train_position_t position = {
      .step = 7, .tokens = UINT64_C(1) << 40, .sequences = 99, .seed = UINT64_MAX};
  sample.metadata.position = position;
  train_metadata_set(&sample.metadata, "batch", "%d", 512);
  train_metadata_set(&sample.metadata, "data", "a folder with \"quotes\"");
  train_metadata_set(&sample.metadata, "batch", "%d", 256);
  cr_assert_eq(train_metadata_set_tokenizer(&sample.metadata, "{\0}", 3), COLL_OK);
  const char *path = folder_path(&folder, "model");
  cr_assert_eq(train_checkpoint_probe(path), COLL_OK);
  cr_assert_eq(save(path, &sample), COLL_OK, "%s", base_last_error());
  cr_assert_neq(access(folder_path(&folder, "model.part"), F_OK), 0);
  cr_assert(contains_sample(path, &sample));
  train_model_file_t *file = open_complete(path);
  const train_metadata_t *metadata = &file->metadata;
  cr_assert_eq(memcmp(&metadata->config, &sample.metadata.config, sizeof metadata->config), 0);
  cr_assert_eq(memcmp(&metadata->position, &position, sizeof position), 0);
  cr_assert(metadata->moments);
  cr_assert_eq(metadata->setting_count, 2);
  cr_assert_str_eq(train_metadata_get(metadata, "batch"), "256");
  cr_assert_str_eq(train_metadata_get(metadata, "data"), "a folder with \"quotes\"");
  cr_assert_eq(metadata->tokenizer_bytes, 3);
  cr_assert_eq(memcmp(metadata->tokenizer, "{\0}", 3), 0);
  void *parameters;
  cr_assert_eq(train_model_file_read_parameters(file, TRAIN_FLOAT32, &parameters), COLL_OK);
  for (size_t i = 0; i < sample.elements; i++) {
    float expected = sample_element(&sample, TRAIN_PARAMETERS, i);
    cr_assert_eq(memcmp((float *)parameters + i, &expected, sizeof expected), 0);
  }
  free(parameters);
  train_model_file_close(file);
  train_metadata_free(&sample.metadata);
}

/* The metadata's text with `from` replaced by `to`. */
static coll_status_t read_changed(const train_metadata_t *metadata, const char *from,
                                  const char *to, train_metadata_t *read) {
  char *text, changed[2048];
  cr_assert_eq(train_metadata_to_json(metadata, &text), COLL_OK);
  char *at = strstr(text, from);
  cr_assert(at, "%s", text);
  int length =
      snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
  free(text);
  return train_metadata_from_json(changed, (size_t)length, read);
}

Test(checkpoint, restores_the_precision) {
  sample_t sample = sample_of(3);
  const char *path = folder_path(&folder, "model");
  for (int precision = 0; precision < TRAIN_PRECISIONS; precision++) {
    sample.metadata.precision = (train_precision_t)precision;
    cr_assert_eq(save(path, &sample), COLL_OK, "%s", base_last_error());
    cr_assert(contains_sample(path, &sample));
    train_model_file_t *file = open_complete(path);
    cr_assert_eq(file->metadata.precision, (train_precision_t)precision);
    train_model_file_close(file);
  }
}

Test(checkpoint, without_a_precision_it_is_float32) {
  sample_t sample = sample_of(3);
  train_metadata_t read;
  sample.metadata.precision = TRAIN_PRECISION_BF16_PURE;
  cr_assert_eq(read_changed(&sample.metadata, "\"precision\": \"bf16-pure\",", "", &read), COLL_OK,
               "%s", base_last_error());
  cr_assert_eq(read.precision, TRAIN_PRECISION_FLOAT32);
  cr_assert_eq(read_changed(&sample.metadata, "bf16-pure", "fp8", &read), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "unknown precision \"fp8\""), "%s", base_last_error());
  cr_assert_eq(read_changed(&sample.metadata, "\"bf16-pure\"", "16", &read), COLL_ERROR_INVALID);
}

Test(checkpoint, stores_only_float32) {
  const train_format_t *format;
  cr_assert_eq(train_format_for_path("a.ckpt", TRAIN_BFLOAT16, &format), COLL_ERROR_INVALID);
  cr_assert_str_eq(base_last_error(),
                   "cannot write a.ckpt in bfloat16: a checkpoint stores float32");
}

Test(checkpoint, names_a_setting_that_is_not_utf8) {
  sample_t sample = sample_of(3);
  train_metadata_set(&sample.metadata, "data", "caf\xe9");
  cr_assert_eq(save(folder_path(&folder, "model"), &sample), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "setting data"), "%s", base_last_error());
}

Test(checkpoint, names_settings_that_differ) {
  train_metadata_t saved = {0}, now = {0};
  train_metadata_set(&saved, "batch", "256");
  train_metadata_set(&now, "batch", "256");
  train_metadata_set(&now, "clip", "1");
  cr_assert_eq(train_metadata_check("a.ckpt", &saved, &now), COLL_OK);
  train_metadata_set(&now, "batch", "128");
  cr_assert_eq(train_metadata_check("a.ckpt", &saved, &now), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "a.ckpt was trained with batch 256, this run has 128"), "%s",
            base_last_error());
  cr_assert_eq(train_metadata_check("a.ckpt", &now, &saved), COLL_ERROR_INVALID);
}

/* Several chunks per array, read in arbitrary ranges by several readers. */
Test(checkpoint, every_range_can_be_read_separately) {
  const train_model_config_t config = {
      .vocabulary = 9001, .context = 16, .layers = 1, .heads = 1, .width = 128};
  sample_t sample = sample_of_size(4, &config);
  cr_assert_gt(sample.elements, TRAIN_CHUNK);
  cr_assert_gt((size_t)config.vocabulary * config.width, 4 * TRAIN_CHECKPOINT_CHUNK);
  const char *path = folder_path(&folder, "model");
  cr_assert_eq(save(path, &sample), COLL_OK);
  train_model_file_t *files[] = {open_complete(path), open_complete(path)};
  const size_t bounds[] = {0,
                           1,
                           TRAIN_CHECKPOINT_CHUNK - 1,
                           TRAIN_CHECKPOINT_CHUNK,
                           TRAIN_CHECKPOINT_CHUNK + 1,
                           (size_t)config.vocabulary * config.width,
                           sample.elements - 1,
                           sample.elements};
  const size_t count = sizeof bounds / sizeof bounds[0];
  float *values = malloc(sample.elements * sizeof *values);
  for (size_t round = 0; round < TRAIN_ARRAYS * count * count; round++) {
    train_array_t array = (train_array_t)(round % TRAIN_ARRAYS);
    size_t first = bounds[round / TRAIN_ARRAYS % count];
    size_t end = bounds[round / TRAIN_ARRAYS / count];
    if (first >= end) continue;
    const train_flat_t *flat = &files[round % 2]->flat;
    cr_assert_eq(flat->read(flat->context, array, first, end - first, values), COLL_OK);
    for (size_t i = first; i < end; i += i + 3 < end ? 3 : 1) {
      float expected = sample_element(&sample, array, i);
      cr_assert_eq(memcmp(&values[i - first], &expected, sizeof expected), 0, "%zu", i);
    }
  }
  free(values);
  train_model_file_close(files[0]);
  train_model_file_close(files[1]);
}

Test(checkpoint, without_moments_file_is_smaller_and_moments_read_as_zeros) {
  sample_t sample = sample_of(5);
  const char *path = folder_path(&folder, "model");
  struct stat with, without;
  cr_assert_eq(save(path, &sample), COLL_OK);
  cr_assert_eq(stat(path, &with), 0);
  sample.metadata.moments = false;
  cr_assert_eq(save(path, &sample), COLL_OK);
  cr_assert_eq(stat(path, &without), 0);
  cr_assert_geq((size_t)(with.st_size - without.st_size), 2 * sample.elements * sizeof(float));
  train_model_file_t *file = open_complete(path);
  cr_assert_not(file->metadata.moments);
  cr_assert(sample_is_in(&sample, &file->flat, TRAIN_PARAMETERS));
  cr_assert(sample_is_zero(&sample, &file->flat, TRAIN_FIRST_MOMENTS));
  cr_assert(sample_is_zero(&sample, &file->flat, TRAIN_SECOND_MOMENTS));
  train_model_file_close(file);
}

Test(checkpoint, detects_damage_anywhere) {
  sample_t sample = sample_of(6);
  cr_assert_eq(train_metadata_set_tokenizer(&sample.metadata, "tokens", 6), COLL_OK);
  const char *path = folder_path(&folder, "model");
  cr_assert_eq(save(path, &sample), COLL_OK);
  size_t count;
  char *bytes = folder_read(path, &count);
  for (size_t at = 0; at < count; at += at < 600 ? 5 : at + 40 > count ? 1 : 1997) {
    bytes[at] ^= (char)(1 << at % 8);
    const char *damaged = folder_write(&folder, "damaged", bytes, count);
    cr_assert_eq(read_completely(damaged), COLL_ERROR_INVALID, "byte %zu", at);
    unlink(damaged);
    bytes[at] ^= (char)(1 << at % 8);
  }
  bytes[count / 2] ^= 1;
  check_rejected(folder_write(&folder, "damaged", bytes, count), "damaged");
  free(bytes);
  train_metadata_free(&sample.metadata);
}

Test(checkpoint, rejects_other_files_and_versions) {
  sample_t sample = sample_of(7);
  const char *path = folder_path(&folder, "model");
  cr_assert_eq(save(path, &sample), COLL_OK);
  size_t count;
  char *bytes = folder_read(path, &count);
  check_rejected(folder_write(&folder, "cut", bytes, count - 1), "truncated");
  check_rejected(folder_write(&folder, "half", bytes, count / 2), "truncated");
  check_rejected(folder_write(&folder, "head", bytes, 20), "too short");
  check_rejected(folder_write(&folder, "none", bytes, 0), "not a checkpoint");
  bytes[8]++;
  check_rejected(folder_write(&folder, "newer", bytes, count),
                 "format version 5, this program reads versions 3 and 4");
  memset(bytes, '#', count);
  check_rejected(folder_write(&folder, "foreign", bytes, count), "not a checkpoint");
  free(bytes);
  train_model_file_t *file;
  cr_assert_eq(train_model_file_open(folder_path(&folder, "missing"), &file), COLL_ERROR_SYSTEM);
  cr_assert(strstr(base_last_error(), "No such file"), "%s", base_last_error());
}

Test(checkpoint, full_disk_leaves_the_old_file) {
  sample_t old = sample_of(8), new = sample_of(9);
  const char *path = folder_path(&folder, "model"), *aside = folder_path(&folder, "model.part");
  cr_assert_eq(save(path, &old), COLL_OK);
  cr_assert_eq(symlink("/dev/full", aside), 0);
  cr_assert_eq(save(path, &new), COLL_ERROR_SYSTEM);
  cr_assert(strstr(base_last_error(), "No space left"), "%s", base_last_error());
  cr_assert(strstr(base_last_error(), path), "%s", base_last_error());
  struct stat found;
  cr_assert_neq(lstat(aside, &found), 0, "something was left aside");
  cr_assert(contains_sample(path, &old));
}

Test(checkpoint, writing_follows_a_symbolic_link) {
  sample_t old = sample_of(10), new = sample_of(11);
  const char *path = folder_path(&folder, "model"), *link = folder_path(&folder, "link");
  struct stat found;
  cr_assert_eq(save(path, &old), COLL_OK);
  cr_assert_eq(symlink("model", link), 0);
  cr_assert_eq(save(link, &new), COLL_OK, "%s", base_last_error());
  cr_assert(lstat(link, &found) == 0 && S_ISLNK(found.st_mode));
  cr_assert(contains_sample(path, &new));
}

Test(checkpoint, writing_follows_a_dangling_link) {
  sample_t sample = sample_of(12);
  const char *path = folder_path(&folder, "model"), *link = folder_path(&folder, "link");
  const char *second = folder_path(&folder, "second");
  struct stat found;
  cr_assert_eq(symlink(path, link), 0);
  cr_assert_eq(symlink("link", second), 0);
  cr_assert_eq(save(second, &sample), COLL_OK, "%s", base_last_error());
  cr_assert(lstat(link, &found) == 0 && S_ISLNK(found.st_mode));
  cr_assert(lstat(second, &found) == 0 && S_ISLNK(found.st_mode));
  cr_assert(contains_sample(path, &sample));
  cr_assert_eq(unlink(link), 0);
  cr_assert_eq(symlink("second", link), 0);
  cr_assert_eq(save(second, &sample), COLL_ERROR_SYSTEM);
  cr_assert(strstr(base_last_error(), "Too many levels"), "%s", base_last_error());
}

/* Two runs save to one path: neither may corrupt the other's file. */
Test(checkpoint, rejects_a_second_writer) {
  sample_t old = sample_of(13), new = sample_of(14);
  const char *path = folder_path(&folder, "model");
  train_output_t first;
  cr_assert_eq(save(path, &old), COLL_OK, "%s", base_last_error());
  train_output_open(path, &first);
  train_output_write(&first, "the first writer's", 18);
  cr_assert_eq(train_checkpoint_probe(path), COLL_ERROR_SYSTEM);
  cr_assert(strstr(base_last_error(), "another program is writing it"), "%s", base_last_error());
  cr_assert_eq(save(path, &new), COLL_ERROR_SYSTEM);
  cr_assert(contains_sample(path, &old));
  cr_assert_eq(train_output_commit(&first), COLL_OK, "%s", base_last_error());
  size_t count;
  char *bytes = folder_read(path, &count);
  cr_assert(count == 18 && memcmp(bytes, "the first writer's", count) == 0);
  free(bytes);
  cr_assert_eq(save(path, &new), COLL_OK, "%s", base_last_error());
  cr_assert(contains_sample(path, &new));
}

Test(checkpoint, names_a_path_that_cannot_be_written) {
  const char *path = folder_path(&folder, "missing/model");
  cr_assert_eq(train_checkpoint_probe(path), COLL_ERROR_SYSTEM);
  cr_assert(strstr(base_last_error(), path), "%s", base_last_error());
  cr_assert_eq(train_checkpoint_probe(folder.path), COLL_ERROR_SYSTEM);
  cr_assert(strstr(base_last_error(), "Is a directory"), "%s", base_last_error());
}

static coll_status_t fail_late(void *context, train_array_t array, size_t first, size_t count,
                               float *values) {
  (void)context, (void)first;
  memset(values, 0, count * sizeof *values);
  return array == TRAIN_SECOND_MOMENTS ? base_fail(COLL_ERROR_RANK_LOST, "rank 3 is gone")
                                       : COLL_OK;
}

Test(checkpoint, failed_read_leaves_the_old_file) {
  sample_t old = sample_of(13);
  const char *path = folder_path(&folder, "model");
  const train_flat_t failing = {.read = fail_late};
  cr_assert_eq(save(path, &old), COLL_OK);
  cr_assert_eq(train_format_checkpoint.write(path, &old.metadata, &failing, TRAIN_FLOAT32),
               COLL_ERROR_RANK_LOST);
  cr_assert_str_eq(base_last_error(), "rank 3 is gone");
  cr_assert_neq(access(folder_path(&folder, "model.part"), F_OK), 0);
  cr_assert(contains_sample(path, &old));
}

/* Saves two models alternately until it is killed. */
static void save_forever(const char *path) {
  sample_t samples[2] = {sample_of(14), sample_of(15)};
  for (int i = 0;; i ^= 1) save(path, &samples[i]);
}

/* Uses an in-memory file system if possible, so that kills hit every stage of a save instead of
 * only the sync. The delay before the kill grows until some saves complete. */
Test(checkpoint, kill_leaves_a_complete_file) {
  const sample_t samples[2] = {sample_of(14), sample_of(15)};
  sample_t first = samples[0];
  folder_t fast = {"/dev/shm/libtrain-test-XXXXXX"};
  if (mkdtemp(fast.path) == NULL) folder_make(&fast);
  const char *path = folder_path(&fast, "model");
  int found[2] = {0};
  cr_assert_eq(save(path, &first), COLL_OK);
  for (unsigned round = 0; round < KILLS || (found[1] == 0 && round < 10 * KILLS); round++) {
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) save_forever(path);
    base_clock_sleep_ns((200000 + round * 97000) * HARNESS_PATIENCE);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    int which = contains_sample(path, &samples[1]);
    cr_assert(which == 1 || contains_sample(path, &samples[0]));
    found[which]++;
  }
  folder_remove(&fast);
  cr_assert(found[0] > 0 && found[1] > 0, "%d times the first, %d times the second", found[0],
            found[1]);
}

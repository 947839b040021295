/* Checkpoints: what comes back, what is refused, and what a kill leaves. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "folder.h"
#include "libtrain/files/checkpoint.h"
#include "reference.h"

static const train_model_config_t config = {
    .vocabulary = 256, .context = 8, .layers = 2, .heads = 2, .width = 16};

static folder_t folder;

static void setup(void) {
  folder_make(&folder);
}

static void teardown(void) {
  folder_remove(&folder);
}

TestSuite(checkpoint, .init = setup, .fini = teardown);

/* A state all of whose numbers follow from the seed. */
static train_state_t state_of(uint64_t seed) {
  train_state_t state;
  cr_assert_eq(train_state_create(&config, &state), COLL_OK);
  random_fill(seed, 1, state.layout->parameter_count, state.parameters);
  random_fill(seed + 100, 1, 2 * state.layout->parameter_count, state.first_moments);
  state.step = seed;
  return state;
}

static bool same(const train_state_t *a, const train_state_t *b) {
  size_t bytes = a->layout->parameter_count * sizeof(float);
  return a->step == b->step && memcmp(a->parameters, b->parameters, bytes) == 0 &&
         memcmp(a->first_moments, b->first_moments, bytes) == 0 &&
         memcmp(a->second_moments, b->second_moments, bytes) == 0;
}

static void check_refused(const char *path, const char *why) {
  train_state_t state = {0};
  cr_assert_eq(train_checkpoint_load(path, &state), COLL_ERROR_INVALID, "%s", why);
  cr_assert(strstr(base_last_error(), why), "'%s' in '%s'", why, base_last_error());
  cr_assert(strstr(base_last_error(), path));
  cr_assert_null(state.layout);
}

Test(checkpoint, comes_back_bit_for_bit) {
  train_state_t saved = state_of(3), loaded;
  const char *path = folder_path(&folder, "model");
  cr_assert_eq(train_checkpoint_probe(path), COLL_OK);
  cr_assert_eq(train_checkpoint_save(path, &saved), COLL_OK);
  cr_assert_eq(train_checkpoint_load(path, &loaded), COLL_OK, "%s", base_last_error());
  cr_assert(same(&saved, &loaded));
  cr_assert_eq(memcmp(&loaded.layout->config, &config, sizeof config), 0);
  cr_assert_neq(access(folder_path(&folder, "model.part"), F_OK), 0);
  train_state_free(&saved);
  train_state_free(&loaded);
}

Test(checkpoint, damage_is_refused) {
  train_state_t saved = state_of(4);
  const char *path = folder_path(&folder, "model");
  cr_assert_eq(train_checkpoint_save(path, &saved), COLL_OK);
  size_t count;
  char *bytes = folder_read(path, &count);
  check_refused(folder_write(&folder, "cut", bytes, count - 1), "cut short");
  check_refused(folder_write(&folder, "half", bytes, count / 2), "cut short");
  check_refused(folder_write(&folder, "head", bytes, 20), "too short");
  check_refused(folder_write(&folder, "none", bytes, 0), "too short");
  for (size_t at = 12; at < count; at += count / 9) {
    bytes[at] ^= 1;
    train_state_t state = {0};
    const char *damaged = folder_write(&folder, "damaged", bytes, count);
    cr_assert_eq(train_checkpoint_load(damaged, &state), COLL_ERROR_INVALID, "byte %zu", at);
    bytes[at] ^= 1;
  }
  bytes[count - 3] ^= 1;
  check_refused(folder_write(&folder, "damaged", bytes, count), "damaged");
  bytes[8]++;
  check_refused(folder_write(&folder, "newer", bytes, count), "format 3");
  memset(bytes, '#', count);
  check_refused(folder_write(&folder, "foreign", bytes, count), "not a checkpoint");
  check_refused(folder.path, "not a checkpoint");
  free(bytes);
  train_state_free(&saved);
}

Test(checkpoint, a_full_disk_leaves_the_old_one) {
  train_state_t old = state_of(5), new = state_of(6), loaded;
  const char *path = folder_path(&folder, "model"), *aside = folder_path(&folder, "model.part");
  cr_assert_eq(train_checkpoint_save(path, &old), COLL_OK);
  cr_assert_eq(symlink("/dev/full", aside), 0);
  cr_assert_eq(train_checkpoint_save(path, &new), COLL_ERROR_SYSTEM);
  cr_assert(strstr(base_last_error(), "No space left"), "%s", base_last_error());
  struct stat found;
  cr_assert_neq(lstat(aside, &found), 0, "something was left aside");
  cr_assert_eq(train_checkpoint_load(path, &loaded), COLL_OK);
  cr_assert(same(&old, &loaded));
  train_state_free(&old);
  train_state_free(&new);
  train_state_free(&loaded);
}

Test(checkpoint, an_impossible_place_is_named) {
  const char *path = folder_path(&folder, "missing/model");
  cr_assert_eq(train_checkpoint_probe(path), COLL_ERROR_SYSTEM);
  cr_assert(strstr(base_last_error(), path), "%s", base_last_error());
  cr_assert_eq(train_checkpoint_probe(folder.path), COLL_ERROR_INVALID);
}

/* Saves two states in turn until it is killed. */
static void save_for_ever(const char *path) {
  train_state_t states[2] = {state_of(7), state_of(8)};
  for (int i = 0;; i ^= 1) train_checkpoint_save(path, &states[i]);
}

Test(checkpoint, a_kill_leaves_a_whole_one) {
  train_state_t first = state_of(7), second = state_of(8);
  const char *path = folder_path(&folder, "model");
  cr_assert_eq(train_checkpoint_save(path, &first), COLL_OK);
  for (unsigned round = 0; round < 40; round++) {
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) save_for_ever(path);
    base_clock_sleep_ns(1000000 + round * 370000);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    train_state_t loaded;
    cr_assert_eq(train_checkpoint_load(path, &loaded), COLL_OK, "%s", base_last_error());
    cr_assert(same(&loaded, &first) || same(&loaded, &second));
    train_state_free(&loaded);
  }
  train_state_free(&first);
  train_state_free(&second);
}

/* Checkpoints written by several ranks: the same bytes whoever writes what, and failures of a rank
 * leave the old file. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libtrain/files/checkpoint.h"
#include "libtrain/parallel/store.h"
#include "save_trial.h"

#define TIMEOUT_MS 30000

static folder_t folder;

static void setup(void) {
  folder_make(&folder);
}

static void teardown(void) {
  folder_remove(&folder);
}

TestSuite(save, .init = setup, .fini = teardown);

static void check_same_files(const char *path, const char *expected, const char *what) {
  size_t counts[2];
  char *bytes[2] = {folder_read(path, &counts[0]), folder_read(expected, &counts[1])};
  cr_assert_eq(counts[0], counts[1], "%s", what);
  for (size_t i = 0; i < counts[0]; i++) {
    cr_assert_eq(bytes[0][i], bytes[1][i], "%s: byte %zu", what, i);
  }
  free(bytes[0]);
  free(bytes[1]);
}

static void check_nothing_aside(const char *path) {
  char aside[256];
  struct stat found;
  snprintf(aside, sizeof aside, "%s.part", path);
  cr_assert_neq(lstat(aside, &found), 0, "%s was left", aside);
}

/* ---- the ZeRO store ---- */

typedef struct store_trial {
  sample_t sample; /* of a small model */
  const char *path;
  int stage;
  train_precision_t precision;
} store_trial_t;

static coll_status_t save_store(const party_rank_t *self, const store_trial_t *trial,
                                train_store_t **store) {
  train_group_t group;
  train_layout_t *layout;
  sample_t sample = trial->sample;
  const train_flat_t flat = sample_flat(&sample);
  const train_store_options_t options = {
      .stage = trial->stage, .bucket_bytes = 4096, .precision = trial->precision};
  COLL_TRY(train_group_init(self->comm, &group));
  COLL_TRY(train_layout_create(&sample.metadata.config, &layout));
  coll_status_t status = train_store_create(layout, &group, &options, store);
  if (status == COLL_OK) status = train_store_load(*store, &flat);
  if (status == COLL_OK) {
    const train_pieces_t pieces = train_store_pieces(*store);
    status = train_checkpoint_save(&group, trial->path, &sample.metadata, &pieces);
  }
  harness_barrier(); /* see train_store_destroy */
  train_store_destroy(*store);
  train_layout_destroy(layout);
  return status;
}

static int store_body(party_rank_t *self) {
  train_store_t *store = NULL;
  PARTY_REQUIRE(save_store(self, self->context, &store) == COLL_OK, "%s", base_last_error());
  return 0;
}

Test(save, file_does_not_depend_on_ranks_and_stages) {
  static const train_precision_t precisions[] = {TRAIN_PRECISION_FLOAT32, TRAIN_PRECISION_BF16,
                                                 TRAIN_PRECISION_BF16_PURE};
  const char *first = folder_path(&folder, "first"), *other = folder_path(&folder, "other");
  for (size_t i = 0; i < sizeof precisions / sizeof precisions[0]; i++) {
    store_trial_t trial = {.sample = sample_of(31), .path = first, .precision = precisions[i]};
    trial.sample.metadata.precision = trial.precision;
    PARTY_RUN(1, TIMEOUT_MS, store_body, &trial);
    trial.path = other;
    for (int size = 1; size <= 4; size++) {
      for (trial.stage = 0; trial.stage <= TRAIN_STAGE_MAX; trial.stage++) {
        char what[64];
        harness_result_t result;
        snprintf(what, sizeof what, "precision %d, %d ranks, stage %d", (int)trial.precision, size,
                 trial.stage);
        cr_assert(party_threads(size, TIMEOUT_MS, store_body, &trial, &result), "%s: %s", what,
                  result.text);
        check_same_files(other, first, what);
        unlink(other);
      }
    }
  }
}

/* ---- any division ---- */

static int save_body(party_rank_t *self) {
  PARTY_REQUIRE(save_trial_run(self, self->context) == COLL_OK, "%s", base_last_error());
  return 0;
}

Test(save, file_does_not_depend_on_who_owns_what) {
  save_trial_t trial = save_trial_of(32, folder_path(&folder, "model"));
  const char *expected = folder_path(&folder, "expected");
  save_trial_write(&trial, expected);
  for (int size = 1; size <= 4; size++) {
    PARTY_RUN(size, TIMEOUT_MS, save_body, &trial);
    check_same_files(trial.path, expected, "odd ownership");
    check_nothing_aside(trial.path);
  }
}

/* Odd ranks have another working folder, as if they were on a host without rank 0's folder. */
static int enter_host(const party_rank_t *self) {
  PARTY_REQUIRE(chdir(folder.path) == 0 && (self->rank % 2 == 0 || chdir("host") == 0), "chdir");
  return 0;
}

static int save_apart_body(party_rank_t *self) {
  PARTY_TRY(enter_host(self));
  return save_body(self);
}

Test(save, ranks_that_do_not_see_the_file_send_their_pieces) {
  static const char foreign[] = "another host's file of that name, longer than a mark";
  save_trial_t trial = save_trial_of(33, "model");
  const char *expected = folder_path(&folder, "expected"), *path = folder_path(&folder, "model");
  const char *host = folder_write(&folder, "host/model.part", foreign, sizeof foreign);
  save_trial_write(&trial, expected);
  for (int size = 2; size <= 4; size++) {
    harness_result_t result;
    size_t count;
    cr_assert(party_processes(size, TIMEOUT_MS, save_apart_body, &trial, &result), "%s",
              result.text);
    check_same_files(path, expected, "messages");
    check_nothing_aside(path);
    char *bytes = folder_read(host, &count);
    cr_assert(count == sizeof foreign && memcmp(bytes, foreign, count) == 0);
    free(bytes);
  }
}

/* ---- failures ---- */

/* The rank `failed` must report an error with these words, the others an error without text. */
static int check_failure(const party_rank_t *self, const save_trial_t *trial, int failed,
                         coll_status_t status, const char *words) {
  const char *message = base_last_error();
  PARTY_REQUIRE(status != COLL_OK, "rank %d did not fail", self->rank);
  if (self->rank != failed) {
    PARTY_REQUIRE(message[0] == '\0', "rank %d says '%s'", self->rank, message);
    return 0;
  }
  char name[16];
  snprintf(name, sizeof name, "rank %d: ", failed);
  PARTY_REQUIRE(strstr(message, words) && strstr(message, trial->path) && strstr(message, name),
                "'%s'", message);
  return 0;
}

static int incomplete_body(party_rank_t *self) {
  const save_trial_t *trial = self->context;
  return check_failure(self, trial, 0, save_trial_run(self, trial),
                       trial->fault == SAVE_GAP ? "of 262144 elements of the parameters of "
                                                  "wte.weight from 0 on the ranks own 262143"
                                                : "the ranks own 262145");
}

Test(save, elements_without_owner_or_with_two_are_found) {
  const char *path = folder_path(&folder, "model");
  save_trial_t old = save_trial_of(34, path), new = save_trial_of(35, path);
  save_trial_write(&old, path);
  for (new.fault = SAVE_GAP; new.fault <= SAVE_OVERLAP; new.fault++) {
    PARTY_RUN(3, TIMEOUT_MS, incomplete_body, &new);
    check_nothing_aside(path);
    cr_assert(save_trial_is_at(&old, path));
  }
}

/* A file may not grow on the victim, as on a full disk. */
static int limit_victim(const party_rank_t *self, const save_trial_t *trial) {
  const struct rlimit limit = {.rlim_cur = 2000000, .rlim_max = 2000000};
  signal(SIGXFSZ, SIG_IGN);
  if (self->rank != trial->victim) return 0;
  PARTY_REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit");
  return 0;
}

static int limited_body(party_rank_t *self) {
  const save_trial_t *trial = self->context;
  PARTY_TRY(limit_victim(self, trial));
  return check_failure(self, trial, trial->victim, save_trial_run(self, trial), "File too large");
}

static int limited_apart_body(party_rank_t *self) {
  PARTY_TRY(enter_host(self));
  return limited_body(self);
}

Test(save, full_disk_of_any_rank_leaves_the_old_file) {
  const char *path = folder_path(&folder, "model");
  save_trial_t old = save_trial_of(36, path), new = save_trial_of(37, path);
  harness_result_t result;
  save_trial_write(&old, path);
  for (new.victim = 0; new.victim < 3; new.victim++) {
    cr_assert(party_processes(3, TIMEOUT_MS, limited_body, &new, &result), "%s", result.text);
    check_nothing_aside(path);
    cr_assert(save_trial_is_at(&old, path));
  }
}

/* What others send is received and dropped. */
Test(save, full_disk_of_rank_0_ends_messages) {
  static const char foreign[] = "another host's file of that name";
  const char *path = folder_path(&folder, "model");
  save_trial_t old = save_trial_of(38, path), new = save_trial_of(39, "model");
  harness_result_t result;
  folder_write(&folder, "host/model.part", foreign, sizeof foreign);
  save_trial_write(&old, path);
  cr_assert(party_processes(4, TIMEOUT_MS, limited_apart_body, &new, &result), "%s", result.text);
  check_nothing_aside(path);
  cr_assert(save_trial_is_at(&old, path));
}

static int missing_folder_body(party_rank_t *self) {
  const save_trial_t *trial = self->context;
  return check_failure(self, trial, 0, save_trial_run(self, trial), "No such file or directory");
}

Test(save, path_that_cannot_be_written_is_reported_by_rank_0) {
  save_trial_t trial = save_trial_of(40, folder_path(&folder, "missing/model"));
  PARTY_RUN(3, TIMEOUT_MS, missing_folder_body, &trial);
}

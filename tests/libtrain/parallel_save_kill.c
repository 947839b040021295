/*
 * A rank is killed at each step of a save: at a piece, and before and after each call that makes
 * data durable or replaces the file. These calls are defined here, so that they can be counted.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "save_trial.h"

#define RANKS 3
#define TIMEOUT_MS 30000
#define LATER 200 /* pieces; a rank has about 400 */

typedef enum kill_step {
  KILL_BEFORE,      /* the save */
  KILL_FIRST_PIECE, /* nothing of this rank is written */
  KILL_LATER_PIECE, /* something is */
  KILL_BEFORE_SYNC, /* everything is written */
  KILL_AFTER_SYNC,
  KILL_BEFORE_RENAME, /* rank 0 only, as the next one */
  KILL_AFTER_RENAME,
  KILL_STEPS
} kill_step_t;

/* The trial of this process if it is the one to be killed. */
static const save_trial_t *dying;

static void die_at(kill_step_t step) {
  if (dying != NULL && dying->step == (int)step) kill(getpid(), SIGKILL);
}

int fsync(int file) {
  die_at(KILL_BEFORE_SYNC);
  int result = (int)syscall(SYS_fsync, file);
  die_at(KILL_AFTER_SYNC);
  return result;
}

int rename(const char *from, const char *to) {
  die_at(KILL_BEFORE_RENAME);
  int result = (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
  die_at(KILL_AFTER_RENAME);
  return result;
}

static void die_at_piece(const save_trial_t *trial, int rank, size_t number) {
  static int pieces;
  (void)trial, (void)rank, (void)number;
  if (dying == NULL) return;
  die_at(pieces == 0 ? KILL_FIRST_PIECE : KILL_STEPS);
  if (pieces == LATER) die_at(KILL_LATER_PIECE);
  pieces++;
}

static int mortal_body(party_rank_t *self) {
  const save_trial_t *trial = self->context;
  if (self->rank == trial->victim) dying = trial;
  die_at(KILL_BEFORE);
  PARTY_REQUIRE(save_trial_run(self, trial) != COLL_OK, "rank %d saved", self->rank);
  return 0;
}

static void check_kill(const save_trial_t *old, const save_trial_t *new) {
  folder_t folder;
  harness_result_t result;
  struct stat found;
  folder_make(&folder);
  save_trial_t trial = *new, before = *old;
  snprintf(trial.path, sizeof trial.path, "%s", folder_path(&folder, "model"));
  save_trial_write(&before, trial.path);
  party_processes(RANKS, TIMEOUT_MS, mortal_body, &trial, &result);
  for (int rank = 0; rank < RANKS; rank++) {
    const harness_rank_t *ended = &result.ranks[rank];
    bool as_meant = rank == trial.victim ? ended->end == HARNESS_KILLED && ended->value == SIGKILL
                                         : ended->end == HARNESS_RETURNED && ended->value == 0;
    cr_assert(as_meant, "rank %d killed at step %d: %s", trial.victim, trial.step, result.text);
  }
  cr_assert(save_trial_is_at(trial.step == KILL_AFTER_RENAME ? new : old, trial.path),
            "rank %d killed at step %d", trial.victim, trial.step);
  cr_assert_neq(lstat(folder_path(&folder, "model.part"), &found), 0,
                "rank %d killed at step %d: its file was left", trial.victim, trial.step);
  folder_remove(&folder);
}

Test(save, kill_at_any_step_leaves_a_complete_file) {
  save_trial_t old = save_trial_of(41, ""), new = save_trial_of(42, "");
  new.on_piece = die_at_piece;
  for (new.step = 0; new.step < KILL_STEPS; new.step++) {
    int victims = new.step >= KILL_BEFORE_RENAME ? 1 : RANKS;
    for (new.victim = 0; new.victim < victims; new.victim++) check_kill(&old, &new);
  }
}

/*
 * Ranks that save a sample together. Each lists a part of it that a deliberately odd rule gives to
 * it: many short runs and a few long ones, in no useful order.
 */
#ifndef TESTS_LIBTRAIN_SAVE_TRIAL_H
#define TESTS_LIBTRAIN_SAVE_TRIAL_H

#include "folder.h"
#include "harness/party.h"
#include "libtrain/files/sample.h"
#include "libtrain/parallel/save.h"

typedef enum save_fault { SAVE_GAP = 1, SAVE_OVERLAP } save_fault_t;

typedef struct save_trial {
  sample_t sample;
  char path[128];
  save_fault_t fault; /* of the last rank's list; 0: none */
  void (*on_piece)(const struct save_trial *trial, int rank, size_t number); /* or NULL */
  int victim, step; /* of tests with faults */
} save_trial_t;

/* A sample whose largest tensor has several chunks. */
save_trial_t save_trial_of(uint64_t seed, const char *path);

/* Saves the rank's part. The status is that of train_checkpoint_save. */
coll_status_t save_trial_run(const party_rank_t *self, const save_trial_t *trial);

/* Writes the sample without other ranks; the file that all trials must make. */
void save_trial_write(save_trial_t *trial, const char *path);

/* Whether the file is complete and holds that sample. */
bool save_trial_is_at(const save_trial_t *trial, const char *path);

#endif

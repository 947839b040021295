/* Ownership and lengths of runs come from the counter-based generator. */
#include "save_trial.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "libtrain/common/random.h"
#include "libtrain/files/checkpoint.h"
#include "libtrain/files/model_file.h"

#define SHORT_RUN 300
#define LONG_RUN 50000

save_trial_t save_trial_of(uint64_t seed, const char *path) {
  const train_model_config_t config = {
      .vocabulary = 3001, .context = 16, .layers = 1, .heads = 1, .width = 96};
  save_trial_t trial = {.sample = sample_of_size(seed, &config)};
  snprintf(trial.path, sizeof trial.path, "%s", path);
  return trial;
}

/* A rank's part of a trial, as the context of its list. */
typedef struct part {
  const save_trial_t *trial;
  int rank, size;
  float *values; /* [LONG_RUN + 1] */
} part_t;

/* Lists one run. The faults make the run before the middle of the array one shorter or longer. */
static coll_status_t list_run(const part_t *part, train_array_t array, size_t first, size_t count,
                              size_t number, const train_piece_taker_t *taker) {
  const save_trial_t *trial = part->trial;
  size_t middle = trial->sample.elements / 2;
  bool faulty = first <= middle && middle < first + count;
  if (faulty && trial->fault == SAVE_GAP) count--;
  if (faulty && trial->fault == SAVE_OVERLAP) count++;
  for (size_t i = 0; i < count; i++) {
    part->values[i] = sample_element(&trial->sample, array, first + i);
  }
  if (trial->on_piece != NULL) trial->on_piece(trial, part->rank, number);
  const train_piece_t piece = {.array = array,
                               .first = first,
                               .count = count,
                               .dtype = TRAIN_FLOAT32,
                               .values = part->values};
  return taker->take(taker->context, &piece);
}

/* Runs with odd numbers first, then those with even ones. */
static coll_status_t list(const void *context, train_array_t array,
                          const train_piece_taker_t *taker) {
  const part_t *part = context;
  const sample_t *sample = &part->trial->sample;
  for (size_t parity = 2; parity-- > 0;) {
    for (size_t first = 0, count, number = 0; first < sample->elements; first += count, number++) {
      uint64_t draw = train_random_bits(7, TRAIN_RANDOM_BATCHES, number);
      count = draw % 40 == 0 ? LONG_RUN : 1 + draw / 64 % SHORT_RUN;
      if (count > sample->elements - first) count = sample->elements - first;
      int owner = (int)(draw / 65536 % (uint64_t)part->size);
      if (owner != part->rank || number % 2 != parity) continue;
      COLL_TRY(list_run(part, array, first, count, number, taker));
    }
  }
  return COLL_OK;
}

coll_status_t save_trial_run(const party_rank_t *self, const save_trial_t *trial) {
  train_group_t group;
  part_t part = {.trial = trial, .rank = self->rank, .size = self->size};
  const train_pieces_t pieces = {.context = &part, .list = list};
  coll_status_t status = train_group_init(self->comm, &group);
  part.values = malloc((LONG_RUN + 1) * sizeof *part.values);
  if (status == COLL_OK) {
    status = train_checkpoint_save(&group, trial->path, &trial->sample.metadata, &pieces);
  }
  free(part.values);
  return status;
}

void save_trial_write(save_trial_t *trial, const char *path) {
  const train_flat_t flat = sample_flat(&trial->sample);
  cr_assert_eq(train_format_checkpoint.write(path, &trial->sample.metadata, &flat, TRAIN_FLOAT32),
               COLL_OK, "%s", base_last_error());
}

bool save_trial_is_at(const save_trial_t *trial, const char *path) {
  train_model_file_t *file;
  bool same = true;
  cr_assert_eq(train_model_file_open(path, &file), COLL_OK, "%s", base_last_error());
  for (int array = 0; same && array < TRAIN_ARRAYS; array++) {
    same = sample_is_in(&trial->sample, &file->flat, (train_array_t)array);
  }
  train_model_file_close(file);
  return same;
}

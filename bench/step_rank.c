/* Model, store, tokens and training steps of a rank. */
#include "bench/step_rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "libtrain/common/random.h"
#include "libtrain/common/threads.h"

#define SEED 1
#define RATE 1e-4f
#define NORM_MAX 1
#define LOSS_SCALE 1024 /* of precisions whose gradients need one; a power of two */

static double ms_since(uint64_t start_ns) {
  return (double)(base_clock_now_ns() - start_ns) * 1e-6;
}

/* ---- setup ---- */

coll_status_t step_rank_join(step_rank_t *rank) {
  coll_comm_t comm;
  coll_status_t status = coll_comm_create_env(NULL, &comm);
  if (status != COLL_OK) return base_fail(status, "%s", coll_last_error(NULL));
  status = train_group_init(comm, &rank->group);
  if (status != COLL_OK) coll_comm_destroy(comm);
  return status;
}

static coll_status_t open_model(const step_settings_t *settings, step_rank_t *rank) {
  train_model_config_t config;
  int ranks = rank->group.size;
  if (settings->batch % ranks != 0) {
    return base_fail(COLL_ERROR_INVALID, "%d ranks cannot divide a batch of %d: make it a multiple",
                     ranks, (int)settings->batch);
  }
  rank->sequences = (int)settings->batch / ranks;
  rank->rows = rank->sequences * (int)settings->length;
  COLL_TRY(train_preset_find(settings->preset, &config));
  config.context = (int32_t)settings->length;
  COLL_TRY(train_layout_create(&config, &rank->layout));
  int threads = settings->threads > 0 ? (int)settings->threads : train_threads_default(ranks);
  COLL_TRY(train_pool_create(threads, &rank->pool));
  const train_model_options_t options = {.sequences = rank->sequences,
                                         .recompute = (train_recompute_t)settings->recompute,
                                         .precision = (train_precision_t)settings->precision,
                                         .pool = rank->pool};
  return train_model_create(rank->layout, &options, &rank->model);
}

static coll_status_t open_store(const step_settings_t *settings, step_rank_t *rank) {
  const train_store_options_t options = {.stage = (int)settings->zero,
                                         .bucket_bytes = (size_t)settings->bucket,
                                         .precision = (train_precision_t)settings->precision,
                                         .comm = {.overlap = !settings->no_overlap,
                                                  .bfloat16 = settings->bfloat16,
                                                  .skip_communication = settings->no_comm},
                                         .pool = rank->pool};
  COLL_TRY(train_store_create(rank->layout, &rank->group, &options, &rank->store));
  return train_store_initialize(rank->store, SEED);
}

/* ---- tokens ---- */

/* The tokens of the global batch do not depend on the number of ranks. */
static void draw_tokens(step_rank_t *rank) {
  size_t rows = (size_t)rank->rows, first = rows * (size_t)rank->group.rank;
  uint64_t vocabulary = (uint64_t)rank->layout->config.vocabulary;
  for (size_t i = 0; i < rows; i++) {
    uint64_t draw = 2 * (first + i);
    rank->tokens[i] = (int32_t)train_random_below(SEED, TRAIN_RANDOM_BATCHES, draw, vocabulary);
    rank->targets[i] =
        (int32_t)train_random_below(SEED, TRAIN_RANDOM_BATCHES, draw + 1, vocabulary);
  }
}

static void cut_tokens(const step_settings_t *settings, step_rank_t *rank, uint64_t step) {
  size_t length = (size_t)settings->length, starts = rank->text_bytes - length;
  size_t first = (size_t)(step - 1) * (size_t)settings->batch +
                 (size_t)rank->group.rank * (size_t)rank->sequences;
  for (size_t i = 0; i < (size_t)rank->rows; i++) {
    size_t start = (first + i / length) * length % starts;
    rank->tokens[i] = rank->text[start + i % length];
    rank->targets[i] = rank->text[start + i % length + 1];
  }
}

static coll_status_t read_bytes(const char *path, FILE *file, step_rank_t *rank) {
  void *memory;
  if (fseek(file, 0, SEEK_END) != 0) return base_fail_errno(COLL_ERROR_SYSTEM, "%s", path);
  long bytes = ftell(file);
  rewind(file);
  if (bytes <= rank->rows / rank->sequences) {
    return base_fail(COLL_ERROR_INVALID, "%s is shorter than a sequence and its last target", path);
  }
  COLL_TRY(base_alloc((size_t)bytes, 1, "the text", &memory));
  rank->text = memory;
  rank->text_bytes = (size_t)bytes;
  if (fread(rank->text, 1, rank->text_bytes, file) == rank->text_bytes) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot read %s", path);
}

static coll_status_t read_text(const char *path, step_rank_t *rank) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot open %s", path);
  coll_status_t status = read_bytes(path, file, rank);
  fclose(file);
  if (status != COLL_OK || rank->layout->config.vocabulary > UINT8_MAX) return status;
  return base_fail(COLL_ERROR_INVALID, "a vocabulary of %d has no tokens for all bytes of %s",
                   (int)rank->layout->config.vocabulary, path);
}

static coll_status_t open_tokens(const step_settings_t *settings, step_rank_t *rank) {
  void *memory;
  size_t rows = (size_t)rank->rows;
  COLL_TRY(base_alloc(2 * rows, sizeof(int32_t), "the tokens", &memory));
  rank->tokens = memory;
  rank->targets = rank->tokens + rows;
  if (settings->text != NULL) return read_text(settings->text, rank);
  draw_tokens(rank);
  return COLL_OK;
}

coll_status_t step_rank_open(const step_settings_t *settings, step_rank_t *rank) {
  coll_status_t status = open_model(settings, rank);
  if (status == COLL_OK) status = open_store(settings, rank);
  if (status == COLL_OK) status = open_tokens(settings, rank);
  return train_group_agree(&rank->group, status);
}

void step_rank_close(step_rank_t *rank) {
  free(rank->text);
  free(rank->tokens);
  train_store_destroy(rank->store);
  train_model_destroy(rank->model);
  train_pool_destroy(rank->pool);
  train_layout_destroy(rank->layout);
  if (rank->group.comm != NULL) coll_comm_destroy(rank->group.comm);
}

/* ---- a step ---- */

static coll_status_t pass(const step_settings_t *settings, step_rank_t *rank, float loss_scale,
                          double *loss) {
  const train_param_provider_t provider = train_store_provider(rank->store);
  float scale = 1.0f / ((float)settings->batch * (float)settings->length);
  train_store_begin(rank->store, 1);
  COLL_TRY(train_model_forward_backward(rank->model, &provider, rank->tokens, rank->targets,
                                        rank->sequences, (int)settings->length, scale * loss_scale,
                                        loss));
  *loss *= (double)scale;
  return COLL_OK;
}

coll_status_t step_rank_take(const step_settings_t *settings, step_rank_t *rank, uint64_t step,
                             step_timing_t *timing) {
  static const train_adamw_t adamw = TRAIN_ADAMW_INIT;
  double sums[2]; /* loss; squared gradient norm */
  float scale =
      train_policy_of((train_precision_t)settings->precision)->loss_scaling ? LOSS_SCALE : 1;
  if (rank->text != NULL) cut_tokens(settings, rank, step);
  uint64_t start_ns = base_clock_now_ns();
  COLL_TRY(pass(settings, rank, scale, &sums[0]));
  timing->passes_ms = ms_since(start_ns);
  start_ns = base_clock_now_ns();
  COLL_TRY(train_store_finish(rank->store, &sums[1]));
  COLL_TRY(train_group_sum_doubles(&rank->group, sums, 2));
  timing->reduce_ms = ms_since(start_ns);
  start_ns = base_clock_now_ns();
  float clip = train_gradient_clip(sqrt(sums[1]) / (double)scale, NORM_MAX);
  COLL_TRY(train_store_update(rank->store, &adamw, clip / scale, RATE, step));
  timing->update_ms = ms_since(start_ns);
  timing->waited_ms = (double)train_store_traffic(rank->store).waited_ns * 1e-6;
  timing->loss = sums[0];
  return COLL_OK;
}

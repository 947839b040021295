/* gpt train: opens model, data and store, lets all ranks agree on errors, and runs the training
 * loop. */
#include <stdlib.h>

#include "libtrain/data/tokenizer_files.h"
#include "libtrain/files/model_file.h"
#include "tools/gpt/corpus.h"
#include "tools/gpt/footprint.h"
#include "tools/gpt/gpt.h"
#include "tools/gpt/logger.h"
#include "tools/gpt/parallel.h"
#include "tools/gpt/resume.h"
#include "tools/gpt/trace.h"

/* State at the beginning of a run: a new model, or the one in the file to resume. */
typedef struct start {
  train_model_file_t *file;     /* NULL for a new model */
  train_tokenizer_t *tokenizer; /* NULL if unknown */
  train_layout_t *layout;       /* of the whole model */
  gpt_parallel_t parallel;
  train_metadata_t metadata;
  train_pool_t *pool;
  train_store_t *store;
  train_corpus_t corpus;
  train_trace_t *trace; /* NULL: not requested */
} start_t;

/* Stores the tokenizer in the metadata, so that checkpoints are self-contained. */
static coll_status_t set_tokenizer(const train_tokenizer_t *tokenizer, train_metadata_t *metadata) {
  char *text;
  size_t count;
  if (tokenizer == NULL) return COLL_OK;
  COLL_TRY(train_tokenizer_to_json(tokenizer, &text, &count));
  coll_status_t status = train_metadata_set_tokenizer(metadata, text, count);
  free(text);
  return status;
}

static coll_status_t new_config(const gpt_settings_t *settings, const start_t *start,
                                train_model_config_t *config) {
  size_t tokens = start->tokenizer != NULL ? start->tokenizer->tokens.count : 0;
  if (tokens == 0 && settings->vocabulary == 0) {
    return base_fail(COLL_ERROR_INVALID,
                     "there is no tokenizer next to the shards %s: give --tokenizer, or "
                     "--vocabulary (50257 for GPT-2's tokens)",
                     settings->data);
  }
  *config = gpt_settings_model(settings, tokens);
  return COLL_OK;
}

static coll_status_t open_model(const gpt_settings_t *settings, start_t *start) {
  const train_metadata_t *saved = NULL;
  train_model_config_t config;
  if (settings->resume != NULL) {
    COLL_TRY(train_model_file_open(settings->resume, &start->file));
    saved = &start->file->metadata;
    config = saved->config;
    start->metadata = *saved;
    start->metadata.tokenizer = NULL; /* owned by the file */
    start->metadata.tokenizer_bytes = 0;
  }
  COLL_TRY(gpt_tokenizer_find(settings->tokenizer, saved, settings->data, &start->tokenizer));
  if (saved == NULL) COLL_TRY(new_config(settings, start, &config));
  start->metadata.position.seed = (uint64_t)settings->seed;
  COLL_TRY(set_tokenizer(start->tokenizer, &start->metadata));
  return train_layout_create(&config, &start->layout);
}

/* Stores the settings in the metadata and compares them with those of the checkpoint to resume. */
static coll_status_t set_settings(const gpt_settings_t *settings, start_t *start) {
  gpt_resume_set_settings(settings, start->corpus.training.count, &start->metadata);
  if (start->file == NULL) return COLL_OK;
  return gpt_resume_check(settings, start->file, &start->metadata);
}

static coll_status_t open_store(const gpt_settings_t *settings, gpt_setup_t *setup,
                                start_t *start) {
  train_store_options_t options = gpt_settings_store(settings);
  options.pool = start->pool;
  if (train_part_groups_experts(&start->parallel.part->part)) {
    options.experts = &start->parallel.ranks.experts;
  }
  COLL_TRY(gpt_parallel_memory(settings, &start->parallel, start->pool, &setup->memory));
  setup->footprint_before = gpt_footprint_bytes();
  COLL_TRY(train_store_create(start->parallel.part, &start->parallel.ranks.data, &options,
                              &start->store));
  if (start->file != NULL) return train_store_load(start->store, &start->file->flat);
  return train_store_initialize(start->store, start->metadata.position.seed);
}

static void close_all(start_t *start) {
  train_store_destroy(start->store);
  gpt_parallel_close(&start->parallel);
  train_trace_destroy(start->trace);
  train_corpus_close(&start->corpus);
  train_metadata_free(&start->metadata);
  train_pool_destroy(start->pool);
  train_layout_destroy(start->layout);
  train_tokenizer_destroy(start->tokenizer);
  train_model_file_close(start->file);
}

static coll_status_t train(const gpt_setup_t *setup, start_t *start) {
  train_options_t options = gpt_settings_options(setup->settings);
  options.tokenizer = start->tokenizer;
  gpt_logger_t *logger = NULL;
  train_result_t result;
  coll_status_t status =
      gpt_parallel_passes(setup->settings, &start->parallel, start->pool, &options.model);
  if (status == COLL_OK) {
    status = gpt_trace_open(setup->settings, setup->group, &start->trace);
    options.trace = start->trace;
  }
  if (status == COLL_OK) status = gpt_logger_open(setup, &logger);
  status = train_group_agree(setup->group, status);
  if (status == COLL_OK) {
    const train_observer_t observer = gpt_logger_observer(logger);
    status = train_run(&options, setup->corpus, &start->parallel.ranks, &observer, start->store,
                       &start->metadata, &result);
    gpt_logger_stop(logger);
  }
  if (status == COLL_OK) {
    status = train_group_agree(setup->group, gpt_logger_finish(logger, &result));
  }
  if (status == COLL_OK) {
    status = gpt_trace_write(start->trace, setup->settings, setup->group, setup->parallel);
  }
  gpt_logger_close(logger);
  return status;
}

static coll_status_t run(const gpt_settings_t *settings, const train_group_t *group) {
  start_t start = {0};
  gpt_setup_t setup = {
      .settings = settings, .group = group, .parallel = &start.parallel, .corpus = &start.corpus};
  coll_status_t status = gpt_parallel_open(settings, group, &start.parallel);
  if (status != COLL_OK) {
    close_all(&start);
    return status;
  }
  status = gpt_pool_create(group, settings->threads, &start.pool);
  if (status == COLL_OK) status = open_model(settings, &start);
  status = train_group_agree(group, status);
  if (status == COLL_OK) {
    status = gpt_parallel_profile(settings, &start.layout->config, start.pool, &start.parallel);
  }
  if (status == COLL_OK) {
    status =
        train_group_agree(group, gpt_parallel_divide(settings, &start.layout->config,
                                                     settings->resume != NULL, &start.parallel));
  }
  if (status == COLL_OK) {
    status = gpt_corpus_open(group, settings->data, start.tokenizer, &start.layout->config,
                             &start.corpus);
  }
  if (status == COLL_OK) status = train_group_agree(group, set_settings(settings, &start));
  if (status == COLL_OK) {
    setup.layout = start.layout;
    setup.first_step = start.metadata.position.step;
    setup.threads = train_pool_threads(start.pool);
    if (start.file != NULL && group->rank == 0) gpt_resume_print_precision(settings, start.file);
    status = gpt_speed_measure(start.layout, group, start.pool,
                               (train_precision_t)settings->precision, &setup.speed);
  }
  if (status == COLL_OK) status = train_group_agree(group, open_store(settings, &setup, &start));
  if (status == COLL_OK) status = train(&setup, &start);
  close_all(&start);
  return status;
}

static const gpt_settings_command_t command = {
    .name = "gpt train",
    .usage = "[options]",
    .summary =
        "Trains a GPT-2 on text files, as bytes or as a tokenizer's tokens, or on token shards, "
        "and\n"
        "saves it. One file in ten is held out for evaluation, of a single file the last tenth.\n"
        "Under a launcher the ranks divide the batch; the result is the same. Speed is reported in "
        "tokens/s and as a fraction of "
        "the\n"
        "machine's rate of matrix products (GEMM), measured at the start: a token takes\n"
        "6 N + 12 L C T operations, with N parameters (without the position table), L layers,\n"
        "width C and context T.",
    .examples =
        "  gpt train --data ~/src --seconds 300 --out src.ckpt --curve src.svg\n"
        "      five minutes on your own folder, on one rank with all cores; draws the loss curve\n"
        "  collrun -n 2 gpt train\n"
        "      a minute on the C headers in /usr/include, on two ranks\n"
        "  collrun -n 4 gpt train --preset mini --steps 500 --log run.jsonl --tensorboard runs/a\n"
        "      500 steps of a larger model without a time limit, with a log record of each\n"
        "  gpt train --preset mini --lr 1e-3 --print-config > mini.json\n"
        "  gpt train --config mini.json --steps 200\n"
        "      options from a file, one key each\n"
        "  gpt train --resume gpt.ckpt --steps 400 --log run.jsonl --curve run.svg\n"
        "      resumes the run; the curve includes the steps in the log\n"};

int gpt_train(int argc, char **argv) {
  gpt_settings_t settings;
  train_group_t group = {0};
  bool done;
  coll_status_t status = gpt_settings_parse(&command, argc, argv, &settings, &done);
  if (!done) {
    status = gpt_group_open(status, &group);
    if (status == COLL_OK) status = base_tool_input(run(&settings, &group));
  }
  gpt_settings_free(&settings);
  return gpt_finish(command.name, status, &group);
}

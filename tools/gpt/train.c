/* gpt train: everything is opened, all ranks agree, then the loop of libtrain runs. */
#include <stdio.h>

#include "libtrain/files/file.h"
#include "tools/gpt/footprint.h"
#include "tools/gpt/gpt.h"
#include "tools/gpt/record.h"

/* What a run begins with: a new model, or the one in a file to resume. */
typedef struct start {
  train_file_t *file; /* NULL for a new model */
  train_layout_t *layout;
  train_record_t record; /* its tokenizer is the file's */
  train_pool_t *pool;
  train_store_t *store;
  train_data_t data;
} start_t;

static coll_status_t open_model(const gpt_settings_t *settings, start_t *start) {
  const train_model_config_t config = gpt_settings_model(settings);
  if (settings->resume == NULL) {
    start->record.position.seed = (uint64_t)settings->seed;
    return train_layout_create(&config, &start->layout);
  }
  COLL_TRY(train_file_open(settings->resume, &start->file));
  start->record = start->file->record;
  return train_layout_create(&start->record.config, &start->layout);
}

static coll_status_t open_inputs(const gpt_settings_t *settings, const train_team_t *team,
                                 start_t *start) {
  COLL_TRY(gpt_pool_create(team, settings->threads, &start->pool));
  COLL_TRY(open_model(settings, start));
  COLL_TRY(train_data_load(settings->data, &start->data));
  return train_data_check(&start->data, start->layout->config.context);
}

static coll_status_t open_store(const gpt_settings_t *settings, gpt_setup_t *setup,
                                start_t *start) {
  train_store_options_t options = gpt_settings_store(settings);
  train_model_options_t passes;
  COLL_TRY(gpt_settings_passes(settings, setup->team->size, &passes));
  options.pool = passes.pool = start->pool;
  COLL_TRY(
      train_memory_predict(start->layout, &passes, &options, setup->team->size, &setup->memory));
  setup->footprint_before = gpt_footprint_bytes();
  COLL_TRY(train_store_create(start->layout, setup->team, &options, &start->store));
  if (start->file != NULL) return train_store_load(start->store, &start->file->flat);
  return train_store_initialize(start->store, start->record.position.seed);
}

static void close_all(start_t *start) {
  train_data_free(&start->data);
  train_store_destroy(start->store);
  train_pool_destroy(start->pool);
  train_layout_destroy(start->layout);
  train_file_close(start->file);
}

static coll_status_t train(const gpt_setup_t *setup, start_t *start) {
  train_options_t options = gpt_settings_options(setup->settings);
  gpt_record_t *record = NULL;
  train_result_t result;
  coll_status_t status = gpt_settings_passes(setup->settings, setup->team->size, &options.model);
  options.model.pool = start->pool;
  if (status == COLL_OK) status = gpt_record_open(setup, &record);
  status = train_team_agree(setup->team, status);
  if (status == COLL_OK) {
    const train_observer_t observer = gpt_record_observer(record);
    status = train_run(&options, setup->data, setup->team, &observer, start->store, &start->record,
                       &result);
    gpt_record_stop(record);
  }
  if (status == COLL_OK) {
    status = train_team_agree(setup->team, gpt_record_finish(record, &result));
  }
  gpt_record_close(record);
  return status;
}

static coll_status_t run(const gpt_settings_t *settings, const train_team_t *team) {
  start_t start = {0};
  gpt_setup_t setup = {.settings = settings, .team = team, .data = &start.data};
  coll_status_t status = train_team_agree(team, open_inputs(settings, team, &start));
  if (status == COLL_OK) {
    setup.layout = start.layout;
    setup.threads = train_pool_threads(start.pool);
    status = gpt_speed_measure(start.layout, team, start.pool, &setup.speed);
  }
  if (status == COLL_OK) status = train_team_agree(team, open_store(settings, &setup, &start));
  if (status == COLL_OK) status = train(&setup, &start);
  close_all(&start);
  return status;
}

static const gpt_settings_command_t command = {
    .name = "gpt train",
    .usage = "[options]",
    .summary =
        "Trains a GPT-2 on the bytes of text files and saves it. One file in ten is held out and\n"
        "measured. Under a launcher the ranks split the batch; the result is the same. Speed is\n"
        "told in tokens/s and as a part of the machine's sgemm rate, measured at the start: a\n"
        "token takes 6 N + 12 L C T operations (N parameters, L layers, width C, context T).",
    .examples =
        "  gpt train --data ~/src --seconds 300 --out src.ckpt --curve src.svg\n"
        "      five minutes on a folder of your own, on one rank with all cores; draws the loss\n"
        "  collrun -n 2 gpt train\n"
        "      a minute on the C headers in /usr/include, on two ranks\n"
        "  collrun -n 4 gpt train --preset mini --steps 500 --log run.jsonl --tensorboard runs/a\n"
        "      500 steps of a larger model, whatever time they take, and a record of each\n"
        "  gpt train --preset mini --lr 1e-3 --print-config > mini.json\n"
        "  gpt train --config mini.json --steps 200\n"
        "      options kept in a file, one key each\n"};

int gpt_train(int argc, char **argv) {
  gpt_settings_t settings;
  train_team_t team = {0};
  bool done;
  coll_status_t status = gpt_settings_parse(&command, argc, argv, &settings, &done);
  if (!done) {
    status = gpt_team_open(status, &team);
    if (status == COLL_OK) status = run(&settings, &team);
  }
  gpt_settings_free(&settings);
  return gpt_finish(command.name, status, &team);
}

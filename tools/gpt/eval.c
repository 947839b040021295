/* gpt eval: the held-out loss of a checkpoint, computed by all ranks together. */
#include <stdlib.h>

#include "libtrain/files/file.h"
#include "tools/gpt/gpt.h"

#define SEQUENCES 16 /* per forward pass */

typedef struct settings {
  const char *checkpoint, *data;
  uint64_t bytes;
  int64_t threads;
} settings_t;

static coll_status_t open_all(const settings_t *settings, const train_team_t *team,
                              train_file_t **file, float **parameters, train_data_t *data,
                              train_pool_t **pool) {
  COLL_TRY(gpt_pool_create(team, settings->threads, pool));
  COLL_TRY(train_file_open(settings->checkpoint, file));
  COLL_TRY(train_file_parameters(*file, parameters));
  COLL_TRY(train_data_load(settings->data, data));
  return train_data_check(data, (*file)->record.config.context);
}

static coll_status_t evaluate(const settings_t *settings, const train_team_t *team,
                              const train_data_t *data, train_arena_t *arena, train_pool_t *pool,
                              train_evaluation_t *evaluation) {
  const train_model_options_t options = {
      .sequences = SEQUENCES, .forward_only = true, .pool = pool};
  train_model_t *model = NULL;
  COLL_TRY(train_team_agree(team, train_model_create(arena->layout, &options, &model)));
  const train_source_t source = train_arena_source(arena);
  coll_status_t status =
      train_evaluate(&data->held_out, (size_t)settings->bytes, team, model, &source, evaluation);
  train_model_destroy(model);
  return status;
}

static coll_status_t run(const settings_t *settings, const train_team_t *team) {
  train_file_t *file = NULL;
  train_arena_t arena = {0};
  train_data_t data = {0};
  train_evaluation_t evaluation;
  train_pool_t *pool = NULL;
  coll_status_t status =
      train_team_agree(team, open_all(settings, team, &file, &arena.parameters, &data, &pool));
  if (status == COLL_OK) {
    arena.layout = file->layout;
    status = evaluate(settings, team, &data, &arena, pool, &evaluation);
  }
  if (status == COLL_OK && team->rank == 0) gpt_evaluation_print(&evaluation);
  train_data_free(&data);
  free(arena.parameters);
  train_file_close(file);
  train_pool_destroy(pool);
  return status;
}

int gpt_eval(int argc, char **argv) {
  settings_t s = {.checkpoint = GPT_DEFAULT_CHECKPOINT, .data = GPT_DEFAULT_DATA, .bytes = 1 << 20};
  const base_option_t table[] = {
      {'k', "checkpoint", BASE_OPTION_TEXT, &s.checkpoint, "FILE", "the model"},
      {'d', "data", BASE_OPTION_TEXT, &s.data, "PATH", "a text file or a folder tree of them"},
      {0, "eval-bytes", BASE_OPTION_BYTES, &s.bytes, "SIZE", "held-out bytes to predict", 1,
       INT64_C(1) << 40},
      {'j', "threads", BASE_OPTION_INTEGER, &s.threads, "N",
       "threads per rank; 0: its share of the cores", 0, 1024}};
  const base_command_t command = {
      .name = "gpt eval",
      .usage = "[options]",
      .summary = "Measures a checkpoint on the held-out files of a text folder.",
      .examples =
          "  gpt eval --checkpoint src.ckpt --data ~/src\n"
          "      on the files of ~/src that gpt train never trains on\n",
      .options = table,
      .option_count = sizeof table / sizeof table[0]};
  bool helped = false;
  coll_status_t status = gpt_options_parse(&command, argc, argv, &helped);
  if (helped) return 0;
  train_team_t team = {0};
  status = gpt_team_open(status, &team);
  if (status == COLL_OK) status = run(&s, &team);
  return gpt_finish(command.name, status, &team);
}

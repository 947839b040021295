/* gpt eval: computes the held-out loss of a checkpoint on all ranks together, in any layout. */
#include <stdlib.h>
#include <string.h>

#include "libtrain/files/model_file.h"
#include "tools/gpt/corpus.h"
#include "tools/gpt/gpt.h"
#include "tools/gpt/parallel.h"

#define SEQUENCES 16 /* per forward pass */

typedef struct settings {
  const char *checkpoint, *data, *tokenizer;
  int64_t tokens, threads;
  int precision;       /* a train_precision_t */
  gpt_settings_t mesh; /* how the ranks divide the model */
} settings_t;

typedef struct subject {
  gpt_parallel_t parallel;
  train_model_file_t *file;
  train_tokenizer_t *tokenizer;
  train_arena_t arena; /* of this rank's part */
  train_corpus_t corpus;
  train_pool_t *pool;
} subject_t;

static coll_status_t open_model(const settings_t *settings, const train_group_t *group,
                                subject_t *subject) {
  COLL_TRY(gpt_pool_create(group, settings->threads, &subject->pool));
  COLL_TRY(train_model_file_open(settings->checkpoint, &subject->file));
  COLL_TRY(gpt_parallel_divide(&settings->mesh, &subject->file->layout->config, true,
                               &subject->parallel));
  subject->arena.layout = subject->parallel.part;
  subject->arena.dtype =
      train_precision_stored((train_precision_t)settings->precision, TRAIN_KIND_WEIGHTS);
  COLL_TRY(train_model_file_read_part(subject->file, subject->parallel.part, subject->arena.dtype,
                                      &subject->arena.parameters));
  return gpt_tokenizer_find(settings->tokenizer, &subject->file->metadata, settings->data,
                            &subject->tokenizer);
}

/* For train_loss_t. */
static coll_status_t compute_loss(void *executor, const int32_t *tokens, const int32_t *targets,
                                  int count, double *loss) {
  return train_executor_loss(executor, tokens, targets, count, loss);
}

static coll_status_t evaluate(const settings_t *settings, const train_group_t *group,
                              subject_t *subject, train_evaluation_t *evaluation) {
  const train_ranks_t *ranks = &subject->parallel.ranks;
  const train_model_config_t *config = &subject->file->layout->config;
  const train_model_options_t options = {.sequences = SEQUENCES,
                                         .precision = (train_precision_t)settings->precision,
                                         .pool = subject->pool};
  const train_param_provider_t provider = train_arena_provider(&subject->arena);
  train_executor_t *executor;
  COLL_TRY(gpt_corpus_open(group, settings->data, subject->tokenizer, config, &subject->corpus));
  COLL_TRY(
      train_executor_create_forward(subject->parallel.part, &provider, ranks, &options, &executor));
  const train_loss_t loss = {.sequences = SEQUENCES,
                             .context = config->context,
                             .compute = compute_loss,
                             .computer = executor};
  coll_status_t status = train_evaluate(&subject->corpus.held_out, subject->tokenizer,
                                        (uint64_t)settings->tokens, ranks, &loss, evaluation);
  status = train_executor_fail(executor, status);
  train_executor_destroy(executor);
  return status;
}

static coll_status_t run(const settings_t *settings, const train_group_t *group) {
  subject_t subject = {0};
  train_evaluation_t evaluation;
  coll_status_t status = gpt_parallel_open(&settings->mesh, group, &subject.parallel);
  if (status == COLL_OK) status = train_group_agree(group, open_model(settings, group, &subject));
  if (status == COLL_OK) status = evaluate(settings, group, &subject, &evaluation);
  if (status == COLL_OK && group->rank == 0) gpt_evaluation_print(&evaluation);
  train_corpus_close(&subject.corpus);
  free(subject.arena.parameters);
  train_tokenizer_destroy(subject.tokenizer);
  train_model_file_close(subject.file);
  gpt_parallel_close(&subject.parallel);
  train_pool_destroy(subject.pool);
  return status;
}

enum { OPTIONS = 6 }; /* of its own */

int gpt_eval(int argc, char **argv) {
  settings_t s = {
      .checkpoint = GPT_DEFAULT_CHECKPOINT, .data = GPT_DEFAULT_DATA, .tokens = 1 << 20};
  base_option_t table[OPTIONS + GPT_MESH_OPTIONS + GPT_KIND_OPTIONS] = {
      {'k', "checkpoint", BASE_OPTION_TEXT, &s.checkpoint, "FILE", "the model"},
      {'d', "data", BASE_OPTION_TEXT, &s.data, "PATH",
       "text file, folder tree of text files, or token shards"},
      {0, "tokenizer", BASE_OPTION_TEXT, &s.tokenizer, "FILE",
       "the model's tokenizer, if the model file does not contain it"},
      {0, "eval-tokens", BASE_OPTION_INTEGER, &s.tokens, "N", "held-out tokens to predict", 1,
       INT64_C(1) << 40},
      gpt_settings_forward_precision(&s.precision),
      {'j', "threads", BASE_OPTION_INTEGER, &s.threads, "N",
       "threads per rank; 0: its share of the cores", 0, 1024}};
  gpt_mesh_options(&s.mesh.mesh, table + OPTIONS);
  gpt_settings_kinds(&s.mesh, table + OPTIONS + GPT_MESH_OPTIONS);
  const base_command_t command = {
      .name = "gpt eval",
      .usage = "[options]",
      .summary =
          "Computes the loss of a model on the held-out part of text or token shards. Under a "
          "launcher the\nranks divide the data or, with --tp, --pp and --cp, the model and its "
          "sequences, as gpt train does:\nthe loss is the same.",
      .examples =
          "  gpt eval --checkpoint src.ckpt --data ~/src\n"
          "      on the files of ~/src that gpt train holds out\n"
          "  collrun -n 4 gpt eval --checkpoint gpt2/ --data ~/src --tp 2 --pp 2\n"
          "      a model of Hugging Face, of which each rank reads a quarter\n",
      .options = table,
      .option_count = sizeof table / sizeof table[0]};
  bool help_printed = false;
  coll_status_t status = gpt_options_parse(&command, argc, argv, &help_printed);
  if (help_printed) return 0;
  train_group_t group = {0};
  status = gpt_group_open(status, &group);
  if (status == COLL_OK) status = base_tool_input(run(&s, &group));
  return gpt_finish(command.name, status, &group);
}

/* gpt sample: generates text with a checkpoint, on one rank or on several that divide the model,
 * and writes each token when it is sampled. */
#include "libtrain/model/sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "libtrain/files/model_file.h"
#include "tools/gpt/corpus.h"
#include "tools/gpt/gpt.h"
#include "tools/gpt/parallel.h"

typedef struct settings {
  const char *checkpoint, *prompt, *tokenizer;
  int64_t tokens, top_k, seed, threads;
  double temperature;
  int precision;       /* a train_precision_t */
  gpt_settings_t mesh; /* how the ranks divide the model */
} settings_t;

typedef struct subject {
  gpt_parallel_t parallel;
  train_model_file_t *file;
  train_tokenizer_t *tokenizer;
  train_arena_t arena; /* of this rank's part */
  train_pool_t *pool;
  int32_t *prompt; /* [prompt_count] */
  size_t prompt_count;
} subject_t;

typedef struct writer {
  const train_tokenizer_t *tokenizer;
  FILE *out;  /* NULL: this rank writes nothing */
  bool alone; /* no other rank samples */
} writer_t;

/* The end-of-document token stops the sampling, on all ranks. A failure to write is found at the
 * end: the others sample on. */
static bool write_token(void *context, int32_t token) {
  const writer_t *writer = context;
  size_t count;
  if (token == writer->tokenizer->end || (size_t)token >= writer->tokenizer->tokens.count) {
    return false;
  }
  const uint8_t *bytes = train_tokenizer_decode(writer->tokenizer, (uint16_t)token, &count);
  if (writer->out == NULL) return true;
  bool written = fwrite(bytes, 1, count, writer->out) == count && base_tool_flush();
  return written || !writer->alone;
}

/* The end-of-document token and the prompt, in new memory that the caller frees. */
static coll_status_t prompt_of(const settings_t *settings, train_tokenizer_t *tokenizer,
                               int32_t **prompt, size_t *count) {
  train_ids_t ids = {0};
  void *memory = NULL;
  coll_status_t status =
      train_tokenizer_encode(tokenizer, settings->prompt, strlen(settings->prompt), &ids);
  if (status == COLL_OK) {
    status = base_alloc(1 + ids.count, sizeof(int32_t), "the prompt", &memory);
  }
  if (status == COLL_OK) {
    int32_t *tokens = memory;
    tokens[0] = tokenizer->end;
    for (size_t i = 0; i < ids.count; i++) tokens[1 + i] = ids.ids[i];
    *prompt = tokens;
    *count = 1 + ids.count;
  }
  train_ids_free(&ids);
  return status;
}

/* For train_extender_t. */
static coll_status_t extend(void *executor, const int32_t *tokens, int first, int count,
                            float *logits) {
  return train_executor_extend(executor, tokens, first, count, logits);
}

static coll_status_t write_sample(const settings_t *settings, const subject_t *subject,
                                  train_executor_t *executor) {
  const train_model_config_t *config = &subject->file->layout->config;
  const train_sampling_t sampling = {.temperature = settings->temperature,
                                     .top_k = (int)settings->top_k,
                                     .seed = (uint64_t)settings->seed};
  const train_extender_t extender = {.context = config->context,
                                     .vocabulary = config->vocabulary,
                                     .extend = extend,
                                     .extending = executor};
  const train_group_t *all = &subject->parallel.ranks.all;
  writer_t writer = {.tokenizer = subject->tokenizer,
                     .out = all->rank == 0 ? stdout : NULL,
                     .alone = all->size == 1};
  if (writer.out != NULL) fputs(settings->prompt, writer.out);
  return train_sample(&extender, subject->prompt, subject->prompt_count, (size_t)settings->tokens,
                      &sampling, write_token, &writer);
}

static coll_status_t sample(const settings_t *settings, const train_group_t *group,
                            subject_t *subject) {
  const train_model_options_t options = {
      .sequences = 1, .precision = (train_precision_t)settings->precision, .pool = subject->pool};
  const train_param_provider_t provider = train_arena_provider(&subject->arena);
  train_executor_t *executor;
  COLL_TRY(train_executor_create_forward(subject->parallel.part, &provider,
                                         &subject->parallel.ranks, &options, &executor));
  coll_status_t status = write_sample(settings, subject, executor);
  status = train_executor_fail(executor, status);
  train_executor_destroy(executor);
  if (status == COLL_OK && group->rank == 0) putchar('\n');
  return train_group_agree(group, status);
}

/* The nearest layout that uses `more` times as many tensor ranks or stages. */
static const char *nearest(const train_mesh_shape_t *shape, const train_model_config_t *config,
                           int more, char text[48]) {
  int tensor = more * shape->size[TRAIN_MESH_TP], stages = more * shape->size[TRAIN_MESH_PP];
  int ranks = shape->ranks / more;
  if (config->heads % tensor == 0) {
    snprintf(text, 48, "give --tp %d", tensor);
  } else if (config->layers >= stages) {
    snprintf(text, 48, "give --pp %d", stages);
  } else {
    snprintf(text, 48, "start %d rank%s", ranks, ranks > 1 ? "s" : "");
  }
  return text;
}

/* One position of one sequence at a time: only layers and their order can be divided. */
static coll_status_t check_mesh(const train_mesh_shape_t *shape,
                                const train_model_config_t *config) {
  int data = shape->size[TRAIN_MESH_DP], context = shape->size[TRAIN_MESH_CP];
  char text[48];
  if (context > 1) {
    return base_fail(COLL_ERROR_INVALID,
                     "--cp %d divides the positions of a sequence, but a sample has one at a time: "
                     "%s instead",
                     context, nearest(shape, config, context, text));
  }
  if (data == 1) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "--dp %d divides the sequences of a batch, but a sample is one: %s instead",
                   data, nearest(shape, config, data, text));
}

static coll_status_t open_tokenizer(const settings_t *settings, subject_t *subject) {
  const int32_t vocabulary = subject->file->metadata.config.vocabulary;
  train_tokenizer_t **tokenizer = &subject->tokenizer;
  COLL_TRY(gpt_tokenizer_find(settings->tokenizer, &subject->file->metadata, NULL, tokenizer));
  if (*tokenizer == NULL) {
    return base_fail(COLL_ERROR_INVALID, "%s does not contain its tokenizer: give --tokenizer",
                     settings->checkpoint);
  }
  if ((*tokenizer)->tokens.count > (size_t)vocabulary) {
    return base_fail(COLL_ERROR_INVALID, "the tokenizer has %zu tokens, but the model only %d",
                     (*tokenizer)->tokens.count, vocabulary);
  }
  return COLL_OK;
}

static coll_status_t open_model(const settings_t *settings, subject_t *subject) {
  train_arena_t *arena = &subject->arena;
  if (settings->temperature < 0) {
    return base_fail(COLL_ERROR_INVALID, "--temperature %g: give 0 or more", settings->temperature);
  }
  COLL_TRY(train_model_file_open(settings->checkpoint, &subject->file));
  COLL_TRY(check_mesh(&subject->parallel.mesh->shape, &subject->file->layout->config));
  COLL_TRY(gpt_parallel_divide(&settings->mesh, &subject->file->layout->config, true,
                               &subject->parallel));
  COLL_TRY(open_tokenizer(settings, subject));
  COLL_TRY(prompt_of(settings, subject->tokenizer, &subject->prompt, &subject->prompt_count));
  COLL_TRY(train_pool_create((int)settings->threads, &subject->pool));
  arena->layout = subject->parallel.part;
  arena->dtype = train_precision_stored((train_precision_t)settings->precision, TRAIN_KIND_WEIGHTS);
  return train_model_file_read_part(subject->file, arena->layout, arena->dtype, &arena->parameters);
}

static coll_status_t run(const settings_t *settings, const train_group_t *group) {
  subject_t subject = {0};
  coll_status_t status = gpt_parallel_open(&settings->mesh, group, &subject.parallel);
  if (status == COLL_OK) status = train_group_agree(group, open_model(settings, &subject));
  if (status == COLL_OK) status = sample(settings, group, &subject);
  train_pool_destroy(subject.pool);
  free(subject.arena.parameters);
  free(subject.prompt);
  train_tokenizer_destroy(subject.tokenizer);
  train_model_file_close(subject.file);
  gpt_parallel_close(&subject.parallel);
  return status;
}

enum { OPTIONS = 9 }; /* of its own */

int gpt_sample(int argc, char **argv) {
  settings_t s = {.checkpoint = GPT_DEFAULT_CHECKPOINT,
                  .prompt = "",
                  .tokens = 400,
                  .seed = 1,
                  .threads = 1,
                  .temperature = 0.8};
  base_option_t table[OPTIONS + GPT_MESH_OPTIONS] = {
      {'k', "checkpoint", BASE_OPTION_TEXT, &s.checkpoint, "FILE", "the model"},
      {'p', "prompt", BASE_OPTION_TEXT, &s.prompt, "TEXT", "the beginning of the text"},
      {'n', "tokens", BASE_OPTION_INTEGER, &s.tokens, "N",
       "maximum tokens; the end of a document stops earlier", 0, 1 << 30},
      {0, "tokenizer", BASE_OPTION_TEXT, &s.tokenizer, "FILE",
       "the model's tokenizer, if the model file does not contain it"},
      {0, "temperature", BASE_OPTION_NUMBER, &s.temperature, "X",
       "0: the most probable token; 1: the model's distribution"},
      {0, "top-k", BASE_OPTION_INTEGER, &s.top_k, "K",
       "sample from this many most probable tokens; 0: from all", 0, 1 << 20},
      {0, "seed", BASE_OPTION_INTEGER, &s.seed, "N", "of the random numbers"},
      gpt_settings_forward_precision(&s.precision),
      {'j', "threads", BASE_OPTION_INTEGER, &s.threads, "N", "threads of each rank", 1, 1024}};
  gpt_mesh_options(&s.mesh.mesh, table + OPTIONS);
  const base_command_t command = {
      .name = "gpt sample",
      .usage = "[options]",
      .summary =
          "Generates text with a checkpoint that gpt train has saved. Under a launcher the ranks "
          "divide the\nmodel, by --tp and --pp; the text is the same.",
      .examples =
          "  gpt sample --prompt '#include <' --tokens 400\n"
          "      continues the prompt, with gpt.ckpt\n"
          "  gpt sample --checkpoint src.ckpt --temperature 0\n"
          "      the most probable file, from its first byte\n"
          "  collrun -n 2 gpt sample --checkpoint gpt2/ --tokenizer gpt2/ --tp 2\n"
          "      each of two ranks has half of every layer of a model of Hugging Face\n",
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

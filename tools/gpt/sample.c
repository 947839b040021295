/* gpt sample: generates text with a checkpoint and writes each token when it is sampled. */
#include "libtrain/model/sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "libtrain/files/model_file.h"
#include "tools/gpt/corpus.h"
#include "tools/gpt/gpt.h"
#include "tools/gpt/settings.h"

typedef struct settings {
  const char *checkpoint, *prompt, *tokenizer;
  int64_t tokens, top_k, seed, threads;
  double temperature;
  int precision; /* a train_precision_t */
} settings_t;

typedef struct writer {
  const train_tokenizer_t *tokenizer;
  FILE *out;
} writer_t;

/* The end-of-document token stops the sampling. */
static bool write_token(void *context, int32_t token) {
  const writer_t *writer = context;
  size_t count;
  if (token == writer->tokenizer->end || (size_t)token >= writer->tokenizer->tokens.count) {
    return false;
  }
  const uint8_t *bytes = train_tokenizer_decode(writer->tokenizer, (uint16_t)token, &count);
  return fwrite(bytes, 1, count, writer->out) == count && fflush(writer->out) == 0;
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

static coll_status_t sample(const settings_t *settings, train_tokenizer_t *tokenizer,
                            train_arena_t *arena, train_pool_t *pool) {
  const train_model_options_t options = {.sequences = 1,
                                         .precision = (train_precision_t)settings->precision,
                                         .forward_only = true,
                                         .pool = pool};
  const train_sampling_t sampling = {.temperature = settings->temperature,
                                     .top_k = (int)settings->top_k,
                                     .seed = (uint64_t)settings->seed};
  const train_param_provider_t provider = train_arena_provider(arena);
  writer_t writer = {tokenizer, stdout};
  train_model_t *model;
  int32_t *prompt;
  size_t count;
  COLL_TRY(prompt_of(settings, tokenizer, &prompt, &count));
  coll_status_t status = train_model_create(arena->layout, &options, &model);
  if (status == COLL_OK) {
    fputs(settings->prompt, stdout);
    status = train_sample(model, &provider, prompt, count, (size_t)settings->tokens, &sampling,
                          write_token, &writer);
    train_model_destroy(model);
  }
  free(prompt);
  if (status != COLL_OK) return status;
  putchar('\n');
  if (fflush(stdout) == 0 && !ferror(stdout)) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write the sample");
}

static coll_status_t open_model(const settings_t *settings, const train_model_file_t *file,
                                train_arena_t *arena, train_tokenizer_t **tokenizer) {
  const int32_t vocabulary = file->metadata.config.vocabulary;
  COLL_TRY(gpt_tokenizer_find(settings->tokenizer, &file->metadata, NULL, tokenizer));
  if (*tokenizer == NULL) {
    return base_fail(COLL_ERROR_INVALID, "%s does not contain its tokenizer: give --tokenizer",
                     settings->checkpoint);
  }
  if ((*tokenizer)->tokens.count > (size_t)vocabulary) {
    return base_fail(COLL_ERROR_INVALID, "the tokenizer has %zu tokens, but the model only %d",
                     (*tokenizer)->tokens.count, vocabulary);
  }
  arena->layout = file->layout;
  arena->dtype = train_precision_stored((train_precision_t)settings->precision, TRAIN_KIND_WEIGHTS);
  return train_model_file_read_parameters(file, arena->dtype, &arena->parameters);
}

static coll_status_t run(const settings_t *settings) {
  train_model_file_t *file;
  train_tokenizer_t *tokenizer = NULL;
  train_arena_t arena = {0};
  train_pool_t *pool = NULL;
  if (settings->temperature < 0) {
    return base_fail(COLL_ERROR_INVALID, "--temperature %g: give 0 or more", settings->temperature);
  }
  COLL_TRY(train_model_file_open(settings->checkpoint, &file));
  coll_status_t status = open_model(settings, file, &arena, &tokenizer);
  if (status == COLL_OK) status = train_pool_create((int)settings->threads, &pool);
  if (status == COLL_OK) status = sample(settings, tokenizer, &arena, pool);
  train_pool_destroy(pool);
  free(arena.parameters);
  train_tokenizer_destroy(tokenizer);
  train_model_file_close(file);
  return status;
}

int gpt_sample(int argc, char **argv) {
  settings_t s = {.checkpoint = GPT_DEFAULT_CHECKPOINT,
                  .prompt = "",
                  .tokens = 400,
                  .seed = 1,
                  .threads = 1,
                  .temperature = 0.8};
  const base_option_t table[] = {
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
      {'j', "threads", BASE_OPTION_INTEGER, &s.threads, "N", "number of threads", 1, 1024}};
  const base_command_t command = {
      .name = "gpt sample",
      .usage = "[options]",
      .summary = "Generates text with a checkpoint that gpt train has saved.",
      .examples =
          "  gpt sample --prompt '#include <' --tokens 400\n"
          "      continues the prompt, with gpt.ckpt\n"
          "  gpt sample --checkpoint src.ckpt --temperature 0\n"
          "      the most probable file, from its first byte\n",
      .options = table,
      .option_count = sizeof table / sizeof table[0]};
  bool help_printed = false;
  coll_status_t status = gpt_options_parse(&command, argc, argv, &help_printed);
  if (help_printed) return 0;
  train_group_t no_group = {0};
  return gpt_finish(command.name, status == COLL_OK ? run(&s) : status, &no_group);
}

/* gpt sample: text from a checkpoint, written as it is drawn. */
#include "libtrain/model/sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "libtrain/files/file.h"
#include "tools/gpt/gpt.h"

typedef struct settings {
  const char *checkpoint, *prompt;
  int64_t bytes, seed, threads;
  double temperature;
} settings_t;

static bool write_byte(void *context, int32_t byte) {
  FILE *out = context;
  putc(byte == TRAIN_END_OF_FILE ? '\n' : byte, out);
  return fflush(out) == 0;
}

/* The prompt follows the end of the file before it. */
static coll_status_t sample(const settings_t *settings, train_arena_t *arena, train_pool_t *pool) {
  const train_model_options_t options = {.sequences = 1, .forward_only = true, .pool = pool};
  const train_sampling_t sampling = {.temperature = settings->temperature,
                                     .seed = (uint64_t)settings->seed};
  const train_source_t source = train_arena_source(arena);
  size_t count = 1 + strlen(settings->prompt);
  train_model_t *model;
  void *memory;
  if (arena->layout->config.vocabulary != TRAIN_BYTE_VOCABULARY) {
    return base_fail(COLL_ERROR_INVALID, "cannot sample: the model has %d tokens, not %d bytes",
                     arena->layout->config.vocabulary, TRAIN_BYTE_VOCABULARY);
  }
  COLL_TRY(base_alloc(count, sizeof(int32_t), "the prompt", &memory));
  int32_t *prompt = memory;
  prompt[0] = TRAIN_END_OF_FILE;
  for (size_t i = 1; i < count; i++) prompt[i] = (uint8_t)settings->prompt[i - 1];
  coll_status_t status = train_model_create(arena->layout, &options, &model);
  if (status == COLL_OK) {
    status = train_sample(model, &source, prompt, count, (size_t)settings->bytes, &sampling,
                          write_byte, stdout);
    train_model_destroy(model);
  }
  free(prompt);
  return status;
}

static coll_status_t run(const settings_t *settings) {
  train_file_t *file;
  train_arena_t arena = {0};
  train_pool_t *pool = NULL;
  if (settings->temperature < 0) {
    return base_fail(COLL_ERROR_INVALID, "--temperature %g: give 0 or more", settings->temperature);
  }
  COLL_TRY(train_file_open(settings->checkpoint, &file));
  arena.layout = file->layout;
  coll_status_t status = train_file_parameters(file, &arena.parameters);
  if (status == COLL_OK) status = train_pool_create((int)settings->threads, &pool);
  if (status == COLL_OK) {
    fputs(settings->prompt, stdout);
    status = sample(settings, &arena, pool);
  }
  train_pool_destroy(pool);
  free(arena.parameters);
  train_file_close(file);
  if (status != COLL_OK) return status;
  putchar('\n');
  if (fflush(stdout) == 0 && !ferror(stdout)) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write the sample");
}

int gpt_sample(int argc, char **argv) {
  settings_t s = {.checkpoint = GPT_DEFAULT_CHECKPOINT,
                  .prompt = "",
                  .bytes = 400,
                  .seed = 1,
                  .threads = 1,
                  .temperature = 0.8};
  const base_option_t table[] = {
      {'k', "checkpoint", BASE_OPTION_TEXT, &s.checkpoint, "FILE", "the model"},
      {'p', "prompt", BASE_OPTION_TEXT, &s.prompt, "TEXT", "what to go on from"},
      {'n', "bytes", BASE_OPTION_INTEGER, &s.bytes, "N", "how much to write", 0, 1 << 30},
      {0, "temperature", BASE_OPTION_NUMBER, &s.temperature, "X",
       "0: always the likeliest byte; 1: as the model has learnt"},
      {0, "seed", BASE_OPTION_INTEGER, &s.seed, "N", "another seed, another text"},
      {'j', "threads", BASE_OPTION_INTEGER, &s.threads, "N", "threads to compute with", 1, 1024}};
  const base_command_t command = {
      .name = "gpt sample",
      .usage = "[options]",
      .summary = "Writes text with a checkpoint that gpt train has saved.",
      .examples =
          "  gpt sample --prompt '#include <' --bytes 400\n"
          "      goes on from there, with gpt.ckpt\n"
          "  gpt sample --checkpoint src.ckpt --temperature 0\n"
          "      the likeliest file, from its first byte\n",
      .options = table,
      .option_count = sizeof table / sizeof table[0]};
  bool helped = false;
  coll_status_t status = gpt_options_parse(&command, argc, argv, &helped);
  if (helped) return 0;
  train_team_t alone = {0};
  return gpt_finish(command.name, status == COLL_OK ? run(&s) : status, &alone);
}

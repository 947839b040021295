/* gpt sample: text from a checkpoint, written as it is drawn. */
#include "libtrain/sample.h"

#include <stdio.h>
#include <string.h>

#include "libtrain/threads.h"
#include "tools/gpt/gpt.h"

typedef struct settings {
  const char *checkpoint, *prompt;
  int64_t bytes, seed, threads;
  double temperature;
} settings_t;

static void write_byte(void *context, uint8_t byte) {
  FILE *out = context;
  putc(byte == TRAIN_END_OF_FILE ? '\n' : byte, out);
  fflush(out);
}

static coll_status_t run(const settings_t *settings) {
  train_state_t state;
  if (settings->temperature < 0) {
    return base_fail(COLL_ERROR_INVALID, "--temperature %g: give 0 or more", settings->temperature);
  }
  COLL_TRY(train_checkpoint_load(settings->checkpoint, 1, &state));
  train_threads_set((int)settings->threads);
  fputs(settings->prompt, stdout);
  coll_status_t status =
      train_sample(state.model, settings->prompt, strlen(settings->prompt), (size_t)settings->bytes,
                   settings->temperature, (uint64_t)settings->seed, write_byte, stdout);
  train_state_free(&state);
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
  return gpt_finish(&command, status == COLL_OK ? run(&s) : status, &alone);
}

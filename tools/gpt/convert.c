/* gpt convert: a model from one file format to another, piece by piece. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/progress.h"
#include "libtrain/files/model_file.h"
#include "tools/gpt/gpt.h"

#define PATIENCE_NS 1000000000u /* what takes longer gets a bar */

/* A flat space that shows how much of it has been read. */
typedef struct watched {
  const train_flat_t *flat;
  double done;
  base_progress_t progress;
} watched_t;

static coll_status_t read_watched(void *context, train_array_t array, size_t first, size_t count,
                                  float *values) {
  watched_t *watched = context;
  COLL_TRY(watched->flat->read(watched->flat->context, array, first, count, values));
  watched->done += (double)count;
  if (base_clock_now_ns() - watched->progress.started_ns > PATIENCE_NS) {
    base_progress_update(&watched->progress, watched->done, "");
  }
  return COLL_OK;
}

static coll_status_t write_watched(const char *path, const train_format_t *format,
                                   const train_model_file_t *file) {
  double arrays = format->has_run_state && file->metadata.moments ? TRAIN_ARRAYS : 1;
  watched_t watched = {.flat = &file->flat};
  const train_flat_t flat = {.context = &watched, .read = read_watched};
  base_progress_begin(&watched.progress, "convert", arrays * (double)file->layout->parameter_count);
  coll_status_t status = format->write(path, &file->metadata, &flat);
  if (watched.progress.shown) base_progress_end(&watched.progress, watched.done, "");
  return status;
}

static void print_model(const char *path, const train_model_file_t *file) {
  const train_model_config_t *config = &file->metadata.config;
  printf("%s: %s, %.2f M parameters (%d layers, %d heads, width %d, context %d, vocabulary %d)",
         path, file->format->name, (double)file->layout->parameter_count * 1e-6, config->layers,
         config->heads, config->width, config->context, config->vocabulary);
  if (file->metadata.position.step > 0) {
    printf(", step %llu", (unsigned long long)file->metadata.position.step);
  }
  puts(file->metadata.tokenizer != NULL ? ", with its tokenizer" : "");
}

static void print_result(const char *path, const train_format_t *format,
                         const train_metadata_t *metadata) {
  bool run_lost = !format->has_run_state && (metadata->moments || metadata->position.step > 0);
  bool tokenizer_lost = !format->has_tokenizer && metadata->tokenizer != NULL;
  printf("%s: %s", path, format->name);
  if (run_lost || tokenizer_lost) {
    printf(", which has no room for %s%s%s", run_lost ? "the state of training" : "",
           run_lost && tokenizer_lost ? " and " : "", tokenizer_lost ? "the tokenizer" : "");
  }
  putchar('\n');
}

static coll_status_t add_tokenizer(const char *path, train_metadata_t *metadata) {
  char *bytes;
  size_t count;
  COLL_TRY(train_input_read_all(path, TRAIN_TOKENIZER_BYTES_MAX, &bytes, &count));
  coll_status_t status = train_metadata_set_tokenizer(metadata, bytes, count);
  free(bytes);
  return status;
}

static coll_status_t convert(const char *in, const char *out, const char *tokenizer) {
  const train_format_t *format;
  train_model_file_t *file;
  COLL_TRY(train_format_for_path(out, &format));
  COLL_TRY(train_model_file_open(in, &file));
  print_model(in, file);
  coll_status_t status = tokenizer != NULL ? add_tokenizer(tokenizer, &file->metadata) : COLL_OK;
  if (status == COLL_OK) status = write_watched(out, format, file);
  if (status == COLL_OK) print_result(out, format, &file->metadata);
  train_model_file_close(file);
  return status;
}

/* Two words, with options before, between and behind them. */
static coll_status_t parse(const base_command_t *command, int argc, char **argv,
                           const char *words[2], bool *helped) {
  for (int count = 0, first; !*helped; argv += first, argc -= first) {
    COLL_TRY(base_options_parse(command, argc, argv, &first, helped));
    if (*helped) break;
    if (first == argc && count == 2) break;
    if (first == argc) {
      return base_fail(COLL_ERROR_INVALID, "name the model and where it shall go: %s %s",
                       command->name, command->usage);
    }
    if (count == 2) {
      return base_fail(COLL_ERROR_INVALID, "what is '%s'? one model goes to one place (--help)",
                       argv[first]);
    }
    words[count++] = argv[first];
  }
  return COLL_OK;
}

int gpt_convert(int argc, char **argv) {
  const char *tokenizer = NULL, *words[2];
  const base_option_t table[] = {{0, "tokenizer", BASE_OPTION_TEXT, &tokenizer, "FILE",
                                  "a tokenizer.json to go with the model"}};
  const base_command_t command = {
      .name = "gpt convert",
      .usage = "IN OUT [options]",
      .summary =
          "Writes a model in another format. What IN is shows in it; what OUT shall be is in its\n"
          "name: *.ckpt a checkpoint, a folder or *.safetensors Hugging Face's GPT-2, *.bin a\n"
          "model of llm.c.",
      .examples =
          "  gpt convert gpt.ckpt gpt/\n"
          "      for transformers: GPT2LMHeadModel.from_pretrained('gpt')\n"
          "  gpt convert ~/models/gpt2 gpt2.ckpt\n"
          "      OpenAI's weights from Hugging Face's folder, to train on from\n"
          "  gpt convert gpt2.ckpt gpt2_124M.bin\n"
          "      for llm.c\n",
      .options = table,
      .option_count = sizeof table / sizeof table[0]};
  bool helped = false;
  train_group_t alone = {0};
  coll_status_t status = parse(&command, argc, argv, words, &helped);
  if (helped) return 0;
  if (status == COLL_OK) status = convert(words[0], words[1], tokenizer);
  return gpt_finish(command.name, status, &alone);
}

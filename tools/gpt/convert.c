/* gpt convert: converts a model between file formats, chunk by chunk. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/progress.h"
#include "libtrain/files/model_file.h"
#include "tools/gpt/gpt.h"

#define PROGRESS_DELAY_NS 1000000000u /* a progress bar appears after this time */

/* A flat space that reports the progress of reading. */
typedef struct progress_flat {
  const train_flat_t *flat;
  double done;
  base_progress_t progress;
} progress_flat_t;

static coll_status_t read_with_progress(void *context, train_array_t array, size_t first,
                                        size_t count, float *values) {
  progress_flat_t *progress_flat = context;
  COLL_TRY(progress_flat->flat->read(progress_flat->flat->context, array, first, count, values));
  progress_flat->done += (double)count;
  if (base_clock_now_ns() - progress_flat->progress.started_ns > PROGRESS_DELAY_NS) {
    base_progress_update(&progress_flat->progress, progress_flat->done, "");
  }
  return COLL_OK;
}

static coll_status_t write_with_progress(const char *path, const train_format_t *format,
                                         train_dtype_t dtype, const train_model_file_t *file) {
  double arrays = format->has_run_state && file->metadata.moments ? TRAIN_ARRAYS : 1;
  progress_flat_t progress_flat = {.flat = &file->flat};
  const train_flat_t flat = {.context = &progress_flat, .read = read_with_progress};
  base_progress_begin(&progress_flat.progress, "convert",
                      arrays * (double)file->layout->parameter_count);
  coll_status_t status = format->write(path, &file->metadata, &flat, dtype);
  if (progress_flat.progress.shown)
    base_progress_end(&progress_flat.progress, progress_flat.done, "");
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

static void print_result(const char *path, const train_format_t *format, train_dtype_t dtype,
                         const train_metadata_t *metadata) {
  bool run_lost = !format->has_run_state && (metadata->moments || metadata->position.step > 0);
  bool tokenizer_lost = !format->has_tokenizer && metadata->tokenizer != NULL;
  printf("%s: %s in %s", path, format->name, train_dtype_name(dtype));
  if (run_lost || tokenizer_lost) {
    printf(", which cannot store %s%s%s", run_lost ? "the training state" : "",
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

static coll_status_t convert(const char *in, const char *out, train_dtype_t dtype,
                             const char *tokenizer) {
  const train_format_t *format;
  train_model_file_t *file;
  COLL_TRY(train_format_for_path(out, dtype, &format));
  COLL_TRY(train_model_file_open(in, &file));
  print_model(in, file);
  coll_status_t status = tokenizer != NULL ? add_tokenizer(tokenizer, &file->metadata) : COLL_OK;
  if (status == COLL_OK) status = write_with_progress(out, format, dtype, file);
  if (status == COLL_OK) print_result(out, format, dtype, &file->metadata);
  train_model_file_close(file);
  return status;
}

/* Two file names, with options before, between or after them. */
static coll_status_t parse(const base_command_t *command, int argc, char **argv,
                           const char *paths[2], bool *help_printed) {
  for (int count = 0, first; !*help_printed; argv += first, argc -= first) {
    COLL_TRY(base_options_parse(command, argc, argv, &first, help_printed));
    if (*help_printed) break;
    if (first == argc && count == 2) break;
    if (first == argc) {
      return base_fail(COLL_ERROR_INVALID, "give an input model and an output path: %s %s",
                       command->name, command->usage);
    }
    if (count == 2) {
      return base_fail(COLL_ERROR_INVALID,
                       "unexpected argument '%s': give one input and one output (--help)",
                       argv[first]);
    }
    paths[count++] = argv[first];
  }
  return COLL_OK;
}

int gpt_convert(int argc, char **argv) {
  const char *tokenizer = NULL, *paths[2];
  int dtype = TRAIN_FLOAT32;
  const char *dtypes[TRAIN_DTYPES + 1] = {NULL};
  for (int i = 0; i < TRAIN_DTYPES; i++) dtypes[i] = train_dtype_name((train_dtype_t)i);
  const base_option_t table[] = {
      {0, "dtype", BASE_OPTION_WORD, &dtype, "TYPE",
       "type of OUT's parameters: float32, bfloat16, float16 (infinite from 65520)", 0, 0, dtypes},
      {0, "tokenizer", BASE_OPTION_TEXT, &tokenizer, "FILE",
       "a tokenizer.json to store with the model"}};
  const base_command_t command = {
      .name = "gpt convert",
      .usage = "IN OUT [options]",
      .summary =
          "Converts a model to another format. The format of IN is detected by its content, that "
          "of\n"
          "OUT by its name: *.ckpt is a checkpoint, a folder or *.safetensors Hugging Face's "
          "GPT-2,\n"
          "*.bin a model of llm.c. Parameters are rounded to the nearest value of --dtype; a\n"
          "checkpoint stores float32, a model of llm.c float32 or bfloat16.",
      .examples =
          "  gpt convert gpt.ckpt gpt/\n"
          "      for transformers: GPT2LMHeadModel.from_pretrained('gpt')\n"
          "  gpt convert gpt.ckpt gpt/ --dtype bfloat16\n"
          "      the same in half the size\n"
          "  gpt convert ~/models/gpt2 gpt2.ckpt\n"
          "      OpenAI's weights from Hugging Face's folder, to continue training\n"
          "  gpt convert gpt2.ckpt gpt2_124M.bin\n"
          "      for llm.c\n",
      .options = table,
      .option_count = sizeof table / sizeof table[0]};
  bool help_printed = false;
  coll_status_t status = parse(&command, argc, argv, paths, &help_printed);
  if (help_printed) return 0;
  if (status == COLL_OK) {
    status = base_tool_input(convert(paths[0], paths[1], (train_dtype_t)dtype, tokenizer));
  }
  return gpt_finish(command.name, status, NULL);
}

/*
 * Runs the host backend's operators, forward and backward, in one element type at many random
 * shapes, and writes their inputs and outputs to a folder, for bench/op-accuracy.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "base/tool.h"
#include "bench/accuracy_case.h"
#include "libtrain/common/random.h"

#define ROWS_MAX 96
#define WIDTH_MAX 160
#define CLASSES_MAX 400
#define SEQUENCES_MAX 3
#define LENGTH_MAX 80
#define HEADS_MAX 4
#define HEAD_WIDTH_MAX 64

typedef struct settings {
  const char *folder;
  int dtype;
  int64_t shapes, threads, seed;
} settings_t;

static const char *const dtypes[] = {"float32", "bfloat16", "float16", NULL};

/* 1 to `most`; small sizes and multiples of 8 are more frequent than at random. */
static int draw_size(accuracy_t *all, int most) {
  int size = 1 + (int)accuracy_draw(all, (uint64_t)most);
  switch (accuracy_draw(all, 4)) {
    case 0: return 1 + (size - 1) % 9;
    case 1: return size >= 8 ? size / 8 * 8 : size;
    default: return size;
  }
}

/* ---- operators ---- */

static coll_status_t run_embedding(accuracy_t *all) {
  const train_batch_t batch = {.sequences = draw_size(all, SEQUENCES_MAX),
                               .length = draw_size(all, LENGTH_MAX)};
  int rows = train_batch_rows(&batch), width = draw_size(all, WIDTH_MAX);
  int vocabulary = draw_size(all, CLASSES_MAX), context = batch.length;
  const train_vocabulary_t all_tokens = {.count = vocabulary};
  accuracy_case(all, "embedding");
  accuracy_size(all, "sequences", batch.sequences);
  const int32_t *tokens = accuracy_indices(all, "tokens", rows, vocabulary);
  const void *table = accuracy_input(all, "table", vocabulary, width, 1);
  const void *positions = accuracy_input(all, "positions", context, width, 1);
  const void *d_out = accuracy_input(all, "d_out", rows, width, 1);
  void *out = accuracy_output(all, "out", rows, width);
  float *d_table = accuracy_float_output(all, "d_table", vocabulary, width);
  float *d_positions = accuracy_float_output(all, "d_positions", context, width);
  COLL_TRY(all->status);
  memset(d_table, 0, (size_t)vocabulary * (size_t)width * sizeof *d_table); /* it is added to */
  all->ops->embedding_forward(&all->exec, &batch, tokens, all_tokens, table, positions, width, out);
  all->ops->embedding_backward(&all->exec, &batch, tokens, all_tokens, d_out, width, context, true,
                               d_table, d_positions);
  return accuracy_write(all);
}

static coll_status_t run_layernorm(accuracy_t *all) {
  int rows = draw_size(all, ROWS_MAX), width = 1 + draw_size(all, WIDTH_MAX);
  bool first = accuracy_draw(all, 2) == 0;
  accuracy_case(all, "layernorm");
  const void *in = accuracy_input(all, "in", rows, width, 1);
  const void *weight = accuracy_input(all, "weight", 1, width, 1);
  const void *bias = accuracy_input(all, "bias", 1, width, 1);
  const void *d_out = accuracy_input(all, "d_out", rows, width, 1);
  const void *stream = first ? NULL : accuracy_input(all, "stream", rows, width, 1);
  void *out = accuracy_output(all, "out", rows, width);
  void *d_in = accuracy_output(all, "d_in", rows, width);
  float *d_weight = accuracy_float_output(all, "d_weight", 1, width);
  float *d_bias = accuracy_float_output(all, "d_bias", 1, width);
  float *mean = accuracy_scratch(all, (size_t)rows), *rstd = accuracy_scratch(all, (size_t)rows);
  COLL_TRY(all->status);
  if (!first) {
    memcpy(d_in, stream, (size_t)rows * (size_t)width * train_dtype_bytes(all->exec.dtype));
  }
  all->ops->layernorm_forward(&all->exec, in, weight, bias, rows, width, out, mean, rstd);
  all->ops->layernorm_backward(&all->exec, d_out, in, weight, mean, rstd, rows, width, first, true,
                               d_in, d_weight, d_bias);
  return accuracy_write(all);
}

typedef enum variant { PLAIN, RESIDUAL, THEN_GELU, VARIANTS } variant_t;

/* out = in * weight^T + bias, with a residual or followed by GELU; and its gradients. */
static coll_status_t run_linear(accuracy_t *all) {
  static const char *const names[] = {"linear", "linear+residual", "linear, GELU"};
  variant_t variant = (variant_t)accuracy_draw(all, VARIANTS);
  int rows = draw_size(all, ROWS_MAX);
  const train_linear_t linear = {.in_width = draw_size(all, WIDTH_MAX),
                                 .out_width = draw_size(all, WIDTH_MAX)};
  double deviation = 1 / (1 + 0.1 * linear.in_width); /* outputs of the order of the inputs */
  accuracy_case(all, names[variant]);
  const void *in = accuracy_input(all, "in", rows, linear.in_width, 1);
  const void *weight = accuracy_input(all, "weight", linear.out_width, linear.in_width, deviation);
  const void *bias = accuracy_input(all, "bias", 1, linear.out_width, 1);
  const void *d_out = accuracy_input(all, "d_out", rows, linear.out_width, 1);
  const void *residual = NULL;
  if (variant == RESIDUAL) residual = accuracy_input(all, "residual", rows, linear.out_width, 1);
  void *out = accuracy_output(all, "out", rows, linear.out_width), *active = NULL;
  if (variant == THEN_GELU) active = accuracy_output(all, "active", rows, linear.out_width);
  void *d_in = accuracy_output(all, "d_in", rows, linear.in_width);
  float *d_weight = accuracy_float_output(all, "d_weight", linear.out_width, linear.in_width);
  float *d_bias = accuracy_float_output(all, "d_bias", 1, linear.out_width);
  COLL_TRY(all->status);
  all->ops->linear_forward(&all->exec, &linear, in, rows, weight, bias, residual, out, active);
  all->ops->linear_backward(&all->exec, &linear, d_out, in, rows, weight, NULL, true, d_in,
                            d_weight, d_bias);
  return accuracy_write(all);
}

/* out = GELU(hidden) * weight^T + bias and its gradients. GELU(hidden) is the second output of a
 * layer whose weight is the identity and whose bias is zero, so that `hidden` is its first. */
static coll_status_t run_gelu_linear(accuracy_t *all) {
  int rows = draw_size(all, ROWS_MAX), width = draw_size(all, WIDTH_MAX);
  const train_linear_t linear = {.in_width = width, .out_width = draw_size(all, WIDTH_MAX)};
  const train_linear_t identity = {.in_width = width, .out_width = width};
  accuracy_case(all, "GELU, linear");
  const void *hidden = accuracy_input(all, "hidden", rows, width, 1);
  const void *weight =
      accuracy_input(all, "weight", linear.out_width, width, 1 / (1 + 0.1 * width));
  const void *bias = accuracy_input(all, "bias", 1, linear.out_width, 1);
  const void *d_out = accuracy_input(all, "d_out", rows, linear.out_width, 1);
  void *out = accuracy_output(all, "out", rows, linear.out_width);
  void *d_hidden = accuracy_output(all, "d_hidden", rows, width);
  float *d_weight = accuracy_float_output(all, "d_weight", linear.out_width, width);
  float *d_bias = accuracy_float_output(all, "d_bias", 1, linear.out_width);
  size_t elements = (size_t)rows * (size_t)width, square = (size_t)width * (size_t)width;
  float *copy = accuracy_scratch(all, elements), *active = accuracy_scratch(all, elements);
  float *unit = accuracy_scratch(all, square), *zeros = accuracy_scratch(all, (size_t)width);
  COLL_TRY(all->status);
  for (size_t i = 0; i < square; i++) unit[i] = i % ((size_t)width + 1) == 0 ? 1 : 0;
  train_dtype_narrow(all->exec.dtype, unit, square, unit);
  memset(zeros, 0, (size_t)width * sizeof *zeros);
  all->ops->linear_forward(&all->exec, &identity, hidden, rows, unit, zeros, NULL, copy, active);
  all->ops->linear_forward(&all->exec, &linear, active, rows, weight, bias, NULL, out, NULL);
  all->ops->linear_backward(&all->exec, &linear, d_out, active, rows, weight, hidden, true,
                            d_hidden, d_weight, d_bias);
  return accuracy_write(all);
}

static coll_status_t run_attention(accuracy_t *all) {
  const train_batch_t batch = {.sequences = draw_size(all, SEQUENCES_MAX),
                               .length = draw_size(all, LENGTH_MAX)};
  int rows = train_batch_rows(&batch), heads = draw_size(all, HEADS_MAX);
  int width = heads * draw_size(all, HEAD_WIDTH_MAX);
  accuracy_case(all, "attention");
  accuracy_size(all, "sequences", batch.sequences);
  accuracy_size(all, "heads", heads);
  const void *qkv = accuracy_input(all, "qkv", rows, 3 * width, 1);
  const void *d_out = accuracy_input(all, "d_out", rows, width, 1);
  void *out = accuracy_output(all, "out", rows, width);
  void *d_qkv = accuracy_output(all, "d_qkv", rows, 3 * width);
  float *log_sums = accuracy_scratch(all, (size_t)rows * (size_t)heads);
  COLL_TRY(all->status);
  all->ops->attention_forward(&all->exec, &batch, qkv, heads, width, out, log_sums);
  all->ops->attention_backward(&all->exec, &batch, d_out, qkv, out, log_sums, heads, width, d_qkv);
  return accuracy_write(all);
}

static coll_status_t run_classifier(accuracy_t *all) {
  int rows = draw_size(all, ROWS_MAX), width = draw_size(all, WIDTH_MAX);
  int classes = 1 + draw_size(all, CLASSES_MAX);
  accuracy_case(all, "classifier");
  const void *in = accuracy_input(all, "in", rows, width, 1);
  const void *table = accuracy_input(all, "table", classes, width, 1 / (1 + 0.1 * width));
  const int32_t *targets = accuracy_indices(all, "targets", rows, classes);
  float *loss = accuracy_float_output(all, "loss", 1, 1);
  void *d_in = accuracy_output(all, "d_in", rows, width);
  float *d_table = accuracy_float_output(all, "d_table", classes, width);
  COLL_TRY(all->status);
  *loss = (float)all->ops->classifier(&all->exec, in, table, targets, rows, width,
                                      (train_vocabulary_t){.count = classes}, NULL, 1, true, d_in,
                                      d_table);
  return accuracy_write(all);
}

/* ---- all ---- */

static coll_status_t run_all(const settings_t *settings, accuracy_t *all) {
  static coll_status_t (*const runs[])(accuracy_t *) = {
      run_embedding, run_layernorm, run_linear, run_gelu_linear, run_attention, run_classifier};
  static const int times[] = {1, 1, VARIANTS, 1, 1, 1};
  const train_ops_sizes_t sizes = {.rows = SEQUENCES_MAX * LENGTH_MAX,
                                   .length = LENGTH_MAX,
                                   .width = HEADS_MAX * HEAD_WIDTH_MAX,
                                   .head_width = HEAD_WIDTH_MAX,
                                   .vocabulary = CLASSES_MAX + 1,
                                   .threads = (int)settings->threads,
                                   .dtype = (train_dtype_t)settings->dtype,
                                   .training = true};
  COLL_TRY(accuracy_open(settings->folder, &sizes, (uint64_t)settings->seed, all));
  for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
    for (int64_t shape = 0; shape < times[i] * settings->shapes; shape++) COLL_TRY(runs[i](all));
  }
  return accuracy_finish(all);
}

static int run_tool(int argc, char **argv) {
  settings_t s = {.dtype = TRAIN_BFLOAT16, .shapes = 200, .threads = 2, .seed = 1};
  const base_option_t table[] = {
      {'d', "dtype", BASE_OPTION_WORD, &s.dtype, "NAME", "element type", 0, 0, dtypes},
      {'n', "shapes", BASE_OPTION_INTEGER, &s.shapes, "N", "random shapes per operator", 1,
       1 << 20},
      {'j', "threads", BASE_OPTION_INTEGER, &s.threads, "N", "threads", 1, 1024},
      {0, "seed", BASE_OPTION_INTEGER, &s.seed, "N", "of shapes and inputs", 0, INT64_MAX}};
  const base_command_t command = {
      .name = "accuracy",
      .usage = "[options] FOLDER",
      .summary =
          "Writes inputs and outputs of operators to an existing FOLDER: index.json and "
          "data.bin.\nbench/op-accuracy compares them with PyTorch's.",
      .examples = "  accuracy --dtype float16 /tmp/arrays\n",
      .options = table,
      .option_count = sizeof table / sizeof table[0]};
  int first;
  bool help_printed = false;
  accuracy_t all = {0};
  coll_status_t status = base_options_parse(&command, argc, argv, &first, &help_printed);
  if (help_printed) return 0;
  if (status == COLL_OK && first + 1 != argc) {
    status = base_fail(COLL_ERROR_INVALID, "give one folder");
  }
  if (status == COLL_OK) {
    s.folder = argv[first];
    status = base_tool_input(run_all(&s, &all));
  }
  int code = status == COLL_OK ? BASE_EXIT_DONE : base_tool_fail("accuracy", status);
  accuracy_close(&all);
  return code;
}

int main(int argc, char **argv) {
  return base_tool_main("accuracy", run_tool, argc, argv);
}

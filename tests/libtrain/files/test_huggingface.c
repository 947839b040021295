/* Model folders of transformers, generated in every supported variant and in many unsupported
 * ones. */
#include "libtrain/files/huggingface.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "container.h"
#include "libtrain/common/random.h"
#include "libtrain/files/model_file.h"
#include "libtrain/files/safetensors.h"
#include "sample.h"

#define CONFIG                                                                           \
  "{\"model_type\": \"gpt2\", \"vocab_size\": 37, \"n_positions\": 11, \"n_layer\": 2, " \
  "\"n_head\": 3, \"n_embd\": 21, \"activation_function\": \"gelu_new\", "               \
  "\"layer_norm_epsilon\": 1e-05, \"n_inner\": null, \"tie_word_embeddings\": true"

static folder_t folder;

static void setup(void) {
  folder_make(&folder);
}

static void teardown(void) {
  folder_remove(&folder);
}

TestSuite(huggingface, .init = setup, .fini = teardown);

/* ---- generated files ---- */

/* Properties of a generated file. */
typedef struct variant {
  const char *prefix;
  const char *type;        /* of all tensors: "F32", "BF16", "F16" or "I64" */
  bool masks;              /* includes h.N.attn.bias and masked_bias */
  bool classifier;         /* includes lm_head.weight */
  bool untied;             /* which differs from wte.weight */
  const char *missing;     /* name of a missing tensor */
  const char *wrong_shape; /* name of a tensor whose two dimensions are exchanged */
  const char *additional;  /* name of a tensor unknown to GPT-2 */
} variant_t;

typedef struct maker {
  const variant_t *variant;
  char header[32768];
  char *data;
  size_t header_bytes, data_bytes;
} maker_t;

static train_dtype_t dtype_of(const variant_t *variant) {
  if (strcmp(variant->type, "BF16") == 0) return TRAIN_BFLOAT16;
  return strcmp(variant->type, "F16") == 0 ? TRAIN_FLOAT16 : TRAIN_FLOAT32;
}

/* The sample's element, rounded to the variant's type. */
static float element(const variant_t *variant, const sample_t *sample, size_t index) {
  float value = sample_element(sample, TRAIN_PARAMETERS, index);
  train_dtype_narrow(dtype_of(variant), &value, 1, &value);
  train_dtype_widen(dtype_of(variant), &value, 1, &value);
  return value;
}

/* Integers have the bits of the float32, extended with zeros. */
static void append(maker_t *maker, float value) {
  train_dtype_t dtype = dtype_of(maker->variant);
  train_dtype_narrow(dtype, &value, 1, maker->data + maker->data_bytes);
  maker->data_bytes += maker->variant->type[0] == 'I' ? 8 : train_dtype_bytes(dtype);
}

static void enter(maker_t *maker, const char *name, const char *type, size_t rows, size_t columns,
                  size_t begin) {
  char shape[64];
  snprintf(shape, sizeof shape, rows > 0 ? "%zu,%zu" : "%.0zu%zu", rows, columns);
  maker->header_bytes += (size_t)snprintf(
      maker->header + maker->header_bytes, sizeof maker->header - maker->header_bytes,
      "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
      maker->header_bytes > 1 ? "," : "", name, type, shape, begin, maker->data_bytes);
}

/* Adds a tensor that starts at element `first` of the flat space; "Conv1D" stores [in, out]. */
static void add(maker_t *maker, const sample_t *sample, const char *name, size_t first, size_t rows,
                size_t columns, bool conv1d) {
  const variant_t *variant = maker->variant;
  size_t begin = maker->data_bytes;
  char full[64];
  if (variant->missing != NULL && strcmp(variant->missing, name) == 0) return;
  snprintf(full, sizeof full, "%s%s", variant->prefix, name);
  size_t count = (rows > 0 ? rows : 1) * columns;
  for (size_t i = 0; i < count; i++) {
    size_t at = conv1d ? i % columns * rows + i / columns : i;
    append(maker, element(variant, sample, first + at));
  }
  bool swapped = variant->wrong_shape != NULL && strcmp(variant->wrong_shape, name) == 0;
  enter(maker, full, variant->type, swapped ? columns : rows, swapped ? rows : columns, begin);
}

/* Adds the tensors of a block that starts at `first`, as in GPT-2's published weights. */
static size_t add_block(maker_t *maker, const sample_t *sample, int layer, size_t first) {
  static const struct {
    const char *name;
    int in, out; /* multiples of the width; `in` is 0 for vectors */
  } tensors[] = {
      {"ln_1.weight", 0, 1},      {"ln_1.bias", 0, 1},          {"attn.c_attn.weight", 1, 3},
      {"attn.c_attn.bias", 0, 3}, {"attn.c_proj.weight", 1, 1}, {"attn.c_proj.bias", 0, 1},
      {"ln_2.weight", 0, 1},      {"ln_2.bias", 0, 1},          {"mlp.c_fc.weight", 1, 4},
      {"mlp.c_fc.bias", 0, 4},    {"mlp.c_proj.weight", 4, 1},  {"mlp.c_proj.bias", 0, 1}};
  size_t width = (size_t)sample->metadata.config.width;
  for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
    char name[64];
    size_t in = (size_t)tensors[i].in * width, out = (size_t)tensors[i].out * width;
    snprintf(name, sizeof name, "h.%d.%s", layer, tensors[i].name);
    add(maker, sample, name, first, in, out, in > 0);
    first += (in > 0 ? in : 1) * out;
  }
  return first;
}

static void add_masks(maker_t *maker, const char *prefix) {
  for (int layer = 0; layer < 2; layer++) {
    char name[64];
    size_t begin = maker->data_bytes;
    maker->data_bytes += 11 * 11;
    snprintf(name, sizeof name, "%sh.%d.attn.bias", prefix, layer);
    enter(maker, name, "BOOL", 11, 11, begin);
    begin = maker->data_bytes;
    maker->data_bytes += 8;
    snprintf(name, sizeof name, "%sh.%d.attn.masked_bias", prefix, layer);
    enter(maker, name, "F64", 0, 1, begin);
  }
}

/* Writes config.json and model.safetensors; returns the path of the latter. */
static const char *make(const variant_t *variant, const sample_t *sample, const char *config) {
  const train_model_config_t *sizes = &sample->metadata.config;
  size_t vocabulary = (size_t)sizes->vocabulary, context = (size_t)sizes->context,
         width = (size_t)sizes->width;
  maker_t *maker = calloc(1, sizeof *maker);
  maker->variant = variant;
  maker->data = calloc(sample->elements + 4096, sizeof(int64_t));
  maker->header_bytes = (size_t)snprintf(maker->header, sizeof maker->header, "{");
  size_t position = vocabulary * width, last = position + context * width;
  add(maker, sample, "wpe.weight", position, context, width, false);
  size_t first = last + 2 * width;
  for (int layer = 0; layer < sizes->layers; layer++) {
    first = add_block(maker, sample, layer, first);
  }
  cr_assert_eq(first, sample->elements);
  if (variant->masks) add_masks(maker, variant->prefix);
  add(maker, sample, "ln_f.bias", last + width, 0, width, false);
  add(maker, sample, "ln_f.weight", last, 0, width, false);
  add(maker, sample, "wte.weight", 0, vocabulary, width, false);
  if (variant->additional != NULL) add(maker, sample, variant->additional, 0, 0, 1, false);
  if (variant->classifier) {
    size_t begin = maker->data_bytes;
    for (size_t i = 0; i < position; i++) append(maker, element(variant, sample, i));
    if (variant->untied) maker->data[maker->data_bytes - 1] ^= 1;
    enter(maker, "lm_head.weight", variant->type, vocabulary, width, begin);
  }
  snprintf(maker->header + maker->header_bytes, sizeof maker->header - maker->header_bytes, "}");
  folder_write(&folder, "config.json", config, strlen(config));
  const char *path = container_write(&folder, "model.safetensors", strlen(maker->header),
                                     maker->header, maker->data, maker->data_bytes);
  free(maker->data);
  free(maker);
  return path;
}

/* Checks that the model at `path` equals the sample, with the precision of the variant. */
static void check_model(const char *path, const variant_t *variant, const sample_t *sample) {
  train_model_file_t *file;
  cr_assert_eq(train_model_file_open(path, &file), COLL_OK, "%s", base_last_error());
  cr_assert_eq(
      memcmp(&file->metadata.config, &sample->metadata.config, sizeof file->metadata.config), 0);
  cr_assert_not(file->metadata.moments);
  float *values = malloc(sample->elements * sizeof *values);
  cr_assert_eq(file->flat.read(file->flat.context, TRAIN_PARAMETERS, 0, sample->elements, values),
               COLL_OK, "%s", base_last_error());
  for (size_t i = 0; i < sample->elements; i++) {
    float expected = element(variant, sample, i);
    cr_assert_eq(memcmp(&values[i], &expected, sizeof expected), 0, "element %zu", i);
  }
  cr_assert(sample_is_zero(sample, &file->flat, TRAIN_FIRST_MOMENTS));
  free(values);
  train_model_file_close(file);
}

static void check_rejected(const char *path, const char *why) {
  train_model_file_t *file;
  cr_assert_eq(train_model_file_open(path, &file), COLL_ERROR_INVALID, "%s", why);
  cr_assert(strstr(base_last_error(), why), "'%s' in '%s'", why, base_last_error());
  cr_assert(strstr(base_last_error(), folder.path), "%s", base_last_error());
}

/* ---- reading ---- */

Test(huggingface, reads_every_variant) {
  const sample_t sample = sample_of(1);
  const variant_t variants[] = {
      {.prefix = "", .type = "F32"},
      {.prefix = "transformer.", .type = "F32"},
      {.prefix = "", .type = "F32", .masks = true},
      {.prefix = "transformer.", .type = "F32", .masks = true, .classifier = true},
      {.prefix = "transformer.", .type = "BF16", .classifier = true},
      {.prefix = "", .type = "F16", .masks = true}};
  for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
    const char *path = make(&variants[i], &sample, CONFIG "}");
    check_model(path, &variants[i], &sample);
    check_model(folder.path, &variants[i], &sample);
  }
}

Test(huggingface, rejects_other_tensors) {
  const sample_t sample = sample_of(2);
  const struct {
    variant_t variant;
    const char *why;
  } cases[] = {
      {{"", "F32", .missing = "h.1.ln_2.bias"}, "has no tensor h.1.ln_2.bias"},
      {{"transformer.", "F32", .missing = "wte.weight"}, "has no tensor wte.weight"},
      {{"", "F32", .wrong_shape = "h.0.attn.c_attn.weight"},
       "h.0.attn.c_attn.weight is [63, 21]; its config.json requires [21, 63]"},
      {{"", "F32", .wrong_shape = "wpe.weight"}, "wpe.weight is [21, 11]"},
      {{"", "F32", .classifier = true, .untied = true}, "lm_head.weight differs from wte.weight"},
      {{"", "F32", .additional = "h.2.ln_1.bias"}, "a tensor h.2.ln_1.bias"},
      {{"transformer.", "F32", .additional = "score"}, "a tensor transformer.score"},
      {{"", "I64"}, "wte.weight has type I64; F32, F16 and BF16 are supported"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    check_rejected(make(&cases[i].variant, &sample, CONFIG "}"), cases[i].why);
  }
}

Test(huggingface, rejects_other_configs) {
  const sample_t sample = sample_of(3);
  const variant_t plain = {.prefix = "", .type = "F32"};
  static const struct {
    const char *config, *why;
  } cases[] = {{"{", "not a JSON object"},
               {"[1]", "not a JSON object"},
               {"{\"model_type\": \"llama\"}", "model_type is not gpt2"},
               {"{\"model_type\": \"gpt2\"}", "vocab_size is missing or invalid"},
               {CONFIG ", \"n_head\": 0}", "n_head is missing or invalid"},
               {CONFIG ", \"n_head\": 3.5}", "n_head is missing or invalid"},
               {CONFIG ", \"n_layer\": 4294967297}", "n_layer is missing or invalid"},
               {CONFIG ", \"n_head\": 4}", "4 heads do not divide width 21"},
               {CONFIG ", \"n_layer\": 3}", "has no tensor h.2.ln_1.weight"},
               {CONFIG ", \"n_layer\": 1}", "a GPT-2 of 1 layers"},
               {CONFIG ", \"vocab_size\": 38}", "wte.weight is [37, 21]"},
               {CONFIG ", \"activation_function\": \"relu\"}", "activation_function \"relu\""},
               {CONFIG ", \"layer_norm_epsilon\": 1e-6}", "layer_norm_epsilon"},
               {CONFIG ", \"n_inner\": 42}", "n_inner 42"},
               {CONFIG ", \"tie_word_embeddings\": false}", "tie_word_embeddings false"},
               {CONFIG ", \"scale_attn_weights\": false}", "scale_attn_weights false"},
               {CONFIG ", \"scale_attn_by_inverse_layer_idx\": true}",
                "scale_attn_by_inverse_layer_idx true"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    check_rejected(make(&plain, &sample, cases[i].config), cases[i].why);
  }
  check_model(make(&plain, &sample, CONFIG ", \"n_inner\": 84, \"extra\": {}}"), &plain, &sample);
}

Test(huggingface, folder_without_a_model_names_the_missing_file) {
  const sample_t sample = sample_of(4);
  const variant_t plain = {.prefix = "", .type = "F32"};
  check_rejected(folder.path, "without a model.safetensors");
  folder_write(&folder, "model.safetensors.index.json", "{}", 2);
  check_rejected(folder.path, "several files");
  const char *path = make(&plain, &sample, CONFIG "}");
  unlink(folder_path(&folder, "config.json"));
  train_model_file_t *file;
  cr_assert_eq(train_model_file_open(path, &file), COLL_ERROR_SYSTEM);
  cr_assert(strstr(base_last_error(), "config.json: No such file"), "%s", base_last_error());
}

Test(huggingface, tensors_determine_the_type_whatever_torch_dtype_says) {
  const sample_t sample = sample_of(9);
  const variant_t variants[] = {{.prefix = "", .type = "F16"}, {.prefix = "", .type = "F32"}};
  static const char *const said[] = {"\"bfloat16\"", "\"float64\"", "null", "[16]"};
  for (size_t i = 0; i < 2 * sizeof said / sizeof said[0]; i++) {
    char config[1024];
    snprintf(config, sizeof config, CONFIG ", \"torch_dtype\": %s}", said[i / 2]);
    check_model(make(&variants[i % 2], &sample, config), &variants[i % 2], &sample);
  }
}

/* Nearly valid files may give any result, but no read outside of the buffers. */
Test(huggingface, changed_bytes_never_read_out_of_bounds) {
  const sample_t sample = sample_of(5);
  const variant_t plain = {.prefix = "", .type = "F32"};
  size_t count;
  char *bytes = folder_read(make(&plain, &sample, CONFIG "}"), &count);
  float *values = malloc(sample.elements * sizeof *values);
  uint64_t header;
  memcpy(&header, bytes, sizeof header);
  int rejected = 0;
  for (uint64_t i = 0; i < 400; i++) {
    size_t at = (size_t)train_random_below(8, TRAIN_RANDOM_BATCHES, i, 8 + header);
    char old = bytes[at];
    bytes[at] ^= (char)(1 << i % 7);
    const char *path = folder_write(&folder, "model.safetensors", bytes, count);
    bytes[at] = old;
    train_model_file_t *file;
    coll_status_t status = train_model_file_open(path, &file);
    unlink(path);
    if (status != COLL_OK) {
      cr_assert_eq(status, COLL_ERROR_INVALID);
      rejected++;
      continue;
    }
    cr_assert_eq(file->flat.read(file->flat.context, TRAIN_PARAMETERS, 0, sample.elements, values),
                 COLL_OK);
    train_model_file_close(file);
  }
  cr_assert_gt(rejected, 300);
  free(values);
  free(bytes);
}

/* ---- writing ---- */

static coll_status_t write_sample(const char *path, train_dtype_t dtype, sample_t *sample) {
  const train_flat_t flat = sample_flat(sample);
  const train_format_t *format;
  COLL_TRY(train_format_for_path(path, dtype, &format));
  return format->write(path, &sample->metadata, &flat, dtype);
}

static void check_config_contains(const char *path, const char *words) {
  size_t count;
  char *config = folder_read(path, &count);
  config[count] = '\0';
  cr_assert(strstr(config, words), "%s", config);
  free(config);
}

Test(huggingface, reads_what_it_wrote) {
  sample_t sample = sample_of(6);
  const variant_t plain = {.prefix = "", .type = "F32"};
  const char *const paths[] = {folder_path(&folder, "new/"), folder_path(&folder, "new"),
                               folder_path(&folder, "some.safetensors")};
  for (int i = 0; i < 3; i++) {
    cr_assert_eq(write_sample(paths[i], TRAIN_FLOAT32, &sample), COLL_OK, "%s", base_last_error());
    check_model(paths[i], &plain, &sample);
  }
  cr_assert_eq(access(folder_path(&folder, "new/tokenizer.json"), F_OK), -1);
}

Test(huggingface, writes_every_type) {
  sample_t sample = sample_of(10);
  const variant_t variants[] = {{"", "F32"}, {"", "BF16"}, {"", "F16"}};
  static const char *const names[] = {"\"torch_dtype\": \"float32\"",
                                      "\"torch_dtype\": \"bfloat16\"",
                                      "\"torch_dtype\": \"float16\""};
  for (int i = 0; i < 3; i++) {
    train_dtype_t dtype = dtype_of(&variants[i]);
    struct stat written;
    cr_assert_eq(write_sample(folder.path, dtype, &sample), COLL_OK, "%s", base_last_error());
    check_model(folder.path, &variants[i], &sample);
    check_config_contains(folder_path(&folder, "config.json"), names[i]);
    cr_assert_eq(stat(folder_path(&folder, "model.safetensors"), &written), 0);
    size_t least = sample.elements * train_dtype_bytes(dtype);
    cr_assert((size_t)written.st_size > least && (size_t)written.st_size < least + 4096);
  }
}

Test(huggingface, tokenizer_is_written_and_read) {
  sample_t sample = sample_of(7);
  const char *tokenizer =
      "{\"added_tokens\": [{\"id\": 3, \"content\": \"<pad>\"}, "
      "{\"id\": 36, \"content\": \"<|endoftext|>\"}]}";
  const char *path = folder_path(&folder, "new");
  cr_assert_eq(train_metadata_set_tokenizer(&sample.metadata, tokenizer, strlen(tokenizer)),
               COLL_OK);
  cr_assert_eq(mkdir(path, 0755), 0);
  cr_assert_eq(write_sample(path, TRAIN_FLOAT32, &sample), COLL_OK, "%s", base_last_error());
  train_model_file_t *file;
  cr_assert_eq(train_model_file_open(path, &file), COLL_OK);
  cr_assert_eq(file->metadata.tokenizer_bytes, strlen(tokenizer));
  cr_assert_eq(memcmp(file->metadata.tokenizer, tokenizer, strlen(tokenizer)), 0);
  train_model_file_close(file);
  check_config_contains(folder_path(&folder, "new/config.json"), "\"eos_token_id\": 36");
  train_metadata_free(&sample.metadata);
}

Test(huggingface, never_replaces_a_foreign_config) {
  sample_t sample = sample_of(8);
  const char *config = folder_write(&folder, "config.json", "{\"port\": 80}", 12);
  cr_assert_eq(write_sample(folder.path, TRAIN_FLOAT32, &sample), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), config), "%s", base_last_error());
  cr_assert_eq(access(folder_path(&folder, "model.safetensors"), F_OK), -1);
  size_t count;
  free(folder_read(config, &count));
  cr_assert_eq(count, 12);
}

Test(huggingface, rejects_a_name_without_a_format) {
  const train_format_t *format;
  cr_assert_eq(train_format_for_path(folder_path(&folder, "model"), TRAIN_FLOAT32, &format),
               COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "*.ckpt"), "%s", base_last_error());
  cr_assert_eq(train_format_for_path(".ckpt", TRAIN_FLOAT32, &format), COLL_ERROR_INVALID);
}

/*
 * What a model is made of: the checks on its sizes, the list of its tensors, its initial values.
 * Its two passes are in model_pass.c.
 */
#include "libtrain/model.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "libtrain/model_internal.h"
#include "libtrain/random.h"

#define PARAMETERS_MAX ((size_t)1 << 31)

coll_status_t train_model_config_check(const train_model_config_t *config) {
  const int32_t sizes[] = {config->vocabulary, config->context, config->layers, config->heads,
                           config->width};
  const int32_t limits[] = {1 << 20, 1 << 16, 1 << 10, 1 << 10, 1 << 15};
  const char *const names[] = {"vocabulary", "context", "layers", "heads", "width"};
  for (int i = 0; i < 5; i++) {
    if (sizes[i] < 1 || sizes[i] > limits[i]) {
      return base_fail(COLL_ERROR_INVALID, "a model with %s %d: give 1 to %d", names[i], sizes[i],
                       limits[i]);
    }
  }
  if (config->width % config->heads != 0) {
    return base_fail(COLL_ERROR_INVALID,
                     "%d heads do not divide width %d: choose a width that is a multiple of heads",
                     config->heads, config->width);
  }
  double width = config->width;
  if ((double)config->layers * 12 * width * width + config->vocabulary * width > PARAMETERS_MAX) {
    return base_fail(COLL_ERROR_INVALID, "%d layers of width %d are more than %zu parameters",
                     config->layers, config->width, PARAMETERS_MAX);
  }
  return COLL_OK;
}

__attribute__((format(printf, 4, 5))) static void add_tensor(train_model_t *model, int rows,
                                                             int columns, const char *format, ...) {
  train_tensor_t *tensor = &model->tensors[model->tensor_count++];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(tensor->name, sizeof tensor->name, format, arguments);
  va_end(arguments);
  tensor->rows = rows;
  tensor->columns = columns;
  tensor->offset = model->parameter_count;
  model->parameter_count += (size_t)rows * columns;
}

/* Lists a block's tensors in the order of block_tensor_t. */
static void add_block(train_model_t *model, int layer) {
  int width = model->config.width;
  add_tensor(model, 1, width, "h.%d.ln_1.weight", layer);
  add_tensor(model, 1, width, "h.%d.ln_1.bias", layer);
  add_tensor(model, 3 * width, width, "h.%d.attn.c_attn.weight", layer);
  add_tensor(model, 1, 3 * width, "h.%d.attn.c_attn.bias", layer);
  add_tensor(model, width, width, "h.%d.attn.c_proj.weight", layer);
  add_tensor(model, 1, width, "h.%d.attn.c_proj.bias", layer);
  add_tensor(model, 1, width, "h.%d.ln_2.weight", layer);
  add_tensor(model, 1, width, "h.%d.ln_2.bias", layer);
  add_tensor(model, 4 * width, width, "h.%d.mlp.c_fc.weight", layer);
  add_tensor(model, 1, 4 * width, "h.%d.mlp.c_fc.bias", layer);
  add_tensor(model, width, 4 * width, "h.%d.mlp.c_proj.weight", layer);
  add_tensor(model, 1, width, "h.%d.mlp.c_proj.bias", layer);
}

static void list_tensors(train_model_t *model) {
  const train_model_config_t *config = &model->config;
  add_tensor(model, config->vocabulary, config->width, "wte.weight");
  add_tensor(model, config->context, config->width, "wpe.weight");
  for (int layer = 0; layer < config->layers; layer++) add_block(model, layer);
  add_tensor(model, 1, config->width, "ln_f.weight");
  add_tensor(model, 1, config->width, "ln_f.bias");
}

coll_status_t train_model_create(const train_model_config_t *config, int sequences,
                                 train_model_t **model) {
  assert(sequences >= 1);
  COLL_TRY(train_model_config_check(config));
  void *memory;
  COLL_TRY(base_alloc(1, sizeof(train_model_t), "a model", &memory));
  train_model_t *created = memory;
  created->config = *config;
  created->sequences = sequences;
  int tensors = GLOBAL_TENSORS + config->layers * BLOCK_TENSORS;
  coll_status_t status = base_alloc(tensors, sizeof(train_tensor_t), "the tensor list", &memory);
  if (status != COLL_OK) goto failed;
  created->tensors = memory;
  list_tensors(created);
  assert(created->tensor_count == tensors);
  status = base_alloc(created->parameter_count, sizeof(float), "the parameters", &memory);
  if (status != COLL_OK) goto failed;
  created->parameters = memory;
  status = train_activations_create(config, sequences, &created->activations);
  if (status != COLL_OK) goto failed;
  *model = created;
  return COLL_OK;
failed:
  train_model_destroy(created);
  return status;
}

void train_model_destroy(train_model_t *model) {
  if (model == NULL) return;
  train_activations_destroy(model->activations);
  free(model->parameters);
  free(model->tensors);
  free(model);
}

static void fill(float *values, size_t count, float value) {
  for (size_t i = 0; i < count; i++) values[i] = value;
}

static void fill_normal(const train_model_t *model, const train_tensor_t *tensor, double deviation,
                        uint64_t seed) {
  size_t end = tensor->offset + (size_t)tensor->rows * tensor->columns;
  for (size_t i = tensor->offset; i < end; i++) {
    model->parameters[i] = (float)(deviation * train_random_normal(seed, TRAIN_RANDOM_WEIGHTS, i));
  }
}

void train_model_initialize(train_model_t *model, uint64_t seed) {
  fill(model->parameters, model->parameter_count, 0);
  size_t width = (size_t)model->config.width;
  double deviation = 0.02 * sqrt(768.0 / (double)width);
  double projection_deviation = deviation / sqrt(2.0 * model->config.layers);
  fill_normal(model, &model->tensors[TOKEN_TABLE], deviation, seed);
  fill_normal(model, &model->tensors[POSITION_TABLE], deviation, seed);
  for (int layer = 0; layer < model->config.layers; layer++) {
    const train_tensor_t *block = &model->tensors[block_tensor_index(layer, 0)];
    fill(model->parameters + block[NORM1_WEIGHT].offset, width, 1);
    fill(model->parameters + block[NORM2_WEIGHT].offset, width, 1);
    fill_normal(model, &block[QKV_WEIGHT], deviation, seed);
    fill_normal(model, &block[ATTENTION_WEIGHT], projection_deviation, seed);
    fill_normal(model, &block[HIDDEN_WEIGHT], deviation, seed);
    fill_normal(model, &block[MLP_WEIGHT], projection_deviation, seed);
  }
  fill(model->parameters + model->tensors[final_tensor_index(model, FINAL_WEIGHT)].offset, width,
       1);
}

/*
 * Presets, validation of sizes, and the list of tensors and units. The tensors are contiguous, in
 * list order.
 */
#include "libtrain/model/layout.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

#define PARAMETERS_MAX ((size_t)1 << 31)
#define BYTE_VOCABULARY 256 /* vocabulary size of byte-level models */
#define GPT2_TOKENS 50257

static const train_preset_t presets[] = {
    {"tiny",
     "0.4 M parameters over bytes, 2 layers of width 128",
     {BYTE_VOCABULARY, 64, 2, 4, 128}},
    {"mini",
     "3.3 M parameters over bytes, 4 layers of width 256",
     {BYTE_VOCABULARY, 256, 4, 4, 256}},
    {"midi",
     "19 M parameters over bytes, 6 layers of width 512",
     {BYTE_VOCABULARY, 256, 6, 8, 512}},
    {"gpt2", "124 M parameters, 12 layers of width 768", {GPT2_TOKENS, 1024, 12, 12, 768}},
    {"gpt2-medium", "355 M parameters, 24 layers of width 1024", {GPT2_TOKENS, 1024, 24, 16, 1024}},
    {"gpt2-large", "774 M parameters, 36 layers of width 1280", {GPT2_TOKENS, 1024, 36, 20, 1280}},
    {"gpt2-xl", "1558 M parameters, 48 layers of width 1600", {GPT2_TOKENS, 1024, 48, 25, 1600}}};

#define PRESETS ((int)(sizeof presets / sizeof presets[0]))

const train_preset_t *train_presets(int *count) {
  *count = PRESETS;
  return presets;
}

coll_status_t train_preset_find(const char *name, train_model_config_t *config) {
  const char *names[PRESETS];
  char all[256] = "";
  for (int i = 0; i < PRESETS; i++) {
    if (strcmp(name, presets[i].name) == 0) {
      *config = presets[i].config;
      return COLL_OK;
    }
    names[i] = presets[i].name;
    size_t used = strlen(all);
    snprintf(all + used, sizeof all - used, "%s%s", i > 0 ? ", " : "", names[i]);
  }
  return base_fail(COLL_ERROR_INVALID, "unknown model '%s'; did you mean '%s'? Available: %s", name,
                   base_text_nearest(name, names, PRESETS), all);
}

coll_status_t train_model_config_check(const train_model_config_t *config) {
  const int32_t sizes[] = {config->vocabulary, config->context, config->layers, config->heads,
                           config->width};
  const int32_t limits[] = {1 << 20, 1 << 16, 1 << 10, 1 << 10, 1 << 15};
  const char *const names[] = {"vocabulary", "context", "layers", "heads", "width"};
  for (int i = 0; i < 5; i++) {
    if (sizes[i] < 1 || sizes[i] > limits[i]) {
      return base_fail(COLL_ERROR_INVALID, "%s %d is out of range: give 1 to %d", names[i],
                       sizes[i], limits[i]);
    }
  }
  if (config->width % config->heads != 0) {
    return base_fail(COLL_ERROR_INVALID,
                     "%d heads do not divide width %d: choose a width that is a multiple of heads",
                     config->heads, config->width);
  }
  double width = config->width;
  if ((double)config->layers * 12 * width * width + config->vocabulary * width > PARAMETERS_MAX) {
    return base_fail(COLL_ERROR_INVALID, "%d layers of width %d have more than %zu parameters",
                     config->layers, config->width, PARAMETERS_MAX);
  }
  return COLL_OK;
}

/* Appends a tensor to the last unit of the list. Weights of linear layers are recognized by
 * name. */
__attribute__((format(printf, 4, 5))) static void add(train_layout_t *layout, int rows, int columns,
                                                      const char *format, ...) {
  train_tensor_t *tensor = &layout->tensors[layout->tensor_count++];
  train_unit_t *unit = &layout->units[layout->unit_count - 1];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(tensor->name, sizeof tensor->name, format, arguments);
  va_end(arguments);
  tensor->unit = layout->unit_count - 1;
  tensor->rows = rows;
  tensor->columns = columns;
  tensor->linear = rows > 1 && tensor->unit > 0;
  tensor->decays = rows > 1;
  tensor->offset = layout->parameter_count;
  unit->count += (size_t)rows * (size_t)columns;
  layout->parameter_count += (size_t)rows * (size_t)columns;
}

static void add_unit(train_layout_t *layout) {
  layout->units[layout->unit_count++] = (train_unit_t){.offset = layout->parameter_count};
}

static void add_root_tensors(train_layout_t *layout) {
  const train_model_config_t *config = &layout->config;
  add_unit(layout);
  add(layout, config->vocabulary, config->width, "wte.weight");
  add(layout, config->context, config->width, "wpe.weight");
  add(layout, 1, config->width, "ln_f.weight");
  add(layout, 1, config->width, "ln_f.bias");
}

static void add_block(train_layout_t *layout, int layer) {
  int width = layout->config.width;
  add_unit(layout);
  add(layout, 1, width, "h.%d.ln_1.weight", layer);
  add(layout, 1, width, "h.%d.ln_1.bias", layer);
  add(layout, 3 * width, width, "h.%d.attn.c_attn.weight", layer);
  add(layout, 1, 3 * width, "h.%d.attn.c_attn.bias", layer);
  add(layout, width, width, "h.%d.attn.c_proj.weight", layer);
  add(layout, 1, width, "h.%d.attn.c_proj.bias", layer);
  add(layout, 1, width, "h.%d.ln_2.weight", layer);
  add(layout, 1, width, "h.%d.ln_2.bias", layer);
  add(layout, 4 * width, width, "h.%d.mlp.c_fc.weight", layer);
  add(layout, 1, 4 * width, "h.%d.mlp.c_fc.bias", layer);
  add(layout, width, 4 * width, "h.%d.mlp.c_proj.weight", layer);
  add(layout, 1, width, "h.%d.mlp.c_proj.bias", layer);
}

coll_status_t train_layout_create(const train_model_config_t *config, train_layout_t **layout) {
  COLL_TRY(train_model_config_check(config));
  void *memory;
  COLL_TRY(base_alloc(1, sizeof(train_layout_t), "a layout", &memory));
  train_layout_t *created = memory;
  created->config = *config;
  size_t layers = (size_t)config->layers,
         tensors = TRAIN_ROOT_TENSORS + layers * TRAIN_BLOCK_TENSORS;
  coll_status_t status = base_alloc(tensors, sizeof(train_tensor_t), "the tensor list", &memory);
  if (status != COLL_OK) goto failed;
  created->tensors = memory;
  status = base_alloc(1 + layers, sizeof(train_unit_t), "the units", &memory);
  if (status != COLL_OK) goto failed;
  created->units = memory;
  add_root_tensors(created);
  for (int layer = 0; layer < config->layers; layer++) add_block(created, layer);
  assert((size_t)created->tensor_count == tensors);
  *layout = created;
  return COLL_OK;
failed:
  train_layout_destroy(created);
  return status;
}

void train_layout_destroy(train_layout_t *layout) {
  if (layout == NULL) return;
  free(layout->units);
  free(layout->tensors);
  free(layout);
}

double train_layout_flops_per_token(const train_layout_t *layout, int length) {
  const train_model_config_t *config = &layout->config;
  double positions = (double)config->context * config->width;
  return 6.0 * ((double)layout->parameter_count - positions) +
         12.0 * config->layers * (double)config->width * length;
}

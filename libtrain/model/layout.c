/*
 * Presets, validation of sizes, and the list of tensors and units. The tensors follow each other in
 * list order.
 */
#include "libtrain/model/layout.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

#define PARAMETERS_MAX ((size_t)1 << 31)
#define BYTE_VOCABULARY 256 /* vocabulary size of byte-level models */
#define GPT2_TOKENS 50257
#define EXPERTS_MAX 1024

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

static coll_status_t check_experts(const train_model_config_t *config) {
  int experts = config->experts;
  if (experts < 0 || experts > EXPERTS_MAX) {
    return base_fail(COLL_ERROR_INVALID, "experts %d is out of range: give 0 to %d", experts,
                     EXPERTS_MAX);
  }
  if (experts == 0) return COLL_OK;
  if (config->top_k < 1 || config->top_k > 2 || config->top_k > experts) {
    return base_fail(COLL_ERROR_INVALID, "a position cannot use %d of %d experts: give --top-k 1%s",
                     config->top_k, experts, experts > 1 ? " or 2" : "");
  }
  if (config->moe_every < 1 || config->moe_every > config->layers) {
    return base_fail(COLL_ERROR_INVALID,
                     "experts in every block number %d of %d layers: give --moe-every 1 to %d",
                     config->moe_every, config->layers, config->layers);
  }
  return COLL_OK;
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
  COLL_TRY(check_experts(config));
  double width = config->width, mlps = config->experts > 1 ? config->experts : 1;
  double matrices = 4 + 8 * mlps, tables = config->untied ? 2 : 1;
  if ((double)config->layers * matrices * width * width + tables * config->vocabulary * width >
      PARAMETERS_MAX) {
    return base_fail(COLL_ERROR_INVALID, "%d layers of width %d have more than %zu parameters",
                     config->layers, config->width, PARAMETERS_MAX);
  }
  return COLL_OK;
}

/* ---- the layout of a part ---- */

static coll_status_t check_expert_ranks(const train_model_config_t *config, int ranks) {
  int nearest = ranks;
  if (ranks <= 1 || (config->experts > 0 && config->experts % ranks == 0)) return COLL_OK;
  while (nearest > 1 && config->experts % nearest != 0) nearest--;
  return base_fail(COLL_ERROR_INVALID,
                   "%d experts cannot be divided among %d expert ranks: give --ep %d, or a number "
                   "of experts that is a multiple of %d",
                   config->experts, ranks, config->experts > 0 ? nearest : 1, ranks);
}

/* Whether the chunk embeds or classifies, so that it needs no layers. */
static bool chunk_is_edge(const train_model_config_t *config, const train_part_t *part, int chunk) {
  if (chunk == 0 && train_part_embeds(part)) return true;
  return chunk == part->chunk_count - 1 && train_part_classifies(part, config->layers);
}

coll_status_t train_part_check(const train_model_config_t *config, const train_part_t *part) {
  int ranks = part->tensor_ranks;
  if (ranks < 1 || part->tensor_rank < 0 || part->tensor_rank >= ranks || config->heads % ranks) {
    int nearest = ranks < config->heads ? ranks : config->heads;
    while (nearest > 1 && config->heads % nearest != 0) nearest--;
    return base_fail(COLL_ERROR_INVALID,
                     "%d heads cannot be cut over %d tensor ranks: give --tp %d, or a number of "
                     "heads that is a multiple of %d",
                     config->heads, ranks, nearest > 1 ? nearest : 1, ranks);
  }
  if (ranks > 1 &&
      (config->vocabulary - 1) / ((config->vocabulary + ranks - 1) / ranks) < ranks - 1) {
    return base_fail(COLL_ERROR_INVALID, "%d tokens are too few for %d tensor ranks: lower --tp",
                     config->vocabulary, ranks);
  }
  COLL_TRY(check_expert_ranks(config, part->expert_ranks));
  int next = 0;
  for (int i = 0; i < part->chunk_count; i++) {
    const train_layer_range_t *chunk = &part->chunks[i];
    int least = chunk_is_edge(config, part, i) ? 0 : 1;
    bool fits = chunk->first_layer >= next && chunk->layers >= least &&
                chunk->layers <= config->layers - chunk->first_layer;
    if (!fits) {
      return base_fail(COLL_ERROR_INVALID,
                       "a pipeline stage cannot have layers %d to %d of %d: give at most one stage "
                       "per layer",
                       chunk->first_layer, chunk->first_layer + chunk->layers - 1, config->layers);
    }
    next = chunk->first_layer + chunk->layers;
  }
  return COLL_OK;
}

/* The list of tensors being made, and the place of the next one in the whole model. */
typedef struct builder {
  train_layout_t *layout;
  size_t full_offset;
  int layer;    /* -1: unit 0 */
  bool experts; /* tensors are divided among the expert ranks by rows */
} builder_t;

/* Sets the sizes of this part of a tensor. */
static void cut_tensor(const train_part_t *part, train_cut_t cut, train_tensor_t *tensor) {
  int rank = part->tensor_rank, ranks = part->tensor_ranks;
  bool vector = tensor->full_rows == 1;
  int *size = vector || cut == TRAIN_CUT_COLUMNS ? &tensor->columns : &tensor->rows;
  tensor->cut = ranks > 1 ? cut : TRAIN_CUT_NONE;
  tensor->owned = tensor->cut != TRAIN_CUT_NONE || rank == 0;
  if (tensor->cut == TRAIN_CUT_NONE) return;
  int parts = cut == TRAIN_CUT_QKV ? 3 : 1, length;
  train_cut_range(*size / parts, rank, ranks, &tensor->cut_first, &length);
  *size = parts * length;
}

/* Selects the rows of this rank's experts. Tensor ranks that hold the same ones divide them as data
 * ranks do: they are all in the group over which the store works. */
static void select_experts(const train_part_t *part, train_tensor_t *tensor) {
  if (part->whole_experts) tensor->owned = true;
  if (part->expert_ranks <= 1) return;
  tensor->rows /= part->expert_ranks;
  tensor->first_row = part->expert_rank * tensor->rows;
}

/* Appends a tensor to the last unit of the list. A tensor that is not `held` by the part has no
 * rows. */
__attribute__((format(printf, 6, 7))) static void add(builder_t *builder, bool held,
                                                      train_cut_t cut, int rows, int columns,
                                                      const char *format, ...) {
  train_layout_t *layout = builder->layout;
  train_tensor_t *tensor = &layout->tensors[layout->tensor_count++];
  train_unit_t *unit = &layout->units[layout->unit_count - 1];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(tensor->name, sizeof tensor->name, format, arguments);
  va_end(arguments);
  tensor->unit = layout->unit_count - 1;
  tensor->layer = builder->layer;
  tensor->rows = tensor->full_rows = rows;
  tensor->columns = tensor->full_columns = columns;
  tensor->full_offset = builder->full_offset;
  tensor->linear = rows > 1 && tensor->unit > 0;
  tensor->decays = rows > 1;
  tensor->offset = layout->parameter_count;
  bool whole = builder->experts && layout->part.whole_experts;
  cut_tensor(&layout->part, whole ? TRAIN_CUT_NONE : cut, tensor);
  if (builder->experts) select_experts(&layout->part, tensor);
  if (!held) tensor->rows = 0;
  unit->count += train_tensor_count(tensor);
  layout->parameter_count += train_tensor_count(tensor);
  builder->full_offset += (size_t)rows * (size_t)columns;
}

static void add_unit(train_layout_t *layout) {
  layout->units[layout->unit_count++] = (train_unit_t){.offset = layout->parameter_count};
}

/* Adds a table of tokens, and behind it the rows that tensor rank 0 has more. */
static void add_table(builder_t *builder, bool held, const char *name) {
  train_layout_t *layout = builder->layout;
  const train_model_config_t *config = &layout->config;
  int first, rows;
  add(builder, held, TRAIN_CUT_ROWS, config->vocabulary, config->width, "%s", name);
  train_cut_range(config->vocabulary, 0, layout->part.tensor_ranks, &first, &rows);
  const train_tensor_t *table = &layout->tensors[layout->tensor_count - 1];
  size_t padding = held ? (size_t)(rows - table->rows) * (size_t)table->columns : 0;
  layout->units[table->unit].count += padding;
  layout->parameter_count += padding;
}

/* The token table of a part that only classifies is a copy: the part that embeds owns it. */
static void add_root_tensors(builder_t *builder) {
  const train_model_config_t *config = &builder->layout->config;
  const train_part_t *part = &builder->layout->part;
  bool embeds = train_part_embeds(part), classifies = train_part_classifies(part, config->layers);
  builder->layer = -1;
  add_unit(builder->layout);
  add_table(builder, embeds || (classifies && !config->untied), "wte.weight");
  if (!embeds) builder->layout->tensors[TRAIN_TOKEN_TABLE].owned = false;
  add(builder, embeds, TRAIN_CUT_NONE, config->context, config->width, "wpe.weight");
  add(builder, classifies, TRAIN_CUT_NONE, 1, config->width, "ln_f.weight");
  add(builder, classifies, TRAIN_CUT_NONE, 1, config->width, "ln_f.bias");
  if (config->untied) add_table(builder, classifies, "lm_head.weight");
}

/* Whether a block has a dense MLP: of a block with experts it is the shared expert. */
static bool has_dense_mlp(const train_model_config_t *config, int layer) {
  return config->shared_expert || !train_model_has_experts(config, layer);
}

/* Elements of a block of the whole model, without its experts. */
static size_t block_elements(const train_model_config_t *config, int layer) {
  size_t width = (size_t)config->width, count = 4 * width * width + 8 * width;
  if (has_dense_mlp(config, layer)) count += 8 * width * width + 5 * width;
  if (train_model_has_experts(config, layer)) count += (size_t)config->experts * width;
  return count;
}

static void add_block(builder_t *builder) {
  const train_model_config_t *config = &builder->layout->config;
  int width = config->width, layer = builder->layer, mlp = has_dense_mlp(config, layer) ? 1 : 0;
  add_unit(builder->layout);
  add(builder, true, TRAIN_CUT_NONE, 1, width, "h.%d.ln_1.weight", layer);
  add(builder, true, TRAIN_CUT_NONE, 1, width, "h.%d.ln_1.bias", layer);
  add(builder, true, TRAIN_CUT_QKV, 3 * width, width, "h.%d.attn.c_attn.weight", layer);
  add(builder, true, TRAIN_CUT_QKV, 1, 3 * width, "h.%d.attn.c_attn.bias", layer);
  add(builder, true, TRAIN_CUT_COLUMNS, width, width, "h.%d.attn.c_proj.weight", layer);
  add(builder, true, TRAIN_CUT_NONE, 1, width, "h.%d.attn.c_proj.bias", layer);
  add(builder, true, TRAIN_CUT_NONE, 1, width, "h.%d.ln_2.weight", layer);
  add(builder, true, TRAIN_CUT_NONE, 1, width, "h.%d.ln_2.bias", layer);
  add(builder, true, TRAIN_CUT_ROWS, mlp * 4 * width, width, "h.%d.mlp.c_fc.weight", layer);
  add(builder, mlp > 0, TRAIN_CUT_ROWS, 1, mlp * 4 * width, "h.%d.mlp.c_fc.bias", layer);
  add(builder, true, TRAIN_CUT_COLUMNS, mlp * width, 4 * width, "h.%d.mlp.c_proj.weight", layer);
  add(builder, mlp > 0, TRAIN_CUT_NONE, mlp, width, "h.%d.mlp.c_proj.bias", layer);
  if (config->experts == 0) return;
  int experts = train_model_has_experts(config, layer) ? config->experts : 0;
  add(builder, true, TRAIN_CUT_NONE, experts, width, "h.%d.gate.weight", layer);
  train_layout_t *layout = builder->layout;
  layout->tensors[layout->tensor_count - 1].decays = experts > 0;
}

static void add_experts(builder_t *builder) {
  train_layout_t *layout = builder->layout;
  int width = layout->config.width, hidden = 4 * width, layer = builder->layer;
  int experts = layout->config.experts, first = layout->tensor_count;
  builder->experts = true;
  add_unit(layout);
  train_unit_t *unit = &layout->units[layout->unit_count - 1];
  unit->experts = true;
  unit->groups = layout->part.expert_ranks;
  unit->copies = train_part_expert_copies(&layout->part);
  add(builder, true, TRAIN_CUT_COLUMNS, experts, hidden * width, "h.%d.experts.c_fc.weight", layer);
  add(builder, true, TRAIN_CUT_COLUMNS, experts, hidden, "h.%d.experts.c_fc.bias", layer);
  add(builder, true, TRAIN_CUT_COLUMNS, experts * width, hidden, "h.%d.experts.c_proj.weight",
      layer);
  add(builder, true, TRAIN_CUT_NONE, experts, width, "h.%d.experts.c_proj.bias", layer);
  layout->tensors[first + TRAIN_EXPERT_HIDDEN_WEIGHT].decays = true;
  layout->tensors[first + TRAIN_EXPERT_HIDDEN_BIAS].decays = false;
  layout->tensors[first + TRAIN_EXPERT_OUTPUT_BIAS].decays = false;
}

/* The blocks of the part, then the experts of these; blocks_at is where the first block lies in the
 * whole model. */
static void add_chunk(builder_t *builder, const train_layer_range_t *chunk, size_t blocks_at) {
  const train_model_config_t *config = &builder->layout->config;
  builder->full_offset = blocks_at;
  for (int layer = 0; layer < chunk->first_layer + chunk->layers; layer++) {
    size_t end = builder->full_offset + block_elements(config, layer);
    builder->layer = layer;
    if (layer >= chunk->first_layer) {
      add_block(builder);
      assert(builder->full_offset == end);
    }
    builder->full_offset = end;
  }
}

static void add_experts_of_chunk(builder_t *builder, const train_layer_range_t *chunk,
                                 size_t experts_at) {
  const train_model_config_t *config = &builder->layout->config;
  size_t width = (size_t)config->width,
         of_layer = (size_t)config->experts * (8 * width * width + 5 * width);
  for (int layer = chunk->first_layer; layer < chunk->first_layer + chunk->layers; layer++) {
    if (!train_model_has_experts(config, layer)) continue;
    builder->layer = layer;
    builder->full_offset = experts_at + (size_t)((layer + 1) / config->moe_every - 1) * of_layer;
    add_experts(builder);
  }
}

static void add_all(train_layout_t *layout) {
  const train_part_t *part = &layout->part;
  builder_t builder = {.layout = layout};
  add_root_tensors(&builder);
  size_t blocks_at = builder.full_offset, experts_at = blocks_at;
  for (int layer = 0; layer < layout->config.layers; layer++) {
    experts_at += block_elements(&layout->config, layer);
  }
  for (int i = 0; i < part->chunk_count; i++) add_chunk(&builder, &part->chunks[i], blocks_at);
  for (int i = 0; i < part->chunk_count; i++) {
    add_experts_of_chunk(&builder, &part->chunks[i], experts_at);
  }
}

/* The part's layers with experts in its first `layers` layers. */
static int layers_with_experts(const train_layout_t *layout, int layers) {
  const train_part_t *part = &layout->part;
  int count = 0, at = 0;
  for (int i = 0; i < part->chunk_count; i++) {
    for (int l = 0; l < part->chunks[i].layers && at < layers; l++, at++) {
      count += train_model_has_experts(&layout->config, part->chunks[i].first_layer + l);
    }
  }
  return count;
}

int train_layout_experts_unit(const train_layout_t *layout, int block_unit) {
  int layer = train_layout_tensor(layout, block_unit, 0)->layer;
  if (block_unit == 0 || !train_model_has_experts(&layout->config, layer)) return -1;
  return layout->block_units + layers_with_experts(layout, block_unit - 1);
}

coll_status_t train_layout_create_part(const train_model_config_t *config, const train_part_t *part,
                                       train_layout_t **layout) {
  COLL_TRY(train_model_config_check(config));
  COLL_TRY(train_part_check(config, part));
  void *memory;
  COLL_TRY(base_alloc(1, sizeof(train_layout_t), "a layout", &memory));
  train_layout_t *created = memory;
  created->config = *config;
  created->part = *part;
  size_t layers = (size_t)train_layout_chunk_start(created, part->chunk_count);
  size_t with_experts = (size_t)layers_with_experts(created, (int)layers);
  created->block_units = 1 + (int)layers;
  created->block_tensors = TRAIN_BLOCK_TENSORS + (config->experts > 0 ? 1 : 0);
  created->root_tensors = TRAIN_ROOT_TENSORS + (config->untied ? 1 : 0);
  size_t tensors = (size_t)created->root_tensors + layers * (size_t)created->block_tensors +
                   with_experts * TRAIN_EXPERT_TENSORS;
  created->whole = part->tensor_ranks == 1 && part->expert_ranks <= 1 &&
                   layers == (size_t)config->layers && train_part_embeds(part) &&
                   train_part_classifies(part, config->layers);
  coll_status_t status = base_alloc(tensors, sizeof(train_tensor_t), "the tensor list", &memory);
  if (status != COLL_OK) goto failed;
  created->tensors = memory;
  status = base_alloc(1 + layers + with_experts, sizeof(train_unit_t), "the units", &memory);
  if (status != COLL_OK) goto failed;
  created->units = memory;
  add_all(created);
  assert((size_t)created->tensor_count == tensors);
  *layout = created;
  return COLL_OK;
failed:
  train_layout_destroy(created);
  return status;
}

coll_status_t train_layout_create(const train_model_config_t *config, train_layout_t **layout) {
  const train_part_t whole = train_part_whole(config->layers);
  COLL_TRY(train_model_config_check(config));
  return train_layout_create_part(config, &whole, layout);
}

void train_layout_destroy(train_layout_t *layout) {
  if (layout == NULL) return;
  free(layout->units);
  free(layout->tensors);
  free(layout);
}

double train_layout_flops_per_token(const train_layout_t *layout, int length) {
  const train_model_config_t *config = &layout->config;
  double looked_up = (double)config->context * config->width, unused = 0;
  if (config->untied) looked_up += (double)config->vocabulary * config->width;
  for (int unit = layout->block_units; unit < layout->unit_count; unit++) {
    unused += (double)layout->units[unit].count * (1 - (double)config->top_k / config->experts);
  }
  return 6.0 * ((double)layout->parameter_count - looked_up - unused) +
         12.0 * config->layers * (double)config->width * length;
}

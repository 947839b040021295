/*
 * The sizes of a GPT-2 (Radford et al. 2019) and the layout of its parameters. They form one flat
 * space of float32 elements without gaps, divided into units (FSDP's term). A unit is what is
 * gathered, freed and reduced together. Unit 0, the root unit, contains the embedding tables and
 * the final layernorm (the classifier is tied to the token table, or is a last tensor of this
 * unit); unit 1 + l is block l, of a part the part's block l. The experts of a block are a unit of
 * their own, since other ranks may reduce their gradients; these units follow all others. Gradients
 * and moments have the same layout.
 *
 * A rank may hold a part of the model only (shard/part.h). The layout of a part is a flat space of
 * its own, with the same tensors in the same order: blocks are those of the part, tensors that it
 * lacks have no rows, and cut tensors have the sizes of the cut. Each tensor says where it lies in
 * the whole model.
 *
 * Where the tensor ranks do not divide the vocabulary, the last ones have fewer tokens. Behind each
 * table of tokens they have padding, as many rows as they lack: elements that belong to no tensor.
 * Weights and moments are zero there, and gradients count for nothing. So a unit has as many
 * elements on all tensor ranks, with the tensors that all of them hold at the same places. Their
 * gradients are then in the same buckets (parallel/partition.h), and data ranks add them in the
 * same order, so that the copies keep the same bits.
 */
#ifndef LIBTRAIN_MODEL_LAYOUT_H
#define LIBTRAIN_MODEL_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "libtrain/common/pool.h"
#include "libtrain/shard/part.h"

typedef struct train_model_config {
  int32_t vocabulary; /* tokens are 0 .. vocabulary - 1 */
  int32_t context;    /* longest sequence, in tokens */
  int32_t layers;
  int32_t heads; /* must divide width */
  int32_t width;

  /* Blocks whose MLP is a mixture of experts (model/experts.h): all 0 if there are none. */
  int32_t experts;       /* of a block */
  int32_t top_k;         /* experts of a position: 1 or 2 */
  int32_t moe_every;     /* blocks moe_every - 1, 2 moe_every - 1 ... have experts */
  int32_t shared_expert; /* 1: these blocks have a dense MLP besides */

  int32_t untied; /* 1: the classifier has weights of its own, lm_head.weight; 0: it is the token
                   * table */
} train_model_config_t;

static inline bool train_model_has_experts(const train_model_config_t *config, int layer) {
  return config->experts > 0 && (layer + 1) % config->moe_every == 0;
}

/* A model size with a name. */
typedef struct train_preset {
  const char *name;  /* "gpt2-medium" */
  const char *about; /* "355 M parameters, 24 layers of width 1024" */
  train_model_config_t config;
} train_preset_t;

/* All presets, smallest first; *count is their number. */
const train_preset_t *train_presets(int *count);

/* The preset of that name. COLL_ERROR_INVALID lists the names. */
coll_status_t train_preset_find(const char *name, train_model_config_t *config);

/* COLL_ERROR_INVALID names the size that is wrong and the reason. */
coll_status_t train_model_config_check(const train_model_config_t *config);

/* The tensors of unit 0, those of a block, and those of a block's experts, in layout order. */
enum {
  TRAIN_TOKEN_TABLE,
  TRAIN_POSITION_TABLE,
  TRAIN_FINAL_WEIGHT,
  TRAIN_FINAL_BIAS,
  TRAIN_ROOT_TENSORS,
  TRAIN_HEAD_WEIGHT = TRAIN_ROOT_TENSORS /* only in models with an untied head */
};
enum {
  TRAIN_NORM1_WEIGHT,
  TRAIN_NORM1_BIAS,
  TRAIN_QKV_WEIGHT,
  TRAIN_QKV_BIAS,
  TRAIN_ATTENTION_WEIGHT,
  TRAIN_ATTENTION_BIAS,
  TRAIN_NORM2_WEIGHT,
  TRAIN_NORM2_BIAS,
  TRAIN_HIDDEN_WEIGHT,
  TRAIN_HIDDEN_BIAS,
  TRAIN_MLP_WEIGHT,
  TRAIN_MLP_BIAS,
  TRAIN_BLOCK_TENSORS,
  TRAIN_GATE_WEIGHT = TRAIN_BLOCK_TENSORS /* only in models with experts */
};
enum {
  TRAIN_EXPERT_HIDDEN_WEIGHT, /* [experts, hidden * width]: an expert's matrix is a row */
  TRAIN_EXPERT_HIDDEN_BIAS,   /* [experts, hidden] */
  TRAIN_EXPERT_OUTPUT_WEIGHT, /* [experts * width, hidden] */
  TRAIN_EXPERT_OUTPUT_BIAS,   /* [experts, width] */
  TRAIN_EXPERT_TENSORS
};

/* `rows` x `columns` elements, row-major, starting at `offset` of the flat space. Vectors have one
 * row. */
typedef struct train_tensor {
  char name[32]; /* Hugging Face's name for it in GPT-2: "h.0.attn.c_attn.weight", "wte.weight" */
  int unit;
  int layer; /* of the model; -1 in unit 0 */
  size_t offset;
  int rows, columns;
  bool linear; /* the weight of a linear layer, [out, in]; Hugging Face stores [in, out] */
  bool decays; /* weight decay applies to it: true for matrices, not for experts' biases */
  bool owned;  /* this part counts its elements, in norms and when saving; of several parts that
                * hold the same elements one does */
  train_cut_t cut;
  int cut_first;      /* first row, column or element of the cut in the whole tensor; for queries,
                       * keys and values the first in each of them */
  int first_row;      /* in the whole tensor, of this rank's experts */
  size_t full_offset; /* of the whole tensor in the flat space of the whole model */
  int full_rows, full_columns;
} train_tensor_t;

static inline size_t train_tensor_count(const train_tensor_t *tensor) {
  return (size_t)tensor->rows * (size_t)tensor->columns;
}

typedef struct train_unit {
  size_t offset, count; /* in the flat space, with padding */
  bool experts;         /* it has the experts of a block */
  int groups; /* into which the ranks that hold the dense tensors are divided, each with other
               * experts; 0: one, all ranks hold the same */
  int copies; /* tensor ranks that hold the same experts, which are then in one group with those of
               * each other; 0: one */
} train_unit_t;

typedef struct train_layout {
  train_model_config_t config; /* of the whole model */
  train_part_t part;
  bool whole;              /* the part is the whole model */
  train_tensor_t *tensors; /* sorted by offset */
  int tensor_count;
  train_unit_t *units;
  int unit_count;
  int block_units;        /* units before those of experts: 1 + the part's layers */
  int root_tensors;       /* tensors of unit 0 */
  int block_tensors;      /* tensors of a block */
  size_t parameter_count; /* of the flat space, with padding */
} train_layout_t;

/* Creates the layout of a model, or of a part of it. COLL_ERROR_INVALID as from
 * train_model_config_check and train_part_check. */
coll_status_t train_layout_create(const train_model_config_t *config, train_layout_t **layout);
coll_status_t train_layout_create_part(const train_model_config_t *config, const train_part_t *part,
                                       train_layout_t **layout);
void train_layout_destroy(train_layout_t *layout);

/* COLL_ERROR_INVALID if the model cannot be divided so: heads that the tensor ranks do not divide,
 * fewer tokens than tensor ranks, experts that the expert ranks do not divide, ranges of layers
 * that overlap or lie outside the model. */
coll_status_t train_part_check(const train_model_config_t *config, const train_part_t *part);

#define TRAIN_LAYOUT_PADDING SIZE_MAX

/* Where element `local` of the layout's flat space lies in that of the whole model. Returns the
 * number of elements from there on, up to the end of the tensor (of the space if the layout is
 * whole), that follow each other in both spaces. In padding *full is TRAIN_LAYOUT_PADDING, and the
 * padding ends after as many elements. */
size_t train_layout_run(const train_layout_t *layout, size_t local, size_t *full);

/* The tensor that contains an element of the layout's flat space; NULL: it is padding. */
const train_tensor_t *train_layout_tensor_at(const train_layout_t *layout, size_t element);

/* The tensor `which` (TRAIN_TOKEN_TABLE, TRAIN_QKV_WEIGHT ...) of the unit. */
static inline const train_tensor_t *train_layout_tensor(const train_layout_t *layout, int unit,
                                                        int which) {
  int blocks = unit < layout->block_units ? unit : layout->block_units, first = 0;
  if (unit > 0) first = layout->root_tensors + (blocks - 1) * layout->block_tensors;
  return &layout->tensors[first + (unit - blocks) * TRAIN_EXPERT_TENSORS + which];
}

/* The tensor of unit 0 that classifies, [vocabulary, width]. */
static inline int train_layout_head(const train_layout_t *layout) {
  return layout->config.untied ? TRAIN_HEAD_WEIGHT : TRAIN_TOKEN_TABLE;
}

/* The unit of the experts of a block; -1 if it has none. */
int train_layout_experts_unit(const train_layout_t *layout, int block_unit);

/* The part's layers before its chunk `chunk`. */
static inline int train_layout_chunk_start(const train_layout_t *layout, int chunk) {
  int layers = 0;
  for (int i = 0; i < chunk; i++) layers += layout->part.chunks[i].layers;
  return layers;
}

/* FLOPs of training on one token, by the convention of PaLM (Chowdhery et al. 2022, appendix B) and
 * nanoGPT: 6 N + 12 L C T for N parameters without tables that are only looked up, L layers of
 * width C and sequences of T tokens. A multiply-add counts as two. Includes forward and backward,
 * excludes recomputation, and counts attention as if it were not causal; of experts N counts those
 * that a token uses. The layout must be whole. */
double train_layout_flops_per_token(const train_layout_t *layout, int length);

/* Computes initial parameters `first` to first + count - 1 of the flat space into values[count], so
 * that each rank can initialize its own shard. Uses GPT-2's initialization: N(0, 0.02) at width
 * 768, scaled for other widths so that the variance of a layer's output stays the same; projections
 * into the residual stream are divided by sqrt(2 * layers); layernorms are the identity, biases
 * zero. The result depends only on the seed. The layout must be whole. */
void train_layout_initialize(train_pool_t *pool, const train_layout_t *layout, uint64_t seed,
                             size_t first, size_t count, float *values);

#endif

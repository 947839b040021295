/*
 * The sizes of a GPT-2 (Radford et al. 2019) and the layout of its parameters. They form one flat
 * space of float32 elements without gaps, divided into units (FSDP's term). A unit is what is
 * gathered, freed and reduced together. Unit 0, the root unit, contains the embedding tables and
 * the final layernorm (the classifier is tied to the token table); unit 1 + l is block l. Gradients
 * and moments have the same layout.
 */
#ifndef LIBTRAIN_MODEL_LAYOUT_H
#define LIBTRAIN_MODEL_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "libtrain/common/pool.h"

typedef struct train_model_config {
  int32_t vocabulary; /* tokens are 0 .. vocabulary - 1 */
  int32_t context;    /* longest sequence, in tokens */
  int32_t layers;
  int32_t heads; /* must divide width */
  int32_t width;
} train_model_config_t;

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

/* The tensors of unit 0, and those of every other unit, in layout order. */
enum {
  TRAIN_TOKEN_TABLE,
  TRAIN_POSITION_TABLE,
  TRAIN_FINAL_WEIGHT,
  TRAIN_FINAL_BIAS,
  TRAIN_ROOT_TENSORS
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
  TRAIN_BLOCK_TENSORS
};

/* `rows` x `columns` elements, row-major, starting at `offset` of the flat space. Vectors have one
 * row. */
typedef struct train_tensor {
  char name[32]; /* Hugging Face's name for it in GPT-2: "h.0.attn.c_attn.weight", "wte.weight" */
  int unit;
  size_t offset;
  int rows, columns;
  bool linear; /* the weight of a linear layer, [out, in]; Hugging Face stores [in, out] */
  bool decays; /* weight decay applies to it: true for matrices */
} train_tensor_t;

typedef struct train_unit {
  size_t offset, count; /* in the flat space */
} train_unit_t;

typedef struct train_layout {
  train_model_config_t config;
  train_tensor_t *tensors; /* sorted by offset */
  int tensor_count;
  train_unit_t *units;
  int unit_count; /* 1 + layers */
  size_t parameter_count;
} train_layout_t;

/* Creates the layout of a model. COLL_ERROR_INVALID as from train_model_config_check. */
coll_status_t train_layout_create(const train_model_config_t *config, train_layout_t **layout);
void train_layout_destroy(train_layout_t *layout);

/* The tensor `which` (TRAIN_TOKEN_TABLE, TRAIN_QKV_WEIGHT ...) of the unit. */
static inline const train_tensor_t *train_layout_tensor(const train_layout_t *layout, int unit,
                                                        int which) {
  return &layout
              ->tensors[unit == 0 ? which
                                  : TRAIN_ROOT_TENSORS + (unit - 1) * TRAIN_BLOCK_TENSORS + which];
}

/* FLOPs of training on one token, by the convention of PaLM (Chowdhery et al. 2022, appendix B) and
 * nanoGPT: 6 N + 12 L C T for N parameters without the position table, L layers of width C and
 * sequences of T tokens. A multiply-add counts as two. Includes forward and backward, excludes
 * recomputation, and counts attention as if it were not causal. */
double train_layout_flops_per_token(const train_layout_t *layout, int length);

/* Computes initial parameters `first` to first + count - 1 of the flat space into values[count], so
 * that each rank can initialize its own shard. Uses GPT-2's initialization: N(0, 0.02) at width
 * 768, scaled for other widths so that the variance of a layer's output stays the same; projections
 * into the residual stream are divided by sqrt(2 * layers); layernorms are the identity, biases
 * zero. The result depends only on the seed. */
void train_layout_initialize(train_pool_t *pool, const train_layout_t *layout, uint64_t seed,
                             size_t first, size_t count, float *values);

#endif

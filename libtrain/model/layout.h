/*
 * What a GPT-2 (Radford et al. 2019) is made of: its sizes, and where its parameters lie. They fill
 * one flat space of float32 elements without gaps, unit after unit; a unit is what is gathered,
 * freed and reduced together. Unit 0, "the ends", holds the embedding tables and the final
 * layernorm (the classifier is tied to the token table); unit 1 + l is block l. Gradients and
 * moments follow the same layout.
 */
#ifndef LIBTRAIN_MODEL_LAYOUT_H
#define LIBTRAIN_MODEL_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "libtrain/ops/pool.h"

typedef struct train_model_config {
  int32_t vocabulary; /* tokens are 0 .. vocabulary - 1 */
  int32_t context;    /* longest sequence, in tokens */
  int32_t layers;
  int32_t heads; /* divides width */
  int32_t width;
} train_model_config_t;

/* A size that has a name. */
typedef struct train_preset {
  const char *name;  /* "gpt2-medium" */
  const char *about; /* "355 M parameters, 24 layers of width 1024" */
  train_model_config_t config;
} train_preset_t;

/* All presets, the smallest first, *count of them. */
const train_preset_t *train_presets(int *count);

/* The preset of that name; COLL_ERROR_INVALID says which names there are. */
coll_status_t train_preset_find(const char *name, train_model_config_t *config);

/* COLL_ERROR_INVALID, saying which size is wrong and why. */
coll_status_t train_model_config_check(const train_model_config_t *config);

/* The tensors of unit 0 and of every other unit, in their order. */
enum { TRAIN_TOKEN_TABLE, TRAIN_POSITION_TABLE, TRAIN_FINAL_WEIGHT, TRAIN_FINAL_BIAS, TRAIN_ENDS };
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

/* `rows` x `columns` elements, row-major, from `offset` of the flat space. Vectors have one row. */
typedef struct train_tensor {
  char name[32]; /* as Hugging Face names GPT-2's: "h.0.attn.c_attn.weight", "wte.weight" */
  int unit;
  size_t offset;
  int rows, columns;
  bool linear; /* the weight of a linear layer, [out, in]; Hugging Face keeps [in, out] */
  bool decays; /* weight decay applies: to matrices */
} train_tensor_t;

typedef struct train_unit {
  size_t offset, count; /* of the flat space */
} train_unit_t;

typedef struct train_layout {
  train_model_config_t config;
  train_tensor_t *tensors; /* in the order of their offsets */
  int tensor_count;
  train_unit_t *units;
  int unit_count; /* 1 + layers */
  size_t parameter_count;
} train_layout_t;

/* The layout of such a model. COLL_ERROR_INVALID as train_model_config_check says it. */
coll_status_t train_layout_create(const train_model_config_t *config, train_layout_t **layout);
void train_layout_destroy(train_layout_t *layout);

/* The tensor `which` (TRAIN_TOKEN_TABLE, TRAIN_QKV_WEIGHT ...) of the unit. */
static inline const train_tensor_t *train_layout_tensor(const train_layout_t *layout, int unit,
                                                        int which) {
  return &layout
              ->tensors[unit == 0 ? which : TRAIN_ENDS + (unit - 1) * TRAIN_BLOCK_TENSORS + which];
}

/* The arithmetic that training on one token takes, by the convention of PaLM (Chowdhery et al.
 * 2022, appendix B) and nanoGPT: 6 N + 12 L C T operations for N parameters but the position table,
 * L layers of width C and sequences of T tokens. An addition and a multiplication are two. Forward
 * and backward are counted, recomputation is not, and attention as if it were not causal. */
double train_layout_flops_per_token(const train_layout_t *layout, int length);

/* The model's initial parameters `first` to first + count - 1 of the flat space, in values[count]:
 * any share of them can be made on its own. GPT-2's initialisation: N(0, 0.02) at its width of 768,
 * and as much wider as keeps the variance of a layer's output in a narrower model; the projections
 * back into the residual stream smaller by sqrt(2 * layers), layernorms at identity, biases zero.
 * A function of the seed alone. */
void train_layout_initialize(train_pool_t *pool, const train_layout_t *layout, uint64_t seed,
                             size_t first, size_t count, float *values);

#endif

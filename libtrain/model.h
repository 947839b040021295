/*
 * The GPT-2 language model (Radford et al. 2019): token and position embeddings, pre-layernorm
 * blocks of causal attention and a GELU MLP, a final layernorm, and a classifier tied to the token
 * embedding. All parameters lie in one contiguous float32 arena, so that gradients are reduced,
 * clipped, stepped and saved as one array; the list of tensors says what lies where.
 */
#ifndef LIBTRAIN_MODEL_H
#define LIBTRAIN_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct train_model_config {
  int32_t vocabulary; /* tokens are 0 .. vocabulary - 1 */
  int32_t context;    /* longest sequence, in tokens */
  int32_t layers;
  int32_t heads; /* divides width */
  int32_t width;
} train_model_config_t;

/* A parameter tensor: `rows` x `columns` at parameters[offset]. Vectors have one row. */
typedef struct train_tensor {
  char name[32]; /* as Hugging Face names GPT-2's: "h.0.attn.c_attn.weight" */
  size_t offset;
  int rows, columns;
} train_tensor_t;

typedef struct train_model {
  train_model_config_t config;
  train_tensor_t *tensors; /* in the order of their offsets, without gaps */
  int tensor_count;
  size_t parameter_count;
  float *parameters; /* [parameter_count] */
  int sequences;     /* the most that one forward pass takes */
  struct train_activations *activations;
} train_model_t;

/* COLL_ERROR_INVALID, saying which size is wrong and why. */
coll_status_t train_model_config_check(const train_model_config_t *config);

/* A model with zero parameters and room for `sequences` sequences of the full context. */
coll_status_t train_model_create(const train_model_config_t *config, int sequences,
                                 train_model_t **model);
void train_model_destroy(train_model_t *model);

/* GPT-2's initialisation: N(0, 0.02) at its width of 768, and as much wider as keeps the variance
 * of a layer's output in a narrower model; the projections back into the residual stream smaller
 * by sqrt(2 * layers), layernorms at identity, biases zero. A function of the seed alone. */
void train_model_initialize(train_model_t *model, uint64_t seed);

/* Runs tokens[sequences * length]; length <= context. Returns the logits
 * [sequences * length, vocabulary], which belong to the model until its next forward pass. */
float *train_model_forward(train_model_t *model, const int32_t *tokens, int sequences, int length);

/* The loss in nats of every position of the latest forward pass, summed. Uses up the logits. */
double train_model_loss(train_model_t *model, const int32_t *targets);

/* Adds scale * d loss / d parameters, the loss being the sum that train_model_loss returned, to
 * gradients[parameter_count]. Call it once after train_model_loss, with the same targets. */
void train_model_backward(train_model_t *model, const int32_t *targets, float scale,
                          float *gradients);

#endif

/* The operators of the host backend, one file each; ops.h documents them. */
#ifndef LIBTRAIN_OPS_HOST_H
#define LIBTRAIN_OPS_HOST_H

#include "libtrain/ops/ops.h"

void train_host_embedding_forward(train_pool_t *pool, const train_batch_t *batch,
                                  const int32_t *tokens, const float *token_table,
                                  const float *position_table, int width, float *out);
void train_host_embedding_backward(train_pool_t *pool, const train_batch_t *batch,
                                   const int32_t *tokens, const float *d_out, int width,
                                   int context, bool overwrite, float *d_token_table,
                                   float *d_position_table);

void train_host_layernorm_forward(train_pool_t *pool, const float *in, const float *weight,
                                  const float *bias, int rows, int width, float *out, float *mean,
                                  float *rstd);
void train_host_layernorm_backward(train_pool_t *pool, const float *d_out, const float *in,
                                   const float *weight, const float *mean, const float *rstd,
                                   int rows, int width, bool first, bool overwrite, float *scratch,
                                   float *d_stream, float *d_weight, float *d_bias);

void train_host_linear_forward(train_pool_t *pool, const train_linear_t *linear, const float *in,
                               int rows, const float *weight, const float *bias,
                               const float *residual, float *out, float *active);
void train_host_linear_backward(train_pool_t *pool, const train_linear_t *linear,
                                const float *d_out, const float *in, int rows, const float *weight,
                                const float *hidden, bool overwrite, float *d_in, float *d_weight,
                                float *d_bias);

void train_host_attention_forward(train_pool_t *pool, const train_batch_t *batch, const float *qkv,
                                  int heads, int width, float *scratch, float *out,
                                  float *log_sums);
void train_host_attention_backward(train_pool_t *pool, const train_batch_t *batch,
                                   const float *d_out, const float *qkv, const float *out,
                                   const float *log_sums, int heads, int width, float *scratch,
                                   float *d_qkv);

double train_host_classifier(train_pool_t *pool, const float *in, const float *table,
                             const int32_t *targets, int rows, int width, int classes, float scale,
                             bool overwrite, float *scratch, float *d_in, float *d_table);

/* The scratch memory that each operator needs, in floats. */
size_t train_host_layernorm_scratch(const train_ops_sizes_t *sizes);
size_t train_host_attention_scratch(const train_ops_sizes_t *sizes);
size_t train_host_classifier_scratch(const train_ops_sizes_t *sizes);

#endif

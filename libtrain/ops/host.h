/* The operators of the host backend, one file each; ops.h documents them. */
#ifndef LIBTRAIN_OPS_HOST_H
#define LIBTRAIN_OPS_HOST_H

#include "libtrain/ops/ops.h"

void train_host_embedding_forward(const train_exec_t *exec, const train_batch_t *batch,
                                  const int32_t *tokens, const void *token_table,
                                  const void *position_table, int width, void *out);
void train_host_embedding_backward(const train_exec_t *exec, const train_batch_t *batch,
                                   const int32_t *tokens, const void *d_out, int width, int context,
                                   bool overwrite, float *d_token_table, float *d_position_table);

void train_host_layernorm_forward(const train_exec_t *exec, const void *in, const void *weight,
                                  const void *bias, int rows, int width, void *out, float *mean,
                                  float *rstd);
void train_host_layernorm_backward(const train_exec_t *exec, const void *d_out, const void *in,
                                   const void *weight, const float *mean, const float *rstd,
                                   int rows, int width, bool first, bool overwrite, void *d_stream,
                                   float *d_weight, float *d_bias);

void train_host_linear_forward(const train_exec_t *exec, const train_linear_t *linear,
                               const void *in, int rows, const void *weight, const void *bias,
                               const void *residual, void *out, void *active);
void train_host_linear_backward(const train_exec_t *exec, const train_linear_t *linear,
                                const void *d_out, const void *in, int rows, const void *weight,
                                const void *hidden, bool overwrite, void *d_in, float *d_weight,
                                float *d_bias);

void train_host_attention_forward(const train_exec_t *exec, const train_batch_t *batch,
                                  const void *qkv, int heads, int width, void *out,
                                  float *log_sums);
void train_host_attention_backward(const train_exec_t *exec, const train_batch_t *batch,
                                   const void *d_out, const void *qkv, const void *out,
                                   const float *log_sums, int heads, int width, void *d_qkv);

double train_host_classifier(const train_exec_t *exec, const void *in, const void *table,
                             const int32_t *targets, int rows, int width, int classes, float scale,
                             bool overwrite, void *d_in, float *d_table);

/* The scratch memory that each operator needs, in floats. */
size_t train_host_layernorm_scratch(const train_ops_sizes_t *sizes);
size_t train_host_attention_scratch(const train_ops_sizes_t *sizes);
size_t train_host_classifier_scratch(const train_ops_sizes_t *sizes);

#endif

/* The operators of the host backend, one file each; ops.h documents them. */
#ifndef LIBTRAIN_OPS_HOST_H
#define LIBTRAIN_OPS_HOST_H

#include "libtrain/ops/ops.h"

void train_host_embedding_forward(const train_exec_t *exec, const train_batch_t *batch,
                                  const int32_t *tokens, train_vocabulary_t vocabulary,
                                  const void *token_table, const void *position_table, int width,
                                  void *out);
void train_host_embedding_backward(const train_exec_t *exec, const train_batch_t *batch,
                                   const int32_t *tokens, train_vocabulary_t vocabulary,
                                   const void *d_out, int width, int context, bool overwrite,
                                   float *d_token_table, float *d_position_table);

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

void train_host_bias_residual(const train_exec_t *exec, const void *in, const void *bias,
                              const void *residual, int rows, int width, void *out);
void train_host_bias_backward(const train_exec_t *exec, const void *d_out, int rows, int width,
                              bool overwrite, float *d_bias);

void train_host_attention_forward(const train_exec_t *exec, const train_batch_t *batch,
                                  const void *qkv, int heads, int width, void *out,
                                  float *log_sums);
void train_host_attention_backward(const train_exec_t *exec, const train_batch_t *batch,
                                   const void *d_out, const void *qkv, const void *out,
                                   const float *log_sums, int heads, int width, void *d_qkv);

void train_host_attention_segment_forward(const train_exec_t *exec,
                                          const train_attention_segment_t *segment, bool first,
                                          float *running);
void train_host_attention_segment_finish(const train_exec_t *exec,
                                         const train_attention_segment_t *segment, float *running,
                                         void *out, float *log_sums);
void train_host_attention_segment_d_sums(const train_exec_t *exec,
                                         const train_attention_segment_t *segment, const void *out,
                                         const void *d_out, float *d_sums);
void train_host_attention_segment_backward(const train_exec_t *exec,
                                           const train_attention_segment_t *segment,
                                           const void *d_out, const float *log_sums,
                                           const float *d_sums, float *d_query, float *d_key,
                                           float *d_value);
void train_host_attention_segment_store(const train_exec_t *exec, const train_batch_t *batch,
                                        int heads, int head_width, const float *gradients,
                                        void *out, int stride);

double train_host_classifier(const train_exec_t *exec, const void *in, const void *table,
                             const int32_t *targets, int rows, int width,
                             train_vocabulary_t classes, const train_parts_t *parts, float scale,
                             bool overwrite, void *d_in, float *d_table);

/* The scratch memory that each operator needs, in floats. */
size_t train_host_layernorm_scratch(const train_ops_sizes_t *sizes);
size_t train_host_attention_segment_scratch(const train_ops_sizes_t *sizes);
size_t train_host_attention_scratch(const train_ops_sizes_t *sizes);
size_t train_host_classifier_scratch(const train_ops_sizes_t *sizes);

#endif

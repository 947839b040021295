/*
 * The operators of a GPT-2, each forward and backward. All arrays are row-major float32 owned by
 * the caller; `rows` counts positions, that is sequences * length. Names say what happens to an
 * output: an `out` or `d_in` is overwritten, a gradient of a parameter (`d_weight`, `d_bias`,
 * `d_table`) is added to, and `d_stream` is the gradient of the residual stream, added to as well,
 * which is all that the backward pass of a residual connection is.
 */
#ifndef LIBTRAIN_OPS_H
#define LIBTRAIN_OPS_H

#include <stdint.h>

/* out[row] = token_table[token of row] + position_table[row % length]; tables are of `width`. */
void train_embedding_forward(const int32_t *tokens, const float *token_table,
                             const float *position_table, int sequences, int length, int width,
                             float *out);
void train_embedding_backward(const int32_t *tokens, const float *d_out, int sequences, int length,
                              int width, float *d_token_table, float *d_position_table);

/* out = (in - mean) * rstd * weight + bias over each row of `width` (Ba, Kiros and Hinton 2016,
 * epsilon 1e-5). mean and rstd (1/standard deviation), one per row, are kept for backward. */
void train_layernorm_forward(const float *in, const float *weight, const float *bias, int rows,
                             int width, float *out, float *mean, float *rstd);
void train_layernorm_backward(const float *d_out, const float *in, const float *weight,
                              const float *mean, const float *rstd, int rows, int width,
                              float *d_stream, float *d_weight, float *d_bias);

/* out[rows, out_width] = in[rows, in_width] * weight[out_width, in_width]^T + bias, which may be
 * NULL (and then so may d_bias). */
void train_linear_forward(const float *in, const float *weight, const float *bias, int rows,
                          int in_width, int out_width, float *out);
void train_linear_backward(const float *d_out, const float *in, const float *weight, int rows,
                           int in_width, int out_width, float *d_in, float *d_weight,
                           float *d_bias);

/* GELU in its tanh form (Hendrycks and Gimpel 2016), `count` elements. Backward turns the gradient
 * of the output into that of the input in place. */
void train_gelu_forward(const float *in, long count, float *out);
void train_gelu_backward(const float *in, long count, float *d);

/* Causal multi-head attention (Vaswani et al. 2017). qkv[rows, 3 * width] holds queries, keys and
 * values side by side; a head is width / heads columns of each. weights[sequences, heads, length,
 * length] are the softmax weights, kept for backward. `scratch` holds length * length. */
void train_attention_forward(const float *qkv, int sequences, int length, int heads, int width,
                             float *weights, float *out);
void train_attention_backward(const float *d_out, const float *qkv, const float *weights,
                              int sequences, int length, int heads, int width, float *scratch,
                              float *d_qkv);

/* out = a + b, `count` elements. */
void train_residual_forward(const float *a, const float *b, long count, float *out);

/* Softmax cross-entropy in nats: turns logits[rows, classes] into probabilities in place and gives
 * one loss per row. Backward turns probabilities into scale * d loss / d logits in place. */
void train_cross_entropy_forward(const int32_t *targets, int rows, int classes, float *logits,
                                 float *losses);
void train_cross_entropy_backward(const int32_t *targets, int rows, int classes, float scale,
                                  float *probabilities);

#endif

/* Token and position embeddings: rows of two tables, added; backward scatters rows back. */
#include <stddef.h>

#include "libtrain/ops/ops.h"
#include "libtrain/ops/vector.h"

TRAIN_VECTORIZED
void train_embedding_forward(const int32_t *tokens, const float *token_table,
                             const float *position_table, int sequences, int length, int width,
                             float *out) {
  for (int row = 0; row < sequences * length; row++) {
    const float *token = token_table + (size_t)tokens[row] * width;
    const float *position = position_table + (size_t)(row % length) * width;
    float *restrict to = out + (size_t)row * width;
    for (int i = 0; i < width; i++) to[i] = token[i] + position[i];
  }
}

TRAIN_VECTORIZED
void train_embedding_backward(const int32_t *tokens, const float *d_out, int sequences, int length,
                              int width, float *d_token_table, float *d_position_table) {
  for (int row = 0; row < sequences * length; row++) {
    const float *d = d_out + (size_t)row * width;
    float *restrict d_token = d_token_table + (size_t)tokens[row] * width;
    float *restrict d_position = d_position_table + (size_t)(row % length) * width;
    for (int i = 0; i < width; i++) {
      d_token[i] += d[i];
      d_position[i] += d[i];
    }
  }
}

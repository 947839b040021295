/* Every formula is written out where it is used; nothing is optimized. */
#include "reference.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/sample.h"
#include "libtrain/common/random.h"

#define PI 3.14159265358979323846

void reference_embedding(const shape_t *s, const double *x, double *out) {
  const double *positions = x + s->classes * s->width;
  for (int row = 0; row < s->sequences * s->length; row++) {
    for (int i = 0; i < s->width; i++) {
      out[row * s->width + i] =
          x[s->tokens[row] * s->width + i] + positions[row % s->length * s->width + i];
    }
  }
}

void reference_layernorm(const shape_t *s, const double *x, double *out) {
  int rows = s->sequences * s->length, width = s->width;
  const double *weight = x + rows * width, *bias = weight + width;
  for (int row = 0; row < rows; row++) {
    const double *in = x + row * width;
    double mean = 0, variance = 0;
    for (int i = 0; i < width; i++) mean += in[i] / width;
    for (int i = 0; i < width; i++) variance += (in[i] - mean) * (in[i] - mean) / width;
    for (int i = 0; i < width; i++) {
      out[row * width + i] = (in[i] - mean) / sqrt(variance + 1e-5) * weight[i] + bias[i];
    }
  }
}

void reference_linear(const shape_t *s, const double *x, double *out) {
  int rows = s->sequences * s->length;
  const double *weight = x + rows * s->width, *bias = weight + s->out_width * s->width;
  for (int row = 0; row < rows; row++) {
    for (int o = 0; o < s->out_width; o++) {
      double sum = bias[o];
      for (int i = 0; i < s->width; i++) sum += x[row * s->width + i] * weight[o * s->width + i];
      out[row * s->out_width + o] = sum;
    }
  }
}

void reference_gelu(const shape_t *s, const double *x, double *out) {
  for (int i = 0; i < s->sequences * s->length * s->width; i++) {
    out[i] = 0.5 * x[i] * (1 + tanh(sqrt(2 / PI) * (x[i] + 0.044715 * pow(x[i], 3))));
  }
}

/* One output row of one head: the values up to position t, weighted by the softmax of their
 * scores. */
static void reference_attend_row(const shape_t *s, const double *qkv, int sequence, int head, int t,
                                 double *out) {
  int head_width = s->width / s->heads, stride = 3 * s->width;
  const double *first = qkv + sequence * s->length * stride + head * head_width;
  double scores[s->length], sum = 0;
  for (int j = 0; j <= t; j++) {
    scores[j] = 0;
    for (int i = 0; i < head_width; i++) {
      scores[j] += first[t * stride + i] * first[j * stride + s->width + i] / sqrt(head_width);
    }
    scores[j] = exp(scores[j]);
    sum += scores[j];
  }
  for (int i = 0; i < head_width; i++) {
    out[i] = 0;
    for (int j = 0; j <= t; j++) {
      out[i] += scores[j] / sum * first[j * stride + 2 * s->width + i];
    }
  }
}

void reference_attention(const shape_t *s, const double *x, double *out) {
  int head_width = s->width / s->heads;
  for (int sequence = 0; sequence < s->sequences; sequence++) {
    for (int head = 0; head < s->heads; head++) {
      for (int t = 0; t < s->length; t++) {
        reference_attend_row(s, x, sequence, head, t,
                             out + (sequence * s->length + t) * s->width + head * head_width);
      }
    }
  }
}

void reference_cross_entropy(const shape_t *s, const double *x, double *out) {
  for (int row = 0; row < s->sequences * s->length; row++) {
    double sum = 0;
    for (int i = 0; i < s->classes; i++) sum += exp(x[row * s->classes + i]);
    out[row] = log(sum) - x[row * s->classes + s->tokens[row]];
  }
}

void reference_linear_and_residual(const shape_t *s, const double *x, double *out) {
  int rows = s->sequences * s->length;
  const double *residual = x + rows * s->width + s->out_width * s->width + s->out_width;
  reference_linear(s, x, out);
  for (int i = 0; i < rows * s->out_width; i++) out[i] += residual[i];
}

void reference_bias_residual(const shape_t *s, const double *x, double *out) {
  int outs = s->sequences * s->length * s->out_width;
  const double *bias = x + outs, *residual = bias + s->out_width;
  for (int i = 0; i < outs; i++) out[i] = x[i] + bias[i % s->out_width] + residual[i];
}

void reference_gelu_and_linear(const shape_t *s, const double *x, double *out) {
  int rows = s->sequences * s->length, weights = s->out_width * s->width + s->out_width;
  double *active = malloc(sizeof(double) * (size_t)(rows * s->width + weights));
  reference_gelu(s, x, active);
  memcpy(active + rows * s->width, x + rows * s->width, sizeof(double) * (size_t)weights);
  reference_linear(s, active, out);
  free(active);
}

void reference_classifier(const shape_t *s, const double *x, double *out) {
  int rows = s->sequences * s->length;
  const double *table = x + rows * s->width;
  double *logits = malloc(sizeof(double) * (size_t)(rows * s->classes));
  for (int i = 0; i < rows * s->classes; i++) {
    const double *in = x + i / s->classes * s->width, *class = table + i % s->classes * s->width;
    logits[i] = 0;
    for (int j = 0; j < s->width; j++) logits[i] += in[j] * class[j];
  }
  reference_cross_entropy(s, logits, out);
  free(logits);
}

/* Concatenates separate inputs and runs an operator on them. */
static void run_reference(reference_t *reference, const shape_t *shape, const double *in,
                          int in_count, const double *weights, int weight_count, double *out) {
  double *x = malloc(sizeof(double) * (size_t)(in_count + weight_count));
  for (int i = 0; i < in_count; i++) x[i] = in[i];
  for (int i = 0; i < weight_count; i++) x[in_count + i] = weights[i];
  reference(shape, x, out);
  free(x);
}

/* One block; p points to its parameters in layout order. Updates `stream` in place. */
static void reference_block(const shape_t *s, const double *p, double *stream) {
  int rows = s->sequences * s->length, w = s->width;
  const double *norm1 = p, *qkv = norm1 + 2 * w, *projection = qkv + 3 * w * w + 3 * w;
  const double *norm2 = projection + w * w + w, *hidden = norm2 + 2 * w;
  const double *mlp = hidden + 4 * w * w + 4 * w;
  shape_t to_qkv = *s, to_hidden = *s, from_hidden = *s, wide = *s, square = *s;
  to_qkv.out_width = 3 * w;
  to_hidden.out_width = wide.width = from_hidden.width = 4 * w;
  from_hidden.out_width = square.out_width = w;
  double *a = malloc(sizeof(double) * (size_t)(4 * rows * w)),
         *b = malloc(sizeof *b * (size_t)(4 * rows * w));
  run_reference(reference_layernorm, s, stream, rows * w, norm1, 2 * w, a);
  run_reference(reference_linear, &to_qkv, a, rows * w, qkv, 3 * w * w + 3 * w, b);
  reference_attention(s, b, a);
  run_reference(reference_linear, &square, a, rows * w, projection, w * w + w, b);
  for (int i = 0; i < rows * w; i++) stream[i] += b[i];
  run_reference(reference_layernorm, s, stream, rows * w, norm2, 2 * w, a);
  run_reference(reference_linear, &to_hidden, a, rows * w, hidden, 4 * w * w + 4 * w, b);
  reference_gelu(&wide, b, a);
  run_reference(reference_linear, &from_hidden, a, 4 * rows * w, mlp, 4 * w * w + w, b);
  for (int i = 0; i < rows * w; i++) stream[i] += b[i];
  free(a);
  free(b);
}

double reference_model_loss(const train_model_config_t *config, const double *parameters,
                            const int32_t *tokens, const int32_t *targets, int sequences,
                            int length) {
  int rows = sequences * length, w = config->width, v = config->vocabulary;
  shape_t s = {sequences, length, config->heads, w, v, v, tokens};
  double stream[rows * w], normed[rows * w], logits[rows * v], losses[rows];
  const double *positions = parameters + v * w, *norm = positions + config->context * w,
               *p = norm + 2 * w;
  for (int i = 0; i < rows * w; i++) {
    stream[i] = parameters[tokens[i / w] * w + i % w] + positions[i / w % length * w + i % w];
  }
  for (int layer = 0; layer < config->layers; layer++, p += 12 * w * w + 13 * w) {
    reference_block(&s, p, stream);
  }
  run_reference(reference_layernorm, &s, stream, rows * w, norm, 2 * w, normed);
  for (int i = 0; i < rows * v; i++) {
    logits[i] = 0;
    for (int j = 0; j < w; j++) logits[i] += normed[i / v * w + j] * parameters[i % v * w + j];
  }
  s.tokens = targets;
  reference_cross_entropy(&s, logits, losses);
  double sum = 0;
  for (int row = 0; row < rows; row++) sum += losses[row];
  return sum;
}

void random_fill(uint64_t seed, double deviation, size_t count, float *values) {
  for (size_t i = 0; i < count; i++) {
    values[i] = (float)(deviation * train_random_normal(seed, TRAIN_RANDOM_WEIGHTS, i));
  }
}

static double *widen(const float *values, size_t count) {
  double *wide = malloc(count * sizeof *wide);
  for (size_t i = 0; i < count; i++) wide[i] = (double)values[i];
  return wide;
}

void check_forward(const char *what, reference_t *reference, const shape_t *shape, const float *x,
                   size_t in_count, const float *out, size_t out_count) {
  double *wide = widen(x, in_count), *expected = malloc(out_count * sizeof *expected);
  reference(shape, wide, expected);
  for (size_t i = 0; i < out_count; i++) {
    cr_assert_float_eq((double)out[i], expected[i], 2e-5 * (1 + fabs(expected[i])),
                       "%s: out[%zu] is %g, not %g", what, i, (double)out[i], expected[i]);
  }
  free(expected);
  free(wide);
}

/* The sum of weights[i] * out[i]. */
static double weighted(reference_t *reference, const shape_t *shape, const double *x,
                       const float *weights, size_t out_count, double *out) {
  double sum = 0;
  reference(shape, x, out);
  for (size_t i = 0; i < out_count; i++) sum += (double)weights[i] * out[i];
  return sum;
}

double reference_gradient(reference_t *reference, const shape_t *shape, double *x, size_t i,
                          const float *weights, size_t out_count, double *out) {
  const double h = 1e-4;
  double center = x[i];
  x[i] = center + h;
  double above = weighted(reference, shape, x, weights, out_count, out);
  x[i] = center - h;
  double below = weighted(reference, shape, x, weights, out_count, out);
  x[i] = center;
  return (above - below) / (2 * h);
}

void check_gradients(const char *what, reference_t *reference, const shape_t *shape, const float *x,
                     size_t in_count, size_t stride, const float *weights, size_t out_count,
                     const float *gradients) {
  double *wide = widen(x, in_count), *out = malloc(out_count * sizeof *out);
  if (HARNESS_BUILD != HARNESS_PLAIN) stride *= harness_stride(HARNESS_VALUES);
  for (size_t i = 0; i < in_count; i += stride) {
    double expected = reference_gradient(reference, shape, wide, i, weights, out_count, out);
    cr_assert_float_eq((double)gradients[i], expected, 5e-5 * (1 + fabs(expected)),
                       "%s: gradient[%zu] is %g, not %g", what, i, (double)gradients[i], expected);
  }
  free(out);
  free(wide);
}

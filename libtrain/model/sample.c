/*
 * The model's KV cache makes each token cost one position. When the context is full, its newer half
 * is processed again as the beginning of a new window.
 */
#include "libtrain/model/sample.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "libtrain/common/random.h"

/* The current window of tokens, and the logits of the next one. */
typedef struct sampler {
  const train_extender_t *extender;
  int32_t *window; /* [context] */
  int length;      /* tokens in the window */
  int processed;   /* of which the model has processed this many */
  float *logits;   /* [vocabulary] */
  float *sorted;   /* [vocabulary] */
} sampler_t;

static int argmax(const float *logits, int classes) {
  int best = 0;
  for (int i = 1; i < classes; i++) best = logits[i] > logits[best] ? i : best;
  return best;
}

static int descending(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x < y) - (x > y);
}

/* The smallest logit among the top k. */
static float threshold(sampler_t *sampler, int classes, int top_k) {
  if (top_k <= 0 || top_k >= classes) return -INFINITY;
  memcpy(sampler->sorted, sampler->logits, (size_t)classes * sizeof *sampler->sorted);
  qsort(sampler->sorted, (size_t)classes, sizeof *sampler->sorted, descending);
  return sampler->sorted[top_k - 1];
}

/* The token at which the cumulative softmax exceeds `uniform`, which is in [0, 1). */
static int32_t draw(sampler_t *sampler, const train_sampling_t *sampling, double uniform) {
  const float *logits = sampler->logits;
  int classes = sampler->extender->vocabulary;
  int best = argmax(logits, classes);
  if (sampling->temperature <= 0) return best;
  float min_logit = threshold(sampler, classes, sampling->top_k);
  double sum = 0, cumulative = 0, max_logit = (double)logits[best];
  for (int i = 0; i < classes; i++) {
    if (logits[i] >= min_logit) sum += exp(((double)logits[i] - max_logit) / sampling->temperature);
  }
  for (int i = 0; i < classes; i++) {
    if (logits[i] >= min_logit)
      cumulative += exp(((double)logits[i] - max_logit) / sampling->temperature);
    if (uniform * sum < cumulative) return i;
  }
  return best; /* only after rounding errors in the sum */
}

static void append(sampler_t *sampler, int32_t token) {
  int context = sampler->extender->context;
  if (sampler->length == context) {
    sampler->length = context / 2;
    sampler->processed = 0;
    memmove(sampler->window, sampler->window + context - sampler->length,
            (size_t)sampler->length * sizeof token);
  }
  sampler->window[sampler->length++] = token;
}

static coll_status_t extend_window(sampler_t *sampler) {
  const train_extender_t *extender = sampler->extender;
  COLL_TRY(extender->extend(extender->extending, sampler->window + sampler->processed,
                            sampler->processed, sampler->length - sampler->processed,
                            sampler->logits));
  sampler->processed = sampler->length;
  return COLL_OK;
}

coll_status_t train_sample(const train_extender_t *extender, const int32_t *prompt,
                           size_t prompt_count, size_t count, const train_sampling_t *sampling,
                           train_sample_callback_t *callback, void *context) {
  assert(prompt_count >= 1);
  size_t classes = (size_t)extender->vocabulary, window = (size_t)extender->context;
  void *memory;
  COLL_TRY(base_alloc(2 * classes + window, sizeof(float), "the sample", &memory));
  sampler_t sampler = {.extender = extender,
                       .logits = memory,
                       .sorted = (float *)memory + classes,
                       .window = (int32_t *)memory + 2 * classes};
  coll_status_t status = COLL_OK;
  for (size_t i = 0; i < prompt_count; i++) append(&sampler, prompt[i]);
  for (size_t i = 0; i < count; i++) {
    status = extend_window(&sampler);
    if (status != COLL_OK) break;
    double uniform = train_random_unit(sampling->seed, TRAIN_RANDOM_SAMPLING, i);
    int32_t token = draw(&sampler, sampling, uniform);
    if (!callback(context, token)) break;
    append(&sampler, token);
  }
  free(memory);
  return status;
}

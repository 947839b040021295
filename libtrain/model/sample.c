/*
 * The model keeps what it has read, so each token costs one position; when the context is full, its
 * younger half is read once more as the beginning of a new one.
 */
#include "libtrain/model/sample.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "libtrain/random.h"

/* The text so far as the model sees it, and what it says of the next token. */
typedef struct sampler {
  train_model_t *model;
  const train_source_t *source;
  int32_t *window; /* [context] */
  int length;      /* tokens in the window */
  int read;        /* of which the model has read this many */
  float *logits;   /* [vocabulary] */
  float *sorted;   /* [vocabulary] */
} sampler_t;

static int likeliest_of(const float *logits, int classes) {
  int best = 0;
  for (int i = 1; i < classes; i++) best = logits[i] > logits[best] ? i : best;
  return best;
}

static int descending(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x < y) - (x > y);
}

/* The smallest logit that may be drawn. */
static float threshold(sampler_t *sampler, int classes, int likeliest) {
  if (likeliest <= 0 || likeliest >= classes) return -INFINITY;
  memcpy(sampler->sorted, sampler->logits, (size_t)classes * sizeof *sampler->sorted);
  qsort(sampler->sorted, (size_t)classes, sizeof *sampler->sorted, descending);
  return sampler->sorted[likeliest - 1];
}

/* The token at which the running sum of the softmax passes `unit`, in [0, 1). */
static int32_t draw(sampler_t *sampler, const train_sampling_t *sampling, double unit) {
  const float *logits = sampler->logits;
  int classes = sampler->model->layout->config.vocabulary;
  int best = likeliest_of(logits, classes);
  if (sampling->temperature <= 0) return best;
  float least = threshold(sampler, classes, sampling->likeliest);
  double sum = 0, passed = 0, most = (double)logits[best];
  for (int i = 0; i < classes; i++) {
    if (logits[i] >= least) sum += exp(((double)logits[i] - most) / sampling->temperature);
  }
  for (int i = 0; i < classes; i++) {
    if (logits[i] >= least) passed += exp(((double)logits[i] - most) / sampling->temperature);
    if (unit * sum < passed) return i;
  }
  return best; /* rounding left the last bit of the sum unpassed */
}

static void append(sampler_t *sampler, int32_t token) {
  int context = sampler->model->layout->config.context;
  if (sampler->length == context) {
    sampler->length = context / 2;
    sampler->read = 0;
    memmove(sampler->window, sampler->window + context - sampler->length,
            (size_t)sampler->length * sizeof token);
  }
  sampler->window[sampler->length++] = token;
}

static coll_status_t read_on(sampler_t *sampler) {
  COLL_TRY(train_model_extend(sampler->model, sampler->source, sampler->window + sampler->read,
                              sampler->read, sampler->length - sampler->read, sampler->logits));
  sampler->read = sampler->length;
  return COLL_OK;
}

coll_status_t train_sample(train_model_t *model, const train_source_t *source,
                           const int32_t *prompt, size_t prompt_count, size_t count,
                           const train_sampling_t *sampling, train_sample_sink_t *sink,
                           void *context) {
  assert(prompt_count >= 1);
  const train_model_config_t *config = &model->layout->config;
  size_t classes = (size_t)config->vocabulary, window = (size_t)config->context;
  void *memory;
  COLL_TRY(base_alloc(2 * classes + window, sizeof(float), "the sample", &memory));
  sampler_t sampler = {.model = model,
                       .source = source,
                       .logits = memory,
                       .sorted = (float *)memory + classes,
                       .window = (int32_t *)memory + 2 * classes};
  coll_status_t status = COLL_OK;
  for (size_t i = 0; i < prompt_count; i++) append(&sampler, prompt[i]);
  for (size_t i = 0; i < count; i++) {
    status = read_on(&sampler);
    if (status != COLL_OK) break;
    double unit = train_random_unit(sampling->seed, TRAIN_RANDOM_SAMPLING, i);
    int32_t token = draw(&sampler, sampling, unit);
    if (!sink(context, token)) break;
    append(&sampler, token);
  }
  free(memory);
  return status;
}

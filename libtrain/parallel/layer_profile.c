/* A layer is a part of the model with a store of its own, which is freed before the next one. */
#include "libtrain/parallel/layer_profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "libtrain/common/random.h"
#include "libtrain/model/model.h"
#include "libtrain/parallel/store.h"

enum { WARM_UPS = 1, ROUNDS = 5 }; /* an odd number has a median */

/* A layer that is measured. */
typedef struct subject {
  train_layout_t *layout;
  train_store_t *store;
  train_model_t *model;
  int32_t *tokens; /* of a micro-batch; also its targets */
  float *stream;   /* what other layers would send, in the element type of activations */
  size_t stream_bytes;
  int length;
} subject_t;

static void destroy(subject_t *subject) {
  train_model_destroy(subject->model);
  train_store_destroy(subject->store);
  train_layout_destroy(subject->layout);
  free(subject->tokens);
  free(subject->stream);
}

static coll_status_t create_store(subject_t *subject, const train_model_options_t *options) {
  static const train_group_t alone = {.size = 1};
  const train_store_options_t store = {
      .bucket_bytes = TRAIN_BUCKET_BYTES, .precision = options->precision, .pool = options->pool};
  COLL_TRY(train_store_create(subject->layout, &alone, &store, &subject->store));
  return train_store_initialize(subject->store, 1);
}

static coll_status_t fill_rows(subject_t *subject, const train_model_options_t *options) {
  size_t rows = (size_t)options->sequences * (size_t)subject->length;
  uint64_t vocabulary = (uint64_t)subject->layout->config.vocabulary;
  COLL_TRY(base_alloc(rows, sizeof(int32_t), "a micro-batch", (void **)&subject->tokens));
  for (size_t i = 0; i < rows; i++) {
    subject->tokens[i] = (int32_t)train_random_below(1, TRAIN_RANDOM_BATCHES, i, vocabulary);
  }
  size_t count = train_model_stream_count(subject->model, options->sequences, subject->length);
  train_dtype_t dtype = train_precision_stored(options->precision, TRAIN_KIND_ACTIVATIONS);
  COLL_TRY(base_alloc(count, sizeof(float), "a micro-batch", (void **)&subject->stream));
  train_random_normals(1, TRAIN_RANDOM_WEIGHTS, 0, count, 1, subject->stream);
  train_dtype_narrow(dtype, subject->stream, count, subject->stream);
  subject->stream_bytes = count * train_dtype_bytes(dtype);
  return COLL_OK;
}

static coll_status_t create(const train_model_config_t *config, const train_part_t *part,
                            const train_model_options_t *options, subject_t *subject) {
  train_model_options_t own = *options;
  own.axes = (train_model_axes_t){0};
  own.slices = (train_slices_t){0};
  own.slots = 1;
  own.chunk = 0;
  COLL_TRY(train_layout_create_part(config, part, &subject->layout));
  COLL_TRY(create_store(subject, options));
  COLL_TRY(train_model_create(subject->layout, &own, &subject->model));
  return fill_rows(subject, options);
}

static coll_status_t run_passes(const subject_t *subject, double *ms) {
  train_model_t *model = subject->model;
  const train_param_provider_t provider = train_store_provider(subject->store);
  int sequences = model->options.sequences;
  double loss, squares;
  train_store_begin(subject->store, 1);
  memcpy(train_model_input(model, 0), subject->stream, subject->stream_bytes);
  uint64_t start_ns = base_clock_now_ns();
  COLL_TRY(train_model_forward(model, &provider, 0, subject->tokens, sequences, subject->length));
  memcpy(train_model_gradient(model), subject->stream, subject->stream_bytes);
  COLL_TRY(train_model_backward(model, &provider, 0, subject->tokens, 1, &loss));
  *ms = (double)(base_clock_now_ns() - start_ns) * 1e-6;
  return train_store_finish(subject->store, &squares);
}

static int compare(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

/* At least 0.001, so that no layer is free. */
static double rounded(double ms) {
  double unit = pow(10, floor(log10(fmax(ms, 1e-3))) - 2);
  return fmax(round(ms / unit) * unit, 1e-3);
}

static coll_status_t measure(const train_model_config_t *config, const train_part_t *part,
                             const train_model_options_t *options, int length, double *ms) {
  subject_t subject = {.length = length};
  double rounds[ROUNDS];
  coll_status_t status = create(config, part, options, &subject);
  for (int i = -WARM_UPS; i < ROUNDS && status == COLL_OK; i++) {
    status = run_passes(&subject, &rounds[i < 0 ? 0 : i]);
  }
  destroy(&subject);
  COLL_TRY(status);
  qsort(rounds, ROUNDS, sizeof *rounds, compare);
  *ms = rounded(rounds[ROUNDS / 2]);
  return COLL_OK;
}

/* Layers from `first` on, without what is before and after them. */
static train_part_t inner_part(int first, int layers) {
  return (train_part_t){.tensor_ranks = 1,
                        .expert_ranks = 1,
                        .embedded_before = true,
                        .classified_after = true,
                        .chunk_count = 1,
                        .chunks = {{first, layers}}};
}

coll_status_t train_layer_times_measure(const train_model_config_t *config,
                                        const train_model_options_t *options, int length,
                                        train_layer_times_t *times) {
  train_part_t embedding = inner_part(0, 0), head = inner_part(config->layers, 0);
  const train_part_t dense = inner_part(0, 1), experts = inner_part(config->moe_every - 1, 1);
  bool all_have_experts = config->experts > 0 && config->moe_every == 1;
  bool some_have_experts = config->experts > 0 && config->moe_every <= config->layers;
  embedding.embedded_before = false;
  head.classified_after = false;
  *times = (train_layer_times_t){0};
  COLL_TRY(measure(config, &embedding, options, length, &times->embedding));
  COLL_TRY(measure(config, &head, options, length, &times->head));
  if (!all_have_experts) COLL_TRY(measure(config, &dense, options, length, &times->block));
  if (!some_have_experts) return COLL_OK;
  return measure(config, &experts, options, length, &times->experts);
}

void train_layer_times_list(const train_model_config_t *config, const train_layer_times_t *times,
                            double costs[]) {
  costs[0] = times->embedding;
  for (int layer = 0; layer < config->layers; layer++) {
    costs[1 + layer] = train_model_has_experts(config, layer) ? times->experts : times->block;
  }
  costs[1 + config->layers] = times->head;
}

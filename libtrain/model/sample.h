/* Samples tokens from a trained model, one after the other. */
#ifndef LIBTRAIN_MODEL_SAMPLE_H
#define LIBTRAIN_MODEL_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "libtrain/model/model.h"

typedef struct train_sampling {
  double temperature; /* logits are divided by it; 0: always the most probable token */
  int top_k;          /* sample from this many most probable tokens only; 0: from all */
  uint64_t seed;      /* equal seeds give equal tokens */
} train_sampling_t;

/* Receives each sampled token; returns false to stop. */
typedef bool train_sample_callback_t(void *context, int32_t token);

/* Samples up to `count` tokens that follow prompt[prompt_count], prompt_count >= 1. When the
 * model's context is full, its older half is dropped. */
coll_status_t train_sample(train_model_t *model, const train_param_provider_t *provider,
                           const int32_t *prompt, size_t prompt_count, size_t count,
                           const train_sampling_t *sampling, train_sample_callback_t *callback,
                           void *context);

#endif

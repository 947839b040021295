/* Samples tokens from a trained model, one after the other. */
#ifndef LIBTRAIN_MODEL_SAMPLE_H
#define LIBTRAIN_MODEL_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct train_sampling {
  double temperature; /* logits are divided by it; 0: always the most probable token */
  int top_k;          /* sample from this many most probable tokens only; 0: from all */
  uint64_t seed;      /* equal seeds give equal tokens */
} train_sampling_t;

/* What processes a sequence: `extend` processes tokens[count] as positions first .. first + count -
 * 1 and sets logits[vocabulary] to those of the token after the last one. Positions 0 .. first - 1
 * were processed before. */
typedef struct train_extender {
  int context, vocabulary;
  coll_status_t (*extend)(void *extending, const int32_t *tokens, int first, int count,
                          float *logits);
  void *extending;
} train_extender_t;

/* Receives each sampled token; returns false to stop. */
typedef bool train_sample_callback_t(void *context, int32_t token);

/* Samples up to `count` tokens that follow prompt[prompt_count], prompt_count >= 1. When the
 * context is full, its older half is dropped. Ranks that extend a sequence together all call this,
 * with the same arguments: from the same logits they draw the same tokens. */
coll_status_t train_sample(const train_extender_t *extender, const int32_t *prompt,
                           size_t prompt_count, size_t count, const train_sampling_t *sampling,
                           train_sample_callback_t *callback, void *context);

#endif

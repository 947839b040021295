/* Drawing tokens from a trained model, one after the other. */
#ifndef LIBTRAIN_MODEL_SAMPLE_H
#define LIBTRAIN_MODEL_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "libtrain/model/model.h"

typedef struct train_sampling {
  double
      temperature; /* the distribution is sharpened by 1 / temperature; 0: always the likeliest */
  int likeliest;   /* draw from this many likeliest tokens alone; 0: from all */
  uint64_t seed;   /* the same seed draws the same tokens */
} train_sampling_t;

/* Takes each token as it is drawn; false ends the sample. */
typedef bool train_sample_sink_t(void *context, int32_t token);

/* Draws up to `count` tokens that follow prompt[prompt_count], prompt_count >= 1. What is longer
 * than the model's context is forgotten from its beginning, half a context at a time. */
coll_status_t train_sample(train_model_t *model, const train_source_t *source,
                           const int32_t *prompt, size_t prompt_count, size_t count,
                           const train_sampling_t *sampling, train_sample_sink_t *sink,
                           void *context);

#endif

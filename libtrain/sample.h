/* Writing text with a trained byte model, one byte after the other. */
#ifndef LIBTRAIN_SAMPLE_H
#define LIBTRAIN_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "libtrain/model.h"

/* Takes each byte as it is drawn. */
typedef void train_sample_sink_t(void *context, uint8_t byte);

/* Draws `count` bytes that follow the prompt (with an empty one: the beginning of a file), each
 * from the model's distribution sharpened by 1 / temperature; temperature 0 takes the likeliest.
 * The same seed draws the same text. COLL_ERROR_INVALID when the model's tokens are not bytes. */
coll_status_t train_sample(train_model_t *model, const char *prompt, size_t prompt_bytes,
                           size_t count, double temperature, uint64_t seed,
                           train_sample_sink_t *sink, void *context);

#endif

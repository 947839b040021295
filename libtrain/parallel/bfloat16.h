/*
 * bfloat16, the upper half of a float32, which halves the bytes of communication at the cost of
 * precision. Conversions work in place.
 */
#ifndef LIBTRAIN_PARALLEL_BFLOAT16_H
#define LIBTRAIN_PARALLEL_BFLOAT16_H

#include <stddef.h>
#include <stdint.h>

/* narrow[i] = wide[i], rounded to nearest, ties to even; NaN stays NaN. narrow may overlap wide if
 * it does not start after it. */
void train_bfloat16_narrow(const float *wide, size_t count, uint16_t *narrow);

/* wide[i] = narrow[i], exactly. wide may overlap narrow if it does not start before it. */
void train_bfloat16_widen(const uint16_t *narrow, size_t count, float *wide);

#endif

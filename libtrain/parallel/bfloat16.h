/*
 * bfloat16, the upper half of a float32: what numbers become on the wire when half the bytes matter
 * more than the last digits. Conversions work in place, since arrays are narrowed where they lie.
 */
#ifndef LIBTRAIN_PARALLEL_BFLOAT16_H
#define LIBTRAIN_PARALLEL_BFLOAT16_H

#include <stddef.h>
#include <stdint.h>

/* narrow[i] = wide[i], rounded to nearest, ties to even; NaN stays NaN. narrow may begin anywhere
 * up to where wide begins. */
void train_bfloat16_narrow(const float *wide, size_t count, uint16_t *narrow);

/* wide[i] = narrow[i], exactly. wide may begin anywhere from where narrow begins on. */
void train_bfloat16_widen(const uint16_t *narrow, size_t count, float *wide);

#endif

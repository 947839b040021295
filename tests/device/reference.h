/*
 * A second, slow and obvious implementation of element arithmetic, to hold devices against. It
 * shares nothing with them: narrow floats are found by searching the list of their values, integers
 * are computed in 128 bits.
 */
#ifndef TESTS_DEVICE_REFERENCE_H
#define TESTS_DEVICE_REFERENCE_H

#include <coll.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool reference_is_float(coll_dtype_t dtype);

/* Whether the type is computed with in float32 and rounded at the end. */
bool reference_is_narrow(coll_dtype_t dtype);

/* The value of element `index` of an array of a floating type. */
double reference_decode(coll_dtype_t dtype, const void *array, size_t index);

/* Rounds to nearest, ties to even, and stores; see device/host/narrow.h for overflow. NaN is
 * stored as some quiet NaN. */
void reference_encode(coll_dtype_t dtype, double value, void *array, size_t index);

/* dst[index] = sources[0][index] op ... op sources[count-1][index], as device_ops_t.reduce says. */
void reference_reduce(coll_dtype_t dtype, coll_op_t op, const void *const sources[], int count,
                      size_t index, void *dst);

/* dst[index] = *scalar * src[index]. */
void reference_scale(coll_dtype_t dtype, const void *scalar, const void *src, size_t index,
                     void *dst);

/* dst[index] = src[index] / divisor. */
void reference_divide(coll_dtype_t dtype, int divisor, const void *src, size_t index, void *dst);

/* Whether element `index` has the same bits in both arrays, any NaN being as good as another. */
bool reference_same(coll_dtype_t dtype, const void *a, const void *b, size_t index);

#endif

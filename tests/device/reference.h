/*
 * A second, slow and simple implementation of element arithmetic, for comparison with devices. It
 * shares no code with them: narrow floats are found by searching the list of their values, integers
 * are computed in 128 bits.
 */
#ifndef TESTS_DEVICE_REFERENCE_H
#define TESTS_DEVICE_REFERENCE_H

#include <coll.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool reference_is_float(coll_dtype_t dtype);

/* Returns whether the type is computed in float32 and rounded at the end. */
bool reference_is_narrow(coll_dtype_t dtype);

/* The value of element `index` of an array of a floating-point type. */
double reference_decode(coll_dtype_t dtype, const void *array, size_t index);

/* Rounds to nearest, ties to even, and stores the value; see device/host/narrow.h for overflow. A
 * NaN is stored as some quiet NaN. */
void reference_encode(coll_dtype_t dtype, double value, void *array, size_t index);

/* dst[index] = sources[0][index] op ... op sources[count-1][index], as in device_ops_t.reduce. */
void reference_reduce(coll_dtype_t dtype, coll_op_t op, const void *const sources[], int count,
                      size_t index, void *dst);

/* dst[index] = *scalar * src[index]. */
void reference_scale(coll_dtype_t dtype, const void *scalar, const void *src, size_t index,
                     void *dst);

/* dst[index] = the average whose sum over `operands` operands, weighted ones of float32 and
 * float64, is src[index], as in device_ops_t.divide. */
void reference_divide(coll_dtype_t dtype, int operands, const void *src, size_t index, void *dst);

/* Returns whether element `index` has the same bits in both arrays; all NaNs are equal. */
bool reference_same(coll_dtype_t dtype, const void *a, const void *b, size_t index);

#endif

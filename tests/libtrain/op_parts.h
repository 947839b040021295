/*
 * Arrays of operators that are cut into parts, as ranks have them, and the comparison of what the
 * parts give together with what the uncut operator gives.
 */
#ifndef LIBTRAIN_TEST_OP_PARTS_H
#define LIBTRAIN_TEST_OP_PARTS_H

#include "op_cases.h"

/* Part `index` of `count`: first = total * index / count; parts are uneven where they must be. */
typedef struct part {
  int first, count;
} part_t;
part_t part_of(int total, int parts, int index);

/* Normally distributed values, rounded to the type; free() them. */
void *parts_random(train_dtype_t dtype, uint64_t seed, double deviation, size_t count);

/* A copy of columns of array[rows, width]; free() it. */
void *parts_cut(train_dtype_t dtype, const void *array, int rows, int width, part_t columns);
/* Writes columns[rows, part.count] into array[rows, width]. */
void parts_join(train_dtype_t dtype, const void *columns, int rows, int width, part_t part,
                void *array);

/* sum[i] += values[i]; the sum is float32. */
void parts_add(train_dtype_t dtype, const void *values, size_t count, float *sum);

/* Asserts that the difference of two arrays is at most `units` rounding errors of the type (1e-6
 * for float32) of the norm of what is expected. */
void parts_check(const char *what, train_dtype_t dtype, double units, const void *got,
                 const void *expected, size_t count);
/* The same for arrays that are float32 while operators have another type. */
void parts_check_floats(const char *what, train_dtype_t dtype, double units, const float *got,
                        const float *expected, size_t count);

#endif

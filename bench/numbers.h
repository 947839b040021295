/*
 * Conversion of elements of every dtype: exact decoding to double, correctly rounded encoding from
 * double. The code is simple and slow on purpose. Results are checked against it, so it shares no
 * code with the conversions of the library.
 */
#ifndef BENCH_NUMBERS_H
#define BENCH_NUMBERS_H

#include <coll.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bit layout of a floating-point dtype. */
typedef struct bench_format {
  int exponent_bits, mantissa_bits; /* mantissa without the leading one */
  int bias;
  bool has_infinity; /* false: the all-ones exponent holds numbers too, overflow saturates */
} bench_format_t;

bool bench_dtype_is_float(coll_dtype_t dtype);
bool bench_dtype_is_signed(coll_dtype_t dtype); /* integers only */

/* dtype must be a floating-point dtype. */
bench_format_t bench_format_of(coll_dtype_t dtype);

/* Loads the bits of an element into the low bits of a word, and stores them. */
uint64_t bench_element_load(coll_dtype_t dtype, const void *element);
void bench_element_store(coll_dtype_t dtype, uint64_t bits, void *element);

/* Floating-point dtypes. Decoding is exact; encoding rounds to nearest, ties to even. */
double bench_float_decode(coll_dtype_t dtype, uint64_t bits);
uint64_t bench_float_encode(coll_dtype_t dtype, double value);

/* The element as text, for messages: "-3" or "0.1875 (0x24)". Returns `text`. */
const char *bench_element_text(coll_dtype_t dtype, uint64_t bits, char text[48]);

#endif

/*
 * 64-bit digests that detect corruption of files at memory speed. They are not cryptographic.
 */
#ifndef LIBTRAIN_FILES_DIGEST_H
#define LIBTRAIN_FILES_DIGEST_H

#include <stddef.h>
#include <stdint.h>

/* The digest of bytes[count], continued from `digest`; start with 0. The result depends on how the
 * bytes are divided among calls. */
uint64_t train_digest(uint64_t digest, const void *bytes, size_t count);

/* The digest of values[count], of which values[0] is element `first` of its tensor: the sum modulo
 * 2^64 of a hash of (index, bits) over the elements. Sums of parts in any order, made by any number
 * of writers, add up to the digest of the whole. A single changed element always changes it,
 * because for each index the hash is a bijection of the bits. Two swapped elements and any other
 * damage change it as random numbers would: it is missed once in 2^64 times. An element that is
 * missing or added twice counts, also if it is 0. */
uint64_t train_digest_elements(uint64_t first, const float *values, size_t count);

#endif

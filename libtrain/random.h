/*
 * Counter-based random numbers: the i-th draw of a stream is a function of (seed, stream, i) alone,
 * so that every rank can work out any of them and nobody keeps a state. The mixing is SplitMix64's
 * (Steele, Lea and Flood 2014).
 */
#ifndef LIBTRAIN_RANDOM_H
#define LIBTRAIN_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* What the draws are for: streams of one seed are independent. */
typedef enum train_random_stream {
  TRAIN_RANDOM_WEIGHTS = 1,
  TRAIN_RANDOM_BATCHES,
  TRAIN_RANDOM_SAMPLING
} train_random_stream_t;

uint64_t train_random_bits(uint64_t seed, train_random_stream_t stream, uint64_t index);

/* Uniform in [0, limit); limit > 0. */
uint64_t train_random_below(uint64_t seed, train_random_stream_t stream, uint64_t index,
                            uint64_t limit);

/* Uniform in [0, 1). */
double train_random_unit(uint64_t seed, train_random_stream_t stream, uint64_t index);

/* Standard normal. */
double train_random_normal(uint64_t seed, train_random_stream_t stream, uint64_t index);

/* deviation times the draws first .. first + count - 1 of train_random_normal, in less time. */
void train_random_normals(uint64_t seed, train_random_stream_t stream, uint64_t first, size_t count,
                          double deviation, float *values);

/* A 64-bit digest of bytes (FNV-1a, mixed), continued from `digest`; start from 0. */
uint64_t train_random_digest(uint64_t digest, const void *bytes, size_t count);

#endif

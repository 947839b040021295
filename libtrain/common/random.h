/*
 * Counter-based random numbers: draw i of a stream is a pure function of (seed, stream, i), so
 * every rank can compute any draw and no generator state is stored. Uses the mixer of SplitMix64
 * (Steele, Lea and Flood 2014).
 */
#ifndef LIBTRAIN_COMMON_RANDOM_H
#define LIBTRAIN_COMMON_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* Purposes of draws; streams of one seed are independent. */
typedef enum train_random_stream {
  TRAIN_RANDOM_WEIGHTS = 1,
  TRAIN_RANDOM_BATCHES,
  TRAIN_RANDOM_SAMPLING,
  TRAIN_RANDOM_ROUNDING
} train_random_stream_t;

uint64_t train_random_bits(uint64_t seed, train_random_stream_t stream, uint64_t index);

/* Uniform in [0, limit); limit > 0. */
uint64_t train_random_below(uint64_t seed, train_random_stream_t stream, uint64_t index,
                            uint64_t limit);

/* Uniform in [0, 1). */
double train_random_unit(uint64_t seed, train_random_stream_t stream, uint64_t index);

/* Standard normal. */
double train_random_normal(uint64_t seed, train_random_stream_t stream, uint64_t index);

/* The same as `count` calls of train_random_normal times deviation, but faster. */
void train_random_normals(uint64_t seed, train_random_stream_t stream, uint64_t first, size_t count,
                          double deviation, float *values);

/* A 64-bit digest of bytes (FNV-1a with a final mix), continued from `digest`; start with 0. */
uint64_t train_random_digest(uint64_t digest, const void *bytes, size_t count);

#endif

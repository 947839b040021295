/* Applies a few rounds of a 64-bit mixer to seed, stream and index. */
#include "libtrain/common/random.h"

#include <math.h>

static uint64_t mix(uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint64_t train_random_bits(uint64_t seed, train_random_stream_t stream, uint64_t index) {
  return mix(mix(mix(seed) ^ (uint64_t)stream) ^ index);
}

uint64_t train_random_below(uint64_t seed, train_random_stream_t stream, uint64_t index,
                            uint64_t limit) {
  return (uint64_t)(((unsigned __int128)train_random_bits(seed, stream, index) * limit) >> 64);
}

double train_random_unit(uint64_t seed, train_random_stream_t stream, uint64_t index) {
  return (double)(train_random_bits(seed, stream, index) >> 11) * 0x1p-53;
}

/* The Box-Muller transform yields draws 2 * pair and 2 * pair + 1; 1 - u avoids the logarithm of
 * 0. */
static void normal_pair(uint64_t seed, train_random_stream_t stream, uint64_t pair,
                        double draws[2]) {
  double u = train_random_unit(seed, stream, 2 * pair);
  double v = train_random_unit(seed, stream, 2 * pair + 1);
  double radius = sqrt(-2.0 * log(1.0 - u)), angle = 6.283185307179586 * v;
  sincos(angle, &draws[1], &draws[0]);
  draws[0] *= radius;
  draws[1] *= radius;
}

double train_random_normal(uint64_t seed, train_random_stream_t stream, uint64_t index) {
  double draws[2];
  normal_pair(seed, stream, index / 2, draws);
  return draws[index % 2];
}

void train_random_normals(uint64_t seed, train_random_stream_t stream, uint64_t first, size_t count,
                          double deviation, float *values) {
  double draws[2];
  for (size_t i = 0; i < count; i++) {
    uint64_t index = first + i;
    if (i == 0 || index % 2 == 0) normal_pair(seed, stream, index / 2, draws);
    values[i] = (float)(deviation * draws[index % 2]);
  }
}

uint64_t train_random_digest(uint64_t digest, const void *bytes, size_t count) {
  const unsigned char *byte = bytes;
  uint64_t hash = digest ^ 0xcbf29ce484222325u;
  for (size_t i = 0; i < count; i++) hash = (hash ^ byte[i]) * 0x100000001b3u;
  return mix(hash);
}

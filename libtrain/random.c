/* A few rounds of a 64-bit mixer over seed, stream and index. */
#include "libtrain/random.h"

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

/* Box and Muller's transform; 1 - u keeps the logarithm away from 0. */
double train_random_normal(uint64_t seed, train_random_stream_t stream, uint64_t index) {
  double u = train_random_unit(seed, stream, 2 * index);
  double v = train_random_unit(seed, stream, 2 * index + 1);
  return sqrt(-2.0 * log(1.0 - u)) * cos(6.283185307179586 * v);
}

uint64_t train_random_digest(uint64_t digest, const void *bytes, size_t count) {
  const unsigned char *byte = bytes;
  uint64_t hash = digest ^ 0xcbf29ce484222325u;
  for (size_t i = 0; i < count; i++) hash = (hash ^ byte[i]) * 0x100000001b3u;
  return mix(hash);
}

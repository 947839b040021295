/* The length of a vector of float32, and of the difference of two. */
#ifndef TESTS_LIBTRAIN_NORMS_H
#define TESTS_LIBTRAIN_NORMS_H

#include <math.h>
#include <stddef.h>

static inline double norm_of(const float *values, size_t count) {
  double squares = 0;
  for (size_t i = 0; i < count; i++) squares += (double)values[i] * (double)values[i];
  return sqrt(squares);
}

static inline double norm_of_difference(const float *a, const float *b, size_t count) {
  double squares = 0;
  for (size_t i = 0; i < count; i++) {
    double difference = (double)a[i] - (double)b[i];
    squares += difference * difference;
  }
  return sqrt(squares);
}

#endif

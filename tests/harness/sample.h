/*
 * How many of its cases a test runs: the rules of all tests, in one place.
 *
 * A tier runs a sample of the cases of a large matrix, which meets each kind of case; a soak runs
 * all of them (COLL_TEST_FULL=1, which tools/test --full sets). A sanitizer multiplies the time of
 * a case, and is there to find other errors:
 *
 *   AddressSanitizer and UBSan find accesses outside of a buffer and undefined operations. These
 *   depend on the code that runs and on where buffers end, hardly on the values in them.
 *
 *   ThreadSanitizer finds accesses by threads of one process that nothing orders. It does not see
 *   other processes. Tests that start no thread are not built with it (tests/meson.build).
 *
 * So a build runs every n-th of the cases of a test that differ only in the way that
 * harness_cases_t says. Other cases whose ranks are threads are never left out for ThreadSanitizer.
 * The strides are primes: however loops are nested, every n-th case meets every turn of each loop.
 */
#ifndef TESTS_HARNESS_SAMPLE_H
#define TESTS_HARNESS_SAMPLE_H

#include <stdbool.h>
#include <stdlib.h>

typedef enum harness_build {
  HARNESS_PLAIN,
  HARNESS_ADDRESS,
  HARNESS_THREAD,
  HARNESS_BUILDS
} harness_build_t;

#if defined(__SANITIZE_ADDRESS__)
#define HARNESS_BUILD HARNESS_ADDRESS
#elif defined(__SANITIZE_THREAD__)
#define HARNESS_BUILD HARNESS_THREAD
#else
#define HARNESS_BUILD HARNESS_PLAIN
#endif

typedef enum harness_cases {
  HARNESS_VALUES,  /* other values, seeds, mutants or plans for the same code */
  HARNESS_MOMENTS, /* another moment at which a rank that is a process dies */
  HARNESS_LAYOUTS, /* another layout of a training with the same axes */
  HARNESS_CASES
} harness_cases_t;

/* Whether all cases are to be run. */
static inline bool harness_full(void) {
  return getenv("COLL_TEST_FULL") != NULL;
}

/* Every how many-th case of that kind this build runs. */
static inline unsigned harness_stride(harness_cases_t cases) {
  static const unsigned char strides[HARNESS_CASES][HARNESS_BUILDS] = {
      [HARNESS_VALUES] = {7, 13, 13},
      [HARNESS_MOMENTS] = {3, 7, 7},
      [HARNESS_LAYOUTS] = {11, 23, 23},
  };
  if (harness_full()) return HARNESS_BUILD == HARNESS_PLAIN ? 1 : 3;
  return strides[cases][HARNESS_BUILD];
}

/* Whether this build runs a test with ranks that are processes, where the same test has threads:
 * ThreadSanitizer does not see other processes. */
static inline bool harness_takes_processes(void) {
  return HARNESS_BUILD != HARNESS_THREAD;
}

/* Whether this build runs case `number`, counted from 0. */
static inline bool harness_takes(harness_cases_t cases, unsigned number) {
  return number % harness_stride(cases) == 0;
}

#endif

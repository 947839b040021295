/*
 * Fills buffers with known values and compares buffers with the contents that a layout requires,
 * including the bytes outside its segments, which must not change.
 */
#ifndef BENCH_CHECK_H
#define BENCH_CHECK_H

#include <coll.h>

#include <stddef.h>
#include <stdint.h>

#include "bench/buffer_layout.h"
#include "bench/values.h"

/* A buffer and the guard bytes around it. */
typedef struct bench_buffer {
  unsigned char *region; /* all of it is checked */
  size_t region_bytes;
  size_t data_offset; /* of the buffer's first element, in bytes */
} bench_buffer_t;

/* The number of differences, and the first one of each kind. */
typedef struct bench_mismatch {
  uint64_t elements;      /* wrong elements */
  size_t at;              /* index of the first wrong element in the buffer */
  uint64_t got, expected; /* the bits of that element */
  uint64_t stray_bytes;   /* bytes changed outside the segments */
  int64_t stray_offset;   /* the first of them, relative to the beginning of the buffer */
} bench_mismatch_t;

/* Allocates memory for one period of values: BENCH_VALUES_PERIOD elements of any dtype. */
coll_status_t bench_check_scratch(void **scratch);

void bench_check_fill(const bench_values_t *values, const bench_contents_t *contents,
                      const bench_buffer_t *buffer, void *scratch);

/* Adds the differences to *mismatch. Initialize *mismatch with {0}. */
void bench_check_compare(const bench_values_t *values, const bench_contents_t *contents,
                         const bench_buffer_t *buffer, void *scratch, bench_mismatch_t *mismatch);

#endif

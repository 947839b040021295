/*
 * Fills buffers with known values and compares them with what a layout says they must hold, bytes
 * outside its segments included.
 */
#ifndef BENCH_CHECK_H
#define BENCH_CHECK_H

#include <coll.h>

#include <stddef.h>
#include <stdint.h>

#include "bench/layout.h"
#include "bench/values.h"

/* A buffer inside a region that nobody else may write. */
typedef struct bench_buffer {
  unsigned char *region; /* all of it is checked */
  size_t region_bytes;
  size_t data_at; /* of the buffer's first element, in bytes */
} bench_buffer_t;

/* How much is wrong, and the first of it. */
typedef struct bench_mistake {
  uint64_t elements;    /* that differ from what they must be */
  size_t at;            /* the first of them, counted from the buffer's beginning */
  uint64_t got, wanted; /* its bits */
  uint64_t strays;      /* bytes changed outside the segments */
  int64_t stray_at;     /* the first of them, relative to the buffer's beginning */
} bench_mistake_t;

/* Room to build one period of values in: BENCH_VALUES_PERIOD elements of any dtype. */
coll_status_t bench_check_scratch(void **scratch);

void bench_check_fill(const bench_values_t *values, const bench_image_t *image,
                      const bench_buffer_t *buffer, void *scratch);

/* Adds what is wrong to *mistake, which begins as all zeros. */
void bench_check_compare(const bench_values_t *values, const bench_image_t *image,
                         const bench_buffer_t *buffer, void *scratch, bench_mistake_t *mistake);

#endif

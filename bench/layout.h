/*
 * What one rank's buffers hold before a call and what they must hold after it, element for element:
 * each state of a buffer is a list of segments of known values, and everything outside them is
 * untouched. Written from the definitions in coll.h alone.
 */
#ifndef BENCH_LAYOUT_H
#define BENCH_LAYOUT_H

#include <coll.h>

#include <stdbool.h>
#include <stddef.h>

#define BENCH_RESULT (-1) /* as a segment's rank: the reduction over all ranks */

/* `count` elements from `at` in the buffer: those from `index` on of what `rank` contributes, or of
 * the result. */
typedef struct bench_segment {
  size_t at, count;
  int rank;
  size_t index;
} bench_segment_t;

/* Segments in order of `at`, without overlap. */
typedef struct bench_image {
  bench_segment_t *segments;
  size_t count;
} bench_image_t;

/* Two buffers out of place; in place only recv is used, and `send` points into it. */
typedef struct bench_layout {
  size_t send_elements, recv_elements;         /* of the buffers */
  size_t send_at, recv_at;                     /* where the call's two pointers go, in elements */
  bench_image_t send, recv_before, recv_after; /* send stays as it is; in place it is empty */
} bench_layout_t;

/* Room for the layouts of calls among `ranks` ranks. */
coll_status_t bench_layout_make(int ranks, bench_layout_t *layout);
void bench_layout_free(bench_layout_t *layout);

/* Describes one rank's buffers for the call. in_place only where the collective has such a form. */
void bench_layout_describe(coll_collective_t collective, size_t count, int root, int rank,
                           int ranks, bool in_place, bench_layout_t *layout);

#endif

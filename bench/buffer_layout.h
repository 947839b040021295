/*
 * The contents of one rank's buffers before a call, and the contents that are correct after it.
 * Contents are a list of segments of known values; all bytes outside the segments must keep their
 * value. Written from the definitions in coll.h alone.
 */
#ifndef BENCH_BUFFER_LAYOUT_H
#define BENCH_BUFFER_LAYOUT_H

#include <coll.h>

#include <stdbool.h>
#include <stddef.h>

#define BENCH_REDUCED (-1) /* as the rank of a segment: the reduction over all ranks */

/* `count` elements from element `at` of the buffer on. They equal the elements from `index` on of
 * the input of `rank`, or of the reduction over all ranks. */
typedef struct bench_segment {
  size_t at, count;
  int rank;
  size_t index;
} bench_segment_t;

/* Segments in order of `at`, without overlap. */
typedef struct bench_contents {
  bench_segment_t *segments;
  size_t count;
} bench_contents_t;

/* Out of place, a call has two buffers. In place, it has only the recv buffer, and the send pointer
 * points into that. */
typedef struct bench_buffer_layout {
  bool even; /* set by the caller: uneven blocks have equal sizes (bench_rank_count) */
  size_t send_elements, recv_elements; /* sizes of the buffers */
  size_t send_at, recv_at;             /* offsets of the call's two pointers, in elements */
  bench_contents_t send, recv_before, recv_after; /* send must not change; it is empty in place */
} bench_buffer_layout_t;

/* Allocates a layout for calls among `ranks` ranks. */
coll_status_t bench_buffer_layout_make(int ranks, bench_buffer_layout_t *layout);
void bench_buffer_layout_free(bench_buffer_layout_t *layout);

/* Fills in the layout of one rank for the call. in_place: the collective must support it. */
void bench_buffer_layout_describe(coll_collective_t collective, size_t count, int root, int rank,
                                  int ranks, bool in_place, bench_buffer_layout_t *layout);

#endif

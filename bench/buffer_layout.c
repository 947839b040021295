/* Computes what the rank sends and receives, in blocks. In place, then merges the two buffers. */
#include "bench/buffer_layout.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/status.h"
#include "bench/collectives.h"

coll_status_t bench_buffer_layout_make(int ranks, bench_buffer_layout_t *layout) {
  size_t capacity = (size_t)ranks + 2;
  void *memory;
  COLL_TRY(
      base_alloc(3 * capacity, sizeof(bench_segment_t), "the buffer layout of a call", &memory));
  bench_segment_t *segments = memory;
  *layout = (bench_buffer_layout_t){.send.segments = segments,
                                    .recv_before.segments = segments + capacity,
                                    .recv_after.segments = segments + 2 * capacity};
  return COLL_OK;
}

void bench_buffer_layout_free(bench_buffer_layout_t *layout) {
  free(layout->send.segments);
  *layout = (bench_buffer_layout_t){0};
}

static void append(bench_contents_t *contents, size_t at, size_t count, int rank, size_t index) {
  if (count > 0) contents->segments[contents->count++] = (bench_segment_t){at, count, rank, index};
}

/* Offset of the block for `rank` in the send buffer of `from`: what all ranks below `rank`
 * receive. */
static size_t alltoallv_displacement(size_t count, int ranks, int from, int rank) {
  size_t displacement = 0;
  for (int to = 0; to < rank; to++) displacement += bench_alltoallv_count(count, ranks, from, to);
  return displacement;
}

/* Elements of the blocks of all ranks below `rank`. */
static size_t uneven_displacement(size_t count, int ranks, int rank, bool even) {
  size_t before = 0;
  for (int r = 0; r < rank; r++) before += bench_rank_count(count, ranks, r, even);
  return before;
}

/* The number of elements that this rank sends. Element i of the send buffer is element i of the
 * rank's input. */
static size_t sent_elements(coll_collective_t collective, size_t count, bool is_root, int rank,
                            int ranks, bool even) {
  size_t blocks = (size_t)ranks * count;
  switch (collective) {
    case COLL_BROADCAST: return is_root ? count : 0;
    case COLL_SCATTER: return is_root ? blocks : 0;
    case COLL_REDUCE_SCATTER:
    case COLL_ALLTOALL: return blocks;
    case COLL_ALLTOALLV: return alltoallv_displacement(count, ranks, rank, ranks);
    case COLL_ALLGATHERV:
    case COLL_GATHERV: return bench_rank_count(count, ranks, rank, even);
    case COLL_SCATTERV:
    case COLL_REDUCE_SCATTERV:
      if (collective == COLL_SCATTERV && !is_root) return 0;
      return uneven_displacement(count, ranks, ranks, even);
    case COLL_BARRIER: return 0;
    default: return count;
  }
}

/* Block j of the output is the input of rank j. */
static size_t receive_uneven(size_t count, int ranks, bool even, bool receives,
                             bench_contents_t *after) {
  size_t at = 0;
  for (int from = 0; from < ranks; from++) {
    size_t block = bench_rank_count(count, ranks, from, even);
    if (receives) append(after, at, block, from, 0);
    at += block;
  }
  return at;
}

/* Block j of the output is the block that rank j sends to this rank. */
static size_t receive_alltoallv(size_t count, int rank, int ranks, bench_contents_t *after) {
  size_t at = 0;
  for (int from = 0; from < ranks; from++) {
    size_t block = bench_alltoallv_count(count, ranks, from, rank);
    append(after, at, block, from, alltoallv_displacement(count, ranks, from, rank));
    at += block;
  }
  return at;
}

/* Block j of the output equals the elements from `index` on of the input of rank j. */
static size_t receive_blocks(size_t count, int ranks, size_t index, bench_contents_t *after) {
  for (int from = 0; from < ranks; from++) append(after, (size_t)from * count, count, from, index);
  return (size_t)ranks * count;
}

/* Appends what the rank receives, for an output that begins at 0; returns the size of the output.
 */
static size_t receive(coll_collective_t collective, size_t count, int root, int rank, int ranks,
                      bool even, bench_contents_t *after) {
  size_t own_block = (size_t)rank * count;
  size_t own_count = bench_rank_count(count, ranks, rank, even);
  size_t own_uneven = uneven_displacement(count, ranks, rank, even);
  int previous = (rank + ranks - 1) % ranks;
  switch (collective) {
    case COLL_ALLREDUCE: append(after, 0, count, BENCH_REDUCED, 0); return count;
    case COLL_REDUCE:
      if (rank == root) append(after, 0, count, BENCH_REDUCED, 0);
      return count;
    case COLL_REDUCE_SCATTER: append(after, 0, count, BENCH_REDUCED, own_block); return count;
    case COLL_BROADCAST: append(after, 0, count, root, 0); return count;
    case COLL_SCATTER: append(after, 0, count, root, own_block); return count;
    case COLL_SENDRECV: append(after, 0, count, previous, 0); return count;
    case COLL_GATHER:
      if (rank == root) receive_blocks(count, ranks, 0, after);
      return (size_t)ranks * count;
    case COLL_ALLGATHER: return receive_blocks(count, ranks, 0, after);
    case COLL_ALLTOALL: return receive_blocks(count, ranks, own_block, after);
    case COLL_ALLTOALLV: return receive_alltoallv(count, rank, ranks, after);
    case COLL_ALLGATHERV: return receive_uneven(count, ranks, even, true, after);
    case COLL_GATHERV: return receive_uneven(count, ranks, even, rank == root, after);
    case COLL_REDUCE_SCATTERV:
      append(after, 0, own_count, BENCH_REDUCED, own_uneven);
      return own_count;
    case COLL_SCATTERV: append(after, 0, own_count, root, own_uneven); return own_count;
    default: return 0;
  }
}

/* Both pointers point into one buffer of the larger size; the smaller side is this rank's own block
 * of it, of `count` elements at own_block. Input that the call does not overwrite must keep its
 * value. */
static void merge_in_place(size_t count, size_t own_block, int rank, size_t sent,
                           bench_buffer_layout_t *layout) {
  bool receives = layout->recv_after.count > 0;
  layout->send_at = layout->send_elements < layout->recv_elements ? own_block : 0;
  layout->recv_at = layout->recv_elements < layout->send_elements ? own_block : 0;
  append(&layout->recv_before, layout->send_at, sent, rank, 0);
  bench_contents_t *after = &layout->recv_after;
  if (!receives) {
    append(after, layout->send_at, sent, rank, 0);
  } else if (layout->recv_at > 0 || layout->send_elements > layout->recv_elements) {
    assert(after->count == 1);
    bench_segment_t output = after->segments[0];
    size_t end = own_block + count;
    after->count = 0;
    append(after, 0, sent > 0 ? own_block : 0, rank, 0);
    append(after, own_block, count, output.rank, output.index);
    append(after, end, sent > end ? sent - end : 0, rank, end);
  }
  layout->recv_elements =
      layout->recv_elements > layout->send_elements ? layout->recv_elements : layout->send_elements;
  layout->send_elements = 0;
  layout->send.count = 0;
}

/* Size of the send buffer, whether this rank sends or not. */
static size_t send_capacity(coll_collective_t collective, size_t count, int rank, int ranks,
                            bool even) {
  return sent_elements(collective, count, true, rank, ranks, even);
}

void bench_buffer_layout_describe(coll_collective_t collective, size_t count, int root, int rank,
                                  int ranks, bool in_place, bench_buffer_layout_t *layout) {
  bool even = layout->even || !bench_collective_has_uneven_blocks(collective);
  size_t sent = sent_elements(collective, count, rank == root, rank, ranks, even);
  layout->send.count = layout->recv_before.count = layout->recv_after.count = 0;
  layout->send_at = layout->recv_at = 0;
  layout->send_elements = send_capacity(collective, count, rank, ranks, even);
  layout->recv_elements = receive(collective, count, root, rank, ranks, even, &layout->recv_after);
  append(&layout->send, 0, sent, rank, 0);
  if (in_place) {
    assert(bench_collective_in_place(collective));
    merge_in_place(bench_rank_count(count, ranks, rank, even),
                   uneven_displacement(count, ranks, rank, even), rank, sent, layout);
  }
}

/* First what the rank gives and gets, in blocks; then the in-place rules merge the two buffers. */
#include "bench/layout.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/status.h"
#include "bench/collectives.h"

coll_status_t bench_layout_make(int ranks, bench_layout_t *layout) {
  size_t room = (size_t)ranks + 2;
  void *memory;
  COLL_TRY(base_alloc(3 * room, sizeof(bench_segment_t), "the layout of a call", &memory));
  bench_segment_t *segments = memory;
  *layout = (bench_layout_t){.send.segments = segments,
                             .recv_before.segments = segments + room,
                             .recv_after.segments = segments + 2 * room};
  return COLL_OK;
}

void bench_layout_free(bench_layout_t *layout) {
  free(layout->send.segments);
  *layout = (bench_layout_t){0};
}

static void append(bench_image_t *image, size_t at, size_t count, int rank, size_t index) {
  if (count > 0) image->segments[image->count++] = (bench_segment_t){at, count, rank, index};
}

/* Elements that all ranks below `rank` receive from `from`: where rank's block begins in from's
 * send buffer. */
static size_t alltoallv_displacement(size_t count, int ranks, int from, int rank) {
  size_t displacement = 0;
  for (int to = 0; to < rank; to++) displacement += bench_alltoallv_count(count, ranks, from, to);
  return displacement;
}

/* Elements of the send buffer that this rank fills; index i of it is index i of its contribution.
 */
static size_t sent_elements(coll_collective_t collective, size_t count, bool is_root, int rank,
                            int ranks) {
  size_t blocks = (size_t)ranks * count;
  switch (collective) {
    case COLL_BROADCAST: return is_root ? count : 0;
    case COLL_SCATTER: return is_root ? blocks : 0;
    case COLL_REDUCE_SCATTER:
    case COLL_ALLTOALL: return blocks;
    case COLL_ALLTOALLV: return alltoallv_displacement(count, ranks, rank, ranks);
    case COLL_BARRIER: return 0;
    default: return count;
  }
}

/* Block j of the output is rank j's block for this rank. */
static size_t receive_alltoallv(size_t count, int rank, int ranks, bench_image_t *after) {
  size_t at = 0;
  for (int from = 0; from < ranks; from++) {
    size_t block = bench_alltoallv_count(count, ranks, from, rank);
    append(after, at, block, from, alltoallv_displacement(count, ranks, from, rank));
    at += block;
  }
  return at;
}

/* Block j of the output comes from rank j, from where `index` says in its contribution. */
static size_t receive_blocks(size_t count, int ranks, size_t index, bench_image_t *after) {
  for (int from = 0; from < ranks; from++) append(after, (size_t)from * count, count, from, index);
  return (size_t)ranks * count;
}

/* What the rank gets, as if its output began at 0; returns the output's elements. */
static size_t receive(coll_collective_t collective, size_t count, int root, int rank, int ranks,
                      bench_image_t *after) {
  size_t own_block = (size_t)rank * count;
  int previous = (rank + ranks - 1) % ranks;
  switch (collective) {
    case COLL_ALLREDUCE: append(after, 0, count, BENCH_RESULT, 0); return count;
    case COLL_REDUCE:
      if (rank == root) append(after, 0, count, BENCH_RESULT, 0);
      return count;
    case COLL_REDUCE_SCATTER: append(after, 0, count, BENCH_RESULT, own_block); return count;
    case COLL_BROADCAST: append(after, 0, count, root, 0); return count;
    case COLL_SCATTER: append(after, 0, count, root, own_block); return count;
    case COLL_SENDRECV: append(after, 0, count, previous, 0); return count;
    case COLL_GATHER:
      if (rank == root) receive_blocks(count, ranks, 0, after);
      return (size_t)ranks * count;
    case COLL_ALLGATHER: return receive_blocks(count, ranks, 0, after);
    case COLL_ALLTOALL: return receive_blocks(count, ranks, own_block, after);
    case COLL_ALLTOALLV: return receive_alltoallv(count, rank, ranks, after);
    default: return 0;
  }
}

/* Both pointers go into one buffer as long as the longer side; the shorter side is this rank's own
 * block of it. What the rank sends and does not overwrite must stay. */
static void merge_in_place(size_t count, int rank, size_t sent, bench_layout_t *layout) {
  size_t own_block = (size_t)rank * count;
  bool gets = layout->recv_after.count > 0;
  layout->send_at = layout->send_elements < layout->recv_elements ? own_block : 0;
  layout->recv_at = layout->recv_elements < layout->send_elements ? own_block : 0;
  append(&layout->recv_before, layout->send_at, sent, rank, 0);
  bench_image_t *after = &layout->recv_after;
  if (!gets) {
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

/* Elements of the send buffer, whether this rank fills it or not. */
static size_t send_capacity(coll_collective_t collective, size_t count, int rank, int ranks) {
  return sent_elements(collective, count, true, rank, ranks);
}

void bench_layout_describe(coll_collective_t collective, size_t count, int root, int rank,
                           int ranks, bool in_place, bench_layout_t *layout) {
  size_t sent = sent_elements(collective, count, rank == root, rank, ranks);
  layout->send.count = layout->recv_before.count = layout->recv_after.count = 0;
  layout->send_at = layout->recv_at = 0;
  layout->send_elements = send_capacity(collective, count, rank, ranks);
  layout->recv_elements = receive(collective, count, root, rank, ranks, &layout->recv_after);
  append(&layout->send, 0, sent, rank, 0);
  if (in_place) {
    assert(bench_collective_in_place(collective));
    merge_in_place(count, rank, sent, layout);
  }
}

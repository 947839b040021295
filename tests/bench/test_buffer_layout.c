/* Compares the layouts of all ranks with a naive implementation of each collective on buffers of
 * plain numbers; calls in place are as NCCL defines them. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "bench/buffer_layout.h"
#include "bench/collectives.h"

#define RANKS_MAX 5
#define ELEMENTS_MAX 512
#define UNTOUCHED 0

typedef struct buffers {
  int64_t send[ELEMENTS_MAX], recv[ELEMENTS_MAX];
} buffers_t;

static int64_t input_number(int rank, size_t index) {
  return 1000 * (rank + 1) + (int64_t)index;
}

static int64_t result_number(size_t index) {
  return -1000 - (int64_t)index;
}

static void store_contents(const bench_contents_t *contents, int64_t *buffer) {
  memset(buffer, UNTOUCHED, ELEMENTS_MAX * sizeof *buffer);
  size_t end = 0;
  for (size_t s = 0; s < contents->count; s++) {
    bench_segment_t segment = contents->segments[s];
    cr_assert_geq(segment.at, end, "segments out of order");
    end = segment.at + segment.count;
    cr_assert_leq(end, ELEMENTS_MAX);
    for (size_t i = 0; i < segment.count; i++) {
      buffer[segment.at + i] = segment.rank == BENCH_REDUCED
                                   ? result_number(segment.index + i)
                                   : input_number(segment.rank, segment.index + i);
    }
  }
}

typedef struct world {
  coll_collective_t collective;
  size_t count;
  int root, ranks;
  bool in_place, even;
  bench_buffer_layout_t layouts[RANKS_MAX];
  buffers_t before[RANKS_MAX], after[RANKS_MAX];
} world_t;

static const int64_t *sent(const world_t *world, int rank) {
  const buffers_t *buffers = &world->before[rank];
  return (world->in_place ? buffers->recv : buffers->send) + world->layouts[rank].send_at;
}

/* Copies count elements from offset `from` of the send buffer of `source` to offset `at` of the
 * output of `rank`. */
static void copy(world_t *world, int source, size_t from, int rank, size_t at, size_t count) {
  int64_t *output = world->after[rank].recv + world->layouts[rank].recv_at + at;
  memcpy(output, sent(world, source) + from, count * sizeof *output);
}

/* Checks the inputs of all ranks at `from`, and stores the reduction to the output of `rank`. */
static void reduce(world_t *world, size_t from, int rank, size_t count) {
  int64_t *output = world->after[rank].recv + world->layouts[rank].recv_at;
  for (size_t i = 0; i < count; i++) {
    for (int source = 0; source < world->ranks; source++) {
      cr_assert_eq(sent(world, source)[from + i], input_number(source, from + i));
    }
    output[i] = result_number(from + i);
  }
}

static void exchange_vectors(world_t *world, int rank) {
  for (int source = 0; source < world->ranks; source++) {
    bench_vectors_t from, to;
    cr_assert_eq(bench_vectors_make(world->ranks, &from), COLL_OK);
    cr_assert_eq(bench_vectors_make(world->ranks, &to), COLL_OK);
    bench_vectors_fill(world->count, source, world->ranks, &from);
    bench_vectors_fill(world->count, rank, world->ranks, &to);
    cr_assert_eq(from.send_counts[rank], to.recv_counts[source]);
    copy(world, source, from.send_displs[rank], rank, to.recv_displs[source],
         to.recv_counts[source]);
    bench_vectors_free(&from);
    bench_vectors_free(&to);
  }
}

static void move_uneven(world_t *world, int rank) {
  bench_vectors_t v;
  cr_assert_eq(bench_vectors_make(world->ranks, &v), COLL_OK);
  bench_vectors_fill_uneven(world->count, world->ranks, world->even, &v);
  for (int j = 0; world->even && j < world->ranks; j++) {
    cr_assert(v.send_counts[j] == world->count && v.recv_displs[j] == (size_t)j * world->count);
  }
  bool gathers = world->collective == COLL_ALLGATHERV ||
                 (world->collective == COLL_GATHERV && rank == world->root);
  for (int j = 0; gathers && j < world->ranks; j++) {
    copy(world, j, 0, rank, v.recv_displs[j], v.recv_counts[j]);
  }
  if (world->collective == COLL_SCATTERV) {
    copy(world, world->root, v.send_displs[rank], rank, 0, v.send_counts[rank]);
  } else if (world->collective == COLL_REDUCE_SCATTERV) {
    reduce(world, v.send_displs[rank], rank, v.send_counts[rank]);
  }
  bench_vectors_free(&v);
}

static void run_naive(world_t *world, int rank) {
  size_t count = world->count, own = (size_t)rank * count;
  int n = world->ranks, root = world->root;
  switch (world->collective) {
    case COLL_ALLREDUCE: reduce(world, 0, rank, count); break;
    case COLL_REDUCE:
      if (rank == root) reduce(world, 0, rank, count);
      break;
    case COLL_REDUCE_SCATTER: reduce(world, own, rank, count); break;
    case COLL_BROADCAST: copy(world, root, 0, rank, 0, count); break;
    case COLL_SCATTER: copy(world, root, own, rank, 0, count); break;
    case COLL_SENDRECV: copy(world, (rank + n - 1) % n, 0, rank, 0, count); break;
    case COLL_ALLTOALLV: exchange_vectors(world, rank); break;
    case COLL_GATHER:
      if (rank != root) break; /* fall through */
    case COLL_ALLGATHER:
      for (int j = 0; j < n; j++) copy(world, j, 0, rank, (size_t)j * count, count);
      break;
    case COLL_ALLTOALL:
      for (int j = 0; j < n; j++) copy(world, j, own, rank, (size_t)j * count, count);
      break;
    case COLL_ALLGATHERV:
    case COLL_GATHERV:
    case COLL_SCATTERV:
    case COLL_REDUCE_SCATTERV: move_uneven(world, rank); break;
    default: break;
  }
}

static void check_blocks(coll_collective_t collective, size_t count, int root, int ranks,
                         bool in_place, bool even) {
  static world_t world;
  world = (world_t){collective, count, root, ranks, in_place, even};
  for (int rank = 0; rank < ranks; rank++) {
    bench_buffer_layout_t *layout = &world.layouts[rank];
    cr_assert_eq(bench_buffer_layout_make(ranks, layout), COLL_OK);
    layout->even = even;
    bench_buffer_layout_describe(collective, count, root, rank, ranks, in_place, layout);
    store_contents(&layout->send, world.before[rank].send);
    store_contents(&layout->recv_before, world.before[rank].recv);
    world.after[rank] = world.before[rank];
  }
  for (int rank = 0; rank < ranks; rank++) run_naive(&world, rank);
  for (int rank = 0; rank < ranks; rank++) {
    buffers_t expected;
    store_contents(&world.layouts[rank].recv_after, expected.recv);
    for (size_t i = 0; i < ELEMENTS_MAX; i++) {
      cr_assert_eq(world.after[rank].recv[i], expected.recv[i],
                   "%s, %zu elements, root %d, rank %d of %d, %s: element %zu is %ld, not %ld",
                   coll_collective_name(collective), count, root, rank, ranks,
                   in_place ? "in place" : "out of place", i, (long)expected.recv[i],
                   (long)world.after[rank].recv[i]);
      bool inside = i < world.layouts[rank].recv_elements;
      cr_assert(inside || expected.recv[i] == UNTOUCHED, "no segment is outside the buffer");
    }
    bench_buffer_layout_free(&world.layouts[rank]);
  }
}

static void check(coll_collective_t collective, size_t count, int root, int ranks, bool in_place) {
  check_blocks(collective, count, root, ranks, in_place, false);
  check_blocks(collective, count, root, ranks, in_place, true);
}

Test(layout, agrees_with_the_definitions) {
  static const size_t counts[] = {0, 1, 7, 20};
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    coll_collective_t collective = (coll_collective_t)c;
    for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
      int roots = bench_collective_is_rooted(collective) ? ranks : 1;
      for (int root = 0; root < roots; root++) {
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
          check(collective, counts[i], root, ranks, false);
          if (bench_collective_in_place(collective))
            check(collective, counts[i], root, ranks, true);
        }
      }
    }
  }
}

Test(layout, in_place_pointers_are_as_coll_h_says) {
  bench_buffer_layout_t layout;
  cr_assert_eq(bench_buffer_layout_make(4, &layout), COLL_OK);
  bench_buffer_layout_describe(COLL_REDUCE_SCATTER, 10, 0, 2, 4, true, &layout);
  cr_assert(layout.send_at == 0 && layout.recv_at == 20 && layout.recv_elements == 40);
  bench_buffer_layout_describe(COLL_ALLGATHER, 10, 0, 3, 4, true, &layout);
  cr_assert(layout.send_at == 30 && layout.recv_at == 0 && layout.recv_elements == 40);
  bench_buffer_layout_describe(COLL_ALLREDUCE, 10, 0, 3, 4, true, &layout);
  cr_assert(layout.send_at == 0 && layout.recv_at == 0 && layout.recv_elements == 10);
  bench_buffer_layout_free(&layout);
}

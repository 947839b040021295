/* The bare bones of a call: two threads as the two ranks, call after call, and what either must
 * find in its output. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/crossing.h"

#define LATE_NS 100000u

enum { CALLS = 6, BYTES_MAX = 300000 }; /* some calls take more than there are slots */

typedef struct side {
  pthread_t thread;
  bench_crossing_t crossing;
  unsigned char *inputs[CALLS], *outputs[CALLS];
  int number;
} side_t;

/* Of byte `at` of what a rank has for call `call`; no piece is like another. */
static unsigned char value(int rank, int call, size_t at) {
  return (unsigned char)(rank * 101 + call * 13 + (int)(at % 251));
}

/* Either is late at times. */
static void *make_calls(void *context) {
  side_t *side = context;
  for (int call = 0; call < CALLS; call++) {
    if (call % 3 == side->number) base_clock_sleep_ns(LATE_NS);
    bench_cross(&side->crossing, (const char *)side->inputs[call], (char *)side->outputs[call]);
  }
  return NULL;
}

static unsigned char *filled(int rank, int call) {
  unsigned char *bytes = malloc(BYTES_MAX);
  cr_assert_not_null(bytes);
  for (size_t i = 0; i < BYTES_MAX; i++) bytes[i] = value(rank, call, i);
  return bytes;
}

static void expect(const side_t *side, int from, size_t first, size_t at, size_t bytes) {
  for (int call = 0; call < CALLS; call++) {
    size_t i = 0;
    while (i < bytes && side->outputs[call][at + i] == value(from, call, first + i)) i++;
    cr_assert_eq(i, bytes, "rank %d, call %d, byte %zu", side->number, call, at + i);
  }
}

static void expect_nothing(const side_t *side, size_t from) {
  for (int call = 0; call < CALLS; call++) {
    size_t i = from;
    while (i < BYTES_MAX && side->outputs[call][i] == 0) i++;
    cr_assert_eq(i, BYTES_MAX, "rank %d, call %d, byte %zu", side->number, call, i);
  }
}

/* Of a call of `bytes` among two ranks, of which each keeps and takes as much as said. */
static void run_around(bool many, coll_collective_t which, size_t bytes, size_t piece,
                       size_t kept[2], size_t taken[2], size_t kept_from) {
  bench_outbox_t *boxes = aligned_alloc(_Alignof(bench_outbox_t), 2 * sizeof *boxes);
  side_t sides[2] = {{.number = 0}, {.number = 1}};
  cr_assert_not_null(boxes);
  memset(boxes, 0, 2 * sizeof *boxes);
  for (int r = 0; r < 2; r++) {
    side_t *side = &sides[r];
    side->crossing = (bench_crossing_t){.own = &boxes[r],
                                        .partners = &boxes[1 - r],
                                        .piece_bytes = piece,
                                        .mover = bench_mover(0),
                                        .fetcher = bench_move_vectors};
    bench_crossing_plan(which, bytes, 2, r == 0, &side->crossing);
    bench_crossing_lap(&side->crossing, many);
    for (int call = 0; call < CALLS; call++) {
      side->inputs[call] = filled(r, call);
      side->outputs[call] = calloc(1, BYTES_MAX);
    }
  }
  for (int r = 0; r < 2; r++) pthread_create(&sides[r].thread, NULL, make_calls, &sides[r]);
  for (int r = 0; r < 2; r++) pthread_join(sides[r].thread, NULL);
  for (int r = 0; r < 2; r++) {
    expect(&sides[r], 1 - r, 0, 0, taken[r]);
    expect(&sides[r], r, kept_from, taken[r], kept[r]);
    expect_nothing(&sides[r], kept[r] + taken[r]);
    for (int call = 0; call < CALLS; call++) {
      free(sides[r].inputs[call]);
      free(sides[r].outputs[call]);
    }
  }
  free(boxes);
}

static void run(coll_collective_t which, size_t bytes, size_t piece, size_t kept[2],
                size_t taken[2], size_t kept_from) {
  run_around(false, which, bytes, piece, kept, taken, kept_from);
  run_around(true, which, bytes, piece, kept, taken, kept_from);
}

#define PAIR(zero, one) \
  (size_t[2]) {         \
    zero, one           \
  }

static void for_all(void (*run_all)(size_t size, size_t piece)) {
  static const size_t sizes[] = {16, 112, BENCH_SLOT_BYTES, 200000, 299008};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    run_all(sizes[i], BENCH_SLOT_BYTES_MIN);
    run_all(sizes[i], BENCH_SLOT_BYTES);
  }
}

static void from_root(size_t size, size_t piece) {
  run(COLL_BROADCAST, size, piece, PAIR(size, 0), PAIR(0, size), 0);
  run(COLL_SCATTER, size, piece, PAIR(size / 2, 0), PAIR(0, size / 2), size / 2);
}

Test(crossing, what_a_root_has_goes_to_its_peer) {
  for_all(from_root);
}

static void to_root(size_t size, size_t piece) {
  run(COLL_REDUCE, size, piece, PAIR(0, 0), PAIR(size, 0), 0);
  run(COLL_GATHER, size, piece, PAIR(size / 2, 0), PAIR(size / 2, 0), 0);
}

Test(crossing, what_a_root_wants_comes_from_its_peer) {
  for_all(to_root);
}

static void without_root(size_t size, size_t piece) {
  size_t half = size / 2;
  run(COLL_ALLREDUCE, size, piece, PAIR(0, 0), PAIR(size, size), 0);
  run(COLL_REDUCE_SCATTER, size, piece, PAIR(0, 0), PAIR(half, half), 0);
  run(COLL_ALLGATHER, size, piece, PAIR(half, half), PAIR(half, half), 0);
  run(COLL_ALLTOALL, size, piece, PAIR(half, half), PAIR(half, half), half);
}

Test(crossing, ranks_without_a_root_exchange) {
  for_all(without_root);
}

Test(crossing, one_keeps_its_block_alone_of_many) {
  bench_crossing_t c = {0};
  bench_crossing_plan(COLL_ALLTOALL, 4096, 4, true, &c);
  cr_assert(c.bytes == 3072 && c.kept_bytes == 1024 && c.kept_from == 3072 && c.kept_to == 3072);
}

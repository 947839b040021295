/* Two threads act as the two ranks and make several calls in a row. The tests check every byte of
 * both outputs. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/baseline_message.h"

#define LATE_NS 100000u

/* Some calls have more chunks than the ring has slots. */
enum { CALLS = 6, BYTES_MAX = 300000, PERIOD = 251 };

typedef struct side {
  pthread_t thread;
  bench_baseline_t baseline;
  unsigned char inputs[CALLS][BYTES_MAX], outputs[CALLS][BYTES_MAX];
  int number;
} side_t;

/* Of one run after the other: a sanitizer takes long to give and take such memory. */
static side_t sides[2];
static unsigned char expected[BYTES_MAX];

/* Byte `at` of the input of a rank in call `call`; it differs from chunk to chunk. */
static unsigned char value(int rank, int call, size_t at) {
  return (unsigned char)(rank * 101 + call * 13 + (int)(at % PERIOD));
}

/* Either thread is late for some calls. */
static void *make_calls(void *context) {
  side_t *side = context;
  for (int call = 0; call < CALLS; call++) {
    if (call % 3 == side->number) base_clock_sleep_ns(LATE_NS);
    bench_baseline_run(&side->baseline, (const char *)side->inputs[call],
                       (char *)side->outputs[call]);
  }
  return NULL;
}

static void fill(unsigned char bytes[BYTES_MAX], int rank, int call) {
  for (size_t i = 0; i < PERIOD; i++) bytes[i] = value(rank, call, i);
  for (size_t done = PERIOD; done < BYTES_MAX; done *= 2) {
    memcpy(bytes + done, bytes, done < BYTES_MAX - done ? done : BYTES_MAX - done);
  }
}

static void expect(const side_t *side, int from, size_t first, size_t at, size_t bytes) {
  for (int call = 0; call < CALLS; call++) {
    fill(expected, from, call);
    cr_assert_eq(memcmp(side->outputs[call] + at, expected + first, bytes), 0,
                 "rank %d, call %d: other bytes from byte %zu on", side->number, call, at);
  }
}

static void expect_nothing(const side_t *side, size_t from) {
  static const unsigned char nothing[BYTES_MAX];
  for (int call = 0; call < CALLS; call++) {
    cr_assert_eq(memcmp(side->outputs[call] + from, nothing, BYTES_MAX - from), 0,
                 "rank %d, call %d: bytes from byte %zu on were written", side->number, call, from);
  }
}

/* Calls of `bytes` among two ranks. local, received: the bytes that each rank copies locally and
 * receives. */
static void run_with_ring(bool many, coll_collective_t which, size_t bytes, size_t chunk,
                          size_t local[2], size_t received[2], size_t local_from) {
  bench_outbox_t *boxes = aligned_alloc(_Alignof(bench_outbox_t), 2 * sizeof *boxes);
  cr_assert_not_null(boxes);
  memset(boxes, 0, 2 * sizeof *boxes);
  for (int r = 0; r < 2; r++) {
    side_t *side = &sides[r];
    side->number = r;
    side->baseline = (bench_baseline_t){.own = &boxes[r],
                                        .partner = &boxes[1 - r],
                                        .chunk_bytes = chunk,
                                        .store = bench_copy_kernel(0),
                                        .receive = bench_copy_vectors};
    bench_baseline_plan(which, bytes, 2, r == 0, &side->baseline);
    bench_baseline_set_ring(&side->baseline, many);
    for (int call = 0; call < CALLS; call++) {
      fill(side->inputs[call], r, call);
      memset(side->outputs[call], 0, BYTES_MAX);
    }
  }
  for (int r = 0; r < 2; r++) pthread_create(&sides[r].thread, NULL, make_calls, &sides[r]);
  for (int r = 0; r < 2; r++) pthread_join(sides[r].thread, NULL);
  for (int r = 0; r < 2; r++) {
    expect(&sides[r], 1 - r, 0, 0, received[r]);
    expect(&sides[r], r, local_from, received[r], local[r]);
    expect_nothing(&sides[r], local[r] + received[r]);
  }
  free(boxes);
}

static void run(coll_collective_t which, size_t bytes, size_t chunk, size_t local[2],
                size_t received[2], size_t local_from) {
  run_with_ring(false, which, bytes, chunk, local, received, local_from);
  run_with_ring(true, which, bytes, chunk, local, received, local_from);
}

#define PAIR(zero, one) \
  (size_t[2]) {         \
    zero, one           \
  }

static void for_all(void (*run_all)(size_t size, size_t chunk)) {
  static const size_t sizes[] = {16, 112, BENCH_CHUNK_BYTES_MAX, 200000, 299008};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    run_all(sizes[i], BENCH_CHUNK_BYTES_MIN);
    run_all(sizes[i], BENCH_CHUNK_BYTES_MAX);
  }
}

static void from_root(size_t size, size_t chunk) {
  run(COLL_BROADCAST, size, chunk, PAIR(size, 0), PAIR(0, size), 0);
  run(COLL_SCATTER, size, chunk, PAIR(size / 2, 0), PAIR(0, size / 2), size / 2);
}

Test(baseline, root_to_peer) {
  for_all(from_root);
}

static void to_root(size_t size, size_t chunk) {
  run(COLL_REDUCE, size, chunk, PAIR(0, 0), PAIR(size, 0), 0);
  run(COLL_GATHER, size, chunk, PAIR(size / 2, 0), PAIR(size / 2, 0), 0);
}

Test(baseline, peer_to_root) {
  for_all(to_root);
}

static void without_root(size_t size, size_t chunk) {
  size_t half = size / 2;
  run(COLL_ALLREDUCE, size, chunk, PAIR(0, 0), PAIR(size, size), 0);
  run(COLL_REDUCE_SCATTER, size, chunk, PAIR(0, 0), PAIR(half, half), 0);
  run(COLL_ALLGATHER, size, chunk, PAIR(half, half), PAIR(half, half), 0);
  run(COLL_SENDRECV, size, chunk, PAIR(0, 0), PAIR(size, size), 0);
  run(COLL_ALLTOALL, size, chunk, PAIR(half, half), PAIR(half, half), half);
}

Test(baseline, ranks_without_a_root_exchange) {
  for_all(without_root);
}

Test(baseline, local_copy_is_one_block_of_many) {
  bench_baseline_t c = {0};
  bench_baseline_plan(COLL_ALLTOALL, 4096, 4, true, &c);
  cr_assert(c.bytes == 3072 && c.local_bytes == 1024 && c.local_from == 3072 && c.local_to == 3072);
}

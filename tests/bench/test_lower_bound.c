/* Runs the copy operations of a call on plain arrays with a slow and obvious loop. They must
 * produce the result that coll.h defines and store each element once, for any number of workers. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "bench/buffer_layout.h"
#include "bench/lower_bound.h"

enum { RANKS_MAX = 5, COUNT = 3 * 60, SLOT_COUNT = COUNT };

/* The buffers of all ranks. Element i of the send buffer of rank r is value(r, i). */
typedef struct world {
  bench_lower_bound_call_t call;
  double send[RANKS_MAX][COUNT], recv[RANKS_MAX][COUNT], slot[RANKS_MAX][SLOT_COUNT];
  int stores[RANKS_MAX][COUNT]; /* to each element of recv */
} world_t;

static double value(int rank, size_t index) {
  return (double)(rank + 1) * 1000 + (double)index;
}

static double *element(world_t *world, const bench_operand_t *operand, size_t at) {
  size_t index = operand->offset / sizeof(float) + at;
  if (operand->buffer == BENCH_SLOT) return &world->slot[operand->rank][index];
  cr_assert_lt(index, (size_t)COUNT);
  if (operand->buffer == BENCH_SEND) return &world->send[operand->rank][index];
  return &world->recv[operand->rank][index];
}

static void run_op(world_t *world, const bench_copy_list_t *list, const bench_copy_op_t *op) {
  const bench_operand_t *dsts = &list->operands[op->operands], *sources = dsts + op->dst_count;
  for (size_t at = 0; at < op->bytes / sizeof(float); at++) {
    double sum = 0;
    for (int s = 0; s < op->source_count; s++) sum += *element(world, &sources[s], at);
    for (int d = 0; d < op->dst_count; d++) {
      *element(world, &dsts[d], at) = sum;
      if (dsts[d].buffer == BENCH_RECV) {
        world->stores[dsts[d].rank][dsts[d].offset / sizeof(float) + at]++;
      }
    }
  }
}

static void run_all(world_t *world, bench_method_t method) {
  for (int worker = 0; worker < world->call.workers; worker++) {
    bench_copy_list_t list;
    cr_assert_eq(bench_copy_list_make(&world->call, method, worker, &list), COLL_OK);
    for (size_t i = 0; i < list.count; i++) run_op(world, &list, &list.ops[i]);
    bench_copy_list_free(&list);
  }
}

static void check(const world_t *world, const char *what) {
  bench_buffer_layout_t layout;
  bool per_rank =
      world->call.collective != COLL_ALLREDUCE && world->call.collective != COLL_REDUCE &&
      world->call.collective != COLL_BROADCAST && world->call.collective != COLL_SENDRECV;
  size_t count = world->call.bytes / sizeof(float);
  if (per_rank) count /= (size_t)world->call.ranks;
  cr_assert_eq(bench_buffer_layout_make(world->call.ranks, &layout), COLL_OK);
  for (int rank = 0; rank < world->call.ranks; rank++) {
    bench_buffer_layout_describe(world->call.collective, count, 0, rank, world->call.ranks, false,
                                 &layout);
    for (size_t s = 0; s < layout.recv_after.count; s++) {
      const bench_segment_t *segment = &layout.recv_after.segments[s];
      for (size_t i = 0; i < segment->count; i++) {
        double right = 0;
        for (int r = 0; r < world->call.ranks; r++) {
          bool part = segment->rank == BENCH_REDUCED || segment->rank == r;
          if (part) right += value(r, segment->index + i);
        }
        cr_assert_eq(world->recv[rank][segment->at + i], right, "%s: rank %d, element %zu", what,
                     rank, segment->at + i);
        cr_assert_eq(world->stores[rank][segment->at + i], 1, "%s: stored again", what);
      }
    }
  }
  bench_buffer_layout_free(&layout);
}

static void run(coll_collective_t collective, int ranks, int workers, bench_method_t method) {
  static world_t world;
  char what[80];
  memset(&world, 0, sizeof world);
  world.call = (bench_lower_bound_call_t){collective, ranks, workers, COUNT * sizeof(float)};
  for (int r = 0; r < ranks; r++) {
    for (size_t i = 0; i < COUNT; i++) world.send[r][i] = value(r, i);
  }
  snprintf(what, sizeof what, "collective %d, %d ranks, %d workers, method %d", (int)collective,
           ranks, workers, (int)method);
  run_all(&world, method);
  check(&world, what);
}

static const coll_collective_t all[] = {COLL_ALLREDUCE, COLL_REDUCE,   COLL_REDUCE_SCATTER,
                                        COLL_ALLGATHER, COLL_ALLTOALL, COLL_BROADCAST,
                                        COLL_GATHER,    COLL_SCATTER,  COLL_SENDRECV};
enum { ALL = sizeof all / sizeof all[0] };

Test(lower_bound, pull_and_push_make_the_result) {
  for (int c = 0; c < ALL; c++) {
    for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
      for (int workers = 1; workers <= ranks; workers++) {
        run(all[c], ranks, workers, BENCH_PUSH);
        if (bench_lower_bound_differs(all[c], BENCH_PULL)) run(all[c], ranks, workers, BENCH_PULL);
      }
    }
  }
}

/* Bytes that two ranks together load from (source) or store to that kind of buffer. A staged copy
 * accesses only the rank's own buffers and the slots. */
static size_t staged_bytes(coll_collective_t collective, bench_buffer_kind_t buffer, bool source) {
  const bench_lower_bound_call_t call = {collective, 2, 2, COUNT * sizeof(float)};
  size_t bytes = 0;
  for (int worker = 0; worker < 2; worker++) {
    bench_copy_list_t list;
    cr_assert_eq(bench_copy_list_make(&call, BENCH_STAGED, worker, &list), COLL_OK);
    for (size_t i = 0; i < list.count; i++) {
      const bench_copy_op_t *op = &list.ops[i];
      const bench_operand_t *operands = &list.operands[op->operands];
      int first = source ? op->dst_count : 0;
      int end = source ? op->dst_count + op->source_count : op->dst_count;
      for (int p = first; p < end; p++) {
        bool own = operands[p].buffer == BENCH_SLOT || operands[p].rank == worker;
        cr_assert(own, "collective %d accesses a peer's buffer", (int)collective);
        if (operands[p].buffer == buffer) bytes += op->bytes;
      }
    }
    bench_copy_list_free(&list);
  }
  return bytes;
}

/* Loads and stores of both ranks together, in units of the size. */
Test(lower_bound, staged_copies_are_minimal) {
  static const struct {
    coll_collective_t collective;
    double loads, stores, staged;
  } rows[] = {{COLL_ALLREDUCE, 2, 2, 2}, {COLL_REDUCE_SCATTER, 2, 1, 1}, {COLL_REDUCE, 2, 1, 1},
              {COLL_ALLGATHER, 1, 2, 1}, {COLL_ALLTOALL, 2, 2, 1},       {COLL_BROADCAST, 1, 2, 1},
              {COLL_GATHER, 1, 1, 0.5},  {COLL_SCATTER, 1, 1, 0.5},      {COLL_SENDRECV, 2, 2, 2}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    coll_collective_t which = rows[i].collective;
    double size = COUNT * sizeof(float), slack = 128 / size; /* parts are rounded to 64 bytes */
    cr_expect_float_eq((double)staged_bytes(which, BENCH_SEND, true) / size, rows[i].loads, slack,
                       "collective %d loads", (int)which);
    cr_expect_float_eq((double)staged_bytes(which, BENCH_RECV, false) / size, rows[i].stores, slack,
                       "collective %d stores", (int)which);
    cr_expect_float_eq((double)staged_bytes(which, BENCH_SLOT, false) / size, rows[i].staged, slack,
                       "collective %d stages", (int)which);
    cr_expect_float_eq((double)staged_bytes(which, BENCH_SLOT, true) / size, rows[i].staged, slack,
                       "collective %d fetches", (int)which);
  }
}

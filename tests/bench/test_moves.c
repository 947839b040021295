/* The moves of a call, carried out over plain arrays by a slow and obvious loop: they must make
 * what coll.h defines, each byte once, however many workers share them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "bench/layout.h"
#include "bench/moves.h"

enum { RANKS_MAX = 5, COUNT = 3 * 60, SLOT_COUNT = COUNT };

/* Buffers of elements; what rank r sends at i is worth value(r, i). */
typedef struct world {
  bench_moved_call_t call;
  double send[RANKS_MAX][COUNT], recv[RANKS_MAX][COUNT], slot[RANKS_MAX][SLOT_COUNT];
  int stores[RANKS_MAX][COUNT]; /* to each element of recv */
} world_t;

static double value(int rank, size_t index) {
  return (double)(rank + 1) * 1000 + (double)index;
}

static double *element(world_t *world, const bench_place_t *place, size_t at) {
  size_t index = place->offset / sizeof(float) + at;
  if (place->side == BENCH_SLOT) return &world->slot[place->rank][index];
  cr_assert_lt(index, (size_t)COUNT);
  if (place->side == BENCH_SEND) return &world->send[place->rank][index];
  return &world->recv[place->rank][index];
}

static void carry_out(world_t *world, const bench_moves_t *moves, const bench_move_t *move) {
  const bench_place_t *dsts = &moves->places[move->places], *sources = dsts + move->dst_count;
  for (size_t at = 0; at < move->bytes / sizeof(float); at++) {
    double sum = 0;
    for (int s = 0; s < move->source_count; s++) sum += *element(world, &sources[s], at);
    for (int d = 0; d < move->dst_count; d++) {
      *element(world, &dsts[d], at) = sum;
      if (dsts[d].side == BENCH_RECV) {
        world->stores[dsts[d].rank][dsts[d].offset / sizeof(float) + at]++;
      }
    }
  }
}

static void carry_out_all(world_t *world, bench_way_t way) {
  for (int worker = 0; worker < world->call.workers; worker++) {
    bench_moves_t moves;
    cr_assert_eq(bench_moves_make(&world->call, way, worker, &moves), COLL_OK);
    for (size_t i = 0; i < moves.count; i++) carry_out(world, &moves, &moves.moves[i]);
    bench_moves_free(&moves);
  }
}

static void check(const world_t *world, const char *what) {
  bench_layout_t layout;
  bool per_rank = world->call.collective != COLL_ALLREDUCE &&
                  world->call.collective != COLL_REDUCE && world->call.collective != COLL_BROADCAST;
  size_t count = world->call.bytes / sizeof(float);
  if (per_rank) count /= (size_t)world->call.ranks;
  cr_assert_eq(bench_layout_make(world->call.ranks, &layout), COLL_OK);
  for (int rank = 0; rank < world->call.ranks; rank++) {
    bench_layout_describe(world->call.collective, count, 0, rank, world->call.ranks, false,
                          &layout);
    for (size_t s = 0; s < layout.recv_after.count; s++) {
      const bench_segment_t *segment = &layout.recv_after.segments[s];
      for (size_t i = 0; i < segment->count; i++) {
        double right = 0;
        for (int r = 0; r < world->call.ranks; r++) {
          bool part = segment->rank == BENCH_RESULT || segment->rank == r;
          if (part) right += value(r, segment->index + i);
        }
        cr_assert_eq(world->recv[rank][segment->at + i], right, "%s: rank %d, element %zu", what,
                     rank, segment->at + i);
        cr_assert_eq(world->stores[rank][segment->at + i], 1, "%s: stored again", what);
      }
    }
  }
  bench_layout_free(&layout);
}

static void run(coll_collective_t collective, int ranks, int workers, bench_way_t way) {
  static world_t world;
  char what[80];
  memset(&world, 0, sizeof world);
  world.call = (bench_moved_call_t){collective, ranks, workers, COUNT * sizeof(float)};
  for (int r = 0; r < ranks; r++) {
    for (size_t i = 0; i < COUNT; i++) world.send[r][i] = value(r, i);
  }
  snprintf(what, sizeof what, "collective %d, %d ranks, %d workers, way %d", (int)collective, ranks,
           workers, (int)way);
  carry_out_all(&world, way);
  check(&world, what);
}

static const coll_collective_t all[] = {COLL_ALLREDUCE, COLL_REDUCE,   COLL_REDUCE_SCATTER,
                                        COLL_ALLGATHER, COLL_ALLTOALL, COLL_BROADCAST,
                                        COLL_GATHER,    COLL_SCATTER};
enum { ALL = sizeof all / sizeof all[0] };

Test(moves, make_the_result_where_ranks_reach_each_other) {
  for (int c = 0; c < ALL; c++) {
    for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
      for (int workers = 1; workers <= ranks; workers++) {
        run(all[c], ranks, workers, BENCH_PUSHED);
        if (bench_moves_differ(all[c], BENCH_PULLED)) run(all[c], ranks, workers, BENCH_PULLED);
      }
    }
  }
}

/* Of all that two ranks load from, or store to, that side; who stages touches nothing but its own
 * buffers and the slots. */
static size_t staged_bytes(coll_collective_t collective, bench_side_t side, bool source) {
  const bench_moved_call_t call = {collective, 2, 2, COUNT * sizeof(float)};
  size_t bytes = 0;
  for (int worker = 0; worker < 2; worker++) {
    bench_moves_t moves;
    cr_assert_eq(bench_moves_make(&call, BENCH_STAGED, worker, &moves), COLL_OK);
    for (size_t i = 0; i < moves.count; i++) {
      const bench_move_t *move = &moves.moves[i];
      const bench_place_t *places = &moves.places[move->places];
      int first = source ? move->dst_count : 0;
      int end = source ? move->dst_count + move->source_count : move->dst_count;
      for (int p = first; p < end; p++) {
        bool own = places[p].side == BENCH_SLOT || places[p].rank == worker;
        cr_assert(own, "collective %d reaches into a peer's buffer", (int)collective);
        if (places[p].side == side) bytes += move->bytes;
      }
    }
    bench_moves_free(&moves);
  }
  return bytes;
}

/* Loads and stores of both ranks together, in units of the size. */
Test(moves, stage_no_more_than_they_must) {
  static const struct {
    coll_collective_t collective;
    double loads, stores, staged;
  } rows[] = {{COLL_ALLREDUCE, 2, 2, 2}, {COLL_REDUCE_SCATTER, 2, 1, 1}, {COLL_REDUCE, 2, 1, 1},
              {COLL_ALLGATHER, 1, 2, 1}, {COLL_ALLTOALL, 2, 2, 1},       {COLL_BROADCAST, 1, 2, 1},
              {COLL_GATHER, 1, 1, 0.5},  {COLL_SCATTER, 1, 1, 0.5}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    coll_collective_t which = rows[i].collective;
    double size = COUNT * sizeof(float), slack = 128 / size; /* parts are whole lines */
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

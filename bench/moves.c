/* One function per collective and reach. Blocks and ranks are dealt out to the workers in turn;
 * what is one vector for all, in equal parts. */
#include "bench/moves.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define PART_BYTES 64 /* parts of a vector are multiples of it */

/* A list under way. */
typedef struct maker {
  const bench_moved_call_t *call;
  bench_moves_t *moves;
  int worker;
  bench_place_t dsts[BENCH_MOVE_PLACES_MAX], sources[BENCH_MOVE_PLACES_MAX];
  int dst_count, source_count;
  coll_status_t status;
} maker_t;

/* ---- moves */

static void to(maker_t *m, bench_side_t side, int rank, size_t offset) {
  m->dsts[m->dst_count++] = (bench_place_t){side, rank, offset};
}

static void from(maker_t *m, bench_side_t side, int rank, size_t offset) {
  m->sources[m->source_count++] = (bench_place_t){side, rank, offset};
}

static void append(maker_t *m, const bench_place_t *places, int count) {
  bench_moves_t *moves = m->moves;
  if (m->status != COLL_OK) return;
  m->status = base_grow((void **)&moves->places, &moves->place_capacity,
                        moves->place_count + (size_t)count, sizeof *places, "a call's moves");
  if (m->status != COLL_OK) return;
  memcpy(&moves->places[moves->place_count], places, (size_t)count * sizeof *places);
  moves->place_count += (size_t)count;
}

/* Adds the move whose places have been named, and forgets them. */
static void move(maker_t *m, size_t bytes) {
  bench_moves_t *moves = m->moves;
  bench_move_t made = {moves->place_count, m->dst_count, m->source_count, bytes};
  if (bytes > 0) {
    append(m, m->dsts, m->dst_count);
    append(m, m->sources, m->source_count);
    if (m->status == COLL_OK) {
      m->status = base_grow((void **)&moves->moves, &moves->capacity, moves->count + 1,
                            sizeof *moves->moves, "a call's moves");
    }
    if (m->status == COLL_OK) moves->moves[moves->count++] = made;
  }
  m->dst_count = m->source_count = 0;
}

/* ---- parts */

/* Where part `index` of `count` of a vector begins. */
static size_t part_begin(const maker_t *m, int index, int count) {
  if (index == count) return m->call->bytes;
  return m->call->bytes / (size_t)count * (size_t)index / PART_BYTES * PART_BYTES;
}

static size_t block_bytes(const maker_t *m) {
  return m->call->bytes / (size_t)m->call->ranks;
}

static bool is_mine(const maker_t *m, int number) {
  return number % m->call->workers == m->worker;
}

/* ---- ranks that reach each other's buffers */

static void reduce_part(maker_t *m, int dsts) {
  size_t begin = part_begin(m, m->worker, m->call->workers);
  for (int r = 0; r < dsts; r++) to(m, BENCH_RECV, r, begin);
  for (int r = 0; r < m->call->ranks; r++) from(m, BENCH_SEND, r, begin);
  move(m, part_begin(m, m->worker + 1, m->call->workers) - begin);
}

static void reduce_scatter_block(maker_t *m, int block) {
  to(m, BENCH_RECV, block, 0);
  for (int r = 0; r < m->call->ranks; r++) from(m, BENCH_SEND, r, (size_t)block * block_bytes(m));
  move(m, block_bytes(m));
}

static void push_block(maker_t *m, int block) {
  for (int r = 0; r < m->call->ranks; r++) {
    to(m, BENCH_RECV, r, (size_t)block * block_bytes(m));
  }
  from(m, BENCH_SEND, block, 0);
  move(m, block_bytes(m));
}

static void push_part(maker_t *m) {
  size_t begin = part_begin(m, m->worker, m->call->workers);
  for (int r = 0; r < m->call->ranks; r++) to(m, BENCH_RECV, r, begin);
  from(m, BENCH_SEND, 0, begin);
  move(m, part_begin(m, m->worker + 1, m->call->workers) - begin);
}

/* From offset `at` of `source` to `landing` of rank, one block. */
static void carry(maker_t *m, int rank, size_t landing, int source, size_t at) {
  to(m, BENCH_RECV, rank, landing);
  from(m, BENCH_SEND, source, at);
  move(m, m->call->collective == COLL_BROADCAST ? m->call->bytes : block_bytes(m));
}

/* What the rank, who has it or wants it, moves. */
static void carry_all(maker_t *m, int rank, bench_way_t way) {
  size_t block = block_bytes(m), own = (size_t)rank * block;
  switch (m->call->collective) {
    case COLL_BROADCAST: carry(m, rank, 0, 0, 0); return;
    case COLL_GATHER: carry(m, 0, own, rank, 0); return;
    case COLL_SCATTER: carry(m, rank, 0, 0, own); return;
    default: break;
  }
  for (int i = 0; i < m->call->ranks; i++) {
    int peer = (rank + i) % m->call->ranks;
    size_t theirs = (size_t)peer * block;
    if (m->call->collective == COLL_ALLGATHER) {
      carry(m, rank, theirs, peer, 0);
    } else if (way == BENCH_PULLED) {
      carry(m, rank, theirs, peer, own);
    } else {
      carry(m, peer, own, rank, theirs);
    }
  }
}

static void make_mapped(maker_t *m, bench_way_t way) {
  coll_collective_t which = m->call->collective;
  if (which == COLL_ALLREDUCE || which == COLL_REDUCE) {
    reduce_part(m, which == COLL_REDUCE ? 1 : m->call->ranks);
    return;
  }
  if (which == COLL_BROADCAST && way == BENCH_PUSHED) {
    push_part(m);
    return;
  }
  for (int number = 0; number < m->call->ranks; number++) {
    if (!is_mine(m, number)) continue;
    if (which == COLL_REDUCE_SCATTER) {
      reduce_scatter_block(m, number);
    } else if (which == COLL_ALLGATHER && way == BENCH_PUSHED) {
      push_block(m, number);
    } else {
      carry_all(m, number, way);
    }
  }
}

/* ---- ranks that do not */

static void stage(maker_t *m, int rank, size_t at, size_t bytes) {
  to(m, BENCH_SLOT, rank, 0);
  from(m, BENCH_SEND, rank, at);
  move(m, bytes);
}

static void fetch(maker_t *m, int rank, size_t at, int peer, size_t bytes) {
  to(m, BENCH_RECV, rank, at);
  from(m, BENCH_SLOT, peer, 0);
  move(m, bytes);
}

/* The rank's own operand at `at` and what its peers have staged, to offset `landing`, and to the
 * rank's slot where others want the result. */
static void reduce_staged(maker_t *m, int rank, size_t at, size_t landing, bool shown,
                          size_t bytes) {
  if (shown) to(m, BENCH_SLOT, rank, 0);
  to(m, BENCH_RECV, rank, landing);
  for (int r = 0; r < m->call->ranks; r++) {
    from(m, r == rank ? BENCH_SEND : BENCH_SLOT, r, r == rank ? at : 0);
  }
  move(m, bytes);
}

static void stage_allreduce(maker_t *m, int rank) {
  int ranks = m->call->ranks;
  for (int pass = 0; pass < 2; pass++) {
    for (int i = 1; i < ranks; i++) {
      int peer = (rank + i) % ranks;
      size_t begin = part_begin(m, peer, ranks), bytes = part_begin(m, peer + 1, ranks) - begin;
      if (pass == 0) stage(m, rank, begin, bytes);
      if (pass == 1) fetch(m, rank, begin, peer, bytes);
    }
    if (pass == 1) break;
    size_t begin = part_begin(m, rank, ranks);
    reduce_staged(m, rank, begin, begin, true, part_begin(m, rank + 1, ranks) - begin);
  }
}

/* Reduce-scatter, allgather, alltoall. */
static void stage_blocks(maker_t *m, int rank) {
  int ranks = m->call->ranks;
  coll_collective_t which = m->call->collective;
  size_t block = block_bytes(m), own = (size_t)rank * block;
  if (which == COLL_REDUCE_SCATTER) reduce_staged(m, rank, own, 0, false, block);
  if (which == COLL_ALLGATHER) to(m, BENCH_SLOT, rank, 0);
  if (which != COLL_REDUCE_SCATTER) carry(m, rank, own, rank, which == COLL_ALLGATHER ? 0 : own);
  for (int i = 1; i < ranks; i++) {
    int peer = (rank + i) % ranks;
    if (which != COLL_ALLGATHER) stage(m, rank, (size_t)peer * block, block);
    if (which != COLL_REDUCE_SCATTER) fetch(m, rank, (size_t)peer * block, peer, block);
  }
}

static void stage_root(maker_t *m) {
  coll_collective_t which = m->call->collective;
  size_t block = block_bytes(m);
  if (which == COLL_REDUCE) {
    reduce_staged(m, 0, 0, 0, false, m->call->bytes);
    return;
  }
  if (which == COLL_BROADCAST) to(m, BENCH_SLOT, 0, 0);
  carry(m, 0, 0, 0, 0);
  for (int peer = 1; peer < m->call->ranks && which != COLL_BROADCAST; peer++) {
    if (which == COLL_GATHER) fetch(m, 0, (size_t)peer * block, peer, block);
    if (which == COLL_SCATTER) stage(m, 0, (size_t)peer * block, block);
  }
}

static void stage_leaf(maker_t *m, int rank) {
  switch (m->call->collective) {
    case COLL_REDUCE: stage(m, rank, 0, m->call->bytes); break;
    case COLL_GATHER: stage(m, rank, 0, block_bytes(m)); break;
    case COLL_BROADCAST: fetch(m, rank, 0, 0, m->call->bytes); break;
    default: fetch(m, rank, 0, 0, block_bytes(m)); break;
  }
}

static void make_staged(maker_t *m) {
  coll_collective_t which = m->call->collective;
  bool rooted = which == COLL_REDUCE || which == COLL_BROADCAST || which == COLL_GATHER ||
                which == COLL_SCATTER;
  for (int rank = 0; rank < m->call->ranks; rank++) {
    if (!is_mine(m, rank)) continue;
    if (which == COLL_ALLREDUCE) {
      stage_allreduce(m, rank);
    } else if (!rooted) {
      stage_blocks(m, rank);
    } else if (rank == 0) {
      stage_root(m);
    } else {
      stage_leaf(m, rank);
    }
  }
}

/* ---- all */

bool bench_moves_differ(coll_collective_t collective, bench_way_t way) {
  return way != BENCH_PULLED || collective == COLL_ALLGATHER || collective == COLL_BROADCAST ||
         collective == COLL_ALLTOALL;
}

coll_status_t bench_moves_make(const bench_moved_call_t *call, bench_way_t way, int worker,
                               bench_moves_t *moves) {
  assert(call->ranks >= 1 && call->ranks <= BENCH_MOVE_PLACES_MAX && worker < call->workers);
  bench_moves_t made = {0};
  maker_t maker = {.call = call, .moves = &made, .worker = worker};
  if (way == BENCH_STAGED) {
    make_staged(&maker);
  } else {
    make_mapped(&maker, way);
  }
  if (maker.status != COLL_OK) {
    bench_moves_free(&made);
    return maker.status;
  }
  *moves = made;
  return COLL_OK;
}

void bench_moves_free(bench_moves_t *moves) {
  free(moves->moves);
  free(moves->places);
  *moves = (bench_moves_t){0};
}

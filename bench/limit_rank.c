/* What one rank of the limit does: it times the least moves of the call by whichever way and mover
 * is fastest, without anyone waiting for anyone; the bare copies of a call by way of shared slots,
 * with waiting (crossing.h); a barrier of flags, the round trip of one flag, and a row of flags
 * that go one way. Where ranks outnumber cores, one process per core does the work of all of its
 * ranks, so that nobody waits for a turn. */
#include "bench/limit_rank.h"

#include <jansson.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomics.h"
#include "base/memory.h"
#include "base/names.h"
#include "bench/collectives.h"
#include "bench/crossing.h"
#include "bench/layout.h"
#include "bench/movers.h"
#include "bench/moves.h"
#include "bench/pool.h"
#include "bench/timing.h"

enum {
  MAX_RANKS = BENCH_MOVE_PLACES_MAX,
  FLAG_ITERATIONS = 20000,
  MOVE_ITERATIONS_MIN = 10,
  PAGE_BYTES = 4096,
  PATIENCE_LOOKS = 200,            /* at a rank that has a core, before this one is given up */
  CELL_BYTES = 2 * BASE_CACHE_LINE /* the neighbour of a line is fetched along with it */
};

#define MOVED_BYTES ((size_t)64 << 20) /* that a rank moves for a figure, or more */
#define MOVERS_MIN ((size_t)4 << 10)   /* bytes from which more than the first mover is tried */
#define IN_STEP_MIN ((size_t)1 << 20)  /* bytes from which ranks in step may be the faster */
/* Bytes that cross, from which on the longer laps, and the larger pieces, are the faster. */
#define SHORT_LAPS_BELOW ((size_t)1 << 20)
#define SHORT_PIECES_BELOW ((size_t)4 << 20)
#define POST_COUNT 64

/* At a time: what a first cache holds, and what a second one does. */
static const size_t stages[] = {(size_t)16 << 10, (size_t)128 << 10};
enum { STAGES = sizeof stages / sizeof stages[0] };

/* What a rank has staged: what stays in its own cache, and what goes on to one that all share. */
static const size_t rings[] = {(size_t)256 << 10, (size_t)1 << 20};
enum { RINGS = sizeof rings / sizeof rings[0], RING_BYTES_MAX = 1 << 20 };

/* Written by one rank alone. */
typedef struct cell {
  _Alignas(CELL_BYTES) _Atomic uint32_t sequence;
  double batch_us[BENCH_BATCHES_MAX];
} cell_t;

/* A flag that goes one way. */
typedef struct post {
  _Alignas(CELL_BYTES) _Atomic uint32_t sequence;
} post_t;

/* What ranks share. */
typedef struct rank_share {
  cell_t cell;
  post_t posts[POST_COUNT];
  bench_outbox_t outbox;
  _Alignas(CELL_BYTES) char ring[RING_BYTES_MAX];
} rank_share_t;

/* The buffers of all ranks at one size, as collbench has them. */
typedef struct buffers {
  size_t call_bytes; /* the size, in whole elements */
  size_t send_bytes, recv_bytes;
  int rotation;
  bench_pool_t send[MAX_RANKS], recv[MAX_RANKS];
  size_t bytes; /* of all */
} buffers_t;

/* One rank. */
typedef struct rank {
  const limit_settings_t *settings;
  int number;
  rank_share_t *shares; /* one per rank, shared */
  char *memory;         /* the buffers, shared */
  int peers; /* that take part: all in flags, as many as have a core of their own in work */
  uint32_t sequence, multicast;
  buffers_t buffers;
  bench_moves_t moves;
  void **places; /* of the moves, for each pair of buffers */
  bench_mover_t *mover;
  size_t stage_bytes, ring_bytes;
  bool in_step; /* ranks meet before each call, so that what both load is loaded once */
  bench_crossing_t crossing;
  bool fetches_by_vectors; /* what crosses, by whatever mover all else goes */
} rank_t;

/* ---- flags */

static bool share_core(const rank_t *rank, int peer) {
  int cores = rank->settings->cpu_count;
  return cores > 0 && rank->number % cores == peer % cores;
}

/* For a flag that peer raises. With fewer cores than ranks, whoever waits must make room for whom
 * it waits for. */
static void wait_for_flag(const rank_t *rank, int peer, _Atomic uint32_t *flag, uint32_t sequence) {
  bool crowded = rank->peers > rank->settings->cpu_count, near = share_core(rank, peer);
  for (int looks = 0; (int32_t)(atomic_load_explicit(flag, memory_order_acquire) - sequence) < 0;) {
    if (crowded && (near || ++looks > PATIENCE_LOOKS)) {
      sched_yield();
    } else {
      base_cpu_relax();
    }
  }
}

static void wait_for(const rank_t *rank, int peer, uint32_t sequence) {
  wait_for_flag(rank, peer, &rank->shares[peer].cell.sequence, sequence);
}

static void raise_flag(rank_t *rank) {
  atomic_store_explicit(&rank->shares[rank->number].cell.sequence, ++rank->sequence,
                        memory_order_release);
}

static coll_status_t meet(void *context) {
  rank_t *rank = context;
  raise_flag(rank);
  for (int far = 0; far <= 1; far++) { /* first those that need this core */
    for (int peer = 0; peer < rank->peers; peer++) {
      if (share_core(rank, peer) == !far) wait_for(rank, peer, rank->sequence);
    }
  }
  return COLL_OK;
}

static coll_status_t meet_again(void *context, int pair) {
  (void)pair;
  return meet(context);
}

/* Between ranks 0 and 1; all others only count along. */
static coll_status_t round_trip(void *context, int pair) {
  rank_t *rank = context;
  (void)pair;
  if (rank->number == 1) wait_for(rank, 0, rank->sequence + 1);
  raise_flag(rank);
  if (rank->number == 0) wait_for(rank, 1, rank->sequence);
  return COLL_OK;
}

/* From rank 0 to rank 1, who says now and then how far it is; all others have nothing to do. */
static coll_status_t post_one_way(void *context, int pair) {
  rank_t *rank = context;
  uint32_t number = ++rank->multicast;
  _Atomic uint32_t *post = &rank->shares[0].posts[number % POST_COUNT].sequence;
  _Atomic uint32_t *taken = &rank->shares[1].posts[0].sequence;
  (void)pair;
  if (rank->number > 1) return COLL_OK;
  if (rank->number == 0) {
    if (number % (POST_COUNT / 2) == 0 && number > POST_COUNT) {
      wait_for_flag(rank, 1, taken, number - POST_COUNT);
    }
    atomic_store_explicit(post, number, memory_order_release);
    return COLL_OK;
  }
  wait_for_flag(rank, 0, post, number);
  if (number % (POST_COUNT / 4) == 0) atomic_store_explicit(taken, number, memory_order_release);
  return COLL_OK;
}

static coll_status_t settle(void *context) {
  (void)context;
  return COLL_OK;
}

/* ---- moves */

static size_t least_of(size_t a, size_t b) {
  return a < b ? a : b;
}

static bool is_staged(const rank_t *rank, const bench_move_t *move) {
  const bench_place_t *places = &rank->moves.places[move->places];
  for (int i = 0; i < move->dst_count + move->source_count; i++) {
    if (places[i].side == BENCH_SLOT) return true;
  }
  return false;
}

/* Calls begin in every ring where the one before has ended. Who fetches is half a ring, or half the
 * calls, away from who stages, as in a pipeline. */
static size_t ring_offset(const rank_t *rank, const bench_move_t *move, int pair, bool fetched) {
  size_t stride = base_round_up(move->bytes, BASE_CACHE_LINE);
  size_t lag = stride * (size_t)(rank->buffers.rotation / 2);
  if (lag > rank->ring_bytes / 2) lag = rank->ring_bytes / 2;
  return base_round_up(stride * (size_t)pair + (fetched ? lag : 0), BASE_CACHE_LINE);
}

/* By pieces, so that a slot is loaded from a cache. */
static void make_staged_move(const rank_t *rank, const bench_move_t *move, int pair,
                             void *const *places) {
  const bench_place_t *of = &rank->moves.places[move->places];
  int count = move->dst_count + move->source_count, kept = of[0].side == BENCH_SLOT;
  size_t part, stored = ring_offset(rank, move, pair, false);
  size_t fetched = ring_offset(rank, move, pair, true);
  void *here[2 * BENCH_MOVE_PLACES_MAX];
  for (size_t done = 0; done < move->bytes; done += part) {
    size_t at[] = {(stored + done) % rank->ring_bytes, (fetched + done) % rank->ring_bytes};
    part = least_of(rank->stage_bytes, move->bytes - done);
    part = least_of(part, rank->ring_bytes - (at[0] > at[1] ? at[0] : at[1]));
    for (int i = 0; i < count; i++) {
      bool slot = of[i].side == BENCH_SLOT;
      here[i] = (char *)places[i] + (slot ? at[i >= move->dst_count] : done);
    }
    rank->mover(here, move->dst_count, kept, (const void *const *)&here[move->dst_count],
                move->source_count, part);
  }
}

static coll_status_t make_moves(void *context, int pair) {
  rank_t *rank = context;
  void *const *places = rank->places + (size_t)pair * rank->moves.place_count;
  if (rank->in_step) (void)meet(rank);
  for (size_t i = 0; i < rank->moves.count; i++) {
    const bench_move_t *move = &rank->moves.moves[i];
    void *const *dsts = places + move->places;
    if (is_staged(rank, move)) {
      make_staged_move(rank, move, pair, dsts);
    } else {
      rank->mover(dsts, move->dst_count, 0, (const void *const *)(dsts + move->dst_count),
                  move->source_count, move->bytes);
    }
  }
  return COLL_OK;
}

/* ---- bytes that cross: between a root, which is rank 0, and rank 1; else between ranks 0 and 1, 2
 * and 3, and so on. A rank without a partner has nothing to do. */

static char *data_of(const bench_pool_t *pool, int pair) {
  return (char *)bench_pool_region(pool, pair) + BENCH_GUARD_BYTES;
}

static coll_status_t cross(void *context, int pair) {
  rank_t *rank = context;
  const buffers_t *buffers = &rank->buffers;
  bool rooted = base_collective_is_rooted(rank->settings->collective);
  if ((rank->number ^ 1) >= (rooted ? 2 : rank->peers)) return COLL_OK;
  rank->crossing.mover = rank->mover;
  rank->crossing.fetcher = rank->fetches_by_vectors ? bench_move_vectors : rank->mover;
  bench_cross(&rank->crossing, data_of(&buffers->send[rank->number], pair),
              data_of(&buffers->recv[rank->number], pair));
  return COLL_OK;
}

/* ---- figures */

/* Median over the batches of the slowest rank's time per call; every rank gets it. */
static double figure(rank_t *rank, coll_status_t (*call)(void *, int), int iterations,
                     int rotation) {
  const bench_timed_t timed = {
      .context = rank, .call = call, .store_fence = settle, .meet = meet, .rotation = rotation};
  const bench_effort_t effort = {.warmups = rotation + iterations / 10, .iterations = iterations};
  double slowest[BENCH_BATCHES_MAX] = {0};
  int batches = 0;
  (void)bench_timing_run(&timed, &effort, rank->shares[rank->number].cell.batch_us, &batches);
  (void)meet(rank);
  for (int peer = 0; peer < rank->peers; peer++) {
    for (int i = 0; i < batches; i++) {
      double batch_us = rank->shares[peer].cell.batch_us[i];
      if (batch_us > slowest[i]) slowest[i] = batch_us;
    }
  }
  (void)meet(rank);
  return bench_timing_median(slowest, batches);
}

/* ---- buffers */

/* Behind all others. */
static void add_pool(buffers_t *buffers, size_t bytes, char *memory, bench_pool_t *pool) {
  size_t all = bench_pool_bytes(bytes, 0, buffers->rotation);
  *pool = (bench_pool_t){.bytes = all};
  if (memory != NULL) pool->memory = (unsigned char *)memory + buffers->bytes;
  bench_pool_cut(bytes, 0, pool);
  buffers->bytes += base_round_up(all, PAGE_BYTES);
}

/* memory NULL: only their size counts. */
static coll_status_t lay_out(const limit_settings_t *settings, size_t bytes, char *memory,
                             buffers_t *buffers) {
  bench_layout_t layout;
  coll_collective_t which = settings->collective;
  size_t count = bench_collective_count(which, bytes, COLL_FLOAT32, settings->ranks);
  COLL_TRY(bench_layout_make(settings->ranks, &layout));
  bench_layout_describe(which, count, 0, 0, settings->ranks, false, &layout);
  buffers->call_bytes = bench_collective_bytes(which, count, COLL_FLOAT32, settings->ranks);
  buffers->send_bytes = layout.send_elements * sizeof(float);
  buffers->recv_bytes = layout.recv_elements * sizeof(float);
  bench_layout_free(&layout);
  buffers->rotation = bench_pool_rotation(buffers->send_bytes, buffers->recv_bytes);
  buffers->bytes = 0;
  for (int r = 0; r < settings->ranks; r++) {
    add_pool(buffers, buffers->send_bytes, memory, &buffers->send[r]);
    add_pool(buffers, buffers->recv_bytes, memory, &buffers->recv[r]);
  }
  return COLL_OK;
}

/* Each rank's by who works for it, so that they lie near its core; then mapped by all. */
static void fill(rank_t *rank) {
  buffers_t *buffers = &rank->buffers;
  for (int r = rank->number; r < rank->settings->ranks; r += rank->peers) {
    memset(buffers->send[r].memory, 1, buffers->send[r].bytes);
    memset(buffers->recv[r].memory, 1, buffers->recv[r].bytes);
  }
  (void)meet(rank);
  for (size_t at = 0; at < buffers->bytes; at += PAGE_BYTES) {
    (void)*(volatile char *)(rank->memory + at);
  }
}

static void *address_of(const rank_t *rank, const bench_place_t *place, int pair) {
  const buffers_t *buffers = &rank->buffers;
  if (place->side == BENCH_SLOT) return rank->shares[place->rank].ring;
  const bench_pool_t *pools = place->side == BENCH_SEND ? buffers->send : buffers->recv;
  return data_of(&pools[place->rank], pair) + place->offset;
}

static coll_status_t find_places(rank_t *rank) {
  size_t count = rank->moves.place_count;
  COLL_TRY(base_alloc(count * (size_t)rank->buffers.rotation + 1, sizeof(void *),
                      "the places of the moves", (void **)&rank->places));
  for (int pair = 0; pair < rank->buffers.rotation; pair++) {
    for (size_t i = 0; i < count; i++) {
      rank->places[(size_t)pair * count + i] = address_of(rank, &rank->moves.places[i], pair);
    }
  }
  return COLL_OK;
}

/* ---- a size */

static int iterations_for(size_t bytes) {
  size_t iterations = MOVED_BYTES / (bytes + 1);
  if (iterations < MOVE_ITERATIONS_MIN) return MOVE_ITERATIONS_MIN;
  return iterations < FLAG_ITERATIONS ? (int)iterations : FLAG_ITERATIONS;
}

/* By the fastest mover; where that may help, in step or not. */
static double fastest(rank_t *rank, coll_status_t (*call)(void *, int), bool may_step) {
  size_t bytes = rank->buffers.call_bytes;
  double least_us = 0;
  for (int i = 0; (rank->mover = bench_mover(i)) != NULL; i++) {
    if (i > 0 && bytes < MOVERS_MIN) break;
    for (int in_step = 0; in_step <= (may_step && bytes >= IN_STEP_MIN); in_step++) {
      rank->in_step = in_step == 1;
      double time_us = figure(rank, call, iterations_for(bytes), rank->buffers.rotation);
      if (least_us == 0 || time_us < least_us) least_us = time_us;
    }
  }
  return least_us;
}

/* In pieces of whichever size is the better, around whichever ring. */
static double fastest_moves(rank_t *rank, bench_way_t way) {
  double least_us = 0;
  int around = rank->peers < rank->settings->ranks ? 1 : RINGS; /* what a core stages is its own */
  for (int i = 0; i < STAGES * around; i++) {
    size_t stage = stages[i / around];
    if (i > 0 && way != BENCH_STAGED) break;
    if (i >= around && rank->buffers.call_bytes < stage) break;
    rank->stage_bytes = stage;
    rank->ring_bytes = rings[i % around];
    double time_us = fastest(rank, make_moves, way != BENCH_STAGED);
    if (least_us == 0 || time_us < least_us) least_us = time_us;
  }
  return least_us;
}

static coll_status_t measure_way(rank_t *rank, bench_way_t way, double *time_us) {
  const bench_moved_call_t call = {rank->settings->collective, rank->settings->ranks, rank->peers,
                                   rank->buffers.call_bytes};
  rank->places = NULL;
  COLL_TRY(bench_moves_make(&call, way, rank->number, &rank->moves));
  coll_status_t status = find_places(rank);
  if (status == COLL_OK) *time_us = fastest_moves(rank, way);
  free(rank->places);
  bench_moves_free(&rank->moves);
  return status;
}

/* Whether there is a core for each rank, so that who waits takes nobody's. */
static bool crosses(const rank_t *rank) {
  const limit_settings_t *settings = rank->settings;
  return settings->ranks > 1 && rank->peers == settings->ranks && rank->buffers.call_bytes > 0;
}

static double crossing_around(rank_t *rank, bool many) {
  double least_us = 0;
  bench_crossing_lap(&rank->crossing, many);
  (void)meet(rank);
  for (int by_vectors = 0; by_vectors <= 1; by_vectors++) {
    rank->fetches_by_vectors = by_vectors == 1;
    double time_us = fastest(rank, cross, false);
    if (least_us == 0 || time_us < least_us) least_us = time_us;
  }
  return least_us;
}

/* Around so few slots that they stay in caches, or so many that the peer's have let go of what is
 * written next; which what is long sees to anyway. */
static double fastest_lap(rank_t *rank) {
  double long_us = crossing_around(rank, true);
  if (rank->crossing.bytes >= SHORT_LAPS_BELOW) return long_us;
  double short_us = crossing_around(rank, false);
  return short_us < long_us ? short_us : long_us;
}

/* In pieces of whichever size is the better. */
static double fastest_crossing(rank_t *rank) {
  bench_crossing_t *c = &rank->crossing;
  double least_us = 0;
  bench_crossing_plan(rank->settings->collective, rank->buffers.call_bytes, rank->settings->ranks,
                      rank->number % 2 == 0, c);
  for (size_t bytes = BENCH_SLOT_BYTES; bytes >= BENCH_SLOT_BYTES_MIN; bytes /= 4) {
    bool differs = c->bytes > bytes && c->bytes < SHORT_PIECES_BELOW;
    if (bytes < BENCH_SLOT_BYTES && !differs) break;
    c->piece_bytes = bytes;
    double time_us = fastest_lap(rank);
    if (least_us == 0 || time_us < least_us) least_us = time_us;
  }
  return least_us;
}

static coll_status_t measure_size(rank_t *rank, size_t bytes, json_t *all) {
  double mapped_us = 0, staged_us = 0;
  COLL_TRY(lay_out(rank->settings, bytes, rank->memory, &rank->buffers));
  fill(rank);
  for (bench_way_t way = 0; way < BENCH_STAGED; way++) {
    double time_us;
    if (!bench_moves_differ(rank->settings->collective, way)) continue;
    COLL_TRY(measure_way(rank, way, &time_us));
    if (mapped_us == 0 || time_us < mapped_us) mapped_us = time_us;
  }
  COLL_TRY(measure_way(rank, BENCH_STAGED, &staged_us));
  json_t *figures = json_pack("{s:I, s:f, s:f}", "bytes", (json_int_t)bytes, "mapped_us", mapped_us,
                              "staged_us", staged_us);
  if (crosses(rank)) {
    json_object_set_new(figures, "crossing_us", json_real(fastest_crossing(rank)));
  }
  json_array_append_new(all, figures);
  return COLL_OK;
}

/* ---- a rank */

static coll_status_t pin(const rank_t *rank) {
  const limit_settings_t *settings = rank->settings;
  if (settings->cpu_count == 0) return COLL_OK;
  size_t cpu = settings->cpus[rank->number % settings->cpu_count];
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) == 0) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot run on core %zu of --cpus", cpu);
}

static coll_status_t run_rank(rank_t *rank) {
  const limit_settings_t *settings = rank->settings;
  COLL_TRY(pin(rank));
  bool alone = settings->ranks == 1;
  double barrier_us = figure(rank, meet_again, FLAG_ITERATIONS, 1);
  double trip_us = alone ? 0 : figure(rank, round_trip, FLAG_ITERATIONS, 1);
  double one_way_us = alone ? 0 : figure(rank, post_one_way, FLAG_ITERATIONS, 1);
  if (one_way_us > trip_us) one_way_us = trip_us; /* a flag may wait for an answer as well */
  /* From here on only ranks with a core of their own go on, and each works for every rank there. */
  if (settings->cpu_count > 0 && settings->cpu_count < settings->ranks) {
    rank->peers = settings->cpu_count;
  }
  if (rank->number >= rank->peers) return COLL_OK;
  json_t *moves = json_array();
  coll_status_t status = COLL_OK;
  for (int i = 0; status == COLL_OK && i < settings->size_count; i++) {
    status = measure_size(rank, settings->sizes[i], moves);
  }
  json_t *all =
      json_pack("{s:i, s:f, s:f, s:f, s:o}", "ranks", settings->ranks, "barrier_us", barrier_us,
                "round_trip_us", trip_us, "one_way_us", one_way_us, "moves", moves);
  if (status == COLL_OK && rank->number == 0) {
    bool printed = json_dumpf(all, stdout, JSON_COMPACT) == 0 && puts("") != EOF;
    if (!printed || fflush(stdout) != 0) {
      status = base_fail_errno(COLL_ERROR_SYSTEM, "cannot write to standard output");
    }
  }
  json_decref(all);
  return status;
}

/* ---- all that ranks share */

static size_t share_bytes(const limit_settings_t *settings) {
  return base_round_up((size_t)settings->ranks * sizeof(rank_share_t), PAGE_BYTES);
}

coll_status_t limit_memory_bytes(const limit_settings_t *settings, size_t *bytes) {
  size_t largest = 0;
  for (int i = 0; i < settings->size_count; i++) {
    buffers_t buffers;
    COLL_TRY(lay_out(settings, settings->sizes[i], NULL, &buffers));
    if (buffers.bytes > largest) largest = buffers.bytes;
  }
  *bytes = share_bytes(settings) + largest;
  return COLL_OK;
}

coll_status_t limit_rank_run(const limit_settings_t *settings, int number, void *memory) {
  rank_t rank = {.settings = settings,
                 .number = number,
                 .shares = memory,
                 .memory = (char *)memory + share_bytes(settings),
                 .peers = settings->ranks};
  rank.crossing.own = &rank.shares[number].outbox;
  if ((number ^ 1) < settings->ranks) rank.crossing.partners = &rank.shares[number ^ 1].outbox;
  return run_rank(&rank);
}

/* Measurements of one rank of `limit`:
 * - the minimal data movement of the call (lower_bound.h), without waiting, as the fastest of all
 *   methods and copy kernels;
 * - the baseline message through shared slots (baseline_message.h), with waiting;
 * - flags in shared memory: a barrier, a round trip, and a stream of flags in one direction.
 * With fewer cores than ranks, one process per core copies for several ranks, so that no process
 * waits for a core. */
#include "bench/limit_rank.h"

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/atomics.h"
#include "base/names.h"
#include "bench/baseline_message.h"
#include "bench/copy_kernel.h"
#include "bench/json_writer.h"
#include "bench/limit_buffers.h"
#include "bench/lower_bound.h"
#include "bench/timing.h"

enum {
  FLAG_ITERATIONS = 20000,
  COPY_ITERATIONS_MIN = 10,
  POLLS_BEFORE_YIELD = 200,        /* when the awaited rank has a core of its own */
  CELL_BYTES = 2 * BASE_CACHE_LINE /* the prefetcher loads lines in pairs */
};

#define COPIED_BYTES ((size_t)64 << 20)    /* a rank copies at least this much per measurement */
#define ALL_KERNELS_MIN ((size_t)4 << 10)  /* smaller calls are measured with memcpy only */
#define SYNCHRONIZED_MIN ((size_t)1 << 20) /* larger calls: also try a barrier before each */
/* Transfers of more bytes are fastest with the large ring, and with the large chunks. */
#define SMALL_RING_BELOW ((size_t)1 << 20)
#define SMALL_CHUNKS_BELOW ((size_t)4 << 20)
#define ONE_WAY_FLAGS 64

/* For staged copies: what the first-level cache holds, and what the second-level cache holds. */
static const size_t chunk_sizes[] = {(size_t)16 << 10, (size_t)128 << 10};
enum { CHUNK_SIZES = sizeof chunk_sizes / sizeof chunk_sizes[0] };

/* Bytes of a rank's slot: what stays in its private cache, and what goes to the shared one. */
static const size_t ring_sizes[] = {(size_t)256 << 10, (size_t)1 << 20};
enum { RING_SIZES = sizeof ring_sizes / sizeof ring_sizes[0], RING_BYTES_MAX = 1 << 20 };

/* Written by one rank alone. */
typedef struct cell {
  _Alignas(CELL_BYTES) _Atomic uint32_t sequence;
  double batch_us[BENCH_BATCHES_MAX];
} cell_t;

/* A flag that rank 0 sets for rank 1. */
typedef struct flag {
  _Alignas(CELL_BYTES) _Atomic uint32_t sequence;
} flag_t;

/* Memory of one rank that all ranks have mapped. */
typedef struct rank_share {
  cell_t cell;
  flag_t one_way[ONE_WAY_FLAGS];
  bench_outbox_t outbox;
  _Alignas(CELL_BYTES) char ring[RING_BYTES_MAX];
} rank_share_t;

/* One rank. */
typedef struct rank {
  const limit_settings_t *settings;
  int number;
  rank_share_t *shares; /* one per rank, shared */
  char *memory;         /* the buffers of all ranks, shared */
  int peers;            /* ranks that take part: all for flags, one per core for copies */
  uint32_t sequence, one_way_sequence;
  limit_buffers_t buffers;
  bench_copy_list_t copies;
  void **addresses; /* of the operands, for each pair of buffers */
  bench_copy_kernel_t *kernel;
  size_t chunk_bytes, ring_bytes;
  bool synchronized; /* a barrier before each call: data that two ranks load are loaded once */
  bench_baseline_t baseline;
  bool receives_by_vectors; /* the copy out of slots; `kernel` makes all other copies */
} rank_t;

/* ---- flags */

static bool shares_core(const rank_t *rank, int peer) {
  int cores = rank->settings->cpu_count;
  return cores > 0 && rank->number % cores == peer % cores;
}

/* Waits for a flag that peer sets. With fewer cores than ranks it yields, so that the peer can
 * run. */
static void wait_for_flag(const rank_t *rank, int peer, _Atomic uint32_t *flag, uint32_t sequence) {
  bool oversubscribed = rank->peers > rank->settings->cpu_count,
       same_core = shares_core(rank, peer);
  for (int polls = 0; (int32_t)(atomic_load_explicit(flag, memory_order_acquire) - sequence) < 0;) {
    if (oversubscribed && (same_core || ++polls > POLLS_BEFORE_YIELD)) {
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

static coll_status_t barrier(void *context) {
  rank_t *rank = context;
  raise_flag(rank);
  for (int other = 0; other <= 1; other++) { /* first the ranks that need this core */
    for (int peer = 0; peer < rank->peers; peer++) {
      if (shares_core(rank, peer) == !other) wait_for(rank, peer, rank->sequence);
    }
  }
  return COLL_OK;
}

static coll_status_t timed_barrier(void *context, int pair) {
  (void)pair;
  return barrier(context);
}

/* A flag from rank 0 to rank 1 and back; the other ranks only advance their sequence number. */
static coll_status_t round_trip(void *context, int pair) {
  rank_t *rank = context;
  (void)pair;
  if (rank->number == 1) wait_for(rank, 0, rank->sequence + 1);
  raise_flag(rank);
  if (rank->number == 0) wait_for(rank, 1, rank->sequence);
  return COLL_OK;
}

/* A flag from rank 0 to rank 1. Rank 1 acknowledges now and then; the other ranks do nothing. */
static coll_status_t one_way_flag(void *context, int pair) {
  rank_t *rank = context;
  uint32_t number = ++rank->one_way_sequence;
  _Atomic uint32_t *flag = &rank->shares[0].one_way[number % ONE_WAY_FLAGS].sequence;
  _Atomic uint32_t *received = &rank->shares[1].one_way[0].sequence;
  (void)pair;
  if (rank->number > 1) return COLL_OK;
  if (rank->number == 0) {
    if (number % (ONE_WAY_FLAGS / 2) == 0 && number > ONE_WAY_FLAGS) {
      wait_for_flag(rank, 1, received, number - ONE_WAY_FLAGS);
    }
    atomic_store_explicit(flag, number, memory_order_release);
    return COLL_OK;
  }
  wait_for_flag(rank, 0, flag, number);
  if (number % (ONE_WAY_FLAGS / 4) == 0)
    atomic_store_explicit(received, number, memory_order_release);
  return COLL_OK;
}

static coll_status_t nothing_to_complete(void *context) {
  (void)context;
  return COLL_OK;
}

/* ---- minimal data movement */

static size_t min_size(size_t a, size_t b) {
  return a < b ? a : b;
}

static bool is_staged(const rank_t *rank, const bench_copy_op_t *op) {
  const bench_operand_t *addresses = &rank->copies.operands[op->operands];
  for (int i = 0; i < op->dst_count + op->source_count; i++) {
    if (addresses[i].buffer == BENCH_SLOT) return true;
  }
  return false;
}

/* Offset in the ring that makes up a rank's slot. Each call begins where the previous one ended. As
 * in a pipeline, loads trail stores by half the ring, or by half the calls. */
static size_t ring_offset(const rank_t *rank, const bench_copy_op_t *op, int pair, bool loaded) {
  size_t stride = base_round_up(op->bytes, BASE_CACHE_LINE);
  size_t lag = stride * (size_t)(rank->buffers.pair_count / 2);
  if (lag > rank->ring_bytes / 2) lag = rank->ring_bytes / 2;
  return base_round_up(stride * (size_t)pair + (loaded ? lag : 0), BASE_CACHE_LINE);
}

/* Copies in chunks, so that a slot is loaded from a cache. */
static void run_staged_op(const rank_t *rank, const bench_copy_op_t *op, int pair,
                          void *const *addresses) {
  const bench_operand_t *of = &rank->copies.operands[op->operands];
  int count = op->dst_count + op->source_count, cached_dsts = of[0].buffer == BENCH_SLOT;
  size_t part, stored = ring_offset(rank, op, pair, false);
  size_t loaded = ring_offset(rank, op, pair, true);
  void *pointers[2 * BENCH_OPERANDS_MAX];
  for (size_t done = 0; done < op->bytes; done += part) {
    size_t at[] = {(stored + done) % rank->ring_bytes, (loaded + done) % rank->ring_bytes};
    part = min_size(rank->chunk_bytes, op->bytes - done);
    part = min_size(part, rank->ring_bytes - (at[0] > at[1] ? at[0] : at[1]));
    for (int i = 0; i < count; i++) {
      bool slot = of[i].buffer == BENCH_SLOT;
      pointers[i] = (char *)addresses[i] + (slot ? at[i >= op->dst_count] : done);
    }
    rank->kernel(pointers, op->dst_count, cached_dsts,
                 (const void *const *)&pointers[op->dst_count], op->source_count, part);
  }
}

static coll_status_t run_copies(void *context, int pair) {
  rank_t *rank = context;
  void *const *addresses = rank->addresses + (size_t)pair * rank->copies.operand_count;
  if (rank->synchronized) (void)barrier(rank);
  for (size_t i = 0; i < rank->copies.count; i++) {
    const bench_copy_op_t *op = &rank->copies.ops[i];
    void *const *dsts = addresses + op->operands;
    if (is_staged(rank, op)) {
      run_staged_op(rank, op, pair, dsts);
    } else {
      rank->kernel(dsts, op->dst_count, 0, (const void *const *)(dsts + op->dst_count),
                   op->source_count, op->bytes);
    }
  }
  return COLL_OK;
}

/* ---- baseline message: with a root between rank 0, the root, and rank 1; else between ranks 0 and
 * 1, 2 and 3, and so on. A rank without a partner does nothing. */

static coll_status_t run_baseline(void *context, int pair) {
  rank_t *rank = context;
  const limit_buffers_t *buffers = &rank->buffers;
  bool rooted = base_collective_is_rooted(rank->settings->collective);
  if ((rank->number ^ 1) >= (rooted ? 2 : rank->peers)) return COLL_OK;
  rank->baseline.store = rank->kernel;
  rank->baseline.receive = rank->receives_by_vectors ? bench_copy_vectors : rank->kernel;
  bench_baseline_run(&rank->baseline, limit_buffers_data(&buffers->send[rank->number], pair),
                     limit_buffers_data(&buffers->recv[rank->number], pair));
  return COLL_OK;
}

/* ---- times */

/* Time per call: the median over the batches of the slowest rank's time; the same on every rank. */
static double measure(rank_t *rank, coll_status_t (*call)(void *, int), int iterations,
                      int pair_count) {
  const bench_timed_calls_t timed = {.context = rank,
                                     .call = call,
                                     .complete = nothing_to_complete,
                                     .barrier = barrier,
                                     .pair_count = pair_count};
  const bench_timing_options_t options = {.warmups = pair_count + iterations / 10,
                                          .iterations = iterations};
  double slowest[BENCH_BATCHES_MAX] = {0};
  int batches = 0;
  (void)bench_timing_run(&timed, &options, rank->shares[rank->number].cell.batch_us, &batches);
  (void)barrier(rank);
  for (int peer = 0; peer < rank->peers; peer++) {
    for (int i = 0; i < batches; i++) {
      double batch_us = rank->shares[peer].cell.batch_us[i];
      if (batch_us > slowest[i]) slowest[i] = batch_us;
    }
  }
  (void)barrier(rank);
  return bench_timing_median(slowest, batches);
}

/* ---- buffers */

/* The process that copies for a rank writes its buffers first, which places them on the NUMA node
 * of its core. Then every process touches all pages, so that no timed call takes a page fault. */
static void fill(rank_t *rank) {
  limit_buffers_t *buffers = &rank->buffers;
  for (int r = rank->number; r < rank->settings->ranks; r += rank->peers) {
    memset(buffers->send[r].memory, 1, buffers->send[r].bytes);
    memset(buffers->recv[r].memory, 1, buffers->recv[r].bytes);
  }
  (void)barrier(rank);
  for (size_t at = 0; at < buffers->bytes; at += LIMIT_PAGE_BYTES) {
    (void)*(volatile char *)(rank->memory + at);
  }
}

static void *address_of(const rank_t *rank, const bench_operand_t *operand, int pair) {
  const limit_buffers_t *buffers = &rank->buffers;
  if (operand->buffer == BENCH_SLOT) return rank->shares[operand->rank].ring;
  const bench_buffer_pool_t *pools = operand->buffer == BENCH_SEND ? buffers->send : buffers->recv;
  return limit_buffers_data(&pools[operand->rank], pair) + operand->offset;
}

static coll_status_t resolve_operands(rank_t *rank) {
  size_t count = rank->copies.operand_count;
  COLL_TRY(base_alloc(count * (size_t)rank->buffers.pair_count + 1, sizeof(void *),
                      "the addresses of the copy operations", (void **)&rank->addresses));
  for (int pair = 0; pair < rank->buffers.pair_count; pair++) {
    for (size_t i = 0; i < count; i++) {
      rank->addresses[(size_t)pair * count + i] = address_of(rank, &rank->copies.operands[i], pair);
    }
  }
  return COLL_OK;
}

/* ---- one size */

static int iterations_for(size_t bytes) {
  size_t iterations = COPIED_BYTES / (bytes + 1);
  if (iterations < COPY_ITERATIONS_MIN) return COPY_ITERATIONS_MIN;
  return iterations < FLAG_ITERATIONS ? (int)iterations : FLAG_ITERATIONS;
}

/* The time with the fastest kernel; with may_synchronize also with a barrier before each call. */
static double fastest(rank_t *rank, coll_status_t (*call)(void *, int), bool may_synchronize) {
  size_t bytes = rank->buffers.call_bytes;
  double min_us = 0;
  for (int i = 0; (rank->kernel = bench_copy_kernel(i)) != NULL; i++) {
    if (i > 0 && bytes < ALL_KERNELS_MIN) break;
    for (int synchronized = 0; synchronized <= (may_synchronize && bytes >= SYNCHRONIZED_MIN);
         synchronized++) {
      rank->synchronized = synchronized == 1;
      double time_us = measure(rank, call, iterations_for(bytes), rank->buffers.pair_count);
      if (min_us == 0 || time_us < min_us) min_us = time_us;
    }
  }
  return min_us;
}

/* The time with the fastest chunk size and ring size. */
static double fastest_copies(rank_t *rank, bench_method_t method) {
  double min_us = 0;
  /* Where a process copies for several ranks, slots stay in the caches of its core. */
  int ring_count = rank->peers < rank->settings->ranks ? 1 : RING_SIZES;
  for (int i = 0; i < CHUNK_SIZES * ring_count; i++) {
    size_t chunk = chunk_sizes[i / ring_count];
    if (i > 0 && method != BENCH_STAGED) break;
    if (i >= ring_count && rank->buffers.call_bytes < chunk) break;
    rank->chunk_bytes = chunk;
    rank->ring_bytes = ring_sizes[i % ring_count];
    double time_us = fastest(rank, run_copies, method != BENCH_STAGED);
    if (min_us == 0 || time_us < min_us) min_us = time_us;
  }
  return min_us;
}

static coll_status_t measure_method(rank_t *rank, bench_method_t method, double *time_us) {
  const bench_lower_bound_call_t call = {rank->settings->collective, rank->settings->ranks,
                                         rank->peers, rank->buffers.call_bytes};
  rank->addresses = NULL;
  COLL_TRY(bench_copy_list_make(&call, method, rank->number, &rank->copies));
  coll_status_t status = resolve_operands(rank);
  if (status == COLL_OK) *time_us = fastest_copies(rank, method);
  free(rank->addresses);
  bench_copy_list_free(&rank->copies);
  return status;
}

/* Whether every rank has a core, so that a waiting rank takes no other rank's core. */
static bool has_core_per_rank(const rank_t *rank) {
  const limit_settings_t *settings = rank->settings;
  return settings->ranks > 1 && rank->peers == settings->ranks && rank->buffers.call_bytes > 0;
}

static double time_with_ring(rank_t *rank, bool many) {
  double min_us = 0;
  bench_baseline_set_ring(&rank->baseline, many);
  (void)barrier(rank);
  for (int with_vectors = 0; with_vectors <= 1; with_vectors++) {
    rank->receives_by_vectors = with_vectors == 1;
    double time_us = fastest(rank, run_baseline, false);
    if (min_us == 0 || time_us < min_us) min_us = time_us;
  }
  return min_us;
}

/* Few slots stay in the caches. With many slots, the partner's cache no longer holds the slot that
 * is written next; long transfers need only that case. */
static double fastest_ring(rank_t *rank) {
  double large_us = time_with_ring(rank, true);
  if (rank->baseline.bytes >= SMALL_RING_BELOW) return large_us;
  double small_us = time_with_ring(rank, false);
  return small_us < large_us ? small_us : large_us;
}

/* The time with the fastest chunk size. */
static double fastest_baseline(rank_t *rank) {
  bench_baseline_t *c = &rank->baseline;
  double min_us = 0;
  bench_baseline_plan(rank->settings->collective, rank->buffers.call_bytes, rank->settings->ranks,
                      rank->number % 2 == 0, c);
  for (size_t bytes = BENCH_CHUNK_BYTES_MAX; bytes >= BENCH_CHUNK_BYTES_MIN; bytes /= 4) {
    bool differs = c->bytes > bytes && c->bytes < SMALL_CHUNKS_BELOW;
    if (bytes < BENCH_CHUNK_BYTES_MAX && !differs) break;
    c->chunk_bytes = bytes;
    double time_us = fastest_ring(rank);
    if (min_us == 0 || time_us < min_us) min_us = time_us;
  }
  return min_us;
}

static coll_status_t measure_size(rank_t *rank, size_t bytes, bench_json_t *json) {
  double mapped_us = 0, staged_us = 0;
  COLL_TRY(limit_buffers_lay_out(rank->settings, bytes, rank->memory, &rank->buffers));
  fill(rank);
  for (bench_method_t method = 0; method < BENCH_STAGED; method++) {
    double time_us;
    if (!bench_lower_bound_differs(rank->settings->collective, method)) continue;
    COLL_TRY(measure_method(rank, method, &time_us));
    if (mapped_us == 0 || time_us < mapped_us) mapped_us = time_us;
  }
  COLL_TRY(measure_method(rank, BENCH_STAGED, &staged_us));
  bench_json_open(json, NULL, '{');
  bench_json_integer(json, "bytes", (int64_t)bytes);
  bench_json_real(json, "mapped_us", mapped_us);
  bench_json_real(json, "staged_us", staged_us);
  if (has_core_per_rank(rank)) bench_json_real(json, "crossing_us", fastest_baseline(rank));
  bench_json_close(json, '}');
  return COLL_OK;
}

/* ---- one rank */

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
  double barrier_us = measure(rank, timed_barrier, FLAG_ITERATIONS, 1);
  double round_trip_us = alone ? 0 : measure(rank, round_trip, FLAG_ITERATIONS, 1);
  double one_way_us = alone ? 0 : measure(rank, one_way_flag, FLAG_ITERATIONS, 1);
  /* Noise: one way cannot take longer than a round trip. */
  if (one_way_us > round_trip_us) one_way_us = round_trip_us;
  /* From here on one process per core continues, and copies for all ranks of that core. */
  if (settings->cpu_count > 0 && settings->cpu_count < settings->ranks) {
    rank->peers = settings->cpu_count;
  }
  if (rank->number >= rank->peers) return COLL_OK;
  char *text = NULL;
  size_t text_bytes;
  bench_json_t json = {.out = open_memstream(&text, &text_bytes)};
  if (json.out == NULL) return base_fail(COLL_ERROR_MEMORY, "out of memory for the figures");
  bench_json_open(&json, NULL, '{');
  bench_json_integer(&json, "ranks", settings->ranks);
  bench_json_real(&json, "barrier_us", barrier_us);
  bench_json_real(&json, "round_trip_us", round_trip_us);
  bench_json_real(&json, "one_way_us", one_way_us);
  bench_json_open(&json, "moves", '[');
  coll_status_t status = COLL_OK;
  for (int i = 0; status == COLL_OK && i < settings->size_count; i++) {
    status = measure_size(rank, settings->sizes[i], &json);
  }
  bench_json_close(&json, ']');
  bench_json_close(&json, '}');
  bool written = fflush(json.out) == 0;
  fclose(json.out);
  bool prints = status == COLL_OK && rank->number == 0;
  if (prints && (!written || puts(text) == EOF || fflush(stdout) != 0)) {
    status = base_fail_errno(COLL_ERROR_SYSTEM, "cannot write to standard output");
  }
  free(text);
  return status;
}

/* ---- shared memory */

static size_t share_bytes(const limit_settings_t *settings) {
  return base_round_up((size_t)settings->ranks * sizeof(rank_share_t), LIMIT_PAGE_BYTES);
}

coll_status_t limit_memory_bytes(const limit_settings_t *settings, size_t *bytes) {
  size_t largest = 0;
  for (int i = 0; i < settings->size_count; i++) {
    limit_buffers_t buffers;
    COLL_TRY(limit_buffers_lay_out(settings, settings->sizes[i], NULL, &buffers));
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
  rank.baseline.own = &rank.shares[number].outbox;
  if ((number ^ 1) < settings->ranks) rank.baseline.partner = &rank.shares[number ^ 1].outbox;
  return run_rank(&rank);
}

/* limit: what this machine allows any collective. Forks its ranks, pins each to a core, and times,
 * as collbench times calls, copies and sums that all ranks make at once in memory of their own,
 * what pairs of ranks take to exchange bytes by way of shared memory, a barrier of flags, and the
 * round trip of one flag between two ranks. Where ranks outnumber cores, one process per core does
 * the work of all of its ranks, so that nobody waits for a turn. Prints one JSON object. */
#include <jansson.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/words.h"
#include "bench/pool.h"
#include "bench/timing.h"

enum {
  RANKS_MOST = 64,
  LIST_MOST = 64,
  FLAG_ITERATIONS = 20000,
  COPY_ITERATIONS_LEAST = 5,
  PATIENCE_LOOKS = 200,            /* at a rank that has a core, before this one is given up */
  CELL_BYTES = 2 * BASE_CACHE_LINE /* the neighbour of a line is fetched along with it */
};

#define COPY_BYTES ((size_t)64 << 20) /* that a rank copies for a figure, or more */
#define SLOT_COUNT 4
#define SLOT_BYTES ((size_t)64 << 10)

/* Written by one rank alone. */
typedef struct cell {
  _Alignas(CELL_BYTES) _Atomic uint32_t sequence;
  double batch_us[BENCH_BATCHES_MOST];
} cell_t;

/* What a rank has for its partner, and which of its pieces, counted from 1. Small ones lie beside
 * the number. Written by one rank alone. */
typedef struct slot {
  _Alignas(CELL_BYTES) _Atomic uint64_t piece;
  char beside[BASE_CACHE_LINE - sizeof(uint64_t)];
  char payload[SLOT_BYTES];
} slot_t;

/* What ranks share. */
typedef struct rank_share {
  cell_t cell;
  slot_t slots[SLOT_COUNT];
} rank_share_t;

typedef struct settings {
  int ranks;
  size_t sizes[LIST_MOST], cpus[LIST_MOST];
  int size_count, cpu_count;
} settings_t;

typedef void work_function(void *dst, const void *src, size_t bytes);

/* One rank. */
typedef struct rank {
  const settings_t *settings;
  int number;
  rank_share_t *shares; /* one per rank, shared */
  int peers; /* that take part: all in flags, as many as have a core of their own in work */
  uint32_t sequence;
  uint64_t pieces; /* exchanged so far */
  int share;       /* of the ranks, whose work this one does */
  work_function *work;
  size_t bytes;
  bench_pool_t from, to;
} rank_t;

/* ---- flags */

static bool share_core(const rank_t *rank, int peer) {
  int cores = rank->settings->cpu_count;
  return cores > 0 && rank->number % cores == peer % cores;
}

/* With fewer cores than ranks, whoever waits must make room for whom it waits for. */
static void wait_for(const rank_t *rank, int peer, uint32_t sequence) {
  bool crowded = rank->peers > rank->settings->cpu_count, near = share_core(rank, peer);
  _Atomic uint32_t *flag = &rank->shares[peer].cell.sequence;
  for (int looks = 0; (int32_t)(atomic_load_explicit(flag, memory_order_acquire) - sequence) < 0;) {
    if (crowded && (near || ++looks > PATIENCE_LOOKS)) {
      sched_yield();
    } else {
      base_cpu_relax();
    }
  }
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

static coll_status_t settle(void *context) {
  (void)context;
  return COLL_OK;
}

/* ---- copies and sums: dst gets src, or the sum of src's two halves */

static void copy_cached(void *dst, const void *src, size_t bytes) {
  memcpy(dst, src, bytes);
}

/* Past the caches, with non-temporal stores. dst and src are aligned to a cache line. */
#if defined(__x86_64__)
typedef long long vector_t __attribute__((vector_size(16)));

static void copy_streamed(void *dst, const void *src, size_t bytes) {
  vector_t *to = dst;
  const vector_t *from = src;
  size_t vectors = bytes / sizeof *to;
  for (size_t i = 0; i < vectors; i++) {
    __asm__ volatile("movntdq %1, %0" : "=m"(to[i]) : "x"(from[i]));
  }
  __asm__ volatile("sfence" ::: "memory");
  memcpy(to + vectors, from + vectors, bytes % sizeof *to);
}
#elif defined(__aarch64__)
static void copy_streamed(void *dst, const void *src, size_t bytes) {
  uint64_t *to = dst;
  const uint64_t *from = src;
  size_t words = bytes / sizeof *to / 2 * 2;
  for (size_t i = 0; i < words; i += 2) {
    __asm__ volatile("stnp %1, %2, [%0]" ::"r"(to + i), "r"(from[i]), "r"(from[i + 1]) : "memory");
  }
  memcpy(to + words, from + words, bytes - words * sizeof *to);
}
#else
static void copy_streamed(void *dst, const void *src, size_t bytes) {
  copy_cached(dst, src, bytes);
}
#endif

typedef float floats_t __attribute__((vector_size(16)));

static void sum_cached(void *dst, const void *src, size_t bytes) {
  size_t count = bytes / 2 / sizeof(float);
  float *restrict to = dst;
  const float *a = src, *b = a + count;
  for (size_t i = 0; i < count; i++) to[i] = a[i] + b[i];
}

/* The halves need not be aligned. */
static void sum_streamed(void *dst, const void *src, size_t bytes) {
  size_t half = bytes / 2, whole = half / sizeof(floats_t) * sizeof(floats_t);
  const char *a = src, *b = a + half;
  char *to = dst;
#if defined(__x86_64__)
  for (size_t at = 0; at < whole; at += sizeof(floats_t)) {
    floats_t x, y;
    memcpy(&x, a + at, sizeof x);
    memcpy(&y, b + at, sizeof y);
    x += y;
    __asm__ volatile("movntps %1, %0" : "=m"(*(floats_t *)(to + at)) : "x"(x));
  }
  __asm__ volatile("sfence" ::: "memory");
#else
  whole = 0;
#endif
  for (size_t at = whole; at + sizeof(float) <= half; at += sizeof(float)) {
    *(float *)(to + at) = *(const float *)(a + at) + *(const float *)(b + at);
  }
}

static coll_status_t work_on_pair(void *context, int pair) {
  rank_t *rank = context;
  for (int i = 0; i < rank->share; i++) {
    int at = pair * rank->share + i;
    rank->work(bench_pool_region(&rank->to, at) + BENCH_GUARD_BYTES,
               bench_pool_region(&rank->from, at) + BENCH_GUARD_BYTES, rank->bytes);
  }
  return COLL_OK;
}

/* ---- exchanges: ranks 0 and 1, 2 and 3, and so on; one that is left over has nothing to do */

static char *payload_of(slot_t *slot, size_t bytes) {
  return bytes <= sizeof slot->beside ? slot->beside : slot->payload;
}

/* That the partner's piece has come says that it has taken those before, so slots are free again.
 */
static void exchange_piece(rank_t *rank, char *to, const char *from, size_t bytes) {
  size_t at = rank->pieces % SLOT_COUNT;
  slot_t *own = &rank->shares[rank->number].slots[at];
  slot_t *partners = &rank->shares[rank->number ^ 1].slots[at];
  rank->pieces++;
  memcpy(payload_of(own, bytes), from, bytes);
  atomic_store_explicit(&own->piece, rank->pieces, memory_order_release);
  while (atomic_load_explicit(&partners->piece, memory_order_acquire) < rank->pieces) {
    base_cpu_relax();
  }
  memcpy(to, payload_of(partners, bytes), bytes);
}

static coll_status_t exchange(void *context, int pair) {
  rank_t *rank = context;
  char *to = (char *)bench_pool_region(&rank->to, pair) + BENCH_GUARD_BYTES;
  const char *from = (const char *)bench_pool_region(&rank->from, pair) + BENCH_GUARD_BYTES;
  if ((rank->number ^ 1) >= rank->peers) return COLL_OK;
  for (size_t done = 0; done < rank->bytes; done += SLOT_BYTES) {
    size_t left = rank->bytes - done;
    exchange_piece(rank, to + done, from + done, left < SLOT_BYTES ? left : SLOT_BYTES);
  }
  return COLL_OK;
}

/* ---- figures */

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Median over the batches of the slowest rank's time per call; every rank gets it. */
static double figure(rank_t *rank, coll_status_t (*call)(void *, int), int iterations,
                     int rotation) {
  const bench_timed_t timed = {
      .context = rank, .call = call, .settle = settle, .meet = meet, .rotation = rotation};
  const bench_effort_t effort = {.warmups = iterations / 10 + 1, .iterations = iterations};
  double slowest[BENCH_BATCHES_MOST] = {0};
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
  qsort(slowest, (size_t)batches, sizeof slowest[0], compare_doubles);
  return (slowest[(batches - 1) / 2] + slowest[batches / 2]) / 2;
}

static coll_status_t make_pool(size_t bytes, int rotation, bench_pool_t *pool) {
  COLL_TRY(bench_pool_make(bench_pool_bytes(bytes, 0, rotation), false, pool));
  bench_pool_cut(bytes, 0, pool);
  memset(pool->memory, 1, pool->bytes);
  return COLL_OK;
}

static json_t *measure_work(rank_t *rank, int iterations, int rotation) {
  static const struct {
    const char *name;
    work_function *work;
  } kinds[] = {{"cached_us", copy_cached},
               {"streamed_us", copy_streamed},
               {"sum_cached_us", sum_cached},
               {"sum_streamed_us", sum_streamed}};
  json_t *figures = json_pack("{s:I}", "bytes", (json_int_t)rank->bytes);
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    rank->work = kinds[i].work;
    double time_us = figure(rank, work_on_pair, iterations, rotation);
    json_object_set_new(figures, kinds[i].name, json_real(time_us));
  }
  if (rank->peers > 1 && rank->peers == rank->settings->ranks) {
    double time_us = figure(rank, exchange, iterations, rotation);
    json_object_set_new(figures, "exchange_us", json_real(time_us));
  }
  return figures;
}

/* The working set is that of a call on buffers of this size. */
static coll_status_t measure_size(rank_t *rank, size_t bytes, json_t *all) {
  int rotation = bench_pool_rotation(bytes, bytes);
  size_t iterations = COPY_BYTES / ((bytes + 1) * (size_t)rank->share);
  if (iterations < COPY_ITERATIONS_LEAST) iterations = COPY_ITERATIONS_LEAST;
  if (iterations > FLAG_ITERATIONS) iterations = FLAG_ITERATIONS;
  COLL_TRY(make_pool(bytes, rotation * rank->share, &rank->from));
  coll_status_t status = make_pool(bytes, rotation * rank->share, &rank->to);
  if (status == COLL_OK) {
    rank->bytes = bytes;
    json_array_append_new(all, measure_work(rank, (int)iterations, rotation));
    bench_pool_free(&rank->to);
  }
  bench_pool_free(&rank->from);
  return status;
}

static coll_status_t pin(const rank_t *rank) {
  const settings_t *settings = rank->settings;
  if (settings->cpu_count == 0) return COLL_OK;
  size_t cpu = settings->cpus[rank->number % settings->cpu_count];
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) == 0) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot run on core %zu of --cpus", cpu);
}

/* From here on only ranks with a core of their own go on, and each works for every rank there. */
static void share_work(rank_t *rank) {
  int ranks = rank->settings->ranks, cores = rank->settings->cpu_count;
  if (cores > 0 && cores < ranks) rank->peers = cores;
  rank->share = 0;
  for (int i = rank->number; rank->number < rank->peers && i < ranks; i += rank->peers) {
    rank->share++;
  }
}

static coll_status_t run_rank(rank_t *rank) {
  COLL_TRY(pin(rank));
  double barrier_us = figure(rank, meet_again, FLAG_ITERATIONS, 1);
  double trip_us = rank->settings->ranks > 1 ? figure(rank, round_trip, FLAG_ITERATIONS, 1) : 0;
  share_work(rank);
  if (rank->share == 0) return COLL_OK;
  json_t *copies = json_array();
  coll_status_t status = COLL_OK;
  for (int i = 0; status == COLL_OK && i < rank->settings->size_count; i++) {
    status = measure_size(rank, rank->settings->sizes[i], copies);
  }
  json_t *all = json_pack("{s:i, s:f, s:f, s:o}", "ranks", rank->settings->ranks, "barrier_us",
                          barrier_us, "round_trip_us", trip_us, "copies", copies);
  if (status == COLL_OK && rank->number == 0) {
    bool printed = json_dumpf(all, stdout, JSON_COMPACT) == 0 && puts("") != EOF;
    if (!printed || fflush(stdout) != 0) {
      status = base_fail_errno(COLL_ERROR_SYSTEM, "cannot write to standard output");
    }
  }
  json_decref(all);
  return status;
}

/* ---- processes */

static void work_as(const settings_t *settings, int number, rank_share_t *shares) {
  rank_t rank = {
      .settings = settings, .number = number, .shares = shares, .peers = settings->ranks};
  coll_status_t status = run_rank(&rank);
  if (status != COLL_OK) fprintf(stderr, "limit: rank %d: %s\n", number, base_last_error());
  _exit(status == COLL_OK ? 0 : 1);
}

/* Waits for all; the first that fails takes the others along, as they would wait for it. */
static bool await_ranks(const pid_t *pids, int count) {
  bool good = true;
  for (int left = count; left > 0; left--) {
    int outcome;
    pid_t ended = wait(&outcome);
    if (ended >= 0 && WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0) continue;
    for (int i = 0; good && i < count; i++) {
      if (pids[i] != ended) kill(pids[i], SIGKILL);
    }
    good = false;
  }
  return good;
}

static coll_status_t run(const settings_t *settings, bool *good) {
  pid_t pids[RANKS_MOST];
  size_t bytes = (size_t)settings->ranks * sizeof(rank_share_t);
  rank_share_t *shares =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shares == MAP_FAILED) return base_fail_errno(COLL_ERROR_MEMORY, "no shared memory for flags");
  int started = 0;
  coll_status_t status = COLL_OK;
  for (; started < settings->ranks; started++) {
    pids[started] = fork();
    if (pids[started] == 0) work_as(settings, started, shares);
    if (pids[started] < 0) {
      status = base_fail_errno(COLL_ERROR_SYSTEM, "cannot start rank %d", started);
      break;
    }
  }
  if (status != COLL_OK) {
    for (int i = 0; i < started; i++) kill(pids[i], SIGKILL);
  }
  *good = await_ranks(pids, started);
  munmap(shares, bytes);
  return status;
}

/* ---- command line */

static coll_status_t parse_list(const char *option, const char *text, size_t *values, int *count) {
  *count = 0;
  while (*text != '\0') {
    char item[24];
    uint64_t value;
    size_t length = strcspn(text, ",");
    snprintf(item, sizeof item, "%.*s", (int)length, text);
    if (*count == LIST_MOST || !base_words_bytes(item, &value)) {
      return base_fail(COLL_ERROR_INVALID, "%s: '%s' is no list such as 0,4,16K of at most %d",
                       option, text, LIST_MOST);
    }
    values[(*count)++] = (size_t)value;
    text += length + (text[length] == ',');
  }
  return COLL_OK;
}

static coll_status_t parse(int argc, char **argv, settings_t *settings, bool *helped) {
  int64_t ranks = 2;
  const char *sizes = "64K,1M,16M", *cpus = "";
  int first;
  const base_option_t options[] = {
      {'n', "ranks", BASE_OPTION_INTEGER, &ranks, "N", "processes that copy at once", 1,
       RANKS_MOST},
      {0, "sizes", BASE_OPTION_TEXT, &sizes, "LIST", "bytes that each copies"},
      {0, "cpus", BASE_OPTION_TEXT, &cpus, "LIST",
       "the ranks' cores, shared where they are fewer; none: the system's choice"},
  };
  const base_command_t command = {
      "limit",
      "[options]",
      "Measures what no collective on this machine can beat: how fast all ranks copy at once,\n"
      "and add two halves, through the caches and past them, how long pairs of ranks take to\n"
      "exchange bytes by way of shared memory, how long a barrier of flags takes, and how long a\n"
      "flag and its answer. A copy loads and stores every byte once; a sum of as many bytes "
      "stores\n"
      "half as many. Prints JSON; times in us.",
      "  limit -n 2 --cpus 0,1 --sizes 64K,64M\n      two ranks on two cores\n",
      options,
      sizeof options / sizeof options[0]};
  COLL_TRY(base_options_parse(&command, argc, argv, &first, helped));
  if (*helped) return COLL_OK;
  if (first < argc) return base_fail(COLL_ERROR_INVALID, "'%s' is no option", argv[first]);
  settings->ranks = (int)ranks;
  COLL_TRY(parse_list("--sizes", sizes, settings->sizes, &settings->size_count));
  return parse_list("--cpus", cpus, settings->cpus, &settings->cpu_count);
}

int main(int argc, char **argv) {
  settings_t settings = {0};
  bool helped = false, good = false;
  if (parse(argc, argv, &settings, &helped) != COLL_OK) {
    fprintf(stderr, "limit: %s\n", base_last_error());
    return 2;
  }
  if (helped) return 0;
  if (run(&settings, &good) != COLL_OK) fprintf(stderr, "limit: %s\n", base_last_error());
  return good ? 0 : 1;
}

/*
 * From which size streaming pays. Both ways of copying take turns on one pair of buffers, from
 * large to small; buffers that are used again and again are as warm as they can be, so what
 * streaming wins there it wins anywhere. The fastest of a few turns counts: that is what the memory
 * does when nobody else wants the processor.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/clock.h"
#include "device/host/host.h"
#include "topo/kept.h"
#include "topo/machine.h"

#define LEAST_BYTES ((size_t)1 << 20) /* what is smaller is never asked about */
#define MOST_BYTES ((size_t)16 << 20)
#define TURNS 5
#define BUDGET_NS 40000000

/* ---- measuring ------------------------------------------------------------------------------*/

typedef struct bench {
  char *dst, *src;
  host_stream_t stream;
} bench_t;

static uint64_t time_of(const bench_t *bench, size_t bytes, bool streamed) {
  uint64_t start = base_clock_now_ns();
  if (streamed) {
    bench->stream(bench->dst, bench->src, bytes);
  } else {
    memcpy(bench->dst, bench->src, bytes);
  }
  return base_clock_now_ns() - start;
}

static bool stream_wins(const bench_t *bench, size_t bytes) {
  uint64_t best[2] = {UINT64_MAX, UINT64_MAX};
  for (int turn = 0; turn < TURNS; turn++) {
    for (int streamed = 0; streamed < 2; streamed++) {
      uint64_t took = time_of(bench, bytes, streamed);
      if (took < best[streamed]) best[streamed] = took;
    }
  }
  return best[1] < best[0];
}

/* Where no size that was tried shows it: past the last cache all must leave for memory anyway. */
static size_t beyond_cache(void) {
  topo_machine_t *machine;
  size_t last = 0;
  if (topo_machine_create(&machine) == COLL_OK) {
    last = topo_machine_facts(machine).l3_bytes;
    topo_machine_destroy(machine);
  }
  return last > MOST_BYTES ? last : 2 * MOST_BYTES;
}

/* What the others let this thread have of the processor does not count. */
static int64_t own_time_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* False when there is no memory to measure with. */
static bool measure(host_stream_t stream, size_t *least) {
  char *memory =
      mmap(NULL, 2 * MOST_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  int64_t start = own_time_ns();
  madvise(memory, 2 * MOST_BYTES, MADV_HUGEPAGE);
  memset(memory, 1, 2 * MOST_BYTES);
  const bench_t bench = {memory, memory + MOST_BYTES, stream};
  *least = beyond_cache();
  for (size_t bytes = MOST_BYTES; bytes >= LEAST_BYTES && stream_wins(&bench, bytes); bytes /= 2) {
    *least = bytes;
    if (own_time_ns() - start > BUDGET_NS) break;
  }
  munmap(memory, 2 * MOST_BYTES);
  return true;
}

/* ---- what is kept ---------------------------------------------------------------------------*/

size_t host_stream_calibrate(const char *table, host_stream_t stream) {
  static const char *const name = "stream_bytes";
  int64_t kept;
  size_t bytes;
  if (topo_kept_load(table, &name, 1, &kept) && kept >= (int64_t)LEAST_BYTES) return (size_t)kept;
  if (!measure(stream, &bytes)) return beyond_cache();
  kept = (int64_t)bytes;
  topo_kept_save(table, &name, 1, &kept);
  return bytes;
}

/* ---- what the tables ask --------------------------------------------------------------------*/

atomic_size_t host_stream_least = LEAST_BYTES, host_scatter_least = LEAST_BYTES;
static atomic_bool known; /* host_stream_least is final; set after it */
static pthread_mutex_t finding = PTHREAD_MUTEX_INITIALIZER;

static void settle_for(size_t bytes) {
  atomic_store_explicit(&host_stream_least, bytes > 0 ? bytes : LEAST_BYTES, memory_order_relaxed);
  atomic_store_explicit(&known, bytes > 0, memory_order_release);
}

void host_stream_set(size_t bytes) {
  atomic_store_explicit(&host_scatter_least, bytes > 0 ? bytes : LEAST_BYTES, memory_order_relaxed);
  settle_for(bytes);
}

bool host_stream_asked(size_t bytes, const char *table, host_stream_t stream) {
  /* acquire: the size that is known is seen along with its being known */
  if (!atomic_load_explicit(&known, memory_order_acquire)) {
    pthread_mutex_lock(&finding);
    if (!atomic_load_explicit(&known, memory_order_relaxed)) {
      settle_for(host_stream_calibrate(table, stream));
    }
    pthread_mutex_unlock(&finding);
  }
  return bytes >= atomic_load_explicit(&host_stream_least, memory_order_relaxed);
}

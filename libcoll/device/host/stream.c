/*
 * Determines from which size non-temporal stores ("streaming") pay, as fractions of the last-level
 * cache, which also holds a call's other buffers and other programs' data. A cached copy to one
 * destination need not read what it overwrites (table.c), so streaming wins only where the caches
 * can hardly hold the buffers. A reduction does read its destination, and a copy to several
 * destinations evicts what it has read: streaming is faster by a third and more if the operands are
 * no longer cached, or are in peers' caches, and hardly slower if they are.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "base/fork.h"
#include "device/host/host.h"
#include "topo/machine.h"

#define COPY_DIVISOR 16
#define REDUCE_DIVISOR 32
#define DEFAULT_CACHE_BYTES ((size_t)32 << 20) /* if the topology does not contain it */
#define MIN_BYTES ((size_t)1 << 20)            /* lower limit of the thresholds */

atomic_size_t host_stream_min[HOST_WORK_COUNT] = {MIN_BYTES, MIN_BYTES};
static atomic_bool known;         /* host_stream_min is final; set after it, with release */
static atomic_size_t cache_bytes; /* size of the last-level cache; 0: not looked up yet */
static pthread_mutex_t finding = PTHREAD_MUTEX_INITIALIZER;

/* Another thread may hold it for as long as the machine takes to be described. */
static void forget(void) {
  pthread_mutex_init(&finding, NULL);
}
BASE_FORK_PART(NULL, forget);

static size_t last_cache_bytes(void) {
  topo_machine_t *machine;
  size_t bytes = 0;
  if (topo_machine_create(&machine) == COLL_OK) {
    bytes = topo_machine_facts(machine).l3_bytes;
    topo_machine_destroy(machine);
  }
  return bytes > 0 ? bytes : DEFAULT_CACHE_BYTES;
}

static void set(size_t copy_bytes, size_t reduce_bytes, bool final) {
  atomic_store_explicit(&host_stream_min[HOST_COPY], copy_bytes, memory_order_relaxed);
  atomic_store_explicit(&host_stream_min[HOST_REDUCE], reduce_bytes, memory_order_relaxed);
  atomic_store_explicit(&known, final, memory_order_release);
}

static size_t fraction_of(size_t cache, size_t divisor) {
  return cache / divisor > MIN_BYTES ? cache / divisor : MIN_BYTES;
}

static void set_fractions(size_t cache) {
  set(fraction_of(cache, COPY_DIVISOR), fraction_of(cache, REDUCE_DIVISOR), true);
}

void host_stream_set(size_t bytes) {
  size_t cache = atomic_load_explicit(&cache_bytes, memory_order_relaxed);
  if (bytes > 0) {
    set(bytes, bytes, true);
  } else if (cache > 0) {
    set_fractions(cache);
  } else {
    set(MIN_BYTES, MIN_BYTES, false);
  }
}

bool host_stream_is_large(size_t bytes, host_work_t work) {
  /* acquire: pairs with the release in set(); the final thresholds are visible */
  if (!atomic_load_explicit(&known, memory_order_acquire)) {
    pthread_mutex_lock(&finding);
    if (!atomic_load_explicit(&known, memory_order_relaxed)) {
      size_t cache = last_cache_bytes();
      atomic_store_explicit(&cache_bytes, cache, memory_order_relaxed);
      set_fractions(cache);
    }
    pthread_mutex_unlock(&finding);
  }
  return bytes >= atomic_load_explicit(&host_stream_min[work], memory_order_relaxed);
}

/*
 * From which size streaming pays, as shares of the last cache, of which a call's ranks have other
 * buffers as well, and other programs what they need. A copy to one place through the caches need
 * not read what it overwrites (table.c), so that streaming wins only where they can hardly hold the
 * buffers. A reduction does read it, and a copy to several places drives out what it has read:
 * where operands have been forgotten, or lie in peers' caches, streaming is the faster by a third
 * and more, and where they have not, hardly slower.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "device/host/host.h"
#include "topo/machine.h"

#define COPY_SHARE 16
#define REDUCE_SHARE 32
#define USUAL_CACHE_BYTES ((size_t)32 << 20) /* where the machine does not tell */
#define LEAST_BYTES ((size_t)1 << 20)        /* of whatever cache, to stream at all */

atomic_size_t host_stream_min[HOST_WORK_COUNT] = {LEAST_BYTES, LEAST_BYTES};
static atomic_bool known;         /* host_stream_min is final; set after it */
static atomic_size_t cache_bytes; /* of the last one, once it was looked up */
static pthread_mutex_t finding = PTHREAD_MUTEX_INITIALIZER;

static size_t last_cache_bytes(void) {
  topo_machine_t *machine;
  size_t bytes = 0;
  if (topo_machine_create(&machine) == COLL_OK) {
    bytes = topo_machine_facts(machine).l3_bytes;
    topo_machine_destroy(machine);
  }
  return bytes > 0 ? bytes : USUAL_CACHE_BYTES;
}

static void set(size_t copy_bytes, size_t reduce_bytes, bool final) {
  atomic_store_explicit(&host_stream_min[HOST_COPY], copy_bytes, memory_order_relaxed);
  atomic_store_explicit(&host_stream_min[HOST_REDUCE], reduce_bytes, memory_order_relaxed);
  atomic_store_explicit(&known, final, memory_order_release);
}

static size_t share_of(size_t cache, size_t share) {
  return cache / share > LEAST_BYTES ? cache / share : LEAST_BYTES;
}

static void set_shares(size_t cache) {
  set(share_of(cache, COPY_SHARE), share_of(cache, REDUCE_SHARE), true);
}

void host_stream_set(size_t bytes) {
  size_t cache = atomic_load_explicit(&cache_bytes, memory_order_relaxed);
  if (bytes > 0) {
    set(bytes, bytes, true);
  } else if (cache > 0) {
    set_shares(cache);
  } else {
    set(LEAST_BYTES, LEAST_BYTES, false);
  }
}

bool host_stream_asked(size_t bytes, host_work_t work) {
  /* acquire: the sizes that are known are seen along with their being known */
  if (!atomic_load_explicit(&known, memory_order_acquire)) {
    pthread_mutex_lock(&finding);
    if (!atomic_load_explicit(&known, memory_order_relaxed)) {
      size_t cache = last_cache_bytes();
      atomic_store_explicit(&cache_bytes, cache, memory_order_relaxed);
      set_shares(cache);
    }
    pthread_mutex_unlock(&finding);
  }
  return bytes >= atomic_load_explicit(&host_stream_min[work], memory_order_relaxed);
}

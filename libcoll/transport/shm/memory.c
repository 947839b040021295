/* An array under a mutex, searched linearly: allocations are few and long-lived. */
#include "transport/shm/memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fork.h"
#include "transport/shm/segment.h"

typedef struct entry {
  uint64_t id;
  shm_segment_t *segment;
} entry_t;

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static entry_t *table; /* all three protected by table_lock */
static size_t table_count, table_capacity;
static _Atomic uint64_t freed; /* written under table_lock, read without */
BASE_FORK_PART(&table_lock, NULL);

static coll_status_t fresh_id(uint64_t *id) {
  do {
    if (getrandom(id, sizeof *id, 0) != (ssize_t)sizeof *id) {
      return base_fail_errno(COLL_ERROR_SYSTEM, "no random number for a memory segment's name");
    }
  } while (*id == 0);
  return COLL_OK;
}

coll_status_t transport_memory_alloc(size_t bytes, void **ptr) {
  entry_t entry;
  COLL_TRY(fresh_id(&entry.id));
  COLL_TRY(shm_segment_create(bytes > 0 ? bytes : 1, "coll_mem_alloc", &entry.segment));
  shm_segment_populate(entry.segment);
  pthread_mutex_lock(&table_lock);
  coll_status_t status = base_grow((void **)&table, &table_capacity, table_count + 1, sizeof entry,
                                   "the table of shared memory");
  if (status == COLL_OK) table[table_count++] = entry;
  pthread_mutex_unlock(&table_lock);
  if (status != COLL_OK) {
    shm_segment_release(entry.segment);
    return status;
  }
  *ptr = entry.segment->base;
  return COLL_OK;
}

coll_status_t transport_memory_free(void *ptr) {
  if (ptr == NULL) return COLL_OK;
  shm_segment_t *found = NULL;
  pthread_mutex_lock(&table_lock);
  for (size_t i = 0; i < table_count; i++) {
    if (table[i].segment->base != ptr) continue;
    found = table[i].segment;
    table[i] = table[--table_count];
    /* relaxed: a thread that reuses the address got it from a later allocation, whose lock orders
     * the two */
    atomic_fetch_add_explicit(&freed, 1, memory_order_relaxed);
    break;
  }
  if (table_count == 0) {
    free(table);
    table = NULL;
    table_capacity = 0;
  }
  pthread_mutex_unlock(&table_lock);
  if (found == NULL) {
    return base_fail(COLL_ERROR_INVALID,
                     "coll_mem_free: %p was not returned by coll_mem_alloc, or is freed already",
                     ptr);
  }
  shm_segment_release(found);
  return COLL_OK;
}

bool shm_memory_find(const void *ptr, size_t bytes, bool want_fd, shm_memory_region_t *region) {
  bool found = false;
  uintptr_t address = (uintptr_t)ptr;
  pthread_mutex_lock(&table_lock);
  for (size_t i = 0; i < table_count && !found; i++) {
    const shm_segment_t *segment = table[i].segment;
    uintptr_t base = (uintptr_t)segment->base;
    if (address < base || address - base > segment->bytes) continue;
    if (bytes > segment->bytes - (address - base)) continue;
    int fd = want_fd ? fcntl(segment->fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (want_fd && fd < 0) break;
    *region = (shm_memory_region_t){.segment = table[i].id,
                                    .segment_base = segment->base,
                                    .segment_bytes = segment->bytes,
                                    .offset = address - base,
                                    .fd = fd};
    found = true;
  }
  pthread_mutex_unlock(&table_lock);
  return found;
}

bool shm_memory_exists(uint64_t id) {
  bool found = false;
  pthread_mutex_lock(&table_lock);
  for (size_t i = 0; i < table_count && !found; i++) found = table[i].id == id;
  pthread_mutex_unlock(&table_lock);
  return found;
}

uint64_t shm_memory_freed(void) {
  return atomic_load_explicit(&freed, memory_order_relaxed);
}

/* Addresses are reserved for all objects of a kind, and memory is put there page by page. */
#include "base/handles.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fork.h"

#define SLOTS_MAX ((size_t)1 << 16)
#define SLOTS_MIN ((size_t)1 << 11)
#define LINE_SHIFT 6 /* of a cache line */

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#define SEARCHED_FOR_POINTERS(memory, bytes) __lsan_register_root_region(memory, bytes)
#define NOT_SEARCHED(memory, bytes) __lsan_unregister_root_region(memory, bytes)
#else
#define SEARCHED_FOR_POINTERS(memory, bytes) ((void)0)
#define NOT_SEARCHED(memory, bytes) ((void)0)
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all kinds of objects */
BASE_FORK_PART(&lock, NULL);

static size_t round_up(size_t bytes, size_t to) {
  return (bytes + to - 1) / to * to;
}

static size_t page_bytes(void) {
  return (size_t)sysconf(_SC_PAGESIZE);
}

/* Of a slot: its size is a power of two, so that base_handles_tag divides by a shift. */
static unsigned shift_for(size_t object_bytes) {
  unsigned shift = LINE_SHIFT;
  while ((size_t)1 << shift < object_bytes) shift++;
  return shift;
}

static size_t slot_bytes_of(const base_handles_t *handles) {
  return (size_t)1 << atomic_load_explicit(&handles->shift, memory_order_relaxed);
}

static size_t used_slots(const base_handles_t *handles) {
  return atomic_load_explicit(&handles->used, memory_order_relaxed);
}

/* Addresses alone; fewer where the process may not have so many. */
static coll_status_t reserve(base_handles_t *handles) {
  unsigned shift = shift_for(handles->object_bytes);
  size_t count = SLOTS_MAX;
  void *memory = MAP_FAILED;
  for (; memory == MAP_FAILED && count >= SLOTS_MIN; count /= 2) {
    memory =
        mmap(NULL, count << shift, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) break;
  }
  if (memory == MAP_FAILED) {
    return base_fail_errno(COLL_ERROR_MEMORY, "no addresses for %s", handles->what);
  }
  coll_status_t status =
      base_alloc(count, sizeof *handles->slots, handles->what, (void **)&handles->slots);
  if (status != COLL_OK) {
    munmap(memory, count << shift);
    return status;
  }
  handles->slot_count = count;
  atomic_store_explicit(&handles->shift, shift, memory_order_relaxed);
  atomic_store_explicit(&handles->first, (uintptr_t)memory, memory_order_relaxed);
  return COLL_OK;
}

static char *slot_at(const base_handles_t *handles, size_t index) {
  uintptr_t first = atomic_load_explicit(&handles->first, memory_order_relaxed);
  return (char *)first + index * slot_bytes_of(handles);
}

static coll_status_t add_slot(base_handles_t *handles, void **object) {
  size_t used = used_slots(handles), slot_bytes = slot_bytes_of(handles);
  size_t in_page = used * slot_bytes % page_bytes();
  char *slot = slot_at(handles, used);
  if (mprotect(slot - in_page, round_up(in_page + slot_bytes, page_bytes()),
               PROT_READ | PROT_WRITE) != 0) {
    return base_fail_errno(COLL_ERROR_MEMORY, "no memory for more %s", handles->what);
  }
  /* release: whoever sees the slot sees `first` and `shift` */
  atomic_store_explicit(&handles->used, used + 1, memory_order_release);
  *object = slot;
  return COLL_OK;
}

static void *take_oldest(base_handles_t *handles) {
  uint32_t index = handles->oldest;
  handles->oldest = handles->slots[index].next;
  handles->freed--;
  return slot_at(handles, index);
}

/* Other threads may read the tag meanwhile. Large objects have pages of their own, which go back to
 * the kernel. */
static void clear(base_handles_t *handles, void *object) {
  atomic_store_explicit((base_handle_tag_t *)object, 0, memory_order_release);
  size_t bytes = slot_bytes_of(handles);
  if (bytes % page_bytes() == 0) {
    /* private and anonymous, so it reads as zeros from now on */
    (void)madvise(object, bytes, MADV_DONTNEED);
  } else {
    memset((char *)object + sizeof(base_handle_tag_t), 0, bytes - sizeof(base_handle_tag_t));
  }
}

static coll_status_t take(base_handles_t *handles, void **object) {
  if (handles->slot_count == 0) COLL_TRY(reserve(handles));
  bool is_old = handles->freed > 0 &&
                handles->made - handles->slots[handles->oldest].freed_at >= HANDLES_BEFORE_REUSE;
  if (!is_old && used_slots(handles) < handles->slot_count) return add_slot(handles, object);
  if (handles->freed > 0) {
    *object = take_oldest(handles);
    return COLL_OK;
  }
  return base_fail(COLL_ERROR_MEMORY, "there are %zu %s, and no addresses for more",
                   handles->slot_count, handles->what);
}

coll_status_t base_handles_new(base_handles_t *handles, void **object) {
  pthread_mutex_lock(&lock);
  coll_status_t status = take(handles, object);
  if (status == COLL_OK) {
    handles->made++;
    SEARCHED_FOR_POINTERS(*object, handles->object_bytes);
  }
  pthread_mutex_unlock(&lock);
  return status;
}

void base_handles_free(base_handles_t *handles, void *object) {
  if (object == NULL) return;
  pthread_mutex_lock(&lock);
  size_t index = (size_t)((char *)object - slot_at(handles, 0)) / slot_bytes_of(handles);
  NOT_SEARCHED(object, handles->object_bytes);
  clear(handles, object);
  handles->slots[index] = (base_handle_slot_t){.freed_at = handles->made};
  if (handles->freed++ == 0) {
    handles->oldest = (uint32_t)index;
  } else {
    handles->slots[handles->newest].next = (uint32_t)index;
  }
  handles->newest = (uint32_t)index;
  pthread_mutex_unlock(&lock);
}

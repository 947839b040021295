/* An array under a mutex, searched linearly: allocations are few and long-lived. The driver is
 * called without the mutex. */
#include "device/cuda/allocations.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/fork.h"
#include "device/cuda/memory.h"

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static cuda_memory_t *table; /* all three protected by table_lock */
static size_t table_count, table_capacity;
BASE_FORK_PART(&table_lock, NULL);

static coll_status_t add(const cuda_memory_t *memory) {
  pthread_mutex_lock(&table_lock);
  coll_status_t status = base_grow((void **)&table, &table_capacity, table_count + 1, sizeof *table,
                                   "the table of memory of GPUs");
  if (status == COLL_OK) table[table_count++] = *memory;
  pthread_mutex_unlock(&table_lock);
  return status;
}

static bool remove_address(void *ptr, cuda_memory_t *memory) {
  bool found = false;
  pthread_mutex_lock(&table_lock);
  for (size_t i = 0; i < table_count && !found; i++) {
    found = table[i].address == (cuda_ptr_t)(uintptr_t)ptr;
    if (!found) continue;
    *memory = table[i];
    table[i] = table[--table_count];
  }
  if (table_count == 0) {
    free(table);
    table = NULL;
    table_capacity = 0;
  }
  pthread_mutex_unlock(&table_lock);
  return found;
}

coll_status_t cuda_allocations_alloc(int device, size_t bytes, void **ptr) {
  const cuda_driver_t *driver;
  cuda_memory_t memory;
  COLL_TRY(cuda_driver_load(&driver));
  COLL_TRY(cuda_memory_alloc(driver, device, bytes, &memory));
  coll_status_t status = add(&memory);
  if (status != COLL_OK) {
    (void)cuda_memory_free(driver, &memory);
    return status;
  }
  *ptr = (void *)(uintptr_t)memory.address;
  return COLL_OK;
}

coll_status_t cuda_allocations_free(void *ptr, bool *found) {
  const cuda_driver_t *driver;
  cuda_memory_t memory;
  *found = ptr != NULL && remove_address(ptr, &memory);
  if (!*found) return COLL_OK;
  COLL_TRY(cuda_driver_load(&driver)); /* it was loaded by the allocation */
  return cuda_memory_free(driver, &memory);
}

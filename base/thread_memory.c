/*
 * The pointer is kept under a key alone. glibc sets it to NULL before it calls free, so that a
 * function called by a later destructor of the thread finds none and allocates it again.
 */
#include "base/thread_memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

static bool find_key(base_thread_memory_t *memory, pthread_key_t *key) {
  unsigned made = atomic_load(&memory->made);
  if (made == 0) {
    if (pthread_key_create(key, free) != 0) return false;
    if (atomic_compare_exchange_strong(&memory->made, &made, *key + 1)) return true;
    pthread_key_delete(*key);
  }
  *key = made - 1;
  return true;
}

void *base_thread_memory_find(base_thread_memory_t *memory) {
  pthread_key_t key;
  return find_key(memory, &key) ? pthread_getspecific(key) : NULL;
}

void *base_thread_memory_allocate(base_thread_memory_t *memory) {
  pthread_key_t key;
  if (!find_key(memory, &key)) return NULL;
  void *found = pthread_getspecific(key);
  if (found != NULL) return found;
  found = calloc(1, memory->bytes);
  if (found == NULL || pthread_setspecific(key, found) == 0) return found;
  free(found);
  return NULL;
}

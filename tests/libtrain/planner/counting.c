/* The linker's --wrap makes calls of malloc calls of __wrap_malloc, and so on. */
#include "counting.h"

#include <coll.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>

#define BUFFERS_MAX 256

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void __real_free(void *memory);
coll_status_t __real_coll_mem_alloc(int device, size_t bytes, void **memory);
coll_status_t __real_coll_mem_free(void *memory);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void __wrap_free(void *memory);
coll_status_t __wrap_coll_mem_alloc(int device, size_t bytes, void **memory);
coll_status_t __wrap_coll_mem_free(void *memory);

static _Thread_local size_t counted;

/* Memory whose size its allocator does not tell: of coll_mem_alloc, and aligned. */
static _Thread_local struct {
  void *memory;
  size_t bytes;
} buffers[BUFFERS_MAX];

size_t counting_bytes(void) {
  return counted;
}

static void remember(void *memory, size_t bytes) {
  for (int i = 0; memory != NULL && i < BUFFERS_MAX; i++) {
    if (buffers[i].memory != NULL) continue;
    buffers[i].memory = memory;
    buffers[i].bytes = bytes;
    counted += bytes;
    return;
  }
}

/* False: it was not remembered. */
static bool forget(const void *memory) {
  for (int i = 0; i < BUFFERS_MAX; i++) {
    if (buffers[i].memory != memory) continue;
    buffers[i].memory = NULL;
    counted -= buffers[i].bytes;
    return true;
  }
  return false;
}

static void *count(void *memory) {
  if (memory != NULL) counted += malloc_usable_size(memory);
  return memory;
}

void *__wrap_malloc(size_t bytes) {
  return count(__real_malloc(bytes));
}

void *__wrap_calloc(size_t elements, size_t bytes) {
  return count(__real_calloc(elements, bytes));
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
  void *memory = __real_aligned_alloc(alignment, bytes);
  remember(memory, bytes);
  return memory;
}

void __wrap_free(void *memory) {
  if (memory != NULL && !forget(memory)) counted -= malloc_usable_size(memory);
  __real_free(memory);
}

coll_status_t __wrap_coll_mem_alloc(int device, size_t bytes, void **memory) {
  coll_status_t status = __real_coll_mem_alloc(device, bytes, memory);
  if (status == COLL_OK) remember(*memory, bytes);
  return status;
}

coll_status_t __wrap_coll_mem_free(void *memory) {
  if (memory != NULL) forget(memory);
  return __real_coll_mem_free(memory);
}

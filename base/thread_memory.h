/*
 * Memory of the calling thread: zeroed, allocated at the first use, freed when the thread ends.
 * Thread-local variables would take so much of the static TLS that glibc has left for libraries
 * loaded by dlopen that these could not be loaded (1.6 KiB for all of them).
 */
#ifndef BASE_THREAD_MEMORY_H
#define BASE_THREAD_MEMORY_H

#include <stddef.h>

/* A static variable. */
typedef struct base_thread_memory {
  size_t bytes;          /* of each thread */
  _Atomic unsigned made; /* the thread-specific key, and 1; 0: none. By the first thread that has it
                            made; of others each deletes its own */
} base_thread_memory_t;

/* NULL: there is no memory for it. */
void *base_thread_memory_allocate(base_thread_memory_t *memory);

/* NULL: it is not allocated. */
void *base_thread_memory_find(base_thread_memory_t *memory);

#endif

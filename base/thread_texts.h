/*
 * Buffers of the calling thread for texts that functions return: one allocation at the first use,
 * freed when the thread ends. Thread-local arrays would take so much of the static TLS that glibc
 * has left for libraries loaded by dlopen that these could not be loaded (1.6 KiB for all of them).
 */
#ifndef BASE_THREAD_TEXTS_H
#define BASE_THREAD_TEXTS_H

#define BASE_THREAD_ERROR_BYTES 1024
#define BASE_THREAD_LINE_BYTES 512

typedef struct base_thread_texts {
  char error[BASE_THREAD_ERROR_BYTES];     /* the last error (status.h) */
  char comm_error[BASE_THREAD_LINE_BYTES]; /* returned by coll_last_error */
} base_thread_texts_t;

/* Text to return where there is no buffer. */
#define BASE_THREAD_NO_MEMORY "out of memory"

/* NULL: there is no memory for them. */
base_thread_texts_t *base_thread_texts_allocate(void);

/* NULL: they are not allocated. */
base_thread_texts_t *base_thread_texts_find(void);

#endif

/*
 * Anonymous shared memory: a memfd, which has no name in a file system and is freed by the kernel
 * when the last process that uses it exits, however it dies.
 */
#ifndef TRANSPORT_SHM_SEGMENT_H
#define TRANSPORT_SHM_SEGMENT_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/status.h"

/* A mapped segment, reference-counted by the transports of one process and freed by the last
 * release. */
typedef struct shm_segment {
  void *base;
  size_t bytes;
  int fd;                 /* -1 if no other process needs it */
  _Atomic int references; /* changed by any holder, atomically */
} shm_segment_t;

/* Zeroed pages, `bytes` rounded up to whole pages, with one reference. `what` is used in error
 * messages. COLL_ERROR_SYSTEM or COLL_ERROR_MEMORY. */
coll_status_t shm_segment_create(size_t bytes, const char *what, shm_segment_t **segment);

/* Maps the segment of fd, which it takes over, on failure too. Fails if the segment is shorter than
 * `bytes`. */
coll_status_t shm_segment_open(int fd, size_t bytes, const char *what, shm_segment_t **segment);

/* Maps every page now, as huge pages where the kernel has them, to avoid page faults in the first
 * calls. Does nothing for a segment that would take more than half of the free memory. */
void shm_segment_populate(shm_segment_t *segment);

void shm_segment_retain(shm_segment_t *segment);
void shm_segment_release(shm_segment_t *segment);

#endif

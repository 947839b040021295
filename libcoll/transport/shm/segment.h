/*
 * Anonymous shared memory: a memfd, which has no name in a file system and is freed by the kernel
 * when the last process that uses it exits, however it dies.
 */
#ifndef TRANSPORT_SHM_SEGMENT_H
#define TRANSPORT_SHM_SEGMENT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* A mapped segment, reference-counted by the transports of one process and freed by the last
 * release. */
#define SHM_SEGMENT_PARTS_MAX 128

typedef struct shm_segment {
  void *base;
  size_t bytes; /* mapped at base */
  int fd;       /* -1 if no other process needs it */
  /* Behind these bytes: mapped when first used, by the holder whose compare-exchange succeeds. */
  _Atomic uintptr_t parts[SHM_SEGMENT_PARTS_MAX];
  _Atomic size_t
      part_stride;        /* from one part to the next; set, to the same value, by each of them */
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

/* Part `index` of those of part_bytes each that follow the segment's first `bytes`. The segment
 * grows to hold it, if no process has made it so. Any holder may call it; all of them, and the same
 * part of all processes, get the same memory, and all pass the same part_bytes. Valid until the
 * segment is freed. COLL_ERROR_MEMORY: beyond a limit on files, memory or addresses. */
coll_status_t shm_segment_part(shm_segment_t *segment, int index, size_t part_bytes, void **part);

void shm_segment_retain(shm_segment_t *segment);
void shm_segment_release(shm_segment_t *segment);

#endif

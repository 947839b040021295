/*
 * A run of anonymous shared memory: a memfd, which never has a name in a file system and goes away
 * with its last user, however that one dies.
 */
#ifndef TRANSPORT_SHM_SEGMENT_H
#define TRANSPORT_SHM_SEGMENT_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/status.h"

/* Mapped memory shared by the transports of one process. Freed by the last release. */
typedef struct shm_segment {
  void *base;
  size_t bytes;
  int fd;                 /* -1 where no other process needs it */
  _Atomic int references; /* any holder, by atomic add */
} shm_segment_t;

/* Zeroed pages, `bytes` rounded up to whole pages, with one reference. `what` is for the sentence.
 */
coll_status_t shm_segment_create(size_t bytes, const char *what, shm_segment_t **segment);

/* Maps the segment behind fd (of which it takes ownership, on failure too); refuses one that is
 * shorter than `bytes`. */
coll_status_t shm_segment_open(int fd, size_t bytes, const char *what, shm_segment_t **segment);

/* Enters every page into this process's tables now, as large ones where the kernel has them, rather
 * than one fault at a time inside the first calls. Leaves a segment alone that would take most of
 * the memory that is free. */
void shm_segment_populate(shm_segment_t *segment);

void shm_segment_retain(shm_segment_t *segment);
void shm_segment_release(shm_segment_t *segment);

#endif

/* Uses memfd_create and mmap. The size is sealed so that no peer can shrink the segment while
 * others use it. */
#include "transport/shm/segment.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/memory.h"

#define PAGE_BYTES 4096

coll_status_t shm_segment_open(int fd, size_t bytes, const char *what, shm_segment_t **segment) {
  shm_segment_t *made = NULL;
  struct stat file;
  coll_status_t status = COLL_ERROR_SYSTEM;
  if (fstat(fd, &file) != 0 || (size_t)file.st_size < bytes) {
    base_fail(status, "shared memory for %s is shorter than the %zu bytes it should have", what,
              bytes);
    goto close_fd;
  }
  status = base_alloc(1, sizeof *made, what, (void **)&made);
  if (status != COLL_OK) goto close_fd;
  void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) {
    status = base_fail_errno(COLL_ERROR_MEMORY, "cannot map %zu bytes of shared memory for %s",
                             bytes, what);
    goto free_made;
  }
  made->base = base;
  made->bytes = bytes;
  made->fd = fd;
  atomic_init(&made->references, 1);
  *segment = made;
  return COLL_OK;

free_made:
  free(made);
close_fd:
  close(fd);
  return status;
}

coll_status_t shm_segment_create(size_t bytes, const char *what, shm_segment_t **segment) {
  bytes = base_round_up(bytes, PAGE_BYTES);
  int fd = memfd_create("libcoll", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "cannot create shared memory for %s", what);
  }
  if (ftruncate(fd, (off_t)bytes) != 0 ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    coll_status_t status = base_fail_errno(
        COLL_ERROR_MEMORY, "cannot size shared memory to %zu bytes for %s", bytes, what);
    close(fd);
    return status;
  }
  return shm_segment_open(fd, bytes, what, segment);
}

void shm_segment_populate(shm_segment_t *segment) {
  struct sysinfo machine;
  if (sysinfo(&machine) != 0 || segment->bytes / machine.mem_unit > machine.freeram / 2) return;
  madvise(segment->base, segment->bytes, MADV_HUGEPAGE);
  base_populate(segment->base, segment->bytes);
}

void shm_segment_retain(shm_segment_t *segment) {
  atomic_fetch_add_explicit(&segment->references, 1, memory_order_relaxed);
}

void shm_segment_release(shm_segment_t *segment) {
  if (segment == NULL) return;
  /* acq_rel: the last holder sees all writes of the others before it unmaps the memory */
  if (atomic_fetch_sub_explicit(&segment->references, 1, memory_order_acq_rel) != 1) return;
  munmap(segment->base, segment->bytes);
  if (segment->fd >= 0) close(segment->fd);
  free(segment);
}

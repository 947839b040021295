/* Uses memfd_create and mmap. A seal keeps peers from shrinking the segment while others use it. */
#include "transport/shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/alloc.h"

#define PAGE_BYTES 4096
#define PART_ALIGNMENT 65536 /* the largest page of any processor that Linux runs on */

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

/* The kernel ends a process that makes a file longer than its limit by SIGXFSZ. */
static coll_status_t check_file_limit(size_t bytes, const char *what) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || bytes <= limit.rlim_cur) return COLL_OK;
  return base_fail(COLL_ERROR_MEMORY,
                   "%s needs %zu bytes of shared memory, but files may have %zu bytes; raise the "
                   "limit (ulimit -f)",
                   what, bytes, (size_t)limit.rlim_cur);
}

coll_status_t shm_segment_create(size_t bytes, const char *what, shm_segment_t **segment) {
  bytes = base_round_up(bytes, PAGE_BYTES);
  COLL_TRY(check_file_limit(bytes, what));
  int fd = memfd_create("libcoll", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "cannot create shared memory for %s", what);
  }
  if (ftruncate(fd, (off_t)bytes) != 0 ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
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

/* ---- parts ----------------------------------------------------------------------------------*/

/* From one part to the next. The last byte of a part is not used. */
static size_t part_stride(size_t part_bytes) {
  return base_round_up(part_bytes + 1, PART_ALIGNMENT);
}

/* Makes the file at least `bytes` long by writing its last byte, as unlike ftruncate that never
 * makes it shorter, if another process makes it longer at the same time. */
static coll_status_t grow(const shm_segment_t *segment, size_t bytes) {
  struct stat file;
  if (fstat(segment->fd, &file) == 0 && (size_t)file.st_size >= bytes) return COLL_OK;
  COLL_TRY(check_file_limit(bytes, "a further channel"));
  ssize_t written;
  do {
    written = pwrite(segment->fd, "", 1, (off_t)bytes - 1);
  } while (written < 0 && errno == EINTR);
  if (written == 1) return COLL_OK;
  return base_fail_errno(COLL_ERROR_MEMORY, "cannot grow shared memory to %zu bytes", bytes);
}

coll_status_t shm_segment_part(shm_segment_t *segment, int index, size_t part_bytes, void **part) {
  size_t stride = part_stride(part_bytes);
  size_t begin = base_round_up(segment->bytes, PART_ALIGNMENT) + (size_t)index * stride;
  _Atomic uintptr_t *slot = &segment->parts[index];
  /* acquire: pairs with the exchange below */
  uintptr_t found = atomic_load_explicit(slot, memory_order_acquire), none = 0;
  if (found == 0) {
    COLL_TRY(grow(segment, begin + stride));
    void *made = mmap(NULL, stride, PROT_READ | PROT_WRITE, MAP_SHARED, segment->fd, (off_t)begin);
    if (made == MAP_FAILED) {
      return base_fail_errno(COLL_ERROR_MEMORY, "cannot map %zu bytes of shared memory", stride);
    }
    found = (uintptr_t)made;
    atomic_store_explicit(&segment->part_stride, stride, memory_order_relaxed);
    if (!atomic_compare_exchange_strong_explicit(slot, &none, found, memory_order_acq_rel,
                                                 memory_order_acquire)) {
      munmap(made, stride);
      found = none;
    }
  }
  *part = (void *)found;
  return COLL_OK;
}

static void unmap_parts(shm_segment_t *segment) {
  size_t stride = atomic_load_explicit(&segment->part_stride, memory_order_relaxed);
  for (int i = 0; stride > 0 && i < SHM_SEGMENT_PARTS_MAX; i++) {
    void *part = (void *)atomic_load_explicit(&segment->parts[i], memory_order_relaxed);
    if (part != NULL) munmap(part, stride);
  }
}

void shm_segment_retain(shm_segment_t *segment) {
  atomic_fetch_add_explicit(&segment->references, 1, memory_order_relaxed);
}

void shm_segment_release(shm_segment_t *segment) {
  if (segment == NULL) return;
  /* acq_rel: the last holder sees all writes of the others before it unmaps the memory */
  if (atomic_fetch_sub_explicit(&segment->references, 1, memory_order_acq_rel) != 1) return;
  unmap_parts(segment);
  munmap(segment->base, segment->bytes);
  if (segment->fd >= 0) close(segment->fd);
  free(segment);
}

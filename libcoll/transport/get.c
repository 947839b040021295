/* A read that ends early stopped at a page that is not there; the next one reports why. */
#include "transport/get.h"

#include <errno.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#define BYTES_MAX ((size_t)1 << 30) /* the kernel reads less than 2 GiB at once */

static ssize_t read_once(int pid, void *dst, uint64_t address, size_t bytes) {
  struct iovec to = {.iov_base = dst, .iov_len = bytes};
  struct iovec from = {.iov_base = (void *)(uintptr_t)address, .iov_len = bytes};
  return process_vm_readv(pid, &to, 1, &from, 1, 0);
}

coll_status_t transport_get(int pid, void *dst, uint64_t address, size_t bytes, bool *gone) {
  *gone = false;
  while (bytes > 0) {
    ssize_t count = read_once(pid, dst, address, bytes < BYTES_MAX ? bytes : BYTES_MAX);
    if (count <= 0) {
      *gone = count < 0 && errno == ESRCH;
      if (*gone) return COLL_OK;
      return base_fail_errno(COLL_ERROR_SYSTEM, "cannot read %zu bytes at %#llx of process %d",
                             bytes, (unsigned long long)address, pid);
    }
    dst = (char *)dst + count;
    address += (uint64_t)count;
    bytes -= (size_t)count;
  }
  return COLL_OK;
}

bool transport_get_works(int pid, const transport_probe_t *probe) {
  uint64_t number;
  if (read_once(pid, &number, probe->address, sizeof number) != (ssize_t)sizeof number) {
    return false;
  }
  errno = EPROTO;
  return number == probe->number;
}

void transport_get_permit(int launcher) {
  FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "r");
  if (file == NULL) return;
  bool is_restricted = fgetc(file) == '1';
  fclose(file);
  if (is_restricted) prctl(PR_SET_PTRACER, (unsigned long)launcher, 0, 0, 0);
}

/*
 * Memory that peers can map: the coll_mem functions of coll.h.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "comm/comm.h"
#include "transport/memory.h"

#define HOST (-1) /* the device of host memory */

struct coll_registration {
  char nothing;
};

coll_status_t coll_mem_alloc(size_t bytes, void **ptr) {
  return coll_mem_alloc_device(HOST, bytes, ptr);
}

coll_status_t coll_mem_alloc_device(int device, size_t bytes, void **ptr) {
  if (ptr == NULL) {
    return base_fail(COLL_ERROR_INVALID, "no place for the address of the memory: ptr is NULL");
  }
  if (device < HOST) {
    return base_fail(COLL_ERROR_INVALID,
                     "coll_mem_alloc_device: device %d does not exist: use -1 for host memory, or "
                     "the index of a GPU",
                     device);
  }
  if (device > HOST) {
    return base_fail(COLL_ERROR_UNSUPPORTED,
                     "coll_mem_alloc_device: device %d: this build cannot allocate memory of GPUs; "
                     "use -1 for host memory",
                     device);
  }
  return transport_memory_alloc(bytes, ptr);
}

coll_status_t coll_mem_free(void *ptr) {
  return transport_memory_free(ptr);
}

/* Every call finds out for itself whether memory can be mapped, so a registration prepares nothing.
 */
coll_status_t coll_mem_register(coll_comm_t comm, void *ptr, size_t bytes,
                                coll_registration_t *handle) {
  struct coll_registration *made = NULL;
  COLL_TRY(comm_check(comm));
  if (handle == NULL || (ptr == NULL && bytes > 0)) {
    return base_fail(COLL_ERROR_INVALID, "coll_mem_register: %s is NULL",
                     handle == NULL ? "handle" : "ptr");
  }
  COLL_TRY(base_alloc(1, sizeof *made, "a registration", (void **)&made));
  *handle = made;
  return COLL_OK;
}

coll_status_t coll_mem_deregister(coll_registration_t handle) {
  free(handle);
  return COLL_OK;
}

/*
 * Memory that peers can map: the coll_mem functions of coll.h.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "comm/comm.h"
#include "transport/memory.h"

struct coll_registration {
  char nothing;
};

coll_status_t coll_mem_alloc(size_t bytes, void **ptr) {
  if (ptr == NULL) return base_fail(COLL_ERROR_INVALID, "coll_mem_alloc: ptr is NULL");
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

/*
 * Exits from the fast path to the slow path.
 */
#include "run/fastpath.h"

#include "run/batch.h"

coll_status_t comm_fastpath_resume(struct coll_comm *comm, comm_cache_entry_t *entry,
                                   coll_status_t status) {
  const comm_call_t call = {
      .comm = comm, .shape = entry->shape, .send = entry->call.input, .recv = entry->call.output};
  return comm_call_resume(&call, entry, status);
}

coll_status_t comm_fastpath_fail(struct coll_comm *comm, comm_cache_entry_t *entry) {
  return comm_fastpath_resume(comm, entry, comm_fail_finished(comm));
}

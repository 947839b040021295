/*
 * Exits from the fast path to the slow path.
 */
#include "run/fastpath.h"

#include "run/batch.h"

coll_status_t run_fastpath_resume(struct coll_comm *comm, comm_cache_entry_t *entry,
                                  coll_status_t status) {
  const run_call_t call = {
      .comm = comm, .shape = entry->shape, .send = entry->call.input, .recv = entry->call.output};
  return run_call_resume(&call, entry, status);
}

coll_status_t run_fastpath_fail(struct coll_comm *comm, comm_cache_entry_t *entry) {
  return run_fastpath_resume(comm, entry, comm_fail_again(comm));
}

/* Where calls like an earlier one leave the short way. */
#include "comm/fastpath.h"

#include "comm/batch.h"

coll_status_t comm_fastpath_resume(struct coll_comm *comm, comm_cache_entry_t *prepared,
                                   coll_status_t status) {
  const comm_call_t call = {.comm = comm,
                            .shape = prepared->shape,
                            .send = prepared->call.input,
                            .recv = prepared->call.output};
  return comm_call_resume(&call, prepared, status);
}

coll_status_t comm_fastpath_fail(struct coll_comm *comm, comm_cache_entry_t *prepared) {
  return comm_fastpath_resume(comm, prepared, comm_fail_finished(comm));
}

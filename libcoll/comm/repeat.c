/* Where calls like an earlier one leave the short way. */
#include "comm/repeat.h"

#include "comm/batch.h"

coll_status_t comm_repeat_resume(struct coll_comm *comm, comm_prepared_t *prepared,
                                 coll_status_t status) {
  const comm_call_t call = {.comm = comm,
                            .shape = prepared->shape,
                            .send = prepared->call.input,
                            .recv = prepared->call.output};
  return comm_call_resume(&call, prepared, status);
}

coll_status_t comm_repeat_give_up(struct coll_comm *comm, comm_prepared_t *prepared) {
  return comm_repeat_resume(comm, prepared, comm_say_failure(comm));
}

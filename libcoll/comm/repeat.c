/* All that a call needs which is like an earlier one. */
#include "comm/repeat.h"

#include "comm/batch.h"
#include "engine/tag.h"

/* As far as it goes at once; *number is the call's, where it was begun. */
BASE_INLINE coll_status_t begin(struct coll_comm *comm, comm_prepared_t *prepared, const void *send,
                                void *recv, uint64_t *number, bool *done) {
  COLL_TRY(comm_failure(comm));
  *number = comm->sequence++;
  comm->used[comm_traits_of(prepared->shape).collective] = prepared->plan->algo;
  prepared->call.input = send;
  prepared->call.output = recv;
  prepared->call.tag = engine_tag_of_call(prepared->tag, *number);
  return engine_run_again(&prepared->run, done);
}

BASE_APART static coll_status_t resume(struct coll_comm *comm, uint64_t ticket,
                                       comm_prepared_t *prepared, const void *send, void *recv,
                                       uint64_t number, coll_status_t status) {
  const comm_call_t call = {.comm = comm, .shape = prepared->shape, .send = send, .recv = recv};
  return comm_call_resume(&call, ticket, prepared, number, status);
}

coll_status_t comm_repeat(struct coll_comm *comm, uint64_t ticket, comm_prepared_t *prepared,
                          const void *send, void *recv) {
  bool done = false;
  uint64_t number = 0;
  coll_status_t status = begin(comm, prepared, send, recv, &number, &done);
  if (!done) return resume(comm, ticket, prepared, send, recv, number, status);
  comm->local->ops->complete(comm->local, number + 1);
  comm_turn_pass(comm, ticket);
  return COLL_OK;
}

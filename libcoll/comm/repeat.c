/* All that a call needs which is like an earlier one. */
#include "comm/repeat.h"

#include "comm/batch.h"
#include "engine/tag.h"

/* As far as it goes at once; whether that is to its end. If not, *status: what is wrong, if
 * anything is. */
BASE_INLINE bool run(struct coll_comm *comm, comm_prepared_t *prepared, const void *send,
                     void *recv, coll_status_t *status) {
  uint64_t number = comm->sequence;
  comm->sequence = number + 1;
  comm->used[comm_traits_of(prepared->shape).collective] = prepared->plan->algo;
  prepared->call.input = send;
  prepared->call.output = recv;
  prepared->call.tag = engine_tag_of_call(prepared->tag, number);
  if (!engine_run_again(&prepared->run, status)) return false;
  transport_complete(comm->local, comm->sequence);
  return true;
}

BASE_APART static coll_status_t resume(struct coll_comm *comm, comm_prepared_t *prepared,
                                       coll_status_t status) {
  const comm_call_t call = {.comm = comm,
                            .shape = prepared->shape,
                            .send = prepared->call.input,
                            .recv = prepared->call.output};
  return comm_call_resume(&call, prepared, status);
}

/* The communicator has failed. */
BASE_COLD static coll_status_t give_up(struct coll_comm *comm, comm_prepared_t *prepared) {
  return resume(comm, prepared, comm_say_failure(comm));
}

coll_status_t comm_repeat(struct coll_comm *comm, comm_prepared_t *prepared, const void *send,
                          void *recv) {
  coll_status_t status;
  if (!comm_is_sound(comm)) return give_up(comm, prepared);
  if (!run(comm, prepared, send, recv, &status)) return resume(comm, prepared, status);
  comm_turn_pass(comm);
  return COLL_OK;
}

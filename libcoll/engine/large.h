/*
 * Large messages whose size only a pair of ranks knows (coll_send, coll_alltoallv). Instead of the
 * data, the sender sends the address of its buffer. The receiver copies from there, directly where
 * the buffer is mapped, else by the transport's get, and between hosts by its fetch. It then
 * acknowledges with a signal, for which the sender waits at the end of the first pass. (In MPI and
 * UCX: rendezvous protocol with a read by the receiver.) The sender decides: it sends the data
 * itself, in as many messages as passes, if the receiver could not read the buffer. The receiver
 * accepts either.
 */
#ifndef ENGINE_LARGE_H
#define ENGINE_LARGE_H

#include "engine/message.h"

/* Longer messages than this are large: shorter ones may not wait for their receiver (coll.h). */
#define ENGINE_LARGE_BYTES_MIN TRANSPORT_P2P_BYTES

/* Whether a call may have large messages. */
static inline bool engine_call_may_be_large(const engine_call_t *call) {
  return call->count_per_pair && call->count * call->element_bytes > ENGINE_LARGE_BYTES_MIN;
}

/* Clears the state of large messages at the begin of a call that may have some. */
coll_status_t engine_large_begin(engine_run_t *run);

/* A call with large messages has failed: no peer reads the buffers of this rank any more, and
 * nothing is written to them. */
void engine_large_stop(engine_run_t *run);

/* Each of these tries to complete the action of its name. */
coll_status_t engine_large_send(engine_run_t *run, const engine_action_t *action, bool *done);
coll_status_t engine_large_recv(engine_run_t *run, const engine_action_t *action, bool *done);
coll_status_t engine_large_await(engine_run_t *run, const engine_action_t *action, bool *done);

/* Whether the ENGINE_AWAIT_READ still lacks the peer's acknowledgement. */
bool engine_large_is_awaited(const engine_run_t *run, const engine_action_t *action);

#endif

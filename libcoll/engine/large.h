/*
 * Large messages whose size only a pair of ranks knows (coll_send, coll_alltoallv, coll_scatterv).
 * Instead of the data, the sender sends the address of its buffer. The receiver copies from there,
 * directly where the buffer is mapped, else by the transport's get, and between hosts by its fetch.
 * It then acknowledges with a signal, for which the sender waits at the end of the last pass that
 * has a part of the message. (In MPI and UCX: rendezvous protocol with a read by the receiver.) The
 * sender decides: it sends the data itself, in as many messages as passes, if the receiver could
 * not read the buffer. The receiver accepts either. In coll_gatherv the sender may store the data
 * instead (put.h).
 */
#ifndef ENGINE_LARGE_H
#define ENGINE_LARGE_H

#include "engine/message.h"

/* Longer messages than this are large: shorter ones of coll_send may not wait for their receiver
 * (coll.h), and others gain by it only in mapped memory. */
#define ENGINE_LARGE_BYTES_MIN TRANSPORT_P2P_BYTES

/* From this size on messages of collectives are large in mapped memory, where a copy saved is worth
 * more than the receiver's answer costs. */
#define ENGINE_LARGE_MAPPED_BYTES_MIN 4096

/* What is sent in place of the data. */
typedef struct engine_offer {
  transport_address_t address;   /* segment 0: not mapped */
  transport_exposure_t exposure; /* if is_exposed */
  uint32_t is_exposed;
  uint32_t is_stored; /* no address: the data is in the receiver's buffer (put.h) */
} engine_offer_t;

/* Whether messages of this size may be large. */
static inline bool engine_bytes_may_be_large(const plan_t *plan, size_t bytes) {
  bool is_send = plan->shape.collective == COLL_SENDRECV;
  return is_send ? bytes > ENGINE_LARGE_BYTES_MIN : bytes >= ENGINE_LARGE_MAPPED_BYTES_MIN;
}

/* Whether a call may have large messages. */
static inline bool engine_call_may_be_large(const engine_call_t *call, const plan_t *plan) {
  return call->count_per_pair && engine_bytes_may_be_large(plan, call->count * call->element_bytes);
}

/* Bytes of the action's whole message, over all passes. */
size_t engine_large_bytes(const engine_call_t *call, const engine_action_t *action);

/* Whether a later pass has an action of the same message, in which a rank may as well wait for its
 * peer: until then it does its own work. */
bool engine_large_is_later(const engine_run_t *run, const engine_action_t *action);

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

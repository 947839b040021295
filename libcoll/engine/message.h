/* Actions that send or receive a message. */
#ifndef ENGINE_MESSAGE_H
#define ENGINE_MESSAGE_H

#include "engine/compute.h"

/* The identity of the action's message: the call's, with the pair's count where counts differ by
 * pair. */
flight_call_t engine_message_id(const engine_call_t *call, const engine_action_t *action);

/* Checks that the received message is the one that the action expects; COLL_ERROR_MISMATCH if not.
 * check_id: the slow path, which also handles counts that differ by pair, and creates the error. */
BASE_APART coll_status_t engine_message_check_id(const engine_run_t *run,
                                                 const engine_action_t *action,
                                                 const engine_peer_t *peer,
                                                 const transport_head_t *head);

BASE_INLINE coll_status_t engine_message_check(const engine_run_t *run,
                                               const engine_action_t *action,
                                               const engine_peer_t *peer,
                                               const transport_head_t *head) {
  if (flight_call_is(head->call, run->call->id) && head->bytes == action->bytes) return COLL_OK;
  return engine_message_check_id(run, action, peer, head);
}

/* Shorter messages have arrived as a whole when they are looked for, and one system call brings
 * header and data to the transport's memory; of longer ones, more than the data is copied. */
#define ENGINE_DIRECT_BYTES_MIN 49152

/* Whether data of a message from the peer is best copied from the transport's memory. */
BASE_INLINE bool engine_message_fetches(const engine_peer_t *peer, size_t bytes) {
  if (!peer->route->peeks) return false;
  bool direct = peer->port != NULL && peer->port->transport->recvs_direct;
  return !direct || bytes < ENGINE_DIRECT_BYTES_MIN;
}

/* Each of the functions below tries to complete the action of its name. *done: it was completed. */

BASE_INLINE coll_status_t engine_message_send(const engine_run_t *run,
                                              const engine_action_t *action, bool *done) {
  const engine_peer_t *peer = &action->peer;
  const transport_head_t head = {.call = run->call->id, .bytes = action->bytes};
  return peer->route->ops->send(peer->port, engine_address(run, action->operands), &head, done);
}

BASE_INLINE coll_status_t engine_message_send_lent(const engine_run_t *run,
                                                   const engine_action_t *action, bool *done) {
  const engine_peer_t *peer = &action->peer;
  const transport_head_t head = {.call = run->call->id, .bytes = action->bytes};
  run->world->lends = true;
  return peer->route->ops->send_lent(peer->port, engine_address(run, action->operands), &head,
                                     done);
}

BASE_INLINE coll_status_t engine_message_mcast_send(const engine_run_t *run,
                                                    const engine_action_t *action, bool *done) {
  transport_t *route = action->peer.route;
  const transport_head_t head = {.call = run->call->id, .bytes = action->bytes};
  return route->ops->mcast_send(route, engine_address(run, action->operands), &head, done);
}

BASE_INLINE coll_status_t engine_message_recv(const engine_run_t *run,
                                              const engine_action_t *action, bool *done) {
  const engine_peer_t *peer = &action->peer;
  char *data = engine_address(run, action->operands);
  transport_head_t head;
  COLL_TRY(peer->route->ops->recv_post(peer->port, data, action->bytes, &head, done));
  return *done ? engine_message_check(run, action, peer, &head) : COLL_OK;
}

coll_status_t engine_message_send_pieces(const engine_run_t *run, const engine_action_t *action,
                                         bool *done);
coll_status_t engine_message_recv_fetch(const engine_run_t *run, const engine_action_t *action,
                                        bool *done);
coll_status_t engine_message_recv_pieces(const engine_run_t *run, const engine_action_t *action,
                                         bool *done);
coll_status_t engine_message_mcast_recv(const engine_run_t *run, const engine_action_t *action,
                                        bool *done);
coll_status_t engine_message_recv_reduce(engine_run_t *run, const engine_action_t *action,
                                         bool *done);

/* Whether the peer's next message has arrived, where the transport can check without receiving
 * it. */
bool engine_message_is_here(const engine_action_t *action, const engine_peer_t *peer);

#endif

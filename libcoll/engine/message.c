/*
 * Contiguous data is copied directly between its memory and the transport. Data in several pieces
 * goes through the packing buffer, which holds data only during one call of a function here.
 */
#include "engine/message.h"

#include "base/inline.h"
#include "engine/compute.h"
#include "engine/mismatch.h"

flight_call_t engine_message_id(const engine_call_t *call, const engine_action_t *action) {
  flight_call_t id = call->id;
  if (engine_call_is_by_pair(call)) id.count = call->history + action->pair_count;
  return id;
}

/* NULL for an empty message. */
static char *data_of(const engine_run_t *run, const engine_action_t *action) {
  if (action->operand_count == 1) return engine_address(run, action->operands);
  return action->operand_count > 1 ? run->world->packing : NULL;
}

/* Gathers the pieces in the packing buffer. */
BASE_APART static coll_status_t pack(const engine_run_t *run, const engine_action_t *action) {
  char *packed = run->world->packing;
  for (uint32_t i = 0; i < action->operand_count; i++) {
    const engine_operand_t *operand = &action->operands[i];
    const char *from = engine_address(run, operand);
    COLL_TRY(run->world->device->copy(packed, from, operand->bytes, 0));
    packed += operand->bytes;
  }
  return COLL_OK;
}

/* Scatters the message to its pieces. */
BASE_APART static coll_status_t unpack(const engine_run_t *run, const engine_action_t *action,
                                       const char *message) {
  for (uint32_t i = 0; i < action->operand_count; i++) {
    const engine_operand_t *operand = &action->operands[i];
    char *to = engine_address(run, operand);
    COLL_TRY(run->world->device->copy(to, message, operand->bytes, operand->bytes));
    message += operand->bytes;
  }
  return COLL_OK;
}

static coll_status_t send_from(const engine_run_t *run, const engine_action_t *action,
                               const char *data, bool *done) {
  const engine_peer_t *peer = &action->peer;
  const transport_ops_t *ops = peer->route->ops;
  const transport_head_t head = {.call = engine_message_id(run->call, action),
                                 .bytes = action->bytes};
  if (action->multicast) return ops->mcast_send(peer->route, data, &head, done);
  if (action->is_lent) {
    run->world->lends = true;
    return ops->send_lent(peer->port, data, &head, done);
  }
  return ops->send(peer->port, data, &head, done);
}

coll_status_t engine_message_send_pieces(const engine_run_t *run, const engine_action_t *action,
                                         bool *done) {
  if (action->operand_count > 1) COLL_TRY(pack(run, action));
  return send_from(run, action, data_of(run, action), done);
}

coll_status_t engine_message_check_id(const engine_run_t *run, const engine_action_t *action,
                                      const engine_peer_t *peer, const transport_head_t *head) {
  flight_call_t id = engine_message_id(run->call, action);
  if (flight_call_is(head->call, id) && head->bytes == action->bytes) return COLL_OK;
  return engine_mismatch(run->world, run->call, id, peer->rank, head->call);
}

static coll_status_t peek(const engine_action_t *action, const engine_peer_t *peer,
                          const void **message, transport_head_t *head, bool *done) {
  const transport_ops_t *ops = peer->route->ops;
  if (action->multicast) return ops->mcast_peek(peer->route, peer->rank, message, head, done);
  return ops->peek(peer->port, message, head, done);
}

static coll_status_t take(const engine_action_t *action, const engine_peer_t *peer) {
  const transport_ops_t *ops = peer->route->ops;
  return action->multicast ? ops->mcast_take(peer->route, peer->rank) : ops->take(peer->port);
}

bool engine_message_is_here(const engine_action_t *action, const engine_peer_t *peer) {
  transport_head_t head;
  const void *message;
  bool here = false;
  if (!action->multicast && !peer->route->peeks) return false;
  return peek(action, peer, &message, &head, &here) == COLL_OK && here;
}

/* From the transport's memory. */
static coll_status_t recv_peeked(const engine_run_t *run, const engine_action_t *action,
                                 bool *done) {
  const engine_peer_t *peer = &action->peer;
  transport_head_t head;
  const void *message;
  COLL_TRY(peek(action, peer, &message, &head, done));
  if (!*done) return COLL_OK;
  COLL_TRY(engine_message_check(run, action, peer, &head));
  COLL_TRY(unpack(run, action, message));
  return take(action, peer);
}

coll_status_t engine_message_mcast_recv(const engine_run_t *run, const engine_action_t *action,
                                        bool *done) {
  return recv_peeked(run, action, done);
}

coll_status_t engine_message_recv_fetch(const engine_run_t *run, const engine_action_t *action,
                                        bool *done) {
  const engine_peer_t *peer = &action->peer;
  transport_head_t head;
  const void *message;
  COLL_TRY(peer->route->ops->peek(peer->port, &message, &head, done));
  if (!*done) return COLL_OK;
  COLL_TRY(engine_message_check(run, action, peer, &head));
  COLL_TRY(run->world->device->fetch(engine_address(run, action->operands), message, action->bytes,
                                     action->nontemporal_hint));
  return peer->route->ops->take(peer->port);
}

coll_status_t engine_message_recv_pieces(const engine_run_t *run, const engine_action_t *action,
                                         bool *done) {
  const engine_peer_t *peer = &action->peer;
  transport_head_t head;
  if (peer->route->peeks) return recv_peeked(run, action, done);
  COLL_TRY(peer->route->ops->recv(peer->port, data_of(run, action), action->bytes, &head, done));
  if (!*done) return COLL_OK;
  COLL_TRY(engine_message_check(run, action, peer, &head));
  return unpack(run, action, run->world->packing);
}

/* Sets the address of the action's index-th message, which is an operand that is never written. */
static void set_message_address(const engine_run_t *run, size_t index, const void *message) {
  run->bound.addresses[run->bound.base_count + index] = (char *)(uintptr_t)message;
}

/* From several senders, or multicast. Not inline: ranks of a tree or a chain have one sender. */
BASE_APART static coll_status_t recv_reduce_many(engine_run_t *run, const engine_action_t *action,
                                                 bool *done) {
  const engine_peer_t *senders = &run->bound.senders[action->senders];
  transport_head_t head;
  for (; run->messages_arrived < action->sender_count; run->messages_arrived++) {
    const engine_peer_t *sender = &senders[run->messages_arrived];
    const void *message;
    COLL_TRY(peek(action, sender, &message, &head, done));
    if (!*done) return COLL_OK;
    COLL_TRY(engine_message_check(run, action, sender, &head));
    set_message_address(run, run->messages_arrived, message);
  }
  run->messages_arrived = 0;
  COLL_TRY(engine_compute_reduce(run, action));
  for (uint16_t i = 0; i < action->sender_count; i++) {
    COLL_TRY(take(action, &senders[i]));
  }
  return COLL_OK;
}

coll_status_t engine_message_recv_reduce(engine_run_t *run, const engine_action_t *action,
                                         bool *done) {
  const engine_peer_t *sender = &action->peer;
  transport_head_t head;
  const void *message;
  if (action->sender_count > 1 || action->multicast) return recv_reduce_many(run, action, done);
  COLL_TRY(sender->route->ops->peek(sender->port, &message, &head, done));
  if (!*done) return COLL_OK;
  COLL_TRY(engine_message_check(run, action, sender, &head));
  set_message_address(run, 0, message);
  COLL_TRY(engine_compute_reduce(run, action));
  return sender->route->ops->take(sender->port);
}

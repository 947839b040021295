/*
 * Data in one piece goes straight between its memory and the transport; data in several pieces by
 * way of the packing buffer, which is only used between two calls of the transport.
 */
#include "engine/message.h"

#include "engine/compute.h"
#include "engine/tag.h"

#define LEFTOVER_CALLS 16

/* The call's tag, or the pair's where counts differ by pair. */
static uint64_t tag_of(const engine_call_t *call, const engine_action_t *action) {
  if (!call->count_per_pair || call->input_blocks.counts == NULL) return call->tag;
  return engine_tag_recount(call->tag, action->pair_count, 0);
}

/* Where the message is gathered or goes: NULL for one without bytes. */
static char *data_of(const engine_world_t *world, const engine_bound_t *bound,
                     const engine_action_t *action) {
  if (action->operand_count == 0) return NULL;
  if (action->operand_count > 1) return world->packing;
  return engine_address(bound, &bound->operands[action->operands], NULL);
}

static coll_status_t pack(const engine_world_t *world, const engine_bound_t *bound,
                          const engine_action_t *action) {
  char *packed = world->packing;
  for (uint32_t i = 0; i < action->operand_count; i++) {
    const engine_operand_t *operand = &bound->operands[action->operands + i];
    COLL_TRY(world->device->copy(packed, engine_address(bound, operand, NULL), operand->bytes));
    packed += operand->bytes;
  }
  return COLL_OK;
}

coll_status_t engine_message_send(const engine_world_t *world, const engine_bound_t *bound,
                                  const engine_call_t *call, const engine_action_t *action,
                                  int channel, bool *done) {
  transport_head_t head = {.tag = tag_of(call, action), .bytes = action->bytes};
  if (action->operand_count > 1) COLL_TRY(pack(world, bound, action));
  return action->route->ops->send(action->route, action->peer, channel,
                                  data_of(world, bound, action), &head, done);
}

coll_status_t engine_message_post(const engine_world_t *world, const engine_bound_t *bound,
                                  const engine_call_t *call, const engine_action_t *action,
                                  bool *done) {
  transport_head_t head = {.tag = tag_of(call, action), .bytes = action->bytes};
  if (action->operand_count > 1) COLL_TRY(pack(world, bound, action));
  return action->route->ops->post(action->route, data_of(world, bound, action), &head, done);
}

static coll_status_t check_head(const engine_world_t *world, const engine_call_t *call,
                                const engine_action_t *action, int32_t peer,
                                const transport_head_t *head) {
  uint64_t tag = tag_of(call, action);
  if (head->tag == tag && head->bytes == action->bytes) return COLL_OK;
  return engine_tag_mismatch(world->rank, tag, peer, head->tag);
}

static coll_status_t peek(const engine_action_t *action, int32_t peer, int channel,
                          const void **message, transport_head_t *head, bool *done) {
  transport_t *route = action->route;
  if (action->posted) return route->ops->peek_post(route, peer, message, head, done);
  return route->ops->peek(route, peer, channel, message, head, done);
}

static coll_status_t take(const engine_action_t *action, int32_t peer, int channel) {
  transport_t *route = action->route;
  if (action->posted) return route->ops->take_post(route, peer);
  return route->ops->take(route, peer, channel);
}

bool engine_message_is_here(const engine_action_t *action, int32_t peer, int channel) {
  transport_head_t head;
  const void *message;
  bool here = false;
  if (!action->posted && !action->route->peeks) return false;
  return peek(action, peer, channel, &message, &head, &here) == COLL_OK && here;
}

/* Posts overtake the messages of an earlier call, which thus may show that ranks were not in the
 * same one. Looked for now and then, as it costs time. */
static coll_status_t check_leftovers(const engine_world_t *world, const engine_bound_t *bound,
                                     const engine_call_t *call, const engine_action_t *action,
                                     int32_t peer) {
  transport_t *route = action->route;
  transport_head_t head;
  const void *message;
  bool here = false;
  if (!action->posted || !route->peeks || bound->calls % LEFTOVER_CALLS != 0) return COLL_OK;
  COLL_TRY(route->ops->peek(route, peer, call->channel, &message, &head, &here));
  if (!here || !engine_tag_is_older(head.tag, call->tag)) return COLL_OK;
  return engine_tag_mismatch(world->rank, call->tag, peer, head.tag);
}

/* The message to where it goes, piece by piece. */
static coll_status_t unpack(const engine_world_t *world, const engine_bound_t *bound,
                            const engine_action_t *action, const char *message) {
  for (uint32_t i = 0; i < action->operand_count; i++) {
    const engine_operand_t *operand = &bound->operands[action->operands + i];
    COLL_TRY(world->device->copy(engine_address(bound, operand, NULL), message, operand->bytes));
    message += operand->bytes;
  }
  return COLL_OK;
}

static coll_status_t recv_post(const engine_world_t *world, const engine_bound_t *bound,
                               const engine_call_t *call, const engine_action_t *action,
                               bool *done) {
  transport_head_t head;
  const void *message;
  COLL_TRY(peek(action, action->peer, 0, &message, &head, done));
  if (!*done) return COLL_OK;
  COLL_TRY(check_head(world, call, action, action->peer, &head));
  COLL_TRY(unpack(world, bound, action, message));
  COLL_TRY(take(action, action->peer, 0));
  return check_leftovers(world, bound, call, action, action->peer);
}

coll_status_t engine_message_recv(const engine_world_t *world, const engine_bound_t *bound,
                                  const engine_call_t *call, const engine_action_t *action,
                                  int channel, bool *done) {
  transport_head_t head;
  if (action->posted) return recv_post(world, bound, call, action, done);
  COLL_TRY(action->route->ops->recv(action->route, action->peer, channel,
                                    data_of(world, bound, action), action->bytes, &head, done));
  if (!*done) return COLL_OK;
  COLL_TRY(check_head(world, call, action, action->peer, &head));
  return action->operand_count > 1 ? unpack(world, bound, action, world->packing) : COLL_OK;
}

coll_status_t engine_message_recv_reduce(const engine_world_t *world, const engine_bound_t *bound,
                                         const engine_call_t *call, const engine_action_t *action,
                                         int channel, uint32_t *arrived, bool *done) {
  const int32_t *senders = &bound->senders[action->senders];
  const void **messages = &bound->messages[action->senders];
  transport_head_t head;
  for (; *arrived < action->sender_count; ++*arrived) {
    int32_t sender = senders[*arrived];
    COLL_TRY(peek(action, sender, channel, &messages[*arrived], &head, done));
    if (!*done) return COLL_OK;
    COLL_TRY(check_head(world, call, action, sender, &head));
  }
  *arrived = 0;
  COLL_TRY(engine_compute_reduce(world, bound, call, action, messages));
  for (uint16_t i = 0; i < action->sender_count; i++) {
    COLL_TRY(take(action, senders[i], channel));
    COLL_TRY(check_leftovers(world, bound, call, action, senders[i]));
  }
  return COLL_OK;
}

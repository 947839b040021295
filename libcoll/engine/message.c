/*
 * Data in one piece goes straight between its memory and the transport; data in several pieces by
 * way of the packing buffer, which is only used between two calls of the transport.
 */
#include "engine/message.h"

#include "engine/compute.h"
#include "engine/tag.h"

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

/* Between the pieces and the packing buffer, in the given direction. */
static coll_status_t repack(const engine_world_t *world, const engine_bound_t *bound,
                            const engine_action_t *action, bool pack) {
  char *packed = world->packing;
  for (uint32_t i = 0; i < action->operand_count; i++) {
    const engine_operand_t *operand = &bound->operands[action->operands + i];
    char *piece = engine_address(bound, operand, NULL);
    COLL_TRY(world->device->copy(pack ? packed : piece, pack ? piece : packed, operand->bytes));
    packed += operand->bytes;
  }
  return COLL_OK;
}

coll_status_t engine_message_send(const engine_world_t *world, const engine_bound_t *bound,
                                  const engine_call_t *call, const engine_action_t *action,
                                  int channel, bool *done) {
  transport_head_t head = {.tag = tag_of(call, action), .bytes = action->bytes};
  if (action->operand_count > 1) COLL_TRY(repack(world, bound, action, true));
  return action->route->ops->send(action->route, action->peer, channel,
                                  data_of(world, bound, action), &head, done);
}

static coll_status_t check_head(const engine_world_t *world, const engine_call_t *call,
                                const engine_action_t *action, const transport_head_t *head) {
  uint64_t tag = tag_of(call, action);
  if (head->tag == tag && head->bytes == action->bytes) return COLL_OK;
  return engine_tag_mismatch(world->rank, tag, action->peer, head->tag);
}

coll_status_t engine_message_recv(const engine_world_t *world, const engine_bound_t *bound,
                                  const engine_call_t *call, const engine_action_t *action,
                                  int channel, bool *done) {
  transport_head_t head;
  COLL_TRY(action->route->ops->recv(action->route, action->peer, channel,
                                    data_of(world, bound, action), action->bytes, &head, done));
  if (!*done) return COLL_OK;
  COLL_TRY(check_head(world, call, action, &head));
  return action->operand_count > 1 ? repack(world, bound, action, false) : COLL_OK;
}

coll_status_t engine_message_recv_reduce(const engine_world_t *world, const engine_bound_t *bound,
                                         const engine_call_t *call, const engine_action_t *action,
                                         int channel, bool *done) {
  const transport_ops_t *ops = action->route->ops;
  transport_head_t head;
  const void *message;
  COLL_TRY(ops->peek(action->route, action->peer, channel, &message, &head, done));
  if (!*done) return COLL_OK;
  COLL_TRY(check_head(world, call, action, &head));
  COLL_TRY(engine_compute_reduce(world, bound, call, action, message));
  return ops->take(action->route, action->peer, channel);
}

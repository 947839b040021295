/* Each list grows as needed; the bound program owns them all. */
#include "engine/binder.h"

#include "base/alloc.h"

coll_status_t engine_binder_add_base(engine_bound_t *bound, int rank, plan_buffer_t buffer,
                                     uint32_t *index) {
  for (size_t i = bound->base_count; i-- > 0;) {
    if (bound->bases[i].rank == rank && bound->bases[i].buffer == buffer) {
      *index = (uint32_t)i;
      return COLL_OK;
    }
  }
  size_t needed = bound->base_count + 1;
  COLL_TRY(base_grow((void **)&bound->bases, &bound->base_capacity, needed, sizeof *bound->bases,
                     "a program's buffers"));
  COLL_TRY(base_grow((void **)&bound->addresses, &bound->address_capacity, needed,
                     sizeof *bound->addresses, "a program's addresses"));
  bound->bases[bound->base_count] = (engine_base_t){.rank = rank, .buffer = buffer};
  *index = (uint32_t)bound->base_count++;
  return COLL_OK;
}

coll_status_t engine_binder_add_operand(engine_binder_t *b, engine_action_t *action,
                                        const plan_span_t *span, int32_t pieces, int32_t index) {
  engine_bound_t *bound = b->bound;
  const engine_layout_t *layout = &b->layout;
  size_t element_bytes = layout->call->element_bytes;
  engine_piece_t piece = engine_span_piece(layout, span, pieces, index);
  size_t shift = span->buffer == PLAN_SCRATCH ? 0 : layout->pass.first;
  engine_operand_t operand = {.offset = (piece.start - shift) * element_bytes,
                              .bytes = piece.elements * element_bytes};
  COLL_TRY(engine_binder_add_base(bound, span->rank, span->buffer, &operand.base));
  COLL_TRY(base_grow((void **)&bound->operands, &bound->operand_capacity, bound->operand_count + 1,
                     sizeof *bound->operands, "a program's operands"));
  bound->operands[bound->operand_count++] = operand;
  action->operand_count++;
  return COLL_OK;
}

engine_action_t engine_binder_begin(const engine_binder_t *b, engine_action_kind_t kind) {
  return (engine_action_t){
      .kind = kind, .step = (uint32_t)b->step, .first = (uint32_t)b->bound->operand_count};
}

engine_peer_t engine_binder_peer(engine_binder_t *b, int32_t rank, int32_t channel) {
  transport_t *route = b->world->routes[rank];
  int number = b->layout.call->channel + transport_channel_of(channel);
  engine_peer_t peer = {
      .rank = rank, .route = route, .port = route->ops->port(route, rank, number)};
  if (peer.port == NULL && number >= TRANSPORT_CHANNELS) b->lacks_port = true;
  return peer;
}

engine_peer_t engine_binder_sender(engine_binder_t *b, size_t step) {
  const plan_step_t *recv = &b->lane->steps[step];
  return engine_binder_peer(b, recv->recv.peer, recv->recv.channel);
}

coll_status_t engine_binder_add_action(engine_binder_t *b, const engine_action_t *action) {
  engine_bound_t *bound = b->bound;
  COLL_TRY(base_grow((void **)&bound->actions, &bound->action_capacity, bound->action_count + 1,
                     sizeof *bound->actions, "a program's actions"));
  bound->actions[bound->action_count++] = *action;
  return COLL_OK;
}

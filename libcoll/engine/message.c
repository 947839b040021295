/*
 * A span in one piece goes straight between its memory and the transport; one in several pieces by
 * way of the packing buffer, which is only used between two calls of the transport.
 */
#include "engine/message.h"

#include "engine/tag.h"

/* The tag a message of this span carries: the call's, or the pair's where counts differ by pair. */
static uint64_t message_tag(const engine_place_t *place, const plan_span_t *span) {
  const engine_call_t *call = place->call;
  const engine_blocks_t *blocks =
      span->buffer == PLAN_INPUT ? &call->input_blocks : &call->output_blocks;
  if (!call->count_per_pair || blocks->counts == NULL) return call->tag;
  return engine_tag_recount(call->tag, blocks->counts[span->first], 0);
}

/* Both ends leave out messages that would be empty, but for the first between a pair that has its
 * count checked. */
static void resolve(engine_message_t *message, const engine_place_t *place, const plan_span_t *span,
                    bool opening) {
  message->pieces = engine_span_pieces(place, span);
  if (message->pieces == 1) {
    engine_piece_t piece = engine_span_piece(place, span, 1, 0);
    message->data = piece.ptr;
    message->bytes = piece.elements * place->call->element_bytes;
  } else {
    message->data = place->world->packing;
    message->bytes = engine_span_bytes(place, span);
  }
  message->tag = message_tag(place, span);
  message->left_out = message->bytes == 0 && !(opening && place->call->count_per_pair);
  message->resolved = true;
}

/* Between the span's pieces and the packing buffer, in the given direction. */
static coll_status_t repack(const engine_message_t *message, const engine_place_t *place,
                            const plan_span_t *span, bool pack) {
  char *packed = message->data;
  for (int32_t i = 0; i < message->pieces; i++) {
    engine_piece_t piece = engine_span_piece(place, span, message->pieces, i);
    size_t bytes = piece.elements * place->call->element_bytes;
    char *to = pack ? packed : piece.ptr;
    const char *from = pack ? piece.ptr : packed;
    COLL_TRY(place->world->device->copy(to, from, bytes));
    packed += bytes;
  }
  return COLL_OK;
}

static coll_status_t send(const engine_message_t *message, const engine_place_t *place,
                          const plan_step_t *step, int channel, bool *done) {
  transport_head_t head = {.tag = message->tag, .bytes = message->bytes};
  transport_t *route = place->world->routes[step->send.peer];
  if (message->pieces > 1) COLL_TRY(repack(message, place, &step->send.src, true));
  return route->ops->send(route, step->send.peer, channel, message->data, &head, done);
}

static coll_status_t recv(const engine_message_t *message, const engine_place_t *place,
                          const plan_step_t *step, int channel, bool *done) {
  transport_head_t head;
  int peer = step->recv.peer;
  transport_t *route = place->world->routes[peer];
  COLL_TRY(route->ops->recv(route, peer, channel, message->data, message->bytes, &head, done));
  if (!*done) return COLL_OK;
  if (head.tag != message->tag || head.bytes != message->bytes) {
    return engine_tag_mismatch(place->world->rank, message->tag, peer, head.tag);
  }
  return message->pieces == 1 ? COLL_OK : repack(message, place, &step->recv.dst, false);
}

coll_status_t engine_message_move(engine_message_t *message, const engine_place_t *place,
                                  const plan_step_t *step, int lane, bool opening, bool *done) {
  bool sends = step->kind == PLAN_SEND;
  int channel = place->call->channel + lane;
  if (!message->resolved) {
    resolve(message, place, sends ? &step->send.src : &step->recv.dst, opening);
  }
  *done = true;
  if (message->left_out) return COLL_OK;
  return sends ? send(message, place, step, channel, done)
               : recv(message, place, step, channel, done);
}

/* FIFOs of messages and signals whose room is granted by the receiver (frame.h). */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "transport/net/channel/state.h"

#define LONG_BYTES 4096 /* of a post, whose message is then read by a system call of its own */

coll_status_t net_fifo_find(net_peer_t *peer, int channel, net_fifo_t **fifo) {
  net_fifo_t **place = &peer->fifos[channel];
  if (*place == NULL) {
    net_fifo_t *made = NULL;
    COLL_TRY(base_alloc(1, sizeof *made, "a channel", (void **)&made));
    made->port.transport = peer->all->transport;
    made->peer = peer;
    made->channel = (uint16_t)channel;
    made->limit = channel == TRANSPORT_CHANNEL_P2P ? NET_P2P_MESSAGES : NET_MESSAGES;
    *place = made;
  }
  *fifo = *place;
  return COLL_OK;
}

void net_fifo_free(net_fifo_t *fifo) {
  if (fifo == NULL) return;
  for (wire_message_t *message = fifo->oldest, *next; message != NULL; message = next) {
    next = message->next;
    wire_message_release(message);
  }
  free(fifo);
}

/* ---- sending --------------------------------------------------------------------------------*/

static coll_status_t send_frame(net_fifo_t *fifo, net_kind_t kind, const flight_call_t *call,
                                const void *payload, size_t bytes, bool is_lent) {
  const net_frame_t frame = {.kind = (uint8_t)kind,
                             .channel = fifo->channel,
                             .bytes = (uint32_t)bytes,
                             .messages_taken = fifo->taken,
                             .signals_taken = fifo->signals_taken,
                             .call = call != NULL ? *call : (flight_call_t){0}};
  if (fifo->told != fifo->taken || fifo->signals_told != fifo->signals_taken) fifo->wanted = false;
  fifo->told = fifo->taken;
  fifo->untold_bytes = 0;
  fifo->signals_told = fifo->signals_taken;
  return net_route_send(fifo->peer, &frame, payload, is_lent);
}

coll_status_t net_fifo_credit(net_fifo_t *fifo) {
  return send_frame(fifo, NET_CREDIT, NULL, NULL, 0, false);
}

/* Asks the peer once to tell what it takes. */
static coll_status_t want_room(net_fifo_t *fifo) {
  if (fifo->want_sent) return COLL_OK;
  fifo->want_sent = true;
  return send_frame(fifo, NET_WANT, NULL, NULL, 0, false);
}

static bool is_full(const net_fifo_t *fifo, size_t bytes) {
  bool has_room = fifo->unacked_bytes == 0 || fifo->unacked_bytes + bytes <= NET_UNTAKEN_BYTES;
  return fifo->sent - fifo->acked >= fifo->limit || !has_room;
}

coll_status_t net_fifo_send(net_fifo_t *fifo, const void *data, const transport_head_t *head,
                            bool is_lent, bool *done) {
  if (is_full(fifo, head->bytes)) COLL_TRY(net_route_receive(fifo->peer));
  *done = !is_full(fifo, head->bytes);
  if (!*done) return want_room(fifo);
  fifo->used = true;
  fifo->calls[fifo->sent % fifo->limit] = head->call;
  fifo->bytes[fifo->sent++ % fifo->limit] = (uint32_t)head->bytes;
  fifo->unacked_bytes += head->bytes;
  return send_frame(fifo, NET_MESSAGE, &head->call, data, head->bytes, is_lent);
}

coll_status_t net_fifo_signal(net_fifo_t *fifo, const flight_call_t *call, bool *done) {
  if (fifo->signals_sent - fifo->signals_acked >= NET_SIGNALS) {
    COLL_TRY(net_route_receive(fifo->peer));
  }
  *done = fifo->signals_sent - fifo->signals_acked < NET_SIGNALS;
  if (!*done) return want_room(fifo);
  fifo->used = true;
  fifo->signals_sent++;
  return send_frame(fifo, NET_SIGNAL, call, NULL, 0, false);
}

/* ---- taking ---------------------------------------------------------------------------------*/

coll_status_t net_fifo_oldest(net_fifo_t *fifo, wire_message_t **message) {
  if (fifo->oldest == NULL) COLL_TRY(net_route_receive(fifo->peer));
  *message = fifo->oldest;
  return COLL_OK;
}

coll_status_t net_fifo_peek(net_fifo_t *fifo, const void **data, transport_head_t *head,
                            bool *done) {
  const net_post_t *post = &fifo->post;
  wire_message_t *oldest;
  COLL_TRY(net_fifo_oldest(fifo, &oldest));
  *done = oldest != NULL || post->done;
  if (!*done) return COLL_OK;
  *data = post->done ? post->data : oldest->data;
  *head =
      post->done ? post->head : (transport_head_t){.call = oldest->call, .bytes = oldest->bytes};
  return COLL_OK;
}

/* Grants room, if enough was taken or the peer waits for it. */
static coll_status_t grant(net_fifo_t *fifo) {
  bool enough = fifo->taken - fifo->told >= fifo->limit / 4 ||
                fifo->untold_bytes >= NET_UNTOLD_BYTES ||
                fifo->signals_taken - fifo->signals_told >= NET_SIGNALS / 4;
  return enough || fifo->wanted ? net_fifo_credit(fifo) : COLL_OK;
}

coll_status_t net_fifo_take(net_fifo_t *fifo) {
  wire_message_t *message = fifo->oldest;
  fifo->untold_bytes += message->bytes;
  fifo->oldest = message->next;
  if (fifo->oldest == NULL) fifo->newest = NULL;
  wire_message_release(message);
  fifo->taken++;
  return grant(fifo);
}

static bool is_long(const net_post_t *post) {
  return post->capacity >= LONG_BYTES;
}

static void begin_post(net_fifo_t *fifo, void *data, size_t capacity) {
  fifo->post = (net_post_t){.data = data, .capacity = capacity};
  fifo->peer->long_posts += is_long(&fifo->post);
  fifo->peer->all->posts++;
}

/* Another rail may have begun to deliver the message before its sender gave that rail up. */
static void end_post(net_fifo_t *fifo) {
  net_route_leave_place(fifo->peer, fifo->post.data);
  fifo->peer->all->posts--;
  fifo->peer->long_posts -= is_long(&fifo->post);
  fifo->post = (net_post_t){.data = NULL};
}

void net_fifo_cancel(net_fifo_t *fifo) {
  if (fifo->post.data != NULL) end_post(fifo);
}

bool net_fifo_has_post(const net_fifo_t *fifo, size_t bytes) {
  const net_post_t *post = &fifo->post;
  return post->data != NULL && !post->done && bytes <= post->capacity && fifo->oldest == NULL;
}

coll_status_t net_fifo_recv_post(net_fifo_t *fifo, void *data, size_t capacity,
                                 transport_head_t *head, bool *done) {
  const net_post_t *post = &fifo->post;
  if (post->data != data || post->capacity != capacity) {
    net_fifo_cancel(fifo);
    if (fifo->oldest == NULL && data != NULL) begin_post(fifo, data, capacity);
  }
  if (fifo->oldest == NULL && !post->done) COLL_TRY(net_route_receive(fifo->peer));
  bool is_there = post->done;
  *head = post->head;
  *done = is_there || fifo->oldest != NULL;
  if (*done && post->data != NULL) end_post(fifo);
  if (is_there || !*done) return COLL_OK;
  const wire_message_t *message = fifo->oldest;
  *head = (transport_head_t){.call = message->call, .bytes = message->bytes};
  size_t bytes = message->bytes < capacity ? message->bytes : capacity;
  if (bytes > 0) memcpy(data, message->data, bytes);
  return net_fifo_take(fifo);
}

coll_status_t net_fifo_recv(net_fifo_t *fifo, void *data, size_t capacity, transport_head_t *head,
                            bool *done) {
  coll_status_t status = net_fifo_recv_post(fifo, data, capacity, head, done);
  net_fifo_cancel(fifo);
  return status;
}

coll_status_t net_fifo_signaled(net_fifo_t *fifo, const flight_call_t **call) {
  if (fifo->signals_arrived == fifo->signals_taken) COLL_TRY(net_route_receive(fifo->peer));
  bool arrived = fifo->signals_arrived != fifo->signals_taken;
  *call = arrived ? &fifo->signals[fifo->signals_taken % NET_SIGNALS] : NULL;
  return COLL_OK;
}

coll_status_t net_fifo_take_signal(net_fifo_t *fifo) {
  fifo->signals_taken++;
  return grant(fifo);
}

/* ---- arrival --------------------------------------------------------------------------------*/

static coll_status_t accept_counts(net_fifo_t *fifo, const net_frame_t *frame) {
  uint32_t messages = frame->messages_taken - fifo->acked;
  uint32_t signals = frame->signals_taken - fifo->signals_acked;
  if (messages > fifo->sent - fifo->acked) return COLL_ERROR_INVALID;
  if (signals > fifo->signals_sent - fifo->signals_acked) return COLL_ERROR_INVALID;
  for (uint32_t i = 0; i < messages; i++) {
    fifo->unacked_bytes -= fifo->bytes[fifo->acked++ % fifo->limit];
  }
  fifo->signals_acked += signals;
  if (messages > 0 || signals > 0) fifo->want_sent = false;
  return COLL_OK;
}

static coll_status_t accept_message(net_fifo_t *fifo, wire_message_t *message) {
  if (fifo->arrived - fifo->taken >= fifo->limit) {
    wire_message_release(message);
    return COLL_ERROR_INVALID;
  }
  *(fifo->newest == NULL ? &fifo->oldest : &fifo->newest->next) = message;
  fifo->newest = message;
  fifo->arrived++;
  return COLL_OK;
}

coll_status_t net_fifo_accept_posted(net_peer_t *peer, const net_frame_t *frame) {
  net_fifo_t *fifo = peer->fifos[frame->channel];
  fifo->post.done = true;
  fifo->post.head = (transport_head_t){.call = frame->call, .bytes = frame->bytes};
  peer->pauses = true;
  COLL_TRY(accept_counts(fifo, frame));
  if (fifo->arrived - fifo->taken >= fifo->limit) return COLL_ERROR_INVALID;
  fifo->used = true;
  fifo->arrived++;
  fifo->taken++;
  fifo->untold_bytes += frame->bytes;
  return grant(fifo);
}

static coll_status_t accept_signal(net_fifo_t *fifo, const flight_call_t *call) {
  if (fifo->signals_arrived - fifo->signals_taken >= NET_SIGNALS) return COLL_ERROR_INVALID;
  fifo->signals[fifo->signals_arrived++ % NET_SIGNALS] = *call;
  return COLL_OK;
}

static coll_status_t accept_want(net_fifo_t *fifo) {
  fifo->wanted = true;
  bool told = fifo->told == fifo->taken && fifo->signals_told == fifo->signals_taken;
  return told ? COLL_OK : net_fifo_credit(fifo);
}

coll_status_t net_fifo_accept(net_peer_t *peer, const net_frame_t *frame, wire_message_t *payload) {
  net_fifo_t *fifo;
  coll_status_t status = net_fifo_find(peer, frame->channel, &fifo);
  if (status == COLL_OK) status = accept_counts(fifo, frame);
  if (status != COLL_OK) {
    wire_message_release(payload);
    return status;
  }
  if (frame->kind == NET_MESSAGE || frame->kind == NET_SIGNAL) fifo->used = true;
  if (frame->kind == NET_MESSAGE) return accept_message(fifo, payload);
  if (frame->kind == NET_SIGNAL) return accept_signal(fifo, &frame->call);
  return frame->kind == NET_WANT ? accept_want(fifo) : COLL_OK;
}

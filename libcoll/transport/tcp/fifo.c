/* FIFOs of messages and signals whose room is granted by the receiver (frame.h). */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "transport/tcp/end.h"

#define SAME_CLOCK_NS 1000000000 /* closer clocks are one, and the rest the message's time */

coll_status_t tcp_fifo_find(tcp_peer_t *peer, int channel, tcp_fifo_t **fifo) {
  tcp_fifo_t **place = &peer->fifos[channel];
  if (*place == NULL) {
    tcp_fifo_t *made = NULL;
    COLL_TRY(base_alloc(1, sizeof *made, "a channel", (void **)&made));
    made->port.transport = &peer->end->transport;
    made->peer = peer;
    made->channel = (uint16_t)channel;
    made->limit = channel == TRANSPORT_CHANNEL_P2P ? TCP_P2P_MESSAGES : TCP_MESSAGES;
    *place = made;
  }
  *fifo = *place;
  return COLL_OK;
}

void tcp_fifo_free(tcp_fifo_t *fifo) {
  if (fifo == NULL) return;
  for (tcp_message_t *message = fifo->oldest, *next; message != NULL; message = next) {
    next = message->next;
    tcp_message_release(message);
  }
  free(fifo);
}

/* ---- sending --------------------------------------------------------------------------------*/

static coll_status_t send_frame(tcp_fifo_t *fifo, tcp_kind_t kind, const flight_call_t *call,
                                const void *payload, size_t bytes, bool is_lent) {
  const tcp_frame_t frame = {.kind = (uint8_t)kind,
                             .channel = fifo->channel,
                             .bytes = (uint32_t)bytes,
                             .messages_taken = fifo->taken,
                             .signals_taken = fifo->signals_taken,
                             .call = call != NULL ? *call : (flight_call_t){0}};
  if (fifo->told != fifo->taken || fifo->signals_told != fifo->signals_taken) fifo->wanted = false;
  fifo->told = fifo->taken;
  fifo->untold_bytes = 0;
  fifo->signals_told = fifo->signals_taken;
  return tcp_route_send(fifo->peer, &frame, payload, is_lent);
}

coll_status_t tcp_fifo_credit(tcp_fifo_t *fifo) {
  return send_frame(fifo, TCP_CREDIT, NULL, NULL, 0, false);
}

/* Asks the peer once to tell what it takes. */
static coll_status_t want_room(tcp_fifo_t *fifo) {
  if (fifo->want_sent) return COLL_OK;
  fifo->want_sent = true;
  return send_frame(fifo, TCP_WANT, NULL, NULL, 0, false);
}

static bool is_full(const tcp_fifo_t *fifo, size_t bytes) {
  bool has_room = fifo->unacked_bytes == 0 || fifo->unacked_bytes + bytes <= TCP_UNTAKEN_BYTES;
  return fifo->sent - fifo->acked >= fifo->limit || !has_room;
}

/* Whether the socket has to accept what was sent before. */
static bool is_behind(const tcp_fifo_t *fifo, size_t bytes) {
  return fifo->unacked_bytes + bytes > TCP_BEHIND_BYTES && !fifo->peer->sends_by_netmod &&
         tcp_rails_is_stored(fifo->peer);
}

coll_status_t tcp_fifo_send(tcp_fifo_t *fifo, const void *data, const transport_head_t *head,
                            bool is_lent, bool *done) {
  if (is_full(fifo, head->bytes) || is_behind(fifo, head->bytes))
    COLL_TRY(tcp_route_receive(fifo->peer));
  bool full = is_full(fifo, head->bytes);
  *done = !full && !is_behind(fifo, head->bytes);
  if (!*done) return full ? want_room(fifo) : COLL_OK;
  fifo->used = true;
  fifo->calls[fifo->sent % fifo->limit] = head->call;
  fifo->bytes[fifo->sent++ % fifo->limit] = (uint32_t)head->bytes;
  fifo->unacked_bytes += head->bytes;
  return send_frame(fifo, TCP_MESSAGE, &head->call, data, head->bytes, is_lent);
}

coll_status_t tcp_fifo_signal(tcp_fifo_t *fifo, const flight_call_t *call, bool *done) {
  if (fifo->signals_sent - fifo->signals_acked >= TCP_SIGNALS) {
    COLL_TRY(tcp_route_receive(fifo->peer));
  }
  *done = fifo->signals_sent - fifo->signals_acked < TCP_SIGNALS;
  if (!*done) return want_room(fifo);
  fifo->used = true;
  fifo->signals_sent++;
  return send_frame(fifo, TCP_SIGNAL, call, NULL, 0, false);
}

/* ---- taking ---------------------------------------------------------------------------------*/

coll_status_t tcp_fifo_oldest(tcp_fifo_t *fifo, tcp_message_t **message) {
  if (fifo->oldest == NULL) COLL_TRY(tcp_route_receive(fifo->peer));
  *message = fifo->oldest;
  return COLL_OK;
}

coll_status_t tcp_fifo_peek(tcp_fifo_t *fifo, const void **data, transport_head_t *head,
                            bool *done) {
  const tcp_post_t *post = &fifo->post;
  tcp_message_t *oldest;
  COLL_TRY(tcp_fifo_oldest(fifo, &oldest));
  *done = oldest != NULL || post->done;
  if (!*done) return COLL_OK;
  *data = post->done ? post->data : oldest->data;
  *head =
      post->done ? post->head : (transport_head_t){.call = oldest->call, .bytes = oldest->bytes};
  return COLL_OK;
}

/* Grants room, if enough was taken or the peer waits for it. */
static coll_status_t grant(tcp_fifo_t *fifo) {
  bool enough = fifo->taken - fifo->told >= fifo->limit / 4 ||
                fifo->untold_bytes >= TCP_UNTOLD_BYTES ||
                fifo->signals_taken - fifo->signals_told >= TCP_SIGNALS / 4;
  return enough || fifo->wanted ? tcp_fifo_credit(fifo) : COLL_OK;
}

coll_status_t tcp_fifo_take(tcp_fifo_t *fifo) {
  tcp_message_t *message = fifo->oldest;
  fifo->untold_bytes += message->bytes;
  fifo->oldest = message->next;
  if (fifo->oldest == NULL) fifo->newest = NULL;
  tcp_message_release(message);
  fifo->taken++;
  return grant(fifo);
}

static bool is_long(const tcp_post_t *post) {
  return post->capacity >= TCP_INPUT_BYTES / 2;
}

static void begin_post(tcp_fifo_t *fifo, void *data, size_t capacity) {
  fifo->post = (tcp_post_t){.data = data, .capacity = capacity};
  fifo->peer->long_posts += is_long(&fifo->post);
  fifo->peer->end->posts++;
}

/* Another rail may have begun to deliver the message before its sender gave that rail up. */
static void end_post(tcp_fifo_t *fifo) {
  tcp_rails_leave_post(fifo->peer, fifo->channel);
  fifo->peer->end->posts--;
  fifo->peer->long_posts -= is_long(&fifo->post);
  fifo->post = (tcp_post_t){.data = NULL};
}

void tcp_fifo_cancel(tcp_fifo_t *fifo) {
  if (fifo->post.data != NULL) end_post(fifo);
}

bool tcp_fifo_has_post(const tcp_fifo_t *fifo, size_t bytes) {
  const tcp_post_t *post = &fifo->post;
  return post->data != NULL && !post->done && bytes <= post->capacity && fifo->oldest == NULL;
}

coll_status_t tcp_fifo_recv_post(tcp_fifo_t *fifo, void *data, size_t capacity,
                                 transport_head_t *head, bool *done) {
  const tcp_post_t *post = &fifo->post;
  if (post->data != data || post->capacity != capacity) {
    tcp_fifo_cancel(fifo);
    if (fifo->oldest == NULL && data != NULL) begin_post(fifo, data, capacity);
  }
  if (fifo->oldest == NULL && !post->done) COLL_TRY(tcp_route_receive(fifo->peer));
  bool is_there = post->done;
  *head = post->head;
  *done = is_there || fifo->oldest != NULL;
  if (*done && post->data != NULL) end_post(fifo);
  if (is_there || !*done) return COLL_OK;
  const tcp_message_t *message = fifo->oldest;
  *head = (transport_head_t){.call = message->call, .bytes = message->bytes};
  size_t bytes = message->bytes < capacity ? message->bytes : capacity;
  if (bytes > 0) memcpy(data, message->data, bytes);
  return tcp_fifo_take(fifo);
}

coll_status_t tcp_fifo_recv(tcp_fifo_t *fifo, void *data, size_t capacity, transport_head_t *head,
                            bool *done) {
  coll_status_t status = tcp_fifo_recv_post(fifo, data, capacity, head, done);
  tcp_fifo_cancel(fifo);
  return status;
}

coll_status_t tcp_fifo_signaled(tcp_fifo_t *fifo, const flight_call_t **call) {
  if (fifo->signals_arrived == fifo->signals_taken) COLL_TRY(tcp_route_receive(fifo->peer));
  bool arrived = fifo->signals_arrived != fifo->signals_taken;
  *call = arrived ? &fifo->signals[fifo->signals_taken % TCP_SIGNALS] : NULL;
  return COLL_OK;
}

coll_status_t tcp_fifo_take_signal(tcp_fifo_t *fifo) {
  fifo->signals_taken++;
  return grant(fifo);
}

/* ---- arrival --------------------------------------------------------------------------------*/

static coll_status_t accept_counts(tcp_fifo_t *fifo, const tcp_frame_t *frame) {
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

static coll_status_t accept_message(tcp_fifo_t *fifo, tcp_message_t *message) {
  if (fifo->arrived - fifo->taken >= fifo->limit) {
    tcp_message_release(message);
    return COLL_ERROR_INVALID;
  }
  *(fifo->newest == NULL ? &fifo->oldest : &fifo->newest->next) = message;
  fifo->newest = message;
  fifo->arrived++;
  return COLL_OK;
}

coll_status_t tcp_fifo_accept_posted(tcp_peer_t *peer, const tcp_frame_t *frame) {
  tcp_fifo_t *fifo = peer->fifos[frame->channel];
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

static coll_status_t accept_signal(tcp_fifo_t *fifo, const flight_call_t *call) {
  if (fifo->signals_arrived - fifo->signals_taken >= TCP_SIGNALS) return COLL_ERROR_INVALID;
  fifo->signals[fifo->signals_arrived++ % TCP_SIGNALS] = *call;
  return COLL_OK;
}

static coll_status_t accept_want(tcp_fifo_t *fifo) {
  fifo->wanted = true;
  bool told = fifo->told == fifo->taken && fifo->signals_told == fifo->signals_taken;
  return told ? COLL_OK : tcp_fifo_credit(fifo);
}

static coll_status_t accept_on_channel(tcp_peer_t *peer, const tcp_frame_t *frame,
                                       tcp_message_t *payload) {
  tcp_fifo_t *fifo;
  coll_status_t status = tcp_fifo_find(peer, frame->channel, &fifo);
  if (status == COLL_OK) status = accept_counts(fifo, frame);
  if (status != COLL_OK) {
    tcp_message_release(payload);
    return status;
  }
  if (frame->kind == TCP_MESSAGE || frame->kind == TCP_SIGNAL) fifo->used = true;
  if (frame->kind == TCP_MESSAGE) return accept_message(fifo, payload);
  if (frame->kind == TCP_SIGNAL) return accept_signal(fifo, &frame->call);
  return frame->kind == TCP_WANT ? accept_want(fifo) : COLL_OK;
}

static coll_status_t accept_reason(tcp_peer_t *peer, tcp_kind_t kind, const char *payload) {
  transport_reason_t reason;
  memcpy(&reason, payload, sizeof reason);
  reason.text[sizeof reason.text - 1] = '\0';
  if (reason.failed_rank < 0 || reason.failed_rank >= peer->end->transport.size) {
    return COLL_ERROR_INVALID;
  }
  if (kind == TCP_PROPOSE) tcp_abort_propose(peer->end, peer->rank, &reason);
  if (kind == TCP_VERDICT) tcp_abort_decide(peer->end, &reason);
  return COLL_OK;
}

coll_status_t tcp_fifo_recorder(tcp_peer_t *peer) {
  if (peer->recorder != NULL) return COLL_OK;
  return base_alloc(1, sizeof *peer->recorder, "a flight recorder", (void **)&peer->recorder);
}

static void shift(_Atomic uint64_t *ns, uint64_t by) {
  uint64_t old = atomic_load_explicit(ns, memory_order_relaxed);
  if (old != 0) atomic_store_explicit(ns, old + by, memory_order_relaxed);
}

/* Every host has a clock of its own. */
static void shift_clock(flight_recorder_t *recorder, uint64_t by) {
  shift(&recorder->wait.begin_ns, by);
  shift(&recorder->cross_wait.begin_ns, by);
  for (int i = 0; i < FLIGHT_ENTRIES; i++) {
    shift(&recorder->entries[i].wait_begin_ns, by);
    shift(&recorder->entries[i].wait_end_ns, by);
  }
}

/* Word by word, because other threads may read the recorder meanwhile. */
static coll_status_t accept_record(tcp_peer_t *peer, uint64_t clock_ns, const char *payload) {
  COLL_TRY(tcp_fifo_recorder(peer));
  _Atomic uint64_t *words = (_Atomic uint64_t *)(void *)peer->recorder;
  for (size_t i = 0; i < sizeof *peer->recorder / sizeof *words; i++) {
    uint64_t word;
    memcpy(&word, payload + i * sizeof word, sizeof word);
    atomic_store_explicit(&words[i], word, memory_order_relaxed);
  }
  int64_t behind_ns = (int64_t)(base_clock_now_ns() - clock_ns);
  if (behind_ns > SAME_CLOCK_NS || behind_ns < -SAME_CLOCK_NS) {
    shift_clock(peer->recorder, (uint64_t)behind_ns);
  }
  return COLL_OK;
}

coll_status_t tcp_fifo_accept(tcp_peer_t *peer, const tcp_frame_t *frame, tcp_message_t *payload) {
  coll_status_t status = COLL_OK;
  switch (frame->kind) {
    case TCP_RECORD: status = accept_record(peer, frame->call.count, payload->data); break;
    case TCP_PROPOSE:
    case TCP_VERDICT: status = accept_reason(peer, (tcp_kind_t)frame->kind, payload->data); break;
    case TCP_RECEIVED: break; /* every frame says what has arrived */
    case TCP_LEAVE: peer->state = TRANSPORT_PEER_LEFT; break;
    case TCP_NOTE:
    case TCP_SWITCH: status = tcp_route_accept(peer, frame, payload); break;
    default: return accept_on_channel(peer, frame, payload);
  }
  tcp_message_release(payload);
  return status;
}

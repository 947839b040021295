/* Output goes to the socket at once, as far as it is accepted, and the rest is stored. Payloads
 * arrive in the memory of their messages; only the first bytes of a burst are copied there. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "transport/tcp/end.h"

#define OUT_KEPT_BYTES ((size_t)64 << 10)

/* ---- sending --------------------------------------------------------------------------------*/

static void await_room(tcp_peer_t *peer, bool awaits) {
  if (peer->awaits_room == awaits) return;
  struct epoll_event event = {.events = EPOLLIN | (awaits ? EPOLLOUT : 0),
                              .data.u32 = (uint32_t)peer->rank};
  epoll_ctl(peer->end->wait_set, EPOLL_CTL_MOD, peer->fd, &event);
  peer->awaits_room = awaits;
  peer->end->unsent += awaits ? 1 : -1;
}

/* Of many peers, what was stored until they were connected would add up. */
static void drop_output(tcp_peer_t *peer) {
  peer->out_begin = peer->out_end = 0;
  if (peer->end->connector != NULL && peer->out_capacity > OUT_KEPT_BYTES) {
    free(peer->out);
    peer->out = NULL;
    peer->out_capacity = 0;
  }
  if (peer->fd >= 0) await_room(peer, false);
}

/* What the socket accepts of the parts. */
static size_t write_parts(tcp_peer_t *peer, struct iovec *parts, size_t count) {
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
  ssize_t sent;
  do {
    sent = sendmsg(peer->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return (size_t)sent;
  if (errno != EAGAIN && errno != EWOULDBLOCK) {
    peer->send_error = errno;
    peer->is_mute = true;
    drop_output(peer);
  }
  return 0;
}

static coll_status_t store(tcp_peer_t *peer, const void *data, size_t bytes) {
  if (bytes == 0) return COLL_OK;
  if (peer->out_begin > 0) {
    peer->out_end -= peer->out_begin;
    memmove(peer->out, peer->out + peer->out_begin, peer->out_end);
    peer->out_begin = 0;
  }
  COLL_TRY(base_grow((void **)&peer->out, &peer->out_capacity, peer->out_end + bytes, 1,
                     "messages that a socket does not accept yet"));
  memcpy(peer->out + peer->out_end, data, bytes);
  peer->out_end += bytes;
  return COLL_OK;
}

void tcp_stream_flush(tcp_peer_t *peer) {
  if (peer->fd < 0 || peer->out_begin == peer->out_end) return;
  struct iovec part = {peer->out + peer->out_begin, peer->out_end - peer->out_begin};
  peer->out_begin += write_parts(peer, &part, 1);
  if (peer->out_begin != peer->out_end) return;
  drop_output(peer);
  if (peer->record_due) tcp_stream_publish(peer);
}

void tcp_stream_open(tcp_peer_t *peer) {
  if (peer->out_begin == peer->out_end) return;
  await_room(peer, true);
  tcp_stream_flush(peer);
}

/* Until the peer is connected. */
static coll_status_t store_frame(tcp_peer_t *peer, const tcp_frame_t *frame, const void *payload) {
  size_t out_end = peer->out_end;
  COLL_TRY(tcp_end_ask(peer));
  coll_status_t status = store(peer, frame, sizeof *frame);
  if (status == COLL_OK) status = store(peer, payload, frame->bytes);
  if (status != COLL_OK) peer->out_end = out_end;
  return status;
}

coll_status_t tcp_stream_send(tcp_peer_t *peer, const tcp_frame_t *frame, const void *payload) {
  if (tcp_peer_is_pending(peer)) return store_frame(peer, frame, payload);
  if (peer->fd < 0 || peer->is_mute) return COLL_OK;
  struct iovec parts[] = {{(void *)(uintptr_t)frame, sizeof *frame},
                          {(void *)(uintptr_t)payload, frame->bytes}};
  size_t sent = 0;
  tcp_stream_flush(peer);
  if (peer->out_begin == peer->out_end) sent = write_parts(peer, parts, frame->bytes > 0 ? 2 : 1);
  if (peer->is_mute || sent == sizeof *frame + frame->bytes) return COLL_OK;
  coll_status_t status = COLL_OK;
  for (int i = 0; i < 2 && status == COLL_OK; i++) {
    size_t skipped = sent < parts[i].iov_len ? sent : parts[i].iov_len;
    status = store(peer, (char *)parts[i].iov_base + skipped, parts[i].iov_len - skipped);
    sent -= skipped;
  }
  if (status == COLL_OK) {
    await_room(peer, true);
  } else { /* the peer cannot make sense of what would follow */
    peer->is_mute = true;
    drop_output(peer);
    shutdown(peer->fd, SHUT_WR);
  }
  return status;
}

/* Word by word, because other threads may write to the recorder meanwhile. */
static void copy_recorder(const flight_recorder_t *from, flight_recorder_t *to) {
  const _Atomic uint64_t *words = (const _Atomic uint64_t *)(const void *)from;
  for (size_t i = 0; i < sizeof *from / sizeof *words; i++) {
    uint64_t word = atomic_load_explicit(&words[i], memory_order_relaxed);
    memcpy((char *)to + i * sizeof word, &word, sizeof word);
  }
}

void tcp_stream_publish(tcp_peer_t *peer) {
  const tcp_frame_t frame = {.kind = TCP_RECORD,
                             .bytes = sizeof(flight_recorder_t),
                             .call = {.count = base_clock_now_ns()}};
  flight_recorder_t copy;
  if (peer->fd < 0) return;
  peer->record_due = tcp_route_is_stored(peer);
  if (peer->record_due) return;
  copy_recorder(peer->end->published, &copy);
  (void)tcp_route_send(peer, &frame, &copy);
}

/* ---- receiving ------------------------------------------------------------------------------*/

/* If another thread than the one that sleeps has received it, the socket does not end the sleep. */
void tcp_stream_note_arrival(tcp_t *end) {
  end->arrivals++;
  if (end->is_armed && !pthread_equal(end->sleeper, pthread_self())) tcp_abort_wake(end);
}

void tcp_stream_close(tcp_peer_t *peer, transport_peer_state_t state) {
  if (peer->fd < 0 && !tcp_peer_is_pending(peer)) return;
  drop_output(peer);
  if (peer->fd >= 0) close(peer->fd); /* which removes it from the wait set */
  peer->fd = -1;
  peer->state = state;
  if (peer->has_fabric) peer->end->fabric->ops->disconnect(peer->end->fabric, peer->rank);
  tcp_stream_note_arrival(peer->end);
  tcp_message_release(peer->payload);
  peer->payload = NULL;
  peer->place = NULL;
}

bool tcp_stream_is_frame(const tcp_peer_t *peer, const tcp_frame_t *frame) {
  if (frame->channel >= TRANSPORT_CHANNELS_MAX) return false;
  switch (frame->kind) {
    case TCP_MESSAGE: return frame->bytes <= peer->end->transport.slot_bytes;
    case TCP_RECORD: return frame->bytes == sizeof(flight_recorder_t);
    case TCP_PROPOSE:
    case TCP_VERDICT: return frame->bytes == sizeof(transport_reason_t);
    case TCP_SIGNAL:
    case TCP_CREDIT:
    case TCP_WANT:
    case TCP_SWITCH:
    case TCP_LEAVE: return frame->bytes == 0;
    case TCP_NOTE: return frame->bytes > 0 && frame->bytes <= TCP_NOTE_BYTES;
    default: return false;
  }
}

/* The first message of the channel that a caller waits for arrives in the caller's memory. */
static bool is_for_caller(const tcp_peer_t *peer) {
  const tcp_direct_t *direct = peer->direct;
  const tcp_frame_t *frame = &peer->frame;
  return direct != NULL && direct->data != NULL && !direct->done && frame->kind == TCP_MESSAGE &&
         frame->channel == direct->channel && frame->bytes <= direct->capacity &&
         peer->fifos[frame->channel]->oldest == NULL;
}

/* Called when the first byte of the payload is there, so that a caller may come before it. */
static coll_status_t choose_place(tcp_peer_t *peer) {
  if (is_for_caller(peer)) {
    peer->place = peer->direct->data;
    return COLL_OK;
  }
  COLL_TRY(tcp_message_create(peer->frame.bytes, &peer->payload));
  peer->payload->call = peer->frame.call;
  peer->place = peer->payload->data;
  return COLL_OK;
}

/* A message that has arrived in part does not wait in the memory of a caller. */
static coll_status_t move_from_caller(tcp_peer_t *peer) {
  const char *from = peer->place;
  if (from == NULL || peer->payload != NULL) return COLL_OK;
  COLL_TRY(tcp_message_create(peer->frame.bytes, &peer->payload));
  peer->payload->call = peer->frame.call;
  peer->place = peer->payload->data;
  memcpy(peer->place, from, peer->payload_bytes);
  return COLL_OK;
}

static coll_status_t accept_for_caller(tcp_peer_t *peer) {
  peer->direct->done = true;
  peer->direct->head = (transport_head_t){.call = peer->frame.call, .bytes = peer->frame.bytes};
  return tcp_fifo_accept_direct(peer, &peer->frame);
}

/* Passes the frame on if it is complete. */
static coll_status_t accept_frame(tcp_peer_t *peer) {
  const tcp_frame_t *frame = &peer->frame;
  if (peer->frame_bytes < sizeof *frame || peer->payload_bytes < frame->bytes) return COLL_OK;
  if (frame->kind == TCP_MESSAGE && frame->bytes == 0) COLL_TRY(choose_place(peer));
  tcp_message_t *payload = peer->payload;
  bool is_for_caller = peer->place != NULL && payload == NULL;
  peer->payload = NULL;
  peer->place = NULL;
  peer->frame_bytes = peer->payload_bytes = 0;
  tcp_stream_note_arrival(peer->end);
  return is_for_caller ? accept_for_caller(peer) : tcp_fifo_accept(peer, frame, payload);
}

static size_t copy_some(void *to, size_t have, size_t want, const char *from, size_t bytes) {
  size_t copied = bytes < want - have ? bytes : want - have;
  memcpy((char *)to + have, from, copied);
  return copied;
}

/* Takes the next part of a frame out of what has arrived. */
static coll_status_t parse_part(tcp_peer_t *peer, const char *data, size_t bytes, size_t *parsed) {
  if (peer->frame_bytes == sizeof peer->frame) {
    if (peer->place == NULL) COLL_TRY(choose_place(peer));
    *parsed = copy_some(peer->place, peer->payload_bytes, peer->frame.bytes, data, bytes);
    peer->payload_bytes += *parsed;
    return accept_frame(peer);
  }
  *parsed = copy_some(&peer->frame, peer->frame_bytes, sizeof peer->frame, data, bytes);
  peer->frame_bytes += *parsed;
  if (peer->frame_bytes < sizeof peer->frame) return COLL_OK;
  if (!tcp_stream_is_frame(peer, &peer->frame)) return COLL_ERROR_INVALID;
  peer->payload_bytes = 0;
  return accept_frame(peer);
}

/* Bytes have arrived, the first `direct` of which in the payload. What follows a frame that ends
 * the connection, as notes can, is dropped. */
static coll_status_t parse(tcp_peer_t *peer, size_t direct, size_t bytes) {
  const char *input = peer->end->input;
  if (direct > 0) {
    peer->payload_bytes += direct;
    COLL_TRY(accept_frame(peer));
  }
  for (size_t at = 0, parsed; at < bytes - direct && peer->fd >= 0; at += parsed) {
    COLL_TRY(parse_part(peer, input + at, bytes - direct - at, &parsed));
  }
  return COLL_OK;
}

/* Behind a payload, and where a long message is expected, only a header is read, whose payload then
 * arrives at its place. */
static size_t input_bytes_of(const tcp_peer_t *peer, size_t rest) {
  bool is_long = peer->direct != NULL && peer->direct->capacity >= TCP_INPUT_BYTES / 2;
  return rest > 0  ? sizeof peer->frame
         : is_long ? sizeof peer->frame - peer->frame_bytes
                   : TCP_INPUT_BYTES;
}

/* Reads once. *drained: nothing more has arrived. */
static coll_status_t receive_some(tcp_peer_t *peer, bool *drained) {
  bool has_frame = peer->frame_bytes == sizeof peer->frame;
  size_t rest = has_frame ? peer->frame.bytes - peer->payload_bytes : 0;
  size_t input_bytes = input_bytes_of(peer, rest);
  if (has_frame && peer->place == NULL) COLL_TRY(choose_place(peer));
  struct iovec parts[2] = {{.iov_base = peer->end->input, .iov_len = input_bytes}};
  if (rest > 0) {
    parts[1] = parts[0];
    parts[0] = (struct iovec){peer->place + peer->payload_bytes, rest};
  }
  ssize_t got = readv(peer->fd, parts, rest > 0 ? 2 : 1);
  *drained = got != (ssize_t)(rest + input_bytes);
  if (got < 0 && errno == EINTR) *drained = false;
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return COLL_OK;
  /* a socket tells its error once, and then is at its end */
  if (got <= 0) tcp_health_failed(peer, got < 0 ? errno : peer->send_error);
  if (got <= 0) {
    tcp_route_end(peer);
    return COLL_OK;
  }
  size_t direct = (size_t)got < rest ? (size_t)got : rest;
  return parse(peer, direct, (size_t)got);
}

coll_status_t tcp_stream_receive(tcp_peer_t *peer) {
  bool drained = false;
  tcp_t *end = peer->end;
  for (int rank = 0; end->unsent > 0 && rank < end->transport.size; rank++) {
    tcp_stream_flush(&end->peers[rank]);
  }
  while (peer->fd >= 0 && !drained) {
    coll_status_t status = receive_some(peer, &drained);
    if (peer->direct != NULL && peer->direct->done) drained = true;
    if (status == COLL_OK) continue;
    tcp_stream_close(peer, TRANSPORT_PEER_LOST); /* what follows cannot be understood */
    if (status != COLL_ERROR_INVALID) return status;
  }
  return COLL_OK;
}

coll_status_t tcp_stream_receive_direct(tcp_peer_t *peer, tcp_direct_t *direct) {
  peer->direct = direct;
  coll_status_t status = tcp_stream_receive(peer);
  peer->direct = NULL;
  coll_status_t moved = move_from_caller(peer);
  if (moved != COLL_OK) tcp_stream_close(peer, TRANSPORT_PEER_LOST);
  return status != COLL_OK ? status : moved;
}

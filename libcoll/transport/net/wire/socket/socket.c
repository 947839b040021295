/* Output goes to the socket at once, as far as it is accepted, and the rest is stored. Payloads
 * arrive in the memory of their messages; only the first bytes of a burst are copied there. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/net/socket.h"
#include "transport/net/end.h"

#define PARTS_MAX 16 /* of one sendmsg */

/* ---- sending --------------------------------------------------------------------------------*/

static void await_room(net_rail_t *rail, bool awaits) {
  net_t *end = rail->peer->end;
  if (rail->awaits_room == awaits) return;
  struct epoll_event event = {.events = EPOLLIN | (awaits ? EPOLLOUT : 0),
                              .data.u32 = (uint32_t)(rail - end->rails)};
  epoll_ctl(end->wait_set, EPOLL_CTL_MOD, rail->fd, &event);
  rail->awaits_room = awaits;
  end->unsent += awaits ? 1 : -1;
}

/* The first frame of the output is no longer there. */
static void unqueue_first(net_rail_t *rail) {
  net_outgoing_t *first = rail->output;
  rail->output = first->behind;
  rail->output_bytes -= net_outgoing_bytes(first);
  rail->written = 0;
  first->is_queued = false;
  net_outgoing_free(first);
}

static void drop_output(net_rail_t *rail) {
  while (rail->output != NULL) unqueue_first(rail);
  if (rail->fd >= 0) await_room(rail, false);
}

/* What the socket accepts of the parts. */
static size_t write_parts(net_rail_t *rail, struct iovec *parts, size_t count) {
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
  ssize_t sent;
  do {
    sent = sendmsg(rail->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return (size_t)sent;
  if (errno != EAGAIN && errno != EWOULDBLOCK) {
    rail->send_error = errno;
    rail->is_mute = true;
    drop_output(rail);
    /* of a connection that has ended the reading end tells; of another one it would not */
    if (rail->send_error != EPIPE && rail->send_error != ECONNRESET) shutdown(rail->fd, SHUT_RDWR);
  }
  return 0;
}

/* The parts of the output to write next. Returns their number, of which *bytes is the sum. */
static size_t gather_output(const net_rail_t *rail, struct iovec parts[PARTS_MAX], size_t *bytes) {
  size_t count = 0, skipped = rail->written;
  *bytes = 0;
  for (net_outgoing_t *each = rail->output; each != NULL && count + 2 <= PARTS_MAX;
       each = each->behind) {
    struct iovec halves[] = {{&each->frame, sizeof each->frame},
                             {each->payload, each->frame.bytes}};
    for (int i = 0; i < 2; i++) {
      size_t skips = skipped < halves[i].iov_len ? skipped : halves[i].iov_len;
      skipped -= skips;
      if (skips == halves[i].iov_len) continue;
      parts[count] = (struct iovec){(char *)halves[i].iov_base + skips, halves[i].iov_len - skips};
      *bytes += parts[count++].iov_len;
    }
  }
  return count;
}

/* The socket has accepted so many bytes more. */
static void note_written(net_rail_t *rail, size_t bytes) {
  rail->written += bytes;
  while (rail->output != NULL && rail->written >= net_outgoing_bytes(rail->output)) {
    size_t beyond = rail->written - net_outgoing_bytes(rail->output);
    unqueue_first(rail);
    rail->written = beyond;
  }
}

/* Writes until the socket accepts no more. */
static void write_output(net_rail_t *rail) {
  struct iovec parts[PARTS_MAX];
  size_t bytes, sent = 0;
  do {
    size_t count = gather_output(rail, parts, &bytes);
    sent = count > 0 ? write_parts(rail, parts, count) : 0;
    if (!rail->is_mute) note_written(rail, sent);
  } while (rail->output != NULL && sent == bytes);
}

void socket_flush(net_rail_t *rail) {
  if (rail->fd < 0 || rail->output == NULL) return;
  write_output(rail);
  if (rail->output != NULL || rail->is_mute) return;
  await_room(rail, false);
  if (rail->peer->record_due) socket_publish(rail->peer);
}

static void append_output(net_rail_t *rail, net_outgoing_t *outgoing) {
  if (rail->output == NULL) rail->output_end = &rail->output;
  outgoing->behind = NULL;
  outgoing->is_queued = true;
  *rail->output_end = outgoing;
  rail->output_end = &outgoing->behind;
  rail->output_bytes += net_outgoing_bytes(outgoing);
}

void socket_queue(net_rail_t *rail, net_outgoing_t *outgoing) {
  if (rail->fd < 0 || rail->is_mute) return;
  append_output(rail, outgoing);
  write_output(rail);
  await_room(rail, rail->output != NULL);
}

/* The peer cannot make sense of what would follow. */
static void end_output(net_rail_t *rail) {
  rail->is_mute = true;
  drop_output(rail);
  shutdown(rail->fd, SHUT_WR);
}

coll_status_t socket_send(net_rail_t *rail, const net_frame_t *frame, const void *payload,
                          bool is_lent) {
  struct iovec parts[] = {{(void *)(uintptr_t)frame, sizeof *frame},
                          {(void *)(uintptr_t)payload, frame->bytes}};
  net_outgoing_t *rest;
  size_t sent = 0;
  if (rail->fd < 0 || rail->is_mute) return COLL_OK;
  socket_flush(rail);
  if (rail->output == NULL) sent = write_parts(rail, parts, frame->bytes > 0 ? 2 : 1);
  if (rail->is_mute || sent == sizeof *frame + frame->bytes) return COLL_OK;
  coll_status_t status = net_outgoing_create(rail->peer, frame, payload, is_lent, &rest);
  if (status != COLL_OK) {
    end_output(rail);
    return status;
  }
  if (rail->output == NULL) rail->written = sent;
  append_output(rail, rest);
  await_room(rail, true);
  return COLL_OK;
}

/* Word by word, because other threads may write to the recorder meanwhile. */
static void copy_recorder(const flight_recorder_t *from, flight_recorder_t *to) {
  const _Atomic uint64_t *words = (const _Atomic uint64_t *)(const void *)from;
  for (size_t i = 0; i < sizeof *from / sizeof *words; i++) {
    uint64_t word = atomic_load_explicit(&words[i], memory_order_relaxed);
    memcpy((char *)to + i * sizeof word, &word, sizeof word);
  }
}

void socket_publish(net_peer_t *peer) {
  const net_frame_t frame = {.kind = NET_RECORD,
                             .bytes = sizeof(flight_recorder_t),
                             .call = {.count = base_clock_now_ns()}};
  flight_recorder_t copy;
  if (!net_peer_is_open(peer)) return;
  peer->record_due = net_route_is_stored(peer);
  if (peer->record_due) return;
  copy_recorder(peer->end->published, &copy);
  (void)net_route_send(peer, &frame, &copy, false);
}

/* ---- receiving ------------------------------------------------------------------------------*/

/* If another thread than the one that sleeps has received it, the socket does not end the sleep. */
void socket_note_arrival(net_t *end) {
  end->arrivals++;
  if (end->is_armed && !pthread_equal(end->sleeper, pthread_self())) net_abort_wake(end);
}

void socket_close(net_rail_t *rail) {
  if (rail->fd < 0) return;
  drop_output(rail);
  base_socket_close(rail->fd); /* which removes it from the wait set */
  rail->fd = -1;
  rail->is_mute = false;
  rail->peer->open_count--;
  wire_message_release(rail->payload);
  rail->payload = NULL;
  rail->place = NULL;
  rail->frame_bytes = rail->payload_bytes = 0;
}

bool socket_is_frame(const net_peer_t *peer, const net_frame_t *frame) {
  if (frame->channel >= TRANSPORT_CHANNELS_MAX) return false;
  switch (frame->kind) {
    case NET_MESSAGE: return frame->bytes <= peer->end->transport.slot_bytes;
    case NET_RECORD: return frame->bytes == sizeof(flight_recorder_t);
    case NET_PROPOSE:
    case NET_VERDICT: return frame->bytes == sizeof(transport_reason_t);
    case NET_SIGNAL:
    case NET_CREDIT:
    case NET_WANT:
    case NET_SWITCH:
    case NET_RECEIVED:
    case NET_LEAVE: return frame->bytes == 0;
    case NET_NOTE: return frame->bytes > 0 && frame->bytes <= WIRE_NOTE_BYTES;
    default: return false;
  }
}

static bool is_posted(const net_rail_t *rail) {
  const net_frame_t *frame = &rail->frame;
  const net_fifo_t *fifo = rail->peer->fifos[frame->channel];
  return frame->kind == NET_MESSAGE && fifo != NULL && net_fifo_has_post(fifo, frame->bytes) &&
         net_order_is_next(rail);
}

static size_t payload_bytes(size_t bytes) {
  return sizeof(wire_message_t) + bytes;
}

static void release_payload(wire_message_t *message, void *owner) {
  net_block_put(owner, message, payload_bytes(message->bytes));
}

static coll_status_t create_payload(net_rail_t *rail) {
  net_t *end = rail->peer->end;
  size_t bytes = rail->frame.bytes;
  void *memory = net_block_get(end, payload_bytes(bytes));
  if (memory == NULL) {
    return base_fail(COLL_ERROR_MEMORY, "no memory for a message of %zu bytes", bytes);
  }
  rail->payload = wire_message_place(memory, bytes, release_payload, end);
  rail->payload->call = rail->frame.call;
  rail->place = rail->payload->data;
  return COLL_OK;
}

/* Called when the first byte of the payload is there, so that a caller may come before it. */
static coll_status_t choose_place(net_rail_t *rail) {
  if (!is_posted(rail)) return create_payload(rail);
  rail->place = rail->peer->fifos[rail->frame.channel]->post.data;
  return COLL_OK;
}

coll_status_t socket_leave_post(net_rail_t *rail, int channel) {
  const char *from = rail->place;
  if (from == NULL || rail->payload != NULL || rail->frame.channel != channel) return COLL_OK;
  COLL_TRY(create_payload(rail));
  memcpy(rail->place, from, rail->payload_bytes);
  return COLL_OK;
}

/* Passes the frame on if it is complete. */
static coll_status_t accept_frame(net_rail_t *rail) {
  const net_frame_t *frame = &rail->frame;
  if (rail->frame_bytes < sizeof *frame || rail->payload_bytes < frame->bytes) return COLL_OK;
  if (frame->kind == NET_MESSAGE && frame->bytes == 0) COLL_TRY(choose_place(rail));
  wire_message_t *payload = rail->payload;
  bool arrived_in_post = rail->place != NULL && payload == NULL;
  rail->payload = NULL;
  rail->place = NULL;
  rail->frame_bytes = rail->payload_bytes = 0;
  socket_note_arrival(rail->peer->end);
  return net_order_accept(rail, payload, arrived_in_post);
}

static size_t copy_some(void *to, size_t have, size_t want, const char *from, size_t bytes) {
  size_t copied = bytes < want - have ? bytes : want - have;
  memcpy((char *)to + have, from, copied);
  return copied;
}

/* Takes the next part of a frame out of what has arrived. */
static coll_status_t parse_part(net_rail_t *rail, const char *data, size_t bytes, size_t *parsed) {
  if (rail->frame_bytes == sizeof rail->frame) {
    if (rail->place == NULL) COLL_TRY(choose_place(rail));
    *parsed = copy_some(rail->place, rail->payload_bytes, rail->frame.bytes, data, bytes);
    rail->payload_bytes += *parsed;
    return accept_frame(rail);
  }
  *parsed = copy_some(&rail->frame, rail->frame_bytes, sizeof rail->frame, data, bytes);
  rail->frame_bytes += *parsed;
  if (rail->frame_bytes < sizeof rail->frame) return COLL_OK;
  if (!socket_is_frame(rail->peer, &rail->frame)) return COLL_ERROR_INVALID;
  rail->payload_bytes = 0;
  return accept_frame(rail);
}

/* Bytes have arrived, the first `direct` of which in the payload. What follows a frame that ends
 * the connection, as notes can, is dropped. */
static coll_status_t parse(net_rail_t *rail, size_t direct, size_t bytes) {
  const char *input = rail->peer->end->input;
  if (direct > 0) {
    rail->payload_bytes += direct;
    COLL_TRY(accept_frame(rail));
  }
  for (size_t at = 0, parsed; at < bytes - direct && rail->fd >= 0; at += parsed) {
    COLL_TRY(parse_part(rail, input + at, bytes - direct - at, &parsed));
  }
  return COLL_OK;
}

/* Behind a payload, and where a long message is expected, only a header is read, whose payload then
 * arrives at its place. */
static size_t input_bytes_of(const net_rail_t *rail, size_t rest) {
  if (rest > 0) return sizeof rail->frame;
  return rail->peer->long_posts > 0 ? sizeof rail->frame - rail->frame_bytes : NET_INPUT_BYTES;
}

/* Reads once. *drained: nothing more has arrived. */
static coll_status_t receive_some(net_rail_t *rail, bool *drained) {
  bool has_frame = rail->frame_bytes == sizeof rail->frame;
  size_t rest = has_frame ? rail->frame.bytes - rail->payload_bytes : 0;
  size_t input_bytes = input_bytes_of(rail, rest);
  if (has_frame && rail->place == NULL) COLL_TRY(choose_place(rail));
  struct iovec parts[2] = {{.iov_base = rail->peer->end->input, .iov_len = input_bytes}};
  if (rest > 0) {
    parts[1] = parts[0];
    parts[0] = (struct iovec){rail->place + rail->payload_bytes, rest};
  }
  ssize_t got = readv(rail->fd, parts, rest > 0 ? 2 : 1);
  *drained = got != (ssize_t)(rest + input_bytes);
  if (got < 0 && errno == EINTR) *drained = false;
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return COLL_OK;
  if (got <= 0) { /* a socket tells its error once, and then is at its end */
    net_health_failed(rail, got < 0 ? errno : rail->send_error);
    return COLL_OK;
  }
  size_t direct = (size_t)got < rest ? (size_t)got : rest;
  return parse(rail, direct, (size_t)got);
}

coll_status_t socket_receive(net_rail_t *rail) {
  bool drained = false;
  rail->peer->pauses = false;
  while (rail->fd >= 0 && !drained && !rail->peer->pauses) {
    coll_status_t status = receive_some(rail, &drained);
    if (status == COLL_OK) continue;
    net_rails_close(rail->peer, TRANSPORT_PEER_LOST); /* what follows cannot be understood */
    if (status != COLL_ERROR_INVALID) return status;
  }
  return COLL_OK;
}

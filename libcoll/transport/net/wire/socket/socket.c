/* Output goes to the socket at once, as far as it is accepted, and the rest is stored. Payloads
 * arrive in the memory of their messages, or at their places, with few of their bytes copied. */
#include "transport/net/wire/socket/socket.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/net/socket.h"

#define PARTS_MAX 16 /* of one sendmsg */
#define INPUT_BYTES 8192
/* Of a payload for which there is a spare. Shorter ones are copied sooner than placed. */
#define SPARE_BYTES_MIN 2048
#define SPARE_BYTES_MAX 65536
#define SPARES_MAX 32 /* of a wire, whose links may be thousands */

typedef struct socket_wire socket_wire_t;

typedef struct socket_link {
  socket_wire_t *wire;
  int fd; /* -1: not connected */

  /* Sending: what the socket did not accept. */
  wire_outgoing_t *output, **output_end; /* output_end: where the next one is linked */
  size_t output_bytes;                   /* of frames and payloads there, */
  size_t written;                        /* of which the socket has accepted so many of the first */
  bool awaits_room;                      /* the epoll set has the socket for writing too */
  bool is_mute;                          /* the socket accepts nothing any more */
  int send_error;                        /* errno of it */

  /* Receiving: the frame that has arrived in part. */
  net_frame_t frame;
  size_t frame_bytes;      /* of `frame` that have arrived */
  char *place;             /* of its payload; NULL: not chosen yet, or it has none */
  wire_message_t *payload; /* whose memory that is; NULL: the owner's place */
  size_t payload_bytes;    /* that have arrived */
  bool pauses;             /* progress has brought a payload to a place, or a long one */

  /* A payload that is as long as the one before it is likely to be followed by another such one. */
  size_t last_bytes, usual_bytes; /* usual_bytes: of such payloads; 0: there were no two */
  wire_message_t *spare;          /* where the next one arrives together with its frame, or NULL */
} socket_link_t;

struct socket_wire {
  wire_t base;
  socket_link_t *links; /* [base.size] */
  int unsent;           /* links for which something is stored */
  int spares;           /* links that have one */
  char *input;          /* [INPUT_BYTES]: bytes that have just arrived */
};

static socket_link_t *link_of(const wire_t *wire, int link) {
  return &((const socket_wire_t *)(const void *)wire)->links[link];
}

static int index_of(const socket_link_t *link) {
  return (int)(link - link->wire->links);
}

static const wire_owner_ops_t *owner_of(const socket_link_t *link) {
  return link->wire->base.owner_ops;
}

static size_t bytes_of(const wire_outgoing_t *outgoing) {
  return sizeof outgoing->frame + outgoing->frame.bytes;
}

/* ---- sending --------------------------------------------------------------------------------*/

static void await_room(socket_link_t *link, bool awaits) {
  socket_wire_t *wire = link->wire;
  if (link->awaits_room == awaits) return;
  struct epoll_event event = {.events = EPOLLIN | (awaits ? EPOLLOUT : 0),
                              .data.u32 = (uint32_t)index_of(link)};
  epoll_ctl(wire->base.descriptor, EPOLL_CTL_MOD, link->fd, &event);
  link->awaits_room = awaits;
  wire->unsent += awaits ? 1 : -1;
}

/* The first frame of the output is no longer there. */
static void unqueue_first(socket_link_t *link) {
  wire_outgoing_t *first = link->output;
  link->output = first->behind;
  link->output_bytes -= bytes_of(first);
  link->written = 0;
  first->is_queued = false;
  owner_of(link)->unqueued(&link->wire->base, first);
}

static void drop_output(socket_link_t *link) {
  while (link->output != NULL) unqueue_first(link);
  if (link->fd >= 0) await_room(link, false);
}

/* What the socket accepts of the parts. */
static size_t write_parts(socket_link_t *link, struct iovec *parts, size_t count) {
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
  ssize_t sent;
  do {
    sent = sendmsg(link->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return (size_t)sent;
  if (errno != EAGAIN && errno != EWOULDBLOCK) {
    link->send_error = errno;
    link->is_mute = true;
    drop_output(link);
    /* of a connection that has ended the reading end tells; of another one it would not */
    if (link->send_error != EPIPE && link->send_error != ECONNRESET) shutdown(link->fd, SHUT_RDWR);
  }
  return 0;
}

/* The parts of the output to write next. Returns their number, of which *bytes is the sum. */
static size_t gather_output(const socket_link_t *link, struct iovec parts[PARTS_MAX],
                            size_t *bytes) {
  size_t count = 0, skipped = link->written;
  *bytes = 0;
  for (wire_outgoing_t *each = link->output; each != NULL && count + 2 <= PARTS_MAX;
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
static void note_written(socket_link_t *link, size_t bytes) {
  link->written += bytes;
  while (link->output != NULL && link->written >= bytes_of(link->output)) {
    size_t beyond = link->written - bytes_of(link->output);
    unqueue_first(link);
    link->written = beyond;
  }
}

/* Writes until the socket accepts no more. */
static void write_output(socket_link_t *link) {
  struct iovec parts[PARTS_MAX];
  size_t bytes, sent = 0;
  do {
    size_t count = gather_output(link, parts, &bytes);
    sent = count > 0 ? write_parts(link, parts, count) : 0;
    if (!link->is_mute) note_written(link, sent);
  } while (link->output != NULL && sent == bytes);
}

static void flush_link(socket_link_t *link) {
  if (link->fd < 0 || link->output == NULL) return;
  write_output(link);
  if (link->output != NULL || link->is_mute) return;
  await_room(link, false);
  owner_of(link)->flushed(&link->wire->base, index_of(link));
}

static void socket_flush(wire_t *wire, int link) {
  const socket_wire_t *self = (const socket_wire_t *)(const void *)wire;
  if (link >= 0) flush_link(&self->links[link]);
  for (int i = 0; link < 0 && self->unsent > 0 && i < wire->size; i++) flush_link(&self->links[i]);
}

static void append_output(socket_link_t *link, wire_outgoing_t *outgoing) {
  if (link->output == NULL) link->output_end = &link->output;
  outgoing->behind = NULL;
  outgoing->is_queued = true;
  *link->output_end = outgoing;
  link->output_end = &outgoing->behind;
  link->output_bytes += bytes_of(outgoing);
}

static void socket_queue(wire_t *wire, int index, wire_outgoing_t *outgoing) {
  socket_link_t *link = link_of(wire, index);
  if (link->fd < 0 || link->is_mute) return;
  append_output(link, outgoing);
  if (link->awaits_room) {
    flush_link(link);
    return;
  }
  write_output(link);
  await_room(link, link->output != NULL);
}

/* The peer cannot make sense of what would follow. */
static void end_output(socket_link_t *link) {
  link->is_mute = true;
  drop_output(link);
  shutdown(link->fd, SHUT_WR);
}

static coll_status_t socket_send(wire_t *wire, int index, const net_frame_t *frame,
                                 const void *payload, bool is_lent) {
  socket_link_t *link = link_of(wire, index);
  struct iovec parts[] = {{(void *)(uintptr_t)frame, sizeof *frame},
                          {(void *)(uintptr_t)payload, frame->bytes}};
  wire_outgoing_t *rest;
  size_t sent = 0;
  if (link->fd < 0 || link->is_mute) return COLL_OK;
  flush_link(link);
  if (link->output == NULL) sent = write_parts(link, parts, frame->bytes > 0 ? 2 : 1);
  if (link->is_mute || sent == sizeof *frame + frame->bytes) return COLL_OK;
  coll_status_t status = wire->owner_ops->store(wire, index, frame, payload, is_lent, &rest);
  if (status != COLL_OK) {
    end_output(link);
    return status;
  }
  if (link->output == NULL) link->written = sent;
  append_output(link, rest);
  await_room(link, true);
  return COLL_OK;
}

/* ---- receiving ------------------------------------------------------------------------------*/

static coll_status_t create_payload(socket_link_t *link) {
  COLL_TRY(owner_of(link)->message(&link->wire->base, link->frame.bytes, &link->payload));
  link->place = link->payload->data;
  return COLL_OK;
}

static char *place_of(const socket_link_t *link) {
  return owner_of(link)->place(&link->wire->base, index_of(link), &link->frame);
}

/* The spare, which the link then no longer has; NULL: it has none. */
static wire_message_t *take_spare(socket_link_t *link) {
  wire_message_t *spare = link->spare;
  link->wire->spares -= spare != NULL;
  link->spare = NULL;
  return spare;
}

/* Called when the first byte of the payload is there, so that the owner may know a place by then.
 */
static coll_status_t choose_place(socket_link_t *link) {
  link->place = place_of(link);
  if (link->place != NULL) return COLL_OK;
  size_t bytes = link->frame.bytes;
  bool recurs = bytes == link->last_bytes && bytes >= SPARE_BYTES_MIN && bytes <= SPARE_BYTES_MAX;
  link->usual_bytes = recurs ? bytes : 0;
  link->last_bytes = bytes;
  if (link->spare == NULL || link->spare->bytes != bytes) return create_payload(link);
  link->payload = take_spare(link);
  link->place = link->payload->data;
  return COLL_OK;
}

static coll_status_t socket_leave_place(wire_t *wire, int index, const char *place) {
  socket_link_t *link = link_of(wire, index);
  if (link->place != place || link->payload != NULL) return COLL_OK;
  COLL_TRY(create_payload(link));
  memcpy(link->place, place, link->payload_bytes);
  return COLL_OK;
}

/* Passes the frame on if it is complete. */
static coll_status_t accept_frame(socket_link_t *link) {
  const net_frame_t *frame = &link->frame;
  if (link->frame_bytes < sizeof *frame || link->payload_bytes < frame->bytes) return COLL_OK;
  if (frame->bytes == 0) link->place = place_of(link);
  wire_message_t *payload = link->payload;
  bool is_placed = link->place != NULL && payload == NULL;
  link->pauses = link->pauses || is_placed || frame->bytes > INPUT_BYTES;
  link->payload = NULL;
  link->place = NULL;
  link->frame_bytes = link->payload_bytes = 0;
  return owner_of(link)->arrived(&link->wire->base, index_of(link), frame, payload, is_placed);
}

/* What has arrived where it belongs stays there. */
static size_t move_some(void *to, size_t have, size_t want, const char *from, size_t bytes) {
  size_t moved = bytes < want - have ? bytes : want - have;
  if ((char *)to + have != from) memmove((char *)to + have, from, moved);
  return moved;
}

/* Takes the next part of a frame out of what has arrived. */
static coll_status_t parse_part(socket_link_t *link, const char *data, size_t bytes,
                                size_t *parsed) {
  if (link->frame_bytes == sizeof link->frame) {
    if (link->place == NULL) COLL_TRY(choose_place(link));
    *parsed = move_some(link->place, link->payload_bytes, link->frame.bytes, data, bytes);
    link->payload_bytes += *parsed;
    return accept_frame(link);
  }
  *parsed = move_some(&link->frame, link->frame_bytes, sizeof link->frame, data, bytes);
  link->frame_bytes += *parsed;
  if (link->frame_bytes < sizeof link->frame) return COLL_OK;
  if (!owner_of(link)->is_frame(&link->wire->base, index_of(link), &link->frame)) {
    return COLL_ERROR_INVALID;
  }
  link->payload_bytes = 0;
  return accept_frame(link);
}

/* So many bytes have arrived in the parts. What follows a frame that ends the connection, as notes
 * can, is dropped. */
static coll_status_t parse(socket_link_t *link, const struct iovec *parts, size_t bytes) {
  for (const struct iovec *part = parts; bytes > 0; part++) {
    size_t here = bytes < part->iov_len ? bytes : part->iov_len;
    for (size_t at = 0, parsed; at < here && link->fd >= 0; at += parsed) {
      COLL_TRY(parse_part(link, (char *)part->iov_base + at, here - at, &parsed));
    }
    bytes -= here;
  }
  return COLL_OK;
}

/* Makes one of the usual length, if it is to be had. */
static bool has_spare(socket_link_t *link) {
  socket_wire_t *wire = link->wire;
  if (link->spare != NULL && link->spare->bytes == link->usual_bytes) return true;
  wire_message_release(take_spare(link));
  if (link->usual_bytes == 0 || wire->spares == SPARES_MAX) return false;
  if (owner_of(link)->message(&wire->base, link->usual_bytes, &link->spare) == COLL_OK) {
    wire->spares++;
  } else {
    link->usual_bytes = 0;
  }
  return link->spare != NULL;
}

/* Where to store what arrives next. Behind a payload, and where a long message is expected, only a
 * header is read, whose payload then arrives at its place. What arrives in the spare and turns out
 * to be something else is moved. Returns the number of parts. */
static int choose_parts(socket_link_t *link, struct iovec parts[3]) {
  char *input = link->wire->input;
  size_t head = sizeof link->frame - link->frame_bytes;
  if (head == 0) {
    size_t rest = link->frame.bytes - link->payload_bytes;
    parts[0] = (struct iovec){link->place + link->payload_bytes, rest};
    parts[1] = (struct iovec){input, sizeof link->frame};
    return 2;
  }
  parts[0] = (struct iovec){input, head};
  if (owner_of(link)->expects_long(&link->wire->base, index_of(link))) return 1;
  parts[0].iov_len = INPUT_BYTES;
  if (!has_spare(link)) return 1;
  parts[0].iov_len = head;
  parts[1] = (struct iovec){link->spare->data, link->spare->bytes};
  parts[2] = (struct iovec){input + head, sizeof link->frame};
  return 3;
}

/* Reads once. *drained: nothing more has arrived. */
static coll_status_t receive_some(socket_link_t *link, bool *drained) {
  struct iovec parts[3];
  size_t room = 0;
  bool has_frame = link->frame_bytes == sizeof link->frame;
  if (has_frame && link->place == NULL) COLL_TRY(choose_place(link));
  int count = choose_parts(link, parts);
  for (int i = 0; i < count; i++) room += parts[i].iov_len;
  ssize_t got = readv(link->fd, parts, count);
  *drained = got != (ssize_t)room;
  if (got < 0 && errno == EINTR) *drained = false;
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return COLL_OK;
  if (got <= 0) { /* a socket tells its error once, and then is at its end */
    owner_of(link)->lost(&link->wire->base, index_of(link), got < 0 ? errno : link->send_error);
    return COLL_OK;
  }
  return parse(link, parts, (size_t)got);
}

static coll_status_t socket_progress(wire_t *wire, int index) {
  socket_link_t *link = link_of(wire, index);
  bool drained = false;
  link->pauses = false;
  while (link->fd >= 0 && !drained && !link->pauses) {
    coll_status_t status = receive_some(link, &drained);
    if (status == COLL_OK) continue;
    wire->owner_ops->lost(wire, index, EBADMSG); /* what follows cannot be understood */
    if (status != COLL_ERROR_INVALID) return status;
  }
  return COLL_OK;
}

/* The socket makes the epoll set readable by itself. */
static bool socket_arm(wire_t *wire) {
  (void)wire;
  return true;
}

/* ---- links ----------------------------------------------------------------------------------*/

bool socket_wire_connect(wire_t *wire, int index, int fd) {
  socket_link_t *link = link_of(wire, index);
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)index};
  int one = 1;
  if (ioctl(fd, FIONBIO, &one) != 0 ||
      epoll_ctl(wire->descriptor, EPOLL_CTL_ADD, fd, &event) != 0) {
    return false;
  }
  link->fd = fd;
  link->send_error = 0;
  return true;
}

int socket_wire_fd(const wire_t *wire, int link) {
  return link_of(wire, link)->fd;
}

bool socket_wire_is_mute(const wire_t *wire, int link) {
  return link_of(wire, link)->is_mute;
}

static bool socket_holds(wire_t *wire, int link, int channel) {
  const wire_outgoing_t *each = link_of(wire, link)->output;
  if (channel < 0) return each != NULL;
  while (each != NULL && !net_frame_is_message_of(&each->frame, channel)) each = each->behind;
  return each != NULL;
}

size_t socket_wire_load(const wire_t *wire, int index) {
  const socket_link_t *link = link_of(wire, index);
  int queued = 0;
  if (ioctl(link->fd, SIOCOUTQ, &queued) != 0) return SIZE_MAX;
  return (size_t)queued + link->output_bytes - link->written;
}

static bool socket_is_unsent(const wire_t *wire, int index) {
  size_t load = socket_wire_fd(wire, index) < 0 ? 0 : socket_wire_load(wire, index);
  return load > 0 && load < SIZE_MAX;
}

static void socket_disconnect(wire_t *wire, int index) {
  socket_link_t *link = link_of(wire, index);
  if (link->fd < 0) return;
  drop_output(link);
  base_socket_close(link->fd); /* which removes it from the epoll set */
  link->fd = -1;
  link->is_mute = false;
  wire_message_release(link->payload);
  wire_message_release(take_spare(link));
  link->payload = NULL;
  link->place = NULL;
  link->frame_bytes = link->payload_bytes = 0;
}

/* ---- life -----------------------------------------------------------------------------------*/

static void socket_destroy(wire_t *wire) {
  socket_wire_t *self = (socket_wire_t *)(void *)wire;
  for (int i = 0; self->links != NULL && i < wire->size; i++) socket_disconnect(wire, i);
  if (wire->descriptor >= 0) close(wire->descriptor);
  free(self->links);
  free(self->input);
  free(self);
}

static const wire_ops_t socket_ops = {
    .name = "tcp",
    .send = socket_send,
    .queue = socket_queue,
    .flush = socket_flush,
    .progress = socket_progress,
    .leave_place = socket_leave_place,
    .arm = socket_arm,
    .holds = socket_holds,
    .is_unsent = socket_is_unsent,
    .disconnect = socket_disconnect,
    .destroy = socket_destroy,
};

static coll_status_t allocate(socket_wire_t *wire, size_t links) {
  COLL_TRY(base_alloc(links, sizeof *wire->links, "connections", (void **)&wire->links));
  for (size_t i = 0; i < links; i++) wire->links[i] = (socket_link_t){.wire = wire, .fd = -1};
  COLL_TRY(base_alloc(1, INPUT_BYTES, "received bytes", (void **)&wire->input));
  wire->base.descriptor = epoll_create1(EPOLL_CLOEXEC);
  if (wire->base.descriptor >= 0) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "nothing to wait on for this rank's connections");
}

coll_status_t socket_wire_open(int links, wire_t **wire) {
  socket_wire_t *made = NULL;
  COLL_TRY(base_alloc(1, sizeof *made, "connections", (void **)&made));
  made->base = (wire_t){.ops = &socket_ops, .descriptor = -1, .size = links};
  coll_status_t status = allocate(made, (size_t)links);
  if (status == COLL_OK) {
    *wire = &made->base;
  } else {
    socket_destroy(&made->base);
  }
  return status;
}

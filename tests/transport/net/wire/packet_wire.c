/*
 * A rank that wants to send asks for the name of the peer's socket by a note, connects, and says
 * who it is. Each direction has a connection of its own. A packet carries the time from which it
 * counts as arrived; until then it waits in the receiver's queue, and the sender counts it as
 * unsent. A fetch reads the peer's process in parts that take such a time each.
 */
#include "transport/net/wire/packet_wire.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "transport/get.h"

#define BUFFER_BYTES (8 << 20)
#define NARROW_BYTES (96 << 10) /* a packet or two */
#define LISTENER_EVENT UINT32_MAX
#define TIMER_EVENT (UINT32_MAX - 1)

typedef struct packet_head {
  uint64_t due_ns;
  net_frame_t frame;
} packet_head_t;

typedef struct packet {
  struct packet *next;
  packet_head_t head;
  wire_message_t *message; /* of one that has come */
  char payload[];          /* of one that is to be sent */
} packet_t;

typedef struct queue {
  packet_t *first, *last;
} queue_t;

typedef struct link {
  struct sockaddr_un name; /* of the peer's listener */
  socklen_t name_bytes;    /* 0: not known */
  uint64_t connect_ns;     /* when to connect; 0: never, or done */
  int out, in;             /* -1: none */
  queue_t to_send;         /* what the socket did not accept */
  queue_t arrived;
  uint64_t last_due_ns; /* of what was sent */
  bool gone;
} link_t;

/* A fetch under way. Its part is read when it is due. */
typedef struct packet_fetch {
  transport_fetch_t base;
  struct packet_fetch *next;
  int peer;
  transport_exposure_t from; /* key: the peer's process */
  char *dst;
  size_t bytes, copied;
  uint64_t due_ns;
} packet_fetch_t;

#define PART_BYTES ((size_t)100000)

typedef struct packet_wire {
  wire_t wire;
  packet_fetch_t *fetches;
  int exposed;   /* buffers */
  link_t *links; /* [size], once attached; made by the first call */
  struct sockaddr_un name;
  socklen_t name_bytes;
  int listener, timer;
  unsigned delay_us, seed;
  int buffer_bytes; /* that a socket holds */
  char *buffer;     /* [WIRE_SLOT_BYTES] */
} packet_wire_t;

static _Atomic uint64_t frames;

uint64_t packet_wire_frames(void) {
  return atomic_load(&frames);
}

static packet_wire_t *self_of(wire_t *wire) {
  return (packet_wire_t *)(void *)wire;
}

/* Half of all things take no time. */
static uint64_t random_delay_ns(packet_wire_t *self) {
  unsigned random = (unsigned)rand_r(&self->seed);
  if (self->delay_us == 0 || random % 2 == 0) return 0;
  return (uint64_t)(random / 2 % self->delay_us) * 1000;
}

static void append(queue_t *queue, packet_t *packet) {
  *(queue->first == NULL ? &queue->first : &queue->last->next) = packet;
  queue->last = packet;
}

static packet_t *pop(queue_t *queue) {
  packet_t *packet = queue->first;
  queue->first = packet->next;
  return packet;
}

static void clear(queue_t *queue) {
  while (queue->first != NULL) {
    packet_t *packet = pop(queue);
    wire_message_release(packet->message);
    free(packet);
  }
}

static coll_status_t make_packet(const packet_head_t *head, size_t payload_bytes,
                                 packet_t **packet) {
  packet_t *made = malloc(sizeof *made + payload_bytes);
  if (made == NULL) return base_fail(COLL_ERROR_MEMORY, "no memory for a packet");
  *made = (packet_t){.head = *head};
  *packet = made;
  return COLL_OK;
}

/* ---- links and the timer ---------------------------------------------------------------------*/

static coll_status_t make_links(packet_wire_t *self) {
  if (self->links != NULL) return COLL_OK;
  size_t size = (size_t)self->wire.size;
  COLL_TRY(base_alloc(size, sizeof *self->links, "links", (void **)&self->links));
  for (size_t i = 0; i < size; i++) self->links[i].in = self->links[i].out = -1;
  return COLL_OK;
}

static void earlier(uint64_t *first_ns, uint64_t ns) {
  if (ns != 0 && ns < *first_ns) *first_ns = ns;
}

/* The timer makes the descriptor readable when the next thing is due. */
static void set_timer(packet_wire_t *self) {
  struct itimerspec at = {0};
  uint64_t first_ns = UINT64_MAX, now_ns = base_clock_now_ns();
  for (int peer = 0; peer < self->wire.size; peer++) {
    const link_t *link = &self->links[peer];
    earlier(&first_ns, link->connect_ns);
    if (link->arrived.first != NULL) earlier(&first_ns, link->arrived.first->head.due_ns);
  }
  for (const packet_fetch_t *fetch = self->fetches; fetch != NULL; fetch = fetch->next) {
    if (fetch->copied < fetch->bytes) earlier(&first_ns, fetch->due_ns);
  }
  if (first_ns != UINT64_MAX) {
    at.it_value.tv_nsec = first_ns > now_ns ? (long)(first_ns - now_ns) : 1;
  }
  timerfd_settime(self->timer, 0, &at, NULL); /* which also forgets that it has expired */
}

/* ---- fetches --------------------------------------------------------------------------------*/

static packet_fetch_t *fetch_of(transport_fetch_t *fetch) {
  return (packet_fetch_t *)(void *)fetch;
}

static coll_status_t packet_expose(wire_t *wire, int peer, const void *data, size_t bytes,
                                   transport_exposure_t *exposure, bool *exposed) {
  (void)peer, (void)bytes;
  *exposure = (transport_exposure_t){
      .address = (uintptr_t)data, .keys = {(uint32_t)getpid()}, .handle = 47};
  *exposed = true;
  self_of(wire)->exposed++;
  return COLL_OK;
}

static void packet_disconnect(wire_t *wire, int peer);

static void packet_withdraw(wire_t *wire, int peer, const transport_exposure_t *exposure,
                            bool is_fetched) {
  if (!is_fetched) packet_disconnect(wire, peer);
  if (exposure->handle != 47 || self_of(wire)->exposed-- == 0) abort();
}

static coll_status_t packet_fetch(wire_t *wire, int peer, const transport_exposure_t *exposure,
                                  void *dst, size_t bytes, transport_fetch_t **fetch) {
  packet_wire_t *self = self_of(wire);
  packet_fetch_t *made = NULL;
  COLL_TRY(base_alloc(1, sizeof *made, "a fetch", (void **)&made));
  *made = (packet_fetch_t){.next = self->fetches,
                           .peer = peer,
                           .from = *exposure,
                           .dst = dst,
                           .bytes = bytes,
                           .due_ns = base_clock_now_ns() + random_delay_ns(self)};
  self->fetches = made;
  *fetch = &made->base;
  set_timer(self);
  return COLL_OK;
}

static void read_parts(packet_wire_t *self) {
  for (packet_fetch_t *fetch = self->fetches; fetch != NULL; fetch = fetch->next) {
    size_t left = fetch->bytes - fetch->copied, part = left < PART_BYTES ? left : PART_BYTES;
    bool gone = false;
    if (part == 0 || self->links[fetch->peer].gone || base_clock_now_ns() < fetch->due_ns) continue;
    if (transport_get((int)fetch->from.keys[0], fetch->dst + fetch->copied,
                      fetch->from.address + fetch->copied, part, &gone) != COLL_OK ||
        gone) {
      continue;
    }
    fetch->copied += part;
    fetch->due_ns = base_clock_now_ns() + random_delay_ns(self);
    self->wire.owner_ops->fetched(&self->wire);
  }
}

static void end_fetch(packet_wire_t *self, packet_fetch_t *fetch) {
  packet_fetch_t **at = &self->fetches;
  while (*at != fetch) at = &(*at)->next;
  *at = fetch->next;
  free(fetch);
}

static coll_status_t packet_advance(wire_t *wire, transport_fetch_t *base, bool *done) {
  packet_fetch_t *fetch = fetch_of(base);
  *done = fetch->copied == fetch->bytes;
  if (*done) end_fetch(self_of(wire), fetch);
  return COLL_OK;
}

static void packet_stop(wire_t *wire, transport_fetch_t *base) {
  packet_disconnect(wire, fetch_of(base)->peer);
  end_fetch(self_of(wire), fetch_of(base));
}

/* ---- connecting -----------------------------------------------------------------------------*/

static coll_status_t packet_connect(wire_t *wire, int peer) {
  const char ask = '?';
  COLL_TRY(make_links(self_of(wire)));
  return wire->owner_ops->tell(wire, peer, &ask, sizeof ask);
}

static coll_status_t packet_hear(wire_t *wire, int peer, const void *note, size_t bytes) {
  packet_wire_t *self = self_of(wire);
  COLL_TRY(make_links(self));
  link_t *link = &self->links[peer];
  if (self->delay_us == PACKET_WIRE_FAILS) {
    wire->owner_ops->lost(wire, peer, EIO);
    return COLL_OK;
  }
  if (bytes == 1) return wire->owner_ops->tell(wire, peer, &self->name, self->name_bytes);
  if (bytes > sizeof link->name) return COLL_ERROR_INVALID;
  memcpy(&link->name, note, bytes);
  link->name_bytes = (socklen_t)bytes;
  link->connect_ns = base_clock_now_ns() + random_delay_ns(self);
  set_timer(self);
  return COLL_OK;
}

static bool watch(packet_wire_t *self, int fd, uint32_t id, uint32_t events) {
  struct epoll_event event = {.events = events, .data.u32 = id};
  return epoll_ctl(self->wire.descriptor, EPOLL_CTL_ADD, fd, &event) == 0;
}

static coll_status_t reach(packet_wire_t *self, int peer) {
  link_t *link = &self->links[peer];
  int bytes = self->buffer_bytes;
  link->connect_ns = 0;
  link->out = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  (void)setsockopt(link->out, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  (void)setsockopt(link->out, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes);
  if (connect(link->out, (struct sockaddr *)&link->name, link->name_bytes) != 0 ||
      send(link->out, &self->wire.rank, sizeof self->wire.rank, MSG_NOSIGNAL) < 0) {
    self->wire.owner_ops->lost(&self->wire, peer, EIO);
    return COLL_OK;
  }
  return self->wire.owner_ops->ready(&self->wire, peer);
}

/* The first packet of a connection is the rank of the peer. */
static void admit(packet_wire_t *self) {
  int fd = accept4(self->listener, NULL, NULL, SOCK_CLOEXEC), rank = -1;
  if (fd < 0) return;
  if (recv(fd, &rank, sizeof rank, 0) == sizeof rank && rank >= 0 && rank < self->wire.size &&
      !self->links[rank].gone && watch(self, fd, (uint32_t)rank, EPOLLIN)) {
    self->links[rank].in = fd;
  } else {
    close(fd);
  }
}

/* ---- sending --------------------------------------------------------------------------------*/

/* False: the socket accepts nothing now. */
static bool put(packet_wire_t *self, int peer, const packet_head_t *head, const void *payload) {
  link_t *link = &self->links[peer];
  struct iovec parts[] = {{(void *)(uintptr_t)head, sizeof *head},
                          {(void *)(uintptr_t)payload, head->frame.bytes}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = head->frame.bytes > 0 ? 2 : 1};
  if (sendmsg(link->out, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return true;
  if (errno == EAGAIN || errno == EINTR) return false;
  self->wire.owner_ops->lost(&self->wire, peer, EIO);
  return true;
}

static coll_status_t packet_send(wire_t *wire, int peer, const net_frame_t *frame,
                                 const void *payload, bool is_lent) {
  (void)is_lent;
  packet_wire_t *self = self_of(wire);
  link_t *link = &self->links[peer];
  packet_head_t head = {.due_ns = base_clock_now_ns() + random_delay_ns(self), .frame = *frame};
  if (head.due_ns < link->last_due_ns) head.due_ns = link->last_due_ns;
  link->last_due_ns = head.due_ns;
  if (link->to_send.first == NULL && put(self, peer, &head, payload)) return COLL_OK;
  packet_t *packet = NULL;
  COLL_TRY(make_packet(&head, frame->bytes, &packet));
  if (frame->bytes > 0) memcpy(packet->payload, payload, frame->bytes);
  append(&link->to_send, packet);
  return COLL_OK;
}

static void send_stored(packet_wire_t *self, int peer) {
  link_t *link = &self->links[peer];
  while (link->to_send.first != NULL) {
    packet_t *first = link->to_send.first;
    if (!put(self, peer, &first->head, first->payload)) return;
    if (link->to_send.first == first) free(pop(&link->to_send)); /* else the peer is lost */
  }
}

static bool packet_holds(wire_t *wire, int peer, int channel) {
  const packet_wire_t *self = self_of(wire);
  const packet_t *each = self->links == NULL ? NULL : self->links[peer].to_send.first;
  if (channel < 0) return each != NULL;
  while (each != NULL && !net_frame_is_message_of(&each->head.frame, channel)) each = each->next;
  return each != NULL;
}

static bool packet_is_unsent(const wire_t *wire, int peer) {
  const packet_wire_t *self = (const packet_wire_t *)(const void *)wire;
  if (self->links == NULL) return false;
  const link_t *link = &self->links[peer];
  return !link->gone && (link->to_send.first != NULL || base_clock_now_ns() < link->last_due_ns);
}

/* ---- receiving ------------------------------------------------------------------------------*/

/* Queues a packet. *drained: there is no other. */
static coll_status_t receive_one(packet_wire_t *self, link_t *link, bool *drained) {
  packet_head_t head;
  struct iovec parts[] = {{&head, sizeof head}, {self->buffer, WIRE_SLOT_BYTES}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  packet_t *packet = NULL;
  ssize_t got = recvmsg(link->in, &message, MSG_DONTWAIT);
  *drained = got <= 0;
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
    close(link->in); /* that the peer is gone, its other socket says */
    link->in = -1;
  }
  if (got <= 0) return COLL_OK;
  COLL_TRY(make_packet(&head, 0, &packet));
  append(&link->arrived, packet);
  if (head.frame.bytes == 0) return COLL_OK;
  const wire_owner_ops_t *owner = self->wire.owner_ops;
  COLL_TRY(owner->message(&self->wire, head.frame.bytes, &packet->message));
  memcpy(packet->message->data, self->buffer, head.frame.bytes);
  return COLL_OK;
}

/* What a peer has sent that then died has arrived. */
static bool is_due(const link_t *link) {
  return link->in < 0 || link->arrived.first->head.due_ns <= base_clock_now_ns();
}

static coll_status_t deliver(packet_wire_t *self, int peer) {
  link_t *link = &self->links[peer];
  while (link->arrived.first != NULL && is_due(link)) {
    packet_t *packet = pop(&link->arrived);
    const net_frame_t frame = packet->head.frame;
    wire_message_t *message = packet->message;
    free(packet);
    atomic_fetch_add(&frames, 1);
    COLL_TRY(self->wire.owner_ops->arrived(&self->wire, peer, &frame, message, false));
  }
  return COLL_OK;
}

/* Beginning with another peer each time, for frames of one may not rely on those of others. */
static coll_status_t packet_progress(wire_t *wire, int link_of_peer) {
  (void)link_of_peer;
  packet_wire_t *self = self_of(wire);
  COLL_TRY(make_links(self));
  unsigned begin = (unsigned)rand_r(&self->seed) % (unsigned)wire->size;
  admit(self);
  for (int i = 0; i < wire->size; i++) {
    int peer = (int)((begin + (unsigned)i) % (unsigned)wire->size);
    link_t *link = &self->links[peer];
    if (link->connect_ns != 0 && base_clock_now_ns() >= link->connect_ns) {
      COLL_TRY(reach(self, peer));
    }
    send_stored(self, peer);
    for (bool drained = false; link->in >= 0 && !drained;) {
      COLL_TRY(receive_one(self, link, &drained));
    }
    COLL_TRY(deliver(self, peer));
  }
  read_parts(self);
  set_timer(self);
  return COLL_OK;
}

/* ---- sleeping -------------------------------------------------------------------------------*/

/* What is stored is tried again at once. */
static bool packet_arm(wire_t *wire) {
  packet_wire_t *self = self_of(wire);
  bool is_stored = false;
  for (int peer = 0; self->links != NULL && peer < wire->size; peer++) {
    is_stored |= self->links[peer].to_send.first != NULL;
  }
  return !is_stored;
}

/* ---- the end --------------------------------------------------------------------------------*/

static void packet_disconnect(wire_t *wire, int peer) {
  packet_wire_t *self = self_of(wire);
  if (self->links == NULL) return;
  link_t *link = &self->links[peer];
  if (link->out >= 0) close(link->out);
  if (link->in >= 0) close(link->in);
  clear(&link->to_send);
  clear(&link->arrived);
  *link = (link_t){.out = -1, .in = -1, .gone = true};
}

static void packet_destroy(wire_t *wire) {
  packet_wire_t *self = self_of(wire);
  for (int peer = 0; peer < wire->size; peer++) packet_disconnect(wire, peer);
  close(self->listener);
  close(self->timer);
  close(wire->descriptor);
  free(self->buffer);
  free(self->links);
  free(self);
}

static const wire_ops_t packet_ops = {
    .name = "packet",
    .connect = packet_connect,
    .hear = packet_hear,
    .send = packet_send,
    .progress = packet_progress,
    .arm = packet_arm,
    .holds = packet_holds,
    .is_unsent = packet_is_unsent,
    .expose = packet_expose,
    .withdraw = packet_withdraw,
    .fetch = packet_fetch,
    .advance = packet_advance,
    .stop = packet_stop,
    .disconnect = packet_disconnect,
    .destroy = packet_destroy,
};

/* The system chooses the name. */
static bool open_sockets(packet_wire_t *self) {
  const struct sockaddr_un any = {.sun_family = AF_UNIX};
  self->name_bytes = sizeof self->name;
  self->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  self->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  self->wire.descriptor = epoll_create1(EPOLL_CLOEXEC);
  return bind(self->listener, (const struct sockaddr *)&any, sizeof any.sun_family) == 0 &&
         getsockname(self->listener, (struct sockaddr *)&self->name, &self->name_bytes) == 0 &&
         listen(self->listener, 64) == 0 && watch(self, self->listener, LISTENER_EVENT, EPOLLIN) &&
         watch(self, self->timer, TIMER_EVENT, EPOLLIN);
}

coll_status_t packet_wire_open(unsigned delay_us, wire_t **wire) {
  static _Atomic unsigned count;
  packet_wire_t *self = NULL;
  COLL_TRY(base_alloc(1, sizeof *self, "a wire", (void **)&self));
  self->wire.ops = &packet_ops;
  self->delay_us = delay_us == PACKET_WIRE_NARROW ? 0 : delay_us;
  self->buffer_bytes = delay_us == PACKET_WIRE_NARROW ? NARROW_BYTES : BUFFER_BYTES;
  self->seed = atomic_fetch_add(&count, 1) + (unsigned)getpid();
  coll_status_t status = base_alloc(1, WIRE_SLOT_BYTES, "a packet", (void **)&self->buffer);
  if (status == COLL_OK && !open_sockets(self)) {
    status = base_fail_errno(COLL_ERROR_SYSTEM, "no sockets for a wire");
  }
  if (status != COLL_OK) {
    packet_destroy(&self->wire);
    return status;
  }
  *wire = &self->wire;
  return COLL_OK;
}

/*
 * The operations over the shared segment. Each side of a FIFO keeps its own count of messages and
 * signals in private memory; what is shared is only what the other side must see, one writer a
 * line.
 */
#include "transport/shm/shm.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/inline.h"
#include "base/memory.h"
#include "transport/shm/fifo.h"
#include "transport/shm/layout.h"
#include "transport/shm/park.h"
#include "transport/shm/share.h"

/* What this rank knows of its two FIFOs with one peer on one channel: where they lie in the
 * segment, and how far it has come. */
typedef struct fifo_state {
  transport_port_t port;
  shm_outgoing_t out;
  shm_incoming_t in;
  shm_signal_t *signals_out, *signals_in;
  shm_control_t *peer;
  uint64_t bit; /* of the peer in a set of ranks: 1 << peer % 64 */
  uint64_t signaled, waited;
  uint64_t heard; /* messages received when the latest was sent */
} fifo_state_t;

/* What this rank knows of a peer's posts, or, of its own, how far it has come. */
typedef struct post_state {
  shm_taken_t *taken; /* of the peer's posts, by this rank; of this rank's, by the peer */
  shm_taken_t *taken_by;
  shm_control_t *control;
  uint64_t received;
} post_state_t;

typedef struct shm {
  transport_t transport;
  shm_layout_t layout;
  shm_segment_t *segment;
  fifo_state_t *fifos;          /* [size * TRANSPORT_CHANNELS] */
  post_state_t *posts;          /* [size] */
  uint64_t posted, posts_taken; /* of this rank; by all peers, at last look */
  shm_unheard_t *unheard;       /* [size] */
  uint64_t sent_to;             /* peers (bit r % 64) since neighbours were last looked at */
  bool one_process; /* all ranks are threads of this process: any address is good everywhere */
  shm_mesh_t mesh;  /* sockets NULL where the ends were made together */
  shm_share_t share;
  uint32_t doorbell_seen; /* between arm and sleep */
  uint32_t arms;          /* so far */
} shm_t;

static shm_t *self_of(transport_t *t) {
  return (shm_t *)(void *)t;
}

/* Of another rank and one of the channels; plans are checked for that. */
static fifo_state_t *fifo_of(shm_t *s, int peer, int channel) {
  return &s->fifos[(unsigned)(peer * TRANSPORT_CHANNELS + channel)];
}

static shm_control_t *control_of(shm_t *s, int rank) {
  return shm_layout_control(&s->layout, s->segment->base, rank);
}

static fifo_state_t *fifo_at(transport_port_t *port) {
  return (fifo_state_t *)(void *)port;
}

static transport_port_t *shm_port(transport_t *t, int peer, int channel) {
  assert(peer != t->rank);
  return &fifo_of(self_of(t), peer, channel)->port;
}

/* Lets the peer know that something was sent. */
BASE_INLINE void announce(const fifo_state_t *fifo) {
  self_of(fifo->port.transport)->sent_to |= fifo->bit;
  shm_park_ring(fifo->peer);
}

BASE_APART static coll_status_t send_long(fifo_state_t *fifo, const void *data,
                                          const transport_head_t *head, bool *done) {
  assert(head->bytes <= fifo->port.transport->slot_bytes);
  bool one_way = fifo->heard == fifo->in.received;
  bool hot = fifo->port.transport->own_cores && shm_hot_suits(head->bytes, one_way);
  *done = shm_outgoing_put_long(&fifo->out, data, *head, hot);
  if (!*done) return COLL_OK;
  announce(fifo);
  fifo->heard = fifo->in.received;
  return COLL_OK;
}

static coll_status_t shm_send(transport_port_t *port, const void *data,
                              const transport_head_t *head, bool *done) {
  fifo_state_t *fifo = fifo_at(port);
  if (head->bytes > SHM_INLINE_BYTES) return send_long(fifo, data, head, done);
  *done = shm_outgoing_put_short(&fifo->out, data, *head);
  if (!*done) return COLL_OK;
  announce(fifo);
  /* ranks that answer each other wait for the other's line, and nothing should be in its way */
  if (fifo->heard == fifo->in.received) shm_outgoing_fetch_ahead(&fifo->out);
  fifo->heard = fifo->in.received;
  return COLL_OK;
}

static void take(fifo_state_t *fifo) {
  if (shm_incoming_take(&fifo->in)) shm_park_ring(fifo->peer);
}

BASE_APART static coll_status_t peek_long(const fifo_state_t *fifo, const shm_letter_t *letter,
                                          const void **data) {
  *data = shm_incoming_payload(&fifo->in, letter);
  return COLL_OK;
}

/* Whether the peer sends without being answered what can get ahead of its receiver. */
static bool flows(const fifo_state_t *fifo) {
  return fifo->in.received - fifo->heard >= SHM_SLIP_AFTER && fifo->port.transport->own_cores &&
         fifo->in.latest_bytes < fifo->in.slip_below_bytes;
}

/* Another one with each collective, and each time that this rank arms the transport, to sleep or to
 * give up on a peer: a message is held back while it is waited for and nothing else is done, and no
 * longer than there are looks. */
static uint32_t epoch_of(const shm_t *s) {
  return s->arms + (uint32_t)atomic_load_explicit(s->transport.completed, memory_order_relaxed);
}

/* Whether the oldest message, if there is one, is held back. */
BASE_APART static bool is_held(fifo_state_t *fifo) {
  shm_incoming_t *in = &fifo->in;
  return shm_slip_holds(&in->slip, shm_incoming_has_slipped(in),
                        epoch_of(self_of(fifo->port.transport)));
}

BASE_APART static void miss(fifo_state_t *fifo) {
  shm_slip_miss(&fifo->in.slip, flows(fifo), epoch_of(self_of(fifo->port.transport)));
}

/* The oldest message; NULL: there is none, or it is held back. */
BASE_INLINE const shm_letter_t *look(fifo_state_t *fifo, transport_head_t *head) {
  shm_incoming_t *in = &fifo->in;
  if (__builtin_expect(in->slip.looks > 0, false) && is_held(fifo)) return NULL;
  const shm_letter_t *letter = shm_incoming_look(in, head);
  if (letter == NULL && !in->slip.late) miss(fifo);
  return letter;
}

static coll_status_t shm_peek(transport_port_t *port, const void **data, transport_head_t *head,
                              bool *done) {
  fifo_state_t *fifo = fifo_at(port);
  const shm_letter_t *letter = look(fifo, head);
  *done = letter != NULL;
  if (letter == NULL) return COLL_OK;
  if (head->bytes > SHM_INLINE_BYTES) return peek_long(fifo, letter, data);
  *data = letter->payload;
  return COLL_OK;
}

static coll_status_t shm_take(transport_port_t *port) {
  take(fifo_at(port));
  return COLL_OK;
}

BASE_APART static coll_status_t recv_long(fifo_state_t *fifo, const shm_letter_t *letter,
                                          void *data, size_t bytes) {
  const void *payload = shm_incoming_payload(&fifo->in, letter);
  if (bytes > 0) memcpy(data, payload, bytes); /* where nothing was wanted there is no buffer */
  take(fifo);
  return COLL_OK;
}

static coll_status_t shm_recv(transport_port_t *port, void *data, size_t capacity,
                              transport_head_t *head, bool *done) {
  fifo_state_t *fifo = fifo_at(port);
  const shm_letter_t *letter = look(fifo, head);
  *done = letter != NULL;
  if (letter == NULL) return COLL_OK;
  size_t bytes = head->bytes < capacity ? head->bytes : capacity;
  if (head->bytes > SHM_INLINE_BYTES) return recv_long(fifo, letter, data, bytes);
  base_move_short(data, letter->payload, bytes);
  take(fifo);
  return COLL_OK;
}

/* How many of this rank's posts the slowest peer has taken; acquire: and read. */
static uint64_t taken_by_all(const shm_t *s) {
  uint64_t least = s->posted;
  for (int peer = 0; peer < s->transport.size; peer++) {
    if (peer == s->transport.rank) continue;
    uint64_t taken = atomic_load_explicit(s->posts[peer].taken_by, memory_order_acquire);
    if (taken < least) least = taken;
  }
  return least;
}

static coll_status_t shm_post(transport_t *t, const void *data, const transport_head_t *head,
                              bool *done) {
  shm_t *s = self_of(t);
  assert(head->bytes <= t->post_bytes);
  *done = false;
  if (s->posted - s->posts_taken == SHM_POSTS) {
    s->posts_taken = taken_by_all(s);
    if (s->posted - s->posts_taken == SHM_POSTS) return COLL_OK;
  }
  void *base = s->segment->base;
  shm_slot_t *slot = shm_layout_post(base, t->rank, s->posted);
  if (head->bytes <= SHM_INLINE_BYTES) {
    base_move_short(slot->letter.payload, data, head->bytes);
  } else {
    shm_payload_write(shm_layout_post_bytes(&s->layout, base, t->rank, s->posted), data,
                      head->bytes);
  }
  slot->letter.tag = head->tag;
  slot->letter.bytes = head->bytes;
  atomic_store_explicit(&slot->sequence, ++s->posted, memory_order_release);
  s->sent_to = UINT64_MAX;
  for (int peer = 0; peer < t->size; peer++) {
    if (peer != t->rank) shm_park_ring(s->posts[peer].control);
  }
  *done = true;
  return COLL_OK;
}

static coll_status_t shm_peek_post(transport_t *t, int peer, const void **data,
                                   transport_head_t *head, bool *done) {
  shm_t *s = self_of(t);
  uint64_t received = s->posts[peer].received;
  shm_slot_t *slot = shm_layout_post(s->segment->base, peer, received);
  assert(peer != t->rank);
  /* acquire: the payload is there once its flag is */
  *done = atomic_load_explicit(&slot->sequence, memory_order_acquire) == received + 1;
  if (!*done) return COLL_OK;
  *head = (transport_head_t){.tag = slot->letter.tag, .bytes = slot->letter.bytes};
  *data = head->bytes <= SHM_INLINE_BYTES
              ? slot->letter.payload
              : shm_layout_post_bytes(&s->layout, s->segment->base, peer, received);
  return COLL_OK;
}

static coll_status_t shm_take_post(transport_t *t, int peer) {
  post_state_t *post = &self_of(t)->posts[peer];
  /* release: our reads are over before the peer may write over the slot */
  atomic_store_explicit(post->taken, ++post->received, memory_order_release);
  shm_park_ring(post->control);
  return COLL_OK;
}

static coll_status_t shm_signal_peer(transport_port_t *port, uint64_t tag) {
  fifo_state_t *fifo = fifo_at(port);
  shm_signal_t *line = fifo->signals_out;
  /* release: a reader that finds this tag in the place of an older one finds the counts that led up
   * to it as well, and so knows that it came too late */
  atomic_store_explicit(&line->tags[fifo->signaled % SHM_SIGNAL_TAGS], tag, memory_order_release);
  atomic_store_explicit(&line->count, ++fifo->signaled, memory_order_release);
  announce(fifo);
  return COLL_OK;
}

static coll_status_t shm_wait_peer(transport_port_t *port, uint64_t *tag, bool *arrived) {
  fifo_state_t *fifo = fifo_at(port);
  shm_signal_t *line = fifo->signals_in;
  uint64_t count = atomic_load_explicit(&line->count, memory_order_acquire);
  *arrived = count > fifo->waited;
  if (!*arrived) return COLL_OK;
  *tag = atomic_load_explicit(&line->tags[fifo->waited % SHM_SIGNAL_TAGS], memory_order_acquire);
  /* The tag is ours only if the peer cannot have begun a signal that reuses its place; acquire
   * above keeps this look behind it. */
  uint64_t latest = atomic_load_explicit(&line->count, memory_order_relaxed);
  if (latest - fifo->waited >= SHM_SIGNAL_TAGS) *tag = 0;
  fifo->waited++;
  return COLL_OK;
}

static bool shm_signaled(transport_port_t *port) {
  const fifo_state_t *fifo = fifo_at(port);
  return atomic_load_explicit(&fifo->signals_in->count, memory_order_acquire) > fifo->waited;
}

static coll_status_t shm_address(transport_t *t, const void *ptr, size_t bytes,
                                 transport_address_t *address) {
  shm_t *s = self_of(t);
  if (s->one_process) {
    *address = (transport_address_t){.segment = 1, .offset = (uint64_t)(uintptr_t)ptr};
    return COLL_OK;
  }
  return shm_share_export(&s->share, &s->mesh, ptr, bytes, address);
}

static coll_status_t shm_map(transport_t *t, int peer, const transport_address_t *address,
                             void **ptr) {
  shm_t *s = self_of(t);
  if (s->one_process) {
    *ptr = (void *)(uintptr_t)address->offset;
    return COLL_OK;
  }
  return shm_share_import(&s->share, &s->mesh, peer, address, ptr);
}

static void shm_scratch(transport_t *t, int rank, void **ptr, size_t *bytes) {
  shm_t *s = self_of(t);
  *ptr = shm_layout_scratch(&s->layout, s->segment->base, rank);
  *bytes = s->layout.scratch_bytes;
}

static void shm_arm(transport_t *t) {
  shm_t *s = self_of(t);
  s->arms++;
  shm_park_arm(control_of(s, t->rank), &s->doorbell_seen);
}

static void shm_sleep(transport_t *t, uint64_t timeout_ns) {
  shm_t *s = self_of(t);
  shm_park_sleep(control_of(s, t->rank), s->doorbell_seen, timeout_ns);
}

static void shm_disarm(transport_t *t) {
  shm_park_disarm(control_of(self_of(t), t->rank));
}

/* Those that are missed, and that neighbours could not bring. */
static bool all_are_coming(const shm_t *s, uint64_t missing, uint64_t near) {
  uint64_t held = 0;
  for (int peer = 0; peer < s->transport.size; peer++) {
    if (peer == s->transport.rank) continue;
    held |= shm_stand_held(&s->posts[peer].control->stand);
  }
  for (int peer = 0; peer < s->transport.size; peer++) {
    if ((missing >> peer % 64 & 1) == 0 || peer == s->transport.rank) continue;
    if (!shm_stand_is_coming(&s->posts[peer].control->stand, near, held)) return false;
  }
  return true;
}

static transport_outlook_t shm_outlook(transport_t *t, uint64_t place, uint64_t missing) {
  shm_t *s = self_of(t);
  shm_stand_t *own = &control_of(s, t->rank)->stand;
  uint64_t near = 0;
  bool may = false;
  shm_stand_tell(own, place, missing);
  for (int peer = 0; peer < t->size; peer++) {
    if (peer == t->rank) continue;
    bool sent = (s->sent_to >> peer % 64 & 1) != 0;
    if (shm_stand_is_near(&control_of(s, peer)->stand, own)) near |= UINT64_C(1) << peer % 64;
    may = shm_stand_may_go_on(&control_of(s, peer)->stand, &s->unheard[peer], sent, own, t->rank) ||
          may;
  }
  s->sent_to = 0;
  if (!may) return TRANSPORT_NEWS_ELSEWHERE;
  if ((missing & near) != 0 || !all_are_coming(s, missing, near)) return TRANSPORT_NEWS_HERE;
  return TRANSPORT_NEWS_SOON;
}

static void shm_yield(transport_t *t) {
  shm_stand_yield(&control_of(self_of(t), t->rank)->stand);
}

static uint64_t shm_peer_completed(transport_t *t, int peer) {
  return atomic_load_explicit(&control_of(self_of(t), peer)->completed, memory_order_acquire);
}

static transport_peer_state_t shm_peer_state(transport_t *t, int peer) {
  shm_t *s = self_of(t);
  /* The hang-up is looked at first: a peer that leaves says so before it closes its socket. */
  bool hung_up = s->mesh.sockets != NULL && shm_mesh_hung_up(&s->mesh, peer);
  if (atomic_load_explicit(&control_of(s, peer)->left, memory_order_acquire) != 0) {
    return TRANSPORT_PEER_LEFT;
  }
  return hung_up ? TRANSPORT_PEER_LOST : TRANSPORT_PEER_HERE;
}

/* Number and tag change together for a reader that finds the same number before and after the tag:
 * each store below releases the ones before it. */
static void shm_enter(transport_t *t, uint64_t number, uint64_t tag) {
  shm_control_t *own = control_of(self_of(t), t->rank);
  if (atomic_load_explicit(&own->entered, memory_order_relaxed) == number + 1) return;
  atomic_store_explicit(&own->entered, 0, memory_order_relaxed);
  atomic_store_explicit(&own->entered_tag, tag, memory_order_release);
  atomic_store_explicit(&own->entered, number + 1, memory_order_release);
}

static bool shm_peer_entered(transport_t *t, int peer, uint64_t number, uint64_t *tag) {
  shm_control_t *control = control_of(self_of(t), peer);
  if (atomic_load_explicit(&control->entered, memory_order_acquire) != number + 1) return false;
  uint64_t found = atomic_load_explicit(&control->entered_tag, memory_order_acquire);
  if (atomic_load_explicit(&control->entered, memory_order_relaxed) != number + 1) return false;
  *tag = found;
  return true;
}

static void shm_abort(transport_t *t, int culprit) {
  shm_t *s = self_of(t);
  uint32_t nobody = 0;
  atomic_compare_exchange_strong(&shm_layout_head(s->segment->base)->aborted, &nobody,
                                 (uint32_t)culprit + 1);
  for (int peer = 0; peer < t->size; peer++) {
    if (peer != t->rank) shm_park_ring(control_of(s, peer));
  }
}

static bool shm_aborted(transport_t *t, int *culprit) {
  shm_t *s = self_of(t);
  uint32_t word =
      atomic_load_explicit(&shm_layout_head(s->segment->base)->aborted, memory_order_relaxed);
  if (word == 0) return false;
  *culprit = (int)word - 1;
  return true;
}

static void shm_destroy(transport_t *t) {
  shm_t *s = self_of(t);
  if (s->segment != NULL) {
    atomic_store_explicit(&control_of(s, t->rank)->left, 1, memory_order_release);
    for (int peer = 0; peer < t->size; peer++) {
      if (peer != t->rank) shm_park_ring(control_of(s, peer));
    }
  }
  shm_mesh_close(&s->mesh);
  shm_share_close(&s->share);
  shm_segment_release(s->segment);
  free(s->unheard);
  free(s->posts);
  free(s->fifos);
  free(s);
}

static const transport_ops_t shm_ops = {
    .name = "shm",
    .port = shm_port,
    .send = shm_send,
    .recv = shm_recv,
    .peek = shm_peek,
    .take = shm_take,
    .post = shm_post,
    .peek_post = shm_peek_post,
    .take_post = shm_take_post,
    .signal = shm_signal_peer,
    .wait = shm_wait_peer,
    .signaled = shm_signaled,
    .address = shm_address,
    .map = shm_map,
    .scratch = shm_scratch,
    .arm = shm_arm,
    .sleep = shm_sleep,
    .disarm = shm_disarm,
    .outlook = shm_outlook,
    .yield = shm_yield,
    .peer_completed = shm_peer_completed,
    .enter = shm_enter,
    .peer_entered = shm_peer_entered,
    .peer_state = shm_peer_state,
    .abort = shm_abort,
    .aborted = shm_aborted,
    .destroy = shm_destroy,
};

/* Once the segment is there. */
static void find_fifos(shm_t *s) {
  const shm_layout_t *layout = &s->layout;
  void *base = s->segment->base;
  int rank = s->transport.rank;
  s->transport.abort_word = &shm_layout_head(base)->aborted;
  s->transport.completed = &shm_layout_control(layout, base, rank)->completed;
  for (int peer = 0; peer < s->transport.size; peer++) {
    s->posts[peer] = (post_state_t){.taken = shm_layout_taken(layout, base, rank, peer),
                                    .taken_by = shm_layout_taken(layout, base, peer, rank),
                                    .control = shm_layout_control(layout, base, peer)};
    for (int channel = 0; peer != rank && channel < TRANSPORT_CHANNELS; channel++) {
      fifo_state_t *fifo = fifo_of(s, peer, channel);
      fifo->port.transport = &s->transport;
      shm_outgoing_init(&fifo->out, layout, channel,
                        shm_layout_ring(layout, base, peer, rank, channel));
      shm_incoming_init(&fifo->in, layout, channel,
                        shm_layout_ring(layout, base, rank, peer, channel));
      fifo->signals_out = shm_layout_signal(layout, base, peer, rank, channel);
      fifo->signals_in = shm_layout_signal(layout, base, rank, peer, channel);
      fifo->peer = shm_layout_control(layout, base, peer);
      fifo->bit = UINT64_C(1) << peer % 64;
    }
  }
}

static coll_status_t make_end(int rank, int size, shm_t **end) {
  shm_t *s = NULL;
  COLL_TRY(base_alloc(1, sizeof *s, "a shared-memory transport", (void **)&s));
  coll_status_t status = base_alloc((size_t)size * TRANSPORT_CHANNELS, sizeof *s->fifos,
                                    "message counts", (void **)&s->fifos);
  if (status == COLL_OK) {
    status = base_alloc((size_t)size, sizeof *s->posts, "counts of posts", (void **)&s->posts);
  }
  if (status == COLL_OK) {
    status = base_alloc((size_t)size, sizeof *s->unheard, "what peers know", (void **)&s->unheard);
  }
  if (status != COLL_OK) {
    free(s->posts);
    free(s->fifos);
    free(s);
    return status;
  }
  shm_park_prepare();
  shm_layout_compute(size, &s->layout);
  s->transport = (transport_t){.ops = &shm_ops,
                               .rank = rank,
                               .size = size,
                               .slot_bytes = s->layout.slot_bytes,
                               .post_bytes = s->layout.post_bytes,
                               .peeks = true};
  s->mesh.listener = -1;
  *end = s;
  return COLL_OK;
}

/* Rank 0 makes the segment and hands it to all; the others wait for it. */
static coll_status_t share_segment(shm_t *s, uint64_t deadline_ns) {
  size_t bytes = s->layout.segment_bytes;
  shm_note_t note = {.kind = SHM_NOTE_SEGMENT, .bytes = bytes};
  bool moved = false;
  if (s->mesh.rank == 0) {
    COLL_TRY(shm_segment_create(bytes, "a communicator", &s->segment));
    for (int peer = 1; peer < s->mesh.size; peer++) {
      COLL_TRY(shm_mesh_send(&s->mesh, peer, &note, s->segment->fd, &moved));
      if (!moved) {
        return base_fail(COLL_ERROR_RANK_LOST, "rank %d ended while the communicator was made",
                         peer);
      }
    }
    return COLL_OK;
  }
  int fd;
  COLL_TRY(shm_mesh_await(&s->mesh, 0, deadline_ns));
  COLL_TRY(shm_mesh_recv(&s->mesh, 0, 0, &note, &fd, &moved));
  if (!moved || fd < 0 || note.kind != SHM_NOTE_SEGMENT || note.bytes != bytes) {
    if (fd >= 0) close(fd);
    return base_fail(COLL_ERROR_RANK_LOST,
                     "rank %d: rank 0 did not hand over the communicator's shared memory",
                     s->mesh.rank);
  }
  return shm_segment_open(fd, bytes, "a communicator", &s->segment);
}

coll_status_t transport_shm_create(shm_mesh_t *mesh, bool one_process, uint64_t deadline_ns,
                                   transport_t **t) {
  shm_t *s;
  coll_status_t status = make_end(mesh->rank, mesh->size, &s);
  if (status != COLL_OK) {
    shm_mesh_close(mesh);
    return status;
  }
  s->one_process = one_process;
  s->mesh = *mesh;
  *mesh = (shm_mesh_t){.listener = -1};
  status = share_segment(s, deadline_ns);
  s->mesh.watch = NULL; /* the caller's, for the creation only */
  if (status != COLL_OK) {
    shm_destroy(&s->transport);
    return status;
  }
  find_fifos(s);
  *t = &s->transport;
  return COLL_OK;
}

coll_status_t transport_shm_create_local(int size, transport_t *ends[]) {
  shm_layout_t layout;
  shm_segment_t *segment;
  shm_layout_compute(size, &layout);
  COLL_TRY(shm_segment_create(layout.segment_bytes, "a communicator of threads", &segment));
  coll_status_t status = COLL_OK;
  int made = 0;
  for (; made < size && status == COLL_OK; made++) {
    shm_t *s;
    status = make_end(made, size, &s);
    if (status != COLL_OK) break;
    s->one_process = true;
    s->segment = segment;
    shm_segment_retain(segment);
    find_fifos(s);
    ends[made] = &s->transport;
  }
  while (status != COLL_OK && made > 0) shm_destroy(ends[--made]);
  shm_segment_release(segment); /* the ends hold their own references */
  return status;
}

/*
 * One rank's end of the transport, private to its files: where its FIFOs lie in the shared segment,
 * and how far it has come. Each side of a FIFO keeps its own count of messages and signals here;
 * what is shared is only what the other side must see.
 */
#ifndef TRANSPORT_SHM_END_H
#define TRANSPORT_SHM_END_H

#include "base/inline.h"
#include "transport/shm/fifo.h"
#include "transport/shm/layout.h"
#include "transport/shm/park.h"
#include "transport/shm/share.h"

/* What this rank knows of its two FIFOs with one peer on one channel: where they lie in the
 * segment, and how far it has come. */
typedef struct shm_fifo {
  transport_port_t port;
  shm_outgoing_t out;
  shm_incoming_t in;
  shm_signals_t *signals_out, *signals_in;
  shm_used_t *used_out, *used_in; /* whether anything was ever sent this way */
  shm_control_t *peer;
  uint64_t bit;              /* of the peer in a set of ranks: 1 << peer % 64 */
  uint32_t signaled, waited; /* modulo 2^32 */
  uint32_t signals_full_at;  /* of `signaled`, by what was seen to be taken */
  uint64_t heard;            /* messages received when the latest was sent */
} shm_fifo_t;

/* What this rank knows of a peer's posts, or, of its own, how far it has come. */
typedef struct shm_mcast_state {
  shm_taken_t *taken; /* of the peer's posts, by this rank; of this rank's, by the peer */
  shm_taken_t *taken_by;
  shm_control_t *control;
  uint64_t received;
} shm_mcast_state_t;

typedef struct shm {
  transport_t transport;
  shm_layout_t layout;
  shm_segment_t *segment;
  shm_fifo_t *fifos;               /* [size * TRANSPORT_CHANNELS] */
  shm_mcast_state_t *posts;        /* [size] */
  uint64_t multicast, posts_taken; /* of this rank; by all peers, at last look */
  shm_unseen_t *unheard;           /* [size] */
  uint64_t sent_to;                /* peers (bit r % 64) since neighbours were last looked at */
  bool one_process; /* all ranks are threads of this process: any address is good everywhere */
  shm_mesh_t mesh;  /* sockets NULL where the ends were made together */
  shm_share_t share;
  uint32_t doorbell_seen; /* between arm and sleep */
  uint32_t arms;          /* so far */
} shm_t;

static inline shm_t *shm_end_of(transport_t *t) {
  return (shm_t *)(void *)t;
}

/* Of another rank and one of the channels; plans are checked for that. */
static inline shm_fifo_t *shm_end_fifo(shm_t *s, int peer, int channel) {
  return &s->fifos[(unsigned)(peer * TRANSPORT_CHANNELS + channel)];
}

static inline shm_control_t *shm_end_control(shm_t *s, int rank) {
  return shm_layout_control(&s->layout, s->segment->base, rank);
}

static inline shm_fifo_t *shm_fifo_at(transport_port_t *port) {
  return (shm_fifo_t *)(void *)port;
}

/* Before the first message or signal on the FIFO. */
BASE_COLD void shm_end_note_used(const shm_fifo_t *fifo);

/* Lets the peer know that something was sent. */
BASE_INLINE void shm_end_announce(const shm_fifo_t *fifo) {
  shm_end_of(fifo->port.transport)->sent_to |= fifo->bit;
  shm_park_ring(fifo->peer);
}

/* ---- signals.c: as transport_ops_t says, of signal, wait, signaled ----------------------------*/

coll_status_t shm_signals_give(transport_port_t *port, const flight_call_t *call, bool *done);
coll_status_t shm_signals_wait(transport_port_t *port, flight_call_t *call, bool *arrived);
bool shm_signals_has(transport_port_t *port);

/* The next signal from the peer, or NULL. */
BASE_INLINE const shm_signal_t *shm_signals_next(const shm_fifo_t *fifo) {
  const shm_signal_t *slot = &fifo->signals_in->slots[fifo->waited % SHM_SIGNALS];
  /* acquire: the call, and what the peer wrote before, is there once the flag is */
  uint32_t sequence = atomic_load_explicit(&slot->sequence, memory_order_acquire);
  return sequence == fifo->waited + 1 ? slot : NULL;
}

/* ---- posts.c: as transport_ops_t says, of post, mcast_peek, mcast_take
 * --------------------------*/

coll_status_t shm_mcast_send(transport_t *t, const void *data, const transport_head_t *head,
                             bool *done);
coll_status_t shm_mcast_peek(transport_t *t, int peer, const void **data, transport_head_t *head,
                             bool *done);
coll_status_t shm_mcast_take(transport_t *t, int peer);

/* ---- leave.c: as transport_ops_t says ---------------------------------------------------------*/

bool shm_leave_pending_in(transport_port_t *port, flight_call_t *call);
bool shm_leave_pending_out(transport_port_t *port, flight_call_t *call);
transport_peer_state_t shm_leave_peer_state(transport_t *t, int peer);
void shm_leave_abort(transport_t *t, const transport_reason_t *reason);
bool shm_leave_aborted(transport_t *t, transport_reason_t *reason);

/* Says that this rank leaves; after what it has taken, so that senders know what it has not. */
void shm_leave(shm_t *s);

#endif

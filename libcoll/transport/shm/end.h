/*
 * State of one rank's end of the transport, private to the files of this folder: pointers to its
 * FIFOs in the shared segment, and its own counts of messages and signals. The shared segment holds
 * only what the other side has to read.
 */
#ifndef TRANSPORT_SHM_END_H
#define TRANSPORT_SHM_END_H

#include "base/inline.h"
#include "transport/shm/buffers.h"
#include "transport/shm/fifo.h"
#include "transport/shm/layout.h"
#include "transport/shm/wakeup.h"

/* Both directions between this rank and one peer on one channel: pointers into the segment and
 * private counts. */
typedef struct shm_fifo {
  transport_port_t port;
  shm_outgoing_t out;
  shm_incoming_t in;
  shm_signals_t *signals_out, *signals_in;
  /* Their bit used_bit is set before the first message or signal of that direction. */
  shm_used_t *used_out, *used_in;
  uint64_t *sent_on; /* the word of shm_t.sent_on that repeats used_out */
  uint64_t used_bit;
  shm_control_t *peer;
  uint64_t bit;                            /* the peer's bit in a set of ranks: 1 << peer % 64 */
  uint32_t signals_sent, signals_received; /* modulo 2^32 */
  /* Value of signals_sent at which the ring is full, by the last read of `taken`. */
  uint32_t signals_full_at;
  /* Value of in.received at the latest send. If it is the same at the next one, this rank sends a
   * stream without replies. */
  uint64_t received_at_send;
} shm_fifo_t;

/* Multicast state for one peer: that peer's messages to this rank, and how many of this rank's
 * messages it has taken. */
typedef struct shm_mcast_state {
  /* Counts in shared memory: the peer's messages taken by this rank, and the reverse. */
  shm_taken_t *taken, *taken_by;
  shm_control_t *control;
  uint64_t received;
} shm_mcast_state_t;

/* A further channel that this rank uses. */
typedef struct shm_channel {
  shm_fifo_t *fifos; /* [size]; that of this rank is unused. NULL: the channel is not in use */
} shm_channel_t;

typedef struct shm {
  transport_t transport;
  shm_layout_t layout;
  shm_segment_t *segment;
  shm_fifo_t *fifos;                  /* [TRANSPORT_CHANNELS * size]; zero until first used */
  bool has_fifos[TRANSPORT_CHANNELS]; /* any of the channel was used */
  uint64_t *sent_on; /* [size * SHM_USED_WORDS]: channels on which this rank has sent to the peer.
                        The peers' words are far apart in the segment. */
  shm_channel_t further[SHM_FURTHER_CHANNELS];
  shm_mcast_state_t *mcast;         /* [size] */
  uint64_t mcast_sent, mcast_taken; /* sent by this rank; taken by every peer, at the last check */
  shm_unseen_t *unseen;             /* [size] */
  uint64_t sent_to;                 /* peers sent to (bit r % 64) since the last yield_hint */
  bool one_process; /* all ranks are threads of this process: an address is valid for every rank */
  /* Other processes hold ranks, which presence.h says of; this one holds its own. */
  bool is_present;
  int ranks;        /* the file of presence.h; -1: none */
  uint64_t process; /* this rank's */
  shm_mesh_t mesh;  /* without names if all ends were created together in one process */
  shm_buffers_t buffers;
  uint64_t probe; /* the number of this rank's transport_probe_t */
  int *pids;      /* [size]: of the peers' processes, as this process sees them; NULL: not probed */
  uint32_t doorbell_seen; /* value of the doorbell at arm, for the sleep after it */
} shm_t;

static inline shm_t *shm_end_of(transport_t *t) {
  return (shm_t *)(void *)t;
}

/* peer != rank and channel < TRANSPORT_CHANNELS; the engine checks plans for both. Those of one
 * channel are together, because most ranks use only the first one. */
static inline shm_fifo_t *shm_end_fifo(shm_t *s, int peer, int channel) {
  return &s->fifos[(unsigned)(channel * s->transport.size + peer)];
}

static inline shm_control_t *shm_end_control(shm_t *s, int rank) {
  return shm_layout_control(&s->layout, s->segment->base, rank);
}

static inline shm_record_t *shm_end_record(shm_t *s, int rank) {
  return shm_layout_record(&s->layout, s->segment->base, rank);
}

static inline shm_fifo_t *shm_fifo_at(transport_port_t *port) {
  return (shm_fifo_t *)(void *)port;
}

/* Records that the FIFO is in use. Called before its first message or signal. */
BASE_COLD void shm_end_mark_used(const shm_fifo_t *fifo);

/* Whether the peer has sent anything on the FIFO. */
static inline bool shm_end_is_used(const shm_fifo_t *fifo) {
  /* acquire: the peer sets it before it sends */
  return (atomic_load_explicit(fifo->used_in, memory_order_acquire) & fifo->used_bit) != 0;
}

/* ---- channels.c ------------------------------------------------------------------------------*/

/* The slots port and used_channel of transport_ops_t. */
transport_port_t *shm_channels_port(transport_t *t, int peer, int channel);
int shm_channels_used(transport_t *t, int peer, int channel);

/* Acknowledges everything received. */
void shm_channels_ack(shm_t *s);

void shm_channels_free(shm_t *s);

/* Called after a send or signal: wakes the peer if it sleeps. */
BASE_INLINE void shm_end_notify(const shm_fifo_t *fifo) {
  shm_end_of(fifo->port.transport)->sent_to |= fifo->bit;
  shm_wakeup_notify(fifo->peer);
}

/* ---- signals.c: slots signal, wait, signaled of transport_ops_t ------------------------------*/

coll_status_t shm_signals_send(transport_port_t *port, const flight_call_t *call, bool *done);
coll_status_t shm_signals_wait(transport_port_t *port, flight_call_t *call, bool *arrived);
bool shm_signals_pending(transport_port_t *port);

/* Returns the next signal from the peer, or NULL. */
BASE_INLINE const shm_signal_t *shm_signals_next(const shm_fifo_t *fifo) {
  const shm_signal_t *slot = &fifo->signals_in->slots[fifo->signals_received % SHM_SIGNALS];
  /* acquire: pairs with the release in shm_signals_send; the call and all earlier writes of the
   * peer are visible */
  uint32_t sequence = atomic_load_explicit(&slot->sequence, memory_order_acquire);
  return sequence == fifo->signals_received + 1 ? slot : NULL;
}

/* ---- mcast.c: slots mcast_send, mcast_peek, mcast_take of transport_ops_t --------------------*/

coll_status_t shm_mcast_send(transport_t *t, const void *data, const transport_head_t *head,
                             bool *done);
coll_status_t shm_mcast_peek(transport_t *t, int peer, const void **data, transport_head_t *head,
                             bool *done);
coll_status_t shm_mcast_take(transport_t *t, int peer);

/* ---- share.c ---------------------------------------------------------------------------------*/

/* Writes the directory of the flight recorders, for tools. */
coll_status_t shm_share_directory(const shm_layout_t *layout, const shm_segment_t *segment);

/* Rank 0 creates the segment and the file of presence.h; the others wait for them until the
 * deadline. They are the end's, on failure too. Statuses: those of mesh.h and segment.h. */
coll_status_t shm_share_files(shm_t *s, uint64_t deadline_ns);

/* From now on the peers find out if this process ends. */
coll_status_t shm_share_presence(shm_t *s);

/* ---- passes.c: slots pass_descriptor and take_descriptor of transport_ops_t -------------------*/

coll_status_t shm_passes_pass(transport_t *t, int peer, uint64_t tag, int descriptor, bool *done);
coll_status_t shm_passes_take(transport_t *t, int peer, uint64_t tag, int *descriptor, bool *done);

/* Closes what ranks of this process have passed to this one, which has left. */
void shm_passes_drop(const shm_t *s);

/* ---- shutdown.c: slots of transport_ops_t ----------------------------------------------------*/

bool shm_shutdown_pending_in(transport_port_t *port, flight_call_t *call);
bool shm_shutdown_pending_out(transport_port_t *port, flight_call_t *call);
transport_peer_state_t shm_shutdown_peer_state(transport_t *t, int peer);
void shm_shutdown_abort(transport_t *t, const transport_reason_t *reason);
bool shm_shutdown_aborted(transport_t *t, transport_reason_t *reason);

/* Acknowledges all received messages, then publishes that this rank has left and wakes all peers.
 * The order lets senders see which messages were not received. */
void shm_shutdown(shm_t *s);

#endif

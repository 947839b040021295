/*
 * What the engine asks of the way between ranks. A transport belongs to one communicator of one
 * rank; peers are named by their rank in it. It carries messages through FIFOs of whole slots,
 * counts signals, and, where memory can be shared, maps it.
 *
 * Every slot below must be called by one thread at a time (whoever holds the communicator's turn),
 * but for abort, which any thread may call. No slot blocks except sleep; all return at once with
 * done or arrived false when the peer is not ready. Unless a slot says otherwise it returns
 * COLL_OK, or COLL_ERROR_RANK_LOST, COLL_ERROR_SYSTEM with a sentence. Transports never call
 * upward.
 */
#ifndef TRANSPORT_OPS_H
#define TRANSPORT_OPS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "flight/recorder.h"
#include "plan/plan.h"

/* FIFOs per ordered pair of ranks: one per lane of a plan, and one for coll_send and coll_recv. */
#define TRANSPORT_CHANNELS (PLAN_LANES_MAX + 1)
#define TRANSPORT_CHANNEL_P2P PLAN_LANES_MAX

/* What the P2P channel holds at least, whatever the receiver does: coll.h promises as much. */
#define TRANSPORT_P2P_MESSAGES 64
#define TRANSPORT_P2P_BYTES ((size_t)256 << 10)

/* What travels beside a message's bytes. The transport carries the call and does not read it. */
typedef struct transport_head {
  flight_call_t call;
  size_t bytes;
} transport_head_t;

#define TRANSPORT_REASON_BYTES 480

/* Why a communicator was finished. */
typedef struct transport_reason {
  int failed_rank; /* the rank to blame */
  coll_status_t status;
  char text[TRANSPORT_REASON_BYTES]; /* the sentence of who found out */
} transport_reason_t;

/* Where memory is, in words that a peer can map. All zero: not mappable. */
typedef struct transport_address {
  uint64_t segment; /* unique on the machine; 0: none */
  uint64_t offset;  /* bytes into the segment */
} transport_address_t;

typedef enum transport_peer_state {
  TRANSPORT_PEER_HERE, /* as far as can be told */
  TRANSPORT_PEER_LEFT, /* destroyed its side of the communicator in good order */
  TRANSPORT_PEER_LOST  /* died */
} transport_peer_state_t;

typedef struct transport transport_t;

/* Where this rank's messages and signals to a peer on a channel go in, and the peer's come out. The
 * transport's own, and valid as long as it. Every port starts with this. */
typedef struct transport_port {
  transport_t *transport;
} transport_port_t;

/* Where what a rank waits for may come from. */
typedef enum transport_yield_hint {
  TRANSPORT_YIELD_HELPS,  /* other ranks on this processor may go on, if they are given the core */
  TRANSPORT_YIELD_LATER,  /* these might go on, but whom it misses has a core elsewhere */
  TRANSPORT_YIELD_USELESS /* none here can go on */
} transport_yield_hint_t;

typedef struct transport_ops {
  const char *name;

  /* The port to the peer on the channel; the same one each time. NULL where there is none. */
  transport_port_t *(*port)(transport_t *t, int peer, int channel);

  /* Puts one message of at most slot_bytes into the FIFO to the peer. done: the bytes are copied,
   * the buffer is the caller's again; not done: the FIFO is full, nothing was taken. Holds at least
   * PLAN_DEPTH_MAX messages. bytes may be 0. */
  coll_status_t (*send)(transport_port_t *port, const void *data, const transport_head_t *head,
                        bool *done);

  /* Takes the oldest message from the peer into data, at most `capacity` bytes of it, and its head.
   * A message longer than capacity is cut: the caller compares head.bytes. */
  coll_status_t (*recv)(transport_port_t *port, void *data, size_t capacity, transport_head_t *head,
                        bool *done);

  /* The oldest message from the peer and its head where the transport has it, unchanged until take;
   * and take, which lets go of it. Only where transport_t says that it peeks. */
  coll_status_t (*peek)(transport_port_t *port, const void **data, transport_head_t *head,
                        bool *done);
  coll_status_t (*take)(transport_port_t *port);

  /* A post is one message to all peers, in a FIFO of its own that each of them reads: post, as
   * send does, while all have room for it; then mcast_peek and mcast_take, as above. Holds at least
   * PLAN_DEPTH_MAX. Only where transport_t says how long posts may be. */
  coll_status_t (*mcast_send)(transport_t *t, const void *data, const transport_head_t *head,
                              bool *done);
  coll_status_t (*mcast_peek)(transport_t *t, int peer, const void **data, transport_head_t *head,
                              bool *done);
  coll_status_t (*mcast_take)(transport_t *t, int peer);

  /* Release: everything this thread wrote before is visible to the peer once its matching
   * wait has arrived. Holds at least PLAN_SIGNALS_MAX; not done: there is no room for another. */
  coll_status_t (*signal)(transport_port_t *port, const flight_call_t *call, bool *done);

  /* Acquire: consumes one signal from the peer, if there is one, and tells what the peer gave with
   * it. */
  coll_status_t (*wait)(transport_port_t *port, flight_call_t *call, bool *arrived);

  /* Whether a wait would find a signal. */
  bool (*signaled)(transport_port_t *port);

  /* For a rank that is about to leave. in: the call of the oldest message or signal from the peer
   * that this rank has not taken. out: of the oldest message to the peer, where that has left, and
   * so will never take it. */
  bool (*pending_in)(transport_port_t *port, flight_call_t *call);
  bool (*pending_out)(transport_port_t *port, flight_call_t *call);

  /* Describes [ptr, ptr+bytes) so that peers can map it, and sees to it that they will be able to.
   * A zero address where they cannot. Cheap when asked again for the same memory. */
  coll_status_t (*address)(transport_t *t, const void *ptr, size_t bytes,
                           transport_address_t *address);

  /* The peer's memory here, valid until the transport is destroyed or the peer frees the memory;
   * NULL where it cannot be mapped. Never asked for a zero address. */
  coll_status_t (*map)(transport_t *t, int peer, const transport_address_t *address, void **ptr);

  /* A rank's scratch as it is mapped here (its own included): at least *bytes, the same on every
   * rank; NULL and 0 where peers are not mapped. */
  void (*scratch)(transport_t *t, int rank, void **ptr, size_t *bytes);

  /* How a rank sleeps without missing news: arm, look at every FIFO once more, then sleep (returns
   * on news or after at most timeout_ns; may return early), then disarm. sleep is the only slot
   * that blocks. */
  void (*arm)(transport_t *t);
  void (*sleep)(transport_t *t, uint64_t timeout_ns);
  void (*disarm)(transport_t *t);

  /* For wait loops of ranks that outnumber cores: tells how far this rank has come, in numbers that
   * mean about the same on all ranks and grow from call to call, and whom it misses (bit r % 64 for
   * rank r). What helps, as far as others have told. */
  transport_yield_hint_t (*yield_hint)(transport_t *t, uint64_t place, uint64_t missing);
  void (*yield)(transport_t *t); /* lets other threads have the core, and peers know of it */

  /* A rank's flight recorder as it is known here, this rank's own included; NULL where it is not
   * known. publish: what was written to this rank's since shall be seen by its peers. */
  const flight_recorder_t *(*recorder)(transport_t *t, int rank);
  void (*publish)(transport_t *t);

  /* Looks at the peer's health; may enter the kernel, so for wait loops only. What a peer sent
   * before it left or died can still be received. */
  transport_peer_state_t (*peer_state)(transport_t *t, int peer);

  /* Tells every rank that the communicator is finished, and why; the first to say so is believed.
   * aborted: whether it was said, by anyone, and the reason. Both by any thread. */
  void (*abort)(transport_t *t, const transport_reason_t *reason);
  bool (*aborted)(transport_t *t, transport_reason_t *reason);

  /* Leaves in good order and frees the transport. */
  void (*destroy)(transport_t *t);
} transport_ops_t;

/* Every transport starts with this. */
struct transport {
  const transport_ops_t *ops;
  int rank, size;
  size_t slot_bytes;  /* the most bytes of one message; the same on every rank */
  size_t mcast_bytes; /* the most bytes of a post; 0: it carries none; the same on every rank */
  bool peeks;         /* messages can be read in place, aligned for any element */
  bool own_cores;     /* nobody needs the core of a rank that waits; by who owns the transport */
  /* Not 0 once `aborted` would say so, for a quick look by any thread; set with release. */
  const _Atomic uint32_t *abort_word;
  /* This rank's own. Written with every call, and so not by way of a slot. */
  flight_recorder_t *flight;
};

/* A table that answers "unsupported" to everything (and does nothing where nothing can fail), for
 * transports to copy from: no slot of any table is NULL. */
extern const transport_ops_t transport_unsupported;

#endif

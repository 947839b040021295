/*
 * Interface between the engine and a transport: a table of functions ("slots") for messages,
 * signals, memory mapping, sleeping and failure detection. A transport object belongs to one rank
 * of one communicator; peers are named by their rank in that communicator. Messages travel through
 * one FIFO per ordered pair of ranks and channel and are at most slot_bytes long.
 *
 * A new transport implements every slot of the "required" group; for what it cannot do of the rest
 * its table has the functions of defaults.h, which report "not supported" as each slot documents.
 * No slot of any table is NULL.
 *
 * Rules for all slots, unless a slot states otherwise:
 *   threads    one thread at a time, the holder of the communicator's lock
 *   blocking   none: a slot returns at once, with *done or *arrived false if the peer is not ready;
 *              only sleep blocks, and yield may give the core to other threads
 *   ownership  buffers and out parameters belong to the caller and are not used after the return
 *   status     COLL_OK, or COLL_ERROR_RANK_LOST, COLL_ERROR_MEMORY or COLL_ERROR_SYSTEM with a
 *              message set by base_fail; on failure the out parameters are unspecified
 *   layering   a transport never calls the engine or the layers above it
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

/* FIFOs per ordered pair of ranks that exist from the start: the first channels of plans, and one
 * for coll_send and coll_recv. The others ("further channels"), up to TRANSPORT_CHANNELS_MAX in
 * all, are made by the first call of `port` for them. */
#define TRANSPORT_CHANNELS 3
#define TRANSPORT_CHANNEL_P2P 2
#define TRANSPORT_CHANNELS_MAX (PLAN_CHANNELS_MAX + 1)

/* The transport's channel for a channel of a plan. */
static inline int transport_channel_of(int plan_channel) {
  return plan_channel < TRANSPORT_CHANNEL_P2P ? plan_channel : plan_channel + 1;
}

#define TRANSPORT_DEPTH PLAN_FIFO_DEPTH /* messages that every FIFO holds at least */

/* Minimum capacity of the P2P channel while the receiver takes nothing; coll.h promises it. */
#define TRANSPORT_P2P_MESSAGES 64
#define TRANSPORT_P2P_BYTES ((size_t)256 << 10)

#define TRANSPORT_PASSES 64 /* file descriptors of a rank that a peer has not taken yet */

/* Header of a message. The transport delivers `call` and does not read it. */
typedef struct transport_head {
  flight_call_t call;
  size_t bytes; /* length of the message */
} transport_head_t;

#define TRANSPORT_REASON_BYTES 480
#define TRANSPORT_WHY_BYTES 160

/* Why a communicator was aborted. */
typedef struct transport_reason {
  int failed_rank; /* the rank that caused the failure */
  coll_status_t status;
  char text[TRANSPORT_REASON_BYTES]; /* error message of the rank that detected the failure */
} transport_reason_t;

/* Address of memory that a peer can map. All zero: not mappable. */
typedef struct transport_address {
  uint64_t segment; /* unique on the machine; 0: none */
  uint64_t offset;  /* bytes into the segment */
} transport_address_t;

/* What a peer needs to fetch memory of this rank. Its words are the transport's affair. */
#define TRANSPORT_RAILS 4 /* devices that a rank may use at once */
typedef struct transport_exposure {
  uint64_t address;
  uint32_t keys[TRANSPORT_RAILS]; /* of the memory, for the peer, by this rank's rails */
  uint32_t handle;                /* of this rank, for withdraw */
} transport_exposure_t;

typedef enum transport_peer_state {
  TRANSPORT_PEER_HERE, /* no failure detected */
  TRANSPORT_PEER_LEFT, /* destroyed its transport in good order */
  TRANSPORT_PEER_LOST  /* its process exited without that, or cannot be reached */
} transport_peer_state_t;

typedef struct transport transport_t;

/* Both directions between this rank and one peer on one channel. Owned by the transport and valid
 * until its destruction. The port type of every transport begins with this struct. */
typedef struct transport_port {
  transport_t *transport; /* that of the end, or one of which it consists */
} transport_port_t;

/* A fetch that has begun. The type of every transport begins with this struct. */
typedef struct transport_fetch {
  transport_port_t *port;
} transport_fetch_t;

/* Long messages straight between the buffers of two ranks of different hosts (RDMA). */
typedef struct transport_fetch_ops {
  /* Lets the peer fetch [data, data + bytes) until withdraw. *exposure is for the peer, to which
   * the caller sends it. Not *exposed: the peer cannot fetch it. withdraw, is_fetched: the peer has
   * said that it has all; else the call fails, and nothing but aborts reaches the peer any more. */
  coll_status_t (*expose)(transport_port_t *port, const void *data, size_t bytes,
                          transport_exposure_t *exposure, bool *exposed);
  void (*withdraw)(transport_port_t *port, const transport_exposure_t *exposure, bool is_fetched);

  /* Begins to copy what the peer has exposed to dst. */
  coll_status_t (*begin)(transport_port_t *port, const transport_exposure_t *exposure, void *dst,
                         size_t bytes, transport_fetch_t **fetch);
  /* *done: all of it is there, and the fetch is freed. What holds of the bytes of `get` holds of
   * these. It is never done if the peer's call has failed. */
  coll_status_t (*advance)(transport_fetch_t *fetch, bool *done);
  /* For a call that fails: frees a fetch that is not done. dst is not written to afterwards.
   * Nothing but aborts reaches the peer any more. */
  void (*stop)(transport_fetch_t *fetch);
} transport_fetch_ops_t;

/* Of transports that cannot: nothing is exposed. */
extern const transport_fetch_ops_t transport_no_fetch;

/* Whether a waiting rank should call yield. */
typedef enum transport_yield_hint {
  TRANSPORT_YIELD_HELPS,  /* ranks on the same processor can make progress if they get the core */
  TRANSPORT_YIELD_LATER,  /* they can, but the missing ranks already run on other processors */
  TRANSPORT_YIELD_USELESS /* no rank on the same processor can make progress */
} transport_yield_hint_t;

typedef struct transport_ops {
  const char *name;

  /* ==== required ==============================================================================*/

  /* Returns the port to the peer on the channel, the same pointer in every call; NULL if the
   * transport does not reach that peer or cannot make the channel. For a further channel base_fail
   * says why. */
  transport_port_t *(*port)(transport_t *t, int peer, int channel);

  /* Appends one message of head->bytes <= slot_bytes to the FIFO to the peer. *done: the bytes are
   * copied and the caller may reuse the buffer. Not *done: the FIFO is full and is unchanged. The
   * FIFO holds at least TRANSPORT_DEPTH messages. data may be NULL if head->bytes is 0. */
  coll_status_t (*send)(transport_port_t *port, const void *data, const transport_head_t *head,
                        bool *done);

  /* Removes the oldest message from the peer, and copies its header and at most `capacity` bytes of
   * it into the caller's buffer. A longer message is truncated: the caller compares head->bytes. */
  coll_status_t (*recv)(transport_port_t *port, void *data, size_t capacity, transport_head_t *head,
                        bool *done);

  /* Sends one signal. Release: everything this thread wrote before is visible to the peer after the
   * matching wait has arrived. Not *done: no room for another signal; a FIFO holds at least
   * PLAN_SIGNALS_MAX. The call is copied. */
  coll_status_t (*signal)(transport_port_t *port, const flight_call_t *call, bool *done);

  /* Acquire: removes one signal from the peer, if there is one, and returns the call that the peer
   * passed with it. */
  coll_status_t (*wait)(transport_port_t *port, flight_call_t *call, bool *arrived);

  /* Returns whether a wait would find a signal. */
  bool (*signaled)(transport_port_t *port);

  /* Sleeping without missing an arrival: arm, poll every FIFO once more, then sleep if nothing
   * arrived, then disarm. sleep blocks until a peer sends something or aborts, or for timeout_ns;
   * it may return early. */
  void (*arm)(transport_t *t);
  void (*sleep)(transport_t *t, uint64_t timeout_ns);
  void (*disarm)(transport_t *t);

  /* Detects whether the peer has left or died. May make system calls, so for wait loops only. What
   * a peer sent before it left or died can still be received. */
  transport_peer_state_t (*peer_state)(transport_t *t, int peer);

  /* A rank's flight recorder, this rank's own included, as far as the rank has published it; NULL
   * if it cannot be read from here. Valid until the transport is destroyed; only a further call
   * makes sure that what was published meanwhile is in it. */
  const flight_recorder_t *(*recorder)(transport_t *t, int rank);

  /* Makes what this rank has written to its recorder visible to peers. */
  void (*publish)(transport_t *t);

  /* Aborts the communicator for all ranks. The first reason given by any rank is the one that all
   * ranks report; later ones are dropped. The reason is copied. Any thread may call it. */
  void (*abort)(transport_t *t, const transport_reason_t *reason);

  /* Returns whether any rank has aborted the communicator, and copies the reason. Any thread may
   * call it. May wait until the ranks have agreed on the reason. */
  bool (*aborted)(transport_t *t, transport_reason_t *reason);

  /* For a rank that is about to destroy the transport. pending_in: returns whether a message or
   * signal from the peer was not received, and the call of the oldest. pending_out: if the peer has
   * left, returns whether a message to it will never be received, and the call of the oldest. */
  bool (*pending_in)(transport_port_t *port, flight_call_t *call);
  bool (*pending_out)(transport_port_t *port, flight_call_t *call);

  /* Leaves the communicator in good order and frees the transport. */
  void (*destroy)(transport_t *t);

  /* ==== optional; the default (defaults.h) in brackets ============================ */

  /* The first channel from `channel` on that this rank or the peer has sent anything on;
   * TRANSPORT_CHANNELS_MAX: none. It may name a channel below TRANSPORT_CHANNELS that neither has.
   * [those below TRANSPORT_CHANNELS: no further channels] */
  int (*used_channel)(transport_t *t, int peer, int channel);

  /* As send, but the bytes are not changed until release: the transport may send them again. Called
   * only if transport_t.borrows. [send] */
  coll_status_t (*send_lent)(transport_port_t *port, const void *data, const transport_head_t *head,
                             bool *done);

  /* As recv, but the message goes on arriving in the caller's memory after a return that is not
   * *done: the caller calls again with the same memory until it is, or calls cancel. Meanwhile it
   * calls no recv and no take on the port, and data may hold a part of the message. [recv] */
  coll_status_t (*recv_post)(transport_port_t *port, void *data, size_t capacity,
                             transport_head_t *head, bool *done);

  /* From now on no memory that was given to send_lent is read; and none that was given to recv_post
   * is written to, for calls that have failed: a message that has arrived there is lost. [nothing]
   */
  void (*release)(transport_t *t);
  void (*cancel)(transport_t *t);

  /* Whether no message that was sent by the port moves on only while this rank makes calls (the
   * system or a device has all of them), and the peer has all but 256 KiB of what may be sent
   * again, which is copied when a call ends; or the peer has left. Never of a peer that is lost:
   * the call is to fail. Sends and receives meanwhile. [true] */
  bool (*drained)(transport_port_t *port);

  /* Zero-copy receive. peek returns the oldest message from the peer in the transport's memory,
   * aligned for any element and unchanged until take; take releases it. Called only if
   * transport_t.peeks. [COLL_ERROR_UNSUPPORTED] */
  coll_status_t (*peek)(transport_port_t *port, const void **data, transport_head_t *head,
                        bool *done);
  coll_status_t (*take)(transport_port_t *port);

  /* Multicast: one message that all peers read, in a FIFO of its own per sender with room for at
   * least TRANSPORT_DEPTH. mcast_send copies the data as send does; not *done: a peer has no room.
   * mcast_peek and mcast_take are peek and take for the sender `peer`. Called only if
   * transport_t.mcast_bytes > 0. [COLL_ERROR_UNSUPPORTED] */
  coll_status_t (*mcast_send)(transport_t *t, const void *data, const transport_head_t *head,
                              bool *done);
  coll_status_t (*mcast_peek)(transport_t *t, int peer, const void **data, transport_head_t *head,
                              bool *done);
  coll_status_t (*mcast_take)(transport_t *t, int peer);

  /* Returns the address by which peers can map [ptr, ptr+bytes), and exports the memory to them if
   * that was not done; a zero address if it cannot be mapped. A second call for the same memory is
   * cheap. The memory stays the caller's. [a zero address] */
  coll_status_t (*address)(transport_t *t, const void *ptr, size_t bytes,
                           transport_address_t *address);

  /* What messages to the peer go over: the name of a transport or wire. [ops->name] */
  const char *(*route)(const transport_t *t, int peer);

  /* This rank waits for the peer: a transport that is not connected with it yet may connect to see
   * whether it is there. For wait loops. [nothing] */
  void (*waits_for)(transport_t *t, int peer);

  /* Why peer_state found the peer lost: a part of a sentence without a full stop that begins with
   * the address of its host. "": its process has ended. [""] */
  void (*why_lost)(transport_t *t, int peer, char why[TRANSPORT_WHY_BYTES]);

  /* Maps a peer's memory into this process: valid until the transport is destroyed or the peer
   * frees the memory. *ptr is NULL if it cannot be mapped. The address is not zero. [NULL] */
  coll_status_t (*map)(transport_t *t, int peer, const transport_address_t *address, void **ptr);

  /* Finds out, by trying, whether this rank can get from every peer. If not, `why` is a sentence
   * about the first that it cannot, without a full stop. All ranks of the communicator have created
   * their transports. [false] */
  bool (*probe_get)(transport_t *t, char why[TRANSPORT_WHY_BYTES]);

  /* Whether the peer's probe_get was true, as far as known here: false before it has probed.
   * [false] */
  bool (*peer_gets)(transport_t *t, int peer);

  /* Copies [address, address + bytes) of the peer's own address space, which the peer must not
   * free, into this rank's memory. Blocks while it copies. What it has copied is the peer's memory
   * of this call only if afterwards peer_state still is HERE and the communicator is not aborted,
   * which the caller checks. *done is false if the peer's process no longer has memory. Called only
   * after probe_get was true. COLL_ERROR_SYSTEM: the peer's process has no such memory.
   * [COLL_ERROR_UNSUPPORTED] */
  coll_status_t (*get)(transport_t *t, int peer, void *dst, uint64_t address, size_t bytes,
                       bool *done);

  /* Of the ports of this transport. [transport_no_fetch] */
  const transport_fetch_ops_t *fetch;

  /* Passes a copy of a file descriptor to a peer that shares memory with this rank (scratch); the
   * descriptor stays the caller's. The peer takes it by the same tag. Not *done: the peer has to
   * receive others first, or this process or the machine can open no more files. At least
   * TRANSPORT_PASSES of a rank may be on their way to a peer that takes none. All ranks of the
   * communicator have created their transports. [COLL_ERROR_UNSUPPORTED] */
  coll_status_t (*pass_descriptor)(transport_t *t, int peer, uint64_t tag, int descriptor,
                                   bool *done);

  /* Takes the oldest descriptor that the peer has passed with the tag, if it has arrived. The
   * caller closes it. COLL_ERROR_SYSTEM: this process cannot open it. [COLL_ERROR_UNSUPPORTED] */
  coll_status_t (*take_descriptor)(transport_t *t, int peer, uint64_t tag, int *descriptor,
                                   bool *done);

  /* A rank's scratch memory as mapped in this process, this rank's own included; NULL: it cannot be
   * mapped. *bytes is the same on every rank. Owned by the transport. [NULL and 0] */
  void (*scratch)(transport_t *t, int rank, void **ptr, size_t *bytes);

  /* Scheduling hint for wait loops of ranks that outnumber cores. Publishes this rank's progress (a
   * number that grows from call to call and is comparable between ranks) and the ranks it waits for
   * (bit r % 64 of `missing` for rank r). Returns whether to yield, from what the other ranks have
   * published. [TRANSPORT_YIELD_HELPS] */
  transport_yield_hint_t (*yield_hint)(transport_t *t, uint64_t progress, uint64_t missing);

  /* Gives the core to other threads, and publishes that it did. [sched_yield] */
  void (*yield)(transport_t *t);
} transport_ops_t;

/* The object of every transport begins with this struct. */
struct transport {
  const transport_ops_t *ops;
  int rank, size;
  size_t slot_bytes;  /* maximum length of a message; the same on every rank */
  size_t mcast_bytes; /* maximum length of a multicast message; 0: no multicast; as slot_bytes */
  bool peeks;         /* peek and take are implemented */
  bool recvs_direct;  /* recv_post has what arrives stored in the caller's memory: use it, not peek,
                         for messages that would only be copied there */
  bool borrows;       /* send_lent saves a copy */
  bool delays;    /* what a rank has sent may still be on its way when peers see that it waits */
  bool maps;      /* scratch, and memory with an address, of ranks of the same host can be mapped */
  bool own_cores; /* every rank has a core of its own; set by the owner of the transport */
  /* Nonzero once `aborted` would return true: a cheap check for any thread. Set with release. */
  const _Atomic uint32_t *abort_word;
  /* This rank's recorder. A field and not a slot because every call writes to it. */
  flight_recorder_t *flight;
};

/* The defaults of the optional slots. Its required slots report COLL_ERROR_UNSUPPORTED, or return
 * "nothing" where they have no status. */
extern const transport_ops_t transport_unsupported;

#endif

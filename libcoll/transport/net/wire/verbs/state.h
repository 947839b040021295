/*
 * State of one rank's wire, private to the files of this folder. The lock of its owner is held in
 * every call.
 *
 * Receiving: all pairs share VERBS_RECV_BUFFERS buffers. A large payload stays where it has arrived
 * until it is taken, as long as the device keeps half of the buffers; else it is copied, so that no
 * rank can take room from the others for longer than until the next progress. A sender that finds
 * no buffer is told by the receiver's device to try again, without end.
 *
 * Sending: frames that fit are sent inline, others from registered memory (buffers.c). So many can
 * be in flight that the messages of a rank that then makes no calls still arrive; further frames
 * are stored.
 *
 * Fetching: a long message is read by its receiver from the sender's buffer to its own, in parts
 * that the queue pairs of the pair of ranks share. Both buffers are registered for that: memory of
 * coll_mem_alloc once, other memory for each message, as nothing says when it is unmapped.
 *
 * Rails are the ports that a rank uses. The first carries all frames; without it the peer is lost.
 * Queue pairs of all rails carry fetches, each from when a first packet has come back on it until
 * it fails; the fetches that had a part under way on it then begin again, without it.
 */
#ifndef TRANSPORT_NET_WIRE_VERBS_STATE_H
#define TRANSPORT_NET_WIRE_VERBS_STATE_H

#include <stdbool.h>
#include <stddef.h>

#include "transport/net/wire/ops.h"
#include "transport/net/wire/verbs/device.h"
#include "transport/net/wire/verbs/lib.h"

/* 6 MiB; 8 MiB is what users may register on many systems. */
#define VERBS_RECV_BUFFERS 96

#define VERBS_PAIR_SENDS 256 /* in flight to one peer, by each queue pair */
#define VERBS_RAIL_QPS 8     /* of a pair of ranks, by one rail */
#define VERBS_PAIR_QPS (TRANSPORT_RAILS * VERBS_RAIL_QPS)
#define VERBS_QP_PARTS 8 /* of fetches, under way by a queue pair */
#define VERBS_SENDS 4096 /* to all */

_Static_assert(VERBS_PAIR_SENDS >= NET_P2P_MESSAGES + NET_P2P_MESSAGES / 2,
               "point-to-point messages and what goes with them");

#define VERBS_KEEP_BYTES 1024 /* a payload of fewer bytes is copied */

/* A buffer for receiving: the frame, the head of the message, and the payload, which begins a line
 * of the cache. */
#define VERBS_DATA_AT 128
#define VERBS_HEAD_AT (VERBS_DATA_AT - WIRE_MESSAGE_HEAD_BYTES)
#define VERBS_FRAME_AT (VERBS_HEAD_AT - sizeof(net_frame_t))
#define VERBS_BUFFER_BYTES (VERBS_DATA_AT + WIRE_SLOT_BYTES)

typedef enum verbs_state {
  VERBS_NONE,
  VERBS_TOLD,      /* the peer has been told of this rank's queue pair */
  VERBS_CONNECTED, /* and has told of its own */
  VERBS_PROBED,    /* both are connected, and a first packet is on its way */
  VERBS_READY,     /* which has arrived */
  VERBS_CLOSED     /* not used, or not any more */
} verbs_state_t;

/* A frame that waits until more can be sent; its payload is behind it. */
typedef struct verbs_stored {
  struct verbs_stored *next;
  net_frame_t frame;
  char payload[];
} verbs_stored_t;

typedef struct verbs_rail {
  verbs_device_t device;
  struct ibv_pd *pd;
  struct ibv_comp_channel *channel;
  struct ibv_cq *cq; /* of everything */
  bool is_armed;     /* an event is due, or will be */
} verbs_rail_t;

typedef struct verbs_qp {
  struct ibv_qp *qp;   /* NULL: none */
  int rail, peer_rail; /* of this rank and of the peer */
  uint32_t psn;        /* of this rank's first packet */
  int in_flight, parts;
  bool is_connected, works;
} verbs_qp_t;

typedef struct verbs_pair {
  verbs_state_t state;
  verbs_qp_t qps[VERBS_PAIR_QPS]; /* the first for frames, all for fetches */
  int qp_count;                   /* after connecting, as many as the peer has */
  size_t inline_bytes;
  verbs_stored_t *oldest, *newest;
} verbs_pair_t;

/* A buffer for sending: the frame and its payload. */
typedef struct verbs_buffer {
  struct verbs_buffer *next; /* of those that are free */
  uint32_t lkey;
  int kind; /* of its length */
  _Alignas(16) char data[];
} verbs_buffer_t;

/* Memory that consists of buffers of one kind. */
typedef struct verbs_chunk {
  char *memory;
  size_t bytes;
  struct ibv_mr *mr;
  int kind;
} verbs_chunk_t;

#define VERBS_BUFFER_KINDS 3
#define VERBS_CHUNKS 64 /* at most; 16 MiB if a third is for the longest messages */

/* Memory of users, registered. */
typedef struct verbs_region {
  struct ibv_mr *mrs[TRANSPORT_RAILS]; /* by rail; NULL: not by it; the first NULL: free */
  uint64_t segment; /* of transport/shm/memory.h, which stays registered; 0: other memory */
  int uses;
} verbs_region_t;

#define VERBS_REGIONS 256

/* A fetch under way. */
typedef struct verbs_fetch {
  transport_fetch_t base;
  struct verbs_fetch *next; /* of all */
  int peer;
  transport_exposure_t from;
  char *dst; /* [bytes] */
  size_t bytes, asked, arrived;
  int in_flight;
  bool is_void;           /* it begins again when nothing is under way */
  int region;             /* of dst; -1: it could not be registered, so parts come by way of */
  verbs_buffer_t *buffer; /* NULL: none yet */
} verbs_fetch_t;

/* Something in flight: a frame, or a part of a fetch. */
typedef struct verbs_send {
  int peer, qp;
  verbs_buffer_t *buffer; /* NULL: inline */
  verbs_fetch_t *fetch;   /* NULL: a frame */
  size_t at;              /* of the part, in the message */
  uint32_t bytes;
} verbs_send_t;

typedef struct verbs {
  wire_t wire;
  const verbs_lib_t *lib;
  verbs_settings_t settings;
  verbs_rail_t rails[TRANSPORT_RAILS];
  int rail_count;
  int epoll;           /* on the channels of several rails; -1: there is one */
  struct ibv_srq *srq; /* of the first rail, as all that follows */
  struct ibv_mr *mr;   /* of `memory` */
  char *memory;        /* the buffers for receiving */

  verbs_pair_t *pairs; /* [size]; NULL: not attached, or none used yet */
  int *peer_of;        /* [peer_slots], by the number of the queue pair; -1: free */
  int peer_slots;      /* a power of two */

  int posted; /* buffers that the device may write to */
  verbs_buffer_t *free_buffers[VERBS_BUFFER_KINDS];
  verbs_chunk_t chunks[VERBS_CHUNKS];
  int chunk_count;
  verbs_send_t sends[VERBS_SENDS];
  int free_sends[VERBS_SENDS], free_send_count;
  int stored; /* pairs that have stored something */

  verbs_region_t regions[VERBS_REGIONS];
  uint64_t freed_seen; /* what shm_memory_freed has said */
  verbs_fetch_t *fetches;
} verbs_t;

static inline verbs_t *verbs_of(wire_t *wire) {
  return (verbs_t *)(void *)wire;
}

/* ---- rails.c ---------------------------------------------------------------------------------*/

/* Opens the devices, and makes wire.descriptor wait for all. */
coll_status_t verbs_rails_open(verbs_t *verbs);
void verbs_rails_close(verbs_t *verbs);

/* After a completion was found: takes its event, if there is one. */
bool verbs_rail_take_event(const verbs_t *verbs, verbs_rail_t *rail);
/* False: the device refuses. */
bool verbs_rails_arm(verbs_t *verbs);

coll_status_t verbs_rail_fail(const verbs_rail_t *rail, const char *what);

/* ---- pair.c: connections ---------------------------------------------------------------------*/

/* The slots of the same names. */
coll_status_t verbs_connect(wire_t *wire, int peer);
coll_status_t verbs_hear(wire_t *wire, int peer, const void *note, size_t bytes);
void verbs_disconnect(wire_t *wire, int peer);

/* The peer of a queue pair; -1: none. */
int verbs_peer_of(const verbs_t *verbs, uint32_t number);

/* The first packet has arrived, or never will. */
coll_status_t verbs_probed(verbs_t *verbs, int peer, bool arrived, const char *why);

/* Says on standard error what has happened to the connection to a peer. */
void verbs_report(const verbs_t *verbs, int rail, int peer, const char *what, const char *why);

void verbs_pairs_destroy(verbs_t *verbs);

/* ---- send.c ----------------------------------------------------------------------------------*/

/* The slot of the same name. */
coll_status_t verbs_send(wire_t *wire, int peer, const net_frame_t *frame, const void *payload,
                         bool is_lent);

/* Sends a packet without a frame by every queue pair. */
coll_status_t verbs_probe(verbs_t *verbs, int peer);

/* From now on that queue pair, not the first, is not used for fetches. */
void verbs_give_up(verbs_t *verbs, int peer, int qp, const char *why);

/* What was in flight is so no longer. */
coll_status_t verbs_sent(verbs_t *verbs, const struct ibv_wc *wc);

/* Sends what was stored, as far as possible. */
coll_status_t verbs_flush(verbs_t *verbs);

/* Frees what is stored for a peer. */
void verbs_drop_stored(verbs_t *verbs, verbs_pair_t *pair);

/* Posts a request to the pair's queue pair number `qp`, which has room; the request's wr_id and
 * signal are set here. errno says why it fails. */
bool verbs_has_room(const verbs_t *verbs, const verbs_pair_t *pair, int qp);
bool verbs_post(verbs_t *verbs, struct ibv_send_wr *wr, const verbs_send_t *send);

/* ---- regions.c -------------------------------------------------------------------------------*/

/* Registers [ptr, ptr + bytes), or finds it registered; -1: it cannot be. access: what is wanted of
 * memory that only this message uses. */
int verbs_region_take(verbs_t *verbs, const void *ptr, size_t bytes, int access);
void verbs_region_release(verbs_t *verbs, int region);
void verbs_regions_destroy(verbs_t *verbs);

/* ---- fetch.c ---------------------------------------------------------------------------------*/

/* The slots of the same names. */
coll_status_t verbs_expose(wire_t *wire, int peer, const void *data, size_t bytes,
                           transport_exposure_t *exposure, bool *exposed);
void verbs_withdraw(wire_t *wire, int peer, const transport_exposure_t *exposure, bool is_fetched);
coll_status_t verbs_fetch(wire_t *wire, int peer, const transport_exposure_t *exposure, void *dst,
                          size_t bytes, transport_fetch_t **fetch);
coll_status_t verbs_advance(wire_t *wire, transport_fetch_t *fetch, bool *done);
void verbs_stop(wire_t *wire, transport_fetch_t *fetch);

/* A part has arrived, or not. */
void verbs_fetched(verbs_t *verbs, const verbs_send_t *part, bool arrived);

/* Asks for further parts of all fetches. COLL_ERROR_SYSTEM. */
coll_status_t verbs_fetch_parts(verbs_t *verbs);

/* ---- buffers.c -------------------------------------------------------------------------------*/

/* A buffer for a frame with such a payload; NULL: all are in flight. COLL_ERROR_SYSTEM: the system
 * allows none at all. */
coll_status_t verbs_buffer_take(verbs_t *verbs, size_t payload_bytes, verbs_buffer_t **buffer);
void verbs_buffer_free(verbs_t *verbs, verbs_buffer_t *buffer);
void verbs_buffers_destroy(verbs_t *verbs);

/* ---- recv.c ----------------------------------------------------------------------------------*/

/* Gives all buffers to the device. */
coll_status_t verbs_post_all(verbs_t *verbs);

/* Passes on what has arrived in a buffer. */
coll_status_t verbs_received(verbs_t *verbs, const struct ibv_wc *wc);

/* In wr_id of what is received, beside the buffer's number; sends have their index in `sends`. */
#define VERBS_RECEIVED (UINT64_C(1) << 32)

#endif

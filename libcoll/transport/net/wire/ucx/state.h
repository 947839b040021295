/* State of the wire, private to the files of this folder. */
#ifndef TRANSPORT_NET_WIRE_UCX_STATE_H
#define TRANSPORT_NET_WIRE_UCX_STATE_H

#include "transport/net/wire/ucx/lib.h"
#include "transport/net/wire/ucx/ucx.h"

/* In front of every frame, as the header of its active message. UCX does not say who sends, so the
 * header does; a message without the token, which only peers have been told, is dropped. */
typedef struct ucx_header {
  uint64_t token; /* the receiver's */
  uint32_t from;
  uint32_t number; /* of the pair's frames, from 0 on, modulo 2^32 */
  net_frame_t frame;
} ucx_header_t;

/* A note of one rank's wire to another's. */
typedef enum ucx_note_kind {
  UCX_ASK = 1,  /* for the address */
  UCX_ADDRESS,  /* the answer */
  UCX_HAVE_LEFT /* NET_LEAVE, and so all before it, has arrived */
} ucx_note_kind_t;

typedef struct ucx_note {
  uint64_t kind;
  uint64_t token;
  char address[]; /* of UCX_ADDRESS */
} ucx_note_t;

typedef struct ucx_wire ucx_wire_t;

/* A frame that has arrived and waits for those before it, or for its payload. */
typedef struct ucx_arrival {
  struct ucx_arrival *next;
  struct ucx_link *link;
  uint32_t number;
  bool complete; /* false: UCX still writes the payload */
  bool dropped;  /* the link is closed: is freed once it is complete */
  net_frame_t frame;
  wire_message_t *message;
} ucx_arrival_t;

typedef struct ucx_link {
  ucx_wire_t *self;
  ucp_ep_h ep; /* NULL: none */
  bool connected;
  bool is_used;   /* the end knows that it is connected */
  uint64_t token; /* the peer's */
  uint32_t sent, arrived;
  int sending;                /* frames that UCX still has to send */
  bool is_flushing;           /* the first `flushing` frames */
  uint32_t flushing, flushed; /* by this rank; flushed: nothing of them is left here */
  ucx_arrival_t *arrivals;    /* by number */
  uint64_t leave_ns;          /* when this rank has sent NET_LEAVE; 0: not */
  bool has_left;              /* the peer has it */
  bool peer_leaves;           /* its NET_LEAVE has arrived by UCX */
  bool closed;
  uint64_t failed_ns; /* when UCX gave the peer up; 0: not */
  ucs_status_t failure;
  bool is_given_up;
} ucx_link_t;

struct ucx_wire {
  wire_t wire;
  const ucx_lib_t *lib;
  ucp_context_h context;
  ucp_worker_h worker;
  ucp_address_t *address;
  size_t address_bytes;
  uint64_t token;
  ucx_link_t *links; /* [size]; made once the size is known */
  int requests;      /* of all links, that UCX has not completed */
  bool has_news;     /* some link has arrivals, or has connected or failed */
};

/* ---- recv.c ----------------------------------------------------------------------------------*/

/* Has active messages queued. */
coll_status_t ucx_recv_start(ucx_wire_t *self);

/* Passes on the frames of a peer whose turn it is. */
coll_status_t ucx_recv_deliver(ucx_wire_t *self, int peer);

/* Forgets what has arrived. */
void ucx_recv_drop(ucx_link_t *link);

/* ---- ucx.c -----------------------------------------------------------------------------------*/

/* UCX can no longer reach the peer, or does what it should not. */
void ucx_link_fail(ucx_link_t *link, ucs_status_t status);

coll_status_t ucx_fail(const ucx_wire_t *self, ucs_status_t status, const char *what);

#endif

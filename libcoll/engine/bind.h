/*
 * Binding: translates a rank's program, for one shape of call, into a list of actions in which
 * everything is computed that does not change between calls. Spans become byte ranges, empty steps
 * are left out, and related steps are merged. What remains per call are the addresses of the
 * buffers: an operand is an offset from a base, and a base is one buffer (INPUT, OUTPUT or SCRATCH)
 * of one rank.
 *
 * SCRATCH that peers access is divided into windows, each as large as a pass needs, and consecutive
 * calls use the windows in rotation. A cache line of the previous call may still be in another
 * core's cache, and storing to it would be slow.
 *
 * Three kinds of steps are merged. A reduction and the copies of its result that follow it: the
 * result is stored to every destination while it is in the cache (fused copies). Messages that are
 * received into scratch only to be reduced: the reduction reads them in the transport's buffers
 * (fused receives). The sends of a row of a multicast plan: one multicast message. Reductions that
 * read peers' INPUT or OUTPUT are not merged, as they may run block by block (pull.h).
 */
#ifndef ENGINE_BIND_H
#define ENGINE_BIND_H

#include "engine/span.h"
#include "engine/world.h"

typedef enum engine_action_kind {
  ENGINE_COPY,
  ENGINE_REDUCE,
  ENGINE_PULL_COPY,   /* from a peer's INPUT or OUTPUT (pull.h) */
  ENGINE_PULL_REDUCE, /* with operands in peers' INPUT or OUTPUT */
  ENGINE_SEND,        /* one contiguous piece, whose size every call of the shape knows */
  ENGINE_SEND_LENT,   /* the same, of memory that stays as it is until the end of the call */
  ENGINE_MCAST_SEND,  /* a send to all peers: a row of a multicast plan */
  ENGINE_SEND_LARGE,  /* its address, or a part of it (large.h) */
  ENGINE_AWAIT_READ,  /* for the peer to have read the large message of this rank */
  ENGINE_OFFER,       /* where the peer may store its large message (put.h) */
  ENGINE_PUT,         /* stores a large message in the peer's buffer, if the peer's offer allows */
  ENGINE_SEND_PIECES, /* a send or multicast of several pieces, of none, or of a size that differs
                         by peer */
  ENGINE_RECV,        /* into one contiguous piece, copied by the transport */
  ENGINE_RECV_FETCH,  /* into one piece, copied by device->fetch, where the message is long or the
                         call stores more to the buffer */
  ENGINE_RECV_LARGE,  /* by its address, or a part of it (large.h) */
  ENGINE_RECV_PIECES, /* into several pieces, or none */
  ENGINE_MCAST_RECV,
  ENGINE_RECV_REDUCE,
  ENGINE_STORE_FENCE, /* makes nontemporal stores visible before peers are notified */
  ENGINE_SIGNAL,
  ENGINE_WAIT,
  ENGINE_AFTER
} engine_action_kind_t;

/* One buffer of one rank: the base that operands are offsets from. */
typedef struct engine_base {
  int32_t rank;
  plan_buffer_t buffer;
  bool is_remote; /* in this call it is not mapped: the address is the rank's own, for get */
} engine_base_t;

/* This rank's INPUT and OUTPUT are the first two bases of every program, even if it uses
 * neither. */
enum { ENGINE_BASE_INPUT, ENGINE_BASE_OUTPUT, ENGINE_BASES_OWN };

typedef struct engine_operand {
  uint32_t base; /* index of a base; values from base_count on: a received message of the action */
  size_t offset; /* in bytes, for the first pass; in later passes the addresses of INPUT and OUTPUT
                    advance */
  size_t bytes;
} engine_operand_t;

/* A rank, and the transport and port of the lane's channel to it. */
typedef struct engine_peer {
  int32_t rank;
  transport_t *route;
  transport_port_t *port;
} engine_peer_t;

typedef struct engine_action {
  engine_action_kind_t kind;
  uint16_t dst_count;
  uint16_t operand_count;
  const engine_operand_t *operands; /* destinations, then sources; or pieces of a message */
  engine_peer_t peer;               /* of a message or signal; the first of several */
  size_t bytes;                     /* of a message, or of each operand of a copy or reduction */
  size_t nontemporal_hint;          /* bytes of the larger store that it is a part of, 0
                                       if the data is loaded again soon: selects
                                       nontemporal stores (device/ops.h) */
  int32_t cached_dsts; /* the first ones of a reduction's destinations that are loaded again
                          soon */
  size_t elements;     /* of each operand of a reduction */
  uint32_t senders;    /* ENGINE_RECV_REDUCE: index of the first sender whose message it reads */
  uint16_t sender_count;
  bool multicast;    /* its message is a multicast message */
  bool is_lent;      /* the memory of its message stays as it is until the end of the call */
  uint32_t step;     /* index of the lane's step that it begins with */
  uint32_t phase;    /* how many times its lane has to wait up to this action; adjacent waits count
                        once */
  int32_t other;     /* ENGINE_AFTER: the other lane, */
  uint32_t after;    /* and its step */
  uint32_t first;    /* index of its first operand among all */
  size_t pair_count; /* elements of the message, where counts differ by pair of ranks */
} engine_action_t;

/* How far a lane has come: its next action and the end of its actions. */
typedef struct engine_cursor {
  const engine_action_t *next, *end;
} engine_cursor_t;

typedef struct engine_bound {
  /* The shape of call that it is bound for; plan NULL: none. */
  const plan_t *plan;
  const plan_program_t *program;
  size_t call_count, element_bytes;
  bool is_uneven;     /* of this call only: the next one has other blocks */
  engine_pass_t pass; /* the bound pass; valid for passes of equal length and equal chunk
                         boundaries */
  size_t pass_max;    /* elements of a block per pass */
  uint32_t calls;     /* calls that have used the binding */
  uint32_t windows;   /* windows of SCRATCH, the same number on every rank; at least 1 */
  size_t window_bytes;
  uint64_t traffic; /* payload bytes that the pass moves between ranks: a message counts at its
                       sender, once per receiver; memory of another rank at the rank that reads or
                       writes it */

  engine_base_t *bases;
  char **addresses; /* addresses of the bases in the current pass, followed by those of received
                       messages */
  size_t base_count, base_capacity, address_capacity;
  engine_operand_t *operands;
  size_t operand_count, operand_capacity;
  engine_peer_t *senders;
  size_t sender_count, sender_capacity;
  char *pulled; /* buffer for operands of reductions that get them (pull.h) */
  size_t pulled_bytes;
  engine_action_t *actions; /* actions of lane l: [lane_ends[l - 1], lane_ends[l]) */
  size_t action_count, action_capacity;
  size_t *lane_ends;
  engine_cursor_t *cursors; /* of lanes, in the order of lane_ends; [0] is not used */
  size_t lane_capacity, cursor_capacity;
} engine_bound_t;

/* Whether the action waits for a message or signal of a peer. */
static inline bool engine_action_waits(const engine_action_t *action) {
  switch (action->kind) {
    case ENGINE_AWAIT_READ:
    case ENGINE_PUT:
    case ENGINE_RECV_LARGE:
    case ENGINE_RECV:
    case ENGINE_RECV_FETCH:
    case ENGINE_RECV_PIECES:
    case ENGINE_MCAST_RECV:
    case ENGINE_RECV_REDUCE:
    case ENGINE_WAIT: return true;
    default: return false;
  }
}

/* Binds the program for this pass of the call. Reuses the memory of an earlier binding; start with
 * a zeroed struct. Owned by the caller: engine_bound_free. */
coll_status_t engine_bind(engine_bound_t *bound, const engine_world_t *world, const plan_t *plan,
                          const plan_program_t *program, const engine_call_t *call,
                          const engine_pass_t *pass);
void engine_bound_free(engine_bound_t *bound);

#endif

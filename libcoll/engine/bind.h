/*
 * A rank's program with everything worked out that does not change from call to call of one shape:
 * the spans of a pass turned into bytes, steps without any left out, steps that go together made
 * one. What is left open is where the buffers are, so that a repeated call only looks that up.
 * SCRATCH that peers reach into is used in windows that calls take in turn, each as large as a pass
 * needs: a line of the latest one may still be in another core's cache, and is slow to come from
 * there.
 *
 * Three things are made one here that plans keep apart. A reduction and the copies of its result
 * behind it: the result is written to every place while it is in the cache. Messages received into
 * scratch only to be reduced: they are read where the transport has them. And the rows of sends of
 * a multicast plan.
 */
#ifndef ENGINE_BIND_H
#define ENGINE_BIND_H

#include "engine/span.h"
#include "engine/world.h"

typedef enum engine_action_kind {
  ENGINE_COPY,
  ENGINE_REDUCE,
  ENGINE_SEND,        /* one piece of memory, in a call that says its size */
  ENGINE_MCAST_SEND,  /* the same for a row of sends of a multicast plan */
  ENGINE_SEND_PIECES, /* either, otherwise */
  ENGINE_RECV,        /* to one piece of memory */
  ENGINE_RECV_FETCH,  /* the same by the device, where it is long or the call stores more there */
  ENGINE_RECV_PIECES, /* to several, or to none */
  ENGINE_MCAST_RECV,
  ENGINE_RECV_REDUCE,
  ENGINE_STORE_FENCE, /* what is stored so far, for peers that reach for it */
  ENGINE_SIGNAL,
  ENGINE_WAIT,
  ENGINE_AFTER
} engine_action_kind_t;

/* A buffer that the program may touch. */
typedef struct engine_base {
  int32_t rank;
  plan_buffer_t buffer;
} engine_base_t;

/* The call's own two come first among the bases of every program, whether it touches them or not.
 */
enum { ENGINE_BASE_INPUT, ENGINE_BASE_OUTPUT, ENGINE_BASES_OWN };

typedef struct engine_operand {
  uint32_t base; /* index of a base; base_count and more: of a message of the action */
  size_t offset; /* bytes, in the first pass; in later ones INPUT and OUTPUT move along */
  size_t bytes;
} engine_operand_t;

/* Another rank, or this one, and the way to it on the lane's channel. */
typedef struct engine_peer {
  int32_t rank;
  transport_t *route;
  transport_port_t *port;
} engine_peer_t;

typedef struct engine_action {
  engine_action_kind_t kind;
  uint16_t dst_count;
  uint16_t operand_count;
  const engine_operand_t *operands; /* destinations, then sources; pieces of a message */
  engine_peer_t peer;               /* of a message or signal; the first of several */
  size_t bytes;                     /* of a message, or of each operand of a copy or reduction */
  size_t whole;                     /* of how many bytes it stores a part (device/ops.h) */
  int32_t kept;     /* of a reduction's destinations, the first ones that are loaded again soon */
  size_t elements;  /* of each operand of a reduction */
  uint32_t senders; /* ENGINE_RECV_REDUCE: first of the peers whose messages it reads */
  uint16_t sender_count;
  bool multicast;    /* its messages are posts */
  uint32_t step;     /* of the lane, which it begins with */
  uint32_t phase;    /* how often its lane has had to wait when it comes to it; waits in a row are
                        one phase */
  int32_t other;     /* ENGINE_AFTER: the other lane, */
  uint32_t after;    /* and its step */
  uint32_t first;    /* its first operand, of all */
  size_t pair_count; /* of a message, in elements, where counts differ from pair to pair */
} engine_action_t;

typedef struct engine_bound {
  /* What it is bound for; plan NULL: nothing yet. */
  const plan_t *plan;
  const plan_program_t *program;
  size_t call_count, element_bytes;
  engine_pass_t pass; /* a pass of as many elements of a block, and as many boundaries */
  size_t pass_max;    /* elements of a block per pass */
  uint32_t calls;     /* that it has served before */
  uint32_t windows;   /* of SCRATCH, the same on every rank; at least 1 */
  size_t window_bytes;

  engine_base_t *bases;
  char **addresses; /* of the bases, in the pass under way; then of messages that are reduced */
  size_t base_count, base_capacity, address_capacity;
  engine_operand_t *operands;
  size_t operand_count, operand_capacity;
  engine_peer_t *senders;
  size_t sender_count, sender_capacity;
  engine_action_t *actions; /* those of lane l: [lane_ends[l - 1], lane_ends[l]) */
  size_t action_count, action_capacity;
  size_t lane_ends[PLAN_LANES_MAX];
} engine_bound_t;

/* Whether the action cannot be done before a peer has sent something. */
static inline bool engine_action_waits(const engine_action_t *action) {
  switch (action->kind) {
    case ENGINE_RECV:
    case ENGINE_RECV_FETCH:
    case ENGINE_RECV_PIECES:
    case ENGINE_MCAST_RECV:
    case ENGINE_RECV_REDUCE:
    case ENGINE_WAIT: return true;
    default: return false;
  }
}

/* Binds anew for this pass of the call, in whatever room `bound` has from before; start zeroed.
 * Owned by the caller: engine_bound_free. */
coll_status_t engine_bind(engine_bound_t *bound, const engine_world_t *world, const plan_t *plan,
                          const plan_program_t *program, const engine_call_t *call,
                          const engine_pass_t *pass);
void engine_bound_free(engine_bound_t *bound);

#endif

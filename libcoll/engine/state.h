/* The state of a run: the program that it executes and how far each lane has come. */
#ifndef ENGINE_STATE_H
#define ENGINE_STATE_H

#include "engine/bind.h"

/* Flags of engine_large_t. */
enum {
  ENGINE_LARGE_SENT = 1,    /* this rank has sent its address, or stored the data */
  ENGINE_LARGE_READ_BY = 2, /* the peer has read the buffer of this rank, or needs not */
  ENGINE_LARGE_READ = 4,    /* this rank has read the peer's buffer, or the peer has stored, */
  ENGINE_LARGE_TOLD = 8,    /* and has acknowledged it, or needs not */
  /* put.c: */
  ENGINE_LARGE_ASKED = 16,   /* the sender has asked for the receiver's address */
  ENGINE_LARGE_OFFERED = 32, /* the receiver has sent it */
  ENGINE_LARGE_STORED = 64,  /* the sender has stored the data, and has yet to say so */
  ENGINE_LARGE_REFUSED = 128 /* the sender cannot store there */
};

/* A large message to a peer, and one from it (large.h). */
typedef struct engine_large {
  unsigned char flags;
  transport_port_t *exposed;     /* by which the peer may fetch this rank's buffer; NULL: no */
  transport_exposure_t exposure; /* as it was told */
  transport_fetch_t *fetch;      /* of the peer's buffer; NULL: none under way */
} engine_large_t;

/* A port that a call waits for at its end (drain.h). */
typedef struct engine_drain {
  engine_peer_t peer;
  size_t bytes; /* of one message, while the ports are being found */
} engine_drain_t;

/* Executes one call at a time. It is reused for the next call, whose program is then already
 * bound. */
typedef struct engine_run {
  engine_world_t *world;
  const engine_call_t *call;
  engine_bound_t bound;
  engine_pass_t pass;        /* the current pass */
  engine_cursor_t first;     /* of lane 0; those of the others are in bound.cursors */
  uint32_t messages_arrived; /* messages of the current ENGINE_RECV_REDUCE that have arrived */
  engine_large_t *large;     /* [world->size]: state of large messages (large.h); NULL before the
                                first call that may have any */
  engine_drain_t *drains;    /* [drain_count], of the binding */
  size_t drain_count, drain_capacity;
  bool can_restart; /* the next call may begin by engine_run_restart (lane.h) */
} engine_run_t;

/* The cursor of a lane. Lane 0's, the only one in most plans, is in the run itself. */
static inline engine_cursor_t *engine_cursor_at(engine_run_t *run, int lane) {
  return lane == 0 ? &run->first : &run->bound.cursors[lane];
}

static inline engine_cursor_t engine_cursor_of(const engine_run_t *run, int lane) {
  return lane == 0 ? run->first : run->bound.cursors[lane];
}

#endif

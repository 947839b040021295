/*
 * The address exchange at the start of a call that accesses peers' user memory: every rank sends
 * every other rank the identity of its call and the addresses of its buffers: in a segment that
 * peers can map, or in its own process, for the transport's get. It is also the barrier that such
 * plans rely on: no rank's memory is accessed before that rank has entered the call.
 */
#ifndef ENGINE_EXCHANGE_H
#define ENGINE_EXCHANGE_H

#include "base/ranks.h"
#include "engine/call.h"
#include "engine/world.h"

typedef struct engine_exchange {
  engine_world_t *world;
  engine_call_t call;                /* the call of this exchange */
  transport_address_t input, output; /* this rank's */
  bool own_mapped;                   /* this rank's buffers can be mapped by its peers, which know
                                        where its blocks are */
  bool mapped;                       /* every rank's buffers, as far as received */
  bool gets;                         /* every rank can get from its peers, as far as received */
  int sent, received;                /* number of peers done, in order of distance from this rank */
} engine_exchange_t;

/* input_bytes, output_bytes: sizes of this rank's buffers, 0 where it has none. */
coll_status_t engine_exchange_begin(engine_exchange_t *exchange, engine_world_t *world,
                                    const engine_call_t *call, size_t input_bytes,
                                    size_t output_bytes);

/* Never blocks. *done: the messages of all peers were received. Then *reach is the furthest reach
 * that the buffers of all ranks allow, the same on every rank: USER if all can be mapped, READ if
 * every rank can get what it cannot map, else SCRATCH. From READ on, the world's views hold every
 * rank's buffers. COLL_ERROR_MISMATCH if a peer is in a different call. */
coll_status_t engine_exchange_advance(engine_exchange_t *exchange, bool *moved, bool *done,
                                      plan_reach_t *reach);

/* The peers whose messages have not arrived (bit r % 64 for rank r). */
uint64_t engine_exchange_missing(const engine_exchange_t *exchange);

/* Adds the ranks that the exchange waits for, as engine_run_waits_for. */
void engine_exchange_waits_for(const engine_exchange_t *exchange, base_ranks_t *ranks);

#endif

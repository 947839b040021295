/*
 * How the ranks of a call that reaches into users' memory begin it: every rank tells every other
 * what call it is in and where its buffers are. Done on all ranks, it is also the barrier that such
 * plans count on: no rank's memory is touched before that rank has entered the call.
 */
#ifndef ENGINE_EXCHANGE_H
#define ENGINE_EXCHANGE_H

#include "base/ranks.h"
#include "engine/call.h"
#include "engine/world.h"

typedef struct engine_exchange {
  engine_world_t *world;
  engine_call_t call;                /* that the addresses are exchanged for */
  transport_address_t input, output; /* this rank's */
  bool own_mappable;                 /* this rank's buffers can be mapped by its peers */
  bool mappable;                     /* so far: every rank's */
  int sent, received;                /* peers dealt with, in order of distance from this rank */
} engine_exchange_t;

/* input_bytes, output_bytes: size of this rank's buffers, 0 where it has none. */
coll_status_t engine_exchange_begin(engine_exchange_t *shake, engine_world_t *world,
                                    const engine_call_t *call, size_t input_bytes,
                                    size_t output_bytes);

/* Never blocks. *done: all have met; then *mappable is the same on every rank, and if it is true
 * the world's views hold every rank's buffers. COLL_ERROR_MISMATCH where a peer is in another call.
 */
coll_status_t engine_exchange_advance(engine_exchange_t *shake, bool *moved, bool *done,
                                      bool *mappable);

/* Those that have not yet told theirs (bit r % 64 for rank r). */
uint64_t engine_exchange_missing(const engine_exchange_t *shake);

/* As engine_run_waits_for. */
void engine_exchange_waits_for(const engine_exchange_t *shake, base_ranks_t *ranks);

#endif

/*
 * The collectives of a training step on arrays of float32: queued on a stream, so that the passes
 * go on meanwhile, or carried out at once; counted, and timed where somebody waits for them.
 * Numbers may travel as bfloat16, narrowed where they lie and widened again when they are waited
 * for.
 */
#ifndef LIBTRAIN_PARALLEL_WIRE_H
#define LIBTRAIN_PARALLEL_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libtrain/parallel/team.h"

typedef struct train_wire_options {
  bool overlap;  /* calls are queued; else they are complete when they return */
  bool bfloat16; /* numbers travel as bfloat16 */
  bool silent;   /* nothing is sent, results are garbage: for measuring what all else takes */
} train_wire_options_t;

typedef struct train_wire {
  const train_team_t *team;
  train_wire_options_t options; /* overlap may be changed while nothing is under way */
  coll_stream_t stream;
  struct train_landing *landings; /* what is to be widened once it has arrived */
  size_t landing_count, landing_limit;
  uint64_t bytes_sent;
  uint64_t waited_ns; /* in which the calling thread did nothing but wait for the wire */
} train_wire_t;

/* A wire for at most `calls` calls between two waits. The team must outlive it. */
coll_status_t train_wire_init(const train_team_t *team, const train_wire_options_t *options,
                              size_t calls, train_wire_t *wire);
void train_wire_free(train_wire_t *wire);

/* Each of these is a collective, on memory that is the wire's until train_wire_wait, and best
 * from coll_mem_alloc. `count` of the elements matter: they are what is counted as sent, as the
 * ZeRO paper counts it: twice for an all-reduce, once for the others; the rest is padding. */

/* values[count] = its sums over all ranks. */
coll_status_t train_wire_allreduce(train_wire_t *wire, float *values, size_t count);

/* bucket[ranks * share]: this rank's share of it = the sums of that share over all ranks. The rest
 * is undefined from then on. */
coll_status_t train_wire_reduce_scatter(train_wire_t *wire, float *bucket, size_t share,
                                        size_t count);

/* bucket[ranks * share] = the `own`[share] of all ranks. What is gathered in place, with own lying
 * in the bucket already, always travels as float32: it is the master copy. */
coll_status_t train_wire_allgather(train_wire_t *wire, const float *own, float *bucket,
                                   size_t share, size_t count);

/* Returns once all calls are complete, with the first failure among them. */
coll_status_t train_wire_wait(train_wire_t *wire);

#endif

/*
 * A record of what a rank does and when: passes, collectives, waits. Each rank has a ring of spans
 * of fixed size, of which the latest remain; trace_file.h writes those of all ranks as one file.
 *
 * What computes, and each axis, has a track of the trace (a row of the picture). Off, a track has
 * no trace, and recording is a comparison with NULL. A trace is used by one thread at a time.
 */
#ifndef LIBTRAIN_PARALLEL_TRACE_H
#define LIBTRAIN_PARALLEL_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/status.h"

typedef enum train_trace_kind {
  TRAIN_TRACE_FORWARD,
  TRAIN_TRACE_BACKWARD,
  TRAIN_TRACE_BACKWARD_INPUT,
  TRAIN_TRACE_BACKWARD_WEIGHT,
  TRAIN_TRACE_UPDATE,
  TRAIN_TRACE_EVALUATION, /* and saving of the checkpoint */
  TRAIN_TRACE_SUMS,       /* of the loss and the norm over all ranks */
  TRAIN_TRACE_ALLREDUCE,
  TRAIN_TRACE_ALLGATHER,
  TRAIN_TRACE_REDUCE_SCATTER,
  TRAIN_TRACE_ALLTOALL,
  TRAIN_TRACE_REDUCE,
  TRAIN_TRACE_BROADCAST,
  TRAIN_TRACE_SEND, /* a message between stages: waiting for a free buffer */
  TRAIN_TRACE_RECEIVE,
  TRAIN_TRACE_SENDRECV,
  TRAIN_TRACE_QUEUED, /* calls that overlap: from the first one to the end of the wait for them */
  TRAIN_TRACE_WAIT,   /* that wait */
  TRAIN_TRACE_KINDS
} train_trace_kind_t;

/* "forward", "reduce-scatter" ... */
extern const char *const train_trace_names[TRAIN_TRACE_KINDS];

/* The track of what computes; those of the axes follow, in the order of traffic.h. */
#define TRAIN_TRACE_COMPUTE 0
#define TRAIN_TRACE_TRACKS 7

typedef struct train_trace_span {
  uint64_t start_ns, end_ns; /* of base_clock_now_ns */
  uint64_t bytes;            /* that the rank sends; 0: not known */
  int32_t micro_batch;       /* of a pass, otherwise -1 */
  int16_t chunk;             /* of a pass of a rank with virtual stages, otherwise -1 */
  int16_t slice;             /* of a pass of a slice of tokens, otherwise -1 */
  uint8_t kind;              /* a train_trace_kind_t */
  uint8_t track;
} train_trace_span_t;

typedef struct train_trace {
  train_trace_span_t *spans; /* [capacity]: span number i is at i % capacity */
  size_t capacity;
  uint64_t recorded; /* spans, also those that are overwritten */
  uint64_t created_ns;
} train_trace_t;

#define TRAIN_TRACE_SPANS ((size_t)1 << 16) /* of a rank: 2.5 MiB */

coll_status_t train_trace_create(size_t capacity, train_trace_t **trace);
void train_trace_destroy(train_trace_t *trace); /* NULL is allowed */

/* Where an axis or a queue of collectives records. Zeroed, it records nothing. */
typedef struct train_trace_track {
  train_trace_t *trace;
  uint8_t track;
  uint64_t queued_ns, queued_bytes; /* of the calls that are queued; queued_ns 0: none is */
} train_trace_track_t;

/* ---- recording ------------------------------------------------------------------------------- */

void train_trace_add(train_trace_t *trace, const train_trace_span_t *span);

/* The time for the start of a span; 0 if nothing is recorded. */
static inline uint64_t train_trace_now(const train_trace_t *trace) {
  return trace != NULL ? base_clock_now_ns() : 0;
}

/* What a pass computes; -1 where there is only one. */
typedef struct train_trace_pass {
  int micro_batch, chunk, slice;
} train_trace_pass_t;

/* A pass that began at start_ns and ends now. */
static inline void train_trace_pass(train_trace_t *trace, train_trace_kind_t kind,
                                    uint64_t start_ns, const train_trace_pass_t *pass) {
  if (trace == NULL) return;
  const train_trace_span_t span = {.start_ns = start_ns,
                                   .end_ns = base_clock_now_ns(),
                                   .micro_batch = pass->micro_batch,
                                   .chunk = (int16_t)pass->chunk,
                                   .slice = (int16_t)pass->slice,
                                   .kind = (uint8_t)kind,
                                   .track = TRAIN_TRACE_COMPUTE};
  train_trace_add(trace, &span);
}

/* Another action. */
static inline void train_trace_action(train_trace_t *trace, train_trace_kind_t kind,
                                      uint64_t start_ns) {
  static const train_trace_pass_t none = {-1, -1, -1};
  train_trace_pass(trace, kind, start_ns, &none);
}

/* A call that its caller waited for. */
static inline void train_trace_call(const train_trace_track_t *track, train_trace_kind_t kind,
                                    uint64_t start_ns, uint64_t end_ns, uint64_t bytes) {
  if (track->trace == NULL) return;
  const train_trace_span_t span = {.start_ns = start_ns,
                                   .end_ns = end_ns,
                                   .bytes = bytes,
                                   .micro_batch = -1,
                                   .chunk = -1,
                                   .slice = -1,
                                   .kind = (uint8_t)kind,
                                   .track = track->track};
  train_trace_add(track->trace, &span);
}

/* A call that is queued, and the wait for all that are queued. */
static inline void train_trace_queued(train_trace_track_t *track, uint64_t now_ns, uint64_t bytes) {
  if (track->trace == NULL) return;
  if (track->queued_ns == 0) track->queued_ns = now_ns;
  track->queued_bytes += bytes;
}
void train_trace_waited(train_trace_track_t *track, uint64_t start_ns, uint64_t end_ns);

#endif

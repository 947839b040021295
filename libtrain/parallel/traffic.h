/*
 * What a rank sends in a step along each axis, and how long it waits there. Two counts exist: that
 * of the axes, channels and the store, which know what they have been asked for, and that of the
 * wire (coll_comm_bytes_sent), which knows what libcoll has sent. They are equal if libcoll uses
 * rings, except that the store counts as the ZeRO paper does: N / (N - 1) of what N ranks send.
 */
#ifndef LIBTRAIN_PARALLEL_TRAFFIC_H
#define LIBTRAIN_PARALLEL_TRAFFIC_H

#include "libtrain/parallel/channel.h"
#include "libtrain/parallel/ranks.h"
#include "libtrain/parallel/store.h"

typedef enum train_traffic_axis {
  TRAIN_TRAFFIC_DATA, /* gradients and parameters, also those of experts */
  TRAIN_TRAFFIC_TENSOR,
  TRAIN_TRAFFIC_CONTEXT,
  TRAIN_TRAFFIC_PIPELINE,
  TRAIN_TRAFFIC_EMBEDDING, /* the token table's gradient, between first and last stage */
  TRAIN_TRAFFIC_EXPERTS,   /* tokens */
  TRAIN_TRAFFIC_AXES
} train_traffic_axis_t;

/* "data", "tensor", "context", "pipeline", "embedding", "experts". */
extern const char *const train_traffic_names[TRAIN_TRAFFIC_AXES];

/* Where a rank counts. Pointers belong to the caller. */
typedef struct train_traffic_sources {
  train_store_t *store;
  const train_ranks_t *ranks;
  train_channels_t *channels[2]; /* of activations and of gradients */
} train_traffic_sources_t;

/* Sets the counters of axes and channels to 0; those of the store are reset by
 * train_store_begin. */
void train_traffic_reset(const train_traffic_sources_t *sources);

/* Records calls and waits of all of these on the axes' tracks of the trace (trace.h), NULL: no
 * longer. The trace must outlive them or be taken from them. */
void train_traffic_record(const train_traffic_sources_t *sources, train_trace_t *trace);

/* Since then. Axes of one rank: 0. */
void train_traffic_read(const train_traffic_sources_t *sources,
                        train_traffic_t traffic[TRAIN_TRAFFIC_AXES]);

/* Bytes that this rank has sent since the communicators were made, as libcoll counts them.
 * Waits for messages between stages that are being sent; other calls that overlap count once they
 * are complete. A communicator that the caller uses too, as the data axis may be the whole job,
 * counts these calls as well. */
coll_status_t train_traffic_wire(const train_traffic_sources_t *sources,
                                 uint64_t bytes[TRAIN_TRAFFIC_AXES]);

#endif

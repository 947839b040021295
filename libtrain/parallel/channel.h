/*
 * Messages from one pipeline stage to another, by the rule of schedule.h: first in, first out; a
 * send does not wait for its receive unless as many messages are unreceived as the channel has
 * buffers. Each buffer has a communicator of the two stages and a stream of its own, which the
 * messages use in turn, so that a send waits for the oldest message only.
 */
#ifndef LIBTRAIN_PARALLEL_CHANNEL_H
#define LIBTRAIN_PARALLEL_CHANNEL_H

#include "libtrain/common/dtype.h"
#include "libtrain/parallel/axis.h"

#define TRAIN_CHANNEL_BUFFERS_MAX 8

typedef struct train_channel_buffer {
  coll_comm_t comm; /* of the two stages */
  coll_stream_t stream;
  void *values; /* of the sender */
} train_channel_buffer_t;

typedef struct train_channel {
  train_channel_buffer_t buffers[TRAIN_CHANNEL_BUFFERS_MAX];
  int window, peer; /* peer: the other stage's rank in the buffers' communicators */
  bool sends;
  size_t next;         /* number of the next message */
  uint64_t bytes_sent; /* counters: the caller may set them to 0 */
  uint64_t waited_ns;
  train_trace_track_t track; /* the caller may set it */
} train_channel_t;

/* The channels of a payload on this stage, if it sends or receives. With `back`, the next stage is
 * the one before it in the pipeline. */
typedef struct train_channels {
  train_channel_t to_next, from_previous;
  bool sends, receives;
} train_channels_t;

/* Creates the channels of one payload along the pipeline: from each stage to the next, or, if
 * `back`, to the previous one; with `wraps` also from the last to the first (the first to the
 * last). A message has at most max_bytes. 1 <= window <= TRAIN_CHANNEL_BUFFERS_MAX. Collective over
 * the pipeline. */
coll_status_t train_channels_create(const train_group_t *pipeline, bool back, bool wraps,
                                    int window, size_t max_bytes, train_channels_t *channels);

/* Whether a call has failed here or on another stage; and makes all calls under way or later fail
 * on both stages of each channel, so that none waits for this one. */
bool train_channels_failed(const train_channels_t *channels);
void train_channels_abort(train_channels_t *channels);

/* Waits for messages that are being sent. */
void train_channels_free(train_channels_t *channels);

/* Copies the message to a buffer, for which it waits until one is free. */
coll_status_t train_channel_send(train_channel_t *channel, train_dtype_t dtype, const void *values,
                                 size_t count);
coll_status_t train_channel_receive(train_channel_t *channel, train_dtype_t dtype, void *values,
                                    size_t count);

#endif

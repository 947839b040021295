/*
 * Calls of one communicator run in the order in which they are made, so a stage must not send and
 * receive on the same one: edges of the pipeline are colored, such that the two edges of a stage
 * differ, and each color is one split of the pipeline into pairs.
 */
#include "libtrain/parallel/channel.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "libtrain/parallel/failure.h"

/* Edge e goes from stage e to the next one. The wrapping edge of an odd ring needs a third color.
 */
static int color_of(int edge, int stages) {
  return edge == stages - 1 && stages % 2 == 1 ? 2 : edge % 2;
}

#define COLORS 3

/* This stage's channel over an edge. */
typedef struct end {
  train_channel_t *channel;
  int edge;
  bool lower; /* this stage is the edge's first */
} end_t;

static coll_status_t open_buffer(const train_group_t *pipeline, const end_t *end, size_t max_bytes,
                                 train_channel_buffer_t *buffer) {
  int color = end != NULL ? end->edge : -1, key = end != NULL && !end->lower;
  coll_comm_t comm;
  COLL_TRY(train_group_check(pipeline, coll_comm_split(pipeline->comm, color, key, NULL, &comm)));
  if (end == NULL) return COLL_OK;
  buffer->comm = comm;
  if (!end->channel->sends) return COLL_OK;
  COLL_TRY(train_group_check(pipeline, coll_stream_create(&buffer->stream)));
  return train_group_check(pipeline, coll_mem_alloc(COLL_DEVICE_HOST, max_bytes, &buffer->values));
}

/* All stages take part in the split of every color. */
static coll_status_t open_channels(const train_group_t *pipeline, const end_t *ends, int end_count,
                                   int window, size_t max_bytes) {
  for (int color = 0; color < COLORS; color++) {
    const end_t *end = NULL;
    for (int i = 0; i < end_count; i++) {
      if (color_of(ends[i].edge, pipeline->size) == color) end = &ends[i];
    }
    for (int i = 0; i < window; i++) {
      train_channel_buffer_t *buffer = end != NULL ? &end->channel->buffers[i] : NULL;
      COLL_TRY(open_buffer(pipeline, end, max_bytes, buffer));
    }
  }
  return COLL_OK;
}

coll_status_t train_channels_create(const train_group_t *pipeline, bool back, bool wraps,
                                    int window, size_t max_bytes, train_channels_t *channels) {
  assert(window >= 1 && window <= TRAIN_CHANNEL_BUFFERS_MAX && pipeline->size > 1);
  int stage = pipeline->rank, stages = pipeline->size;
  bool after = wraps || stage < stages - 1, before = wraps || stage > 0;
  end_t ends[2];
  int end_count = 0;
  *channels = (train_channels_t){.sends = back ? before : after, .receives = back ? after : before};
  channels->to_next = (train_channel_t){.window = window, .sends = true};
  channels->from_previous = (train_channel_t){.window = window};
  if (after) {
    ends[end_count++] = (end_t){.channel = back ? &channels->from_previous : &channels->to_next,
                                .edge = stage,
                                .lower = true};
  }
  if (before) {
    ends[end_count++] = (end_t){.channel = back ? &channels->to_next : &channels->from_previous,
                                .edge = (stage + stages - 1) % stages};
  }
  for (int i = 0; i < end_count; i++) ends[i].channel->peer = ends[i].lower ? 1 : 0;
  coll_status_t status = open_channels(pipeline, ends, end_count, window, max_bytes);
  if (status != COLL_OK) train_channels_free(channels);
  return status;
}

static void free_channel(train_channel_t *channel) {
  for (int i = 0; i < channel->window; i++) {
    train_channel_buffer_t *buffer = &channel->buffers[i];
    coll_stream_destroy(buffer->stream);
    coll_comm_destroy(buffer->comm);
    coll_mem_free(buffer->values);
  }
  *channel = (train_channel_t){0};
}

void train_channels_free(train_channels_t *channels) {
  free_channel(&channels->to_next);
  free_channel(&channels->from_previous);
}

/* ---- failures ---- */

static bool channel_failed(const train_channel_t *channel) {
  for (int i = 0; i < channel->window; i++) {
    if (train_failure_finished(channel->buffers[i].comm)) return true;
  }
  return false;
}

bool train_channels_failed(const train_channels_t *channels) {
  return channel_failed(&channels->to_next) || channel_failed(&channels->from_previous);
}

static void abort_channel(train_channel_t *channel) {
  for (int i = 0; i < channel->window; i++) {
    coll_comm_t comm = channel->buffers[i].comm;
    if (comm != NULL && !train_failure_finished(comm)) coll_comm_abort(comm);
  }
}

void train_channels_abort(train_channels_t *channels) {
  abort_channel(&channels->to_next);
  abort_channel(&channels->from_previous);
}

/* ---- messages ---- */

static train_channel_buffer_t *next_buffer(train_channel_t *channel) {
  return &channel->buffers[channel->next++ % (size_t)channel->window];
}

/* The text of a failure of one of the buffer's calls. */
static coll_status_t check(const train_channel_buffer_t *buffer, coll_status_t status) {
  const train_group_t pair = {.comm = buffer->comm, .size = 2};
  return train_group_check(&pair, status);
}

static void add_wait(train_channel_t *channel, train_trace_kind_t kind, uint64_t start_ns,
                     uint64_t bytes) {
  uint64_t end_ns = base_clock_now_ns();
  channel->waited_ns += end_ns - start_ns;
  train_trace_call(&channel->track, kind, start_ns, end_ns, bytes);
}

coll_status_t train_channel_send(train_channel_t *channel, train_dtype_t dtype, const void *values,
                                 size_t count) {
  train_channel_buffer_t *buffer = next_buffer(channel);
  size_t bytes = count * train_dtype_bytes(dtype);
  uint64_t start_ns = base_clock_now_ns();
  COLL_TRY(check(buffer, coll_stream_sync(buffer->stream)));
  add_wait(channel, TRAIN_TRACE_SEND, start_ns, bytes);
  channel->bytes_sent += bytes;
  memcpy(buffer->values, values, bytes);
  return check(buffer, coll_send(buffer->values, count, train_group_dtype(dtype), channel->peer,
                                 buffer->comm, buffer->stream));
}

coll_status_t train_channel_receive(train_channel_t *channel, train_dtype_t dtype, void *values,
                                    size_t count) {
  train_channel_buffer_t *buffer = next_buffer(channel);
  uint64_t start_ns = base_clock_now_ns();
  coll_status_t status =
      coll_recv(values, count, train_group_dtype(dtype), channel->peer, buffer->comm, NULL);
  add_wait(channel, TRAIN_TRACE_RECEIVE, start_ns, 0);
  return check(buffer, status);
}

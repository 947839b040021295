/* Reads the counters of the axes, the channels and the store. */
#include "libtrain/parallel/traffic.h"

#include <string.h>
#include "coll_algo.h"

const char *const train_traffic_names[TRAIN_TRAFFIC_AXES] = {
    [TRAIN_TRAFFIC_DATA] = "data",           [TRAIN_TRAFFIC_TENSOR] = "tensor",
    [TRAIN_TRAFFIC_CONTEXT] = "context",     [TRAIN_TRAFFIC_PIPELINE] = "pipeline",
    [TRAIN_TRAFFIC_EMBEDDING] = "embedding", [TRAIN_TRAFFIC_EXPERTS] = "experts",
};

/* NULL: an axis of one rank, or none. */
static train_axis_t *axis_of(const train_ranks_t *ranks, train_traffic_axis_t axis) {
  switch (axis) {
    case TRAIN_TRAFFIC_TENSOR: return ranks->axes.tensor;
    case TRAIN_TRAFFIC_CONTEXT: return ranks->axes.context;
    case TRAIN_TRAFFIC_EMBEDDING: return ranks->embedding;
    case TRAIN_TRAFFIC_EXPERTS: return ranks->axes.experts;
    default: return NULL;
  }
}

/* ---- channels ---- */

#define CHANNELS 4

static void list_channels(const train_traffic_sources_t *sources,
                          train_channel_t *channels[CHANNELS]) {
  for (int i = 0; i < CHANNELS / 2; i++) {
    channels[2 * i] = &sources->channels[i]->to_next;
    channels[2 * i + 1] = &sources->channels[i]->from_previous;
  }
}

static coll_status_t add_wire(coll_comm_t comm, uint64_t *sum) {
  uint64_t bytes = 0;
  if (comm != NULL) COLL_TRY(coll_comm_bytes_sent(comm, &bytes));
  *sum += bytes;
  return COLL_OK;
}

/* ---- counters ---- */

void train_traffic_reset(const train_traffic_sources_t *sources) {
  train_channel_t *channels[CHANNELS];
  list_channels(sources, channels);
  for (int i = 0; i < CHANNELS; i++) channels[i]->bytes_sent = channels[i]->waited_ns = 0;
  for (int i = 0; i < TRAIN_TRAFFIC_AXES; i++) {
    train_axis_t *axis = axis_of(sources->ranks, (train_traffic_axis_t)i);
    if (axis != NULL) axis->bytes_sent = axis->waited_ns = 0;
  }
}

static train_trace_track_t track_of(train_trace_t *trace, train_traffic_axis_t axis) {
  return (train_trace_track_t){.trace = trace, .track = (uint8_t)(TRAIN_TRACE_COMPUTE + 1 + axis)};
}

void train_traffic_record(const train_traffic_sources_t *sources, train_trace_t *trace) {
  train_channel_t *channels[CHANNELS];
  for (int i = 0; i < TRAIN_TRAFFIC_AXES; i++) {
    train_axis_t *axis = axis_of(sources->ranks, (train_traffic_axis_t)i);
    if (axis != NULL) axis->track = track_of(trace, (train_traffic_axis_t)i);
  }
  train_store_record(sources->store, trace, track_of(trace, TRAIN_TRAFFIC_DATA).track);
  list_channels(sources, channels);
  for (int i = 0; i < CHANNELS; i++) channels[i]->track = track_of(trace, TRAIN_TRAFFIC_PIPELINE);
}

void train_traffic_read(const train_traffic_sources_t *sources,
                        train_traffic_t traffic[TRAIN_TRAFFIC_AXES]) {
  train_channel_t *channels[CHANNELS];
  memset(traffic, 0, TRAIN_TRAFFIC_AXES * sizeof *traffic);
  for (int i = 0; i < TRAIN_TRAFFIC_AXES; i++) {
    const train_axis_t *axis = axis_of(sources->ranks, (train_traffic_axis_t)i);
    if (axis == NULL) continue;
    traffic[i] = (train_traffic_t){.bytes_sent = axis->bytes_sent, .waited_ns = axis->waited_ns};
  }
  traffic[TRAIN_TRAFFIC_DATA] = train_store_traffic(sources->store);
  list_channels(sources, channels);
  for (int i = 0; i < CHANNELS; i++) {
    traffic[TRAIN_TRAFFIC_PIPELINE].bytes_sent += channels[i]->bytes_sent;
    traffic[TRAIN_TRAFFIC_PIPELINE].waited_ns += channels[i]->waited_ns;
  }
}

coll_status_t train_traffic_wire(const train_traffic_sources_t *sources,
                                 uint64_t bytes[TRAIN_TRAFFIC_AXES]) {
  train_channel_t *channels[CHANNELS];
  memset(bytes, 0, TRAIN_TRAFFIC_AXES * sizeof *bytes);
  for (int i = 0; i < TRAIN_TRAFFIC_AXES; i++) {
    const train_axis_t *axis = axis_of(sources->ranks, (train_traffic_axis_t)i);
    if (axis != NULL) COLL_TRY(add_wire(axis->group.comm, &bytes[i]));
  }
  const train_group_t *data = &sources->ranks->data;
  const train_group_t *experts = train_store_options(sources->store)->experts;
  COLL_TRY(add_wire(data->comm, &bytes[TRAIN_TRAFFIC_DATA]));
  if (experts != NULL && experts->comm != data->comm) {
    COLL_TRY(add_wire(experts->comm, &bytes[TRAIN_TRAFFIC_DATA]));
  }
  list_channels(sources, channels);
  for (int i = 0; i < CHANNELS; i++) {
    for (int b = 0; b < channels[i]->window; b++) {
      const train_channel_buffer_t *buffer = &channels[i]->buffers[b];
      if (buffer->stream != NULL) COLL_TRY(coll_stream_sync(buffer->stream));
      COLL_TRY(add_wire(buffer->comm, &bytes[TRAIN_TRAFFIC_PIPELINE]));
    }
  }
  return COLL_OK;
}

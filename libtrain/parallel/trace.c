/* The ring of spans. */
#include "libtrain/parallel/trace.h"

#include <stdlib.h>

#include "base/alloc.h"

const char *const train_trace_names[TRAIN_TRACE_KINDS] = {
    [TRAIN_TRACE_FORWARD] = "forward",
    [TRAIN_TRACE_BACKWARD] = "backward",
    [TRAIN_TRACE_BACKWARD_INPUT] = "backward of inputs",
    [TRAIN_TRACE_BACKWARD_WEIGHT] = "backward of weights",
    [TRAIN_TRACE_UPDATE] = "update",
    [TRAIN_TRACE_EVALUATION] = "evaluation",
    [TRAIN_TRACE_SUMS] = "sums",
    [TRAIN_TRACE_ALLREDUCE] = "allreduce",
    [TRAIN_TRACE_ALLGATHER] = "allgather",
    [TRAIN_TRACE_REDUCE_SCATTER] = "reduce-scatter",
    [TRAIN_TRACE_ALLTOALL] = "alltoall",
    [TRAIN_TRACE_REDUCE] = "reduce",
    [TRAIN_TRACE_BROADCAST] = "broadcast",
    [TRAIN_TRACE_SEND] = "send",
    [TRAIN_TRACE_RECEIVE] = "receive",
    [TRAIN_TRACE_SENDRECV] = "send and receive",
    [TRAIN_TRACE_QUEUED] = "queued",
    [TRAIN_TRACE_WAIT] = "wait"};

coll_status_t train_trace_create(size_t capacity, train_trace_t **trace) {
  void *memory;
  COLL_TRY(base_alloc(1, sizeof(train_trace_t), "the trace", &memory));
  train_trace_t *created = memory;
  coll_status_t status = base_alloc(capacity, sizeof *created->spans, "the trace", &memory);
  if (status != COLL_OK) {
    free(created);
    return status;
  }
  *created =
      (train_trace_t){.spans = memory, .capacity = capacity, .created_ns = base_clock_now_ns()};
  *trace = created;
  return COLL_OK;
}

void train_trace_destroy(train_trace_t *trace) {
  if (trace == NULL) return;
  free(trace->spans);
  free(trace);
}

void train_trace_add(train_trace_t *trace, const train_trace_span_t *span) {
  trace->spans[trace->recorded++ % trace->capacity] = *span;
}

void train_trace_waited(train_trace_track_t *track, uint64_t start_ns, uint64_t end_ns) {
  if (track->queued_ns == 0) return;
  train_trace_call(track, TRAIN_TRACE_QUEUED, track->queued_ns, end_ns, track->queued_bytes);
  train_trace_call(track, TRAIN_TRACE_WAIT, start_ns, end_ns, 0);
  track->queued_ns = track->queued_bytes = 0;
}

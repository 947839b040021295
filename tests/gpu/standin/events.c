/*
 * Events: a place in a stream's queue.
 */
#include <stdlib.h>

#include "gpu/standin/state.h"

/* Enters; the event exists. */
static cuda_result_t enter(cuda_event_t event) {
  cuda_context_t context;
  cuda_result_t result = standin_enter_context(&context);
  if (result != CUDA_RESULT_OK) return result;
  for (cuda_event_t e = standin.events; e != NULL; e = e->next) {
    if (e != event) continue;
    if (!e->destroyed) return CUDA_RESULT_OK;
    standin_misuse("use of an event that was destroyed");
    return standin_leave(CUDA_RESULT_INVALID_HANDLE);
  }
  return standin_leave(CUDA_RESULT_INVALID_HANDLE);
}

/* The same to ask or wait for the event, which is refused during captures. */
static cuda_result_t enter_uncaptured(cuda_event_t event) {
  cuda_context_t context;
  cuda_result_t result = standin_enter_uncaptured(&context);
  if (result != CUDA_RESULT_OK) return result;
  standin_leave(result);
  result = enter(event);
  if (result != CUDA_RESULT_OK || event->capture == 0) return result;
  return standin_leave(CUDA_RESULT_CAPTURED_EVENT);
}

static bool complete(const struct CUevent_st *event) {
  return event->stream == NULL || event->stream->completed >= event->number;
}

cuda_result_t cuEventCreate(cuda_event_t *event, unsigned flags) {
  cuda_context_t context;
  cuda_result_t result = standin_enter_context(&context);
  if (result != CUDA_RESULT_OK) return result;
  if (event == NULL || flags > 7) return standin_leave(CUDA_RESULT_INVALID_VALUE);
  *event = calloc(1, sizeof **event);
  if (*event == NULL) return standin_leave(CUDA_RESULT_OUT_OF_MEMORY);
  (*event)->context = context;
  (*event)->flags = flags;
  (*event)->next = standin.events;
  standin.events = *event;
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuEventDestroy_v2(cuda_event_t event) {
  cuda_result_t result = enter(event);
  if (result != CUDA_RESULT_OK) return result;
  event->destroyed = true;
  return standin_leave(CUDA_RESULT_OK);
}

void standin_event_recorded(cuda_event_t event, cuda_stream_t stream) {
  event->stream = stream;
  event->number = stream->submitted;
  event->capture = 0;
}

/* With the lock. */
static cuda_result_t record(cuda_event_t event, cuda_stream_t stream, bool is_external) {
  operation_t operation = {.kind = OPERATION_EVENT, .event = event};
  if (is_external) return standin_capture_add(stream, &operation);
  if (stream->graph != NULL) return standin_capture_record(stream, event);
  cuda_result_t result = standin_queue(stream, &operation);
  if (result == CUDA_RESULT_OK) standin_event_recorded(event, stream);
  return result;
}

cuda_result_t cuEventRecordWithFlags(cuda_event_t event, cuda_stream_t handle, unsigned flags) {
  cuda_result_t result = enter(event);
  if (result != CUDA_RESULT_OK) return result;
  cuda_stream_t stream = standin_stream(event->context, handle);
  if (stream == NULL || stream->context != event->context) {
    return standin_leave(CUDA_RESULT_INVALID_HANDLE);
  }
  bool is_external = flags == CUDA_EVENT_RECORD_EXTERNAL;
  if (flags > CUDA_EVENT_RECORD_EXTERNAL || (is_external && stream->graph == NULL)) {
    return standin_leave(CUDA_RESULT_INVALID_VALUE);
  }
  return standin_leave(record(event, stream, is_external));
}

cuda_result_t cuEventRecord(cuda_event_t event, cuda_stream_t handle) {
  return cuEventRecordWithFlags(event, handle, 0);
}

/* With the lock. */
static cuda_result_t wait_for(cuda_stream_t stream, cuda_event_t event, bool is_external) {
  operation_t operation = {
      .kind = OPERATION_AFTER, .other = event->stream, .event = event, .value = event->number};
  if (is_external) return standin_capture_add(stream, &operation);
  if (stream->graph != NULL || event->capture != 0) return standin_capture_wait(stream, event);
  return event->stream == NULL ? CUDA_RESULT_OK : standin_queue(stream, &operation);
}

cuda_result_t cuStreamWaitEvent(cuda_stream_t handle, cuda_event_t event, unsigned flags) {
  cuda_result_t result = enter(event);
  if (result != CUDA_RESULT_OK) return result;
  cuda_stream_t stream = standin_stream(event->context, handle);
  if (stream == NULL) return standin_leave(CUDA_RESULT_INVALID_HANDLE);
  bool is_external = flags == CUDA_EVENT_WAIT_EXTERNAL;
  if (flags > CUDA_EVENT_WAIT_EXTERNAL ||
      (is_external && (stream->graph == NULL || event->capture != 0))) {
    return standin_leave(CUDA_RESULT_INVALID_VALUE);
  }
  return standin_leave(wait_for(stream, event, is_external));
}

void standin_hold(int device) {
  standin_lock();
  standin.hold = STANDIN_HOLDS_NEXT;
  standin.hold_device = device;
  standin_unlock();
}

bool standin_holds(void) {
  standin_lock();
  bool holds = standin.hold == STANDIN_HELD;
  standin_unlock();
  return holds;
}

void standin_release(void) {
  standin_lock();
  standin.hold = STANDIN_FREE;
  standin_wake();
  standin_unlock();
}

/* Releases the lock meanwhile. */
static void be_held(cuda_event_t event) {
  if (standin.hold != STANDIN_HOLDS_NEXT || event->context->device != standin.hold_device) return;
  standin.hold = STANDIN_HELD;
  while (standin.hold == STANDIN_HELD) standin_wait();
  if (event->destroyed) standin_misuse("an event was destroyed while it was asked for");
}

cuda_result_t cuEventQuery(cuda_event_t event) {
  cuda_result_t result = enter_uncaptured(event);
  if (result != CUDA_RESULT_OK) return result;
  be_held(event);
  if (!complete(event)) return standin_leave(CUDA_RESULT_NOT_READY);
  standin_observe(event);
  return standin_leave(CUDA_RESULT_OK);
}

cuda_result_t cuEventSynchronize(cuda_event_t event) {
  cuda_result_t result = enter_uncaptured(event);
  if (result != CUDA_RESULT_OK) return result;
  while (!complete(event)) standin_wait();
  standin_observe(event);
  return standin_leave(event->context->failure);
}

cuda_result_t cuEventElapsedTime(float *ms, cuda_event_t start, cuda_event_t end) {
  cuda_result_t result = enter(end);
  if (result != CUDA_RESULT_OK) return result;
  standin_leave(result);
  result = enter(start);
  if (result != CUDA_RESULT_OK) return result;
  if (start->stream == NULL || end->stream == NULL ||
      ((start->flags | end->flags) & CUDA_EVENT_NO_TIMING) != 0) {
    return standin_leave(CUDA_RESULT_INVALID_HANDLE);
  }
  if (!complete(start) || !complete(end)) return standin_leave(CUDA_RESULT_NOT_READY);
  *ms = (float)((double)((int64_t)(end->time_ns - start->time_ns)) / 1e6);
  return standin_leave(CUDA_RESULT_OK);
}

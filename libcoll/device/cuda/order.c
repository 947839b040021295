/* The events of the order. */
#include "device/cuda/order.h"

#define ORDER_CALL(order, function, ...)                                                \
  cuda_driver_check((order)->driver, (order)->driver->function(__VA_ARGS__), #function, \
                    (order)->device)

coll_status_t cuda_order_init(const cuda_driver_t *driver, int device, cuda_order_t *order) {
  *order = (cuda_order_t){.driver = driver, .device = device};
  COLL_TRY(ORDER_CALL(order, cuEventCreate, &order->last, CUDA_EVENT_NO_TIMING));
  for (int i = 0; i < CUDA_ORDER_CAPTURES; i++) {
    cuda_event_t *event = &order->captures[i].event;
    COLL_TRY(ORDER_CALL(order, cuEventCreate, event, CUDA_EVENT_NO_TIMING));
  }
  return COLL_OK;
}

void cuda_order_free(cuda_order_t *order) {
  if (order->last != NULL) (void)order->driver->cuEventDestroy(order->last);
  for (int i = 0; i < CUDA_ORDER_CAPTURES; i++) {
    cuda_event_t event = order->captures[i].event;
    if (event != NULL) (void)order->driver->cuEventDestroy(event);
  }
  *order = (cuda_order_t){0};
}

coll_status_t cuda_order_find(const cuda_order_t *order, cuda_stream_t stream,
                              cuda_order_stream_t *to) {
  cuda_capture_status_t status;
  *to = (cuda_order_stream_t){.stream = stream};
  COLL_TRY(ORDER_CALL(order, cuStreamIsCapturing, stream, &status));
  if (status == CUDA_CAPTURE_NONE) return COLL_OK;
  return ORDER_CALL(order, cuStreamGetCaptureInfo, stream, &status, &to->capture, NULL, NULL, NULL);
}

/* The capture's entry; CUDA_ORDER_CAPTURES: it has none. */
static int find_capture(const cuda_order_t *order, uint64_t id) {
  int i = 0;
  while (i < CUDA_ORDER_CAPTURES && order->captures[i].id != id) i++;
  return i;
}

coll_status_t cuda_order_wait(const cuda_order_t *order, const cuda_order_stream_t *to) {
  cuda_event_t event = order->last;
  unsigned flags = 0;
  if (to->capture == 0 && !order->has_calls) return COLL_OK;
  if (to->capture != 0) {
    int i = find_capture(order, to->capture);
    bool is_first = i == CUDA_ORDER_CAPTURES;
    if (!is_first) event = order->captures[i].event;
    if (is_first) flags = CUDA_EVENT_WAIT_EXTERNAL;
  }
  return ORDER_CALL(order, cuStreamWaitEvent, to->stream, event, flags);
}

coll_status_t cuda_order_record(cuda_order_t *order, const cuda_order_stream_t *to) {
  order->has_calls = true;
  if (to->capture == 0) return ORDER_CALL(order, cuEventRecord, order->last, to->stream);
  COLL_TRY(ORDER_CALL(order, cuEventRecordWithFlags, order->last, to->stream,
                      CUDA_EVENT_RECORD_EXTERNAL));
  int i = find_capture(order, to->capture);
  if (i == CUDA_ORDER_CAPTURES) {
    i = order->oldest;
    order->oldest = (order->oldest + 1) % CUDA_ORDER_CAPTURES;
    order->captures[i].id = to->capture;
  }
  return ORDER_CALL(order, cuEventRecord, order->captures[i].event, to->stream);
}

/* The events of the order. */
#include "device/cuda/order.h"

#define ORDER_CALL(order, function, ...)                                                \
  cuda_driver_check((order)->driver, (order)->driver->function(__VA_ARGS__), #function, \
                    (order)->device)

coll_status_t cuda_order_init(const cuda_driver_t *driver, int device, cuda_order_t *order) {
  *order = (cuda_order_t){.driver = driver, .device = device};
  COLL_TRY(ORDER_CALL(order, cuEventCreate, &order->last, CUDA_EVENT_NO_TIMING));
  return ORDER_CALL(order, cuEventCreate, &order->captured, CUDA_EVENT_NO_TIMING);
}

void cuda_order_free(cuda_order_t *order) {
  if (order->last != NULL) (void)order->driver->cuEventDestroy(order->last);
  if (order->captured != NULL) (void)order->driver->cuEventDestroy(order->captured);
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

coll_status_t cuda_order_wait(const cuda_order_t *order, const cuda_order_stream_t *to) {
  bool follows = to->capture != 0 && to->capture == order->capture;
  unsigned flags = to->capture != 0 && !follows ? CUDA_EVENT_WAIT_EXTERNAL : 0;
  if (to->capture == 0 && !order->has_calls) return COLL_OK;
  return ORDER_CALL(order, cuStreamWaitEvent, to->stream, follows ? order->captured : order->last,
                    flags);
}

coll_status_t cuda_order_record(cuda_order_t *order, const cuda_order_stream_t *to) {
  order->has_calls = true;
  if (to->capture == 0) return ORDER_CALL(order, cuEventRecord, order->last, to->stream);
  COLL_TRY(ORDER_CALL(order, cuEventRecordWithFlags, order->last, to->stream,
                      CUDA_EVENT_RECORD_EXTERNAL));
  order->capture = to->capture;
  return ORDER_CALL(order, cuEventRecord, order->captured, to->stream);
}

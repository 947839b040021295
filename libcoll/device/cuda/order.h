/*
 * The order of a communicator's calls, on whatever streams: each waits, by an event, for the one
 * before it. A stream that was destroyed may have left its handle to a new one, and the handle of a
 * thread's default stream is the same in all threads, so calls on equal handles wait, too.
 *
 * A captured call takes its place in that order each time its graph is launched: it waits for the
 * calls made and the graphs launched before, and what comes later waits for it. For that the first
 * call of a capture waits for the event by a node of the graph, and each call records it by one.
 * Further calls of the same capture wait for those before them in the graph.
 */
#ifndef DEVICE_CUDA_ORDER_H
#define DEVICE_CUDA_ORDER_H

#include "device/cuda/driver.h"

/* A capture with calls. */
typedef struct cuda_order_capture {
  uint64_t id;        /* 0: none */
  cuda_event_t event; /* behind its last call, in its graph */
} cuda_order_capture_t;

#define CUDA_ORDER_CAPTURES 4 /* that are known: the latest */

typedef struct cuda_order {
  const cuda_driver_t *driver;
  int device;
  cuda_event_t last; /* behind the last call, and the last launch of a graph with calls */
  cuda_order_capture_t captures[CUDA_ORDER_CAPTURES];
  int oldest;     /* of them, which the next one replaces */
  bool has_calls; /* also captured ones */
} cuda_order_t;

/* Where a call is queued. */
typedef struct cuda_order_stream {
  cuda_stream_t stream;
  uint64_t capture; /* that records the stream; 0: none */
} cuda_order_stream_t;

/* Makes the events, of the device's context, which is current here and below. After a failure, too,
 * the caller frees the order. */
coll_status_t cuda_order_init(const cuda_driver_t *driver, int device, cuda_order_t *order);
void cuda_order_free(cuda_order_t *order);

/* Finds out whether the stream is captured. */
coll_status_t cuda_order_find(const cuda_order_t *order, cuda_stream_t stream,
                              cuda_order_stream_t *to);

/* Before a call: the stream waits for the calls before it. */
coll_status_t cuda_order_wait(const cuda_order_t *order, const cuda_order_stream_t *to);

/* Behind it. */
coll_status_t cuda_order_record(cuda_order_t *order, const cuda_order_stream_t *to);

#endif

/*
 * What the files of the copy engines' executor share.
 */
#ifndef DEVICE_CUDA_COPY_PARTS_H
#define DEVICE_CUDA_COPY_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "device/cuda/compute_kernel.h"
#include "device/cuda/copy.h"
#include "device/cuda/message.h"
#include "device/cuda/operations.h"

/* Messages and signals so far, between this rank and one peer on one channel. Written by the thread
 * that launches, read by others. */
typedef struct copy_counters {
  atomic_uint_fast64_t sent, taken, signals, waits;
} copy_counters_t;

static inline uint64_t copy_count(const atomic_uint_fast64_t *counter) {
  return atomic_load_explicit(counter, memory_order_relaxed);
}

static inline void copy_set_count(atomic_uint_fast64_t *counter, uint64_t number) {
  atomic_store_explicit(counter, number, memory_order_relaxed);
}

/* A stream and its events. At most COPY_OPERATIONS operations lie behind the older of the two
 * marks, about as many between them. */
typedef struct copy_queue {
  cuda_stream_t stream;
  cuda_event_t ended, marks[2];
  int older;
  uint32_t operations; /* since the newer mark */
} copy_queue_t;

#define COPY_OPERATIONS 256

struct cuda_copy {
  cuda_copy_config_t config; /* without arenas */
  const cuda_driver_t *driver;
  int device;
  cuda_launcher_t launcher;
  gpu_rank_t rank; /* in host memory; no abort word */
  char **arenas;
  cuda_stream_t aside;       /* of copy_watch.c */
  gpu_fifo_t *seen;          /* [size * channels], pinned: flags of all peers, as they were read */
  pthread_mutex_t look;      /* guards seen */
  cuda_event_t begun, done;  /* of the last call */
  uint64_t calls;            /* that were launched */
  copy_queue_t *queues;      /* [config.lanes] */
  atomic_int queue_count;    /* that there are: made when a program first has as many lanes */
  copy_counters_t *counters; /* [size * channels] */
  cuda_event_t *steps;       /* of actions of a program by their index: NULL until one is watched */
  size_t step_count;
  bool failed; /* a launch failed half-way */
  atomic_bool aborted, cut;
  atomic_uint_fast64_t aborted_ns; /* when flags were last raised; 0: never */
};

/* A lane of a call. */
typedef struct copy_lane {
  cuda_copy_t *copy;
  copy_queue_t *queue;
  gpu_run_t run;
  uint32_t begin, next, end; /* actions of the program */
} copy_lane_t;

/* Calls a function of the driver; fails like cuda_driver_check. */
#define COPY_CALL(copy, function, ...)                                                \
  cuda_driver_check((copy)->driver, (copy)->driver->function(__VA_ARGS__), #function, \
                    (copy)->device)

/* Makes the streams of a program of that many lanes. With the context. */
coll_status_t copy_reserve_queues(cuda_copy_t *copy, int lanes);

/* Ends the waits that there are: cuda_copy_abort, with the context. */
coll_status_t copy_end_waits(cuda_copy_t *copy, bool *idle);

/* How many of a lane's next actions are queued together, at least 1: signals and waits that follow
 * each other, up to one that another lane waits for. */
uint32_t copy_together(const gpu_action_t actions[], uint32_t most);

/* Queues so many actions of the pass, in the lane's window. */
coll_status_t copy_act(copy_lane_t *lane, const gpu_action_t actions[], uint32_t count);

/* Queues the scaling of the input, and the division of the output, in the lane's window. */
coll_status_t copy_scale_input(copy_lane_t *lane);
coll_status_t copy_divide_output(copy_lane_t *lane);

#endif

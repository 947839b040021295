/*
 * Operations of streams for which drivers and GPUs differ, or of which several are queued together:
 * launches of kernels, copies, stores and waits. The GPU's context is current.
 */
#ifndef DEVICE_CUDA_OPERATIONS_H
#define DEVICE_CUDA_OPERATIONS_H

#include "device/cuda/driver.h"

/* ---- kernels ---------------------------------------------------------------------------------*/

/* A GPU may have several domains of memory synchronization: a fence waits for the stores of the
 * kernels in its own domain alone. Kernels of this library store to other GPUs, which takes long,
 * so they are in another domain than those of programs, whose fences then do not wait for them.
 * Between the domains only what is ordered in the whole system is: flags, and streams. */
typedef struct cuda_launcher {
  const cuda_driver_t *driver;
  int device;
  bool has_domains;
} cuda_launcher_t;

coll_status_t cuda_launcher_init(const cuda_driver_t *driver, int device,
                                 cuda_launcher_t *launcher);

/* Launches a kernel of one argument, which is copied. */
coll_status_t cuda_launch(const cuda_launcher_t *launcher, cuda_function_t kernel, uint32_t blocks,
                          uint32_t threads, void *argument, cuda_stream_t stream);

/* ---- copies ----------------------------------------------------------------------------------*/

#define CUDA_COPIES_MAX 32

/* Copies in no order among each other, which a driver that can (CUDA 12.8) queues in one call. */
typedef struct cuda_copies {
  const cuda_driver_t *driver;
  int device;
  cuda_stream_t stream;
  bool one_by_one; /* the stream is captured, or the legacy default one, and takes them alone */
  size_t count;    /* that are not queued yet */
  cuda_ptr_t dsts[CUDA_COPIES_MAX], srcs[CUDA_COPIES_MAX];
  size_t bytes[CUDA_COPIES_MAX];
} cuda_copies_t;

void cuda_copies_begin(const cuda_driver_t *driver, int device, cuda_stream_t stream,
                       bool is_captured, cuda_copies_t *copies);

/* Adds a copy; none if there are no bytes. What it writes is neither read nor written by others
 * since cuda_copies_queue, which queues them; so does this if they are many. */
coll_status_t cuda_copies_add(cuda_copies_t *copies, void *dst, const void *src, size_t bytes);
coll_status_t cuda_copies_queue(cuda_copies_t *copies);

/* ---- values ----------------------------------------------------------------------------------*/

#define CUDA_VALUES_MAX 64

/* Stores and waits of 64 bits, which are queued in their order in one call. */
typedef struct cuda_values {
  const cuda_driver_t *driver;
  int device;
  cuda_stream_t stream;
  unsigned count; /* that are not queued yet */
  cuda_value_operation_t operations[CUDA_VALUES_MAX];
} cuda_values_t;

void cuda_values_begin(const cuda_driver_t *driver, int device, cuda_stream_t stream,
                       cuda_values_t *values);

/* A fence of the system precedes the store. Waits until the word is `value` or above. Either queues
 * those before it if they are many. */
coll_status_t cuda_values_store(cuda_values_t *values, const uint64_t *word, uint64_t value);
coll_status_t cuda_values_wait(cuda_values_t *values, const uint64_t *word, uint64_t value);
coll_status_t cuda_values_queue(cuda_values_t *values);

#endif

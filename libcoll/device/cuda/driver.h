/*
 * NVIDIA's driver (libcuda.so.1), loaded at run time: a table of its functions. Nothing is linked
 * with it, so the library starts on machines that have none.
 */
#ifndef DEVICE_CUDA_DRIVER_H
#define DEVICE_CUDA_DRIVER_H

#include <stdbool.h>

#include "base/status.h"
#include "device/cuda/driver_functions.h"
#include "device/cuda/driver_types.h"

#define CUDA_DRIVER_LIBRARY "libcuda.so.1"
#define CUDA_DRIVER_VERSION_MIN 12000 /* CUDA 12.0: NVIDIA's driver 525 */
#define CUDA_NO_DEVICE (-1)

typedef struct cuda_driver {
  int version;      /* of CUDA, the newest that the driver supports: 1000 * major + 10 * minor */
  int device_count; /* at least 1 */
  /* One pointer for each function, under its plain name. Functions newer than
   * CUDA_DRIVER_VERSION_MIN may be NULL. */
#define CUDA_MEMBER(since, name, suffix, parameters) cuda_result_t(*name) parameters;
  CUDA_FUNCTIONS(CUDA_MEMBER)
#undef CUDA_MEMBER
} cuda_driver_t;

/* The driver of this process; loaded and initialized by the first call. Thread-safe; a failure is
 * final. COLL_ERROR_UNSUPPORTED: no driver, too old, or no GPU. COLL_ERROR_SYSTEM: it does not
 * start. The text says what is there and what is needed. */
coll_status_t cuda_driver_load(const cuda_driver_t **driver);

/* Whether this process has loaded a library of the driver's name: without it, no memory is that of
 * a GPU, and nothing needs to load the driver to find that out. */
bool cuda_driver_is_present(void);

/* The device of the calling thread's current context, or CUDA_NO_DEVICE. Neither loads nor
 * initializes the driver: without either there is no context. */
int cuda_driver_current(void);

/* Loads and initializes the driver of the given file, which stays loaded. For cuda_driver_load and
 * tests. */
coll_status_t cuda_driver_open(const char *library, cuda_driver_t *driver);

/* COLL_OK for CUDA_RESULT_OK. Otherwise the error text names the function, the device unless it is
 * CUDA_NO_DEVICE, and the result by NVIDIA's name. COLL_ERROR_MEMORY: out of memory.
 * COLL_ERROR_UNSUPPORTED: the device, or its links, cannot do it. COLL_ERROR_INVALID: no such
 * device. COLL_ERROR_SYSTEM: anything else. */
coll_status_t cuda_driver_check(const cuda_driver_t *driver, cuda_result_t result,
                                const char *function, int device);

/* COLL_ERROR_INVALID, unless the driver has a device of that ordinal. */
coll_status_t cuda_driver_check_device(const cuda_driver_t *driver, int device);

/* Makes the device's primary context (the one that the CUDA runtime uses) current in the calling
 * thread, and keeps it alive until cuda_context_leave, which restores the previous one. */
coll_status_t cuda_context_enter(const cuda_driver_t *driver, int device);
void cuda_context_leave(const cuda_driver_t *driver, int device);

/* The same, for calls of which the program does not know that they wait or allocate: while another
 * thread captures a stream in the global mode, the driver refuses such calls and ends the capture.
 * They do not concern the captured stream, so they are permitted. *mode is what is restored. */
coll_status_t cuda_context_enter_relaxed(const cuda_driver_t *driver, int device,
                                         cuda_capture_mode_t *mode);
void cuda_context_leave_relaxed(const cuda_driver_t *driver, int device, cuda_capture_mode_t mode);

#endif

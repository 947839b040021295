/*
 * What the files of the stand-in share: its state, under one lock, and how a function begins and
 * ends.
 */
#ifndef TESTS_GPU_STANDIN_STATE_H
#define TESTS_GPU_STANDIN_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "device/cuda/driver_functions.h"
#include "device/cuda/driver_types.h"
#include "gpu/standin/standin.h"

/* The prototypes of everything that the stand-in exports, from the library's own list. */
#define STANDIN_DECLARE(since, name, suffix, parameters) \
  __attribute__((visibility("default"))) cuda_result_t name##suffix parameters;
CUDA_FUNCTIONS(STANDIN_DECLARE)
#undef STANDIN_DECLARE
__attribute__((visibility("default"))) cuda_result_t cuDriverGetVersion(int *version);

struct CUctx_st {
  int device;
  int retains; /* 0: it does not exist */
  cuda_stream_t legacy;
  cuda_result_t failure; /* of its queued work; final */
  bool peers[STANDIN_GPUS_MAX];
};

typedef enum operation_kind {
  OPERATION_COPY,
  OPERATION_SET8,
  OPERATION_SET32,
  OPERATION_WRITE32,
  OPERATION_WRITE64,
  OPERATION_WAIT32,
  OPERATION_WAIT64,
  OPERATION_EVENT,
  OPERATION_AFTER, /* waits until `other` has completed its first `value` operations, of which
                      `event`, unless it is NULL, is the last */
  OPERATION_HOST,
  OPERATION_KERNEL
} operation_kind_t;

typedef struct operation {
  operation_kind_t kind;
  uintptr_t dst, src;
  size_t bytes;
  uint64_t value;
  unsigned flags;
  cuda_stream_t other;
  cuda_event_t event;
  cuda_host_fn_t host;
  void *context;
  standin_kernel_t kernel;
  standin_launch_t *launch; /* one allocation, which the thread frees */
  struct operation *next;
} operation_t;

struct CUstream_st {
  cuda_context_t context;
  unsigned flags;
  bool destroyed;
  uint64_t submitted, completed, random;
  operation_t *first, *last; /* first is the one that runs */
  struct CUstream_st *next;
};

struct CUevent_st {
  cuda_context_t context;
  unsigned flags;
  bool destroyed;
  cuda_stream_t stream; /* of the last record; NULL: none, so it is complete */
  uint64_t number;      /* complete when the stream has completed that many operations */
  uint64_t time_ns;
  struct CUevent_st *next;
};

/* Physical memory of a device. It lives while it has handles or mappings. */
typedef struct physical {
  cuda_mem_t handle; /* never used again */
  int descriptor, gpu, handles, mappings;
  size_t bytes;
  unsigned handle_types;
  bool imported;
  struct physical *next;
} physical_t;

typedef enum region_kind {
  REGION_DEVICE, /* cuMemAlloc */
  REGION_MAPPING,
  REGION_RESERVED,
  REGION_HOST,
  REGION_REGISTERED,
  REGION_MANAGED,
  REGION_IPC
} region_kind_t;

typedef struct region {
  region_kind_t kind;
  uintptr_t base;
  size_t bytes;
  int device; /* ordinal */
  uint64_t id;
  unsigned char access[STANDIN_GPUS_MAX]; /* cuda_access_t of a mapping, by ordinal */
  physical_t *physical;
  cuda_context_t context;
  struct region *next;
} region_t;

typedef struct standin {
  int pid; /* of cuInit; 0: not called */
  unsigned delay_us;
  uint64_t seed;
  int device_count;
  int gpus[STANDIN_GPUS_MAX]; /* number of the GPU by ordinal */
  bool peers, vmm;
  size_t gpu_bytes, used[STANDIN_GPUS_MAX]; /* by ordinal */
  struct CUctx_st contexts[STANDIN_GPUS_MAX];
  region_t *regions;
  physical_t *physicals;
  cuda_stream_t streams; /* destroyed ones too: their addresses are not used again */
  cuda_event_t events;
  uint64_t last_id;
  int modules, misuses;
} standin_t;

extern standin_t standin;

/* The lock; waiting until another thread has called standin_wake. */
void standin_lock(void);
void standin_unlock(void);
void standin_wait(void);
void standin_wake(void);

/* Orders, for ThreadSanitizer, what a thread did before it published an object before what another
 * thread does after it has observed that. The lock is held. */
void standin_publish(void *object);
void standin_observe(void *object);

/* Takes the lock, or returns why the call cannot be served: cuInit was not called in this process.
 */
cuda_result_t standin_enter(void);

/* The same; also *context is the current one, or there is none. */
cuda_result_t standin_enter_context(cuda_context_t *context);

/* Releases the lock; returns result. */
cuda_result_t standin_leave(cuda_result_t result);

/* Reports what the driver leaves undefined. The lock is held. */
void standin_misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

long standin_setting(const char *name, long fallback);
int standin_ordinal(int gpu); /* -1: not visible */

/* NULL or an ended one: NULL, which is reported. The lock is held, as below. */
cuda_stream_t standin_stream(cuda_context_t context, cuda_stream_t handle);
void standin_stream_destroy_all(cuda_context_t context);

/* Waits until the context's streams are idle. Releases the lock meanwhile. */
void standin_drain(cuda_context_t context);

/* Queues a copy of the operation, with what the order of the legacy stream asks for. */
cuda_result_t standin_queue(cuda_stream_t stream, const operation_t *operation);

/* Whether a queued operation uses the range. */
bool standin_in_use(uintptr_t base, size_t bytes);

/* The region that has the address, reservations last; NULL: none. */
region_t *standin_region(uintptr_t address);
region_t *standin_region_add(region_kind_t kind, uintptr_t base, size_t bytes, int device);
void standin_region_remove(region_t *region);
void standin_memory_destroy_all(cuda_context_t context);

/* Whether work of the device may use the range. plain: also memory that the driver does not know.
 */
bool standin_accessible(cuda_context_t context, uintptr_t address, size_t bytes, bool write,
                        bool plain);

/* Creates a memfd for memory of an ordinal; -1: it cannot. */
int standin_memfd(int device, size_t bytes, unsigned handle_types);

/* Reads what standin_memfd noted: false: the descriptor is not one of it. */
bool standin_memfd_read(int descriptor, int *gpu, size_t *bytes, unsigned *handle_types);

/* Ends of the life of physical memory. */
void standin_physical_drop(physical_t *physical);

#endif

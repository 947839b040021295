/*
 * What the files of the stand-in share: its state, under one lock, and how a function begins and
 * ends.
 */
#ifndef TESTS_GPU_STANDIN_STATE_H
#define TESTS_GPU_STANDIN_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "gpu/standin/functions.h"
#include "gpu/standin/standin.h"

#define STANDIN_VERSION 13000 /* of CUDA, unless the environment has another */
#define STANDIN_PAGE ((size_t)4096)
#define STANDIN_BRANCHES_MAX 64 /* streams of one capture */

struct CUctx_st {
  int device;
  int retains; /* 0: it does not exist */
  cuda_stream_t legacy;
  cuda_result_t failure; /* of its queued work; final */
  bool peers[STANDIN_GPUS_MAX];
};

struct CUgreenCtx_st {
  struct CUctx_st handle; /* what the driver names the green context by as a context; no more */
  int device;
};

typedef enum operation_kind {
  OPERATION_NONE,
  OPERATION_COPY, /* flags 1: between the GPUs of `value`, see STANDIN_PEERS */
  OPERATION_SET8,
  OPERATION_SET32,
  OPERATION_WRITE32,
  OPERATION_WRITE64,
  OPERATION_WAIT32,
  OPERATION_WAIT64,
  OPERATION_EVENT,
  OPERATION_AFTER, /* waits until `other` has completed its first `value` operations, of which
                      `event`, unless it is NULL, is the last */
  OPERATION_FREE,  /* of `dst` */
  OPERATION_HOST,
  OPERATION_KERNEL
} operation_kind_t;

typedef struct operation {
  operation_kind_t kind;
  uintptr_t dst, src;
  size_t bytes;
  uint64_t value;
  unsigned flags;
  bool words; /* of a copy: 8 bytes at a time, which other streams may store meanwhile */
  cuda_stream_t other;
  cuda_event_t event;
  cuda_host_fn_t host;
  void *context;
  standin_kernel_t kernel;
  standin_launch_t *launch; /* one allocation, which the thread frees */
  size_t launch_bytes;
  int argument_count;
  struct operation *next;
} operation_t;

struct CUstream_st {
  cuda_context_t context;
  cuda_green_t green; /* of that context; NULL: none */
  unsigned flags;
  bool destroyed;
  bool hidden;        /* of no program: per-thread default streams, branches of graphs */
  cuda_graph_t graph; /* that it is captured for; NULL: it is not */
  int branch;         /* of that graph */
  uint64_t submitted, completed, random;
  long launches;             /* kernels that have not ended */
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
  uint64_t capture; /* of its last record; 0: that was none */
  int branch, node, clock[STANDIN_BRANCHES_MAX];
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

/* Of standin_hold: whether a cuEventQuery is to be blocked, or is. */
typedef enum standin_hold { STANDIN_FREE, STANDIN_HOLDS_NEXT, STANDIN_HELD } standin_hold_t;

typedef struct standin {
  int pid; /* of cuInit; 0: not called */
  unsigned delay_us;
  uint64_t seed;
  int device_count;
  int gpus[STANDIN_GPUS_MAX];       /* number of the GPU by ordinal */
  unsigned apart[STANDIN_GPUS_MAX]; /* by number: bits of the GPUs whose memory it cannot access */
  bool nvlink, vmm, mps;
  int domains;
  long queue;                               /* launches that a stream holds */
  size_t gpu_bytes, used[STANDIN_GPUS_MAX]; /* by ordinal */
  struct CUctx_st contexts[STANDIN_GPUS_MAX];
  region_t *regions;
  physical_t *physicals;
  cuda_stream_t streams; /* destroyed ones too: their addresses are not used again */
  cuda_event_t events;
  standin_hold_t hold;
  int hold_device;
  bool cut; /* a wait was cut short (streams.c); atomic */
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

/* ThreadSanitizer does not see what the thread does between them. */
void standin_ignore(void);
void standin_heed(void);

/* Takes the lock, or returns why the call cannot be served: cuInit was not called in this process.
 */
cuda_result_t standin_enter(void);

/* The same; also *context is the current one, or there is none. */
cuda_result_t standin_enter_context(cuda_context_t *context);

/* The same for calls that are refused while a stream is captured; the captures fail then. */
cuda_result_t standin_enter_uncaptured(cuda_context_t *context);

/* Releases the lock; returns result. */
cuda_result_t standin_leave(cuda_result_t result);

/* Reports what the driver leaves undefined. The lock is held. */
void standin_misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

long standin_setting(const char *name, long fallback);
int standin_ordinal(int gpu); /* -1: not visible */

/* Whether GPUs can access each other's memory, by their numbers. */
bool standin_reaches(int gpu, int other);

/* NULL or an ended one: NULL, which is reported. The lock is held, as below. */
cuda_stream_t standin_stream(cuda_context_t context, cuda_stream_t handle);
void standin_stream_destroy_all(cuda_context_t context, bool reset);

/* A stream that no program sees, which is blocked by no other; NULL: it cannot be made. */
cuda_stream_t standin_stream_hidden(cuda_context_t context);
void standin_stream_end(cuda_stream_t stream);

/* Waits until the context's streams are idle. Releases the lock meanwhile. */
void standin_drain(cuda_context_t context);

/* Whether the device may use the operation's memory now, and how. align: of dst. */
cuda_result_t standin_operation_check(cuda_stream_t stream, operation_t *operation, size_t align);

/* Queues a copy of the operation, with what the order of the legacy stream asks for; or adds it to
 * the graph that the stream is captured for. */
cuda_result_t standin_queue(cuda_stream_t stream, const operation_t *operation);

/* Queues a copy of it, or a wait for what is queued in the other stream, and no more. */
cuda_result_t standin_append(cuda_stream_t stream, const operation_t *operation);
cuda_result_t standin_append_after(cuda_stream_t stream, cuda_stream_t other);

/* The event was recorded as the last operation of the stream. */
void standin_event_recorded(cuda_event_t event, cuda_stream_t stream);

/* The same for a stream that is captured: an operation, a record of an event, and a wait for an
 * event if the stream or the event's is captured. */
cuda_result_t standin_capture_add(cuda_stream_t stream, const operation_t *operation);
cuda_result_t standin_capture_record(cuda_stream_t stream, cuda_event_t event);
cuda_result_t standin_capture_wait(cuda_stream_t stream, cuda_event_t event);

/* Fails, and the captures with it, if a blocking stream of the context is captured. */
cuda_result_t standin_capture_check_legacy(cuda_context_t context);

int standin_graphs(void); /* how many exist, with executable ones */

/* The GPUs of a copy between two. */
#define STANDIN_PEERS(dst, src) ((uint64_t)((dst) | (src) << 8))
bool standin_copy_allowed(cuda_context_t context, const operation_t *copy);

/* Whether a queued operation uses the range. */
bool standin_in_use(uintptr_t base, size_t bytes);

/* The region that has the address, reservations last; NULL: none. */
region_t *standin_region(uintptr_t address);
region_t *standin_region_add(region_kind_t kind, uintptr_t base, size_t bytes, int device);
void standin_region_remove(region_t *region);
void standin_memory_destroy_all(cuda_context_t context, bool reset);

/* Frees memory of a device for a stream; false: there is none. */
bool standin_free_queued(uintptr_t address);

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

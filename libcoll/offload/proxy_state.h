/*
 * What the files of the proxy share: its pinned memory, its queue, and the steps of a call.
 */
#ifndef OFFLOAD_PROXY_STATE_H
#define OFFLOAD_PROXY_STATE_H

#include <sys/types.h>

#include "device/cuda/operations.h"
#include "device/cuda/order.h"
#include "offload/proxy.h"
#include "offload/state.h"

/* Pinned memory of a rank: PROXY_SLOTS times PROXY_SLOT_BYTES for inputs and as much for outputs,
 * 24 MiB, and a page for the words. Groups of sends and receives that need more have a block of
 * their own, as large as the largest such group. */
#define PROXY_SLOTS 3
#define PROXY_SLOT_BYTES ((size_t)4 << 20)
#define PROXY_ALIGNMENT 64 /* of what is in a slot */

/* Where one piece is, from its copy in to its copy out. */
typedef struct proxy_slot {
  char *in, *out;
  uint32_t *done;          /* 1: the proxy has carried out the piece */
  cuda_ptr_t done_address; /* of the same, on the GPU */
} proxy_slot_t;

/* Memory that ranks of this host can map, so that plans may read it where it is; pinned for the
 * GPU. */
typedef struct proxy_block {
  void *memory;
  size_t bytes;
  bool is_pinned;
  struct proxy_block *next;
} proxy_block_t;

/* A piece of a call: calls on the proxy's communicator, with buffers in a slot. The proxy frees it
 * when it has carried it out. One that is captured is carried out with each launch of its graph,
 * and freed with the proxy. */
typedef struct proxy_job {
  offload_proxy_t *proxy;
  uint32_t *done; /* as in proxy_slot_t */
  bool is_captured;
  comm_limits_t limits;             /* of the communicator, when the call was made */
  const char *forced;               /* algorithm of the collective, or NULL */
  struct proxy_job *next;           /* in the queue */
  bool is_queued;                   /* guarded by the proxy's lock, as `next` */
  bool overlaps;                    /* so was it, when it was posted again */
  struct proxy_job *before, *after; /* in the list of all */
  size_t call_count;
  run_call_t calls[];
} proxy_job_t;

struct offload_proxy {
  offload_t *gpu;
  const cuda_driver_t *driver;
  int device;
  struct coll_comm *comm;          /* the user's */
  struct coll_comm *host;          /* the proxy's; NULL: not connected. Its lock is the thread's */
  cuda_context_t context;          /* the GPU's primary one, retained */
  proxy_slot_t slots[PROXY_SLOTS]; /* PROXY_SLOT_BYTES each way */
  proxy_slot_t large;              /* its words; in and out are those of the call */

  /* The fields below belong to the holder of the communicator's lock. */
  proxy_block_t *blocks; /* the newest first, of which the first is in use for large groups; the
                            last one has the slots and words. Captured calls may use any */
  cuda_order_t order;

  _Atomic(const algo_t *) used[COLL_COLLECTIVE_COUNT]; /* by the latest call of each; or NULL */

  pthread_t thread;
  bool has_thread;
  _Atomic bool is_aborted; /* by offload_proxy_abort */
  pthread_mutex_t lock;    /* guards the fields below */
  pthread_cond_t changed;
  proxy_job_t *first, **last_link; /* the queue */
  proxy_job_t *jobs;               /* all that exist */
  bool is_busy;                    /* the thread carries one out */
  bool is_closing;
  bool is_connected; /* or has failed to */
  coll_status_t status;
  char text[COMM_ERROR_BYTES];
};

/* ---- jobs (proxy_thread.c) -------------------------------------------------------------------*/

/* Makes a job of `count` calls, which the caller fills in, of a call that is made now; the caller
 * holds the communicator's lock. */
coll_status_t proxy_job_create(offload_proxy_t *proxy, const proxy_slot_t *slot, size_t count,
                               proxy_job_t **job);

/* Frees a job that was not posted, or was carried out. */
void proxy_job_free(proxy_job_t *job);

/* The host function of streams: queues the job. Neither blocks nor calls the driver. */
void proxy_job_post(void *job);

/* The thread's function; the argument is the proxy. */
void *proxy_run(void *argument);

/* ---- pinned memory (proxy_memory.c); between proxy_enter and proxy_leave ---------------------*/

/* The slots and words; the end of all blocks. */
coll_status_t proxy_memory_init(offload_proxy_t *proxy);
void proxy_memory_unpin(offload_proxy_t *proxy);
void proxy_memory_free(offload_proxy_t *proxy); /* anywhere, behind proxy_memory_unpin */

/* Finds room for a call of one step with so many bytes: a slot, or a block that may have to be
 * made. */
coll_status_t proxy_memory_find(offload_proxy_t *proxy, size_t in_bytes, size_t out_bytes,
                                const proxy_slot_t **slot);

/* ---- streams (proxy_stream.c) ----------------------------------------------------------------*/

/* Between these two the GPU's context is current, and the thread may do what the driver forbids
 * while a stream is captured. */
coll_status_t proxy_enter(const offload_proxy_t *proxy, cuda_capture_mode_t *mode);
void proxy_leave(const offload_proxy_t *proxy, cuda_capture_mode_t mode);

/* The status of a function of the driver. */
#define PROXY_CALL(proxy, function, ...)                                                \
  cuda_driver_check((proxy)->driver, (proxy)->driver->function(__VA_ARGS__), #function, \
                    (proxy)->device)

/* A call as steps, each of which takes one slot. */
typedef struct proxy_steps {
  size_t count;
  size_t in_bytes, out_bytes; /* of a call of one step, whatever that is; else 0 */
  /* Adds the copies to the slot, and makes the job. */
  coll_status_t (*begin)(void *context, size_t step, const proxy_slot_t *slot,
                         cuda_copies_t *copies, proxy_job_t **job);
  /* Adds the copies from the slot. */
  coll_status_t (*end)(void *context, size_t step, const proxy_slot_t *slot, cuda_copies_t *copies);
  void *context;
} proxy_steps_t;

/* alltoallv (proxy_exchange.c). The sizes of a pair's blocks are known to the pair alone, so nobody
 * knows how many pieces the largest has: it is sends and receives. */
coll_status_t proxy_alltoallv(offload_proxy_t *proxy, const run_call_t *call, cuda_stream_t stream);

/* Queues all steps on the stream, behind the calls before. */
coll_status_t proxy_queue(offload_proxy_t *proxy, cuda_stream_t stream, const proxy_steps_t *steps);

#endif

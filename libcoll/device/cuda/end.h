/*
 * A rank's end of a communicator of GPUs: its arena, the arenas of its peers as its GPU addresses
 * them, the kernel, and the programs that were uploaded. The ranks exchange records and file
 * descriptors through the communicator; nothing here waits for another rank.
 *
 * One thread at a time calls the functions of an end, but those that say that any thread calls
 * them, until cuda_end_destroy. All of them keep the thread's current context.
 */
#ifndef DEVICE_CUDA_END_H
#define DEVICE_CUDA_END_H

#include "base/ranks.h"
#include "device/cuda/driver.h"
#include "device/cuda/exchange.h"
#include "device/cuda/record.h"
#include "plan/plan.h"
#include "plan/room.h"

typedef struct cuda_end cuda_end_t;
typedef struct cuda_program cuda_program_t; /* of one plan, in the memory of the end's GPU */

/* What carries out programs. */
typedef enum cuda_engine {
  CUDA_ENGINE_AUTO,   /* the kernel, where it can be */
  CUDA_ENGINE_KERNEL, /* kernel.c */
  CUDA_ENGINE_COPY,   /* copy.h */
  CUDA_ENGINE_STAGED  /* none of an end: the host (offload/proxy.h) */
} cuda_engine_t;

/* How messages may travel, bits; ordinary messages (SIMPLE) always may. */
enum {
  CUDA_PROTOCOL_SIMPLE = 1,
  CUDA_PROTOCOL_LL = 2,   /* ll.h */
  CUDA_PROTOCOL_LL128 = 4 /* ll128.h, where lines arrive as a whole */
};
#define CUDA_PROTOCOLS_DEFAULT (CUDA_PROTOCOL_SIMPLE | CUDA_PROTOCOL_LL)

typedef struct cuda_end_config {
  int rank, size;
  int device;           /* this rank's GPU, as this process counts them */
  uint64_t process;     /* ranks with the same number are threads of one process */
  cuda_engine_t engine; /* the same on all ranks */
  uint32_t protocols;   /* the same on all ranks; 0: CUDA_PROTOCOLS_DEFAULT */
  uint32_t blocks; /* of a launch at most, as the user sets them; 0: as many as there should be */
  /* A launch that blocks calls it again and again, in its thread; NULL: nothing. It may call
   * cuda_end_abort, and what any thread may call. */
  void (*waits)(void *context);
  void *context;
} cuda_end_config_t;

/* What a rank tells the others; plain data. */
typedef struct cuda_record {
  uint64_t process;
  cuda_uuid_t gpu;
  uint64_t arena, arena_bytes;          /* a pointer, for ranks of the same process */
  int32_t multiprocessors, blocks_each; /* of the GPU; of the kernel, per multiprocessor */
  int32_t engine;                       /* cuda_engine_t, as asked for */
  uint32_t protocols;                   /* as asked for */
  int32_t mps; /* 1: the GPU runs kernels of several processes at once, as far as is known */
} cuda_record_t;

/* Allocates the arena, zeroed, loads the kernel (so that no launch has to), and allocates the words
 * that the host and the kernel share. The caller owns *end. COLL_ERROR_UNSUPPORTED: this build has
 * no kernel for GPUs, or not for this one, or the GPU cannot share memory. COLL_ERROR_MEMORY. */
coll_status_t cuda_end_create(const cuda_driver_t *driver, const cuda_end_config_t *config,
                              cuda_end_t **end);
void cuda_end_describe(const cuda_end_t *end, cuda_record_t *record);

/* A file descriptor of the arena, for a rank of another process. The caller closes it. */
coll_status_t cuda_end_export(const cuda_end_t *end, int *descriptor);

/* Maps the arenas of all ranks, and chooses the engine. records: of all ranks. descriptors[r]: of
 * rank r's arena if it is of another process, else ignored; they stay the caller's. NULL: there is
 * no other process. No rank of this process may be destroyed before all of them have connected.
 * After a failure the end can only be destroyed. COLL_ERROR_INVALID: ranks ask for different
 * engines or protocols. COLL_ERROR_UNSUPPORTED names two ranks whose GPUs cannot access each
 * other's memory, or two processes that share a GPU and ask for the kernel: without MPS a GPU runs
 * the kernels of one process at a time, so they could wait for each other for ever; or other
 * communicators have all blocks of the GPU. */
coll_status_t cuda_end_connect(cuda_end_t *end, const cuda_record_t records[],
                               const int descriptors[]);

/* Of how many ranks this rank's GPU cannot map the memory, for which reason cuda_end_connect has
 * failed. 0: it has not, or for another reason. */
int cuda_end_unreached(const cuda_end_t *end);

/* COLL_ERROR_INVALID: ranks ask for different engines or protocols; all find the same. */
coll_status_t cuda_end_check_agreement(int size, const cuda_record_t records[]);

/* The engine that serves, KERNEL or COPY; the same on all ranks. *reason: a clause, of the end. */
cuda_engine_t cuda_end_engine(const cuda_end_t *end, const char **reason);

/* What this rank can do for launches. The ranks agree on what all can, which each tells its end
 * before it launches anything. */
typedef struct cuda_offer {
  uint32_t blocks; /* of a launch, beside the other communicators of this process on its GPU
                      (resident.h): the fewest of all ranks count; 0: it launches nothing */
  uint32_t lines;  /* 1: messages of flagged lines may be sent to all ranks */
} cuda_offer_t;
cuda_offer_t cuda_end_offer(const cuda_end_t *end);
void cuda_end_agree(cuda_end_t *end, cuda_offer_t offer);

/* How many ranks of the communicator in this process are on this GPU. */
int cuda_end_sharing(const cuda_end_t *end);

/* How many ranks' calls run at once: all, unless processes take turns on GPUs. */
int cuda_end_parallel(const cuda_end_t *end);

/* The program of this rank in the plan; uploaded when it is first asked for, and kept. The plan
 * must live as long as the end. COLL_ERROR_UNSUPPORTED: the engine cannot run this plan here
 * (device/cuda/bind.h); all ranks get the same answer. */
coll_status_t cuda_end_program(cuda_end_t *end, const plan_t *plan, const cuda_program_t **program);

/* Blocks of different sizes (alltoallv), in elements: [size] each, in host memory. */
typedef struct cuda_blocks {
  const size_t *counts, *offsets;
} cuda_blocks_t;

/* Where the buffers of all ranks are, which are in one window: rank r's is `offset` + r * `stride`
 * bytes behind the start of its part. at: of cuda_end_upload_parts; 0: unknown. */
typedef struct cuda_parts {
  cuda_ptr_t at;
  size_t offset, stride;
} cuda_parts_t;

/* Copies the addresses of all ranks' parts of a window, as this GPU addresses them, to its memory.
 * They are there as long as the end. parts: [size] */
coll_status_t cuda_end_upload_parts(cuda_end_t *end, char *const parts[], cuda_ptr_t *at);

/* A collective. Everything is read before the launch returns. */
typedef struct cuda_request {
  const void *input; /* device memory that the end's GPU can access */
  void *output;
  size_t count;                              /* as engine_call_t */
  cuda_blocks_t input_blocks, output_blocks; /* counts NULL: even */
  /* For plans of reach read and user: of the buffers that the plan accesses of peers. */
  cuda_parts_t input_parts, output_parts;
  coll_dtype_t dtype;
  coll_op_t op;             /* builtin; of a premul-sum COLL_SUM. AVG of floats: see bind.h */
  const void *scalar;       /* premul-sum: in host memory; else NULL */
  const gpu_words_t *words; /* what all ranks must agree on (bind.h); NULL: nothing is compared */
} cuda_request_t;

/* COLL_ERROR_UNSUPPORTED: the stream is captured, and the engine's launches cannot be. */
coll_status_t cuda_end_check_stream(cuda_end_t *end, cuda_stream_t stream);

/* Queues a collective on the stream (0: the legacy default stream of the GPU), behind all that was
 * launched before from this end on any stream. All ranks must launch the same collectives in the
 * same order, where a captured one has its place when its graph is launched. COLL_ERROR_SYSTEM,
 * _MEMORY: nothing was queued.
 *
 * With the copy engines a launch may block until other ranks launch theirs. COLL_ERROR_RANK_LOST:
 * cuda_end_abort has ended it; after any failure the end can only be aborted and destroyed. */
coll_status_t cuda_end_launch(cuda_end_t *end, const cuda_program_t *program,
                              const cuda_request_t *request, cuda_stream_t stream);

/* Queues sends and receives, which progress together (exchange.h); none: nothing is queued. In the
 * same order as collectives, as cuda_end_launch; a rank without transfers launches none.
 * COLL_ERROR_INVALID: the sends to this rank do not match its receives. COLL_ERROR_UNSUPPORTED: the
 * GPU cannot keep a block resident for each direction of all peers; all ranks get the same answer.
 */
coll_status_t cuda_end_launch_exchange(cuda_end_t *end, const gpu_transfer_t transfers[], int count,
                                       cuda_stream_t stream);

/* Into how many slices, which run at once, a call of `bytes` per block is cut if its plan has one
 * lane; the same on all ranks. For the tuner. */
int cuda_end_slices(const cuda_end_t *end, size_t bytes);

/* The space that plans have, for the tuner. */
plan_room_t cuda_end_plan_room(const cuda_end_t *end);

/* COLL_IN_PROGRESS while something that was launched, graphs included, has not ended. */
coll_status_t cuda_end_query(cuda_end_t *end);

/* The event behind the last launch, of graphs too, or behind a later one once there is one; NULL:
 * there was none. It lives as long as the end. */
cuda_event_t cuda_end_last(const cuda_end_t *end);

/* Whether an event of cuda_end_last has passed, as cuda_end_query. Any thread. */
coll_status_t cuda_end_query_event(const cuda_end_t *end, cuda_event_t event);

/* Waits until all that was launched, graphs included, has ended. COLL_ERROR_SYSTEM. */
coll_status_t cuda_end_synchronize(cuda_end_t *end);

/* Ends the kernels of this rank that wait, within some microseconds, without a call of CUDA. Waits
 * of the copy engines end a little later, and peers that still run may undo it: so it is repeated
 * every now and then until cuda_end_query. Any thread. */
void cuda_end_abort(cuda_end_t *end);

/* Whether a call of this rank has ended early. Any thread; no CUDA call. */
bool cuda_end_has_failed(const cuda_end_t *end);

/* Whether one has because a peer makes another call, which the copy engines do not find. Any
 * thread; no CUDA call. */
bool cuda_end_find_mismatch(const cuda_end_t *end, gpu_mismatch_t *mismatch);

/* Whether a call runs, and how many have ended, captured ones included. Any thread; no CUDA call.
 */
bool cuda_end_is_running(const cuda_end_t *end, uint64_t *ended);

/* What this rank's kernel does, as it was seen a moment ago. */
typedef struct cuda_progress {
  uint64_t begun, ended; /* kernels, captured ones included; not equal: one runs */
  /* What the kernel that runs makes: a collective, by its number among those with an identity; else
   * sends and receives, or it is not known. */
  bool is_collective;
  uint64_t number;
  gpu_words_t words;
} cuda_progress_t;

/* Whether a launch was captured, so that kernels may run that were not launched by the end. */
bool cuda_end_has_captured(const cuda_end_t *end);

/* Any thread; no CUDA call. */
void cuda_end_progress(const cuda_end_t *end, cuda_progress_t *progress);

/* Sets the bits of the peers that blocks have waited for for long, and do still; no CUDA call. Of
 * the copy engines: of those that have not done yet what calls need, with calls of CUDA. Any
 * thread. */
void cuda_end_waits(const cuda_end_t *end, base_ranks_t *peers);

/* The same for one peer. */
bool cuda_end_waits_for(const cuda_end_t *end, int peer);

/* A wait for a peer, as cuda_end_waits_in_vain saw it. Zeroed: none. */
typedef struct cuda_seen_wait {
  int peer; /* 1 + the peer */
  int block;
  uint32_t polls; /* of the block, in GPU_LONG_INTERVAL */
} cuda_seen_wait_t;

/* Whether all that the peer has sent is not what this rank waits for. The peer has left, so what it
 * has sent is there. *seen: of the last look, for whatever peer; true if what waited then has
 * polled since and waits still. Looks at one peer at a time, until that is not waited for. Calls
 * CUDA as cuda_end_waits_for. */
bool cuda_end_waits_in_vain(const cuda_end_t *end, int peer, cuda_seen_wait_t *seen);

/* Waits for this rank's kernels, and frees all. NULL: does nothing. Kernels of peers may still use
 * the arena. Graphs that recorded launches must not be replayed any more. The GPU may be waited
 * for, with all that it runs. Returns the first failure; the end exists no more either way. */
coll_status_t cuda_end_destroy(cuda_end_t *end);

#endif

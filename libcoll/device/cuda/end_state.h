/*
 * What the files of an end (end.h) share: its state, and helpers. All functions but
 * cuda_end_enter are called between cuda_end_enter and cuda_end_leave.
 */
#ifndef DEVICE_CUDA_END_STATE_H
#define DEVICE_CUDA_END_STATE_H

#include "device/cuda/arena.h"
#include "device/cuda/bind.h"
#include "device/cuda/code.h"
#include "device/cuda/copy.h"
#include "device/cuda/end.h"
#include "device/cuda/memory.h"
#include "device/cuda/operations.h"
#include "device/cuda/order.h"
#include "device/cuda/resident.h"

#define CUDA_END_SLICES_MAX 64

/* Slices of calls whose ranks do not know each other's sizes, and so cannot choose by them. */
#define CUDA_END_FIXED_SLICES 16

/* Words in pinned memory: the host writes the one, the kernel the other. */
typedef struct cuda_end_words {
  uint32_t abort;
  char pad_abort[GPU_LINE - sizeof(uint32_t)];
  uint32_t failed;
  char pad_failed[GPU_LINE - sizeof(uint32_t)];
} cuda_end_words_t;

/* An arena. Ranks of the same process use it at its own address, so it is freed by the last of
 * them: when its owner is destroyed, their kernels may still store flags to it. */
typedef struct cuda_end_arena {
  cuda_memory_t memory;
  int users; /* guarded by a lock of the process */
} cuda_end_arena_t;

/* Memory of the GPU that is given out piece by piece, and freed with the end. */
typedef struct cuda_end_pool {
  cuda_memory_t *blocks;
  size_t count, capacity;
  size_t used; /* of the last block */
} cuda_end_pool_t;

/* Pinned memory that launches read. It is used again when `ended` has passed, which is recorded
 * behind them when another chunk becomes the current one. */
typedef struct cuda_end_chunk {
  char *host;
  cuda_ptr_t address; /* as the GPU addresses it */
  size_t bytes, used;
  cuda_event_t ended;
  struct cuda_end_chunk *next;
} cuda_end_chunk_t;

#define CUDA_END_PROGRAM_SLOTS 128 /* a power of two */

struct cuda_program {
  const plan_t *plan;         /* NULL: of an exchange */
  gpu_program_t *bound;       /* the host's copy */
  const gpu_program_t *there; /* in the GPU's memory, for the kernel */
  struct cuda_program *next;  /* with the same slot of cuda_end_t.slots */
};

/* A group of sends and receives: its program and arrays, on the host. */
typedef struct cuda_end_group {
  gpu_program_t *program;
  size_t *counts; /* [4 * transfers]: counts of inputs and outputs, offsets of both */
  int transfers;
  size_t largest; /* bytes of a transfer */
} cuda_end_group_t;

/* What carries out programs. With the context. */
typedef struct cuda_executor {
  bool captures; /* launches can be captured into graphs */
  bool uploads;  /* programs are in the GPU's memory */
  /* Whether it can run the program in the end's room, whatever the call: so that no launch finds
   * out that it cannot. */
  coll_status_t (*check)(const cuda_end_t *end, const gpu_program_t *bound);
  coll_status_t (*launch)(cuda_end_t *end, const cuda_program_t *program,
                          const cuda_request_t *request, cuda_stream_t stream);
  coll_status_t (*launch_group)(cuda_end_t *end, const cuda_end_group_t *group,
                                cuda_stream_t stream);
} cuda_executor_t;

#define CUDA_END_REASON_BYTES 128
#define CUDA_END_UNREACHED_BYTES 384

/* A call of the copy engines, at its number among all (from 1) modulo CUDA_END_PAST: `number` of
 * them. Written by the thread that launches, read by any. */
#define CUDA_END_PAST 64
typedef struct cuda_end_past {
  uint64_t number;     /* 0 while it is written */
  uint64_t collective; /* its number among those with an identity; UINT64_MAX: it has none */
  uint64_t what, count;
} cuda_end_past_t;

struct cuda_end {
  const cuda_driver_t *driver;
  int rank, size, device;
  uint64_t process;
  cuda_context_t context; /* the GPU's primary one, retained */
  const cuda_code_t *code;
  cuda_launcher_t launcher;
  cuda_stream_t uploads; /* waits for no other stream */
  cuda_uuid_t gpu;
  int multiprocessors, mps;

  cuda_end_config_t config;
  gpu_room_t room; /* the kernel's, unless cuda_end_connect chooses the copy engines */
  cuda_end_arena_t *arena;
  cuda_end_words_t *words;
  cuda_ptr_t words_address;
  gpu_record_t *record; /* in pinned memory */
  cuda_ptr_t record_address;

  /* of cuda_end_connect */
  cuda_end_arena_t **local; /* [size]: arenas of ranks of this process, NULL for others */
  cuda_memory_t *imported;  /* [size]: of others */
  cuda_engine_t engine;
  char reason[CUDA_END_REASON_BYTES]; /* for the engine */
  int unreached_count;                /* ranks whose memory this GPU cannot map */
  char unreached[CUDA_END_UNREACHED_BYTES];
  const cuda_executor_t *executor;     /* NULL: not connected */
  cuda_copy_t *copy;                   /* NULL: the kernel serves */
  int parallel;                        /* ranks whose calls run at once */
  cuda_end_past_t past[CUDA_END_PAST]; /* the latest calls of the copy engines */
  uint64_t calls, collectives;         /* of them that were launched */
  const gpu_rank_t *here;              /* in the GPU's memory; NULL: of the copy engines */
  int sharing;                         /* ranks of the communicator in this process on this GPU */
  cuda_offer_t offer;                  /* the same on all ranks */
  cuda_resident_claim_t *claim;

  cuda_end_pool_t pool;
  cuda_program_t **programs; /* each an allocation, as callers keep pointers */
  size_t program_count, program_capacity;
  size_t group_count;                            /* of these, programs of groups */
  cuda_program_t *slots[CUDA_END_PROGRAM_SLOTS]; /* by plan, or by the bytes of a group's program */

  cuda_end_chunk_t *chunks;   /* all but those of captured launches */
  cuda_end_chunk_t *current;  /* one of them */
  cuda_end_chunk_t *captured; /* the newest first; never used again */
  cuda_order_t order;         /* of the kernel's launches */
  cuda_event_t last;          /* behind the last launch of either engine; NULL: there was none */
  bool has_captured;          /* a launch was captured */
  cuda_memory_t scaled;       /* of premul-sums */
  cuda_memory_t *outgrown;    /* what `scaled` was, as launches may use it */
  size_t outgrown_count, outgrown_capacity;
};

/* The status of a function of the driver. */
#define CUDA_END_CALL(end, function, ...) \
  cuda_driver_check((end)->driver, (end)->driver->function(__VA_ARGS__), #function, (end)->device)

/* Makes the GPU's context current, and permits the calling thread what the driver forbids while a
 * stream is captured, such as allocations; they do not concern the captured stream. *mode is what
 * cuda_end_leave restores. */
coll_status_t cuda_end_enter(const cuda_end_t *end, cuda_capture_mode_t *mode);
void cuda_end_leave(const cuda_end_t *end, cuda_capture_mode_t mode);

/* The room of a communicator of that many ranks, with slots for these protocols. The arena has at
 * most CUDA_END_ARENA_BYTES up to 256 ranks: the more ranks, the smaller the slots, and then the
 * fewer slices. */
#define CUDA_END_ARENA_BYTES ((size_t)128 << 20)
gpu_room_t cuda_end_room(int size, uint32_t protocols);

/* The room of the copy engines, which takes the place of the kernel's in the arena. */
gpu_room_t cuda_end_copy_room(int size);

/* Copies bytes to memory of the GPU that lives as long as the end. They are there on return. */
coll_status_t cuda_end_upload(cuda_end_t *end, const void *bytes, size_t count,
                              cuda_ptr_t *address);
void cuda_end_pool_free(cuda_end_t *end);

/* Chooses the engine, which follows from the records alone. */
coll_status_t cuda_end_choose(cuda_end_t *end, const cuda_record_t records[]);

/* Makes the copy engines serve. */
coll_status_t cuda_end_copy_connect(cuda_end_t *end, char *const arenas[]);

/* Adds a program, which owns `bound` from then on; on failure the caller still does. */
coll_status_t cuda_end_add_program(cuda_end_t *end, const plan_t *plan, gpu_program_t *bound,
                                   cuda_program_t **program);
/* The program of a group with the same bytes; NULL: there is none yet. */
const cuda_program_t *cuda_end_find_group(const cuda_end_t *end, const gpu_program_t *program);
void cuda_end_programs_free(cuda_end_t *end);

/* ---- pinned memory (stage.c) -----------------------------------------------------------------*/

/* Memory that the launch may read, aligned to 16 bytes, and its address on the GPU. The host writes
 * it before the launch. At most once per launch. */
coll_status_t cuda_end_stage(cuda_end_t *end, const cuda_order_stream_t *to, size_t bytes,
                             char **host, cuda_ptr_t *address);

/* The first chunk; the end of all. */
coll_status_t cuda_end_stage_init(cuda_end_t *end);
void cuda_end_stage_free(cuda_end_t *end);

/* ---- the kernel (launch.c, launch_exchange.c) -------------------------------------------------*/

/* Begins a launch: finds out whether the stream is captured. */
coll_status_t cuda_end_begin(cuda_end_t *end, cuda_stream_t stream, cuda_order_stream_t *to);

/* Queues the kernel behind the launches before it. */
coll_status_t cuda_end_queue(cuda_end_t *end, const cuda_order_stream_t *to, const gpu_call_t *call,
                             uint32_t blocks);

extern const cuda_executor_t cuda_kernel_executor;
coll_status_t cuda_kernel_launch_group(cuda_end_t *end, const cuda_end_group_t *group,
                                       cuda_stream_t stream);

/* ---- scaled inputs of premul-sums (launch.c) --------------------------------------------------*/

/* Memory of the GPU for the scaled input of one launch at a time. */
coll_status_t cuda_end_scaled_buffer(cuda_end_t *end, size_t bytes, void **buffer);

/* Frees the scaled inputs of launches. */
void cuda_end_scaled_free(cuda_end_t *end);

/* ---- arenas (end.c) ---------------------------------------------------------------------------*/

/* Begins the use of an arena of this process. */
void cuda_end_arena_take(cuda_end_arena_t *arena);

/* Releases an arena of this process. */
coll_status_t cuda_end_arena_release(const cuda_driver_t *driver, cuda_end_arena_t *arena);

#endif

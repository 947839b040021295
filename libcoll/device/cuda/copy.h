/*
 * Carries out programs as stream operations: copies, stores of flags and waits for flags, and one
 * kernel for what is computed. It leaves the multiprocessors to others, and serves ranks whose
 * kernels cannot run at once: those of several processes that share a GPU.
 *
 * It runs the same programs as the kernel (program.h), in one slice, and with rings, flags and
 * SCRATCH of its own, an arena as arena.h lays it out, with its own room. A launch may block until
 * the GPU has carried out earlier operations, as streams hold a bounded number of them. So ranks
 * need threads of their own.
 *
 * The number of messages so far is counted by the host. So launches cannot be captured into graphs.
 */
#ifndef DEVICE_CUDA_COPY_H
#define DEVICE_CUDA_COPY_H

#include "device/cuda/bind.h"
#include "device/cuda/code.h"
#include "device/cuda/driver.h"

typedef struct cuda_copy cuda_copy_t;

typedef struct cuda_copy_config {
  int device, rank;
  int lanes;           /* that a program may have */
  gpu_room_t room;     /* of one slice; the same on all ranks */
  char *const *arenas; /* [room.size], zeroed, as the device addresses them; the array is copied */
  const cuda_code_t *code;
  /* Words of 64 bits as the device addresses them, which streams set to the number of calls that
   * have begun, and ended; 0: none. */
  cuda_ptr_t begun, ended;
  /* A launch that blocks calls it again and again, in its thread; NULL: nothing. It may abort. */
  void (*waits)(void *context);
  void *context;
} cuda_copy_config_t;

/* Makes the executor of a rank, and carries out an operation of each kind, so that the driver loads
 * what it needs before a call waits for another rank: copies of up to GPU_LINE bytes within this
 * rank's SCRATCH and to that of its peers. The caller owns *copy. COLL_ERROR_UNSUPPORTED: the GPU's
 * streams cannot wait for 64-bit flags. COLL_ERROR_SYSTEM, _MEMORY. */
coll_status_t cuda_copy_create(const cuda_driver_t *driver, const cuda_copy_config_t *config,
                               cuda_copy_t **copy);

/* Queues a call behind what is in `stream`, and behind all earlier calls of this executor; what is
 * put into `stream` afterwards waits for it. program: in host memory, as the arrays of the
 * request's blocks, which are read before this returns. One thread at a time.
 * COLL_ERROR_UNSUPPORTED: the program has more lanes, or needs more of the room, than there are, or
 * the stream is being captured; nothing was queued, and all ranks get the same answer about the
 * program. COLL_ERROR_RANK_LOST: cuda_copy_abort was called. COLL_ERROR_SYSTEM, _MEMORY: the
 * executor cannot be used any more. */
coll_status_t cuda_copy_launch(cuda_copy_t *copy, const gpu_program_t *program,
                               const gpu_request_t *request, cuda_stream_t stream);

/* Makes launches fail, and ends the waits of calls that were launched, soon after it returns. What
 * the calls then store is of no use. Peers that still run may store flags that waits are for, so
 * the caller repeats it, as often as it likes, until *idle: nothing was left to end. Any thread,
 * also while another one launches. */
coll_status_t cuda_copy_abort(cuda_copy_t *copy, bool *idle);

/* Whether an abort has ended calls. Any thread; no CUDA call. */
bool cuda_copy_was_cut(const cuda_copy_t *copy);

/* waits: [size]. Whether calls that were launched need messages or signals of the peer that have
 * not come, or slots that it has not freed. Any thread, also while another one launches. */
coll_status_t cuda_copy_waits(cuda_copy_t *copy, bool waits[]);

/* An event behind the latest call. */
cuda_event_t cuda_copy_done(const cuda_copy_t *copy);

/* Waits until all calls have ended, and frees all. Peers may still use this rank's arena. */
coll_status_t cuda_copy_destroy(cuda_copy_t *copy);

#endif

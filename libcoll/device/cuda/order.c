/*
 * The order of an end's launches, and the pinned memory that they read. Each launch waits for an
 * event that was recorded behind the one before it, whatever its stream: a stream that was
 * destroyed may have left its handle to a new one, and the handle of a thread's default stream is
 * the same in all threads.
 *
 * Launches that are recorded into a graph are ordered among those of the same capture alone, as the
 * driver permits no other order. What they read is never used again.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "device/cuda/end_state.h"

#define CHUNK_BYTES ((size_t)16 << 10)
#define ALIGNMENT 16

/* ---- pinned memory ---------------------------------------------------------------------------*/

static void free_chunk(cuda_end_t *end, cuda_end_chunk_t *chunk) {
  if (chunk->ended != NULL) (void)end->driver->cuEventDestroy(chunk->ended);
  if (chunk->host != NULL) (void)end->driver->cuMemFreeHost(chunk->host);
  free(chunk);
}

static coll_status_t fill_chunk(cuda_end_t *end, cuda_end_chunk_t *chunk) {
  void *host = NULL;
  COLL_TRY(CUDA_END_CALL(end, cuMemHostAlloc, &host, chunk->bytes, CUDA_HOST_MAPPED));
  chunk->host = host;
  COLL_TRY(CUDA_END_CALL(end, cuMemHostGetDevicePointer, &chunk->address, host, 0));
  return CUDA_END_CALL(end, cuEventCreate, &chunk->ended, CUDA_EVENT_NO_TIMING);
}

/* Puts a new chunk of at least that size in front of the list. */
static coll_status_t add_chunk(cuda_end_t *end, size_t bytes, cuda_end_chunk_t **list) {
  cuda_end_chunk_t *chunk;
  COLL_TRY(base_alloc(1, sizeof *chunk, "pinned memory", (void **)&chunk));
  chunk->bytes = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
  coll_status_t status = fill_chunk(end, chunk);
  if (status != COLL_OK) {
    free_chunk(end, chunk);
    return status;
  }
  chunk->next = *list;
  *list = chunk;
  return COLL_OK;
}

static void free_chunks(cuda_end_t *end, cuda_end_chunk_t **list) {
  while (*list != NULL) {
    cuda_end_chunk_t *chunk = *list;
    *list = chunk->next;
    free_chunk(end, chunk);
  }
}

static bool has_ended(const cuda_end_t *end, const cuda_end_chunk_t *chunk) {
  return end->driver->cuEventQuery(chunk->ended) == CUDA_RESULT_OK;
}

/* Makes a chunk that no launch reads any more the current one. Does not wait for one, as launches
 * wait for other ranks, which this thread may be about to launch. */
static coll_status_t change_chunk(cuda_end_t *end, size_t bytes) {
  for (cuda_end_chunk_t *chunk = end->chunks; chunk != NULL; chunk = chunk->next) {
    if (chunk->bytes < bytes || !has_ended(end, chunk)) continue;
    chunk->used = 0;
    end->current = chunk;
    return COLL_OK;
  }
  COLL_TRY(add_chunk(end, bytes, &end->chunks));
  end->current = end->chunks;
  return COLL_OK;
}

coll_status_t cuda_end_stage(cuda_end_t *end, const cuda_end_stream_t *to, size_t bytes,
                             char **host, cuda_ptr_t *address) {
  cuda_end_chunk_t *chunk = to->capture != 0 ? end->captured : end->current;
  bytes = base_round_up(bytes, ALIGNMENT);
  if (chunk == NULL || bytes > chunk->bytes - chunk->used) {
    if (to->capture != 0) {
      COLL_TRY(add_chunk(end, bytes, &end->captured));
    } else {
      COLL_TRY(change_chunk(end, bytes));
    }
    chunk = to->capture != 0 ? end->captured : end->current;
  }
  *host = chunk->host + chunk->used;
  *address = chunk->address + chunk->used;
  chunk->used += bytes;
  return COLL_OK;
}

/* ---- launches --------------------------------------------------------------------------------*/

coll_status_t cuda_end_begin(cuda_end_t *end, cuda_stream_t stream, cuda_end_stream_t *to) {
  cuda_capture_status_t status;
  *to = (cuda_end_stream_t){.stream = stream};
  COLL_TRY(CUDA_END_CALL(end, cuStreamIsCapturing, stream, &status));
  if (status == CUDA_CAPTURE_NONE) return COLL_OK;
  end->has_captured = true;
  return CUDA_END_CALL(end, cuStreamGetCaptureInfo, stream, &status, &to->capture, NULL, NULL,
                       NULL);
}

static coll_status_t wait_for_last(cuda_end_t *end, const cuda_end_stream_t *to) {
  cuda_event_t last = end->last;
  if (to->capture != 0) last = end->capture == to->capture ? end->last_captured : NULL;
  if (last == NULL) return COLL_OK;
  return CUDA_END_CALL(end, cuStreamWaitEvent, to->stream, last, 0);
}

static coll_status_t record(cuda_end_t *end, const cuda_end_stream_t *to) {
  if (to->capture == 0) {
    end->last = end->current->ended;
    return CUDA_END_CALL(end, cuEventRecord, end->last, to->stream);
  }
  end->capture = to->capture;
  return CUDA_END_CALL(end, cuEventRecord, end->last_captured, to->stream);
}

coll_status_t cuda_end_queue(cuda_end_t *end, const cuda_end_stream_t *to, const gpu_call_t *call,
                             uint32_t blocks) {
  gpu_call_t argument = *call;
  void *arguments[] = {&argument};
  COLL_TRY(wait_for_last(end, to));
  cuda_function_t kernel = end->code->run[call->dtype][gpu_ops_of(call->op)];
  COLL_TRY(CUDA_END_CALL(end, cuLaunchKernel, kernel, blocks, 1, 1, GPU_THREADS_MAX, 1, 1, 0,
                         to->stream, arguments, NULL));
  return record(end, to);
}

/* ---- the whole -------------------------------------------------------------------------------*/

coll_status_t cuda_end_order_init(cuda_end_t *end) {
  COLL_TRY(add_chunk(end, CHUNK_BYTES, &end->chunks));
  end->current = end->chunks;
  return CUDA_END_CALL(end, cuEventCreate, &end->last_captured, CUDA_EVENT_NO_TIMING);
}

void cuda_end_order_free(cuda_end_t *end) {
  end->last = NULL;
  end->current = NULL;
  free_chunks(end, &end->chunks);
  free_chunks(end, &end->captured);
  if (end->last_captured != NULL) (void)end->driver->cuEventDestroy(end->last_captured);
  end->last_captured = NULL;
}

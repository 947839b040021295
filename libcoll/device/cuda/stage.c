/*
 * The pinned memory that launches read: chunks, which are used again when the launches that read
 * them have ended. What captured launches read is never used again.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "device/cuda/end_state.h"

#define CHUNK_BYTES ((size_t)16 << 10)
#define ALIGNMENT 16

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
static coll_status_t change_chunk(cuda_end_t *end, const cuda_order_stream_t *to, size_t bytes) {
  COLL_TRY(cuda_order_wait(&end->order, to));
  COLL_TRY(CUDA_END_CALL(end, cuEventRecord, end->current->ended, to->stream));
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

coll_status_t cuda_end_stage(cuda_end_t *end, const cuda_order_stream_t *to, size_t bytes,
                             char **host, cuda_ptr_t *address) {
  cuda_end_chunk_t *chunk = to->capture != 0 ? end->captured : end->current;
  bytes = base_round_up(bytes, ALIGNMENT);
  if (chunk == NULL || bytes > chunk->bytes - chunk->used) {
    if (to->capture != 0) {
      COLL_TRY(add_chunk(end, bytes, &end->captured));
    } else {
      COLL_TRY(change_chunk(end, to, bytes));
    }
    chunk = to->capture != 0 ? end->captured : end->current;
  }
  *host = chunk->host + chunk->used;
  *address = chunk->address + chunk->used;
  chunk->used += bytes;
  return COLL_OK;
}

coll_status_t cuda_end_stage_init(cuda_end_t *end) {
  COLL_TRY(add_chunk(end, CHUNK_BYTES, &end->chunks));
  end->current = end->chunks;
  return COLL_OK;
}

void cuda_end_stage_free(cuda_end_t *end) {
  end->current = NULL;
  free_chunks(end, &end->chunks);
  free_chunks(end, &end->captured);
}

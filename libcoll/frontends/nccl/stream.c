/*
 * Streams. A communicator has a stream of coll.h for each CUDA stream that its calls have named;
 * that of a default stream is one of its own device, whatever device is the thread's. They are
 * kept until the communicator is destroyed: a wrapper of a stream that was destroyed does no harm.
 */
#include "frontends/nccl/stream.h"

#include <stdlib.h>

#include "frontends/nccl/driver.h"

struct nccl_stream {
  cudaStream_t cuda;
  coll_stream_t stream;
  struct nccl_stream *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of additions to any list */

static void forget(void) {
  pthread_mutex_init(&lock, NULL);
}
NCCL_IN_CHILD(forget);

/* NULL, cudaStreamLegacy (1) and cudaStreamPerThread (2) name no object. */
static bool is_default(cudaStream_t stream) {
  return (uintptr_t)stream <= 2;
}

static bool is_on_gpu(ncclComm_t comm, const nccl_place_t *place) {
  if (!is_default(place->stream)) return true;
  if (nccl_driver_memory(place->send) != NCCL_MEMORY_PLAIN) return true;
  if (nccl_driver_memory(place->recv) != NCCL_MEMORY_PLAIN) return true;
  /* A call without a buffer is where those before it were. */
  return place->send == NULL && place->recv == NULL && atomic_load(&comm->streams) != NULL;
}

static coll_stream_t look_up(ncclComm_t comm, cudaStream_t cuda) {
  struct nccl_stream *each = atomic_load_explicit(&comm->streams, memory_order_acquire);
  while (each != NULL && each->cuda != cuda) each = each->next;
  return each != NULL ? each->stream : NULL;
}

/* Wraps the stream with the context of the communicator's device current. */
static coll_status_t wrap(ncclComm_t comm, cudaStream_t cuda, coll_stream_t *made) {
  int current = nccl_driver_device();
  if (comm->device_is_guessed && current >= 0) comm->device = current;
  comm->device_is_guessed = false;
  bool enters = current != comm->device && nccl_driver_enter(comm->device);
  coll_status_t status = coll_stream_from_cuda(cuda, made);
  if (enters) nccl_driver_leave(comm->device);
  return status;
}

/* The caller holds the lock. */
static ncclResult_t add(ncclComm_t comm, const nccl_place_t *place, coll_stream_t *found) {
  struct nccl_stream *added = malloc(sizeof *added);
  if (added == NULL) return nccl_fail(ncclSystemError, "%s: out of memory", place->function);
  (void)nccl_driver_find();
  coll_status_t status = wrap(comm, place->stream, &added->stream);
  if (status != COLL_OK) {
    free(added);
    return nccl_fail(ncclUnhandledCudaError, "%s: the CUDA stream %p cannot be used: %s",
                     place->function, (void *)place->stream, coll_last_error(NULL));
  }
  added->cuda = place->stream;
  added->next = atomic_load(&comm->streams);
  atomic_store_explicit(&comm->streams, added, memory_order_release);
  *found = added->stream;
  return ncclSuccess;
}

ncclResult_t nccl_stream_find(ncclComm_t comm, const nccl_place_t *place, coll_stream_t *found) {
  ncclResult_t result = ncclSuccess;
  *found = NULL;
  if (!is_on_gpu(comm, place)) return ncclSuccess;
  *found = look_up(comm, place->stream);
  if (*found != NULL) return ncclSuccess;
  pthread_mutex_lock(&lock);
  *found = look_up(comm, place->stream);
  if (*found == NULL) result = add(comm, place, found);
  pthread_mutex_unlock(&lock);
  return result;
}

void nccl_stream_free_all(ncclComm_t comm) {
  struct nccl_stream *next;
  for (struct nccl_stream *each = atomic_load(&comm->streams); each != NULL; each = next) {
    next = each->next;
    coll_stream_destroy(each->stream);
    free(each);
  }
}

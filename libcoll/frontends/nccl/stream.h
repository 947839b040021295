/*
 * Where a call runs: on the host, or on a GPU behind the work of a CUDA stream.
 */
#ifndef FRONTENDS_NCCL_STREAM_H
#define FRONTENDS_NCCL_STREAM_H

#include "frontends/nccl/handle.h"

/* What a program says of its call. */
typedef struct nccl_place {
  const char *function;
  const void *send, *recv; /* NULL: none */
  cudaStream_t stream;
} nccl_place_t;

/* *found: the stream of coll.h for the call, which is the communicator's; NULL: the call runs on
 * the host, because it names no CUDA stream and the driver knows none of its buffers. */
ncclResult_t nccl_stream_find(ncclComm_t comm, const nccl_place_t *place, coll_stream_t *found);

/* Frees the streams of a communicator that is destroyed. */
void nccl_stream_free_all(ncclComm_t comm);

#endif

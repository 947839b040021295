/*
 * Calls of a communicator on GPUs. Its ranks connect through the communicator on the host
 * (connect.c): when it is created, if all have a GPU then (created.c), else in the first such call.
 * Each call chooses a plan (choose.c) and queues a kernel that runs it
 * (run.c), so it returns without waiting for another rank. A thread ends the kernels of
 * communicators that have failed (watch.c).
 */
#ifndef OFFLOAD_GPU_H
#define OFFLOAD_GPU_H

#include "device/cuda/end.h"
#include "run/call.h"

/* Where a call is queued. */
typedef struct offload_stream {
  bool is_own; /* on the communicator's own stream; the call is complete when it returns */
  int device;
  cuda_stream_t stream; /* NULL: the legacy default stream */
} offload_stream_t;

/* Queues the calls, of any communicators, streams[i] for calls[i]. Takes over what the calls own.
 * Of one communicator, collectives come first, one after the other, then all sends and receives
 * together. Calls that were made before without a GPU are waited for. A failure ends every
 * communicator whose calls were not all queued, except that nothing is queued and nothing ended if
 * the ranks of a communicator cannot be connected, which all of them find. */
coll_status_t offload_queue(const run_call_t calls[], const offload_stream_t streams[],
                            size_t count);

/* Waits for those of the calls that are on their communicator's own stream, also after a failure of
 * offload_queue. Of the calls, only their communicators are read. */
coll_status_t offload_complete(const run_call_t calls[], const offload_stream_t streams[],
                               size_t count);

/* Whether the ranks of the communicator are connected on GPUs. */
bool offload_is_connected(struct coll_comm *comm);

/* Connects ranks of one communicator, or the only one of this thread, which have all connected on
 * the host, with the GPU of each. Every rank of the communicator does so, and waits for the others
 * at most timeout_ns. COLL_OK also if they cannot be connected: calls on GPUs then return why.
 * Other failures have ended the communicator. */
coll_status_t offload_connect_created(struct coll_comm *const comms[], const int devices[],
                                      size_t count, uint64_t timeout_ns);

/* The GPU of this rank; CUDA_NO_DEVICE: it has none yet. */
int offload_device(const struct coll_comm *comm);

/* The algorithm of the communicator's latest call of the collective, on the host or on GPUs; NULL:
 * none. The caller holds the lock. */
const algo_t *offload_algo_used(struct coll_comm *comm, coll_collective_t collective);

/* For a communicator that is destroyed or finalized; the caller holds its lock: waits until the
 * kernels of this rank have ended. */
coll_status_t offload_finish(struct coll_comm *comm);

/* COLL_IN_PROGRESS while a call of this rank is queued or runs on its GPU, graphs included, or
 * while another thread makes a call. Waits for no lock, and asks the driver only after captures, as
 * an abort may depend on the answer: only that may end what the driver waits for. */
coll_status_t offload_query(struct coll_comm *comm);

/* Frees what the communicator has on its GPU. */
void offload_free(struct coll_comm *comm);

#endif

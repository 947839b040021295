/*
 * coll_gpu.h: the part of coll.h for GPUs.
 *
 * The collectives, sends and receives of coll.h take memory of NVIDIA GPUs too: device memory,
 * pinned and managed memory. A rank of a communicator has one GPU: that of the CUDA context that is
 * current in the thread that calls coll_comm_create, coll_comm_create_env or coll_comm_split, where
 * a split takes the GPU of the communicator that is split if that has one.
 * - If all ranks have a GPU then, they are connected when the communicator is made, and calls on
 *   GPUs wait for no other rank on the host. If they cannot be connected, the communicator works on
 *   the host, and calls on GPUs return why.
 * - Else a rank's GPU is that of its first call on one, which connects the ranks and so waits until
 *   all of them have made it.
 * - On a stream of coll_stream_from_cuda a call is queued behind the work of that CUDA stream, and
 *   returns. A communicator's calls run in the order in which they were made, also if they are on
 *   different streams.
 * - Without a stream, a call whose buffers are device memory is complete when it returns. What was
 *   queued on CUDA streams before must be complete.
 * - NVIDIA's driver must be in the process, which the first CUDA call sees to, before the
 *   communicator is made, for a call without a stream to recognise device memory.
 * - Device memory on a host stream, plain memory on a CUDA stream, and memory of a GPU that the
 *   rank's GPU cannot access are COLL_ERROR_INVALID.
 * - Ranks that share a GPU need a stream each; the legacy default stream is one stream of all.
 * - A captured call takes its place in the order when its graph is launched. A graph must not be
 *   launched when the communicator has been destroyed.
 * - If ranks share no memory, as those of several hosts, or a rank's GPU cannot access the memory
 *   of another's (nvidia-smi topo -p2p r), all calls of the communicator are staged through pinned
 *   memory, where a thread carries them out on the host. All of this holds then too.
 * - Destruction may wait for all work on the GPU.
 * A call that fails on the GPU, because a rank has died or aborted, does not block its stream:
 * coll_comm_error then returns the failure.
 */
#ifndef COLL_GPU_H
#define COLL_GPU_H

#include <coll.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coll_window *coll_window_t;

/* Makes a stream of a CUDA stream (a cudaStream_t or CUstream; NULL: the legacy default stream) of
 * the GPU whose context is current in the calling thread. coll_stream_destroy frees it, and leaves
 * the CUDA stream, which must exist until then, as it is. coll_stream_sync waits for all work on
 * the CUDA stream, and coll_stream_query asks for it. COLL_ERROR_UNSUPPORTED: there is no NVIDIA
 * driver or no GPU, or the stream is of a green context. COLL_ERROR_INVALID: the thread has no
 * current context, it is not the GPU's primary one, or the stream is of another. */
COLL_API coll_status_t coll_stream_from_cuda(void *cuda_stream, coll_stream_t *stream);

/* Makes [ptr, ptr + bytes) of each rank a window: memory that all can access in calls on CUDA
 * streams. Collective, and not in a group. Memory of GPUs (coll_mem_alloc, cuMemCreate,
 * cudaMalloc) is mapped at once by the ranks of this host; that of the host is registered. A buffer
 * in a window on one rank must be in it, at the same offset, on all; in place, where it is a block
 * of another buffer, that buffer must be. Calls then access each other's buffers directly, where
 * that is faster. A call whose buffers are elsewhere on a rank fails with COLL_ERROR_MISMATCH,
 * unless its plan does not depend on it; so may one that some ranks make in place, and others not.
 * Where calls are staged through the host, or a rank's GPU cannot access the memory of another's,
 * nothing is mapped, and the window changes nothing. A failure is one of all ranks:
 * COLL_ERROR_UNSUPPORTED if the memory of a rank cannot be shared, COLL_ERROR_INVALID if it is that
 * of a GPU on one and of the host on another. */
COLL_API coll_status_t coll_window_create(coll_comm_t comm, void *ptr, size_t bytes,
                                          coll_window_t *window);
/* Not collective; before the communicator's destruction, which destroys those left. The memory must
 * stay allocated until all ranks have destroyed the window. */
COLL_API coll_status_t coll_window_destroy(coll_window_t window);

/* COLL_IN_PROGRESS while a call of this rank is queued or runs on its GPU, or another thread makes
 * a call. Of graphs, those that run. Any thread; waits for nothing. */
COLL_API coll_status_t coll_comm_gpu_query(coll_comm_t comm);

/* As coll_comm_create_local, with rank i on GPU devices[i]; GPUs may be the same. All ranks are
 * connected, if they can be, when it returns. COLL_ERROR_INVALID: there is no such GPU; NVIDIA's
 * driver is loaded to find that out. If it fails, there are no communicators. */
COLL_API coll_status_t coll_comm_create_local_gpus(int size, const int devices[],
                                                   const coll_comm_config_t *config,
                                                   coll_comm_t comms[]);

#ifdef __cplusplus
}
#endif

#endif

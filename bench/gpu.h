/*
 * A rank's GPU: memory, copies between it and the host, a CUDA stream and captured graphs. NVIDIA's
 * driver is opened at run time, by a table of its own, so that the programs that measure other
 * libraries can use this file too. A GPU is used by the thread that opened it.
 */
#ifndef BENCH_GPU_H
#define BENCH_GPU_H

#include <coll.h>

#include <stdbool.h>
#include <stddef.h>

typedef struct bench_gpu {
  int device;
  void *context;          /* the primary context */
  void *stream;           /* a CUstream, which waits for no other stream */
  unsigned char *staging; /* host memory that the GPU reads and writes fast */
  size_t staging_bytes;
} bench_gpu_t;

typedef struct bench_graph {
  void *graph, *executable;
} bench_graph_t;

/* COLL_ERROR_UNSUPPORTED: no driver, or no GPU. */
coll_status_t bench_gpu_count(int *count);

/* Opens GPU `index` modulo the number of GPUs, and makes its primary context current in this
 * thread. Close it after success. */
coll_status_t bench_gpu_open(int index, bench_gpu_t *gpu);
void bench_gpu_close(bench_gpu_t *gpu); /* also an all-zero one */

/* Makes its context current in this thread, in which several are open. */
coll_status_t bench_gpu_select(const bench_gpu_t *gpu);

/* Lets the selected GPU access the memory of another one directly. False: it cannot; copies then go
 * through the host. */
bool bench_gpu_reach(const bench_gpu_t *other);

/* The name of the GPU, such as "NVIDIA H100 80GB HBM3". */
coll_status_t bench_gpu_name(const bench_gpu_t *gpu, char *name, int bytes);

/* Makes gpu->staging at least that large. */
coll_status_t bench_gpu_stage(bench_gpu_t *gpu, size_t bytes);

/* Device memory, aligned to 256 bytes. Both functions may wait until no kernel runs on the GPU, so
 * no other rank's kernel may be waiting for this rank. */
coll_status_t bench_gpu_alloc(size_t bytes, void **memory);
void bench_gpu_free(void *memory);

/* Copies the first `bytes` of the staging memory to `to`, from `from`, or within the GPU, or fills
 * `to` with zeros. All wait for the stream. */
coll_status_t bench_gpu_upload(const bench_gpu_t *gpu, void *to, size_t bytes);
coll_status_t bench_gpu_download(const bench_gpu_t *gpu, const void *from, size_t bytes);
coll_status_t bench_gpu_copy(const bench_gpu_t *gpu, void *to, const void *from, size_t bytes);

/* Queues a copy within the GPU, or between two of the process. */
coll_status_t bench_gpu_queue_copy(const bench_gpu_t *gpu, void *to, const void *from,
                                   size_t bytes);

coll_status_t bench_gpu_sync(const bench_gpu_t *gpu); /* waits for the stream */

/* libcoll's stream of the GPU's. coll_stream_destroy() it. */
coll_status_t bench_gpu_stream(const bench_gpu_t *gpu, coll_stream_t *stream);

/* What this thread queues on the stream from here on becomes the graph. Free it after success. */
coll_status_t bench_gpu_capture(const bench_gpu_t *gpu);
coll_status_t bench_gpu_end_capture(const bench_gpu_t *gpu, bench_graph_t *graph);
/* Leaves a capture after a failure. */
void bench_gpu_drop_capture(const bench_gpu_t *gpu);
coll_status_t bench_gpu_launch(const bench_gpu_t *gpu, const bench_graph_t *graph);
void bench_gpu_free_graph(bench_graph_t *graph);

#endif

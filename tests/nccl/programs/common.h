/*
 * What these programs share: arguments, ranks as processes, how a rank gets the id, memory, and
 * elements whose sums are exact. Each program is written after the calls of one that is named in
 * its first lines, and includes nothing else but NVIDIA's headers. Usage: PROGRAM [GPUS] [--host]
 * [--two-hosts].
 * GPUS defaults to COLL_STANDIN_GPUS, or 2. With --host, buffers are memory of the host and all
 * streams are NULL. With --two-hosts, each half of the ranks that are processes is on a host of its
 * own. A program exits with 1, and a sentence, if an element is wrong or a call fails.
 */
#ifndef TESTS_NCCL_PROGRAMS_COMMON_H
#define TESTS_NCCL_PROGRAMS_COMMON_H

#include <cuda_runtime.h>
#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM_GPUS_MAX 8

/* Ends the process with a sentence. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#define CUDA(call)                                                                      \
  do {                                                                                  \
    cudaError_t cuda_error = (call);                                                    \
    if (cuda_error != cudaSuccess) {                                                    \
      fail("%s:%d: %s: %s", __FILE__, __LINE__, #call, cudaGetErrorString(cuda_error)); \
    }                                                                                   \
  } while (0)

#define NCCL(call)                                                                           \
  do {                                                                                       \
    ncclResult_t nccl_result = (call);                                                       \
    if (nccl_result != ncclSuccess) {                                                        \
      fail("%s:%d: %s: %s (%s)", __FILE__, __LINE__, #call, ncclGetErrorString(nccl_result), \
           ncclGetLastError(NULL));                                                          \
    }                                                                                        \
  } while (0)

#define REQUIRE(condition, ...)          \
  do {                                   \
    if (!(condition)) fail(__VA_ARGS__); \
  } while (0)

/* Reads the arguments; returns the number of GPUs. Makes no call of CUDA, so ranks may be forked.
 */
int program_start(int argc, char **argv);
bool program_on_host(void);

/* Runs each rank as a process that this one forks, with the path of a file for the id. Returns the
 * exit code of the program: 1 if a rank fails. */
int program_run_ranks(int size, void (*rank)(int rank, int size, const char *path));

/* Rank 0 makes the id and writes it to the file; the others read it from there. */
ncclUniqueId program_exchange_id(int rank, const char *path);

/* Makes the GPU the thread's; with --host there is none. */
void program_use_gpu(int gpu);

/* Memory of the thread's GPU, zeros, and a stream. */
void *memory_new(size_t bytes);
void memory_free(void *memory);
cudaStream_t stream_new(void);
void stream_free(cudaStream_t stream);
void stream_wait(cudaStream_t stream);

/* Copies between the program's memory and a GPU's. upload is queued on the stream and needs not be
 * waited for; download has waited for the stream when it returns. */
void upload(void *memory, const void *host, size_t bytes, cudaStream_t stream);
void download(void *host, const void *memory, size_t bytes, cudaStream_t stream);

/* Element i of a rank's contribution: (rank + 1) * (i % 7 + 1). */
void fill(float *memory, size_t count, size_t first, int rank, cudaStream_t stream);

/* Element i of the memory must be factor * ((first + i) % 7 + 1). */
void expect(const float *memory, size_t count, size_t first, double factor, cudaStream_t stream,
            const char *what);

/* The sum of factors rank + 1 over all ranks. */
static inline double sum_of_ranks(int size) {
  return size * (size + 1) / 2.0;
}

#endif

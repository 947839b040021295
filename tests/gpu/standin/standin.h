/*
 * A stand-in for NVIDIA's driver: a libcuda.so.1 with up to 8 virtual GPUs, for tests on machines
 * without one. Memory of a device is a memfd, streams are threads. It is stricter than the driver:
 * what NVIDIA leaves undefined (a handle used after it was destroyed, memory unmapped under a
 * queued copy) it reports as misuse. Besides the driver's functions it exports those of this
 * header, which tests find with dlsym, or link with it for.
 *
 * The environment, read by cuInit and cuDriverGetVersion:
 *   COLL_STANDIN_GPUS      number of GPUs (default 2, at most 8)
 *   COLL_STANDIN_VERSION   CUDA version (default 13000)
 *   COLL_STANDIN_MISSING   a function that cuGetProcAddress does not find
 *   COLL_STANDIN_PEERS     0: no GPU can access the memory of another; "0-1,2-3": these pairs
 * cannot COLL_STANDIN_NVLINK    0: they access it over PCIe, without native atomics
 *   COLL_STANDIN_BYTES     memory of each GPU (default 16 GiB, used where it is written)
 *   COLL_STANDIN_NO_VMM    1: the devices have no virtual memory management
 *   COLL_STANDIN_DOMAINS   domains of memory synchronization of each GPU (default 4)
 *   COLL_STANDIN_MPS       1: the devices say that processes share them by MPS
 *   COLL_STANDIN_DELAY_US  delays each operation of a stream by up to that, drawn at random
 *   COLL_STANDIN_SEED      of these delays (default 1)
 *   COLL_STANDIN_QUEUE     launches that a stream holds; a further one blocks (default 1024)
 *   COLL_STANDIN_TAKEN     1: the GPUs are in exclusive mode, and another process has them
 *   COLL_STANDIN_LOADED    what cuModuleLoadData returns, 209 if modules have no code for the GPUs
 *   COLL_STANDIN_STRICT    1: a process that leaves objects, or misused one, exits with 86
 *   CUDA_VISIBLE_DEVICES   numbers of the GPUs that this process sees, "2,0"; default: all
 */
#ifndef TESTS_GPU_STANDIN_H
#define TESTS_GPU_STANDIN_H

#include <stdbool.h>
#include <stddef.h>

#define STANDIN_GPUS_MAX 8
#define STANDIN_MULTIPROCESSORS 16 /* of each GPU */
#define STANDIN_MULTIPROCESSOR_THREADS 2048
#define STANDIN_GRANULARITY ((size_t)2 << 20)
#define STANDIN_ARGUMENTS_MAX 16
#define STANDIN_STRICT_EXIT 86

/* One launch, which a kernel's host function carries out as a whole, in its stream's thread. */
typedef struct standin_launch {
  const char *name; /* of the kernel */
  unsigned grid[3], block[3], shared_bytes;
  int device;
  void **arguments; /* copies, made at the launch */
} standin_launch_t;

typedef void (*standin_kernel_t)(const standin_launch_t *launch);

/* Makes cuModuleGetFunction find `name` in every module. argument_bytes[i] is the size of argument
 * i. The names of a process are at most 128; false: there are more. */
#define STANDIN_API __attribute__((visibility("default")))
STANDIN_API int standin_kernel_register(const char *name, standin_kernel_t kernel,
                                        int argument_count, const size_t argument_bytes[]);

/* How many kernels were launched so far, or captured, in the default domain of memory
 * synchronization or in another one. */
STANDIN_API int standin_launches(bool in_default_domain);

/* How many calls have queued several copies, or values, at once. */
STANDIN_API int standin_batches(bool copies);

/* How many objects exist: allocations, reservations, mappings, streams, events, modules and
 * retained contexts. Writes "2 streams, 1 mapping" to text. At exit the stand-in prints the same to
 * stderr if there are any. */
STANDIN_API int standin_leaks(char *text, size_t bytes);

/* A green context of the GPU, whose primary context is retained: some of its multiprocessors. */
STANDIN_API struct CUgreenCtx_st *standin_green(int device);

/* Makes the context of the GPU fail, as after an Xid: nothing more is carried out in it, and its
 * functions return CUDA_ERROR_ILLEGAL_ADDRESS. */
STANDIN_API void standin_lose(int device);

/* Makes the next cuEventQuery for an event of the GPU block, as where the driver is busy for
 * another thread, until standin_release. */
STANDIN_API void standin_hold(int device);
STANDIN_API bool standin_holds(void); /* one is blocked */
STANDIN_API void standin_release(void);

/* Whether a stream has work. */
STANDIN_API bool standin_busy(void);

/* How often the process did what the driver leaves undefined; each was printed to stderr. */
STANDIN_API int standin_misuses(void);

#endif

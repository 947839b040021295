/* Polls of a flag yield, as there are more blocks than cores. */
#include "gpu/virtual.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "base/clock.h"
#include "verify/random.h"

#define STACK_BYTES ((size_t)256 << 10)

#define THREADS_MAX 3 /* of a block */

typedef struct block {
  virtual_device_t *device;
  const gpu_call_t *call;
  pthread_barrier_t barrier;
  uint32_t all;
  _Alignas(GPU_LINE) char shared[GPU_VIRTUAL_SHARED];
} block_t;

typedef struct launched {
  block_t *block;
  gpu_virtual_thread_t virtual;
  pthread_t thread;
} launched_t;

void virtual_device_init(virtual_device_t *device, uint32_t capacity) {
  if (sem_init(&device->resident, 0, capacity) != 0) abort();
}

void virtual_device_destroy(virtual_device_t *device) {
  sem_destroy(&device->resident);
}

/* Mostly none, sometimes a time slice, rarely more. */
static void delay(gpu_virtual_thread_t *thread, bool is_poll) {
  uint64_t random = random_next(&thread->random) % 1024;
  if (is_poll || random < 64) sched_yield();
  if (!is_poll && random == 1023) base_clock_sleep_ns(200000);
}

/* The block is resident from the start of its first thread to the end of all. */
static void *run_thread(void *argument) {
  launched_t *launched = argument;
  block_t *block = launched->block;
  gpu_virtual = launched->virtual;
  if (gpu_thread() == 0) sem_wait(&block->device->resident);
  gpu_barrier();
  gpu_run_kernel(*block->call);
  gpu_barrier();
  if (gpu_thread() == 0) sem_post(&block->device->resident);
  return NULL;
}

static void prepare(launched_t *launched, block_t *block, uint32_t index, uint32_t blocks,
                    uint32_t threads, uint64_t seed) {
  for (uint32_t i = 0; i < threads; i++) {
    launched[i].block = block;
    launched[i].virtual = (gpu_virtual_thread_t){.block = index,
                                                 .blocks = blocks,
                                                 .thread = i,
                                                 .threads = threads,
                                                 .shared = block->shared,
                                                 .barrier = &block->barrier,
                                                 .all = &block->all,
                                                 .random = random_mix(seed + index * threads + i),
                                                 .delay = delay};
  }
}

static void shuffle(launched_t launched[], uint32_t count, uint64_t *random) {
  for (uint32_t i = count; i > 1; i--) {
    uint32_t other = (uint32_t)random_below(random, (int32_t)i);
    launched_t kept = launched[i - 1];
    launched[i - 1] = launched[other];
    launched[other] = kept;
  }
}

static void run_all(launched_t launched[], uint32_t count) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) abort();
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  for (uint32_t i = 0; i < count; i++) {
    if (pthread_create(&launched[i].thread, &attributes, run_thread, &launched[i]) != 0) abort();
  }
  for (uint32_t i = 0; i < count; i++) pthread_join(launched[i].thread, NULL);
  pthread_attr_destroy(&attributes);
}

/* Every second launch has several threads per block. */
void virtual_launch(virtual_device_t *device, const gpu_call_t *call, uint32_t blocks,
                    uint64_t seed) {
  uint64_t random = random_mix(seed);
  uint32_t threads = random % 2 == 0 ? 1 : 2 + (uint32_t)(random / 2 % (THREADS_MAX - 1));
  launched_t *launched = calloc(blocks * threads, sizeof *launched);
  block_t *all = aligned_alloc(GPU_LINE, blocks * sizeof *all);
  if (launched == NULL || all == NULL) abort();
  for (uint32_t i = 0; i < blocks; i++) {
    all[i] = (block_t){.device = device, .call = call, .all = 1};
    pthread_barrier_init(&all[i].barrier, NULL, threads);
    prepare(&launched[i * threads], &all[i], i, blocks, threads, seed);
  }
  shuffle(launched, blocks * threads, &random);
  run_all(launched, blocks * threads);
  for (uint32_t i = 0; i < blocks; i++) pthread_barrier_destroy(&all[i].barrier);
  free(all);
  free(launched);
}

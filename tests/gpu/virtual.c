/* A thread per block. Polls of a flag yield, as there are more blocks than cores. */
#include "gpu/virtual.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "base/clock.h"
#include "verify/random.h"

#define STACK_BYTES ((size_t)256 << 10)

typedef struct launched {
  virtual_device_t *device;
  const gpu_call_t *call;
  gpu_virtual_block_t block;
  pthread_t thread;
} launched_t;

void virtual_device_init(virtual_device_t *device, uint32_t capacity) {
  if (sem_init(&device->resident, 0, capacity) != 0) abort();
}

void virtual_device_destroy(virtual_device_t *device) {
  sem_destroy(&device->resident);
}

/* Mostly none, sometimes a time slice, rarely more. */
static void delay(gpu_virtual_block_t *block, bool is_poll) {
  uint64_t random = random_next(&block->random) % 1024;
  if (is_poll || random < 64) sched_yield();
  if (!is_poll && random == 1023) base_clock_sleep_ns(200000);
}

static void *run_block(void *argument) {
  launched_t *launched = argument;
  gpu_virtual = launched->block;
  sem_wait(&launched->device->resident);
  gpu_run_kernel(*launched->call);
  sem_post(&launched->device->resident);
  return NULL;
}

static void shuffle(launched_t launched[], uint32_t blocks, uint64_t *random) {
  for (uint32_t i = blocks; i > 1; i--) {
    uint32_t other = (uint32_t)random_below(random, (int32_t)i);
    launched_t kept = launched[i - 1];
    launched[i - 1] = launched[other];
    launched[other] = kept;
  }
}

void virtual_launch(virtual_device_t *device, const gpu_call_t *call, uint32_t blocks,
                    uint64_t seed) {
  launched_t *launched = calloc(blocks, sizeof *launched);
  pthread_attr_t attributes;
  if (launched == NULL || pthread_attr_init(&attributes) != 0) abort();
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  for (uint32_t i = 0; i < blocks; i++) {
    launched[i] = (launched_t){.device = device, .call = call};
    launched[i].block = (gpu_virtual_block_t){
        .block = i, .blocks = blocks, .random = random_mix(seed + i), .delay = delay};
  }
  shuffle(launched, blocks, &seed);
  for (uint32_t i = 0; i < blocks; i++) {
    if (pthread_create(&launched[i].thread, &attributes, run_block, &launched[i]) != 0) abort();
  }
  for (uint32_t i = 0; i < blocks; i++) pthread_join(launched[i].thread, NULL);
  pthread_attr_destroy(&attributes);
  free(launched);
}

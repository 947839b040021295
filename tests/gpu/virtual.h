/*
 * The virtual GPU: runs a launch in threads of this process, one to three per block. They start in
 * a random order, and are delayed at random where other blocks may see the difference.
 */
#ifndef TESTS_GPU_VIRTUAL_H
#define TESTS_GPU_VIRTUAL_H

#include <semaphore.h>

#include "device/cuda/call.h"

/* A device. Blocks that are beyond its capacity start when others end. */
typedef struct virtual_device {
  sem_t resident; /* blocks that may still start */
} virtual_device_t;

void virtual_device_init(virtual_device_t *device, uint32_t capacity);
void virtual_device_destroy(virtual_device_t *device);

/* Runs a launch to its end, as a stream does. */
void virtual_launch(virtual_device_t *device, const gpu_call_t *call, uint32_t blocks,
                    uint64_t seed);

#endif

/*
 * The blocks that the communicators of this process keep resident on each GPU. Blocks that wait for
 * each other must all be on the device, and kernels of several communicators may run at once, in
 * another order on every GPU. So each communicator claims its part of a GPU when it connects, and
 * keeps to it: all claims of a GPU together never exceed what is resident. Thread-safe.
 */
#ifndef DEVICE_CUDA_RESIDENT_H
#define DEVICE_CUDA_RESIDENT_H

#include "device/cuda/driver.h"

typedef struct cuda_resident_ask {
  const cuda_uuid_t *gpu;
  int device;        /* the same GPU, as this process counts it */
  uint64_t owner;    /* the same for the ranks of one communicator on the GPU, and for no others */
  uint32_t resident; /* blocks that the GPU keeps resident, and */
  uint32_t each;     /* of these on one multiprocessor */
  uint32_t ranks;    /* of the communicator on the GPU */
  uint32_t plans;    /* blocks of a rank with which it can run every plan, */
  uint32_t groups;   /* and every group of sends and receives */
  uint32_t most;     /* of which it has use */
  uint32_t wanted;   /* set by the user; 0: not */
} cuda_resident_ask_t;

typedef struct cuda_resident_claim cuda_resident_claim_t;

/* Claims blocks for all ranks of the communicator on the GPU; each of them calls it, and all get
 * the claim of the first. *blocks: of each rank, at least 1. COLL_ERROR_UNSUPPORTED: there are too
 * few left, and who could release some. */
coll_status_t cuda_resident_take(const cuda_resident_ask_t *ask, cuda_resident_claim_t **claim,
                                 uint32_t *blocks);

/* Returns what is beyond `blocks` of each rank. */
void cuda_resident_trim(cuda_resident_claim_t *claim, uint32_t blocks);

/* One of the ranks needs it no more; the last of them returns it. NULL: does nothing. */
void cuda_resident_release(cuda_resident_claim_t *claim);

/* Blocks that are claimed on the GPU, for tests. */
uint32_t cuda_resident_claimed(const cuda_uuid_t *gpu);

#endif

/*
 * Ranks on several hosts: processes with host identities of their own, each on the stand-in's GPUs.
 */
#ifndef TESTS_GPU_HOSTS_H
#define TESTS_GPU_HOSTS_H

#include "device/cuda/driver.h"
#include "harness/party.h"

#define HOSTS_GPUS 2

typedef struct hosts_setup hosts_setup_t;

/* A rank with its GPU's context, two streams of it, and its communicator. */
typedef struct hosts_side {
  const cuda_driver_t *driver;
  int device;
  cuda_stream_t cuda[2];
  coll_stream_t streams[2];
  party_rank_t self; /* a body that destroys the communicator sets it to NULL */
} hosts_side_t;

typedef int (*hosts_body_t)(hosts_side_t *side);

struct hosts_setup {
  int hosts; /* rank r's: r * hosts / size */
  bool late; /* a rank has no context when the communicator is created */
  hosts_body_t body;
};

/* The environment of the stand-in; before anything of CUDA. */
void hosts_begin(void);

/* Runs the body on every rank, as harness_run. */
bool hosts_run(int size, const hosts_setup_t *setup, harness_result_t *result);

#define HOSTS_RUN(ranks, ...)                                                       \
  do {                                                                              \
    const hosts_setup_t hosts_setup = __VA_ARGS__;                                  \
    harness_result_t hosts_result;                                                  \
    cr_assert(hosts_run(ranks, &hosts_setup, &hosts_result), "%d ranks: %s", ranks, \
              hosts_result.text);                                                   \
  } while (0)

/* Device memory of the rank's GPU, which the host of the stand-in can access. */
int hosts_alloc(const hosts_side_t *side, size_t bytes, void **memory);

#endif

/*
 * Ranks whose calls on GPUs are staged through the host: processes with host identities of their
 * own, each on the stand-in's GPUs, or ranks of one host whose GPUs cannot access each other.
 */
#ifndef TESTS_GPU_HOSTS_H
#define TESTS_GPU_HOSTS_H

#include "device/cuda/driver.h"
#include "harness/party.h"

typedef struct hosts_setup hosts_setup_t;

/* A rank with its GPU's context, two streams of it, and its communicator. */
typedef struct hosts_side {
  const cuda_driver_t *driver;
  int device, gpus;
  cuda_stream_t cuda[2];
  coll_stream_t streams[2];
  party_rank_t self; /* a body that destroys the communicator sets it to NULL */
} hosts_side_t;

typedef int (*hosts_body_t)(hosts_side_t *side);

struct hosts_setup {
  int hosts;         /* rank r's: r * hosts / size */
  int gpus;          /* of each host, rank r's: r % gpus; 0: 2 */
  const char *apart; /* COLL_STANDIN_PEERS; NULL: all can access each other */
  bool threads;      /* ranks are threads, of one host; behind all that are processes. Not under
                        ThreadSanitizer */
  bool late;         /* a rank has no context when the communicator is created */
  hosts_body_t body;
};

/* The environment of the stand-in; before anything of CUDA. */
void hosts_begin(int gpus, const char *apart);

/* The life of a side whose device, gpus, rank and size are set. */
int hosts_open(hosts_side_t *side);
int hosts_close(hosts_side_t *side);

/* Runs the body on every rank, as harness_run. */
bool hosts_run(int size, const hosts_setup_t *setup, harness_result_t *result);

#define HOSTS_RUN(ranks, ...)                                                       \
  do {                                                                              \
    const hosts_setup_t hosts_setup = __VA_ARGS__;                                  \
    harness_result_t hosts_result;                                                  \
    cr_assert(hosts_run(ranks, &hosts_setup, &hosts_result), "%d ranks: %s", ranks, \
              hosts_result.text);                                                   \
  } while (0)

/* Whether calls on the GPUs of the communicator, which is connected, are staged. */
bool hosts_is_staged(coll_comm_t comm);

/* Device memory of the rank's GPU, which the host of the stand-in can access. */
int hosts_alloc(const hosts_side_t *side, size_t bytes, void **memory);

#endif

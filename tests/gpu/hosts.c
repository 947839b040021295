/* The life of a rank. */
#include "gpu/hosts.h"

#include <stdio.h>
#include <stdlib.h>

#include "gpu/gpu.h"

extern const int64_t coll_cuda_image[]; /* of the stand-in's kernel, which is then linked */

void hosts_begin(void) {
  cr_assert(coll_cuda_image[0] != 0);
  gpu_setting("COLL_STANDIN_GPUS", "2");
  gpu_setting("COLL_STANDIN_DELAY_US", "50");
  gpu_setting("COLL_STANDIN_STRICT", "1");
}

static int enter(hosts_side_t *side) {
  PARTY_OK(cuda_driver_load(&side->driver));
  PARTY_OK(cuda_context_enter(side->driver, side->device));
  for (int i = 0; i < 2; i++) {
    PARTY_REQUIRE(side->driver->cuStreamCreateWithPriority(&side->cuda[i], CUDA_STREAM_NON_BLOCKING,
                                                           0) == CUDA_RESULT_OK,
                  "no stream");
    PARTY_OK(coll_stream_from_cuda(side->cuda[i], &side->streams[i]));
  }
  return 0;
}

static int open_side(int rank, int size, const hosts_setup_t *setup, hosts_side_t *side) {
  coll_unique_id_t *id = harness_board();
  char host[16];
  *side = (hosts_side_t){.device = rank % HOSTS_GPUS, .self = {.rank = rank, .size = size}};
  snprintf(host, sizeof host, "host%d", rank * setup->hosts / size);
  setenv("COLL_HOST_ID", host, 1);
  if (!setup->late) PARTY_TRY(enter(side));
  if (rank == 0) PARTY_OK(coll_unique_id_create(NULL, id));
  harness_barrier();
  PARTY_OK(coll_comm_create(id, rank, size, NULL, &side->self.comm));
  return setup->late ? enter(side) : 0;
}

static int close_side(hosts_side_t *side) {
  if (side->self.comm != NULL) PARTY_OK(coll_comm_destroy(side->self.comm));
  for (int i = 0; i < 2; i++) {
    PARTY_OK(coll_stream_destroy(side->streams[i]));
    PARTY_REQUIRE(side->driver->cuStreamDestroy(side->cuda[i]) == CUDA_RESULT_OK,
                  "a stream cannot be destroyed");
  }
  cuda_context_leave(side->driver, side->device);
  return 0;
}

static int run_rank(int rank, int size, void *context) {
  const hosts_setup_t *setup = context;
  hosts_side_t side;
  PARTY_TRY(open_side(rank, size, setup, &side));
  PARTY_TRY(setup->body(&side));
  return close_side(&side);
}

bool hosts_run(int size, const hosts_setup_t *setup, harness_result_t *result) {
  hosts_setup_t copy = *setup;
  hosts_begin();
  return harness_run(size, 60000, run_rank, &copy, result);
}

int hosts_alloc(const hosts_side_t *side, size_t bytes, void **memory) {
  PARTY_OK(coll_mem_alloc(side->device, bytes, memory));
  return 0;
}

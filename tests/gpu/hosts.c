/* The life of a rank. */
#include "gpu/hosts.h"

#include <stdio.h>
#include <stdlib.h>

#include "gpu/gpu.h"
#include "offload/state.h"

extern const int64_t coll_cuda_image[]; /* of the stand-in's kernel, which is then linked */

void hosts_begin(int gpus, const char *apart) {
  char text[8];
  cr_assert(coll_cuda_image[0] != 0);
  snprintf(text, sizeof text, "%d", gpus);
  gpu_setting("COLL_STANDIN_GPUS", text);
  gpu_setting("COLL_STANDIN_PEERS", apart != NULL ? apart : "1");
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

static int create(hosts_side_t *side) {
  coll_unique_id_t *id = harness_board();
  const party_rank_t *self = &side->self;
  if (self->rank == 0) PARTY_OK(coll_unique_id_create(NULL, id));
  harness_barrier();
  PARTY_OK(coll_comm_create(id, self->rank, self->size, NULL, &side->self.comm));
  return 0;
}

int hosts_open(hosts_side_t *side) {
  PARTY_TRY(enter(side));
  return create(side);
}

int hosts_close(hosts_side_t *side) {
  if (side->self.comm != NULL) PARTY_OK(coll_comm_destroy(side->self.comm));
  for (int i = 0; i < 2; i++) {
    PARTY_OK(coll_stream_destroy(side->streams[i]));
    PARTY_REQUIRE(side->driver->cuStreamDestroy(side->cuda[i]) == CUDA_RESULT_OK,
                  "a stream cannot be destroyed");
  }
  cuda_context_leave(side->driver, side->device);
  return 0;
}

static int open_late(hosts_side_t *side) {
  PARTY_TRY(create(side));
  return enter(side);
}

static int run_rank(int rank, int size, void *context) {
  const hosts_setup_t *setup = context;
  char host[16];
  hosts_side_t side = {
      .device = rank % setup->gpus, .gpus = setup->gpus, .self = {.rank = rank, .size = size}};
  if (setup->hosts > 1) {
    snprintf(host, sizeof host, "host%d", rank * setup->hosts / size);
    setenv("COLL_HOST_ID", host, 1);
  }
  PARTY_TRY(setup->late ? open_late(&side) : hosts_open(&side));
  PARTY_TRY(setup->body(&side));
  return hosts_close(&side);
}

bool hosts_run(int size, const hosts_setup_t *setup, harness_result_t *result) {
  hosts_setup_t copy = *setup;
  if (copy.gpus == 0) copy.gpus = 2;
  hosts_begin(copy.gpus, copy.apart);
  /* Threads that join by an id wait for each other in memory that each has mapped at an address of
   * its own, where ThreadSanitizer sees no order, and read each other's buffers. */
  if (copy.threads && HARNESS_BUILD == HARNESS_THREAD) return true;
  if (copy.threads) return harness_run_threads(size, 60000, run_rank, &copy, result);
  return harness_run(size, 60000, run_rank, &copy, result);
}

bool hosts_is_staged(coll_comm_t comm) {
  return offload_is_connected(comm) && offload_of(comm)->proxy != NULL;
}

int hosts_alloc(const hosts_side_t *side, size_t bytes, void **memory) {
  PARTY_OK(coll_mem_alloc(side->device, bytes, memory));
  return 0;
}

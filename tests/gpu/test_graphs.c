/*
 * Captured calls of communicators on GPUs, among other calls on other streams.
 */
#include "gpu/gpu.h"
#include "gpu/graphs.h"

#define GPUS 2

TestSuite(gpu_graphs, .timeout = 120 * HARNESS_BUILD_PATIENCE);

typedef int (*scene_body_t)(const graphs_side_t *side);

static int play(party_rank_t *self) {
  const scene_body_t *body = self->context;
  graphs_side_t side = {.device = self->rank % GPUS, .size = self->size};
  PARTY_OK(cuda_driver_load(&side.driver));
  PARTY_OK(cuda_context_enter(side.driver, side.device));
  PARTY_OK(coll_comm_split(self->comm, 0, self->rank, NULL, &side.comm));
  for (int i = 0; i < 2; i++) {
    PARTY_REQUIRE(side.driver->cuStreamCreateWithPriority(&side.cuda[i], CUDA_STREAM_NON_BLOCKING,
                                                          0) == CUDA_RESULT_OK,
                  "no stream");
    PARTY_OK(coll_stream_from_cuda(side.cuda[i], &side.streams[i]));
  }
  PARTY_TRY((*body)(&side));
  PARTY_OK(coll_comm_destroy(side.comm));
  for (int i = 0; i < 2; i++) {
    PARTY_OK(coll_stream_destroy(side.streams[i]));
    PARTY_REQUIRE(side.driver->cuStreamDestroy(side.cuda[i]) == CUDA_RESULT_OK, "it is busy");
  }
  cuda_context_leave(side.driver, side.device);
  return 0;
}

static void run(scene_body_t body) {
  harness_result_t result;
  gpu_setting("COLL_STANDIN_GPUS", "2");
  gpu_setting("COLL_STANDIN_DELAY_US", "50");
  for (int size = 1; size <= 3; size++) {
    cr_assert(party_threads(size, 60000, play, &body, &result), "%d ranks: %s", size, result.text);
  }
  gpu_expect_clean();
}

Test(gpu_graphs, wait_for_calls_and_graphs_before_them) {
  run(graphs_in_order);
}

Test(gpu_graphs, in_turn_with_calls) {
  run(graphs_in_turn);
}

Test(gpu_graphs, captured_at_once) {
  run(graphs_captured_at_once);
}

Test(gpu_graphs, of_two_streams) {
  run(graphs_of_two_streams);
}

/*
 * Several communicators on a GPU: their kernels run at once, in whatever order the streams of each
 * GPU start them.
 */
#include <stdio.h>

#include "base/clock.h"
#include "gpu/gpu.h"
#include "harness/party.h"
#include "verify/random.h"

#define GPUS 2
#define COUNT ((size_t)128 << 10) /* as many as a launch has slices for */

TestSuite(gpu_several, .timeout = 120 * HARNESS_BUILD_PATIENCE);

static void begin(void) {
  gpu_setting("COLL_STANDIN_GPUS", "2");
}

/* A communicator with a stream of its own. */
typedef struct side {
  coll_comm_t comm;
  cuda_stream_t cuda;
  coll_stream_t stream;
  float *data;
} side_t;

typedef struct party_gpu {
  const cuda_driver_t *driver;
  int device;
} party_gpu_t;

static int enter(const party_rank_t *self, party_gpu_t *gpu) {
  gpu->device = self->rank % GPUS;
  PARTY_OK(cuda_driver_load(&gpu->driver));
  PARTY_OK(cuda_context_enter(gpu->driver, gpu->device));
  return 0;
}

static int open_side(const party_rank_t *self, const party_gpu_t *gpu, side_t *side) {
  PARTY_OK(coll_comm_split(self->comm, 0, self->rank, NULL, &side->comm));
  PARTY_REQUIRE(gpu->driver->cuStreamCreateWithPriority(&side->cuda, CUDA_STREAM_NON_BLOCKING, 0) ==
                    CUDA_RESULT_OK,
                "no stream");
  PARTY_OK(coll_stream_from_cuda(side->cuda, &side->stream));
  PARTY_OK(coll_mem_alloc(gpu->device, COUNT * sizeof(float), (void **)&side->data));
  for (size_t i = 0; i < COUNT; i++) side->data[i] = (float)(self->rank + 1);
  return 0;
}

static int close_side(const party_gpu_t *gpu, side_t *side) {
  PARTY_OK(coll_comm_destroy(side->comm));
  PARTY_OK(coll_mem_free(side->data));
  PARTY_OK(coll_stream_destroy(side->stream));
  PARTY_REQUIRE(gpu->driver->cuStreamDestroy(side->cuda) == CUDA_RESULT_OK, "the stream is busy");
  return 0;
}

static int reduce(side_t *side) {
  PARTY_OK(coll_allreduce(side->data, side->data, COUNT, COLL_FLOAT32, COLL_SUM, side->comm,
                          side->stream));
  return 0;
}

/* Even ranks start the kernel of the first communicator long before that of the second, odd ranks
 * the other way round. Of this algorithm a kernel may have 128 blocks. */
static int in_opposite_orders(party_rank_t *self) {
  party_gpu_t gpu;
  side_t sides[2];
  PARTY_TRY(enter(self, &gpu));
  for (int i = 0; i < 2; i++) {
    PARTY_TRY(open_side(self, &gpu, &sides[i]));
    PARTY_OK(coll_comm_algo_set(sides[i].comm, COLL_ALLREDUCE, "double_tree"));
  }
  harness_barrier();
  PARTY_TRY(reduce(&sides[self->rank % 2]));
  base_clock_sleep_ns(100000000);
  PARTY_TRY(reduce(&sides[1 - self->rank % 2]));
  for (int i = 0; i < 2; i++) {
    PARTY_OK(coll_stream_sync(sides[i].stream));
    float sum = (float)(self->size * (self->size + 1) / 2);
    for (size_t k = 0; k < COUNT; k++) {
      PARTY_REQUIRE(sides[i].data[k] == sum, "%g instead of %g", sides[i].data[k], sum);
    }
  }
  for (int i = 0; i < 2; i++) PARTY_TRY(close_side(&gpu, &sides[i]));
  cuda_context_leave(gpu.driver, gpu.device);
  return 0;
}

static void run(int size, int timeout_ms, party_body_t body) {
  harness_result_t result;
  cr_assert(party_threads(size, timeout_ms, body, NULL, &result), "%d ranks: %s", size,
            result.text);
  gpu_expect_clean();
}

Test(gpu_several, kernels_that_fill_the_gpus_in_opposite_orders) {
  begin();
  run(2, 30000, in_opposite_orders);
  run(4, 30000, in_opposite_orders);
}

/* As many as a program has, all under way at once. */
static int many(party_rank_t *self) {
  enum { MANY = 6 };
  party_gpu_t gpu;
  side_t sides[MANY];
  PARTY_TRY(enter(self, &gpu));
  for (int i = 0; i < MANY; i++) PARTY_TRY(open_side(self, &gpu, &sides[i]));
  for (int i = 0; i < MANY; i++) {
    PARTY_TRY(reduce(&sides[self->rank % 2 == 0 ? i : MANY - 1 - i]));
  }
  for (int i = 0; i < MANY; i++) {
    PARTY_OK(coll_stream_sync(sides[i].stream));
    PARTY_REQUIRE(sides[i].data[COUNT - 1] == 3, "%g", sides[i].data[COUNT - 1]);
  }
  for (int i = 0; i < MANY; i++) PARTY_TRY(close_side(&gpu, &sides[i]));
  cuda_context_leave(gpu.driver, gpu.device);
  return 0;
}

Test(gpu_several, six_communicators_at_once) {
  begin();
  run(2, 60000, many);
}

/* A GPU of the stand-in keeps 80 blocks resident. */
static int with_all_blocks_taken(party_rank_t *self) {
  party_gpu_t gpu;
  side_t one, other;
  PARTY_TRY(enter(self, &gpu));
  PARTY_TRY(open_side(self, &gpu, &one));
  PARTY_TRY(reduce(&one));
  PARTY_OK(coll_stream_sync(one.stream));
  PARTY_TRY(open_side(self, &gpu, &other));
  coll_status_t status =
      coll_allreduce(other.data, other.data, 1, COLL_FLOAT32, COLL_SUM, other.comm, other.stream);
  PARTY_REQUIRE(status == COLL_ERROR_UNSUPPORTED &&
                    strstr(coll_last_error(NULL), "other communicators of this process have 80") &&
                    strstr(coll_last_error(NULL), "COLL_CUDA_BLOCKS"),
                "status %d: %s", (int)status, coll_last_error(NULL));
  PARTY_TRY(close_side(&gpu, &other));
  harness_barrier();
  PARTY_TRY(close_side(&gpu, &one));
  harness_barrier();
  PARTY_TRY(open_side(self, &gpu, &other));
  PARTY_TRY(reduce(&other));
  PARTY_OK(coll_stream_sync(other.stream));
  PARTY_TRY(close_side(&gpu, &other));
  cuda_context_leave(gpu.driver, gpu.device);
  return 0;
}

Test(gpu_several, a_gpu_whose_blocks_are_all_taken) {
  begin();
  gpu_setting("COLL_CUDA_BLOCKS", "80");
  run(2, 30000, with_all_blocks_taken);
}

/* ---- a driver that blocks -------------------------------------------------------------------*/

/* The library's thread asks the driver about the first communicator, and is blocked there. Nothing
 * else waits for it but the end of that communicator on that rank. */
static int while_the_driver_is_asked(party_rank_t *self) {
  party_gpu_t gpu;
  side_t asked, other;
  PARTY_TRY(enter(self, &gpu));
  PARTY_TRY(open_side(self, &gpu, &asked));
  if (self->rank == 0) standin_hold(gpu.device);
  harness_barrier();
  PARTY_TRY(reduce(&asked));
  PARTY_OK(coll_stream_sync(asked.stream));
  while (!standin_holds()) base_clock_sleep_ns(1000000);
  harness_barrier();
  PARTY_OK(coll_barrier(asked.comm, NULL));
  PARTY_TRY(reduce(&asked));
  PARTY_OK(coll_stream_sync(asked.stream));
  PARTY_TRY(open_side(self, &gpu, &other));
  PARTY_TRY(reduce(&other));
  PARTY_OK(coll_stream_sync(other.stream));
  PARTY_TRY(close_side(&gpu, &other));
  PARTY_REQUIRE(standin_holds(), "the driver was not asked all the time");
  harness_barrier();
  if (self->rank != 0) {
    base_clock_sleep_ns(100000000); /* the other rank destroys the communicator by then */
    standin_release();
  }
  PARTY_TRY(close_side(&gpu, &asked));
  cuda_context_leave(gpu.driver, gpu.device);
  return 0;
}

Test(gpu_several, a_driver_that_blocks_who_asks) {
  begin();
  run(2, 30000, while_the_driver_is_asked);
}

/* ---- ranks that leave early -----------------------------------------------------------------*/

/* More ranks than cores, each with blocks of its own. A rank destroys the communicator as soon as
 * its own calls have ended, while kernels of others wait for messages that it has sent, and the
 * system may not run them for long. */
static int leave_early(party_rank_t *self) {
  enum { CALLS = 20 };
  party_gpu_t gpu;
  uint64_t random = random_mix((uint64_t)self->rank + 1);
  float *data;
  PARTY_TRY(enter(self, &gpu));
  PARTY_OK(coll_mem_alloc(gpu.device, 4096 * sizeof *data, (void **)&data));
  for (int i = 0; i < CALLS; i++) {
    size_t count = 1 + random_mix((uint64_t)i) % 4096;
    coll_status_t status =
        coll_broadcast(data, data, count, COLL_FLOAT32, i % self->size, self->comm, NULL);
    PARTY_REQUIRE(status == COLL_OK, "call %d: %s", i, coll_last_error(NULL));
    if (random_below(&random, 4) == 0) {
      base_clock_sleep_ns((uint64_t)random_below(&random, 30) * 1000000);
    }
  }
  coll_status_t status = coll_comm_destroy(self->comm);
  self->comm = NULL;
  PARTY_REQUIRE(status == COLL_OK, "destroy: %s", coll_last_error(NULL));
  PARTY_OK(coll_mem_free(data));
  cuda_context_leave(gpu.driver, gpu.device);
  return 0;
}

Test(gpu_several, ranks_that_leave_while_others_wait) {
  begin();
  gpu_setting("COLL_STANDIN_DELAY_US", "3000");
  run(8, 60000, leave_early);
}

/*
 * Failures of communicators on GPUs: ranks that die while a launch blocks, and a GPU whose context
 * is lost.
 */
#include <stdatomic.h>
#include <stdio.h>

#include "base/clock.h"
#include "gpu/gpu.h"
#include "harness/party.h"

#define GPUS 4

TestSuite(gpu_failures, .timeout = 120 * HARNESS_BUILD_PATIENCE);

static void begin(void) {
  gpu_setting("COLL_STANDIN_GPUS", "4");
}

typedef struct side {
  const cuda_driver_t *driver;
  int device;
  cuda_stream_t cuda;
  coll_stream_t stream;
  float *data; /* COUNT */
} side_t;

#define COUNT 1024

static int open_side(const party_rank_t *self, side_t *side) {
  side->device = self->rank % GPUS;
  PARTY_OK(cuda_driver_load(&side->driver));
  PARTY_OK(cuda_context_enter(side->driver, side->device));
  PARTY_REQUIRE(side->driver->cuStreamCreateWithPriority(&side->cuda, CUDA_STREAM_NON_BLOCKING,
                                                         0) == CUDA_RESULT_OK,
                "no stream");
  PARTY_OK(coll_stream_from_cuda(side->cuda, &side->stream));
  PARTY_OK(coll_mem_alloc(side->device, COUNT * sizeof(float), (void **)&side->data));
  return 0;
}

static coll_status_t call(const party_rank_t *self, const side_t *side) {
  return coll_allreduce(side->data, side->data, COUNT, COLL_FLOAT32, COLL_SUM, self->comm,
                        side->stream);
}

/* Also destroys the communicator, which has failed. */
static int close_side(party_rank_t *self, side_t *side) {
  coll_comm_destroy(self->comm);
  self->comm = NULL;
  PARTY_OK(coll_mem_free(side->data));
  PARTY_OK(coll_stream_destroy(side->stream));
  PARTY_REQUIRE(side->driver->cuStreamDestroy(side->cuda) == CUDA_RESULT_OK, "the stream is busy");
  cuda_context_leave(side->driver, side->device);
  return 0;
}

/* ---- launches that block --------------------------------------------------------------------*/

/* The last rank makes no call, and its peers have launched as many as their streams hold. */
static int with_full_streams(party_rank_t *self, bool is_killed) {
  side_t side;
  PARTY_TRY(open_side(self, &side));
  PARTY_OK(call(self, &side));
  PARTY_OK(coll_stream_sync(side.stream));
  harness_barrier();
  if (self->rank == self->size - 1) {
    base_clock_sleep_ns(300000000); /* the others' launches block by then */
    if (is_killed) harness_kill(self->rank);
    PARTY_OK(coll_comm_abort(self->comm));
  } else {
    coll_status_t status = COLL_OK;
    for (int i = 0; i < 20 && status == COLL_OK; i++) {
      status = call(self, &side);
    }
    PARTY_OK(coll_stream_sync(side.stream));
    /* COLL_OK: no launch has blocked, so that all were made before the end */
    PARTY_REQUIRE(status == COLL_ERROR_RANK_LOST, "status %d: %s", (int)status,
                  coll_last_error(NULL));
  }
  return close_side(self, &side);
}

static int full_and_aborted(party_rank_t *self) {
  return with_full_streams(self, false);
}

static int full_and_killed(party_rank_t *self) {
  return with_full_streams(self, true);
}

Test(gpu_failures, a_death_ends_launches_that_block) {
  harness_result_t result;
  begin();
  gpu_setting("COLL_STANDIN_QUEUE", "4");
  party_processes(3, 60000, full_and_killed, NULL, &result);
  for (int rank = 0; rank < 2; rank++) {
    cr_assert(result.ranks[rank].end == HARNESS_RETURNED && result.ranks[rank].value == 0, "%s",
              result.text);
  }
  cr_assert(party_threads(3, 60000, full_and_aborted, NULL, &result), "%s", result.text);
}

/* ---- contexts that are lost -----------------------------------------------------------------*/

#define POLL_NS 10000000

static int expect_failure(const party_rank_t *self, bool is_lost) {
  coll_status_t status = COLL_OK, expected = is_lost ? COLL_ERROR_SYSTEM : COLL_ERROR_RANK_LOST;
  while (status == COLL_OK) {
    base_clock_sleep_ns(POLL_NS);
    status = coll_comm_error(self->comm);
  }
  PARTY_REQUIRE(status == expected, "status %d: %s", (int)status, coll_last_error(NULL));
  PARTY_REQUIRE(strstr(coll_last_error(NULL), "CUDA_ERROR_ILLEGAL_ADDRESS") != NULL, "%s",
                coll_last_error(NULL));
  return 0;
}

/* What is on the GPU is lost with its context, until the process exits. */
static int leave(party_rank_t *self, const side_t *side, bool is_lost) {
  if (!is_lost) PARTY_OK(coll_stream_sync(side->stream));
  coll_comm_destroy(self->comm);
  self->comm = NULL;
  return 0;
}

static int lost_before_a_call(party_rank_t *self) {
  side_t side;
  bool is_lost = self->rank == 1;
  PARTY_TRY(open_side(self, &side));
  PARTY_OK(call(self, &side));
  PARTY_OK(coll_stream_sync(side.stream));
  harness_barrier();
  if (is_lost) standin_lose(side.device);
  coll_status_t status = call(self, &side);
  bool is_told = status == COLL_ERROR_RANK_LOST; /* the other rank was first */
  PARTY_REQUIRE(is_lost ? status == COLL_ERROR_SYSTEM : status == COLL_OK || is_told,
                "status %d: %s", (int)status, coll_last_error(NULL));
  PARTY_TRY(expect_failure(self, is_lost));
  return leave(self, &side, is_lost);
}

static void await_loss(void *has_lost) {
  while (!atomic_load((_Atomic bool *)has_lost)) base_clock_sleep_ns(POLL_NS);
}

/* Behind the program's work, so its kernel never begins, and no call finds out. */
static int lost_behind_a_call(party_rank_t *self) {
  static _Atomic bool has_lost;
  side_t side;
  bool is_lost = self->rank == 1;
  PARTY_TRY(open_side(self, &side));
  PARTY_OK(call(self, &side));
  PARTY_OK(coll_stream_sync(side.stream));
  if (is_lost) side.driver->cuLaunchHostFunc(side.cuda, await_loss, &has_lost);
  PARTY_OK(call(self, &side));
  harness_barrier(); /* or the other rank is told by its call */
  if (is_lost) {
    standin_lose(side.device);
    atomic_store(&has_lost, true);
  }
  PARTY_TRY(expect_failure(self, is_lost));
  return leave(self, &side, is_lost);
}

Test(gpu_failures, a_context_that_is_lost) {
  harness_result_t result;
  begin();
  cr_assert(party_threads(2, 60000, lost_before_a_call, NULL, &result), "%s", result.text);
}

Test(gpu_failures, a_context_that_is_lost_with_calls) {
  harness_result_t result;
  begin();
  cr_assert(party_threads(2, 60000, lost_behind_a_call, NULL, &result), "%s", result.text);
}

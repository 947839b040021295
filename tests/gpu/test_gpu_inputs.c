/*
 * What callers may get wrong, and what the machine may: streams and memory of other GPUs, GPUs that
 * processes count differently, too little memory.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "gpu/gpu.h"
#include "gpu/standin/functions.h"
#include "harness/party.h"

#define COUNT 1024
#define POLL_NS 10000000

TestSuite(gpu_inputs, .timeout = 120 * HARNESS_BUILD_PATIENCE);

static void begin(void) {
  gpu_setting("COLL_STANDIN_GPUS", "2");
}

typedef struct side {
  const cuda_driver_t *driver;
  int device;
  cuda_stream_t cuda;
  coll_stream_t stream;
  float *data; /* COUNT */
} side_t;

static int open_side(int device, side_t *side) {
  side->device = device;
  PARTY_OK(cuda_driver_load(&side->driver));
  PARTY_OK(cuda_context_enter(side->driver, device));
  PARTY_REQUIRE(side->driver->cuStreamCreateWithPriority(&side->cuda, CUDA_STREAM_NON_BLOCKING,
                                                         0) == CUDA_RESULT_OK,
                "no stream");
  PARTY_OK(coll_stream_from_cuda(side->cuda, &side->stream));
  PARTY_OK(coll_mem_alloc(device, COUNT * sizeof(float), (void **)&side->data));
  return 0;
}

static coll_status_t call(coll_comm_t comm, const side_t *side) {
  return coll_allreduce(side->data, side->data, COUNT, COLL_FLOAT32, COLL_SUM, comm, side->stream);
}

static int close_side(side_t *side) {
  PARTY_OK(coll_mem_free(side->data));
  PARTY_OK(coll_stream_destroy(side->stream));
  PARTY_REQUIRE(side->driver->cuStreamDestroy(side->cuda) == CUDA_RESULT_OK, "the stream is busy");
  cuda_context_leave(side->driver, side->device);
  return 0;
}

/* ---- other GPUs -----------------------------------------------------------------------------*/

Test(gpu_inputs, streams_of_another_gpu) {
  coll_comm_t comm;
  side_t sides[2];
  coll_stream_t stream;
  begin();
  cr_assert(open_side(0, &sides[0]) == 0, "%s", base_last_error());
  GPU_OK(coll_comm_create_local(1, NULL, &comm));
  GPU_OK(call(comm, &sides[0]));
  cr_assert(open_side(1, &sides[1]) == 0, "%s", base_last_error());
  GPU_FAILS(COLL_ERROR_INVALID, "the stream is of another GPU or CUDA context",
            coll_stream_from_cuda(sides[0].cuda, &stream));
  GPU_OK(coll_stream_from_cuda(NULL, &stream)); /* of GPU 1, too */
  GPU_OK(coll_stream_destroy(stream));
  GPU_FAILS(COLL_ERROR_INVALID, "this call is on GPU 1, but the communicator is on GPU 0",
            call(comm, &sides[1]));
  GPU_OK(coll_group_start());
  GPU_OK(call(comm, &sides[0]));
  GPU_OK(call(comm, &sides[1]));
  GPU_FAILS(COLL_ERROR_INVALID, "this call is on GPU 1, but the communicator is on GPU 0",
            coll_group_end());
  GPU_OK(call(comm, &sides[0])); /* it still works */
  GPU_OK(coll_stream_sync(sides[0].stream));
  GPU_OK(coll_comm_destroy(comm));
  for (int i = 1; i >= 0; i--) cr_assert(close_side(&sides[i]) == 0, "%s", base_last_error());
  gpu_expect_clean();
}

/* Old drivers name it as a context of its own. */
static void refuse_green_streams(const char *version, coll_status_t status, const char *part) {
  side_t side;
  cuda_stream_t cuda;
  coll_stream_t stream;
  begin();
  gpu_setting("COLL_STANDIN_VERSION", version);
  cr_assert(open_side(0, &side) == 0, "%s", base_last_error());
  GPU_DONE(cuGreenCtxStreamCreate(&cuda, standin_green(0), CUDA_STREAM_NON_BLOCKING, 0));
  GPU_FAILS(status, part, coll_stream_from_cuda(cuda, &stream));
  GPU_DONE(side.driver->cuStreamDestroy(cuda));
  cr_assert(close_side(&side) == 0, "%s", base_last_error());
  gpu_expect_clean();
}

Test(gpu_inputs, streams_of_green_contexts) {
  refuse_green_streams("13000", COLL_ERROR_UNSUPPORTED, "the stream is of a green context");
}

Test(gpu_inputs, streams_of_contexts_that_the_driver_does_not_tell_of) {
  refuse_green_streams("12000", COLL_ERROR_INVALID, "the stream is of another GPU or CUDA context");
}

Test(gpu_inputs, memory_of_another_gpu) {
  coll_comm_t comm;
  side_t side;
  cuda_ptr_t other;
  cuda_context_t context;
  begin();
  cr_assert(open_side(0, &side) == 0, "%s", base_last_error());
  GPU_OK(coll_comm_create_local(1, NULL, &comm));
  GPU_OK(cuda_context_enter(side.driver, 1));
  GPU_DONE(side.driver->cuCtxGetCurrent(&context));
  GPU_DONE(side.driver->cuMemAlloc(&other, COUNT * sizeof(float)));
  GPU_OK(cuda_context_enter(side.driver, 0));
  GPU_OK(coll_allreduce((void *)(uintptr_t)other, side.data, COUNT, COLL_FLOAT32, COLL_SUM, comm,
                        side.stream));
  GPU_OK(coll_stream_sync(side.stream));
  GPU_RESULT(CUDA_RESULT_PEER_ACCESS_ALREADY_ENABLED,
             side.driver->cuCtxEnablePeerAccess(context, 0));
  cuda_context_leave(side.driver, 0);
  GPU_DONE(side.driver->cuMemFree(other));
  cuda_context_leave(side.driver, 1);
  GPU_OK(coll_comm_destroy(comm));
  cr_assert(close_side(&side) == 0, "%s", base_last_error());
  gpu_expect_clean();
}

Test(gpu_inputs, memory_of_a_gpu_that_cannot_be_reached) {
  coll_comm_t comm;
  side_t side;
  void *other;
  begin();
  gpu_setting("COLL_STANDIN_PEERS", "0");
  cr_assert(open_side(0, &side) == 0, "%s", base_last_error());
  GPU_OK(coll_comm_create_local(1, NULL, &comm));
  GPU_OK(coll_mem_alloc(1, COUNT * sizeof(float), &other));
  GPU_FAILS(COLL_ERROR_INVALID,
            "the recv buffer is memory of GPU 1, which GPU 0, where the call is",
            coll_allreduce(side.data, other, COUNT, COLL_FLOAT32, COLL_SUM, comm, side.stream));
  GPU_OK(call(comm, &side)); /* it still works */
  GPU_OK(coll_stream_sync(side.stream));
  GPU_OK(coll_mem_free(other));
  GPU_OK(coll_comm_destroy(comm));
  cr_assert(close_side(&side) == 0, "%s", base_last_error());
  gpu_expect_clean();
}

/* ---- processes that see other GPUs ----------------------------------------------------------*/

static int run_alone(party_rank_t *self, side_t *side, const char *gpu) {
  setenv("CUDA_VISIBLE_DEVICES", gpu, 1);
  PARTY_TRY(open_side(0, side));
  for (int i = 0; i < COUNT; i++) side->data[i] = (float)(self->rank + 1);
  return 0;
}

/* Each process sees one GPU, which it calls 0. */
static int sees_its_own(party_rank_t *self) {
  side_t side;
  PARTY_TRY(run_alone(self, &side, self->rank == 0 ? "1" : "0"));
  PARTY_OK(call(self->comm, &side));
  PARTY_OK(coll_stream_sync(side.stream));
  PARTY_REQUIRE(side.data[0] == 3 && side.data[COUNT - 1] == 3, "%g", side.data[0]);
  harness_barrier();
  PARTY_OK(coll_comm_destroy(self->comm));
  self->comm = NULL;
  return close_side(&side);
}

static int sees_the_same(party_rank_t *self) {
  side_t side;
  setenv("COLL_CUDA_ENGINE", "kernel", 1);
  PARTY_TRY(run_alone(self, &side, self->rank == 0 ? "1,0" : "1"));
  coll_status_t status = call(self->comm, &side);
  PARTY_REQUIRE(status == COLL_ERROR_UNSUPPORTED &&
                    strstr(coll_last_error(NULL), "ranks 0 and 1 are processes that share a GPU"),
                "status %d: %s", (int)status, coll_last_error(NULL));
  return close_side(&side);
}

static void run_with(party_body_t body, int which) {
  harness_result_t result;
  cr_assert(party_processes(2, 60000, body, &which, &result), "%s", result.text);
}

static void run_processes(party_body_t body) {
  run_with(body, 0);
}

Test(gpu_inputs, processes_that_see_one_gpu_each) {
  begin();
  run_processes(sees_its_own);
  run_processes(sees_the_same);
}

/* ---- GPUs that cannot be used ---------------------------------------------------------------*/

/* Rank 1 cannot; both are told why. */
static int expect_refusal(const party_rank_t *self, coll_status_t status, coll_status_t expected,
                          const char *why) {
  const char *text = coll_last_error(NULL);
  PARTY_REQUIRE(status == expected && strstr(text, why) != NULL, "status %d: %s", (int)status,
                text);
  PARTY_REQUIRE(self->rank == 1 || strstr(text, "rank 1 cannot use its GPU for this communicator"),
                "%s", text);
  return 0;
}

static int taken_by_another(party_rank_t *self) {
  side_t side;
  PARTY_TRY(open_side(self->rank, &side));
  if (self->rank == 1) setenv("COLL_STANDIN_TAKEN", "1", 1);
  coll_status_t status = call(self->comm, &side);
  unsetenv("COLL_STANDIN_TAKEN");
  PARTY_TRY(expect_refusal(self, status, COLL_ERROR_SYSTEM, "compute mode exclusive"));
  return close_side(&side);
}

static int without_code(party_rank_t *self) {
  static const struct {
    const char *loaded, *why;
  } cases[] = {{"209", "no code for that generation of GPU"},
               {"221", "-Dgpu_targets adds it"},
               {"222", "the driver is older than its PTX"}};
  const int *which = self->context;
  side_t side;
  PARTY_TRY(open_side(self->rank, &side));
  if (self->rank == 1) setenv("COLL_STANDIN_LOADED", cases[*which].loaded, 1);
  coll_status_t status = call(self->comm, &side);
  PARTY_TRY(expect_refusal(self, status, COLL_ERROR_UNSUPPORTED, cases[*which].why));
  return close_side(&side);
}

static int without_memory(party_rank_t *self) {
  side_t side;
  if (self->rank == 1) setenv("COLL_STANDIN_BYTES", "30000000", 1);
  PARTY_TRY(open_side(self->rank, &side));
  coll_status_t status = call(self->comm, &side);
  PARTY_TRY(expect_refusal(self, status, COLL_ERROR_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"));
  return close_side(&side);
}

Test(gpu_inputs, gpus_that_cannot_be_used) {
  begin();
  run_processes(taken_by_another);
  run_processes(without_memory);
  for (int which = 0; which < 3; which++) run_with(without_code, which);
}

static coll_status_t await_failure(coll_comm_t comm) {
  coll_status_t status = COLL_OK;
  while (status == COLL_OK) {
    status = coll_comm_error(comm);
    base_clock_sleep_ns(POLL_NS);
  }
  return status;
}

/* A premul-sum needs a second buffer of the input's size, which rank 1's GPU does not have. */
static int without_memory_in_a_call(party_rank_t *self) {
  enum { MANY = 16 << 20 };
  float factor = 2, *large;
  side_t side;
  coll_op_t op;
  if (self->rank == 1) setenv("COLL_STANDIN_BYTES", "235000000", 1);
  PARTY_TRY(open_side(self->rank, &side));
  PARTY_OK(coll_mem_alloc(side.device, MANY * sizeof(float), (void **)&large));
  PARTY_OK(call(self->comm, &side));
  PARTY_OK(coll_stream_sync(side.stream));
  PARTY_OK(coll_op_create_premul_sum(&factor, COLL_FLOAT32, COLL_SCALAR_HOST_IMMEDIATE, self->comm,
                                     &op));
  coll_status_t status =
      coll_allreduce(large, large, MANY, COLL_FLOAT32, op, self->comm, side.stream);
  if (self->rank == 1) {
    PARTY_REQUIRE(status == COLL_ERROR_MEMORY && strstr(coll_last_error(NULL), "OUT_OF_MEMORY"),
                  "status %d: %s", (int)status, coll_last_error(NULL));
  } else {
    status = await_failure(self->comm);
    PARTY_REQUIRE(status == COLL_ERROR_RANK_LOST && strstr(coll_last_error(NULL), "OUT_OF_MEMORY"),
                  "status %d: %s", (int)status, coll_last_error(NULL));
  }
  PARTY_OK(coll_stream_sync(side.stream));
  coll_comm_destroy(self->comm);
  self->comm = NULL;
  PARTY_OK(coll_mem_free(large));
  return close_side(&side);
}

Test(gpu_inputs, a_call_for_which_there_is_no_memory) {
  begin();
  run_processes(without_memory_in_a_call);
}

/* ---- another thread captures ----------------------------------------------------------------*/

typedef struct worker {
  coll_comm_t comm;
  bool good;
  char text[512];
} worker_t;

static coll_status_t work(coll_comm_t comm, side_t sides[2]) {
  coll_comm_t made;
  COLL_TRY(coll_comm_split(comm, 0, 0, NULL, &made)); /* connects, too */
  COLL_TRY(coll_comm_destroy(made));
  COLL_TRY(coll_allreduce(sides[0].data, sides[0].data, COUNT, COLL_FLOAT32, COLL_SUM, comm, NULL));
  COLL_TRY(coll_group_start());
  COLL_TRY(call(comm, &sides[0]));
  COLL_TRY(call(comm, &sides[1]));
  COLL_TRY(coll_group_end());
  coll_status_t status = coll_stream_query(sides[0].stream);
  if (status != COLL_OK && status != COLL_IN_PROGRESS) return status;
  COLL_TRY(coll_stream_sync(sides[0].stream));
  return coll_stream_sync(sides[1].stream);
}

static void *run_worker(void *argument) {
  worker_t *worker = argument;
  side_t sides[2];
  for (int i = 0; i < 2; i++) {
    if (open_side(0, &sides[i]) != 0) return NULL;
  }
  worker->good = work(worker->comm, sides) == COLL_OK;
  snprintf(worker->text, sizeof worker->text, "%s", base_last_error());
  for (int i = 1; i >= 0; i--) worker->good = close_side(&sides[i]) == 0 && worker->good;
  return NULL;
}

Test(gpu_inputs, calls_while_another_thread_captures) {
  worker_t worker = {.good = false};
  pthread_t thread;
  side_t side;
  cuda_graph_t graph;
  begin();
  cr_assert(open_side(0, &side) == 0, "%s", base_last_error());
  GPU_OK(coll_comm_create_local(1, NULL, &worker.comm));
  GPU_OK(call(worker.comm, &side));
  GPU_OK(coll_stream_sync(side.stream));
  GPU_DONE(cuStreamBeginCapture_v2(side.cuda, CUDA_CAPTURE_GLOBAL));
  cr_assert(pthread_create(&thread, NULL, run_worker, &worker) == 0);
  pthread_join(thread, NULL);
  cr_assert(worker.good, "%s", worker.text);
  GPU_DONE(cuStreamEndCapture(side.cuda, &graph));
  GPU_DONE(cuGraphDestroy(graph));
  GPU_OK(coll_comm_destroy(worker.comm));
  cr_assert(close_side(&side) == 0, "%s", base_last_error());
  gpu_expect_clean();
}

/*
 * Communicators on GPUs, through coll.h, on the stand-in for the driver: its GPUs run the kernel
 * itself. Ranks are threads, processes, or calls of one thread in a group.
 */
#include <stdatomic.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/names.h"
#include "gpu/gpu.h"
#include "harness/party.h"

#define GPUS 4

TestSuite(gpu_comm, .timeout = 120 * HARNESS_BUILD_PATIENCE);

extern const int64_t coll_cuda_image[]; /* of the stand-in's kernel, which is then linked */

/* A process that uses CUDA cannot fork, so a test runs processes before threads. */
static void begin(int gpus) {
  char text[8];
  cr_assert(coll_cuda_image[0] != 0);
  snprintf(text, sizeof text, "%d", gpus);
  gpu_setting("COLL_STANDIN_GPUS", text);
  gpu_setting("COLL_STANDIN_DELAY_US", "50");
}

/* A rank's GPU, with its context current, and a stream of it. */
typedef struct side {
  const cuda_driver_t *driver;
  int device;
  cuda_stream_t cuda;
  coll_stream_t stream;
} side_t;

static int open_side(int rank, int gpus, side_t *side) {
  side->device = rank % gpus;
  PARTY_OK(cuda_driver_load(&side->driver));
  PARTY_OK(cuda_context_enter(side->driver, side->device));
  PARTY_REQUIRE(side->driver->cuStreamCreateWithPriority(&side->cuda, CUDA_STREAM_NON_BLOCKING,
                                                         0) == CUDA_RESULT_OK,
                "no stream");
  PARTY_OK(coll_stream_from_cuda(side->cuda, &side->stream));
  return 0;
}

static int close_side(side_t *side) {
  PARTY_OK(coll_stream_destroy(side->stream));
  PARTY_REQUIRE(side->driver->cuStreamDestroy(side->cuda) == CUDA_RESULT_OK, "the stream is busy");
  cuda_context_leave(side->driver, side->device);
  return 0;
}

/* ---- every collective -----------------------------------------------------------------------*/

static const size_t counts[] = {1, 3, 1000, 70001};

static int ask_all(party_rank_t *self, coll_stream_t stream, int gpus) {
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    if (!base_collective_is_on_gpus((coll_collective_t)c)) continue;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
      question_t q = {.collective = (coll_collective_t)c,
                      .size = self->size,
                      .root = self->size - 1,
                      .count = c == COLL_BARRIER ? 0 : counts[i],
                      .dtype = COLL_FLOAT32,
                      .op = COLL_SUM,
                      .seed = i + 7};
      party_style_t style = {.gpus = gpus, .stream = stream, .in_place = i % 2 == 1};
      PARTY_TRY(party_ask(self, &q, &style));
    }
  }
  return 0;
}

static int on_streams(party_rank_t *self) {
  int gpus = *(const int *)self->context;
  side_t side;
  PARTY_TRY(open_side(self->rank, gpus, &side));
  PARTY_TRY(ask_all(self, side.stream, gpus));
  return close_side(&side);
}

#define RUN_THREADS(size, gpus, body)                                                              \
  do {                                                                                             \
    int gpus_of_run = (gpus);                                                                      \
    harness_result_t party_result;                                                                 \
    cr_assert(party_threads(size, 60000, body, &gpus_of_run, &party_result), "%d ranks: %s", size, \
              party_result.text);                                                                  \
  } while (0)
/* Not under ThreadSanitizer, which does not see other processes. */
#define RUN_PROCESSES(size, gpus, body)                                                        \
  do {                                                                                         \
    int gpus_of_run = (gpus);                                                                  \
    harness_result_t party_result;                                                             \
    if (HARNESS_BUILD == HARNESS_THREAD) break;                                                \
    cr_assert(party_processes(size, 60000, body, &gpus_of_run, &party_result), "%d ranks: %s", \
              size, party_result.text);                                                        \
  } while (0)

Test(gpu_comm, threads_with_a_gpu_each) {
  begin(GPUS);
  for (int size = 1; size <= GPUS; size++) RUN_THREADS(size, GPUS, on_streams);
  gpu_expect_clean();
}

Test(gpu_comm, threads_that_share_gpus) {
  begin(2);
  RUN_THREADS(3, 1, on_streams);
  RUN_THREADS(4, 2, on_streams);
  gpu_expect_clean();
}

Test(gpu_comm, processes_with_a_gpu_each) {
  if (HARNESS_BUILD == HARNESS_THREAD) cr_skip_test("threads are enough");
  begin(GPUS);
  RUN_PROCESSES(2, GPUS, on_streams);
  RUN_PROCESSES(4, GPUS, on_streams);
}

/* One rank's link carries no whole lines, so none sends them. */
static int on_two_kinds_of_links(party_rank_t *self) {
  setenv("COLL_STANDIN_NVLINK", self->rank == 1 ? "0" : "1", 1);
  return on_streams(self);
}

Test(gpu_comm, flagged_lines) {
  begin(GPUS);
  gpu_setting("COLL_CUDA_PROTOCOLS", "ll128");
  RUN_PROCESSES(3, GPUS, on_streams);
  RUN_PROCESSES(3, GPUS, on_two_kinds_of_links);
  RUN_THREADS(3, 2, on_streams);
}

static int without_a_stream(party_rank_t *self) {
  int gpus = *(const int *)self->context;
  const cuda_driver_t *driver;
  PARTY_OK(cuda_driver_load(&driver));
  return ask_all(self, NULL, gpus);
}

Test(gpu_comm, calls_without_a_stream) {
  begin(2);
  RUN_PROCESSES(2, 2, without_a_stream);
  RUN_THREADS(2, 2, without_a_stream);
}

static int all_dtypes_and_ops(party_rank_t *self) {
  int gpus = *(const int *)self->context;
  side_t side;
  PARTY_TRY(open_side(self->rank, gpus, &side));
  for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++) {
    bool is_float = (dtype >= COLL_FLOAT16 && dtype <= COLL_FLOAT8_E5M2);
    for (int op = 0; op < COLL_OP_BUILTIN_COUNT; op++) {
      if (is_float && op >= COLL_BAND) continue;
      question_t q = {.collective = op % 2 == 0 ? COLL_ALLREDUCE : COLL_REDUCE_SCATTER,
                      .size = self->size,
                      .count = 301,
                      .dtype = (coll_dtype_t)dtype,
                      .op = (coll_op_t)op,
                      .seed = 3};
      party_style_t style = {.gpus = gpus, .stream = side.stream};
      PARTY_TRY(party_ask(self, &q, &style));
    }
  }
  return close_side(&side);
}

Test(gpu_comm, every_dtype_and_op) {
  begin(2);
  RUN_THREADS(3, 2, all_dtypes_and_ops);
}

static int all_algorithms(party_rank_t *self) {
  int gpus = *(const int *)self->context;
  side_t side;
  PARTY_TRY(open_side(self->rank, gpus, &side));
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    if (!base_collective_is_on_gpus((coll_collective_t)c)) continue;
    for (int i = 0; coll_algo_name((coll_collective_t)c, i) != NULL; i++) {
      const char *name = coll_algo_name((coll_collective_t)c, i);
      question_t q = {.collective = (coll_collective_t)c,
                      .size = self->size,
                      .count = c == COLL_BARRIER ? 0 : 500,
                      .dtype = COLL_INT32,
                      .seed = 11};
      party_style_t style = {.gpus = gpus, .stream = side.stream};
      if (c != COLL_SENDRECV) PARTY_OK(coll_comm_algo_set(self->comm, q.collective, name));
      PARTY_TRY(party_ask(self, &q, &style));
    }
    if (c != COLL_SENDRECV) PARTY_OK(coll_comm_algo_set(self->comm, (coll_collective_t)c, NULL));
  }
  return close_side(&side);
}

Test(gpu_comm, every_algorithm_that_is_forced) {
  begin(2);
  RUN_THREADS(3, 2, all_algorithms);
}

/* ---- order ----------------------------------------------------------------------------------*/

/* Calls return before peers make theirs, each uses the result of the one before, and they go to two
 * streams in turn. */
static int in_order(party_rank_t *self) {
  enum { COUNT = 5000, CALLS = 40 };
  int gpus = *(const int *)self->context;
  side_t sides[2];
  uint64_t *data, expected = 1;
  PARTY_TRY(open_side(self->rank, gpus, &sides[0]));
  PARTY_TRY(open_side(self->rank, gpus, &sides[1]));
  PARTY_OK(coll_mem_alloc(sides[0].device, COUNT * sizeof *data, (void **)&data));
  for (int i = 0; i < COUNT; i++) data[i] = 1;
  PARTY_OK(coll_barrier(self->comm, sides[0].stream)); /* connects */
  if (self->rank > 0) harness_barrier();
  for (int call = 0; call < CALLS; call++) {
    PARTY_OK(coll_allreduce(data, data, COUNT, COLL_UINT64, COLL_SUM, self->comm,
                            sides[call % 2].stream));
    expected *= (uint64_t)self->size;
  }
  if (self->rank == 0) harness_barrier();
  PARTY_OK(coll_stream_sync(sides[0].stream));
  PARTY_OK(coll_stream_sync(sides[1].stream));
  for (int i = 0; i < COUNT; i++) {
    PARTY_REQUIRE(data[i] == expected, "element %d is %llu instead of %llu", i,
                  (unsigned long long)data[i], (unsigned long long)expected);
  }
  PARTY_OK(coll_mem_free(data));
  PARTY_TRY(close_side(&sides[1]));
  return close_side(&sides[0]);
}

Test(gpu_comm, calls_on_two_streams_have_one_order) {
  begin(2);
  RUN_PROCESSES(2, 2, in_order);
  RUN_THREADS(2, 2, in_order);
}

/* Host and GPU in turn, on one communicator. */
static int host_and_gpu(party_rank_t *self) {
  int gpus = *(const int *)self->context;
  side_t side;
  PARTY_TRY(open_side(self->rank, gpus, &side));
  for (int i = 0; i < 10; i++) {
    question_t q = {.collective = COLL_ALLREDUCE,
                    .size = self->size,
                    .count = 100,
                    .dtype = COLL_FLOAT64,
                    .seed = (uint64_t)i};
    party_style_t on_gpu = {.gpus = gpus, .stream = side.stream}, on_host = {.gpus = 0};
    PARTY_TRY(party_ask(self, &q, &on_gpu));
    PARTY_TRY(party_ask(self, &q, &on_host));
  }
  return close_side(&side);
}

Test(gpu_comm, host_and_gpu_in_turn) {
  begin(2);
  RUN_PROCESSES(2, 2, host_and_gpu);
  RUN_THREADS(2, 2, host_and_gpu);
}

/* ---- one thread with several ranks ----------------------------------------------------------*/

static void expect_sum(const float *data, size_t count, float sum) {
  for (size_t i = 0; i < count; i++) cr_assert(data[i] == sum, "%g instead of %g", data[i], sum);
}

static void group_of(int size, int gpus) {
  enum { COUNT = 3000 };
  coll_comm_t comms[8];
  side_t sides[8];
  float *send[8], *recv[8];
  GPU_OK(coll_comm_create_local(size, NULL, comms));
  for (int r = 0; r < size; r++) {
    cr_assert(open_side(r, gpus, &sides[r]) == 0, "%s", base_last_error());
    GPU_OK(coll_mem_alloc(sides[r].device, COUNT * sizeof(float), (void **)&send[r]));
    GPU_OK(coll_mem_alloc(sides[r].device, COUNT * sizeof(float), (void **)&recv[r]));
    for (int i = 0; i < COUNT; i++) send[r][i] = (float)(r + 1);
  }
  for (int round = 0; round < 3; round++) {
    GPU_OK(coll_group_start());
    for (int r = 0; r < size; r++) {
      GPU_OK(coll_allreduce(send[r], recv[r], COUNT, COLL_FLOAT32, COLL_SUM, comms[r],
                            sides[r].stream));
    }
    GPU_OK(coll_group_end());
    for (int r = 0; r < size; r++) {
      GPU_OK(coll_stream_sync(sides[r].stream));
      expect_sum(recv[r], COUNT, (float)(size * (size + 1) / 2));
    }
    GPU_OK(coll_group_start()); /* a shift to the next rank */
    for (int r = 0; r < size; r++) {
      GPU_OK(coll_send(send[r], COUNT, COLL_FLOAT32, (r + 1) % size, comms[r], sides[r].stream));
      GPU_OK(coll_recv(recv[r], COUNT, COLL_FLOAT32, (r + size - 1) % size, comms[r],
                       sides[r].stream));
    }
    GPU_OK(coll_group_end());
    for (int r = 0; r < size; r++) {
      GPU_OK(coll_stream_sync(sides[r].stream));
      expect_sum(recv[r], COUNT, (float)((r + size - 1) % size + 1));
    }
  }
  for (int r = size - 1; r >= 0; r--) {
    GPU_OK(coll_mem_free(send[r]));
    GPU_OK(coll_mem_free(recv[r]));
    GPU_OK(coll_comm_destroy(comms[r]));
    cr_assert(close_side(&sides[r]) == 0, "%s", base_last_error());
  }
}

Test(gpu_comm, one_thread_has_all_ranks_in_a_group) {
  begin(8);
  for (int size = 1; size <= 8; size *= 2) group_of(size, 8);
  group_of(4, 1);
  gpu_expect_clean();
}

/* ---- refusals -------------------------------------------------------------------------------*/

Test(gpu_comm, buffers_and_streams_that_do_not_go_together) {
  coll_comm_t comm;
  side_t side;
  coll_stream_t host;
  float plain[4] = {1, 2, 3, 4}, *device;
  begin(2);
  cr_assert(open_side(0, 2, &side) == 0, "%s", base_last_error());
  GPU_OK(coll_comm_create_local(1, NULL, &comm));
  GPU_OK(coll_mem_alloc(0, sizeof plain, (void **)&device));
  GPU_OK(coll_stream_create(&host));
  GPU_FAILS(COLL_ERROR_INVALID, "send buffer is plain memory of the host",
            coll_allreduce(plain, device, 4, COLL_FLOAT32, COLL_SUM, comm, side.stream));
  GPU_FAILS(COLL_ERROR_INVALID, "recv buffer is plain memory of the host",
            coll_allreduce(device, plain, 4, COLL_FLOAT32, COLL_SUM, comm, NULL));
  GPU_FAILS(COLL_ERROR_INVALID, "device memory on a host stream",
            coll_allreduce(device, device, 4, COLL_FLOAT32, COLL_SUM, comm, host));
  GPU_OK(coll_group_start());
  GPU_OK(coll_allreduce(plain, plain, 4, COLL_FLOAT32, COLL_SUM, comm, NULL));
  GPU_OK(coll_allreduce(device, device, 4, COLL_FLOAT32, COLL_SUM, comm, NULL));
  GPU_FAILS(COLL_ERROR_INVALID, "on a GPU and on the host", coll_group_end());
  GPU_FAILS(COLL_ERROR_UNSUPPORTED, "coll_gatherv on rank 0 of 1: not supported on GPUs",
            coll_gatherv(device, 4, device, (size_t[]){4}, NULL, COLL_FLOAT32, 0, comm, NULL));
  GPU_OK(
      coll_allreduce(device, device, 4, COLL_FLOAT32, COLL_SUM, comm, NULL)); /* it still works */
  GPU_OK(coll_stream_destroy(host));
  GPU_OK(coll_mem_free(device));
  GPU_OK(coll_comm_destroy(comm));
  cr_assert(close_side(&side) == 0);
  gpu_expect_clean();
}

Test(gpu_comm, a_stream_needs_a_context) {
  coll_stream_t stream;
  begin(1);
  gpu_driver();
  GPU_FAILS(COLL_ERROR_INVALID, "no current CUDA context", coll_stream_from_cuda(NULL, &stream));
}

/* One rank calls on its GPU, the other on the host. */
static int mixed_call(party_rank_t *self) {
  side_t side;
  float plain = 1, *device;
  PARTY_TRY(open_side(self->rank, 2, &side));
  PARTY_OK(coll_mem_alloc(side.device, sizeof plain, (void **)&device));
  bool on_gpu = self->rank == 0;
  float *buffer = on_gpu ? device : &plain;
  coll_status_t status = coll_allreduce(buffer, buffer, 1, COLL_FLOAT32, COLL_SUM, self->comm,
                                        on_gpu ? side.stream : NULL);
  PARTY_REQUIRE(status == COLL_ERROR_MISMATCH, "status %d: %s", (int)status, base_last_error());
  PARTY_REQUIRE(strstr(coll_last_error(NULL), "the first call on GPUs") != NULL, "%s",
                coll_last_error(NULL));
  coll_comm_destroy(self->comm);
  self->comm = NULL;
  PARTY_OK(coll_mem_free(device));
  return close_side(&side);
}

Test(gpu_comm, host_and_gpu_do_not_match) {
  begin(2);
  RUN_THREADS(2, 2, mixed_call);
}

/* The last rank makes another call; all get the same text. */
static int other_call(party_rank_t *self) {
  side_t side;
  float *data;
  size_t count = self->rank == self->size - 1 ? 6 : 5;
  PARTY_TRY(open_side(self->rank, *(const int *)self->context, &side));
  PARTY_OK(coll_mem_alloc(side.device, 4096, (void **)&data));
  PARTY_OK(coll_allreduce(data, data, 7, COLL_FLOAT32, COLL_SUM, self->comm, side.stream));
  /* the other ranks may have found it before this one makes its call */
  coll_status_t status =
      coll_allreduce(data, data, count, COLL_FLOAT32, COLL_SUM, self->comm, side.stream);
  PARTY_OK(coll_stream_sync(side.stream));
  while (status == COLL_OK) {
    status = coll_comm_error(self->comm);
    base_clock_sleep_ns(1000000);
  }
  PARTY_REQUIRE(status == COLL_ERROR_MISMATCH, "status %d: %s", (int)status, coll_last_error(NULL));
  const char *text = coll_last_error(NULL);
  PARTY_REQUIRE(strstr(text, "allreduce(float32, sum, count 5)") != NULL &&
                    strstr(text, "allreduce(float32, sum, count 6)") != NULL,
                "%s", text);
  coll_comm_destroy(self->comm);
  self->comm = NULL;
  PARTY_OK(coll_mem_free(data));
  return close_side(&side);
}

Test(gpu_comm, calls_that_do_not_match_are_named) {
  begin(GPUS);
  RUN_PROCESSES(3, GPUS, other_call);
  RUN_THREADS(3, GPUS, other_call);
}

/* Rank 0 makes one call more than the others, which destroy the communicator. */
static int one_call_more(party_rank_t *self) {
  side_t side;
  float *data;
  PARTY_TRY(open_side(self->rank, *(const int *)self->context, &side));
  PARTY_OK(coll_mem_alloc(side.device, 4096, (void **)&data));
  int calls = self->rank == 0 ? 2 : 1;
  for (int i = 0; i < calls; i++) {
    PARTY_OK(coll_allreduce(data, data, 7, COLL_FLOAT32, COLL_SUM, self->comm, side.stream));
  }
  coll_status_t status = coll_comm_destroy(self->comm), expected = COLL_OK;
  self->comm = NULL;
  if (self->rank == 0) expected = COLL_ERROR_MISMATCH;
  PARTY_REQUIRE(status == expected, "status %d: %s", (int)status, coll_last_error(NULL));
  PARTY_REQUIRE(self->rank != 0 || strstr(coll_last_error(NULL), "destroy") != NULL, "%s",
                coll_last_error(NULL));
  PARTY_OK(coll_mem_free(data));
  return close_side(&side);
}

Test(gpu_comm, a_call_that_waits_for_a_rank_that_has_left_fails) {
  begin(2);
  RUN_PROCESSES(2, 2, one_call_more);
  RUN_THREADS(2, 2, one_call_more);
}

/* ---- failures -------------------------------------------------------------------------------*/

/* The last rank does not make the call. */
static int with_one_missing(party_rank_t *self, coll_status_t expected, bool is_killed) {
  int gpus = *(const int *)self->context;
  side_t side;
  float *data;
  PARTY_TRY(open_side(self->rank, gpus, &side));
  PARTY_OK(coll_mem_alloc(side.device, 4096, (void **)&data));
  PARTY_OK(coll_allreduce(data, data, 1024, COLL_FLOAT32, COLL_SUM, self->comm, side.stream));
  PARTY_OK(coll_stream_sync(side.stream));
  harness_barrier();
  uint64_t begin_ns = base_clock_now_ns();
  if (self->rank == self->size - 1) {
    if (is_killed) harness_kill(self->rank);
    PARTY_OK(coll_comm_abort(self->comm));
  } else {
    coll_status_t status =
        coll_allreduce(data, data, 1024, COLL_FLOAT32, COLL_SUM, self->comm, side.stream);
    PARTY_REQUIRE(status == COLL_OK || status == expected, "status %d", (int)status);
    PARTY_OK(coll_stream_sync(side.stream));
    uint64_t ms = (base_clock_now_ns() - begin_ns) / 1000000;
    PARTY_REQUIRE(ms < 20000, "ended after %d ms", (int)ms);
    PARTY_REQUIRE(coll_comm_error(self->comm) == expected, "%s", coll_last_error(NULL));
    char name[24];
    snprintf(name, sizeof name, "rank %d", self->size - 1);
    PARTY_REQUIRE(strstr(coll_last_error(NULL), name) != NULL, "%s", coll_last_error(NULL));
  }
  coll_comm_destroy(self->comm);
  self->comm = NULL;
  PARTY_OK(coll_mem_free(data));
  return close_side(&side);
}

static int with_one_aborted(party_rank_t *self) {
  return with_one_missing(self, COLL_ERROR_RANK_LOST, false);
}

static int with_one_killed(party_rank_t *self) {
  return with_one_missing(self, COLL_ERROR_RANK_LOST, true);
}

Test(gpu_comm, an_abort_ends_the_kernels_of_all_ranks) {
  begin(GPUS);
  RUN_PROCESSES(3, GPUS, with_one_aborted);
  RUN_THREADS(3, GPUS, with_one_aborted);
}

Test(gpu_comm, the_death_of_a_rank_ends_the_kernels_of_others) {
  int gpus = GPUS;
  harness_result_t result;
  begin(GPUS);
  party_processes(3, 60000, with_one_killed, &gpus, &result);
  for (int rank = 0; rank < 2; rank++) {
    cr_assert(result.ranks[rank].end == HARNESS_RETURNED && result.ranks[rank].value == 0, "%s",
              result.text);
  }
  cr_assert(result.ranks[2].end == HARNESS_KILLED);
}

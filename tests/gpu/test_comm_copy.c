/*
 * Communicators whose calls the copy engines carry out, through coll.h, on the stand-in for the
 * driver: processes that share a GPU, and ranks that ask for it (COLL_CUDA_ENGINE).
 */
#include "base/names.h"
#include "gpu/comm_copy.h"
#include "gpu/standin_kernel.h"

TestSuite(gpu_comm_copy, .timeout = 120 * HARNESS_BUILD_PATIENCE);

/* Of the stand-in; libcoll does not call them. */
cuda_result_t cuStreamBeginCapture_v2(cuda_stream_t stream, cuda_capture_mode_t mode);
cuda_result_t cuStreamEndCapture(cuda_stream_t stream, cuda_graph_t *graph);
cuda_result_t cuGraphDestroy(cuda_graph_t graph);

#if defined(__SANITIZE_THREAD__)
#define IS_SLOW true
#else
#define IS_SLOW false
#endif

/* ---- collectives ----------------------------------------------------------------------------*/

static int every_collective(party_rank_t *self) {
  static const size_t counts[] = {1, 3, 1000, 70001};
  side_t side;
  PARTY_TRY(open_side(self, &side));
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    if (!base_collective_is_on_gpus((coll_collective_t)c)) continue;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
      question_t q = {.collective = (coll_collective_t)c,
                      .size = self->size,
                      .root = self->size - 1,
                      .count = c == COLL_BARRIER ? 0 : counts[i],
                      .dtype = COLL_FLOAT32,
                      .op = i % 2 == 0 ? COLL_SUM : COLL_AVG,
                      .seed = i + 7};
      party_style_t style = {.gpus = *(const int *)self->context, .in_place = i % 2 == 1};
      if (i != 2) style.stream = side.streams[i % 2]; /* else the communicator's own */
      PARTY_TRY(party_ask(self, &q, &style));
    }
  }
  return close_side(&side);
}

Test(gpu_comm_copy, every_collective_of_two) {
  run(2, every_collective);
}

Test(gpu_comm_copy, every_collective_of_four) {
  if (!IS_SLOW) run(4, every_collective);
}

static int every_algorithm(party_rank_t *self) {
  side_t side;
  PARTY_TRY(open_side(self, &side));
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    if (c == COLL_SENDRECV || !base_collective_is_on_gpus((coll_collective_t)c)) continue;
    for (int i = 0; coll_algo_name((coll_collective_t)c, i) != NULL; i++) {
      question_t q = {.collective = (coll_collective_t)c,
                      .size = self->size,
                      .count = c == COLL_BARRIER ? 0 : 500,
                      .dtype = COLL_INT32,
                      .seed = 11};
      party_style_t style = {.gpus = *(const int *)self->context, .stream = side.streams[0]};
      PARTY_OK(coll_comm_algo_set(self->comm, q.collective, coll_algo_name(q.collective, i)));
      PARTY_TRY(party_ask(self, &q, &style));
    }
    PARTY_OK(coll_comm_algo_set(self->comm, (coll_collective_t)c, NULL));
  }
  return close_side(&side);
}

Test(gpu_comm_copy, every_algorithm) {
  run(3, every_algorithm);
}

static int every_dtype_and_op(party_rank_t *self) {
  side_t side;
  PARTY_TRY(open_side(self, &side));
  for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++) {
    bool is_float = dtype >= COLL_FLOAT16 && dtype <= COLL_FLOAT8_E5M2;
    for (int op = 0; op < COLL_OP_BUILTIN_COUNT; op++) {
      if (is_float && op >= COLL_BAND) continue;
      question_t q = {.collective = op % 2 == 0 ? COLL_ALLREDUCE : COLL_REDUCE_SCATTER,
                      .size = self->size,
                      .count = 301,
                      .dtype = (coll_dtype_t)dtype,
                      .op = (coll_op_t)op,
                      .seed = 3};
      party_style_t style = {.gpus = *(const int *)self->context, .stream = side.streams[0]};
      PARTY_TRY(party_ask(self, &q, &style));
    }
  }
  return close_side(&side);
}

Test(gpu_comm_copy, every_dtype_and_op) {
  run(2, every_dtype_and_op);
}

static int premul_sums(party_rank_t *self) {
  enum { COUNT = 40000 };
  side_t side;
  float *data, scalar = (float)(self->rank + 2),
               factor = (float)(self->size * (self->size + 3) / 2);
  coll_op_t op;
  PARTY_TRY(open_side(self, &side));
  PARTY_OK(coll_op_create_premul_sum(&scalar, COLL_FLOAT32, COLL_SCALAR_HOST_IMMEDIATE, self->comm,
                                     &op));
  PARTY_OK(coll_mem_alloc(side.device, COUNT * sizeof *data, (void **)&data));
  for (int count = 10; count <= COUNT; count *= 4000) {
    for (int i = 0; i < count; i++) data[i] = (float)(i % 100);
    PARTY_OK(
        coll_allreduce(data, data, (size_t)count, COLL_FLOAT32, op, self->comm, side.streams[0]));
    PARTY_OK(coll_stream_sync(side.streams[0]));
    for (int i = 0; i < count; i++) {
      PARTY_REQUIRE(data[i] == (float)(i % 100) * factor, "element %d is %g", i, (double)data[i]);
    }
  }
  PARTY_OK(coll_op_destroy(op, self->comm));
  PARTY_OK(coll_mem_free(data));
  return close_side(&side);
}

Test(gpu_comm_copy, premul_sum) {
  run(3, premul_sums);
}

/* ---- order ----------------------------------------------------------------------------------*/

/* Calls return before peers make theirs, each uses the result of the one before, and they go to two
 * streams in turn. */
static int in_order(party_rank_t *self) {
  enum { COUNT = 5000, CALLS = 40 };
  side_t side;
  uint64_t *data, expected = 1;
  PARTY_TRY(open_side(self, &side));
  PARTY_OK(coll_mem_alloc(side.device, COUNT * sizeof *data, (void **)&data));
  for (int i = 0; i < COUNT; i++) data[i] = 1;
  PARTY_OK(coll_barrier(self->comm, side.streams[0])); /* connects */
  if (self->rank > 0) harness_barrier();
  for (int call = 0; call < CALLS; call++) {
    PARTY_OK(coll_allreduce(data, data, COUNT, COLL_UINT64, COLL_SUM, self->comm,
                            side.streams[call % 2]));
    expected *= (uint64_t)self->size;
  }
  if (self->rank == 0) harness_barrier();
  for (int i = 0; i < 2; i++) PARTY_OK(coll_stream_sync(side.streams[i]));
  for (int i = 0; i < COUNT; i++) {
    PARTY_REQUIRE(data[i] == expected, "element %d is %llu instead of %llu", i,
                  (unsigned long long)data[i], (unsigned long long)expected);
  }
  PARTY_OK(coll_mem_free(data));
  return close_side(&side);
}

Test(gpu_comm_copy, calls_on_two_streams_have_one_order) {
  gpu_setting("COLL_STANDIN_DELAY_US", "50");
  run(2, in_order);
}

/* Host and GPU in turn, on one communicator. */
static int host_and_gpu(party_rank_t *self) {
  side_t side;
  PARTY_TRY(open_side(self, &side));
  for (int i = 0; i < 10; i++) {
    question_t q = {.collective = COLL_ALLREDUCE,
                    .size = self->size,
                    .count = 100,
                    .dtype = COLL_FLOAT64,
                    .seed = (uint64_t)i};
    party_style_t on_gpu = {.gpus = *(const int *)self->context, .stream = side.streams[i % 2]};
    party_style_t on_host = {.gpus = 0};
    PARTY_TRY(party_ask(self, &q, &on_gpu));
    PARTY_TRY(party_ask(self, &q, &on_host));
  }
  return close_side(&side);
}

Test(gpu_comm_copy, host_and_gpu_in_turn) {
  run(2, host_and_gpu);
}

/* ---- groups ---------------------------------------------------------------------------------*/

/* A collective and, to every rank, messages of a size that grows with the distance. */
static int groups(party_rank_t *self) {
  enum { COUNT = 30000 };
  int size = self->size;
  side_t side;
  float *send, *recv, *sum;
  size_t bytes = (size_t)size * COUNT * sizeof(float);
  PARTY_TRY(open_side(self, &side));
  PARTY_OK(coll_mem_alloc(side.device, bytes, (void **)&send));
  PARTY_OK(coll_mem_alloc(side.device, bytes, (void **)&recv));
  PARTY_OK(coll_mem_alloc(side.device, COUNT * sizeof(float), (void **)&sum));
  for (int round = 0; round < 5; round++) {
    for (int i = 0; i < size * COUNT; i++) send[i] = (float)(100 * round + 10 * self->rank + i % 7);
    for (int i = 0; i < COUNT; i++) sum[i] = 1;
    PARTY_OK(coll_group_start());
    for (int step = 0; step < size; step++) {
      int to = (self->rank + step) % size, from = (self->rank + size - step) % size;
      size_t count = (size_t)COUNT / (size_t)size * (size_t)step + 1;
      coll_stream_t stream = side.streams[step % 2];
      PARTY_OK(coll_recv(recv + from * COUNT, count, COLL_FLOAT32, from, self->comm, stream));
      PARTY_OK(coll_send(send + to * COUNT, count, COLL_FLOAT32, to, self->comm, stream));
    }
    PARTY_OK(coll_allreduce(sum, sum, COUNT, COLL_FLOAT32, COLL_SUM, self->comm, side.streams[0]));
    PARTY_OK(coll_group_end());
    for (int i = 0; i < 2; i++) PARTY_OK(coll_stream_sync(side.streams[i]));
    for (int step = 0; step < size; step++) {
      int from = (self->rank + size - step) % size, count = COUNT / size * step + 1;
      for (int i = 0; i < count; i++) {
        float found = recv[from * COUNT + i];
        float right = (float)(100 * round + 10 * from + (self->rank * COUNT + i) % 7);
        PARTY_REQUIRE(found == right, "from %d, element %d: %g instead of %g", from, i,
                      (double)found, (double)right);
      }
    }
    PARTY_REQUIRE(sum[0] == (float)size && sum[COUNT - 1] == (float)size, "%g", (double)sum[0]);
  }
  PARTY_OK(coll_mem_free(send));
  PARTY_OK(coll_mem_free(recv));
  PARTY_OK(coll_mem_free(sum));
  return close_side(&side);
}

Test(gpu_comm_copy, groups_of_sends_and_receives) {
  run(3, groups);
}

/* ---- refusals -------------------------------------------------------------------------------*/

/* The last rank asks for another engine. Calls on the host still work. */
static int other_engine(party_rank_t *self) {
  side_t side;
  float *data, plain = 1;
  setenv("COLL_CUDA_ENGINE", self->rank == self->size - 1 ? "copy" : "auto", 1);
  PARTY_TRY(open_side(self, &side));
  PARTY_OK(coll_mem_alloc(side.device, sizeof *data, (void **)&data));
  coll_status_t status =
      coll_allreduce(data, data, 1, COLL_FLOAT32, COLL_SUM, self->comm, side.streams[0]);
  PARTY_REQUIRE(status == COLL_ERROR_INVALID, "status %d", (int)status);
  PARTY_REQUIRE(strstr(coll_last_error(NULL), "rank 0 has COLL_CUDA_ENGINE=auto, rank 2 has copy"),
                "%s", coll_last_error(NULL));
  PARTY_OK(coll_allreduce(&plain, &plain, 1, COLL_FLOAT32, COLL_SUM, self->comm, NULL));
  PARTY_OK(coll_mem_free(data));
  return close_side(&side);
}

Test(gpu_comm_copy, ranks_that_ask_for_different_engines) {
  int gpus = 3;
  harness_result_t result;
  copy_begin(3);
  cr_assert(party_processes(3, 60000, other_engine, &gpus, &result), "%s", result.text);
}

/* With MPS processes that share a GPU can ask for the kernel, without it they cannot. */
static int asks_for_the_kernel(party_rank_t *self) {
  bool mps = getenv("COLL_STANDIN_MPS") != NULL;
  side_t side;
  float *data;
  PARTY_TRY(open_side(self, &side));
  PARTY_OK(coll_mem_alloc(side.device, sizeof *data, (void **)&data));
  *data = 1;
  coll_status_t status =
      coll_allreduce(data, data, 1, COLL_FLOAT32, COLL_SUM, self->comm, side.streams[0]);
  if (!mps) {
    PARTY_REQUIRE(status == COLL_ERROR_UNSUPPORTED, "status %d", (int)status);
    PARTY_REQUIRE(strstr(coll_last_error(NULL), "unset COLL_CUDA_ENGINE or set it to copy"), "%s",
                  coll_last_error(NULL));
  } else {
    PARTY_REQUIRE(status == COLL_OK, "%s", coll_last_error(NULL));
    PARTY_OK(coll_stream_sync(side.streams[0]));
    PARTY_REQUIRE(*data == (float)self->size, "%g", (double)*data);
    PARTY_REQUIRE(standin_kernel_launches() > 0, "the copy engines serve");
  }
  PARTY_OK(coll_mem_free(data));
  return close_side(&side);
}

Test(gpu_comm_copy, processes_that_ask_for_the_kernel) {
  int gpus = 1;
  harness_result_t result;
  copy_begin(1);
  gpu_setting("COLL_CUDA_ENGINE", "kernel");
  cr_assert(party_processes(2, 60000, asks_for_the_kernel, &gpus, &result), "%s", result.text);
  gpu_setting("COLL_STANDIN_MPS", "1");
  cr_assert(party_processes(2, 60000, asks_for_the_kernel, &gpus, &result), "%s", result.text);
  unsetenv("COLL_CUDA_ENGINE");
  cr_assert(party_processes(2, 60000, asks_for_the_kernel, &gpus, &result), "%s", result.text);
}

/* A call that is captured is refused, and nothing else happens to the communicator. */
static int captured(party_rank_t *self) {
  side_t side;
  float *data;
  cuda_graph_t graph;
  PARTY_TRY(open_side(self, &side));
  PARTY_OK(coll_mem_alloc(side.device, sizeof *data, (void **)&data));
  *data = 1;
  PARTY_OK(coll_barrier(self->comm, side.streams[0]));
  PARTY_REQUIRE(cuStreamBeginCapture_v2(side.cuda[0], CUDA_CAPTURE_GLOBAL) == CUDA_RESULT_OK,
                "no capture");
  coll_status_t status =
      coll_allreduce(data, data, 1, COLL_FLOAT32, COLL_SUM, self->comm, side.streams[0]);
  PARTY_REQUIRE(status == COLL_ERROR_UNSUPPORTED, "status %d", (int)status);
  PARTY_REQUIRE(strstr(coll_last_error(NULL), "COLL_CUDA_ENGINE=kernel"), "%s",
                coll_last_error(NULL));
  PARTY_REQUIRE(cuStreamEndCapture(side.cuda[0], &graph) == CUDA_RESULT_OK &&
                    cuGraphDestroy(graph) == CUDA_RESULT_OK,
                "the capture has failed");
  PARTY_OK(coll_allreduce(data, data, 1, COLL_FLOAT32, COLL_SUM, self->comm, side.streams[0]));
  PARTY_OK(coll_stream_sync(side.streams[0]));
  PARTY_REQUIRE(*data == (float)self->size, "%g", (double)*data);
  PARTY_OK(coll_mem_free(data));
  return close_side(&side);
}

Test(gpu_comm_copy, captured_calls_are_refused) {
  run(2, captured);
}

/*
 * Order, graphs and failures of calls among GPUs of several hosts, and among those of one that
 * cannot access each other.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "gpu/gpu.h"
#include "gpu/graphs.h"
#include "gpu/hosts.h"
#include "gpu/standin/functions.h"
#include "harness/virtual_time.h"

TestSuite(gpu_hosts_order, .timeout = 120 * HARNESS_BUILD_PATIENCE);

#define GPU_REQUIRE(call) PARTY_REQUIRE((call) == CUDA_RESULT_OK, "%s", #call)

static int expect_all(const uint64_t *data, size_t count, uint64_t value) {
  for (size_t i = 0; i < count; i++) {
    PARTY_REQUIRE(data[i] == value, "element %zu is %llu instead of %llu", i,
                  (unsigned long long)data[i], (unsigned long long)value);
  }
  return 0;
}

/* ---- order -----------------------------------------------------------------------------------*/

/* Calls return before peers make theirs, each uses the result of the one before, and they go to two
 * streams in turn. */
static int in_order(hosts_side_t *side) {
  enum { COUNT = 5000, CALLS = 40 };
  party_rank_t *self = &side->self;
  uint64_t *data, expected = 1;
  PARTY_TRY(hosts_alloc(side, COUNT * sizeof *data, (void **)&data));
  for (int i = 0; i < COUNT; i++) data[i] = 1;
  if (self->rank > 0) harness_barrier();
  for (int call = 0; call < CALLS; call++) {
    PARTY_OK(coll_allreduce(data, data, COUNT, COLL_UINT64, COLL_SUM, self->comm,
                            side->streams[call % 2]));
    expected *= (uint64_t)self->size;
  }
  if (self->rank == 0) harness_barrier();
  PARTY_OK(coll_stream_sync(side->streams[0]));
  PARTY_OK(coll_stream_sync(side->streams[1]));
  PARTY_TRY(expect_all(data, COUNT, expected));
  PARTY_OK(coll_mem_free(data));
  return 0;
}

Test(gpu_hosts_order, calls_on_two_streams) {
  HOSTS_RUN(2, {.hosts = 2, .body = in_order});
  HOSTS_RUN(2, {.hosts = 1, .apart = "0", .body = in_order});
  HOSTS_RUN(2, {.hosts = 1, .apart = "0", .threads = true, .body = in_order});
}

/* Without a stream, and in turn with calls on the host, which come from another order on each rank:
 * before those on GPUs have ended. */
static int with_the_host(hosts_side_t *side) {
  enum { COUNT = 1000, CALLS = 20 };
  party_rank_t *self = &side->self;
  uint64_t *data, plain = 1, expected = 1;
  PARTY_TRY(hosts_alloc(side, COUNT * sizeof *data, (void **)&data));
  for (int i = 0; i < COUNT; i++) data[i] = 1;
  for (int call = 0; call < CALLS; call++) {
    coll_stream_t stream = call % 3 == 0 ? NULL : side->streams[0];
    if (stream == NULL) PARTY_OK(coll_stream_sync(side->streams[0]));
    PARTY_OK(coll_allreduce(data, data, COUNT, COLL_UINT64, COLL_SUM, self->comm, stream));
    PARTY_OK(coll_allreduce(&plain, &plain, 1, COLL_UINT64, COLL_SUM, self->comm, NULL));
    expected *= (uint64_t)self->size;
  }
  PARTY_OK(coll_stream_sync(side->streams[0]));
  PARTY_TRY(expect_all(data, COUNT, expected));
  PARTY_TRY(expect_all(&plain, 1, expected));
  PARTY_OK(coll_mem_free(data));
  return 0;
}

Test(gpu_hosts_order, host_and_gpu_in_turn) {
  HOSTS_RUN(3, {.hosts = 2, .body = with_the_host});
  HOSTS_RUN(3, {.hosts = 1, .apart = "0", .body = with_the_host});
}

/* ---- groups of several communicators ---------------------------------------------------------*/

/* A split across hosts has a proxy, one within a host has the kernel. */
static int on_splits(hosts_side_t *side) {
  party_rank_t *self = &side->self;
  coll_comm_t across, within;
  uint64_t *data;
  int half = self->size / 2;
  PARTY_TRY(hosts_alloc(side, 3 * sizeof *data, (void **)&data));
  PARTY_OK(coll_comm_split(self->comm, self->rank % half, 0, NULL, &across));
  PARTY_OK(coll_comm_split(self->comm, self->rank / half, 0, NULL, &within));
  for (int i = 0; i < 3; i++) data[i] = 1;
  PARTY_OK(coll_group_start());
  PARTY_OK(coll_allreduce(data, data, 1, COLL_UINT64, COLL_SUM, within, side->streams[0]));
  PARTY_OK(coll_allreduce(data + 1, data + 1, 1, COLL_UINT64, COLL_SUM, across, side->streams[1]));
  PARTY_OK(
      coll_allreduce(data + 2, data + 2, 1, COLL_UINT64, COLL_SUM, self->comm, side->streams[0]));
  PARTY_OK(coll_group_end());
  PARTY_OK(coll_stream_sync(side->streams[0]));
  PARTY_OK(coll_stream_sync(side->streams[1]));
  PARTY_REQUIRE(data[0] == (uint64_t)half && data[1] == 2 && data[2] == (uint64_t)self->size,
                "%d %d %d", (int)data[0], (int)data[1], (int)data[2]);
  PARTY_OK(coll_comm_destroy(across));
  PARTY_OK(coll_comm_destroy(within));
  PARTY_OK(coll_mem_free(data));
  return 0;
}

Test(gpu_hosts_order, splits) {
  HOSTS_RUN(4, {.hosts = 2, .body = on_splits});
  HOSTS_RUN(4, {.hosts = 1, .gpus = 4, .apart = "0-2", .body = on_splits});
}

/* ---- one thread with several ranks -----------------------------------------------------------*/

enum { RANKS_EACH = 2, LARGE = 1500000 };

static int make_ranks(int host, int size, const coll_unique_id_t *id, coll_comm_t comms[],
                      coll_stream_t streams[], uint64_t *data[]) {
  const cuda_driver_t *driver;
  PARTY_OK(cuda_driver_load(&driver));
  PARTY_OK(coll_group_start());
  for (int i = 0; i < RANKS_EACH; i++) {
    PARTY_OK(cuda_context_enter(driver, i));
    PARTY_OK(coll_stream_from_cuda(NULL, &streams[i]));
    PARTY_OK(coll_mem_alloc(i, LARGE * sizeof *data[i], (void **)&data[i]));
    PARTY_OK(coll_comm_create(id, host * RANKS_EACH + i, size, NULL, &comms[i]));
    cuda_context_leave(driver, i);
  }
  PARTY_OK(coll_group_end());
  return 0;
}

static int sum_and_shift(int host, int size, coll_comm_t comms[], coll_stream_t streams[],
                         uint64_t *data[]) {
  PARTY_OK(coll_group_start());
  for (int i = 0; i < RANKS_EACH; i++) {
    for (int j = 0; j < LARGE; j++) data[i][j] = 1;
    PARTY_OK(coll_allreduce(data[i], data[i], LARGE, COLL_UINT64, COLL_SUM, comms[i], streams[i]));
  }
  PARTY_OK(coll_group_end());
  PARTY_OK(coll_group_start());
  for (int i = 0; i < RANKS_EACH; i++) {
    int rank = host * RANKS_EACH + i, half = LARGE / 2;
    PARTY_OK(
        coll_send(data[i], (size_t)half, COLL_UINT64, (rank + 1) % size, comms[i], streams[i]));
    PARTY_OK(coll_recv(data[i] + half, (size_t)half, COLL_UINT64, (rank + size - 1) % size,
                       comms[i], streams[i]));
  }
  PARTY_OK(coll_group_end());
  for (int i = 0; i < RANKS_EACH; i++) {
    PARTY_OK(coll_stream_sync(streams[i]));
    PARTY_TRY(expect_all(data[i], LARGE, (uint64_t)size));
  }
  return 0;
}

/* A process is a host, or they are of one. */
static int with_several_ranks(int host, int hosts, void *context) {
  coll_unique_id_t *id = harness_board();
  coll_comm_t comms[RANKS_EACH];
  coll_stream_t streams[RANKS_EACH];
  uint64_t *data[RANKS_EACH];
  int size = hosts * RANKS_EACH;
  char name[16];
  const bool *is_one = context;
  snprintf(name, sizeof name, "host%d", host);
  if (!*is_one) setenv("COLL_HOST_ID", name, 1);
  if (host == 0) PARTY_OK(coll_unique_id_create(NULL, id));
  harness_barrier();
  PARTY_TRY(make_ranks(host, size, id, comms, streams, data));
  for (int round = 0; round < 3; round++) {
    PARTY_TRY(sum_and_shift(host, size, comms, streams, data));
  }
  for (int i = 0; i < RANKS_EACH; i++) {
    PARTY_OK(coll_comm_destroy(comms[i]));
    PARTY_OK(coll_stream_destroy(streams[i]));
    PARTY_OK(coll_mem_free(data[i]));
  }
  return 0;
}

Test(gpu_hosts_order, one_thread_with_several_ranks) {
  harness_result_t result;
  for (int i = 0; i < 2; i++) {
    bool is_one = i == 1;
    hosts_begin(2, is_one ? "0" : NULL);
    cr_assert(harness_run(2, 60000, with_several_ranks, &is_one, &result), "%s", result.text);
  }
}

/* ---- graphs ----------------------------------------------------------------------------------*/

/* A sum in two pieces, and a message to the next rank. */
static int capture_calls(hosts_side_t *side, uint64_t *data, size_t count, uint64_t *message,
                         cuda_graph_exec_t *exec) {
  party_rank_t *self = &side->self;
  cuda_graph_t graph;
  int next = (self->rank + 1) % self->size, last = (self->rank + self->size - 1) % self->size;
  GPU_REQUIRE(cuStreamBeginCapture_v2(side->cuda[0], CUDA_CAPTURE_GLOBAL));
  PARTY_OK(coll_allreduce(data, data, count, COLL_UINT64, COLL_SUM, self->comm, side->streams[0]));
  PARTY_OK(coll_group_start());
  PARTY_OK(coll_send(data, 1, COLL_UINT64, next, self->comm, side->streams[0]));
  PARTY_OK(coll_recv(message, 1, COLL_UINT64, last, self->comm, side->streams[0]));
  PARTY_OK(coll_group_end());
  GPU_REQUIRE(cuStreamEndCapture(side->cuda[0], &graph));
  GPU_REQUIRE(cuGraphInstantiateWithFlags(exec, graph, 0));
  GPU_REQUIRE(cuGraphDestroy(graph));
  return 0;
}

static int replay(hosts_side_t *side) {
  enum { COUNT = 600001, LAUNCHES = 20 };
  party_rank_t *self = &side->self;
  cuda_graph_exec_t exec;
  uint64_t *data, *message, expected = 1;
  PARTY_TRY(hosts_alloc(side, COUNT * sizeof *data, (void **)&data));
  PARTY_TRY(hosts_alloc(side, sizeof *message, (void **)&message));
  PARTY_TRY(capture_calls(side, data, COUNT, message, &exec));
  for (int i = 0; i < COUNT; i++) data[i] = 1;
  for (int i = 0; i < LAUNCHES; i++) {
    GPU_REQUIRE(cuGraphLaunch(exec, side->cuda[0]));
    expected *= (uint64_t)self->size;
    if (i % 4 != 0) continue; /* a call between launches */
    PARTY_OK(
        coll_allreduce(data, data, COUNT, COLL_UINT64, COLL_MAX, self->comm, side->streams[0]));
  }
  PARTY_OK(coll_stream_sync(side->streams[0]));
  PARTY_TRY(expect_all(data, COUNT, expected));
  PARTY_TRY(expect_all(message, 1, expected));
  GPU_REQUIRE(cuGraphExecDestroy(exec));
  PARTY_OK(coll_mem_free(data));
  PARTY_OK(coll_mem_free(message));
  return 0;
}

Test(gpu_hosts_order, captured_calls_are_launched_many_times) {
  HOSTS_RUN(2, {.hosts = 2, .body = replay});
  HOSTS_RUN(2, {.hosts = 1, .apart = "0", .body = replay});
  HOSTS_RUN(2, {.hosts = 1, .apart = "0", .threads = true, .body = replay});
}

static int among_calls(hosts_side_t *side) {
  const graphs_side_t graphs = {.driver = side->driver,
                                .device = side->device,
                                .size = side->self.size,
                                .comm = side->self.comm,
                                .cuda = {side->cuda[0], side->cuda[1]},
                                .streams = {side->streams[0], side->streams[1]}};
  PARTY_TRY(graphs_in_order(&graphs));
  PARTY_TRY(graphs_in_turn(&graphs));
  PARTY_TRY(graphs_captured_at_once(&graphs));
  return graphs_of_two_streams(&graphs);
}

Test(gpu_hosts_order, graphs_among_calls_on_other_streams) {
  HOSTS_RUN(2, {.hosts = 2, .body = among_calls});
}

/* ---- copies ----------------------------------------------------------------------------------*/

enum { MESSAGES = 3, LENGTH = 500 };

/* Messages to the next rank, each with numbers of its own; the previous rank's are received. */
static int exchange_messages(hosts_side_t *side, uint64_t *data, coll_stream_t stream) {
  party_rank_t *self = &side->self;
  int next = (self->rank + 1) % self->size, last = (self->rank + self->size - 1) % self->size;
  PARTY_OK(coll_group_start());
  for (int i = 0; i < MESSAGES; i++) {
    uint64_t *out = data + i * LENGTH, *in = data + (MESSAGES + i) * LENGTH;
    PARTY_OK(coll_send(out, LENGTH, COLL_UINT64, next, self->comm, stream));
    PARTY_OK(coll_recv(in, LENGTH, COLL_UINT64, last, self->comm, stream));
  }
  PARTY_OK(coll_group_end());
  return 0;
}

static int expect_messages(const hosts_side_t *side, uint64_t *data) {
  int last = (side->self.rank + side->self.size - 1) % side->self.size;
  for (int i = 0; i < MESSAGES; i++) {
    uint64_t *in = data + (MESSAGES + i) * LENGTH;
    PARTY_TRY(expect_all(in, LENGTH, (uint64_t)(10 * last + i)));
    for (int k = 0; k < LENGTH; k++) in[k] = 0;
  }
  return 0;
}

/* On a stream that takes copies in one call, and on two that do not: the legacy default stream, and
 * one that is captured. */
static int copy_messages(hosts_side_t *side) {
  coll_stream_t legacy;
  cuda_graph_t graph;
  cuda_graph_exec_t exec;
  uint64_t *data;
  PARTY_TRY(hosts_alloc(side, 2 * MESSAGES * LENGTH * sizeof *data, (void **)&data));
  for (int i = 0; i < MESSAGES * LENGTH; i++) {
    data[i] = (uint64_t)(10 * side->self.rank + i / LENGTH);
  }
  PARTY_OK(coll_stream_from_cuda(NULL, &legacy));
  PARTY_TRY(exchange_messages(side, data, legacy));
  PARTY_OK(coll_stream_sync(legacy));
  PARTY_TRY(expect_messages(side, data));
  GPU_REQUIRE(cuStreamBeginCapture_v2(side->cuda[0], CUDA_CAPTURE_GLOBAL));
  PARTY_TRY(exchange_messages(side, data, side->streams[0]));
  GPU_REQUIRE(cuStreamEndCapture(side->cuda[0], &graph));
  GPU_REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0));
  GPU_REQUIRE(cuGraphLaunch(exec, side->cuda[0]));
  PARTY_OK(coll_stream_sync(side->streams[0]));
  PARTY_TRY(expect_messages(side, data));
  PARTY_REQUIRE(standin_batches(true) == 0, "copies were queued together");
  PARTY_TRY(exchange_messages(side, data, side->streams[1]));
  PARTY_OK(coll_stream_sync(side->streams[1]));
  PARTY_TRY(expect_messages(side, data));
  PARTY_REQUIRE(standin_batches(true) == 2, "copies were queued one by one");
  GPU_REQUIRE(cuGraphExecDestroy(exec));
  GPU_REQUIRE(cuGraphDestroy(graph));
  PARTY_OK(coll_stream_destroy(legacy));
  PARTY_OK(coll_mem_free(data));
  return 0;
}

Test(gpu_hosts_order, copies_together_where_the_driver_takes_them) {
  HOSTS_RUN(2, {.hosts = 2, .body = copy_messages});
}

/* ---- failures --------------------------------------------------------------------------------*/

typedef enum missing { MISSING_ABORTS, MISSING_KILLED, MISSING_LATE } missing_t;

static int expect_end(hosts_side_t *side, coll_status_t expected) {
  party_rank_t *self = &side->self;
  char name[24];
  PARTY_OK(coll_stream_sync(side->streams[0]));
  PARTY_OK(coll_stream_sync(side->streams[1]));
  coll_status_t status = coll_comm_error(self->comm);
  PARTY_REQUIRE(status == expected, "status %d: %s", (int)status, coll_last_error(NULL));
  snprintf(name, sizeof name, "rank %d", self->size - 1);
  PARTY_REQUIRE(strstr(coll_last_error(NULL), name) != NULL, "%s", coll_last_error(NULL));
  return 0;
}

/* The time limit of calls passes while the last rank polls: none of the call before. */
static void pass_time(void *context) {
  (void)context;
  virtual_time_advance(5000000);
  base_clock_sleep_ns(1000000);
}

/* The last rank does not make the calls, of several pieces and on two streams. */
static int with_one_missing(hosts_side_t *side, missing_t how, coll_status_t expected) {
  enum { COUNT = 3000000 };
  party_rank_t *self = &side->self;
  float *data;
  if (how == MISSING_LATE) virtual_time_freeze();
  PARTY_TRY(hosts_alloc(side, COUNT * sizeof *data, (void **)&data));
  PARTY_OK(coll_allreduce(data, data, COUNT, COLL_FLOAT32, COLL_SUM, self->comm, side->streams[0]));
  PARTY_OK(coll_stream_sync(side->streams[0]));
  while (coll_comm_gpu_query(self->comm) == COLL_IN_PROGRESS) base_clock_sleep_ns(100000);
  PARTY_OK(coll_comm_gpu_query(self->comm));
  harness_barrier();
  if (self->rank < self->size - 1) {
    for (int i = 0; i < 6; i++) {
      coll_status_t status = coll_allreduce(data, data, COUNT, COLL_FLOAT32, COLL_SUM, self->comm,
                                            side->streams[i % 2]);
      PARTY_REQUIRE(status == COLL_OK || status == expected, "status %d", (int)status);
    }
    PARTY_TRY(expect_end(side, expected));
  } else if (how == MISSING_KILLED) {
    harness_kill(self->rank);
  } else if (how == MISSING_ABORTS) {
    PARTY_OK(coll_comm_abort(self->comm));
  }
  if (how == MISSING_LATE && self->rank < self->size - 1) harness_barrier();
  if (how == MISSING_LATE && self->rank == self->size - 1) harness_barrier_polling(pass_time, NULL);
  coll_comm_destroy(self->comm);
  self->comm = NULL;
  PARTY_OK(coll_mem_free(data));
  return 0;
}

static int with_one_aborted(hosts_side_t *side) {
  return with_one_missing(side, MISSING_ABORTS, COLL_ERROR_RANK_LOST);
}

static int with_one_killed(hosts_side_t *side) {
  return with_one_missing(side, MISSING_KILLED, COLL_ERROR_RANK_LOST);
}

static int with_one_late(hosts_side_t *side) {
  return with_one_missing(side, MISSING_LATE, COLL_ERROR_TIMEOUT);
}

Test(gpu_hosts_order, an_abort_ends_the_calls_of_all_ranks) {
  HOSTS_RUN(3, {.hosts = 2, .body = with_one_aborted});
  HOSTS_RUN(3, {.hosts = 1, .apart = "0", .body = with_one_aborted});
  HOSTS_RUN(3, {.hosts = 1, .apart = "0", .threads = true, .body = with_one_aborted});
}

Test(gpu_hosts_order, the_death_of_a_rank_ends_the_calls_of_others) {
  for (int hosts = 1; hosts <= 3; hosts++) {
    const hosts_setup_t setup = {.hosts = hosts, .apart = "0", .body = with_one_killed};
    harness_result_t result;
    hosts_run(3, &setup, &result);
    for (int rank = 0; rank < 2; rank++) {
      cr_assert(result.ranks[rank].end == HARNESS_RETURNED && result.ranks[rank].value == 0, "%s",
                result.text);
    }
    cr_assert(result.ranks[2].end == HARNESS_KILLED);
  }
}

Test(gpu_hosts_order, the_time_limit_of_calls) {
  gpu_setting("COLL_CALL_TIMEOUT_MS", "500");
  virtual_time_begin();
  HOSTS_RUN(2, {.hosts = 2, .body = with_one_late});
  virtual_time_begin();
  HOSTS_RUN(2, {.hosts = 1, .apart = "0", .body = with_one_late});
}

/* The last rank makes another call, of which the first piece is the same; all get the same text. */
static int other_call(hosts_side_t *side) {
  enum { COUNT = 2000005 };
  party_rank_t *self = &side->self;
  float *data;
  size_t count = COUNT + (self->rank == self->size - 1);
  PARTY_TRY(hosts_alloc(side, count * sizeof *data, (void **)&data));
  /* the others may have failed by the time that the first call returns */
  coll_status_t status =
      coll_allreduce(data, data, 7, COLL_FLOAT32, COLL_SUM, self->comm, side->streams[0]);
  if (status == COLL_OK) {
    status =
        coll_allreduce(data, data, count, COLL_FLOAT32, COLL_SUM, self->comm, side->streams[0]);
  }
  PARTY_OK(coll_stream_sync(side->streams[0]));
  while (status == COLL_OK) {
    status = coll_comm_error(self->comm);
    base_clock_sleep_ns(1000000);
  }
  PARTY_REQUIRE(status == COLL_ERROR_MISMATCH, "status %d: %s", (int)status, coll_last_error(NULL));
  const char *text = coll_last_error(NULL);
  PARTY_REQUIRE(strstr(text, "allreduce(float32, sum, count 2000005)") != NULL &&
                    strstr(text, "allreduce(float32, sum, count 2000006)") != NULL,
                "%s", text);
  coll_comm_destroy(self->comm);
  self->comm = NULL;
  PARTY_OK(coll_mem_free(data));
  return 0;
}

Test(gpu_hosts_order, calls_that_do_not_match_are_named) {
  HOSTS_RUN(3, {.hosts = 2, .body = other_call});
  HOSTS_RUN(3, {.hosts = 1, .apart = "0", .body = other_call});
}

/* Rank 0 makes one call more than the others, which destroy the communicator. */
static int one_call_more(hosts_side_t *side) {
  party_rank_t *self = &side->self;
  float *data;
  PARTY_TRY(hosts_alloc(side, 4096, (void **)&data));
  int calls = self->rank == 0 ? 2 : 1;
  for (int i = 0; i < calls; i++) {
    PARTY_OK(coll_allreduce(data, data, 7, COLL_FLOAT32, COLL_SUM, self->comm, side->streams[0]));
  }
  coll_status_t status = coll_comm_destroy(self->comm);
  self->comm = NULL;
  bool may_be_ok = self->rank > 0; /* unless the message of rank 0 has come before it leaves */
  PARTY_REQUIRE(status == COLL_ERROR_MISMATCH || (may_be_ok && status == COLL_OK), "status %d: %s",
                (int)status, coll_last_error(NULL));
  PARTY_REQUIRE(status == COLL_OK || strstr(coll_last_error(NULL), "destroy") != NULL, "%s",
                coll_last_error(NULL));
  PARTY_OK(coll_mem_free(data));
  return 0;
}

Test(gpu_hosts_order, a_call_that_waits_for_a_rank_that_has_left_fails) {
  HOSTS_RUN(2, {.hosts = 2, .body = one_call_more});
  HOSTS_RUN(2, {.hosts = 1, .apart = "0", .body = one_call_more});
}

/*
 * Communicators whose GPUs are connected when they are created, because each rank has a current
 * CUDA context then: a first call of some ranks waits for none of the others.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "comm/settings.h"
#include "gpu/gpu.h"
#include "harness/party.h"

#define GPUS 4
#define COUNT 1000

TestSuite(gpu_created, .timeout = 120 * HARNESS_BUILD_PATIENCE);

static void begin(int gpus) {
  char text[8];
  snprintf(text, sizeof text, "%d", gpus);
  gpu_setting("COLL_STANDIN_GPUS", text);
  gpu_setting("COLL_STANDIN_DELAY_US", "50");
}

typedef enum way { WAY_BLOCKS, WAY_BACKGROUND, WAY_GROUP } way_t;

/* What a run of ranks has in common. */
typedef struct setup {
  int gpus;    /* rank r's GPU: r % gpus */
  int without; /* this rank has no context when the communicator is created; -1: none */
  way_t way;
} setup_t;

typedef struct side {
  const cuda_driver_t *driver;
  int device;
  cuda_stream_t cuda;
  coll_stream_t stream;
  float *data; /* COUNT */
  coll_comm_t comm;
} side_t;

static int enter(side_t *side, int device) {
  side->device = device;
  PARTY_OK(cuda_driver_load(&side->driver));
  PARTY_OK(cuda_context_enter(side->driver, device));
  return 0;
}

static int await(coll_comm_t comm) {
  coll_status_t status;
  while ((status = coll_comm_error(comm)) == COLL_IN_PROGRESS) base_clock_sleep_ns(100000);
  PARTY_OK(status);
  return 0;
}

static int create(side_t *side, const coll_unique_id_t *id, int rank, int size, way_t way) {
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  config.blocking = way != WAY_BACKGROUND;
  if (way == WAY_GROUP) PARTY_OK(coll_group_start());
  coll_status_t status = coll_comm_create(id, rank, size, &config, &side->comm);
  PARTY_REQUIRE(status == COLL_OK || (status == COLL_IN_PROGRESS && way == WAY_BACKGROUND), "%s",
                coll_last_error(NULL));
  if (way == WAY_GROUP) PARTY_OK(coll_group_end());
  return await(side->comm);
}

/* Each rank makes its communicator itself, by an id. */
static int open_side(int rank, int size, const setup_t *setup, side_t *side) {
  coll_unique_id_t *id = harness_board();
  *side = (side_t){.device = -1};
  if (rank == 0) PARTY_OK(coll_unique_id_create(NULL, id));
  if (rank != setup->without) PARTY_TRY(enter(side, rank % setup->gpus));
  harness_barrier();
  PARTY_TRY(create(side, id, rank, size, setup->way));
  if (rank == setup->without) PARTY_TRY(enter(side, rank % setup->gpus));
  PARTY_REQUIRE(side->driver->cuStreamCreateWithPriority(&side->cuda, CUDA_STREAM_NON_BLOCKING,
                                                         0) == CUDA_RESULT_OK,
                "no stream");
  PARTY_OK(coll_stream_from_cuda(side->cuda, &side->stream));
  PARTY_OK(coll_mem_alloc(side->device, COUNT * sizeof(float), (void **)&side->data));
  for (int i = 0; i < COUNT; i++) side->data[i] = (float)(rank + 1);
  return 0;
}

static int close_side(side_t *side) {
  coll_comm_destroy(side->comm);
  PARTY_OK(coll_mem_free(side->data));
  PARTY_OK(coll_stream_destroy(side->stream));
  PARTY_REQUIRE(side->driver->cuStreamDestroy(side->cuda) == CUDA_RESULT_OK, "the stream is busy");
  cuda_context_leave(side->driver, side->device);
  return 0;
}

static int expect(const side_t *side, float value) {
  for (int i = 0; i < COUNT; i++) {
    PARTY_REQUIRE(side->data[i] == value, "element %d is %g instead of %g", i,
                  (double)side->data[i], (double)value);
  }
  return 0;
}

/* Rank 0 sends to the last rank, with which the call is complete before the others make any. */
static int send_first(side_t *side, coll_comm_t comm, int rank, int size, float value) {
  if (size == 1) return 0;
  if (rank == 0) {
    PARTY_OK(coll_send(side->data, COUNT, COLL_FLOAT32, size - 1, comm, side->stream));
    PARTY_OK(coll_stream_sync(side->stream));
  }
  if (rank == size - 1) {
    PARTY_OK(coll_recv(side->data, COUNT, COLL_FLOAT32, 0, comm, side->stream));
    PARTY_OK(coll_stream_sync(side->stream));
    PARTY_TRY(expect(side, value));
  }
  harness_barrier();
  return 0;
}

static int sum_up(side_t *side, coll_comm_t comm, int rank, int size) {
  for (int i = 0; i < COUNT; i++) side->data[i] = (float)(rank + 1);
  PARTY_OK(
      coll_allreduce(side->data, side->data, COUNT, COLL_FLOAT32, COLL_SUM, comm, side->stream));
  PARTY_OK(coll_stream_sync(side->stream));
  return expect(side, (float)(size * (size + 1) / 2));
}

/* The same on a split, which has the ranks in the reverse order. */
static int pair_first(int rank, int size, void *context) {
  const setup_t *setup = context;
  side_t side;
  coll_comm_t child;
  PARTY_TRY(open_side(rank, size, setup, &side));
  PARTY_TRY(send_first(&side, side.comm, rank, size, 1));
  PARTY_TRY(sum_up(&side, side.comm, rank, size));
  cuda_context_leave(side.driver, side.device); /* a split has the GPU of its parent */
  coll_status_t status = coll_comm_split(side.comm, 0, -rank, NULL, &child);
  PARTY_REQUIRE(status == COLL_OK || status == COLL_IN_PROGRESS, "%s", coll_last_error(NULL));
  PARTY_TRY(await(child));
  PARTY_OK(cuda_context_enter(side.driver, side.device));
  for (int i = 0; i < COUNT; i++) side.data[i] = (float)rank;
  PARTY_TRY(send_first(&side, child, size - 1 - rank, size, (float)(size - 1)));
  PARTY_TRY(sum_up(&side, child, rank, size));
  PARTY_OK(coll_comm_destroy(child));
  return close_side(&side);
}

static void run(bool as_processes, int size, setup_t setup, harness_body_t body) {
  harness_result_t result;
  bool good = as_processes ? harness_run(size, 60000, body, &setup, &result)
                           : harness_run_threads(size, 60000, body, &setup, &result);
  cr_assert(good, "way %d: %s", (int)setup.way, result.text);
}

Test(gpu_created, processes_whose_first_call_is_of_two) {
  begin(GPUS);
  for (int way = WAY_BLOCKS; way <= WAY_GROUP; way++) {
    run(true, 4, (setup_t){.gpus = 4, .without = -1, .way = (way_t)way}, pair_first);
  }
}

Test(gpu_created, threads_whose_first_call_is_of_two) {
  begin(GPUS);
  for (int way = WAY_BLOCKS; way <= WAY_GROUP; way++) {
    run(false, 4, (setup_t){.gpus = 2, .without = -1, .way = (way_t)way}, pair_first);
  }
  run(false, 1, (setup_t){.gpus = 1, .without = -1}, pair_first);
  gpu_expect_clean();
}

/* ---- one thread ------------------------------------------------------------------------------*/

/* Ranks of one thread, of which the first sends to the last. */
static void send_between(coll_comm_t comms[], int size) {
  coll_stream_t streams[GPUS];
  float *data[GPUS];
  const cuda_driver_t *driver = gpu_driver();
  for (int r = 0; r < size; r++) {
    GPU_OK(cuda_context_enter(driver, r));
    GPU_OK(coll_stream_from_cuda(NULL, &streams[r]));
    cuda_context_leave(driver, r);
    GPU_OK(coll_mem_alloc(r, COUNT * sizeof(float), (void **)&data[r]));
    for (int i = 0; i < COUNT; i++) data[r][i] = (float)r + 1;
  }
  GPU_OK(coll_group_start());
  GPU_OK(coll_send(data[0], COUNT, COLL_FLOAT32, size - 1, comms[0], streams[0]));
  GPU_OK(coll_recv(data[size - 1], COUNT, COLL_FLOAT32, 0, comms[size - 1], streams[size - 1]));
  GPU_OK(coll_group_end());
  GPU_OK(coll_stream_sync(streams[size - 1]));
  for (int i = 0; i < COUNT; i++) cr_assert(data[size - 1][i] == 1);
  for (int r = 0; r < size; r++) {
    GPU_OK(coll_comm_destroy(comms[r]));
    GPU_OK(coll_mem_free(data[r]));
    GPU_OK(coll_stream_destroy(streams[r]));
  }
}

Test(gpu_created, ranks_of_one_thread_that_names_their_gpus) {
  coll_comm_t comms[GPUS];
  const int devices[GPUS] = {0, 1, 2, 3}, none[2] = {0, GPUS};
  begin(GPUS);
  GPU_OK(coll_comm_create_local_gpus(GPUS, devices, NULL, comms));
  send_between(comms, GPUS);
  GPU_FAILS(COLL_ERROR_INVALID, "devices is NULL",
            coll_comm_create_local_gpus(2, NULL, NULL, comms));
  GPU_FAILS(COLL_ERROR_INVALID, "coll_comm_create_local_gpus: comms is NULL",
            coll_comm_create_local_gpus(2, devices, NULL, NULL));
  GPU_FAILS(COLL_ERROR_INVALID, "4", coll_comm_create_local_gpus(2, none, NULL, comms));
  gpu_expect_clean();
}

Test(gpu_created, a_group_of_creations_each_in_its_context) {
  coll_comm_t comms[GPUS];
  coll_unique_id_t id;
  begin(GPUS);
  const cuda_driver_t *driver = gpu_driver();
  GPU_OK(coll_unique_id_create(NULL, &id));
  GPU_OK(coll_group_start());
  for (int r = 0; r < GPUS; r++) {
    GPU_OK(cuda_context_enter(driver, r));
    GPU_OK(coll_comm_create(&id, r, GPUS, NULL, &comms[r]));
    cuda_context_leave(driver, r);
  }
  GPU_OK(coll_group_end());
  send_between(comms, GPUS);
  gpu_expect_clean();
}

/* ---- refusals and mismatches -----------------------------------------------------------------*/

/* Processes that share a GPU cannot be connected for the kernel. */
static int refused(int rank, int size, void *context) {
  side_t side;
  float value = 1;
  PARTY_TRY(open_side(rank, size, context, &side));
  for (int round = 0; round < 2; round++) {
    PARTY_OK(coll_allreduce(&value, &value, 1, COLL_FLOAT32, COLL_SUM, side.comm, NULL));
    coll_status_t status =
        coll_allreduce(side.data, side.data, COUNT, COLL_FLOAT32, COLL_SUM, side.comm, side.stream);
    PARTY_REQUIRE(status == COLL_ERROR_UNSUPPORTED, "status %d", (int)status);
    PARTY_REQUIRE(strstr(coll_last_error(NULL), "share a GPU") != NULL, "%s",
                  coll_last_error(NULL));
  }
  PARTY_REQUIRE(value == (float)(size * size), "%g", (double)value);
  return close_side(&side);
}

Test(gpu_created, a_refusal_leaves_a_communicator_for_the_host) {
  begin(1);
  gpu_setting("COLL_CUDA_ENGINE", "kernel");
  run(true, 2, (setup_t){.gpus = 1, .without = -1}, refused);
  run(true, 2, (setup_t){.gpus = 1, .without = -1, .way = WAY_BACKGROUND}, refused);
}

/* Where a rank has no GPU yet, the first call connects. */
static int connects_late(int rank, int size, void *context) {
  side_t side;
  PARTY_TRY(open_side(rank, size, context, &side));
  PARTY_TRY(sum_up(&side, side.comm, rank, size));
  return close_side(&side);
}

Test(gpu_created, a_rank_without_a_gpu) {
  begin(3);
  run(true, 3, (setup_t){.gpus = 3, .without = 1}, connects_late);
  run(false, 3, (setup_t){.gpus = 2, .without = 1}, connects_late);
}

static int elsewhere(int rank, int size, void *context) {
  side_t side;
  float *data;
  int other = 1 - rank;
  PARTY_TRY(open_side(rank, size, context, &side));
  PARTY_OK(coll_mem_alloc(other, sizeof *data, (void **)&data));
  coll_status_t status = coll_allreduce(data, data, 1, COLL_FLOAT32, COLL_SUM, side.comm, NULL);
  PARTY_REQUIRE(status == COLL_ERROR_INVALID, "status %d", (int)status);
  PARTY_REQUIRE(strstr(coll_last_error(NULL), "a rank has one GPU") != NULL, "%s",
                coll_last_error(NULL));
  PARTY_OK(coll_mem_free(data));
  PARTY_TRY(sum_up(&side, side.comm, rank, size));
  return close_side(&side);
}

Test(gpu_created, a_call_on_another_gpu) {
  begin(2);
  run(false, 2, (setup_t){.gpus = 2, .without = -1}, elsewhere);
}

/* One rank calls on its GPU, the other on the host, after a call that matches. */
static int mixed_call(int rank, int size, void *context) {
  side_t side;
  float plain = 1;
  PARTY_TRY(open_side(rank, size, context, &side));
  PARTY_TRY(sum_up(&side, side.comm, rank, size));
  if (rank == 0) {
    PARTY_OK(
        coll_allreduce(side.data, side.data, 1, COLL_FLOAT32, COLL_SUM, side.comm, side.stream));
    PARTY_OK(coll_stream_sync(side.stream));
  } else {
    (void)coll_allreduce(&plain, &plain, 1, COLL_FLOAT32, COLL_SUM, side.comm, NULL);
  }
  coll_status_t status = coll_comm_error(side.comm);
  PARTY_REQUIRE(status == COLL_ERROR_MISMATCH, "status %d: %s", (int)status, coll_last_error(NULL));
  PARTY_REQUIRE(strstr(coll_last_error(NULL), "allreduce(float32, sum, count 1) on GPUs") != NULL,
                "%s", coll_last_error(NULL));
  return close_side(&side);
}

Test(gpu_created, a_call_on_a_gpu_and_one_on_the_host_do_not_match) {
  begin(2);
  run(true, 2, (setup_t){.gpus = 2, .without = -1}, mixed_call);
  run(false, 2, (setup_t){.gpus = 2, .without = -1}, mixed_call);
}

/* ---- settings --------------------------------------------------------------------------------*/

static uint32_t protocols_of(const char *text) {
  uint32_t protocols = 0;
  gpu_setting("COLL_CUDA_PROTOCOLS", text);
  GPU_OK(comm_cuda_protocols_setting(&protocols));
  return protocols;
}

Test(gpu_created, protocols_are_a_list) {
  uint32_t protocols;
  GPU_OK(comm_cuda_protocols_setting(&protocols));
  cr_assert_eq(protocols, (uint32_t)CUDA_PROTOCOLS_DEFAULT);
  cr_assert_eq(protocols_of("simple"), (uint32_t)CUDA_PROTOCOL_SIMPLE);
  cr_assert_eq(protocols_of("ll128"), (uint32_t)(CUDA_PROTOCOL_SIMPLE | CUDA_PROTOCOL_LL128));
  cr_assert_eq(protocols_of("ll128,simple,ll"),
               (uint32_t)(CUDA_PROTOCOLS_DEFAULT | CUDA_PROTOCOL_LL128));
  gpu_setting("COLL_CUDA_PROTOCOLS", "ll,ll12");
  GPU_FAILS(COLL_ERROR_INVALID, "give one or more of simple, ll and ll128",
            comm_cuda_protocols_setting(&protocols));
  gpu_setting("COLL_CUDA_PROTOCOLS", "ll,");
  GPU_FAILS(COLL_ERROR_INVALID, "give one or more", comm_cuda_protocols_setting(&protocols));
}

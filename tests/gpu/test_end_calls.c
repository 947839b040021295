/*
 * Single properties of ends: scaled inputs, contexts and streams, aborts, refusals, and the room.
 */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "device/cuda/end_state.h"
#include "gpu/ends.h"
#include "gpu/standin_kernel.h"

TestSuite(end_calls, .timeout = 120 * HARNESS_BUILD_PATIENCE);

static void set_gpus(const char *gpus) {
  gpu_setting("COLL_STANDIN_GPUS", gpus);
  gpu_setting("COLL_STANDIN_STRICT", "1");
}

/* This rank's program of an allreduce, whose plan the caller frees when the end is destroyed. */
static int allreduce(const ends_rank_t *rank, const char *name, plan_t **plan,
                     const cuda_program_t **program) {
  const plan_shape_t shape = {.collective = COLL_ALLREDUCE, .size = rank->size};
  const algo_t *algo;
  ENDS_TRY(algo_find(COLL_ALLREDUCE, name, &algo));
  ENDS_TRY(algo_build(algo, &shape, rank->rank, false, plan));
  ENDS_TRY(cuda_end_program(rank->end, *plan, program));
  const cuda_program_t *again;
  ENDS_TRY(cuda_end_program(rank->end, *plan, &again));
  ENDS_EXPECT(again == *program);
  return 0;
}

/* ---- premul-sum ------------------------------------------------------------------------------*/

enum { SCALED_CALLS = 12, SCALED_MAX = 900 << 10 };

static int32_t *scaled_values(size_t count, int rank) {
  int32_t *values = malloc((count + 1) * sizeof *values);
  if (values == NULL) abort();
  for (size_t k = 0; k < count; k++) values[k] = (int32_t)k * 3 + rank;
  return values;
}

/* Counts of several steps of the scaled buffer's growth, queued without waiting. */
static size_t scaled_count(int call) {
  static const size_t counts[] = {100, 70000, 10, 600000, 3, 150000};
  return counts[call % 6];
}

static int launch_scaled(const ends_rank_t *rank, const cuda_program_t *program, int call,
                         int32_t *input, int32_t *output) {
  int32_t scalar = call + rank->rank;
  const cuda_request_t request = {.input = input,
                                  .output = output,
                                  .count = scaled_count(call),
                                  .dtype = COLL_INT32,
                                  .scalar = &scalar};
  ENDS_TRY(cuda_end_launch(rank->end, program, &request, rank->streams[call % 2]));
  scalar = -1;
  return 0;
}

static int scale(int rank_number, int size, void *context) {
  int32_t *inputs[SCALED_CALLS], *outputs[SCALED_CALLS];
  const cuda_program_t *program;
  ends_rank_t rank;
  plan_t *plan;
  if (ends_open(context, rank_number, size, &rank) != 0) return 1;
  if (allreduce(&rank, "ring", &plan, &program) != 0) return 1;
  for (int call = 0; call < SCALED_CALLS; call++) {
    inputs[call] = scaled_values(scaled_count(call), rank_number);
    outputs[call] = scaled_values(scaled_count(call), 0);
    if (launch_scaled(&rank, program, call, inputs[call], outputs[call]) != 0) return 1;
  }
  ENDS_TRY(cuda_end_synchronize(rank.end));
  for (int call = 0; call < SCALED_CALLS; call++) {
    for (size_t k = 0; k < scaled_count(call); k++) {
      int32_t base = (int32_t)k * 3, wanted = call * base + (call + 1) * (base + 1);
      ENDS_EXPECT(outputs[call][k] == wanted);
      ENDS_EXPECT(inputs[call][k] == base + rank_number);
    }
    free(inputs[call]);
    free(outputs[call]);
  }
  if (ends_close(&rank) != 0) return 1;
  plan_free(plan);
  return 0;
}

Test(end_calls, scale_inputs_of_premul_sums) {
  ends_t ends = {.gpus = 2};
  set_gpus("2");
  ends_run_threads(2, scale, &ends);
}

/* ---- contexts and streams --------------------------------------------------------------------*/

static int launch_one(const ends_rank_t *rank, const cuda_program_t *program, cuda_stream_t stream,
                      int32_t *output) {
  static const int32_t inputs[] = {5, 7};
  const cuda_request_t request = {
      .input = &inputs[rank->rank], .output = output, .count = 1, .dtype = COLL_INT32};
  ENDS_TRY(cuda_end_launch(rank->end, program, &request, stream));
  return 0;
}

static int launch_in_domain(int rank_number, int size, void *context) {
  const cuda_program_t *program;
  int32_t output;
  ends_rank_t rank;
  plan_t *plan;
  if (ends_open(context, rank_number, size, &rank) != 0) return 1;
  if (allreduce(&rank, "staged", &plan, &program) != 0) return 1;
  if (launch_one(&rank, program, rank.streams[0], &output) != 0) return 1;
  ENDS_TRY(cuda_end_synchronize(rank.end));
  if (ends_close(&rank) != 0) return 1;
  plan_free(plan);
  return 0;
}

/* Fences of programs wait for no store of ours where the GPU has several domains. */
static void check_domains(const char *domains, bool in_default_domain) {
  ends_t ends = {.gpus = 2};
  set_gpus("2");
  gpu_setting("COLL_STANDIN_DOMAINS", domains);
  ends_run_threads(2, launch_in_domain, &ends);
  cr_assert(standin_launches(in_default_domain) == 2);
  cr_assert(standin_launches(!in_default_domain) == 0);
}

Test(end_calls, launch_in_another_domain_than_programs) {
  check_domains("2", false);
}

Test(end_calls, launch_on_gpus_with_one_domain) {
  check_domains("1", true);
}

static int keep_contexts(int rank_number, int size, void *context) {
  const cuda_program_t *program;
  cuda_context_t current, other;
  int32_t outputs[3] = {0};
  ends_rank_t rank;
  plan_t *plan;
  if (ends_open(context, rank_number, size, &rank) != 0) return 1;
  if (allreduce(&rank, "staged", &plan, &program) != 0) return 1;
  if (launch_one(&rank, program, NULL, &outputs[0]) != 0) return 1;
  ENDS_TRY(rank.driver->cuCtxGetCurrent(&current));
  ENDS_EXPECT(current == NULL);
  ENDS_TRY(cuda_context_enter(rank.driver, 2));
  ENDS_TRY(rank.driver->cuCtxGetCurrent(&other));
  if (launch_one(&rank, program, rank.streams[0], &outputs[1]) != 0) return 1;
  if (launch_one(&rank, program, NULL, &outputs[2]) != 0) return 1;
  ENDS_TRY(rank.driver->cuCtxGetCurrent(&current));
  ENDS_EXPECT(current == other);
  ENDS_TRY(cuda_end_synchronize(rank.end));
  for (int i = 0; i < 3; i++) ENDS_EXPECT(outputs[i] == 12);
  cuda_context_leave(rank.driver, 2);
  if (ends_close(&rank) != 0) return 1;
  plan_free(plan);
  return 0;
}

Test(end_calls, keep_the_current_context) {
  ends_t ends = {.gpus = 2};
  set_gpus("3");
  ends_run_threads(2, keep_contexts, &ends);
}

/* ---- abort -----------------------------------------------------------------------------------*/

/* Rank 0 never launches. */
static int abort_late(int rank_number, int size, void *context) {
  static int32_t data[4][1000];
  const cuda_program_t *program;
  ends_rank_t rank;
  plan_t *plan;
  if (ends_open(context, rank_number, size, &rank) != 0) return 1;
  if (allreduce(&rank, "ring", &plan, &program) != 0) return 1;
  const cuda_request_t request = {
      .input = data[rank_number], .output = data[rank_number], .count = 1000, .dtype = COLL_INT32};
  for (int i = 0; i < 3 && rank_number > 0; i++) {
    ENDS_TRY(cuda_end_launch(rank.end, program, &request, rank.streams[0]));
  }
  base_clock_sleep_ns(30000000);
  ENDS_EXPECT(!cuda_end_has_failed(rank.end));
  cuda_end_abort(rank.end);
  ENDS_TRY(cuda_end_synchronize(rank.end));
  ENDS_EXPECT(cuda_end_has_failed(rank.end) == (rank_number > 0));
  if (ends_close(&rank) != 0) return 1;
  plan_free(plan);
  return 0;
}

Test(end_calls, abort_ends_what_is_queued) {
  ends_t ends = {.gpus = 2};
  set_gpus("2");
  ends_run_threads(4, abort_late, &ends);
}

/* ---- refusals --------------------------------------------------------------------------------*/

/* With the default engine. */
static cuda_end_t *end_of(int rank, int size, int device, cuda_record_t *record) {
  const cuda_end_config_t config = {.rank = rank, .size = size, .device = device, .process = 1};
  cuda_end_t *end = NULL;
  GPU_OK(cuda_end_create(gpu_driver(), &config, &end));
  cuda_end_describe(end, record);
  return end;
}

Test(end_calls, refuse_processes_that_share_a_gpu) {
  cuda_record_t records[3];
  set_gpus("2");
  cuda_end_t *end = end_of(0, 3, 0, &records[0]);
  records[1] = records[2] = records[0];
  records[1].gpu.bytes[0]++;
  records[1].process = 2;
  records[2].process = 3;
  for (int i = 0; i < 3; i++) records[i].engine = CUDA_ENGINE_KERNEL;
  GPU_FAILS(COLL_ERROR_UNSUPPORTED, "ranks 0 and 2 are processes that share a GPU",
            cuda_end_connect(end, records, NULL));
  records[1].engine = CUDA_ENGINE_COPY;
  GPU_FAILS(COLL_ERROR_INVALID, "rank 0 has COLL_CUDA_ENGINE=kernel, rank 1 has copy",
            cuda_end_connect(end, records, NULL));
  GPU_OK(cuda_end_destroy(end));
  gpu_expect_clean();
}

Test(end_calls, refuse_gpus_without_peer_access) {
  const int none[2] = {-1, -1};
  cuda_record_t records[2];
  set_gpus("2");
  gpu_setting("COLL_STANDIN_PEERS", "0");
  cuda_end_t *ends[] = {end_of(0, 2, 0, &records[0]), end_of(1, 2, 1, &records[1])};
  GPU_FAILS(COLL_ERROR_UNSUPPORTED, "ranks 1 and 0: GPU 1 cannot access the memory of GPU 0",
            cuda_end_connect(ends[1], records, none));
  GPU_OK(cuda_end_destroy(ends[0]));
  GPU_OK(cuda_end_destroy(ends[1]));
  gpu_expect_clean();
}

static int import_fails(int rank_number, int size, void *context) {
  ends_rank_t rank;
  setenv("COLL_STANDIN_PEERS", "0", 1);
  ENDS_EXPECT(ends_open(context, rank_number, size, &rank) != 0);
  ENDS_EXPECT(strstr(base_last_error(), "cannot map the memory of rank") != NULL);
  ENDS_EXPECT(strstr(base_last_error(), "cannot access the memory of GPU") != NULL);
  ENDS_TRY(cuda_end_destroy(rank.end));
  _exit(0); /* and not with the text of ends_open */
}

Test(end_calls, refuse_processes_without_peer_access) {
  ends_t ends = {.gpus = 2};
  set_gpus("2");
  ends_run_processes(2, import_fails, &ends, &ends);
}

Test(end_calls, refuse_plans_that_cannot_be_resident) {
  const int none[2] = {-1, -1};
  cuda_record_t records[2];
  const cuda_program_t *program;
  const algo_t *algo;
  plan_t *plan;
  set_gpus("2");
  cuda_end_t *ends[] = {end_of(0, 2, 0, &records[0]), end_of(1, 2, 0, &records[1])};
  records[0].multiprocessors = records[1].multiprocessors = 1;
  records[0].blocks_each = records[1].blocks_each = 1;
  GPU_OK(cuda_end_connect(ends[0], records, none));
  const plan_shape_t shape = {.collective = COLL_ALLREDUCE, .size = 2};
  GPU_OK(algo_find(COLL_ALLREDUCE, "ring", &algo));
  GPU_OK(algo_build(algo, &shape, 0, false, &plan));
  GPU_FAILS(COLL_ERROR_UNSUPPORTED, "resident", cuda_end_program(ends[0], plan, &program));
  GPU_OK(cuda_end_destroy(ends[0]));
  GPU_OK(cuda_end_destroy(ends[1]));
  plan_free(plan);
  gpu_expect_clean();
}

Test(end_calls, refuse_what_cannot_be_allocated) {
  const cuda_end_config_t config = {.size = 4, .device = 1};
  const cuda_end_config_t missing = {.size = 4, .device = 2};
  cuda_end_t *end = NULL;
  set_gpus("2");
  gpu_setting("COLL_STANDIN_BYTES", "30000000");
  GPU_FAILS(COLL_ERROR_MEMORY, "cuMemCreate on GPU 1",
            cuda_end_create(gpu_driver(), &config, &end));
  GPU_FAILS(COLL_ERROR_INVALID, "GPU 2 does not exist",
            cuda_end_create(gpu_driver(), &missing, &end));
  cr_assert(end == NULL);
  gpu_expect_clean();
}

/* ---- waits -----------------------------------------------------------------------------------*/

static void set_wait(cuda_end_t *end, int block, int peer, uint64_t polls) {
  uint64_t word = polls << 32 | (uint32_t)(peer + 1);
  __atomic_store_n(&gpu_record_waits(end->record)[block], polls == 0 ? 0 : word, __ATOMIC_RELAXED);
}

/* Peers 1 and 2 have left. */
Test(end_calls, tell_waits_that_end_from_those_that_do_not) {
  cuda_record_t record;
  cuda_seen_wait_t seen = {0};
  set_gpus("1");
  cuda_end_t *end = end_of(0, 3, 0, &record);
  cr_assert_not(cuda_end_waits_in_vain(end, 1, &seen));
  set_wait(end, 5, 1, 3);
  set_wait(end, 7, 2, 8);
  for (int look = 0; look < 4; look++) { /* the device does not run the block */
    cr_assert_not(cuda_end_waits_in_vain(end, 1, &seen));
    cr_assert_not(cuda_end_waits_in_vain(end, 2, &seen));
  }
  set_wait(end, 5, 1, 4); /* of polls that began before the first look */
  cr_assert_not(cuda_end_waits_in_vain(end, 1, &seen));
  set_wait(end, 5, 1, 1); /* another wait */
  set_wait(end, 7, 2, 30);
  cr_assert_not(cuda_end_waits_in_vain(end, 1, &seen));
  set_wait(end, 5, 1, 0);
  cr_assert_not(cuda_end_waits_in_vain(end, 1, &seen));
  cr_assert_not(cuda_end_waits_in_vain(end, 2, &seen)); /* is looked at now */
  set_wait(end, 7, 2, 32);
  cr_assert_not(cuda_end_waits_in_vain(end, 1, &seen));
  cr_assert(cuda_end_waits_in_vain(end, 2, &seen));
  set_wait(end, 7, 2, 0);
  GPU_OK(cuda_end_destroy(end));
  gpu_expect_clean();
}

/* ---- the room --------------------------------------------------------------------------------*/

static void check_rooms(uint32_t protocols) {
  int many = (protocols & CUDA_PROTOCOL_LL128) == 0 ? 64 : 56;
  for (int size = 1; size <= 256; size++) {
    gpu_room_t room = cuda_end_room(size, protocols);
    size_t bytes = gpu_arena_bytes(&room);
    cr_assert(bytes <= CUDA_END_ARENA_BYTES, "%d ranks: %zu bytes", size, bytes);
    cr_assert(size > many || room.slices >= 64, "%d ranks: %d slices", size, (int)room.slices);
    cr_assert(room.slot_bytes % GPU_LINE == 0 && room.slot_bytes >= 4096);
    cr_assert(room.scratch_bytes % GPU_LINE == 0);
    cr_assert_eq(room.ll_slot_bytes > 0, (protocols & CUDA_PROTOCOL_LL) != 0);
    cr_assert_eq(room.ll128_slot_bytes > 0, (protocols & CUDA_PROTOCOL_LL128) != 0);
    cr_assert(room.ll_slot_bytes % GPU_LINE == 0 && room.ll128_slot_bytes % GPU_LINE == 0);
    room = cuda_end_copy_room(size);
    bytes = gpu_arena_bytes(&room);
    cr_assert(bytes <= CUDA_END_ARENA_BYTES, "%d ranks: %zu bytes", size, bytes);
    cr_assert(room.slot_bytes % GPU_LINE == 0 && room.slot_bytes >= 4096);
    cr_assert(room.scratch_bytes % GPU_LINE == 0 && room.slices == 1);
  }
}

Test(end_calls, rooms_are_bounded) {
  for (uint32_t more = 0; more < 4; more++) check_rooms(CUDA_PROTOCOL_SIMPLE | more << 1);
}

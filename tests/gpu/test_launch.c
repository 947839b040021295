/*
 * Launches: replayed as a captured graph does, ended by the abort word, bounded by what a device
 * keeps resident; plans and rooms that are refused.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/names.h"
#include "gpu/ranks.h"
#include "verify/random.h"

#define CAPACITY 4096
#if defined(__SANITIZE_THREAD__)
#define REPLAYS 150
#else
#define REPLAYS 1000
#endif

static gpu_program_t *program_of(coll_collective_t collective, const char *name, int size,
                                 int rank) {
  const plan_shape_t shape = {.collective = collective, .size = size};
  const algo_t *algo;
  plan_t *plan = NULL;
  gpu_program_t *program = NULL;
  cr_assert_eq(algo_find(collective, name, &algo), COLL_OK, "%s", base_last_error());
  cr_assert_eq(algo_build(algo, &shape, rank, false, &plan), COLL_OK, "%s", base_last_error());
  cr_assert_eq(gpu_bind_program(plan, rank, &program), COLL_OK, "%s", base_last_error());
  plan_free(plan);
  return program;
}

/* ---- replay ---------------------------------------------------------------------------------*/

#define REPLAY_COUNT 300
#define REPLAY_SIZE 3

typedef struct replay {
  ranks_t ranks;
  int launches;
  bool wrong[REPLAY_SIZE];
  gpu_program_t *captured[REPLAY_SIZE], *ordinary[REPLAY_SIZE];
} replay_t;

static gpu_call_t allreduce_call(replay_t *replay, gpu_program_t *program, int rank, int slices,
                                 const int32_t *input, int32_t *output) {
  ranks_t *ranks = &replay->ranks;
  const gpu_request_t request = {
      .input = input, .output = output, .count = REPLAY_COUNT, .dtype = COLL_INT32};
  gpu_call_t call;
  if (gpu_bind_call(&ranks->room, &ranks->ranks[rank], program, program, &request, slices, &call) !=
      COLL_OK) {
    abort();
  }
  return call;
}

/* Launches one argument again and again, with new data in the same buffers, and every few times an
 * ordinary call by another plan of other slices. */
static void replay_rank(void *context, int rank) {
  replay_t *replay = context;
  int32_t input[REPLAY_COUNT] = {0}, output[REPLAY_COUNT];
  gpu_program_t *first = replay->captured[rank], *second = replay->ordinary[rank];
  const gpu_call_t captured = allreduce_call(replay, first, rank, 2, input, output);
  const gpu_call_t ordinary = allreduce_call(replay, second, rank, 3, input, output);
  for (int i = 0; i < replay->launches; i++) {
    bool is_ordinary = i % 7 == 3;
    for (int k = 0; k < REPLAY_COUNT; k++) input[k] = i * 1000 + rank * 10 + k;
    virtual_launch(&replay->ranks.device, is_ordinary ? &ordinary : &captured,
                   is_ordinary ? gpu_call_blocks(second, 3) : gpu_call_blocks(first, 2),
                   (uint64_t)(i * 100 + rank));
    for (int k = 0; k < REPLAY_COUNT; k++) {
      replay->wrong[rank] = replay->wrong[rank] || output[k] != 3 * (i * 1000 + k) + 30;
    }
  }
}

static void check_replay(const char *captured, const char *ordinary, int launches) {
  replay_t replay = {.launches = launches};
  gpu_room_t room = ranks_room(REPLAY_SIZE);
  ranks_init(&replay.ranks, &room, CAPACITY);
  for (int rank = 0; rank < REPLAY_SIZE; rank++) {
    replay.captured[rank] = program_of(COLL_ALLREDUCE, captured, REPLAY_SIZE, rank);
    replay.ordinary[rank] = program_of(COLL_ALLREDUCE, ordinary, REPLAY_SIZE, rank);
  }
  cr_assert(ranks_run(&replay.ranks, replay_rank, &replay), "%s: deadlock", captured);
  for (int rank = 0; rank < REPLAY_SIZE; rank++) {
    const gpu_counters_t *counters = gpu_arena_counters(replay.ranks.arenas[rank]);
    cr_assert_not(replay.wrong[rank], "%s, rank %d", captured, rank);
    cr_assert_eq(counters->calls, (uint64_t)launches);
    free(replay.captured[rank]);
    free(replay.ordinary[rank]);
  }
  ranks_free(&replay.ranks);
}

Test(gpu, replays_messages) {
  check_replay("ring", "staged", REPLAYS);
}

Test(gpu, replays_signals) {
  check_replay("staged", "ring", REPLAYS);
}

Test(gpu, replays_lanes) {
  check_replay("double_tree", "staged", REPLAYS / 5);
}

/* ---- signals in a row -----------------------------------------------------------------------*/

enum { SIGNALS = 5, SIGNAL_CALLS = 60 };

/* A barrier of two ranks that exchanges several signals, with nothing between the waits. */
static gpu_program_t *signals_program(int rank) {
  const plan_shape_t shape = {.collective = COLL_BARRIER, .size = 2};
  plan_t *plan;
  gpu_program_t *program = NULL;
  cr_assert_eq(plan_create(&shape, "signals", &plan), COLL_OK);
  plan->reach = PLAN_REACH_SCRATCH;
  plan_emitter_t e = {.plan = plan, .program = &plan->programs[rank], .rank = rank};
  for (int i = 0; i < SIGNALS; i++) plan_emit_signal(&e, 0, 1 - rank);
  for (int i = 0; i < SIGNALS; i++) plan_emit_wait(&e, 0, 1 - rank);
  cr_assert_eq(e.status, COLL_OK);
  cr_assert_eq(gpu_bind_program(plan, rank, &program), COLL_OK, "%s", base_last_error());
  plan_free(plan);
  return program;
}

static void signal_rank(void *context, int rank) {
  replay_t *replay = context;
  const gpu_call_t call = allreduce_call(replay, replay->captured[rank], rank, 2, NULL, NULL);
  for (int i = 0; i < SIGNAL_CALLS; i++) {
    virtual_launch(&replay->ranks.device, &call, gpu_call_blocks(replay->captured[rank], 2),
                   (uint64_t)(i * 2 + rank));
  }
}

Test(gpu, counts_adjacent_waits) {
  replay_t replay = {0};
  gpu_room_t room = ranks_room(2);
  ranks_init(&replay.ranks, &room, CAPACITY);
  for (int rank = 0; rank < 2; rank++) replay.captured[rank] = signals_program(rank);
  cr_assert(ranks_run(&replay.ranks, signal_rank, &replay), "deadlock");
  for (int rank = 0; rank < 2; rank++) {
    const gpu_fifo_t *fifo = gpu_arena_fifo(&room, replay.ranks.arenas[rank], 1 - rank, 0, 1);
    cr_assert_eq(fifo->own_waits, (uint64_t)SIGNALS * SIGNAL_CALLS);
    cr_assert_eq(fifo->signals, (uint64_t)SIGNALS * SIGNAL_CALLS);
    free(replay.captured[rank]);
  }
  ranks_free(&replay.ranks);
}

/* ---- abort ----------------------------------------------------------------------------------*/

/* Rank 0 never launches. It sets the abort word when the others have long waited. */
static void run_or_abort(void *context, int rank) {
  replay_t *replay = context;
  int32_t input[REPLAY_COUNT] = {0}, output[REPLAY_COUNT];
  gpu_program_t *program = replay->captured[rank];
  if (rank == 0) {
    base_clock_sleep_ns(30000000);
    gpu_store_relaxed(&replay->ranks.abort, 1);
    return;
  }
  const gpu_call_t call = allreduce_call(replay, program, rank, 4, input, output);
  virtual_launch(&replay->ranks.device, &call, gpu_call_blocks(program, 4), (uint64_t)rank);
}

static void check_abort(const char *algorithm) {
  replay_t replay = {0};
  gpu_room_t room = ranks_room(REPLAY_SIZE);
  ranks_init(&replay.ranks, &room, CAPACITY);
  for (int rank = 0; rank < REPLAY_SIZE; rank++) {
    replay.captured[rank] = program_of(COLL_ALLREDUCE, algorithm, REPLAY_SIZE, rank);
  }
  cr_assert(ranks_run(&replay.ranks, run_or_abort, &replay), "%s did not end", algorithm);
  for (int rank = 0; rank < REPLAY_SIZE; rank++) {
    cr_assert_eq(replay.ranks.failed[rank], rank > 0 ? 1u : 0u, "%s, rank %d", algorithm, rank);
    free(replay.captured[rank]);
  }
  ranks_free(&replay.ranks);
}

Test(gpu, abort_ends_all_blocks) {
  check_abort("ring");
  check_abort("staged");
  check_abort("double_tree");
}

/* ---- resident blocks ------------------------------------------------------------------------*/

Test(gpu, slices_are_bounded_by_resident_blocks) {
  gpu_room_t room = ranks_room(4);
  gpu_program_t *program = program_of(COLL_ALLREDUCE, "double_tree", 4, 0);
  int slices = 0, lanes = program->lanes;
  cr_assert_gt(lanes, 1);
  cr_assert_eq(gpu_resident_blocks(132, 2, 8), 33);
  cr_assert_eq(gpu_resident_blocks(4, 1, 8), 0);
  cr_assert_eq(gpu_bind_slices(&room, program, 33, 2, &slices), COLL_OK);
  cr_assert_eq(slices, 2);
  cr_assert_eq(gpu_bind_slices(&room, program, (uint32_t)(3 * lanes) + 1, 4, &slices), COLL_OK);
  cr_assert_eq(slices, 3);
  cr_assert_eq(gpu_bind_slices(&room, program, 1000, 1000, &slices), COLL_OK);
  cr_assert_eq(slices, room.slices);
  cr_assert_eq(gpu_bind_slices(&room, program, (uint32_t)lanes - 1, 1, &slices),
               COLL_ERROR_UNSUPPORTED);
  cr_assert_not_null(strstr(base_last_error(), "lanes"), "%s", base_last_error());
  free(program);
}

/* Ranks that share a device of few multiprocessors: their blocks fill it. */
Test(gpu, ranks_share_a_device) {
  enum { SIZE = 4, MULTIPROCESSORS = 8, CALLS = 60 };
  const algo_t *algo;
  ranks_call_t calls[CALLS];
  char text[RANKS_TEXT_BYTES] = "";
  ranks_t ranks;
  gpu_room_t room = ranks_room(SIZE);
  ranks_init(&ranks, &room, MULTIPROCESSORS);
  for (int i = 0; i < CALLS; i++) {
    const char *name = i % 3 == 0 ? "staged" : i % 3 == 1 ? "ring" : "double_tree";
    gpu_program_t *program = program_of(COLL_ALLREDUCE, name, SIZE, 0);
    cr_assert_eq(algo_find(COLL_ALLREDUCE, name, &algo), COLL_OK);
    calls[i] = (ranks_call_t){.algo = algo,
                              .question = {.collective = COLL_ALLREDUCE,
                                           .size = SIZE,
                                           .count = 500,
                                           .dtype = COLL_FLOAT32,
                                           .seed = (uint64_t)i}};
    cr_assert_eq(gpu_bind_slices(&room, program, gpu_resident_blocks(MULTIPROCESSORS, 1, SIZE), 4,
                                 &calls[i].slices),
                 COLL_OK, "%s", base_last_error());
    free(program);
  }
  cr_assert(ranks_carry_out(&ranks, calls, CALLS, 5, text), "%s", text);
  ranks_free(&ranks);
}

/* ---- refusals -------------------------------------------------------------------------------*/

Test(gpu, refuses_plans_that_reach_users_buffers) {
  const plan_shape_t shape = {.collective = COLL_ALLREDUCE, .size = 3};
  const algo_t *algo;
  plan_t *plan;
  gpu_program_t *program = NULL;
  cr_assert_eq(algo_find(COLL_ALLREDUCE, "oneshot", &algo), COLL_OK);
  cr_assert_eq(algo_build(algo, &shape, 1, false, &plan), COLL_OK);
  cr_assert_eq(gpu_bind_program(plan, 1, &program), COLL_ERROR_UNSUPPORTED);
  cr_assert_not_null(strstr(base_last_error(), "reach read"), "%s", base_last_error());
  cr_assert_null(program);
  plan_free(plan);
}

static void check_refusal(const gpu_room_t *room, int slices, coll_status_t status,
                          const char *word) {
  gpu_program_t *program = program_of(COLL_ALLREDUCE, "staged", 4, 0);
  const gpu_request_t request = {.count = 10, .dtype = COLL_FLOAT32};
  gpu_call_t call;
  program->depth = 2;
  program->channels = 3;
  cr_assert_eq(gpu_bind_call(room, NULL, program, program, &request, slices, &call), status);
  cr_assert_not_null(strstr(base_last_error(), word), "%s", base_last_error());
  free(program);
}

Test(gpu, refuses_what_the_room_lacks) {
  gpu_room_t room = ranks_room(4), small;
  check_refusal(&room, 0, COLL_ERROR_INVALID, "slices");
  check_refusal(&room, 5, COLL_ERROR_INVALID, "slices");
  small = room;
  small.channels = 2;
  check_refusal(&small, 1, COLL_ERROR_UNSUPPORTED, "channels");
  small = room;
  small.depth = 1;
  check_refusal(&small, 1, COLL_ERROR_UNSUPPORTED, "slots");
  small = room;
  small.scratch_bytes = 8;
  check_refusal(&small, 1, COLL_ERROR_UNSUPPORTED, "does not fit");
}

/*
 * Launches: replayed as a captured graph does, bounded by what a device keeps resident; plans and
 * rooms that are refused.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/names.h"
#include "gpu/ranks.h"
#include "harness/sample.h"
#include "verify/random.h"

#define CAPACITY 4096
#if defined(__SANITIZE_THREAD__)
#define REPLAYS (harness_full() ? 150 : 60)
#else
#define REPLAYS (harness_full() ? 1000 : 250)
#endif

/* ---- replay ---------------------------------------------------------------------------------*/

#define REPLAY_COUNT 300
#define REPLAY_SIZE 3

typedef struct replay {
  ranks_t ranks;
  int launches;
  gpu_protocol_t protocol;
  bool wrong[REPLAY_SIZE];
  gpu_program_t *captured[REPLAY_SIZE], *ordinary[REPLAY_SIZE];
  int32_t input[REPLAY_SIZE][REPLAY_COUNT], output[REPLAY_SIZE][REPLAY_COUNT];
  char *inputs[REPLAY_SIZE], *outputs[REPLAY_SIZE];
} replay_t;

static void set_parts(replay_t *replay) {
  for (int rank = 0; rank < REPLAY_SIZE; rank++) {
    replay->inputs[rank] = (char *)replay->input[rank];
    replay->outputs[rank] = (char *)replay->output[rank];
  }
}

static gpu_call_t allreduce_call(replay_t *replay, gpu_program_t *program, int rank, int slices) {
  ranks_t *ranks = &replay->ranks;
  const gpu_words_t words = {.what = (uint64_t)slices, .count = REPLAY_COUNT};
  const gpu_request_t request = {.input = replay->input[rank],
                                 .output = replay->output[rank],
                                 .input_parts = {.at = replay->inputs},
                                 .output_parts = {.at = replay->outputs},
                                 .count = REPLAY_COUNT,
                                 .dtype = COLL_INT32,
                                 .words = &words,
                                 .protocol = replay->protocol};
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
  int32_t *input = replay->input[rank], *output = replay->output[rank];
  gpu_program_t *first = replay->captured[rank], *second = replay->ordinary[rank];
  const gpu_call_t captured = allreduce_call(replay, first, rank, 2);
  const gpu_call_t ordinary = allreduce_call(replay, second, rank, 3);
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

/* A word, or the last word of a line, of message `count`, without a digest. */
static uint64_t flag_of(gpu_flagged_t kind, uint64_t count) {
  return kind == GPU_FLAGGED_WORDS ? (count & 0xffff) << 32 : count & GPU_COUNT_MASK;
}

static size_t stride_of(gpu_flagged_t kind) {
  return kind == GPU_FLAGGED_WORDS ? 1 : GPU_LINE_WORDS;
}

static void start_flags_at(ranks_t *ranks, int rank, gpu_flagged_t kind, uint64_t count) {
  uint64_t *words = gpu_arena_flagged_slot(&ranks->room, ranks->arenas[rank], kind, 0, 0, 0);
  size_t slots = gpu_arena_fifos(&ranks->room) * (size_t)ranks->room.depth;
  size_t all = slots * gpu_flagged_slot_bytes(&ranks->room, kind) / sizeof *words;
  for (size_t i = 0; i < all; i++) words[i] = flag_of(kind, count);
}

/* As if `count` messages of each protocol, and signals, had been exchanged on every channel, and
 * ranks had arrived at as many calls. */
static void start_at(ranks_t *ranks, uint64_t count) {
  for (int rank = 0; rank < ranks->room.size; rank++) {
    start_flags_at(ranks, rank, GPU_FLAGGED_WORDS, count);
    start_flags_at(ranks, rank, GPU_FLAGGED_LINES, count);
    gpu_fifo_t *fifos = gpu_arena_fifo(&ranks->room, ranks->arenas[rank], 0, 0);
    for (size_t i = 0; i < gpu_arena_fifos(&ranks->room); i++) {
      gpu_fifo_t *fifo = &fifos[i];
      fifo->own_sent = fifo->own_taken = fifo->own_signals = fifo->own_waits = count;
      fifo->taken = count;
      for (int k = 0; k < GPU_FLAGGED_KINDS; k++) {
        fifo->flagged_taken[k].count = count;
        fifo->own_flagged[k].sent = fifo->own_flagged[k].taken = count;
      }
      for (int k = 0; k < GPU_FLAGS; k++) fifo->sent[k] = fifo->signals[k] = count;
    }
    for (int slice = 0; slice < ranks->room.slices; slice++) {
      uint64_t *lines = gpu_arena_arrivals(&ranks->room, ranks->arenas[rank], 0, slice);
      for (int k = 0; k < ranks->room.size * GPU_FLAGS; k++) lines[k] = count;
      *gpu_arena_own_arrivals(&ranks->room, ranks->arenas[rank], slice) = count;
    }
  }
}

/* If the slots of the ring from the rank before were filled since the start, no flag is older. */
static void check_filled(const replay_t *replay, int rank, gpu_flagged_t kind, uint64_t start) {
  const gpu_room_t *room = &replay->ranks.room;
  int before = (rank + REPLAY_SIZE - 1) % REPLAY_SIZE;
  char *arena = replay->ranks.arenas[rank];
  const uint64_t *words = gpu_arena_flagged_slot(room, arena, kind, before, 0, 0);
  uint64_t taken = gpu_arena_fifo(room, arena, before, 0)->own_flagged[kind].taken;
  uint64_t number = flag_of(kind, UINT64_MAX); /* the bits of a number */
  size_t stride = stride_of(kind), bytes = gpu_flagged_slot_bytes(room, kind);
  if (taken / 16384 == start / 16384 || taken % 16384 < (uint64_t)room->depth) return;
  for (size_t i = stride - 1; i < (size_t)room->depth * bytes / sizeof *words; i += stride) {
    cr_assert_neq(words[i] & number, flag_of(kind, start), "rank %d, word %d", rank, (int)i);
  }
}

/* The messages of rank `rank` to the next, of each kind. */
static void check_kinds(const replay_t *replay, int rank, uint64_t start) {
  const gpu_protocol_t protocols[] = {GPU_PROTOCOL_LL, GPU_PROTOCOL_LL128};
  const gpu_fifo_t *next =
      gpu_arena_fifo(&replay->ranks.room, replay->ranks.arenas[rank], (rank + 1) % REPLAY_SIZE, 0);
  for (int kind = 0; kind < GPU_FLAGGED_KINDS; kind++) {
    bool is_used = replay->protocol == protocols[kind];
    cr_assert_eq(next->own_flagged[kind].sent > start, is_used, "kind %d", kind);
    if (is_used) check_filled(replay, rank, (gpu_flagged_t)kind, start);
  }
}

static void check_replay_from(uint64_t start, gpu_protocol_t protocol, const char *captured,
                              const char *ordinary, int launches) {
  replay_t replay = {.launches = launches, .protocol = protocol};
  gpu_room_t room = ranks_room(REPLAY_SIZE);
  ranks_init(&replay.ranks, &room, CAPACITY);
  start_at(&replay.ranks, start);
  set_parts(&replay);
  for (int rank = 0; rank < REPLAY_SIZE; rank++) {
    replay.captured[rank] = ranks_program(COLL_ALLREDUCE, captured, REPLAY_SIZE, rank);
    replay.ordinary[rank] = ranks_program(COLL_ALLREDUCE, ordinary, REPLAY_SIZE, rank);
  }
  cr_assert(ranks_run(&replay.ranks, replay_rank, &replay), "%s: deadlock", captured);
  for (int rank = 0; rank < REPLAY_SIZE; rank++) {
    const gpu_counters_t *counters = gpu_arena_counters(replay.ranks.arenas[rank]);
    cr_assert_not(replay.wrong[rank], "%s, rank %d", captured, rank);
    cr_assert_eq(counters->calls, (uint64_t)launches);
    cr_assert_eq(counters->collectives, (uint64_t)launches);
    check_kinds(&replay, rank, start);
    free(replay.captured[rank]);
    free(replay.ordinary[rank]);
  }
  ranks_free(&replay.ranks);
}

static void check_replay(const char *captured, const char *ordinary, int launches) {
  check_replay_from(0, GPU_PROTOCOL_SLOTS, captured, ordinary, launches);
}

Test(gpu, replays_messages) {
  check_replay("ring", "staged", REPLAYS);
}

Test(gpu, replays_signals) {
  check_replay("staged", "ring", REPLAYS);
}

Test(gpu, replays_arrivals) {
  check_replay("twophase_push", "ring", REPLAYS);
  check_replay("oneshot", "twophase_pull", REPLAYS / 2);
}

Test(gpu, replays_lanes) {
  check_replay("double_tree", "staged", REPLAYS / 5);
}

/* The counts of flags wrap within the first calls, or between words that are in use at once. */
Test(gpu, counts_wrap) {
  const gpu_protocol_t slots = GPU_PROTOCOL_SLOTS;
  check_replay_from(GPU_COUNT_MASK - 9, slots, "ring", "staged", 40);
  check_replay_from(GPU_COUNT_MASK - 9, slots, "staged", "ring", 40);
  check_replay_from((GPU_COUNT_MASK + 1) / 2 - 9, slots, "ring", "staged", 40);
  check_replay_from(GPU_COUNT_MASK - 9, slots, "twophase_push", "oneshot", 40);
  check_replay_from((GPU_COUNT_MASK + 1) / 2 - 9, slots, "oneshot", "ring", 40);
}

Test(gpu, replays_flagged_words) {
  check_replay_from(0, GPU_PROTOCOL_LL, "ring", "double_tree", REPLAYS / 2);
}

Test(gpu, replays_flagged_lines) {
  check_replay_from(0, GPU_PROTOCOL_LL128, "ring", "double_tree", REPLAYS / 2);
}

/* The first 16 bits of the count wrap; slots are filled again. */
Test(gpu, flagged_words_wrap) {
  check_replay_from(65536 - 30, GPU_PROTOCOL_LL, "ring", "double_tree", 40);
  check_replay_from(16384 - 30, GPU_PROTOCOL_LL, "ring", "double_tree", 40);
  check_replay_from(32768 - 30, GPU_PROTOCOL_LL, "double_tree", "ring", 40);
}

Test(gpu, flagged_lines_wrap) {
  check_replay_from(GPU_COUNT_MASK - 29, GPU_PROTOCOL_LL128, "ring", "double_tree", 40);
  check_replay_from((GPU_COUNT_MASK + 1) / 2 - 30, GPU_PROTOCOL_LL128, "double_tree", "ring", 40);
  check_replay_from(16384 - 30, GPU_PROTOCOL_LL128, "ring", "double_tree", 40);
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
  const gpu_call_t call = allreduce_call(replay, replay->captured[rank], rank, 2);
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
    const gpu_fifo_t *fifo = gpu_arena_fifo(&room, replay.ranks.arenas[rank], 1 - rank, 1);
    cr_assert_eq(fifo->own_waits, (uint64_t)SIGNALS * SIGNAL_CALLS);
    cr_assert_eq(fifo->signals[fifo->own_waits % GPU_FLAGS] & GPU_COUNT_MASK, fifo->own_waits);
    free(replay.captured[rank]);
  }
  ranks_free(&replay.ranks);
}

/* ---- entering by lanes ----------------------------------------------------------------------*/

/* Lane 1 reads the peer's INPUT; lane 0, which enters the call for both, does nothing. */
static gpu_program_t *lanes_program(int rank) {
  const plan_shape_t shape = {.collective = COLL_ALLREDUCE, .size = 2};
  plan_t *plan;
  gpu_program_t *program = NULL;
  cr_assert_eq(plan_create(&shape, "lanes", &plan), COLL_OK);
  cr_assert_eq(plan_set_lanes(plan, 2), COLL_OK);
  plan->reach = PLAN_REACH_READ;
  plan_emitter_t e = {.plan = plan, .program = &plan->programs[rank], .rank = rank};
  plan_emit_copy(&e, 1, plan_output(&e, 0, 1), plan_peer_input(1 - rank, 0, 1));
  plan_emit_signal(&e, 1, 1 - rank);
  plan_emit_wait(&e, 1, 1 - rank);
  cr_assert_eq(e.status, COLL_OK);
  cr_assert_eq(gpu_bind_program(plan, rank, &program), COLL_OK, "%s", base_last_error());
  plan_free(plan);
  return program;
}

/* The ranks fill their inputs late in turn. */
static void read_by_lane(void *context, int rank) {
  replay_t *replay = context;
  const gpu_call_t call = allreduce_call(replay, replay->captured[rank], rank, 2);
  for (int i = 0; i < 20; i++) {
    if (i % 2 == rank) base_clock_sleep_ns(2000000);
    for (int k = 0; k < REPLAY_COUNT; k++) replay->input[rank][k] = 10 * i + rank;
    virtual_launch(&replay->ranks.device, &call, gpu_call_blocks(replay->captured[rank], 2),
                   (uint64_t)(i * 2 + rank));
    for (int k = 0; k < REPLAY_COUNT; k++) {
      replay->wrong[rank] = replay->wrong[rank] || replay->output[rank][k] != 10 * i + 1 - rank;
    }
  }
}

Test(gpu, lanes_enter_together) {
  replay_t replay = {0};
  gpu_room_t room = ranks_room(2);
  ranks_init(&replay.ranks, &room, CAPACITY);
  set_parts(&replay);
  for (int rank = 0; rank < 2; rank++) replay.captured[rank] = lanes_program(rank);
  cr_assert(ranks_run(&replay.ranks, read_by_lane, &replay), "deadlock");
  for (int rank = 0; rank < 2; rank++) {
    cr_assert_not(replay.wrong[rank], "rank %d", rank);
    free(replay.captured[rank]);
  }
  ranks_free(&replay.ranks);
}

/* ---- resident blocks ------------------------------------------------------------------------*/

Test(gpu, slices_are_bounded_by_resident_blocks) {
  gpu_room_t room = ranks_room(4);
  gpu_program_t *program = ranks_program(COLL_ALLREDUCE, "double_tree", 4, 0);
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
  room.rings = 3 * lanes - 1;
  cr_assert_eq(gpu_bind_slices(&room, program, 1000, 1000, &slices), COLL_OK);
  cr_assert_eq(slices, 2);
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
    gpu_program_t *program = ranks_program(COLL_ALLREDUCE, name, SIZE, 0);
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

/* Buffers that a plan accesses of peers must be in windows, and unscaled. */
Test(gpu, refuses_buffers_that_peers_cannot_reach) {
  char *none = NULL;
  const gpu_parts_t parts = {.at = &none};
  const uint64_t scalar = 0;
  gpu_room_t room = ranks_room(3);
  gpu_program_t *program = ranks_program(COLL_ALLREDUCE, "oneshot", 3, 1);
  gpu_request_t request = {.count = 10, .dtype = COLL_FLOAT32};
  gpu_call_t call;
  cr_assert_eq(gpu_bind_call(&room, NULL, program, program, &request, 1, &call),
               COLL_ERROR_UNSUPPORTED);
  cr_assert_not_null(strstr(base_last_error(), "in no window"), "%s", base_last_error());
  request.output_parts = parts;
  cr_assert_eq(gpu_bind_call(&room, NULL, program, program, &request, 1, &call),
               COLL_ERROR_UNSUPPORTED);
  request.input_parts = parts;
  cr_assert_eq(gpu_bind_call(&room, NULL, program, program, &request, 1, &call), COLL_OK);
  request.scalar = &scalar;
  cr_assert_eq(gpu_bind_call(&room, NULL, program, program, &request, 1, &call),
               COLL_ERROR_UNSUPPORTED);
  cr_assert_not_null(strstr(base_last_error(), "premul-sum"), "%s", base_last_error());
  free(program);
}

/* Without SCRATCH, a slice is one pass, however large. */
Test(gpu, pushes_a_slice_in_one_pass) {
  char *none = NULL;
  const gpu_parts_t parts = {.at = &none};
  gpu_room_t room = ranks_room(3);
  gpu_program_t *program = ranks_program(COLL_ALLREDUCE, "twophase_push", 3, 1);
  const gpu_request_t request = {
      .count = (size_t)1 << 40, .dtype = COLL_FLOAT32, .input_parts = parts, .output_parts = parts};
  gpu_call_t call;
  cr_assert_eq(gpu_bind_call(&room, NULL, program, program, &request, 4, &call), COLL_OK);
  cr_assert_eq(call.passes, 1u);
  free(program);
}

static void check_refusal(const gpu_room_t *room, int slices, coll_status_t status,
                          const char *word) {
  gpu_program_t *program = ranks_program(COLL_ALLREDUCE, "staged", 4, 0);
  const gpu_request_t request = {.count = 10, .dtype = COLL_FLOAT32};
  gpu_call_t call;
  program->depth = 2;
  program->lanes = 3;
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
  check_refusal(&small, 1, COLL_ERROR_UNSUPPORTED, "lanes");
  small = room;
  small.rings = 5;
  check_refusal(&small, 2, COLL_ERROR_INVALID, "at most 1 slices");
  small = room;
  small.depth = 1;
  check_refusal(&small, 1, COLL_ERROR_UNSUPPORTED, "slots");
  small = room;
  small.scratch_bytes = GPU_LINE;
  check_refusal(&small, 2, COLL_ERROR_UNSUPPORTED, "does not fit");
}

/* Which window of SCRATCH a call uses. */
#include <criterion/criterion.h>
#include <string.h>

#include "alone.h"
#include "engine/lane.h"

enum { WINDOW = 4096, WINDOWS = 3, ROOM_BYTES = WINDOWS * WINDOW + 100 };

static char scratch[ROOM_BYTES], input[ROOM_BYTES + WINDOW];

/* A copy from INPUT to SCRATCH. */
static const plan_step_t step = {
    .kind = PLAN_COPY,
    .copy = {.dst = {.rank = 0, .buffer = PLAN_SCRATCH, .first = 0, .count = 1},
             .src = {.rank = 0, .buffer = PLAN_INPUT, .first = 0, .count = 1}}};
static const plan_program_t program = {
    .lanes = (plan_lane_t[]){{.steps = (plan_step_t *)&step, .count = 1}}};
static const plan_t plan = {.shape = {COLL_BROADCAST, 1, 0},
                            .reach = PLAN_REACH_SCRATCH,
                            .parts = 1,
                            .lanes = 1,
                            .scratch_chunks = 1};

static void open_with_room(alone_t *alone) {
  alone_open(alone, &device_host_portable);
  alone->world.room.scratch_bytes = ROOM_BYTES;
  alone->view.buffers[PLAN_SCRATCH] = scratch;
  for (size_t i = 0; i < sizeof input; i++) input[i] = (char)(1 + i % 100);
}

static engine_call_t call_of(uint32_t sequence, size_t count) {
  return (engine_call_t){
      .input = input, .count = count, .element_bytes = 1, .id.what = flight_what_at(1, sequence)};
}

/* Whether only this window holds INPUT and the rest is zero. */
static bool only_window_is(size_t window, size_t bytes) {
  for (size_t i = 0; i < ROOM_BYTES; i++) {
    bool inside = i >= window * WINDOW && i < window * WINDOW + bytes;
    char wanted = inside ? input[i - window * WINDOW] : 0;
    if (scratch[i] != wanted) return false;
  }
  return true;
}

/* Runs a call with zeroed SCRATCH; whether it stored into this window only. */
static bool uses_window(alone_t *alone, size_t window, const plan_t *made_by, engine_call_t call) {
  memset(scratch, 0, sizeof scratch);
  alone_run(alone, made_by, &program, &call);
  return only_window_is(window, call.count);
}

/* The same for a first call, with `room` bytes of SCRATCH. */
static bool first_uses_window(size_t window, const plan_t *made_by, engine_call_t call,
                              size_t room) {
  alone_t alone;
  open_with_room(&alone);
  alone.world.room.scratch_bytes = room;
  bool uses = uses_window(&alone, window, made_by, call);
  alone_close(&alone);
  return uses;
}

/* Runs calls of these numbers. The window depends on the lower 24 bits. */
static void check_rotation(uint32_t first, uint32_t end) {
  alone_t alone;
  open_with_room(&alone);
  for (uint32_t call = first; call < end; call++) {
    size_t window = (call & 0xffffff) % WINDOWS;
    cr_assert(uses_window(&alone, window, &plan, call_of(call, WINDOW)), "call %d", (int)call);
  }
  alone_close(&alone);
}

Test(windows, rotate_from_call_to_call) {
  check_rotation(0, 2 * WINDOWS);
}

Test(windows, jump_where_call_numbers_wrap_around) {
  check_rotation(0xfffffe, 0x1000002);
}

Test(windows, rotate_in_restarted_calls) {
  alone_t alone;
  coll_status_t status;
  open_with_room(&alone);
  engine_call_t made = call_of(0, WINDOW);
  alone_run(&alone, &plan, &program, &made);
  cr_assert(alone.run.can_restart);
  for (uint32_t call = 1; call < 2 * WINDOWS; call++) {
    made = call_of(call, WINDOW);
    memset(scratch, 0, sizeof scratch);
    cr_assert(engine_run_restart(&alone.run, &made, &status) && status == COLL_OK);
    cr_assert(only_window_is(call % WINDOWS, WINDOW), "call %d", (int)call);
  }
  alone_close(&alone);
}

Test(windows, are_one_if_a_pass_needs_more_than_half) {
  const engine_call_t call = call_of(1, WINDOW);
  cr_assert(first_uses_window(1, &plan, call, 2 * WINDOW));
  cr_assert(first_uses_window(0, &plan, call, 2 * WINDOW - 1));
}

/* The last pass of several uses the first window too, however small it is. */
Test(windows, are_one_if_a_call_takes_several_passes) {
  enum { FIRST = ROOM_BYTES - ROOM_BYTES % 64 };
  alone_t alone;
  open_with_room(&alone);
  const engine_call_t made = call_of(1, FIRST + WINDOW);
  memset(scratch, 0, sizeof scratch);
  alone_run(&alone, &plan, &program, &made);
  cr_assert(memcmp(scratch, input + FIRST, WINDOW) == 0, "the last pass");
  cr_assert(memcmp(scratch + WINDOW, input + WINDOW, FIRST - WINDOW) == 0, "the first pass");
  alone_close(&alone);
}

/* SCRATCH that no peer accesses is reused while cached by its rank. */
Test(windows, are_only_for_scratch_that_peers_access) {
  static const plan_reach_t reaches[] = {PLAN_REACH_OWN, PLAN_REACH_USER};
  for (int i = 0; i < 2; i++) {
    plan_t other = plan;
    other.reach = reaches[i];
    cr_assert(first_uses_window(0, &other, call_of(1, WINDOW), ROOM_BYTES));
  }
}

/* Counts differ between ranks, but the windows must be the same on all. */
Test(windows, are_one_for_uneven_blocks) {
  const size_t counts[] = {WINDOW}, offsets[] = {0};
  engine_call_t call = call_of(1, WINDOW);
  call.input_blocks = call.output_blocks = (engine_blocks_t){counts, offsets};
  cr_assert(first_uses_window(0, &plan, call, ROOM_BYTES));
}

Test(windows, are_one_for_less_than_a_page) {
  cr_assert(first_uses_window(0, &plan, call_of(1, WINDOW - 1), ROOM_BYTES));
}

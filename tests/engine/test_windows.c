/* Where in SCRATCH a call puts what it has. */
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
static const plan_program_t program = {.lanes = {{.steps = (plan_step_t *)&step, .count = 1}}};
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
      .input = input, .count = count, .element_bytes = 1, .tag = engine_tag_of_call(1, sequence)};
}

/* Whether the window alone holds INPUT, and the others nothing. */
static bool only_window_is(size_t window, size_t bytes) {
  for (size_t i = 0; i < ROOM_BYTES; i++) {
    bool inside = i >= window * WINDOW && i < window * WINDOW + bytes;
    char wanted = inside ? input[i - window * WINDOW] : 0;
    if (scratch[i] != wanted) return false;
  }
  return true;
}

Test(windows, take_turns_from_call_to_call) {
  alone_t alone;
  open_with_room(&alone);
  for (uint32_t call = 0; call < 2 * WINDOWS; call++) {
    const engine_call_t made = call_of(call, WINDOW);
    memset(scratch, 0, sizeof scratch);
    alone_run(&alone, &plan, &program, &made);
    cr_assert(only_window_is(call % WINDOWS, WINDOW), "call %d", (int)call);
  }
  alone_close(&alone);
}

Test(windows, take_turns_where_calls_are_begun_again) {
  alone_t alone;
  coll_status_t status;
  open_with_room(&alone);
  engine_call_t made = call_of(0, WINDOW);
  alone_run(&alone, &plan, &program, &made);
  cr_assert(alone.run.can_repeat);
  for (uint32_t call = 1; call < 2 * WINDOWS; call++) {
    made = call_of(call, WINDOW);
    memset(scratch, 0, sizeof scratch);
    cr_assert(engine_run_again(&alone.run, &made, &status) && status == COLL_OK);
    cr_assert(only_window_is(call % WINDOWS, WINDOW), "call %d", (int)call);
  }
  alone_close(&alone);
}

Test(windows, jump_where_numbers_of_calls_begin_again) {
  alone_t alone;
  open_with_room(&alone);
  for (uint32_t call = 0xfffe; call < 0x10002; call++) {
    const engine_call_t made = call_of(call, WINDOW);
    memset(scratch, 0, sizeof scratch);
    alone_run(&alone, &plan, &program, &made);
    cr_assert(only_window_is((call & 0xffff) % WINDOWS, WINDOW), "call %d", (int)call);
  }
  alone_close(&alone);
}

Test(windows, are_one_where_a_pass_takes_more_than_half) {
  alone_t alone;
  open_with_room(&alone);
  alone.world.room.scratch_bytes = 2 * WINDOW - 1;
  const engine_call_t made = call_of(1, WINDOW);
  memset(scratch, 0, sizeof scratch);
  alone_run(&alone, &plan, &program, &made);
  cr_assert(only_window_is(0, WINDOW));
  alone_close(&alone);
}

/* Nor is there a turn for the last pass of several, however small it is. */
Test(windows, are_one_where_a_call_takes_several_passes) {
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

/* What no peer looks at stays in the caches of its rank. */
Test(windows, are_for_plans_whose_peers_reach_into_them) {
  static const plan_reach_t reaches[] = {PLAN_REACH_OWN, PLAN_REACH_USER};
  for (int i = 0; i < 2; i++) {
    alone_t alone;
    plan_t other = plan;
    open_with_room(&alone);
    other.reach = reaches[i];
    const engine_call_t made = call_of(1, WINDOW);
    memset(scratch, 0, sizeof scratch);
    alone_run(&alone, &other, &program, &made);
    cr_assert(only_window_is(0, WINDOW));
    alone_close(&alone);
  }
}

/* Counts differ from rank to rank, and windows must not. */
Test(windows, are_one_where_blocks_are_uneven) {
  alone_t alone;
  const size_t counts[] = {WINDOW}, offsets[] = {0};
  open_with_room(&alone);
  engine_call_t made = call_of(1, WINDOW);
  made.input_blocks = made.output_blocks = (engine_blocks_t){counts, offsets};
  memset(scratch, 0, sizeof scratch);
  alone_run(&alone, &plan, &program, &made);
  cr_assert(only_window_is(0, WINDOW));
  alone_close(&alone);
}

Test(windows, are_one_for_less_than_a_page) {
  alone_t alone;
  open_with_room(&alone);
  const engine_call_t made = call_of(1, WINDOW - 1);
  memset(scratch, 0, sizeof scratch);
  alone_run(&alone, &plan, &program, &made);
  cr_assert(only_window_is(0, WINDOW - 1));
  alone_close(&alone);
}

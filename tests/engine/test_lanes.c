/* Plans of two lanes, written by hand: lanes have separate FIFOs and wait for each other. */
#include <criterion/criterion.h>
#include <string.h>

#include "alone.h"
#include "transport/shm/shm.h"

#define COUNT 100

static plan_span_t chunk(int rank, plan_buffer_t buffer, int first) {
  return (plan_span_t){.rank = rank, .buffer = buffer, .first = first, .count = 1};
}

static plan_step_t copy(plan_buffer_t to, plan_buffer_t from) {
  return (plan_step_t){.kind = PLAN_COPY, .copy = {chunk(0, to, 0), chunk(0, from, 0)}};
}

/* Lane 0 is advanced first in every sweep, but needs the data that lane 1 stores in scratch. */
Test(lanes, wait_for_each_other) {
  plan_step_t first[] = {{.kind = PLAN_AFTER, .after = {.lane = 1, .step = 0}},
                         copy(PLAN_OUTPUT, PLAN_SCRATCH)};
  plan_step_t second[] = {copy(PLAN_SCRATCH, PLAN_INPUT)};
  plan_program_t program = {
      .lanes = (plan_lane_t[]){{.steps = first, .count = 2}, {.steps = second, .count = 1}}};
  plan_t plan = {.shape = {COLL_ALLREDUCE, 1, 0}, .parts = 1, .lanes = 2, .scratch_chunks = 1};
  char input[COUNT], output[COUNT] = {0};
  engine_call_t call = {
      .input = input, .output = output, .count = COUNT, .element_bytes = 1, .id = {1, 2}};
  alone_t alone;
  alone_open(&alone, &device_host_portable);
  for (int i = 0; i < COUNT; i++) input[i] = (char)i;
  alone_run(&alone, &plan, &program, &call); /* seven passes */
  cr_assert_arr_eq(output, input, COUNT);
  alone_close(&alone);
}

/* Rank 0 sends its two chunks over two lanes; rank 1 receives the second one first. */
Test(lanes, have_fifos_of_their_own) {
  plan_step_t steps[2][2], late[2];
  plan_lane_t lanes[2][2] = {{{0}}};
  plan_program_t programs[2] = {{.lanes = lanes[0]}, {.lanes = lanes[1]}};
  plan_t plan = {
      .shape = {COLL_BROADCAST, 2, 0}, .parts = 2, .lanes = 2, .depth = 1, .message_chunks = 1};
  for (int lane = 0; lane < 2; lane++) {
    steps[0][lane] =
        (plan_step_t){.kind = PLAN_SEND, .send = {1, lane, chunk(0, PLAN_INPUT, lane)}};
    steps[1][lane] =
        (plan_step_t){.kind = PLAN_RECV, .recv = {0, lane, chunk(1, PLAN_OUTPUT, lane)}};
    programs[0].lanes[lane] = (plan_lane_t){.steps = &steps[0][lane], .count = 1};
  }
  late[0] = (plan_step_t){.kind = PLAN_AFTER, .after = {.lane = 1, .step = 0}};
  late[1] = steps[1][0];
  programs[1].lanes[0] = (plan_lane_t){.steps = late, .count = 2};
  programs[1].lanes[1] = (plan_lane_t){.steps = &steps[1][1], .count = 1};

  transport_t *ends[2];
  engine_run_t runs[2] = {{0}};
  char data[2][2 * COUNT] = {{0}};
  engine_world_t worlds[2];
  engine_call_t calls[2];
  uint64_t word;
  base_ranks_t peers = {.size = 2, .words = &word};
  bool moved, done[2] = {false, false};
  for (int i = 0; i < 2 * COUNT; i++) data[0][i] = (char)(i * 3);
  cr_assert_eq(transport_shm_create_local(2, ends), COLL_OK, "%s", base_last_error());
  for (int rank = 0; rank < 2; rank++) {
    static transport_t *routes[2][2];
    routes[rank][1 - rank] = ends[rank];
    worlds[rank] = (engine_world_t){.rank = rank,
                                    .size = 2,
                                    .routes = routes[rank],
                                    .device = &device_host_portable,
                                    .room.slot_bytes = ends[rank]->slot_bytes};
    calls[rank] = (engine_call_t){.input = rank == 0 ? data[0] : NULL,
                                  .output = data[rank],
                                  .count = sizeof data[0],
                                  .element_bytes = 1,
                                  .id = {9, 10}};
    cr_assert_eq(engine_run_begin(&runs[rank], &worlds[rank], &plan, &programs[rank], &calls[rank]),
                 COLL_OK);
  }
  cr_assert_eq(engine_run_advance(&runs[1], &moved, &done[1]), COLL_OK);
  cr_assert(!moved && !done[1]);
  base_ranks_clear(&peers);
  engine_run_waits_for(&runs[1], &peers);
  cr_assert_eq(word, 1, "rank 0 alone: a lane that waits for a lane names none");
  for (int rank = 0; rank < 2; rank++) {
    cr_assert_eq(engine_run_advance(&runs[rank], &moved, &done[rank]), COLL_OK);
    cr_assert(moved && done[rank], "rank %d", rank);
    base_ranks_clear(&peers);
    engine_run_waits_for(&runs[rank], &peers);
    cr_assert_eq(word, 0);
  }
  cr_assert_arr_eq(data[1], data[0], sizeof data[0]);
  for (int rank = 0; rank < 2; rank++) {
    ends[rank]->ops->destroy(ends[rank]);
    engine_run_free(&runs[rank]);
  }
}

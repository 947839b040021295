/* engine_run_restart: calls that begin without binding. */
#include <criterion/criterion.h>
#include <string.h>

#include "alone.h"
#include "engine/lane.h"
#include "transport/shm/shm.h"

enum { COUNT = 12, PAIR = 2 };

static plan_span_t whole(int rank, plan_buffer_t buffer) {
  return (plan_span_t){.rank = rank, .buffer = buffer, .first = 0, .count = 1};
}

static const plan_shape_t shape = {COLL_BROADCAST, 1, 0};

/* Whether a copy from INPUT to OUTPUT in such a plan sets can_restart. */
static bool allows_restart(plan_reach_t reach, int lanes, size_t count) {
  static char input[2 * ALONE_SLOT_BYTES], output[2 * ALONE_SLOT_BYTES];
  plan_step_t step = {.kind = PLAN_COPY,
                      .copy = {.dst = whole(0, PLAN_OUTPUT), .src = whole(0, PLAN_INPUT)}};
  plan_program_t program = {.lanes = (plan_lane_t[2]){{.steps = &step, .count = 1}}};
  plan_t plan = {.shape = shape, .reach = reach, .parts = 1, .lanes = lanes, .scratch_chunks = 1};
  engine_call_t call = {
      .input = input, .output = output, .count = count, .element_bytes = 1, .id = {1, 2}};
  alone_t alone;
  alone_open(&alone, &device_host_portable);
  alone_run(&alone, &plan, &program, &call);
  bool found = alone.run.can_restart;
  alone_close(&alone);
  return found;
}

Test(restart, needs_one_lane_one_pass_and_own_buffers) {
  cr_assert(allows_restart(PLAN_REACH_OWN, 1, COUNT));
  cr_assert(allows_restart(PLAN_REACH_SCRATCH, 1, COUNT));
  cr_assert_not(allows_restart(PLAN_REACH_OWN, 2, COUNT));
  cr_assert_not(allows_restart(PLAN_REACH_OWN, 1, ALONE_SCRATCH_BYTES + 1), "two passes");
  cr_assert_not(allows_restart(PLAN_REACH_USER, 1, COUNT),
                "peers' buffers have other addresses in each call");
}

/* ---- a rank that sends to another -----------------------------------------------------------*/

typedef struct side {
  transport_t *end, *routes[PAIR];
  engine_world_t world;
  plan_step_t step;
  plan_lane_t lane;
  plan_program_t program;
  engine_call_t call;
  engine_run_t run;
  char data[3][COUNT]; /* for three calls */
} side_t;

static const plan_t plan = {
    .shape = {COLL_BROADCAST, PAIR, 0}, .parts = 1, .lanes = 1, .depth = 1, .message_chunks = 1};

static void open_side(side_t *side, int rank, transport_t *end) {
  *side = (side_t){.end = end,
                   .world = {.rank = rank,
                             .size = PAIR,
                             .routes = side->routes,
                             .device = &device_host_portable,
                             .room.slot_bytes = end->slot_bytes},
                   .call = {.count = COUNT, .element_bytes = 1}};
  side->routes[1 - rank] = end;
  if (rank == 0) {
    side->step = (plan_step_t){.kind = PLAN_SEND, .send = {1, 0, whole(0, PLAN_INPUT)}};
  } else {
    side->step = (plan_step_t){.kind = PLAN_RECV, .recv = {0, 0, whole(1, PLAN_OUTPUT)}};
  }
  side->lane = (plan_lane_t){.steps = &side->step, .count = 1};
  side->program.lanes = &side->lane;
  for (int i = 0; rank == 0 && i < 3 * COUNT; i++) side->data[i / COUNT][i % COUNT] = (char)i;
}

static void point_at(side_t *side, int call) {
  side->call.input = side->world.rank == 0 ? side->data[call] : NULL;
  side->call.output = side->world.rank == 1 ? side->data[call] : NULL;
  side->call.id = (flight_call_t){flight_what_at(7, (uint64_t)call), (uint64_t)(100 + call)};
}

static void begin_first(side_t *side, bool *done) {
  bool moved;
  point_at(side, 0);
  cr_assert_eq(engine_run_begin(&side->run, &side->world, &plan, &side->program, &side->call),
               COLL_OK);
  cr_assert_eq(engine_run_advance(&side->run, &moved, done), COLL_OK);
}

static void begin_next(side_t *side, int call, bool *done) {
  point_at(side, call);
  coll_status_t status;
  cr_assert(side->run.can_restart);
  *done = engine_run_restart(&side->run, &side->call, &status);
  cr_assert_eq(status, COLL_OK);
}

Test(restart, continues_after_a_blocked_action) {
  static side_t sides[PAIR];
  transport_t *ends[PAIR];
  coll_status_t status;
  bool moved, done;
  cr_assert_eq(transport_shm_create_local(PAIR, ends), COLL_OK, "%s", base_last_error());
  for (int rank = 0; rank < PAIR; rank++) open_side(&sides[rank], rank, ends[rank]);
  for (int rank = 0; rank < PAIR; rank++) {
    begin_first(&sides[rank], &done);
    cr_assert(done, "rank %d", rank);
  }
  begin_next(&sides[1], 1, &done);
  cr_assert_not(done, "nothing was sent");
  begin_next(&sides[0], 1, &done);
  cr_assert(done);
  cr_assert_eq(engine_run_advance(&sides[1].run, &moved, &done), COLL_OK);
  cr_assert(moved && done);
  for (int rank = 0; rank < PAIR; rank++) {
    begin_next(&sides[rank], 2, &done);
    cr_assert(done, "rank %d", rank);
  }
  cr_assert_arr_eq(sides[1].data, sides[0].data, sizeof sides[0].data);
  point_at(&sides[0], 1);
  cr_assert(engine_run_restart(&sides[0].run, &sides[0].call, &status));
  point_at(&sides[1], 2);
  cr_assert_not(engine_run_restart(&sides[1].run, &sides[1].call, &status));
  cr_assert_eq(status, COLL_ERROR_MISMATCH, "of another call");
  for (int rank = 0; rank < PAIR; rank++) {
    engine_run_free(&sides[rank].run);
    ends[rank]->ops->destroy(ends[rank]);
  }
}

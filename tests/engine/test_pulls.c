/* What a rank waits for that reads the buffers of others. */
#include <criterion/criterion.h>

#include "engine/run.h"
#include "transport/defaults.h"

enum { SIZE = 4, COUNT = 10 };

static transport_port_t port;

static transport_port_t *only_port(transport_t *t, int peer, int channel) {
  (void)peer, (void)channel;
  port.transport = t;
  return &port;
}

/* One of the ranks has exited. */
static coll_status_t get_nothing(transport_t *t, int peer, void *dst, uint64_t address,
                                 size_t bytes, bool *done) {
  (void)t, (void)peer, (void)dst, (void)address, (void)bytes;
  *done = false;
  return COLL_OK;
}

static plan_span_t input_of(int rank) {
  return (plan_span_t){.rank = rank, .buffer = PLAN_INPUT, .first = 0, .count = 1};
}

/* Rank 0 reads from the ranks 1 and 3, not from 2, whose buffer is mapped. */
Test(pulls, wait_for_all_ranks_that_are_read) {
  static char memory[SIZE][COUNT];
  transport_ops_t ops = transport_unsupported;
  ops.port = only_port;
  ops.get = get_nothing;
  transport_t route = {.ops = &ops, .size = SIZE, .slot_bytes = COUNT};
  transport_t *routes[SIZE] = {&route, &route, &route, &route};
  engine_view_t views[SIZE] = {{.buffers = {NULL}}};
  for (int rank = 0; rank < SIZE; rank++) {
    views[rank].buffers[PLAN_INPUT] = memory[rank];
    views[rank].is_remote[PLAN_INPUT] = rank % 2 == 1;
  }
  plan_step_t step = {
      .kind = PLAN_REDUCE,
      .reduce = {.dst = {.rank = 0, .buffer = PLAN_OUTPUT, .count = 1}, .source_count = SIZE}};
  plan_program_t program = {
      .lanes = (plan_lane_t[]){{.steps = &step, .count = 1}},
      .sources = (plan_span_t[]){input_of(0), input_of(1), input_of(2), input_of(3)}};
  plan_t plan = {
      .shape = {COLL_ALLREDUCE, SIZE, 0}, .reach = PLAN_REACH_READ, .parts = 1, .lanes = 1};
  engine_world_t world = {.size = SIZE,
                          .routes = routes,
                          .device = &device_host_portable,
                          .room.slot_bytes = COUNT,
                          .views = views};
  engine_call_t call = {.input = memory[0],
                        .output = memory[2],
                        .count = COUNT,
                        .dtype = COLL_INT8,
                        .op = COLL_SUM,
                        .element_bytes = 1};
  engine_run_t run = {0};
  uint64_t word = 0;
  base_ranks_t ranks = {.size = SIZE, .words = &word};
  bool moved, done;
  cr_assert_eq(engine_run_begin(&run, &world, &plan, &program, &call), COLL_OK, "%s",
               base_last_error());
  cr_assert_eq(engine_run_advance(&run, &moved, &done), COLL_OK);
  cr_assert_not(done);
  engine_run_waits_for(&run, &ranks);
  cr_assert_eq(word, 1 << 1 | 1 << 3, "it waits for the set %#llx", (unsigned long long)word);
  engine_run_free(&run);
}

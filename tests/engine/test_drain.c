/* For whom a call waits at its end: rank 0 of three sends over transports that accept everything,
 * and say that nothing is drained. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "engine/drain.h"
#include "engine/run.h"

enum { SIZE = 3, STEPS_MAX = 8, LANES_MAX = 2, SLOT = 128 << 10, LONG = TRANSPORT_P2P_BYTES };

typedef struct route {
  transport_t base;
  transport_port_t ports[LANES_MAX];
  size_t bytes;  /* that were sent */
  int questions; /* whether a port is drained */
  bool is_drained;
} route_t;

static route_t *route_of(const transport_port_t *port) {
  return (route_t *)(void *)port->transport;
}

static transport_port_t *port_of(transport_t *t, int peer, int channel) {
  (void)peer;
  return &((route_t *)(void *)t)->ports[channel];
}

static coll_status_t send_any(transport_port_t *port, const void *data,
                              const transport_head_t *head, bool *done) {
  (void)data;
  route_of(port)->bytes += head->bytes;
  *done = true;
  return COLL_OK;
}

static bool is_drained(transport_port_t *port) {
  route_of(port)->questions++;
  return route_of(port)->is_drained;
}

typedef struct sender {
  transport_ops_t ops;
  route_t routes[SIZE];
  transport_t *transports[SIZE];
  engine_view_t views[SIZE];
  engine_world_t world;
  plan_step_t steps[LANES_MAX][STEPS_MAX];
  plan_lane_t lanes[LANES_MAX];
  plan_program_t program;
  plan_t plan;
  engine_call_t call;
  engine_run_t run;
} sender_t;

/* Of a call of `count` bytes, whose blocks the plan cuts into so many chunks. */
static sender_t *open_sender(coll_collective_t collective, int parts, size_t count) {
  sender_t *self = calloc(1, sizeof *self);
  self->ops = transport_unsupported;
  self->ops.port = port_of;
  self->ops.send = send_any;
  self->ops.drained = is_drained;
  for (int rank = 0; rank < SIZE; rank++) {
    route_t *route = &self->routes[rank];
    route->base = (transport_t){.ops = &self->ops, .slot_bytes = SLOT, .delays = true};
    for (int i = 0; i < LANES_MAX; i++) route->ports[i].transport = &route->base;
    self->transports[rank] = &route->base;
  }
  for (int i = 0; i < LANES_MAX; i++) self->lanes[i].steps = self->steps[i];
  self->world = (engine_world_t){.size = SIZE,
                                 .routes = self->transports,
                                 .device = &device_host_portable,
                                 .room.slot_bytes = SLOT,
                                 .views = self->views};
  self->program.lanes = self->lanes;
  self->plan = (plan_t){.shape = {collective, SIZE, 0},
                        .algorithm = "by hand",
                        .parts = parts,
                        .lanes = 1,
                        .depth = 1,
                        .message_chunks = 1};
  self->call = (engine_call_t){.input = calloc(SIZE, count),
                               .output = calloc(SIZE, count),
                               .count = count,
                               .element_bytes = 1,
                               .id = {1, 2}};
  return self;
}

static void add_send(sender_t *self, int lane, int peer, plan_buffer_t buffer, int chunk) {
  plan_lane_t *to = &self->lanes[lane];
  const plan_span_t span = {.buffer = buffer, .first = chunk, .count = 1};
  self->steps[lane][to->count++] =
      (plan_step_t){.kind = PLAN_SEND, .send = {.peer = peer, .channel = lane, .src = span}};
  if (lane >= self->plan.lanes) self->plan.lanes = lane + 1;
}

/* Whether the call, when it has run, waits for ranks 1 and 2. */
static void run(sender_t *self, bool waits_for[SIZE]) {
  uint64_t word = 0;
  base_ranks_t ranks = {.size = SIZE, .words = &word};
  bool moved, done;
  cr_assert_eq(engine_run_begin(&self->run, &self->world, &self->plan, &self->program, &self->call),
               COLL_OK, "%s", base_last_error());
  cr_assert_eq(engine_run_advance(&self->run, &moved, &done), COLL_OK, "%s", base_last_error());
  cr_assert(done);
  engine_drain_waits_for(&self->run, &ranks);
  for (int rank = 0; rank < SIZE; rank++) waits_for[rank] = base_ranks_has(&ranks, rank);
  cr_expect_eq(engine_drain_is_over(&self->run), word == 0);
}

static void close_sender(sender_t *self) {
  engine_run_free(&self->run);
  free((void *)(uintptr_t)self->call.input);
  free(self->call.output);
  free(self);
}

/* Whether a call waits that sends its block so many times to rank 1. */
static bool waits_after(size_t count, int messages, bool delays) {
  sender_t *self = open_sender(COLL_BROADCAST, 1, count);
  bool waits_for[SIZE];
  self->routes[1].base.delays = delays;
  for (int i = 0; i < messages; i++) add_send(self, 0, 1, PLAN_INPUT, 0);
  run(self, waits_for);
  cr_expect_eq(self->routes[1].bytes, count * (size_t)messages);
  cr_expect_eq(self->run.can_restart, count <= SLOT && !waits_for[1], "of calls that do not wait");
  cr_expect_not(waits_for[0] || waits_for[2]);
  close_sender(self);
  return waits_for[1];
}

Test(drain, waits_for_what_is_longer_than_a_send_that_does_not_wait) {
  cr_expect_not(waits_after(SLOT, 2, true), "in two messages");
  cr_expect(waits_after(SLOT, 3, true));
  cr_expect_not(waits_after(LONG, 1, true), "in two passes");
  cr_expect(waits_after(LONG + 1, 1, true), "in three passes, the last of which is short");
  cr_expect_not(waits_after(4 * LONG, 1, false), "to a peer that has it at once");
}

Test(drain, is_over_when_the_port_is_drained) {
  sender_t *self = open_sender(COLL_BROADCAST, 1, 2 * LONG);
  bool waits_for[SIZE];
  for (int peer = 1; peer < SIZE; peer++) add_send(self, 0, peer, PLAN_INPUT, 0);
  self->routes[1].is_drained = true;
  run(self, waits_for);
  cr_expect(!waits_for[1] && waits_for[2]);
  self->routes[2].is_drained = true;
  cr_expect(engine_drain_is_over(&self->run));
  close_sender(self);
}

/* Each lane sends less than that. */
Test(drain, adds_up_what_a_peer_gets_and_asks_each_port_once) {
  sender_t *self = open_sender(COLL_BROADCAST, 1, LONG / 4);
  bool waits_for[SIZE];
  for (int i = 0; i < 6; i++) add_send(self, i % 2, 1, PLAN_INPUT, 0);
  for (int i = 0; i < 4; i++) add_send(self, i % 2, 2, PLAN_INPUT, 0);
  self->routes[1].is_drained = true;
  run(self, waits_for);
  self->routes[1].questions = 0;
  cr_expect(engine_drain_is_over(&self->run));
  cr_expect_eq(self->routes[1].questions, 2, "%d", self->routes[1].questions);
  cr_expect_eq(self->routes[2].questions, 0, "it gets little");
  close_sender(self);
}

/* The last pass has one element, in the first of two chunks. */
Test(drain, waits_for_ranks_to_which_the_last_pass_sends_nothing) {
  sender_t *self = open_sender(COLL_BROADCAST, 2, 6 * SLOT + 1);
  bool waits_for[SIZE];
  for (int peer = 1; peer < SIZE; peer++) add_send(self, 0, peer, PLAN_INPUT, peer - 1);
  run(self, waits_for);
  cr_expect_eq(self->run.pass.count, 1, "%zu", self->run.pass.count);
  cr_expect_eq(self->run.bound.action_count, 1, "the last pass sends to both");
  cr_expect(waits_for[1] && waits_for[2]);
  close_sender(self);
}

/* Rank 1's block ends before rank 0's does. */
Test(drain, waits_for_ranks_whose_blocks_have_ended) {
  static const size_t counts[SIZE] = {20 * SLOT, 3 * SLOT, 0}, offsets[SIZE] = {0, 20 * SLOT, 0};
  sender_t *self = open_sender(COLL_ALLGATHERV, 1, counts[0]);
  bool waits_for[SIZE];
  self->call.ranks = (engine_blocks_t){counts, offsets};
  add_send(self, 0, 1, PLAN_INPUT, 0);
  add_send(self, 0, 2, PLAN_OUTPUT, 1);
  run(self, waits_for);
  cr_expect_eq(self->routes[1].bytes, counts[0]);
  cr_expect_eq(self->routes[2].bytes, counts[1]);
  cr_expect_eq(self->run.bound.action_count, 1, "the last pass sends to both");
  cr_expect(waits_for[1] && waits_for[2]);
  close_sender(self);
}

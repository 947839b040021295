/* Which steps of a program binding leaves out, and which it merges. */
#include <criterion/criterion.h>
#include <string.h>

#include "algo/algo.h"
#include "engine/bind.h"

#define SIZE 2
#define GROUP_SIZE_MAX 3

/* Rank 0 with transports that do nothing. */
typedef struct fixture {
  transport_t route;
  transport_t *routes[GROUP_SIZE_MAX];
  engine_world_t world;
  engine_call_t call;
  engine_pass_t pass;
  engine_bound_t bound;
} fixture_t;

static void set_fixture(fixture_t *fixture, size_t count, bool peeks) {
  memset(fixture, 0, sizeof *fixture);
  fixture->route = (transport_t){.ops = &transport_unsupported, .size = SIZE, .peeks = peeks};
  for (int rank = 0; rank < GROUP_SIZE_MAX; rank++) fixture->routes[rank] = &fixture->route;
  fixture->world = (engine_world_t){.size = SIZE, .routes = fixture->routes};
  fixture->call = (engine_call_t){.count = count, .element_bytes = 4};
  fixture->pass = (engine_pass_t){.count = count, .grain = 16};
}

static void bind(fixture_t *fixture, const plan_t *plan, const plan_program_t *program) {
  cr_assert_eq(
      engine_bind(&fixture->bound, &fixture->world, plan, program, &fixture->call, &fixture->pass),
      COLL_OK, "%s", base_last_error());
}

static int count_of(const fixture_t *fixture, engine_action_kind_t kind) {
  int count = 0;
  for (size_t i = 0; i < fixture->bound.action_count; i++) {
    count += fixture->bound.actions[i].kind == kind;
  }
  return count;
}

static plan_t *plan_of(coll_collective_t collective, const char *name, int size) {
  const algo_t *algo;
  plan_t *plan;
  plan_shape_t shape = {.collective = collective, .size = size};
  cr_assert_eq(algo_find(collective, name, &algo), COLL_OK);
  cr_assert_eq(algo_build(algo, &shape, 0, false, &plan), COLL_OK, "%s", base_last_error());
  return plan;
}

Test(bind, fuses_a_receive_and_its_reduction) {
  for (int peeks = 0; peeks <= 1; peeks++) {
    fixture_t fixture;
    plan_t *plan = plan_of(COLL_ALLREDUCE, "butterfly", SIZE);
    set_fixture(&fixture, 10, peeks);
    bind(&fixture, plan, &plan->programs[0]);
    cr_assert_eq(count_of(&fixture, ENGINE_RECV_REDUCE), peeks);
    cr_assert_eq(count_of(&fixture, ENGINE_RECV), !peeks);
    cr_assert_eq(count_of(&fixture, ENGINE_REDUCE), !peeks);
    engine_bound_free(&fixture.bound);
    plan_free(plan);
  }
}

/* One multicast message for the row of sends, and one reduction of all received messages. */
Test(bind, merges_a_multicast_row) {
  fixture_t fixture;
  plan_t *plan = plan_of(COLL_ALLREDUCE, "allpairs", GROUP_SIZE_MAX);
  set_fixture(&fixture, 10, true);
  bind(&fixture, plan, &plan->programs[0]);
  cr_assert_eq(fixture.bound.action_count, 2);
  const engine_action_t *post = &fixture.bound.actions[0], *reduce = &fixture.bound.actions[1];
  cr_assert(post->kind == ENGINE_MCAST_SEND && post->bytes == 40);
  cr_assert(reduce->kind == ENGINE_RECV_REDUCE && reduce->multicast);
  cr_assert_eq(reduce->sender_count, GROUP_SIZE_MAX - 1);
  for (int rank = 1; rank < GROUP_SIZE_MAX; rank++) {
    const engine_operand_t *source = &reduce->operands[reduce->dst_count + rank];
    cr_assert_geq(source->base, fixture.bound.base_count);
    size_t message = source->base - fixture.bound.base_count;
    cr_assert(message < reduce->sender_count && source->base < fixture.bound.address_capacity);
    cr_assert_eq(fixture.bound.senders[reduce->senders + message].rank, rank);
  }
  engine_bound_free(&fixture.bound);
  plan_free(plan);
}

/* For a single peer, multicast would cost more than a message. */
Test(bind, uses_plain_messages_for_two_ranks) {
  fixture_t fixture;
  plan_t *plan = plan_of(COLL_ALLREDUCE, "allpairs", SIZE);
  set_fixture(&fixture, 10, true);
  bind(&fixture, plan, &plan->programs[0]);
  cr_assert_eq(fixture.bound.action_count, 2);
  const engine_action_t *send = &fixture.bound.actions[0], *reduce = &fixture.bound.actions[1];
  cr_assert(send->kind == ENGINE_SEND && send->bytes == 40);
  cr_assert(reduce->kind == ENGINE_RECV_REDUCE && !reduce->multicast && reduce->sender_count == 1);
  engine_bound_free(&fixture.bound);
  plan_free(plan);
}

static plan_span_t chunk(plan_buffer_t buffer, int first) {
  return (plan_span_t){.rank = 0, .buffer = buffer, .first = first, .count = 1};
}

/* A message into scratch, a reduction, and then the step `last`. */
static int fused_receives(const plan_step_t *last, plan_reach_t reach) {
  plan_step_t steps[] = {
      {.kind = PLAN_RECV, .recv = {.peer = 1, .dst = chunk(PLAN_SCRATCH, 0)}},
      {.kind = PLAN_REDUCE,
       .reduce = {.dst = chunk(PLAN_OUTPUT, 0), .first_source = 0, .source_count = 2}},
      *last};
  plan_span_t sources[] = {chunk(PLAN_INPUT, 0), chunk(PLAN_SCRATCH, 0)};
  plan_program_t program = {.lanes = (plan_lane_t[]){{.steps = steps, .count = 3}},
                            .sources = sources,
                            .source_count = 2};
  plan_t plan = {.shape = {COLL_ALLREDUCE, SIZE, 0}, .parts = 1, .lanes = 1, .reach = reach};
  plan.message_chunks = plan.scratch_chunks = 1;
  fixture_t fixture;
  set_fixture(&fixture, 10, true);
  bind(&fixture, &plan, &program);
  int fused = count_of(&fixture, ENGINE_RECV_REDUCE);
  engine_bound_free(&fixture.bound);
  return fused;
}

Test(bind, does_not_fuse_a_receive_that_is_read_again) {
  plan_step_t send_output = {.kind = PLAN_SEND, .send = {.peer = 1, .src = chunk(PLAN_OUTPUT, 0)}};
  plan_step_t send_scratch = {.kind = PLAN_SEND,
                              .send = {.peer = 1, .src = chunk(PLAN_SCRATCH, 0)}};
  plan_step_t overwrite = {.kind = PLAN_RECV, .recv = {.peer = 1, .dst = chunk(PLAN_SCRATCH, 0)}};
  cr_assert_eq(fused_receives(&send_output, PLAN_REACH_OWN), 1);
  cr_assert_eq(fused_receives(&overwrite, PLAN_REACH_OWN), 1);
  cr_assert_eq(fused_receives(&send_scratch, PLAN_REACH_OWN), 0);
  cr_assert_eq(fused_receives(&send_output, PLAN_REACH_SCRATCH), 0, "peers may read it");
}

/* A message to OUTPUT in a pass of `in_pass` of the call's `in_call` elements, and then the step
 * `next`. */
static engine_action_t receive_of(size_t in_pass, size_t in_call, plan_step_t next, bool peeks) {
  plan_step_t steps[] = {{.kind = PLAN_RECV, .recv = {.peer = 1, .dst = chunk(PLAN_OUTPUT, 0)}},
                         next};
  plan_program_t program = {.lanes = (plan_lane_t[]){{.steps = steps, .count = 2}}};
  plan_t plan = {
      .shape = {COLL_BROADCAST, SIZE, 1}, .parts = 1, .lanes = 1, .reach = PLAN_REACH_OWN};
  fixture_t fixture;
  set_fixture(&fixture, in_call, peeks);
  fixture.pass.count = in_pass;
  bind(&fixture, &plan, &program);
  engine_action_t action = fixture.bound.actions[0];
  engine_bound_free(&fixture.bound);
  return action;
}

static engine_action_t receive_of_a_pass(plan_step_t next, bool peeks) {
  return receive_of(10, 100, next, peeks);
}

Test(bind, fetches_a_message_that_is_not_read_again) {
  plan_step_t copy = {.kind = PLAN_COPY,
                      .copy = {.dst = chunk(PLAN_OUTPUT, 1), .src = chunk(PLAN_INPUT, 1)}};
  plan_step_t send = {.kind = PLAN_SEND, .send = {.peer = 1, .src = chunk(PLAN_OUTPUT, 0)}};
  engine_action_t action = receive_of_a_pass(copy, true);
  cr_assert(action.kind == ENGINE_RECV_FETCH && action.bytes == 40 &&
            action.nontemporal_hint == 400);
  action = receive_of_a_pass(send, true);
  cr_assert(action.kind == ENGINE_RECV && action.nontemporal_hint == 40,
            "it is sent on from the cache");
  cr_assert_eq(receive_of_a_pass(copy, false).kind, ENGINE_RECV, "the transport cannot peek");
}

Test(bind, fetches_a_long_message) {
  plan_step_t send = {.kind = PLAN_SEND, .send = {.peer = 1, .src = chunk(PLAN_OUTPUT, 0)}};
  cr_assert_eq(receive_of(511, 511, send, true).kind, ENGINE_RECV);
  cr_assert_eq(receive_of(512, 512, send, true).kind, ENGINE_RECV_FETCH);
  cr_assert_eq(receive_of(512, 512, send, false).kind, ENGINE_RECV, "the transport cannot peek");
}

Test(bind, hints_one_message_where_a_rank_only_receives) {
  plan_step_t wait = {.kind = PLAN_WAIT, .wait = {.peer = 1}};
  plan_step_t copy = {.kind = PLAN_COPY,
                      .copy = {.dst = chunk(PLAN_OUTPUT, 1), .src = chunk(PLAN_INPUT, 1)}};
  engine_action_t action = receive_of(1000, 10000, wait, true);
  cr_assert(action.kind == ENGINE_RECV_FETCH && action.nontemporal_hint == action.bytes);
  cr_assert_gt(receive_of(1000, 10000, copy, true).nontemporal_hint, action.bytes);
}

/* A copy to OUTPUT, and then the step `notifies`, which notifies a peer. */
static bool fences_before(plan_step_t notifies, plan_reach_t reach, size_t in_pass) {
  plan_step_t steps[] = {
      {.kind = PLAN_COPY, .copy = {.dst = chunk(PLAN_OUTPUT, 0), .src = chunk(PLAN_INPUT, 0)}},
      notifies};
  plan_program_t program = {.lanes = (plan_lane_t[]){{.steps = steps, .count = 2}}};
  plan_t plan = {.shape = {COLL_BROADCAST, SIZE, 0}, .parts = 1, .lanes = 1, .reach = reach};
  fixture_t fixture;
  set_fixture(&fixture, 100, true);
  fixture.pass.count = in_pass;
  bind(&fixture, &plan, &program);
  bool fences = count_of(&fixture, ENGINE_STORE_FENCE) == 1;
  if (fences) cr_assert_eq(fixture.bound.actions[1].kind, ENGINE_STORE_FENCE);
  engine_bound_free(&fixture.bound);
  return fences;
}

Test(bind, fences_partial_stores_before_notifying_peers) {
  plan_step_t signal = {.kind = PLAN_SIGNAL, .signal = {.peer = 1}};
  plan_step_t send = {.kind = PLAN_SEND, .send = {.peer = 1, .src = chunk(PLAN_OUTPUT, 0)}};
  cr_assert(fences_before(signal, PLAN_REACH_USER, 10));
  cr_assert(fences_before(send, PLAN_REACH_USER, 10));
  cr_assert(!fences_before(signal, PLAN_REACH_USER, 100),
            "a pass that is the whole call needs no fence");
  cr_assert(!fences_before(signal, PLAN_REACH_SCRATCH, 10), "no peer accesses OUTPUT");
}

Test(bind, leaves_out_empty_steps) {
  fixture_t fixture;
  plan_t *plan = plan_of(COLL_ALLREDUCE, "ring", SIZE);
  set_fixture(&fixture, 1, false);
  bind(&fixture, plan, &plan->programs[0]);
  for (size_t i = 0; i < fixture.bound.action_count; i++) {
    cr_assert_gt(fixture.bound.actions[i].bytes, 0, "action %zu moves nothing", i);
  }
  size_t of_one = fixture.bound.action_count;
  fixture.call.count = fixture.pass.count = 1000;
  bind(&fixture, plan, &plan->programs[0]);
  cr_assert_lt(of_one, fixture.bound.action_count, "one element is not in both halves");
  engine_bound_free(&fixture.bound);
  plan_free(plan);
}

Test(bind, offsets_do_not_depend_on_the_pass) {
  fixture_t fixture;
  plan_t *plan = plan_of(COLL_ALLGATHER, "mapped", SIZE);
  set_fixture(&fixture, 1000, false);
  fixture.pass = (engine_pass_t){.first = 0, .count = 100, .grain = 1};
  bind(&fixture, plan, &plan->programs[0]);
  size_t operands = fixture.bound.operand_count;
  engine_operand_t first[16];
  cr_assert(operands > 0 && operands <= 16);
  memcpy(first, fixture.bound.operands, operands * sizeof *first);
  fixture.pass.first = 300;
  bind(&fixture, plan, &plan->programs[0]);
  cr_assert_eq(fixture.bound.operand_count, operands);
  for (size_t i = 0; i < operands; i++) {
    cr_assert(fixture.bound.operands[i].offset == first[i].offset &&
                  fixture.bound.operands[i].bytes == 400,
              "operand %zu: a pass is like another of the same size", i);
  }
  engine_bound_free(&fixture.bound);
  plan_free(plan);
}

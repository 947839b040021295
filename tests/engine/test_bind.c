/* What becomes of a program's steps: which are left out, and which are made one. */
#include <criterion/criterion.h>
#include <string.h>

#include "algo/algo.h"
#include "engine/bind.h"

#define SIZE 2
#define GROUP_SIZE_MAX 3

/* Rank 0, whose ways to all do nothing. */
typedef struct scene {
  transport_t route;
  transport_t *routes[GROUP_SIZE_MAX];
  engine_world_t world;
  engine_call_t call;
  engine_pass_t pass;
  engine_bound_t bound;
} scene_t;

static void set_scene(scene_t *scene, size_t count, bool peeks) {
  memset(scene, 0, sizeof *scene);
  scene->route = (transport_t){.ops = &transport_unsupported, .size = SIZE, .peeks = peeks};
  for (int rank = 0; rank < GROUP_SIZE_MAX; rank++) scene->routes[rank] = &scene->route;
  scene->world = (engine_world_t){.size = SIZE, .routes = scene->routes};
  scene->call = (engine_call_t){.count = count, .element_bytes = 4};
  scene->pass = (engine_pass_t){.count = count, .grain = 16};
}

static void bind(scene_t *scene, const plan_t *plan, const plan_program_t *program) {
  cr_assert_eq(engine_bind(&scene->bound, &scene->world, plan, program, &scene->call, &scene->pass),
               COLL_OK, "%s", base_last_error());
}

static int count_of(const scene_t *scene, engine_action_kind_t kind) {
  int count = 0;
  for (size_t i = 0; i < scene->bound.action_count; i++) {
    count += scene->bound.actions[i].kind == kind;
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

Test(bind, reduces_a_message_where_it_is) {
  for (int peeks = 0; peeks <= 1; peeks++) {
    scene_t scene;
    plan_t *plan = plan_of(COLL_ALLREDUCE, "butterfly", SIZE);
    set_scene(&scene, 10, peeks);
    bind(&scene, plan, &plan->programs[0]);
    cr_assert_eq(count_of(&scene, ENGINE_RECV_REDUCE), peeks);
    cr_assert_eq(count_of(&scene, ENGINE_RECV), !peeks);
    cr_assert_eq(count_of(&scene, ENGINE_REDUCE), !peeks);
    engine_bound_free(&scene.bound);
    plan_free(plan);
  }
}

/* One post for the row of sends, and one reduction of all that comes. */
Test(bind, makes_one_of_a_row) {
  scene_t scene;
  plan_t *plan = plan_of(COLL_ALLREDUCE, "allpairs", GROUP_SIZE_MAX);
  set_scene(&scene, 10, true);
  bind(&scene, plan, &plan->programs[0]);
  cr_assert_eq(scene.bound.action_count, 2);
  const engine_action_t *post = &scene.bound.actions[0], *reduce = &scene.bound.actions[1];
  cr_assert(post->kind == ENGINE_MCAST_SEND && post->bytes == 40);
  cr_assert(reduce->kind == ENGINE_RECV_REDUCE && reduce->multicast);
  cr_assert_eq(reduce->sender_count, GROUP_SIZE_MAX - 1);
  for (int rank = 1; rank < GROUP_SIZE_MAX; rank++) {
    const engine_operand_t *source = &reduce->operands[reduce->dst_count + rank];
    cr_assert_geq(source->base, scene.bound.base_count);
    size_t message = source->base - scene.bound.base_count;
    cr_assert(message < reduce->sender_count && source->base < scene.bound.address_capacity);
    cr_assert_eq(scene.bound.senders[reduce->senders + message].rank, rank);
  }
  engine_bound_free(&scene.bound);
  plan_free(plan);
}

/* A post to a single peer would be a message that costs more. */
Test(bind, leaves_messages_to_a_pair) {
  scene_t scene;
  plan_t *plan = plan_of(COLL_ALLREDUCE, "allpairs", SIZE);
  set_scene(&scene, 10, true);
  bind(&scene, plan, &plan->programs[0]);
  cr_assert_eq(scene.bound.action_count, 2);
  const engine_action_t *send = &scene.bound.actions[0], *reduce = &scene.bound.actions[1];
  cr_assert(send->kind == ENGINE_SEND && send->bytes == 40);
  cr_assert(reduce->kind == ENGINE_RECV_REDUCE && !reduce->multicast && reduce->sender_count == 1);
  engine_bound_free(&scene.bound);
  plan_free(plan);
}

static plan_span_t chunk(plan_buffer_t buffer, int first) {
  return (plan_span_t){.rank = 0, .buffer = buffer, .first = first, .count = 1};
}

/* A message into scratch, reduced, and then whatever `last` says. */
static int kept_messages(const plan_step_t *last, plan_reach_t reach) {
  plan_step_t steps[] = {
      {.kind = PLAN_RECV, .recv = {.peer = 1, .dst = chunk(PLAN_SCRATCH, 0)}},
      {.kind = PLAN_REDUCE,
       .reduce = {.dst = chunk(PLAN_OUTPUT, 0), .first_source = 0, .source_count = 2}},
      *last};
  plan_span_t sources[] = {chunk(PLAN_INPUT, 0), chunk(PLAN_SCRATCH, 0)};
  plan_program_t program = {
      .lanes = {{.steps = steps, .count = 3}}, .sources = sources, .source_count = 2};
  plan_t plan = {.shape = {COLL_ALLREDUCE, SIZE, 0}, .parts = 1, .lanes = 1, .reach = reach};
  plan.message_chunks = plan.scratch_chunks = 1;
  scene_t scene;
  set_scene(&scene, 10, true);
  bind(&scene, &plan, &program);
  int kept = count_of(&scene, ENGINE_RECV_REDUCE);
  engine_bound_free(&scene.bound);
  return kept;
}

Test(bind, leaves_a_message_in_scratch_that_is_read_again) {
  plan_step_t send_output = {.kind = PLAN_SEND, .send = {.peer = 1, .src = chunk(PLAN_OUTPUT, 0)}};
  plan_step_t send_scratch = {.kind = PLAN_SEND,
                              .send = {.peer = 1, .src = chunk(PLAN_SCRATCH, 0)}};
  plan_step_t overwrite = {.kind = PLAN_RECV, .recv = {.peer = 1, .dst = chunk(PLAN_SCRATCH, 0)}};
  cr_assert_eq(kept_messages(&send_output, PLAN_REACH_OWN), 1);
  cr_assert_eq(kept_messages(&overwrite, PLAN_REACH_OWN), 1);
  cr_assert_eq(kept_messages(&send_scratch, PLAN_REACH_OWN), 0);
  cr_assert_eq(kept_messages(&send_output, PLAN_REACH_SCRATCH), 0, "peers may read it");
}

/* A message to OUTPUT in a pass of a call of so many elements, and then whatever `next` says. */
static engine_action_t intake_of(size_t in_pass, size_t in_call, plan_step_t next, bool peeks) {
  plan_step_t steps[] = {{.kind = PLAN_RECV, .recv = {.peer = 1, .dst = chunk(PLAN_OUTPUT, 0)}},
                         next};
  plan_program_t program = {.lanes = {{.steps = steps, .count = 2}}};
  plan_t plan = {
      .shape = {COLL_BROADCAST, SIZE, 1}, .parts = 1, .lanes = 1, .reach = PLAN_REACH_OWN};
  scene_t scene;
  set_scene(&scene, in_call, peeks);
  scene.pass.count = in_pass;
  bind(&scene, &plan, &program);
  engine_action_t action = scene.bound.actions[0];
  engine_bound_free(&scene.bound);
  return action;
}

static engine_action_t intake_of_a_pass(plan_step_t next, bool peeks) {
  return intake_of(10, 100, next, peeks);
}

Test(bind, has_the_device_fetch_a_message_that_stays_where_it_goes) {
  plan_step_t copy = {.kind = PLAN_COPY,
                      .copy = {.dst = chunk(PLAN_OUTPUT, 1), .src = chunk(PLAN_INPUT, 1)}};
  plan_step_t send = {.kind = PLAN_SEND, .send = {.peer = 1, .src = chunk(PLAN_OUTPUT, 0)}};
  engine_action_t action = intake_of_a_pass(copy, true);
  cr_assert(action.kind == ENGINE_RECV_FETCH && action.bytes == 40 && action.whole == 400);
  action = intake_of_a_pass(send, true);
  cr_assert(action.kind == ENGINE_RECV && action.whole == 40, "it is sent on from the cache");
  cr_assert_eq(intake_of_a_pass(copy, false).kind, ENGINE_RECV, "nothing shows its messages");
}

Test(bind, has_the_device_fetch_a_long_message) {
  plan_step_t send = {.kind = PLAN_SEND, .send = {.peer = 1, .src = chunk(PLAN_OUTPUT, 0)}};
  cr_assert_eq(intake_of(511, 511, send, true).kind, ENGINE_RECV);
  cr_assert_eq(intake_of(512, 512, send, true).kind, ENGINE_RECV_FETCH);
  cr_assert_eq(intake_of(512, 512, send, false).kind, ENGINE_RECV, "nothing shows its messages");
}

Test(bind, takes_a_message_for_a_whole_where_a_rank_only_receives) {
  plan_step_t wait = {.kind = PLAN_WAIT, .wait = {.peer = 1}};
  plan_step_t copy = {.kind = PLAN_COPY,
                      .copy = {.dst = chunk(PLAN_OUTPUT, 1), .src = chunk(PLAN_INPUT, 1)}};
  engine_action_t action = intake_of(1000, 10000, wait, true);
  cr_assert(action.kind == ENGINE_RECV_FETCH && action.whole == action.bytes);
  cr_assert_gt(intake_of(1000, 10000, copy, true).whole, action.bytes);
}

/* A copy to OUTPUT, and then whatever `tells` a peer of it. */
static bool settles_before(plan_step_t tells, plan_reach_t reach, size_t in_pass) {
  plan_step_t steps[] = {
      {.kind = PLAN_COPY, .copy = {.dst = chunk(PLAN_OUTPUT, 0), .src = chunk(PLAN_INPUT, 0)}},
      tells};
  plan_program_t program = {.lanes = {{.steps = steps, .count = 2}}};
  plan_t plan = {.shape = {COLL_BROADCAST, SIZE, 0}, .parts = 1, .lanes = 1, .reach = reach};
  scene_t scene;
  set_scene(&scene, 100, true);
  scene.pass.count = in_pass;
  bind(&scene, &plan, &program);
  bool settles = count_of(&scene, ENGINE_STORE_FENCE) == 1;
  if (settles) cr_assert_eq(scene.bound.actions[1].kind, ENGINE_STORE_FENCE);
  engine_bound_free(&scene.bound);
  return settles;
}

Test(bind, settles_parts_before_peers_are_told_of_them) {
  plan_step_t signal = {.kind = PLAN_SIGNAL, .signal = {.peer = 1}};
  plan_step_t send = {.kind = PLAN_SEND, .send = {.peer = 1, .src = chunk(PLAN_OUTPUT, 0)}};
  cr_assert(settles_before(signal, PLAN_REACH_USER, 10));
  cr_assert(settles_before(send, PLAN_REACH_USER, 10));
  cr_assert(!settles_before(signal, PLAN_REACH_USER, 100), "a whole is settled as it is");
  cr_assert(!settles_before(signal, PLAN_REACH_SCRATCH, 10), "nobody looks at OUTPUT");
}

Test(bind, leaves_out_what_is_empty) {
  scene_t scene;
  plan_t *plan = plan_of(COLL_ALLREDUCE, "ring", SIZE);
  set_scene(&scene, 1, false);
  bind(&scene, plan, &plan->programs[0]);
  for (size_t i = 0; i < scene.bound.action_count; i++) {
    cr_assert_gt(scene.bound.actions[i].bytes, 0, "action %zu moves nothing", i);
  }
  size_t of_one = scene.bound.action_count;
  scene.call.count = scene.pass.count = 1000;
  bind(&scene, plan, &plan->programs[0]);
  cr_assert_lt(of_one, scene.bound.action_count, "one element is not in both halves");
  engine_bound_free(&scene.bound);
  plan_free(plan);
}

Test(bind, moves_users_memory_along_with_the_pass) {
  scene_t scene;
  plan_t *plan = plan_of(COLL_ALLGATHER, "mapped", SIZE);
  set_scene(&scene, 1000, false);
  scene.pass = (engine_pass_t){.first = 0, .count = 100, .grain = 1};
  bind(&scene, plan, &plan->programs[0]);
  size_t operands = scene.bound.operand_count;
  engine_operand_t first[16];
  cr_assert(operands > 0 && operands <= 16);
  memcpy(first, scene.bound.operands, operands * sizeof *first);
  scene.pass.first = 300;
  bind(&scene, plan, &plan->programs[0]);
  cr_assert_eq(scene.bound.operand_count, operands);
  for (size_t i = 0; i < operands; i++) {
    cr_assert(
        scene.bound.operands[i].offset == first[i].offset && scene.bound.operands[i].bytes == 400,
        "operand %zu: a pass is like another of the same size", i);
  }
  engine_bound_free(&scene.bound);
  plan_free(plan);
}

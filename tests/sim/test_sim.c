/* Each rule by which a step has to wait, in plans of a few steps. */
#include <criterion/criterion.h>

#include "sim/sim.h"
#include "verify/samples.h"

#define HEAD(ranks, lanes)                                                        \
  "plan barrier small\nranks " ranks "\nroot 0\nparts 1\nscratch 2\nlanes " lanes \
  "\ndepth 1\nmessage 1\nreach scratch\n"

static plan_t *open_text(const char *text, size_t depth, sim_t *sim) {
  plan_t *plan = sample_plan(text, NULL, NULL);
  cr_assert_eq(sim_open(plan, depth, sim), COLL_OK, "%s", base_last_error());
  return plan;
}

static void close_text(plan_t *plan, sim_t *sim) {
  sim_close(sim);
  plan_free(plan);
}

static sim_state_t state_of(const sim_t *sim, size_t lane) {
  sim_step_t at;
  return sim_look(sim, lane, &at);
}

/* Runs so many steps of a lane, which must not have to wait. */
static void run_steps(sim_t *sim, size_t lane, int count) {
  for (int i = 0; i < count; i++) {
    cr_assert_eq(state_of(sim, lane), SIM_READY, "step %d of lane %zu", i, lane);
    sim_advance(sim, lane);
  }
}

/* The lane waits for the step of that number. */
static void expect_awaits(const sim_t *sim, size_t lane, size_t number) {
  sim_step_t at;
  cr_expect_eq(sim_look(sim, lane, &at), SIM_AWAITS_STEP);
  cr_expect_eq(at.awaited, number, "%zu, not %zu", at.awaited, number);
}

static size_t steps_done(const char *text, size_t depth, coll_status_t expected) {
  sim_t sim;
  plan_t *plan = open_text(text, depth, &sim);
  sim_begin(&sim, 1, false);
  sim_run(&sim, NULL, NULL);
  size_t done = sim.done;
  cr_expect_eq(sim_check_ended(&sim), expected);
  close_text(plan, &sim);
  return done;
}

Test(sim, samples_end) {
  cr_expect_eq(steps_done(SAMPLE_PAIR, 1, COLL_OK), 8);
  cr_expect_eq(steps_done(SAMPLE_CHAIN, 1, COLL_OK), 11);
  cr_expect_eq(steps_done(SAMPLE_PUSH, 0, COLL_OK), 16);
  cr_expect_eq(steps_done(SAMPLE_RENDEZVOUS, 0, COLL_OK), 4);
}

Test(sim, finds_a_deadlock) {
  static const char both_wait_first[] = HEAD("2", "1")
      "rank 0\n  copy scratch[0+1] <- scratch[1+1]\n  wait 1\n  signal 1\n"
      "rank 1\n  wait 0\n  signal 0\nend\n";
  cr_expect_eq(steps_done(both_wait_first, 1, COLL_ERROR_INTERNAL), 1);
  cr_expect_str_eq(base_last_error(), "plan small of barrier deadlocks");
}

Test(sim, without_room_a_message_that_nobody_receives_is_not_sent) {
  static const char unreceived[] =
      HEAD("2", "1") "rank 0\n  send 1 <- scratch[0+1]\nrank 1\n  signal 0\nend\n";
  cr_expect_eq(steps_done(unreceived, 0, COLL_ERROR_INTERNAL), 1);
  cr_expect_eq(steps_done(unreceived, 1, COLL_OK), 2);
}

Test(sim, a_message_that_nobody_sends_never_arrives) {
  static const char unsent[] = HEAD("2", "1")
      "rank 0\n  send 1 <- scratch[0+1]\n"
      "rank 1\n  recv 0 -> scratch[0+1]\n  recv 0 -> scratch[0+1]\nend\n";
  sim_t sim;
  plan_t *plan = open_text(unsent, SIM_UNBOUNDED, &sim);
  sim_begin(&sim, 2, false);
  sim_run(&sim, NULL, NULL);
  cr_expect_eq(sim.done, 3);
  expect_awaits(&sim, 1, SIM_NEVER);
  close_text(plan, &sim);
}

/* The receiver waits for the signal behind three messages. */
static const char three[] = HEAD("2", "1")
    "rank 0\n  send 1 <- scratch[0+1]\n  send 1 <- scratch[0+1]\n  send 1 <- scratch[0+1]\n"
    "  signal 1\n"
    "rank 1\n  wait 0\n  recv 0 -> scratch[0+1]\n  recv 0 -> scratch[0+1]\n"
    "  recv 0 -> scratch[0+1]\nend\n";

Test(sim, a_fifo_holds_depth_messages) {
  cr_expect_eq(steps_done(three, 1, COLL_ERROR_INTERNAL), 1);
  cr_expect_eq(steps_done(three, 2, COLL_ERROR_INTERNAL), 2);
  cr_expect_eq(steps_done(three, 3, COLL_OK), 8);
  cr_expect_eq(steps_done(three, SIM_UNBOUNDED, COLL_OK), 8);
}

/* Steps 0 to 2 send, 5 to 7 receive, of 8 in a pass. */
Test(sim, a_fifo_holds_messages_of_several_passes) {
  sim_t sim;
  plan_t *plan = open_text(three, 4, &sim);
  sim_begin(&sim, 3, false);
  run_steps(&sim, 0, 4 + 1);
  expect_awaits(&sim, 0, 5);
  run_steps(&sim, 1, 1);
  expect_awaits(&sim, 0, 5);
  run_steps(&sim, 1, 1);
  run_steps(&sim, 0, 1);
  expect_awaits(&sim, 0, 6);
  run_steps(&sim, 1, 2);
  run_steps(&sim, 0, 2); /* the signal needs no room */
  run_steps(&sim, 0, 1);
  expect_awaits(&sim, 0, 8 + 5);
  sim_run(&sim, NULL, NULL);
  cr_expect(sim_has_ended(&sim));
  close_text(plan, &sim);
}

/* The n-th receive takes the n-th message. */
Test(sim, messages_are_taken_in_order) {
  sim_t sim;
  plan_t *plan = open_text(three, SIM_UNBOUNDED, &sim);
  sim_begin(&sim, 2, false);
  expect_awaits(&sim, 1, 3);
  run_steps(&sim, 0, 8);
  run_steps(&sim, 1, 5);
  sim_step_t at;
  cr_expect_eq(sim_look(&sim, 1, &at), SIM_READY);
  cr_expect_eq(at.pass, 1);
  cr_expect_eq(at.index, 1);
  cr_expect_eq(at.number, 8 + 5);
  cr_expect_eq(at.awaited, 8 + 0);
  cr_expect_eq(at.link->partner, 0);
  cr_expect_eq(sim.links[1].partner, 6);
  cr_expect_eq(sim.links[6].partner, 1);
  close_text(plan, &sim);
}

Test(sim, without_room_a_send_meets_its_receive) {
  static const char late[] = HEAD("2", "1")
      "rank 0\n  send 1 <- scratch[0+1]\n  send 1 <- scratch[0+1]\n"
      "rank 1\n  copy scratch[0+1] <- scratch[1+1]\n  recv 0 -> scratch[0+1]\n"
      "  copy scratch[0+1] <- scratch[1+1]\n  recv 0 -> scratch[0+1]\nend\n";
  sim_t sim;
  plan_t *plan = open_text(late, 0, &sim);
  sim_begin(&sim, 1, false);
  expect_awaits(&sim, 0, 3);
  run_steps(&sim, 1, 1);
  expect_awaits(&sim, 1, 0);
  run_steps(&sim, 0, 1);
  expect_awaits(&sim, 0, 5);
  run_steps(&sim, 1, 2);
  run_steps(&sim, 0, 1);
  close_text(plan, &sim);
}

/* Lane 1 of the only rank waits for the second step of lane 0. */
static const char after[] = HEAD("1", "2")
    "rank 0\n  copy scratch[0+1] <- scratch[1+1]\n  copy scratch[0+1] <- scratch[1+1]\n"
    "lane 1\n  after 0:1\nend\n";

Test(sim, after_waits_for_the_step_of_its_pass) {
  sim_t sim;
  plan_t *plan = open_text(after, 1, &sim);
  sim_begin(&sim, 2, false);
  for (size_t pass = 0; pass < 2; pass++) {
    expect_awaits(&sim, 1, pass * 3 + 1);
    run_steps(&sim, 0, 1);
    expect_awaits(&sim, 1, pass * 3 + 1);
    run_steps(&sim, 0, 1);
    run_steps(&sim, 1, 1);
  }
  cr_expect_eq(state_of(&sim, 0), SIM_ENDED);
  cr_expect_eq(state_of(&sim, 1), SIM_ENDED);
  close_text(plan, &sim);
}

Test(sim, a_pass_begins_when_all_lanes_have_ended_the_one_before) {
  sim_t sim;
  plan_t *plan = open_text(after, 1, &sim);
  sim_begin(&sim, 2, false);
  run_steps(&sim, 0, 2);
  cr_expect_eq(state_of(&sim, 0), SIM_AWAITS_PASS);
  run_steps(&sim, 1, 1);
  cr_expect_eq(state_of(&sim, 0), SIM_READY);
  close_text(plan, &sim);
}

Test(sim, an_exchange_of_addresses_waits_for_all_ranks) {
  static const char alone[] = HEAD("2", "1")
      "rank 0\n  copy scratch[0+1] <- scratch[1+1]\n"
      "rank 1\n  copy scratch[0+1] <- scratch[1+1]\nend\n";
  sim_t sim;
  plan_t *plan = open_text(alone, 1, &sim);
  sim_begin(&sim, 3, false);
  run_steps(&sim, 0, 3);
  sim_begin(&sim, 3, true);
  for (int pass = 0; pass < 3; pass++) {
    run_steps(&sim, 0, 1);
    cr_expect_eq(state_of(&sim, 0), pass < 2 ? SIM_AWAITS_PASS : SIM_ENDED);
    run_steps(&sim, 1, 1);
  }
  close_text(plan, &sim);
}

Test(sim, signals_belong_to_lanes_and_messages_to_channels) {
  static const char crossed[] = HEAD("2", "2")
      "rank 0\n  signal 1\n  send 1:5 <- scratch[0+1]\n  send 1:1 <- scratch[0+1]\n"
      "lane 1\n  signal 1\n"
      "rank 1\n  wait 0\n  recv 0:1 -> scratch[0+1]\n"
      "lane 1\n  wait 0\n  recv 0:5 -> scratch[1+1]\nend\n";
  sim_t sim;
  plan_t *plan = open_text(crossed, 1, &sim);
  sim_begin(&sim, 1, false);
  run_steps(&sim, 1, 1);
  expect_awaits(&sim, 2, 0);
  run_steps(&sim, 3, 1);
  run_steps(&sim, 0, 2);
  run_steps(&sim, 2, 1);
  expect_awaits(&sim, 2, 2);
  run_steps(&sim, 3, 1);
  run_steps(&sim, 0, 1);
  run_steps(&sim, 2, 1);
  cr_expect(sim_has_ended(&sim));
  close_text(plan, &sim);
}

Test(sim, a_signal_is_not_taken_by_another_lane) {
  static const char other_lane[] =
      HEAD("2", "2") "rank 0\n  signal 1\nrank 1\nlane 1\n  wait 0\nend\n";
  sim_t sim;
  plan_t *plan = open_text(other_lane, 1, &sim);
  sim_begin(&sim, 1, false);
  run_steps(&sim, 0, 1);
  expect_awaits(&sim, 3, SIM_NEVER);
  close_text(plan, &sim);
}

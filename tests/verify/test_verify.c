/*
 * One damaged plan per verdict: the error found, its location and the sentence. The undamaged
 * samples must be proved.
 */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "samples.h"
#include "verify/verify.h"

static verify_report_t report_of(const plan_t *plan) {
  verify_report_t report;
  cr_assert_eq(verify_plan(plan, &report), COLL_OK, "%s", base_last_error());
  return report;
}

/* A one-shot allreduce of two ranks that read each other's INPUT. */
#define SAMPLE_ONESHOT                                            \
  "plan allreduce oneshot\nranks 2\nroot 0\nparts 1\nscratch 1\n" \
  "lanes 1\ndepth 0\nmessage 0\nreach user\n"                     \
  "rank 0\n"                                                      \
  "  reduce output[0+1] <- input[0+1], 1.input[0+1]\n"            \
  "  signal 1\n"                                                  \
  "  wait 1\n"                                                    \
  "rank 1\n"                                                      \
  "  reduce output[0+1] <- 0.input[0+1], input[0+1]\n"            \
  "  signal 0\n"                                                  \
  "  wait 0\n"                                                    \
  "end\n"

#define SAMPLE_BARRIER                                        \
  "plan barrier flags\nranks 2\nroot 0\nparts 1\nscratch 0\n" \
  "lanes 1\ndepth 0\nmessage 0\nreach scratch\n"              \
  "rank 0\n  signal 1\n  wait 1\n"                            \
  "rank 1\n  signal 0\n  wait 0\nend\n"

static const struct {
  const char *sample, *line, *replacement;
  verify_verdict_t verdict;
  int rank, lane, step;
  const char *text; /* the sentence, or its beginning */
} cases[] = {
    {SAMPLE_PAIR, NULL, NULL, VERIFY_PROVED, -1, -1, -1, ""},
    {SAMPLE_CHAIN, NULL, NULL, VERIFY_PROVED, -1, -1, -1, ""},
    {SAMPLE_PUSH, NULL, NULL, VERIFY_PROVED, -1, -1, -1, ""},
    {SAMPLE_RENDEZVOUS, NULL, NULL, VERIFY_PROVED, -1, -1, -1, ""},
    {SAMPLE_ONESHOT, NULL, NULL, VERIFY_PROVED, -1, -1, -1, ""},
    {SAMPLE_BARRIER, NULL, NULL, VERIFY_PROVED, -1, -1, -1, ""},

    {SAMPLE_CHAIN, "  send 2 <- output[1+1]\n",
     "  send 2 <- output[1+1]\n  send 2 <- output[1+1]\n", VERIFY_UNMATCHED, 1, 1, 4,
     "rank 1 lane 1 step 4 (send): rank 2 lane 1 never receives it: 3 sends, 2 receives"},
    {SAMPLE_BARRIER, "  signal 0\n", "  signal 0\n  signal 0\n", VERIFY_UNMATCHED, 1, 0, 1,
     "rank 1 lane 0 step 1 (signal): rank 0 lane 0 never waits for it: 2 signals, 1 waits"},

    {SAMPLE_PAIR, "  recv 0 -> scratch[0+2]", "  recv 0 -> scratch[0+1]", VERIFY_SIZE, 1, 0, 1,
     "rank 1 lane 0 step 1 (recv): receives 1 chunks, but the message of rank 0 lane 0 step 0 "
     "(send) "
     "has 2"},
    {SAMPLE_CHAIN, "  recv 1 -> output[0+1]", "  recv 1 -> output[1+1]", VERIFY_SIZE, 2, 1, 0,
     "rank 2 lane 1 step 0 (recv): starts at part 1 of a block, but the message of rank 1 lane 1 "
     "step 1 (send) at part 0, whose size differs"},

    {SAMPLE_RENDEZVOUS, "  recv 0 -> output[0+1]\n  send 0 <- input[0+1]\n",
     "  send 0 <- input[0+1]\n  recv 0 -> output[0+1]\n", VERIFY_DEADLOCK, 0, 0, 0,
     "rank 0 lane 0 step 0 (send): waits for rank 1 lane 0 (at step 0, send) to receive its "
     "message, "
     "which waits for rank 0 lane 0 (at step 0, send) to receive its message; no lane can continue "
     "with "
     "0 messages per FIFO"},
    {SAMPLE_BARRIER, "  signal 0\n", "", VERIFY_DEADLOCK, 0, 0, 1,
     "rank 0 lane 0 step 1 (wait): waits for rank 1 lane 0 (done) to signal; no lane"},
    {SAMPLE_PUSH, "  signal 1\n", "  after 1:1\n  signal 1\n", VERIFY_DEADLOCK, 0, 0, 0,
     "rank 0 lane 0 step 0 (after): waits for rank 0 lane 1 (at step 1, after) to complete a step, "
     "which waits for rank 0 lane 0 (at step 0, after) to complete a step; no lane can continue"},

    {SAMPLE_PUSH, "  copy 1.scratch[0+1] <- input[0+1]\n", "  copy 1.scratch[0+1] <- output[1+1]\n",
     VERIFY_UNWRITTEN, 0, 0, 2,
     "rank 0 lane 0 step 2 (copy): reads output[1] of rank 0, which was never written"},

    {SAMPLE_PAIR, "  after 0:1\n", "  after 0:0\n", VERIFY_UNWRITTEN, 0, 1, 1,
     "rank 0 lane 1 step 1 (reduce): reads scratch[0] of rank 0, which was never written"},
    {SAMPLE_PAIR, "  after 0:1\n  reduce output[0+2] <- scratch",
     "  after 0:0\n  reduce output[0+2] <- scratch", VERIFY_RACE, 1, 1, 1,
     "rank 1 lane 1 step 1 (reduce): reads scratch[0] of rank 1, which rank 1 lane 0 step 1 (recv) "
     "writes, and nothing orders the two"},
    {SAMPLE_PUSH, "  wait 1\n  copy 1.scratch[0+1] <- input[0+1]\n",
     "  copy 1.scratch[0+1] <- input[0+1]\n  wait 1\n", VERIFY_RACE, 0, 0, 1,
     "rank 0 lane 0 step 1 (copy): writes scratch[0] of rank 1, and nothing orders that after the "
     "start of rank 1's call"},
    {SAMPLE_ONESHOT, "  wait 1\nrank", "rank", VERIFY_RACE, 1, 0, 0,
     "rank 1 lane 0 step 0 (reduce): reads input[0] of rank 0, and nothing orders that before the "
     "end of rank 0's call"},
    {SAMPLE_ONESHOT, "  wait 0\nend", "end", VERIFY_RACE, 1, 0, -1,
     "the end of rank 1's call: input[0] of rank 1 may be returned to the caller before rank 0 "
     "lane 0 step 0 (reduce) reads it"},
    {SAMPLE_PAIR, "  reduce output[0+2] <- input[0+2], scratch[0+2]\n",
     "  copy output[0+2] <- input[0+2]\n  copy output[0+1] <- output[0+1]\n", VERIFY_CONTRIBUTION,
     0, 0, -1, "the end of rank 0's call: output[0] of rank 0 lacks rank 1's input[0]"},

    {SAMPLE_ONESHOT, "  reduce output[0+1] <- input[0+1], 1.input[0+1]\n",
     "  reduce input[0+1] <- input[0+1], 1.input[0+1]\n", VERIFY_CONST_INPUT, 0, 0, 0,
     "rank 0 lane 0 step 0 (reduce): writes input[0] of rank 0, which is the caller's and not "
     "output"},

    {SAMPLE_ONESHOT, "input[0+1], 1.input[0+1]", "input[0+1], input[0+1]", VERIFY_CONTRIBUTION, 0,
     0, -1, "the end of rank 0's call: output[0] of rank 0 holds rank 0's input[0] more than once"},
    {SAMPLE_RENDEZVOUS, "  recv 1 -> output[0+1]\n",
     "  recv 1 -> output[0+1]\n  copy output[0+1] <- input[0+1]\n", VERIFY_CONTRIBUTION, 0, 0, -1,
     "the end of rank 0's call: output[0] of rank 0 holds rank 0's input[0], where sendrecv "
     "requires rank 1's input[0]"},
    {SAMPLE_BARRIER, "  wait 1\nrank 1\n  signal 0\n", "rank 1\n", VERIFY_CONTRIBUTION, 0, 0, -1,
     "the end of rank 0's call: may leave the barrier before rank 1 has entered it"},

    {SAMPLE_PAIR, "scratch[0+2], input[0+2]\n", "input[0+2], scratch[0+2]\n", VERIFY_NOT_IDENTICAL,
     0, 0, -1,
     "the end of rank 0's call: output[0] of rank 0 and of rank 1 are reduced in "
     "different orders"},
};

Test(verify, every_verdict_and_its_sentence) {
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    plan_t *plan = sample_plan(cases[i].sample, cases[i].line, cases[i].replacement);
    verify_report_t report = report_of(plan);
    cr_expect_eq(report.verdict, cases[i].verdict, "case %zu: %s: %s", i,
                 verify_verdict_name(report.verdict), report.text);
    cr_expect(report.rank == cases[i].rank && report.lane == cases[i].lane &&
                  report.step == cases[i].step,
              "case %zu: at rank %d lane %d step %d: %s", i, report.rank, report.lane, report.step,
              report.text);
    cr_expect_eq(strncmp(report.text, cases[i].text, strlen(cases[i].text)), 0, "case %zu: %s", i,
                 report.text);
    plan_free(plan);
  }
}

/* An error in a result shows at the end; the step that wrote the chunk is its cause. */
Test(verify, the_cause_of_a_wrong_result_is_named) {
  static const char *const wrong[] = {"input[0+2], scratch[0+2]\n", "input[0+2], input[0+2]\n"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    plan_t *plan = sample_plan(SAMPLE_PAIR, "scratch[0+2], input[0+2]\n", wrong[i]);
    verify_report_t report = report_of(plan);
    cr_expect_eq(report.step, -1);
    cr_expect(report.cause.rank == report.rank && report.cause.lane == 1 && report.cause.step == 1,
              "lane %d step %d: %s", report.cause.lane, report.cause.step, report.text);
    plan_free(plan);
  }
  plan_t *plan = sample_plan(SAMPLE_ONESHOT, "  wait 0\nend", "end");
  verify_report_t report = report_of(plan);
  cr_expect(report.rank == 1 && report.step == -1, "%s", report.text);
  cr_expect(report.cause.rank == 0 && report.cause.lane == 0 && report.cause.step == 0, "%s",
            report.text);
  plan_free(plan);
}

/* A plan that states any order may reduce differently on each rank, but loses no contribution. */
Test(verify, any_order_is_proved_without_equal_bits) {
  plan_t *plan =
      sample_plan(SAMPLE_PAIR, "scratch[0+2], input[0+2]\n", "input[0+2], scratch[0+2]\n");
  plan->order = PLAN_ORDER_ANY;
  cr_expect_eq(report_of(plan).verdict, VERIFY_PROVED, "%s", report_of(plan).text);
  plan_free(plan);
  plan = sample_plan(SAMPLE_PAIR, "scratch[0+2], input[0+2]\n", "input[0+2], input[0+2]\n");
  plan->order = PLAN_ORDER_ANY;
  cr_expect_eq(report_of(plan).verdict, VERIFY_CONTRIBUTION, "%s", report_of(plan).text);
  plan_free(plan);
}

Test(verify, malformed_program_is_named) {
  plan_t *plan = sample_plan(SAMPLE_PAIR, NULL, NULL);
  plan->programs[1].lanes[0].steps[1].recv.dst.first = 7;
  verify_report_t report = report_of(plan);
  cr_expect_eq(report.verdict, VERIFY_MALFORMED);
  cr_expect(report.rank == 1 && report.lane == 0 && report.step == 1, "%s", report.text);
  cr_expect(report.cause.rank == 1 && report.cause.lane == 0 && report.cause.step == 1);
  cr_expect_not_null(strstr(report.text, "rank 1 lane 0 step 1"), "%s", report.text);
  plan_free(plan);
}

/* In place, INPUT is OUTPUT: a plan that is right with two buffers may overwrite its own source. */
Test(verify, in_place_aliasing_is_detected) {
  plan_t *plan = sample_plan(SAMPLE_ONESHOT, NULL, NULL);
  plan->programs[0].in_place = plan->programs[1].in_place = true;
  verify_report_t report = report_of(plan);
  cr_expect_eq(report.verdict, VERIFY_RACE, "%s", report.text);
  plan_free(plan);

  plan = sample_plan(SAMPLE_PAIR, "reduce output[0+2] <- input", "reduce input[0+2] <- output");
  plan->programs[0].in_place = plan->programs[1].in_place = true;
  report = report_of(plan);
  cr_expect_eq(report.verdict, VERIFY_PROVED, "%s", report.text);
  plan_free(plan);
}

/* A copy onto itself, shifted by a chunk, reads chunks that it has already overwritten. */
Test(verify, overlapping_copy_is_a_race) {
  plan_t *plan = sample_plan(
      "plan allgather shift\nranks 1\nroot 0\nparts 1\nscratch 4\nlanes 1\ndepth 0\nmessage 0\n"
      "reach own\nrank 0\n"
      "  copy scratch[0+1] <- input[0+1]\n"
      "  copy scratch[1+1] <- input[0+1]\n"
      "  copy scratch[1+2] <- scratch[0+2]\n"
      "  copy output[0+1] <- scratch[0+1]\nend\n",
      NULL, NULL);
  verify_report_t report = report_of(plan);
  cr_expect_eq(report.verdict, VERIFY_RACE, "%s", report.text);
  cr_expect_eq(report.step, 2);
  plan_free(plan);
}

/* Back-pressure of a bounded FIFO orders nothing: with a deeper FIFO the write comes too early. */
Test(verify, back_pressure_does_not_order_accesses) {
  plan_t *plan = sample_plan(
      "plan broadcast hasty\nranks 2\nroot 0\nparts 1\nscratch 1\nlanes 1\ndepth 1\nmessage 1\n"
      "reach scratch\n"
      "rank 0\n"
      "  copy output[0+1] <- input[0+1]\n"
      "  wait 1\n"
      "  send 1 <- input[0+1]\n"
      "  send 1 <- input[0+1]\n"
      "  send 1 <- input[0+1]\n" /* at depth 1, rank 1 has received the first message here */
      "  copy 1.scratch[0+1] <- input[0+1]\n"
      "  signal 1\n"
      "rank 1\n"
      "  signal 0\n"
      "  recv 0 -> scratch[0+1]\n"
      "  recv 0 -> output[0+1]\n"
      "  recv 0 -> output[0+1]\n"
      "  wait 0\nend\n",
      NULL, NULL);
  verify_report_t report = report_of(plan);
  cr_expect_eq(report.verdict, VERIFY_RACE, "%s", report.text);
  plan_free(plan);
}

/* Blocks of alltoallv differ in size: data may be stored only in its own block. */
Test(verify, alltoallv_blocks_have_their_own_sizes) {
  plan_t *plan = sample_plan(
      "plan alltoallv detour\nranks 2\nroot 0\nparts 1\nscratch 1\nlanes 1\ndepth 1\nmessage 1\n"
      "reach own\n"
      "rank 0\n"
      "  copy output[0+1] <- input[0+1]\n"
      "  send 1 <- input[1+1]\n"
      "  recv 1 -> output[1+1]\n"
      "rank 1\n"
      "  copy output[0+1] <- input[1+1]\n"
      "  copy output[1+1] <- input[1+1]\n"
      "  send 0 <- input[0+1]\n"
      "  recv 0 -> output[0+1]\nend\n",
      NULL, NULL);
  verify_report_t report = report_of(plan);
  cr_expect_eq(report.verdict, VERIFY_SIZE, "%s", report.text);
  cr_expect(report.rank == 1 && report.step == 0, "%s", report.text);
  plan_free(plan);
}

/* What one rank sends of a vector collective, the other must receive into a place of its size. */
Test(verify, uneven_blocks_have_their_own_sizes) {
  plan_t *plan = sample_plan(
      "plan allgatherv detour\nranks 2\nroot 0\nparts 1\nscratch 2\nlanes 1\ndepth 1\nmessage 1\n"
      "reach own\n"
      "rank 0\n"
      "  copy output[0+1] <- input[0+1]\n"
      "  send 1 <- input[0+1]\n"
      "  recv 1 -> output[1+1]\n"
      "rank 1\n"
      "  copy output[1+1] <- input[0+1]\n"
      "  send 0 <- input[0+1]\n"
      "  recv 0 -> scratch[1+1]\nend\n",
      NULL, NULL);
  verify_report_t report = report_of(plan);
  cr_expect_eq(report.verdict, VERIFY_SIZE, "%s", report.text);
  cr_expect(report.rank == 1 && report.step == 2, "%s", report.text);
  plan_free(plan);
}

/* A row of sends of a multicast plan starts when all FIFOs have room, where single sends would
 * start one by one. */
Test(verify, multicast_rows_need_room_in_all_fifos) {
  const char text[] =
      "plan broadcast rows\nranks 3\nroot 0\nparts 1\nscratch 2\nlanes 1\ndepth 1\nmessage 1\n"
      "reach own\nmulticast 0\n"
      "rank 0\n"
      "  copy output[0+1] <- input[0+1]\n"
      "  send 1 <- input[0+1]\n"
      "  send 2 <- input[0+1]\n"
      "  send 1 <- input[0+1]\n"
      "  send 2 <- input[0+1]\n"
      "  recv 1 -> scratch[0+1]\n"
      "rank 1\n"
      "  recv 0 -> output[0+1]\n"
      "  recv 0 -> scratch[0+1]\n"
      "  send 2 <- output[0+1]\n"
      "  send 0 <- output[0+1]\n"
      "rank 2\n"
      "  recv 1 -> output[0+1]\n" /* before it receives the messages of rank 0 */
      "  recv 0 -> scratch[0+1]\n"
      "  recv 0 -> scratch[1+1]\nend\n";
  plan_t *plan = sample_plan(text, NULL, NULL);
  verify_report_t report = report_of(plan);
  cr_expect_eq(report.verdict, VERIFY_PROVED, "%s", report.text);
  plan_free(plan);
  plan = sample_plan(text, "multicast 0", "multicast 1");
  report = report_of(plan);
  cr_expect_eq(report.verdict, VERIFY_DEADLOCK, "%s", report.text);
  cr_expect_not_null(strstr(report.text, "waits for rank 2 lane 0 (at step 0, recv) to receive"),
                     "%s", report.text);
  plan_free(plan);
}

/* Three operands at the root, reduced in ways that satisfy a stricter or weaker order. */
Test(verify, stated_order_is_checked) {
  static const struct {
    const char *order, *reductions;
    verify_verdict_t verdict;
  } ways[] = {
      {"exact", "  reduce output[0+1] <- input[0+1], scratch[0+1], scratch[1+1]\n", VERIFY_PROVED},
      {"canonical",
       "  reduce output[0+1] <- input[0+1], scratch[0+1]\n"
       "  reduce output[0+1] <- output[0+1], scratch[1+1]\n",
       VERIFY_PROVED},
      {"exact",
       "  reduce output[0+1] <- input[0+1], scratch[0+1]\n"
       "  reduce output[0+1] <- output[0+1], scratch[1+1]\n",
       VERIFY_ORDER},
      {"canonical",
       "  reduce output[0+1] <- scratch[0+1], scratch[1+1]\n"
       "  reduce output[0+1] <- input[0+1], output[0+1]\n",
       VERIFY_ORDER},
      {"canonical", "  reduce output[0+1] <- scratch[0+1], input[0+1], scratch[1+1]\n",
       VERIFY_ORDER},
      {"fixed", "  reduce output[0+1] <- scratch[0+1], input[0+1], scratch[1+1]\n", VERIFY_PROVED},
  };
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
    char text[1000];
    snprintf(text, sizeof text,
             "plan reduce by-hand\nranks 3\nroot 0\nparts 1\nscratch 2\nlanes 1\ndepth 1\n"
             "message 1\nreach own\norder %s\nrank 0\n  recv 1 -> scratch[0+1]\n"
             "  recv 2 -> scratch[1+1]\n%srank 1\n  send 0 <- input[0+1]\nrank 2\n"
             "  send 0 <- input[0+1]\nend\n",
             ways[i].order, ways[i].reductions);
    plan_t *plan = sample_plan(text, NULL, NULL);
    verify_report_t report = report_of(plan);
    cr_expect_eq(report.verdict, ways[i].verdict, "%zu: %s", i, report.text);
    plan_free(plan);
  }
}

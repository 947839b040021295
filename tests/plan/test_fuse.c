/*
 * Which steps are one action (plan/fuse.h), in hand-written programs: for each rule one that it
 * lets pass, and the nearest one that it does not.
 */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/fuse.h"
#include "plan/liveness.h"
#include "plan/text.h"

#define TEXT_BYTES 32768

/* The program of rank 0, and the step that is asked about. 0 stands for the defaults in brackets.
 */
typedef struct sample {
  const char *steps; /* as in plan/text.h; begins in lane 0 */
  const char *reach; /* [own] */
  int ranks;         /* [3] */
  int parts;         /* [1] */
  int lanes;         /* [1] */
  int depth;         /* [1] */
  bool multicast;
  int32_t lane;
  size_t step;
  size_t cut;                                /* the last steps of the lane lie behind its end */
  plan_step_t *(*alters)(plan_lane_t *lane); /* a step whose kind is changed, */
  plan_step_kind_t kind;                     /* to this one, as if its memory were used again */
} sample_t;

/* What the action must be. */
typedef struct expected {
  size_t steps;
  size_t reads; /* RECVs that its reduction reads in place */
} expected_t;

static int or_default(int value, int otherwise) {
  return value > 0 ? value : otherwise;
}

/* So that AddressSanitizer finds who reads behind the end. */
static void fit_memory(plan_lane_t *lane) {
  plan_step_t *steps = malloc(lane->count * sizeof *steps);
  cr_assert_not_null(steps);
  memcpy(steps, lane->steps, lane->count * sizeof *steps);
  free(lane->steps);
  lane->steps = steps;
  lane->capacity = lane->count;
}

/* Every rank has as many blocks of INPUT and OUTPUT as there are ranks. */
static plan_t *plan_of(const sample_t *s) {
  static char text[TEXT_BYTES];
  int bytes = snprintf(text, sizeof text,
                       "plan alltoall sample\nranks %d\nroot 0\nparts %d\nscratch 300\nlanes %d\n"
                       "depth %d\nmessage 2\nreach %s\nmulticast %d\nrank 0\n%send\n",
                       or_default(s->ranks, 3), or_default(s->parts, 1), or_default(s->lanes, 1),
                       or_default(s->depth, 1), s->reach != NULL ? s->reach : "own", s->multicast,
                       s->steps);
  cr_assert_lt(bytes, TEXT_BYTES);
  FILE *in = fmemopen(text, (size_t)bytes, "r");
  cr_assert_not_null(in);
  plan_t *plan = NULL;
  cr_assert_eq(plan_text_read(in, "sample", &plan), COLL_OK, "%s", base_last_error());
  fclose(in);
  plan_lane_t *lane = &plan->programs[0].lanes[s->lane];
  fit_memory(lane);
  lane->count -= s->cut;
  if (s->alters != NULL) s->alters(lane)->kind = s->kind;
  return plan;
}

/* The step of the action that reduces, or its end. */
static size_t reduction_of(const plan_lane_t *lane, const plan_fused_t *action) {
  size_t step = action->first;
  while (step < action->end && lane->steps[step].kind != PLAN_REDUCE) step++;
  return step;
}

static void expect(const plan_capabilities_t *can, expected_t expected, sample_t s) {
  plan_t *plan = plan_of(&s);
  const plan_lane_t *lane = &plan->programs[0].lanes[s.lane];
  const plan_fused_t action = plan_fuse(plan, &plan->programs[0], 0, s.lane, s.step, can);
  size_t reads = 0;
  for (size_t step = action.first; step < action.end; step++) {
    reads += plan_fused_reads(&action, step);
  }
  cr_expect(action.first == s.step && action.end == s.step + expected.steps &&
                action.reduction == reduction_of(lane, &action) && reads == expected.reads,
            "steps %u to %u, with the reduction at %u and %zu messages read in place, are one "
            "action, where %zu steps from step %zu and %zu messages should be, in:\n%.300s",
            action.first, action.end, action.reduction, reads, expected.steps, s.step,
            expected.reads, s.steps);
  plan_free(plan);
}

static const expected_t one = {.steps = 1}, two = {.steps = 2}, three = {.steps = 3};

/* The first steps, and then the step `count` times. */
static const char *repeated(char text[TEXT_BYTES], const char *first, const char *step, int count) {
  size_t bytes = (size_t)snprintf(text, TEXT_BYTES, "%s", first);
  for (int i = 0; i < count; i++) {
    bytes += (size_t)snprintf(text + bytes, TEXT_BYTES - bytes, "%s", step);
    cr_assert_lt(bytes, TEXT_BYTES);
  }
  return text;
}

/* ---- copies ---------------------------------------------------------------------------------*/

#define REDUCE "reduce output[0+1] <- input[0+1], input[1+1]\n"
#define COPY_RESULT "copy scratch[0+1] <- output[0+1]\n"
#define COPY_OTHER "copy scratch[1+1] <- output[1+1]\n"

static const plan_capabilities_t *const host = &plan_host_capabilities;
static const plan_capabilities_t *const gpu = &plan_gpu_capabilities;

Test(fuse, reduction_with_the_copies_of_its_result) {
  expect(host, three, (sample_t){REDUCE COPY_RESULT COPY_RESULT COPY_OTHER COPY_RESULT});
  expect(host, two, (sample_t){COPY_OTHER REDUCE COPY_RESULT, .step = 1});
  expect(host, one, (sample_t){REDUCE COPY_OTHER COPY_RESULT});
  expect(host, one,
         (sample_t){"reduce output[0+2] <- input[0+2], input[1+2]\n"
                    "copy scratch[0+1] <- output[0+1]\n"});
}

Test(fuse, no_step_behind_the_lane) {
  expect(host, two, (sample_t){REDUCE COPY_RESULT COPY_RESULT, .cut = 1});
  expect(host, one, (sample_t){REDUCE COPY_RESULT, .cut = 1});
}

static plan_step_t *last_step(plan_lane_t *lane) {
  return &lane->steps[lane->count - 1];
}

static plan_step_t *first_step(plan_lane_t *lane) {
  return &lane->steps[0];
}

static plan_step_t *second_step(plan_lane_t *lane) {
  return &lane->steps[1];
}

Test(fuse, no_step_that_is_no_copy) {
  expect(host, one, (sample_t){REDUCE REDUCE});
  expect(host, one, (sample_t){REDUCE COPY_RESULT, .alters = last_step, .kind = PLAN_SIGNAL});
  expect(host, one, (sample_t){REDUCE COPY_RESULT, .alters = first_step, .kind = PLAN_SIGNAL});
}

/* The second step has one source, input[0+1], when it is a reduction. */
Test(fuse, copies_of_what_a_step_copied_once) {
  expect(gpu, one,
         (sample_t){"reduce output[2+1] <- input[0+1]\n"
                    "copy output[0+1] <- output[1+1]\n"
                    "copy scratch[0+1] <- output[1+1]\n",
                    .step = 1, .alters = second_step, .kind = PLAN_REDUCE});
}

Test(fuse, copies_behind_a_copy) {
  static const char steps[] =
      "copy output[0+1] <- input[0+1]\n"
      "copy scratch[0+1] <- input[0+1]\n"
      "copy scratch[1+1] <- output[0+1]\n"
      "copy scratch[2+1] <- scratch[0+1]\n";
  expect(gpu, three, (sample_t){steps});
  expect(gpu, one, (sample_t){steps, .step = 2});
  expect(host, one, (sample_t){steps});
}

/* Of a reduction of several sources, or to the host, none is what the action copies; nor are the
 * sources of another step. */
Test(fuse, reduction_of_one_source_is_a_copy) {
#define COPY_SOURCE "copy scratch[0+1] <- input[0+1]\n"
  expect(gpu, two, (sample_t){"reduce output[0+1] <- input[0+1]\n" COPY_SOURCE});
  expect(host, one, (sample_t){"reduce output[0+1] <- input[0+1]\n" COPY_SOURCE});
  expect(gpu, one, (sample_t){REDUCE COPY_SOURCE});
  expect(gpu, one, (sample_t){REDUCE "reduce output[0+1] <- input[1+1]\n" COPY_SOURCE, .step = 1});
  expect(gpu, one, (sample_t){REDUCE "copy scratch[1+1] <- output[0+1]\n" COPY_SOURCE, .step = 1});
}

Test(fuse, reductions_that_pull_where_they_may) {
#define PULL "reduce output[0+1] <- input[0+1], 1.input[0+1]\n"
  expect(host, one, (sample_t){PULL COPY_RESULT, "read"});
  expect(gpu, two, (sample_t){PULL COPY_RESULT, "read"});
  expect(host, two, (sample_t){PULL COPY_RESULT, "user"});
  expect(host, one,
         (sample_t){"reduce output[0+1] <- 2.output[0+1], input[0+1]\n" COPY_RESULT, "read"});
  expect(host, two,
         (sample_t){"reduce output[0+1] <- input[0+1], 1.scratch[0+1]\n" COPY_RESULT, "read"});
  expect(host, two, (sample_t){REDUCE COPY_RESULT, "read"});
}

/* What follows the end of the sources of the reduction belongs to another. */
Test(fuse, reductions_that_pull_are_known_by_their_own_sources) {
  expect(host, two, (sample_t){PULL REDUCE COPY_RESULT PULL, "read", .step = 1});
  expect(host, one, (sample_t){REDUCE PULL COPY_RESULT REDUCE, "read", .step = 1});
}

Test(fuse, copies_of_peers_do_not_pull) {
  plan_capabilities_t can = *host;
  can.copies = true;
  expect(&can, two,
         (sample_t){"copy scratch[0+1] <- 1.output[0+1]\n"
                    "copy scratch[1+1] <- scratch[0+1]\n" PULL PULL,
                    "read"});
}

Test(fuse, destinations_up_to_their_limit) {
  static const char steps[] = REDUCE COPY_RESULT COPY_RESULT COPY_RESULT;
  plan_capabilities_t can = *host;
  for (int32_t dsts = 1; dsts <= 4; dsts++) {
    can.dsts_max = dsts;
    expect(&can, (expected_t){.steps = (size_t)dsts}, (sample_t){steps});
  }
  char text[TEXT_BYTES];
  repeated(text, REDUCE, COPY_RESULT, PLAN_FUSE_DSTS_MAX + 1);
  expect(host, (expected_t){.steps = PLAN_FUSE_DSTS_MAX}, (sample_t){text});
}

/* The sources of the action count with its destinations. */
Test(fuse, operands_up_to_their_limit) {
  plan_capabilities_t can = *gpu;
  can.operands_max = 4;
  expect(&can, two, (sample_t){REDUCE COPY_RESULT COPY_RESULT COPY_RESULT});
  expect(&can, three, (sample_t){COPY_SOURCE COPY_SOURCE COPY_SOURCE COPY_SOURCE});
  char text[TEXT_BYTES];
  repeated(text, REDUCE, COPY_RESULT, PLAN_FUSE_GPU_OPERANDS_MAX);
  expect(gpu, (expected_t){.steps = PLAN_FUSE_GPU_OPERANDS_MAX - 2}, (sample_t){text});
}

/* The end of a copy that another lane waits for is noted alone, unless the executor notes that of
 * the action. */
Test(fuse, no_copy_that_another_lane_waits_for) {
#define PAIR REDUCE COPY_RESULT COPY_RESULT
#define FILLER COPY_OTHER COPY_OTHER COPY_OTHER
  expect(gpu, two, (sample_t){PAIR "lane 1\n" COPY_OTHER "after 0:2\n", .lanes = 2});
  expect(host, three, (sample_t){PAIR "lane 1\n" COPY_OTHER "after 0:2\n", .lanes = 2});
  expect(gpu, two, (sample_t){PAIR "lane 2\nafter 0:2\n", .lanes = 3});
  expect(gpu, two, (sample_t){"after 1:2\nlane 1\n" PAIR, .lanes = 2, .lane = 1});
  expect(gpu, three, (sample_t){PAIR COPY_OTHER "lane 1\nafter 0:0\nafter 0:3\n", .lanes = 2});
  expect(gpu, three,
         (sample_t){PAIR "lane 1\n" FILLER "lane 2\nafter 1:1\nafter 1:2\n", .lanes = 3});
}

/* A send to rank 1 on channel 2 is not an AFTER of step 2 of lane 1. */
Test(fuse, only_an_after_waits_for_a_copy) {
  expect(gpu, three, (sample_t){"send 1:2 <- input[0+1]\nlane 1\n" PAIR, .lanes = 2, .lane = 1});
}

/* ---- messages -------------------------------------------------------------------------------*/

#define RECV_1 "recv 1 -> scratch[0+1]\n"
#define RECV_2 "recv 2 -> scratch[1+1]\n"
#define SUM_1 "reduce output[0+1] <- input[0+1], scratch[0+1]\n"
#define SUM_BOTH "reduce output[0+1] <- scratch[0+1], scratch[1+1]\n"

static const expected_t reads_one = {.steps = 2, .reads = 1};
static const expected_t reads_both = {.steps = 3, .reads = 2};

Test(fuse, messages_with_the_reduction_that_reads_them) {
  expect(host, reads_one, (sample_t){RECV_1 SUM_1});
  expect(host, reads_both, (sample_t){RECV_1 RECV_2 SUM_BOTH});
  expect(host, reads_one, (sample_t){RECV_1 RECV_2 SUM_BOTH, .step = 1});
  expect(host, (expected_t){.steps = 4, .reads = 2},
         (sample_t){RECV_1 RECV_2 SUM_BOTH "copy scratch[2+1] <- output[0+1]\n" COPY_OTHER});
  expect(gpu, one, (sample_t){RECV_1 SUM_1});
}

/* The sources of the sum before are the operands that a reduction in place of the copy had. */
Test(fuse, messages_with_no_other_step) {
  expect(host, one, (sample_t){RECV_1});
  expect(host, one, (sample_t){RECV_1 "send 1 <- input[0+1]\n" SUM_1});
  expect(host, one, (sample_t){RECV_1 RECV_2 SUM_BOTH, .cut = 1});
  expect(host, one, (sample_t){SUM_BOTH RECV_1 "copy output[0+1] <- scratch[0+1]\n", .step = 1});
}

Test(fuse, messages_into_scratch_only) {
  expect(host, one,
         (sample_t){"recv 1 -> output[1+1]\n"
                    "reduce output[0+1] <- input[0+1], output[1+1]\n"});
  expect(host, one,
         (sample_t){RECV_1 "recv 2 -> output[1+1]\n"
                           "reduce output[0+1] <- scratch[0+1], output[1+1]\n"});
}

/* Of each message, all that is received or nothing. */
Test(fuse, messages_that_the_reduction_reads_whole) {
  expect(host, one, (sample_t){RECV_1 RECV_2 SUM_1});
  expect(host, one, (sample_t){RECV_2 RECV_1 SUM_1});
  expect(host, one, (sample_t){"recv 1 -> scratch[0+2]\n" SUM_1});
  expect(host, one,
         (sample_t){"recv 1 -> scratch[0+2]\n"
                    "reduce output[0+2] <- scratch[0+2], scratch[1+2]\n"});
  expect(host, reads_one, (sample_t){RECV_1 "reduce output[0+1] <- scratch[0+1], scratch[0+1]\n"});
}

Test(fuse, messages_that_no_destination_overwrites) {
  expect(host, one, (sample_t){RECV_1 "reduce scratch[0+1] <- input[0+1], scratch[0+1]\n"});
  expect(host, one, (sample_t){RECV_1 SUM_1 COPY_RESULT});
  expect(host, one, (sample_t){RECV_1 SUM_1 "copy scratch[1+1] <- output[0+1]\n" COPY_RESULT});
  expect(host, reads_one, (sample_t){RECV_1 SUM_1 "copy scratch[0+1] <- output[1+1]\n"});
}

Test(fuse, messages_that_no_later_step_reads) {
  expect(host, one, (sample_t){RECV_1 SUM_1 "send 1 <- scratch[0+1]\n"});
  expect(host, one, (sample_t){RECV_1 RECV_2 SUM_BOTH "send 1 <- scratch[1+1]\n"});
  expect(host, reads_one, (sample_t){RECV_1 SUM_1 RECV_1 "send 1 <- scratch[0+1]\n"});
  expect(host, reads_one, (sample_t){"send 1 <- scratch[0+1]\n" RECV_1 SUM_1, .step = 1});
}

/* A FIFO shows its first message. */
Test(fuse, one_message_of_each_peer) {
  static const char again[] = "recv 1 -> scratch[1+1]\n" SUM_BOTH;
  char text[TEXT_BYTES];
  expect(host, one, (sample_t){repeated(text, RECV_1, again, 1)});
  expect(host, reads_one, (sample_t){repeated(text, RECV_1, again, 1), .step = 1});
  expect(host, one,
         (sample_t){RECV_1 "recv 2 -> scratch[2+1]\nrecv 1 -> scratch[1+1]\n"
                           "reduce output[0+1] <- scratch[0+1], scratch[1+1], scratch[2+1]\n"});
  expect(host, one,
         (sample_t){RECV_1 "recv 1 -> scratch[1+1]\nrecv 2 -> scratch[2+1]\n"
                           "reduce output[0+1] <- scratch[0+1], scratch[1+1], scratch[2+1]\n"});
}

static bool peeks_at(const void *context, int32_t peer) {
  const int32_t *shown = context;
  return peer == *shown;
}

/* Those of a multicast plan are read by all alike, if at all. */
Test(fuse, messages_that_the_transport_shows) {
  static const int32_t first = 1, nobody = -1;
  plan_capabilities_t can = *host;
  can.peeks = peeks_at;
  can.context = &first;
  expect(&can, reads_one, (sample_t){RECV_1 SUM_1});
  expect(&can, one, (sample_t){RECV_1 RECV_2 SUM_BOTH});
  expect(&can, one, (sample_t){RECV_2 RECV_1 SUM_BOTH});
  can.context = &nobody;
  expect(&can, one, (sample_t){RECV_1 SUM_1});
  expect(&can, reads_both, (sample_t){RECV_1 RECV_2 SUM_BOTH, .multicast = true});
  can.peeks = NULL;
  expect(&can, one, (sample_t){RECV_1 RECV_2 SUM_BOTH, .multicast = true});
}

Test(fuse, messages_of_plans_of_one_lane_without_mapped_memory) {
  expect(host, one, (sample_t){RECV_1 SUM_1, "scratch"});
  expect(host, one, (sample_t){RECV_1 SUM_1, "read"});
  expect(host, one, (sample_t){RECV_1 SUM_1, .lanes = 2});
}

/* A message that waits for that of another peer occupies a place of its FIFO. */
Test(fuse, several_messages_if_a_place_of_their_fifos_is_spare) {
  expect(host, reads_both, (sample_t){RECV_1 RECV_2 SUM_BOTH, .depth = PLAN_FIFO_DEPTH - 1});
  expect(host, one, (sample_t){RECV_1 RECV_2 SUM_BOTH, .depth = PLAN_FIFO_DEPTH});
  expect(host, one, (sample_t){RECV_1 RECV_2 SUM_BOTH, .depth = PLAN_FIFO_DEPTH + 1});
  expect(host, reads_one, (sample_t){RECV_1 SUM_1, .depth = PLAN_FIFO_DEPTH + 1});
}

Test(fuse, messages_of_lanes_that_are_short_enough_to_search) {
  static const char other[] = "copy output[1+1] <- input[1+1]\n";
  char text[TEXT_BYTES];
  expect(host, reads_one,
         (sample_t){repeated(text, RECV_1 SUM_1, other, PLAN_LIVENESS_STEPS_MAX - 2)});
  expect(host, one, (sample_t){repeated(text, RECV_1 SUM_1, other, PLAN_LIVENESS_STEPS_MAX - 1)});
}

static plan_capabilities_t splitting(plan_buffer_t buffer) {
  plan_capabilities_t can = *host;
  can.splits[buffer] = true;
  return can;
}

/* Chunks 1 and 2 are of two blocks, chunks 0 and 1 of one. */
#define ACROSS "recv 1 -> scratch[1+2]\nreduce output[1+2] <- input[1+2], scratch[1+2]\n"
#define WITHIN "recv 1 -> scratch[0+2]\nreduce output[2+2] <- input[0+2], scratch[0+2]\n"

Test(fuse, messages_with_operands_in_one_piece) {
  expect(host, reads_one, (sample_t){ACROSS, .parts = 2});
  for (int buffer = 0; buffer < PLAN_BUFFER_COUNT; buffer++) {
    const plan_capabilities_t can = splitting((plan_buffer_t)buffer);
    expect(&can, one, (sample_t){ACROSS, .parts = 2});
    expect(&can, reads_one, (sample_t){WITHIN, .parts = 2});
  }
}

/* The pieces of another reduction do not matter. */
Test(fuse, messages_with_their_own_operands_in_one_piece) {
#define SUM_WITHIN "reduce output[2+2] <- input[0+2], input[2+2]\n"
#define SUM_ACROSS "reduce output[1+2] <- input[1+2], input[3+2]\n"
  const plan_capabilities_t can = splitting(PLAN_INPUT);
  expect(&can, one, (sample_t){SUM_WITHIN ACROSS, .parts = 2, .step = 1});
  expect(&can, reads_one, (sample_t){SUM_ACROSS WITHIN, .parts = 2, .step = 1});
}

Test(fuse, messages_with_copies_in_one_piece) {
#define SUM_APART "recv 1 -> scratch[1+2]\nreduce scratch[3+2] <- input[1+2], scratch[1+2]\n"
#define COPY_ACROSS "copy output[1+2] <- scratch[3+2]\n"
#define COPY_APART "copy scratch[5+2] <- scratch[3+2]\n"
  static const expected_t all = {.steps = 4, .reads = 1};
  const plan_capabilities_t can = splitting(PLAN_OUTPUT);
  expect(&can, one, (sample_t){SUM_APART COPY_ACROSS COPY_APART, .parts = 2});
  expect(&can, one, (sample_t){SUM_APART COPY_APART COPY_ACROSS, .parts = 2});
  expect(&can, all, (sample_t){SUM_APART COPY_APART COPY_APART COPY_ACROSS, .parts = 2, .cut = 1});
  expect(host, all, (sample_t){SUM_APART COPY_ACROSS COPY_APART, .parts = 2});
}

/* ---- others ---------------------------------------------------------------------------------*/

Test(fuse, sends_of_a_row) {
  static const char row[] =
      "send 1 <- input[0+1]\n"
      "send 2 <- input[0+1]\n";
  char text[TEXT_BYTES];
  repeated(text, row, row, 1);
  expect(host, two, (sample_t){text, .multicast = true});
  expect(host, two, (sample_t){text, .multicast = true, .step = 2});
  expect(host, one, (sample_t){text});
  repeated(text, row, "send 3 <- input[0+1]\n", 1);
  expect(host, three, (sample_t){text, .multicast = true, .ranks = 4});
}

Test(fuse, steps_that_order_are_alone) {
  static const char steps[] =
      "signal 1\n"
      "wait 1\n"
      "after 1:0\n" COPY_OTHER "lane 1\n" COPY_OTHER;
  for (size_t step = 0; step < 3; step++) {
    expect(gpu, one, (sample_t){steps, "scratch", .lanes = 2, .step = step});
  }
}

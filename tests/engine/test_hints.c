/* The hints for nontemporal stores that the engine passes to the device, and its store fences. */
#include <criterion/criterion.h>
#include <string.h>

#include "alone.h"

enum { COUNT = 96 };

static alone_t alone;
static size_t into_scratch, into_output; /* the largest hint of each */
static int cached_dsts;                  /* cached destinations of the latest reduction */
static int fences;
static bool unfenced; /* data was stored since the latest fence */

static coll_status_t recording_copy(void *dst, const void *src, size_t bytes, size_t hint) {
  size_t *largest = (char *)dst == alone.scratch ? &into_scratch : &into_output;
  if (hint > *largest) *largest = hint;
  unfenced = true;
  memcpy(dst, src, bytes);
  return COLL_OK;
}

/* Supports one source. */
static coll_status_t recording_reduce(void *const dsts[], int dst_count, int cached,
                                      const void *const sources[], int source_count, size_t count,
                                      coll_dtype_t dtype, coll_op_t op, size_t hint) {
  (void)dtype, (void)op;
  cr_assert_eq(source_count, 1);
  cached_dsts = cached;
  if (hint > into_output) into_output = hint;
  for (int d = 0; d < dst_count; d++) memcpy(dsts[d], sources[0], count);
  return COLL_OK;
}

static void recording_fence(void) {
  unfenced = false;
  fences++;
}

static const device_ops_t recording = {.name = "recording",
                                       .copy = recording_copy,
                                       .reduce = recording_reduce,
                                       .store_fence = recording_fence};

static const plan_span_t in = {0, PLAN_INPUT, 0, 1}, out = {0, PLAN_OUTPUT, 0, 1};
static const plan_span_t temporary = {0, PLAN_SCRATCH, 0, 1};

/* Runs `first`, then a copy from SCRATCH to OUTPUT and, if `back`, a copy back, in as many passes
 * as SCRATCH requires. */
static void run_from(plan_step_t first, bool back, plan_reach_t reach) {
  static char input[COUNT], output[COUNT];
  plan_step_t steps[] = {first,
                         {.kind = PLAN_COPY, .copy = {.dst = out, .src = temporary}},
                         {.kind = PLAN_COPY, .copy = {.dst = temporary, .src = out}}};
  plan_span_t source = in;
  plan_program_t program = {.lanes = (plan_lane_t[]){{.steps = steps, .count = back ? 3 : 2}},
                            .sources = &source,
                            .source_count = 1};
  plan_t plan = {
      .shape = {COLL_ALLREDUCE, 1, 0}, .reach = reach, .parts = 1, .lanes = 1, .scratch_chunks = 1};
  engine_call_t call = {
      .input = input, .output = output, .count = COUNT, .element_bytes = 1, .id = {1, 2}};
  for (int i = 0; i < COUNT; i++) input[i] = (char)(i + 1);
  memset(output, 0, sizeof output);
  into_scratch = into_output = 0;
  fences = 0;
  alone_open(&alone, &recording);
  alone_run(&alone, &plan, &program, &call);
  cr_assert_arr_eq(output, input, COUNT);
  alone_close(&alone);
}

/* From INPUT to SCRATCH and from there to OUTPUT. */
static void run(plan_reach_t reach) {
  run_from((plan_step_t){.kind = PLAN_COPY, .copy = {.dst = temporary, .src = in}}, false, reach);
}

Test(hint, is_the_call_where_data_is_not_read_again) {
  run(PLAN_REACH_SCRATCH);
  cr_assert_eq(into_output, COUNT);
}

Test(hint, is_zero_for_scratch_that_peers_load) {
  run(PLAN_REACH_SCRATCH);
  cr_assert_eq(into_scratch, 0);
}

Test(hint, is_the_call_where_messages_do_not_send_it_on) {
  run(PLAN_REACH_OWN);
  cr_assert_eq(into_output, COUNT);
}

Test(hint, is_the_pass_where_data_is_read_again) {
  run_from((plan_step_t){.kind = PLAN_COPY, .copy = {.dst = temporary, .src = in}}, true,
           PLAN_REACH_OWN);
  cr_assert_eq(into_output, ALONE_SCRATCH_BYTES);
}

Test(hint, applies_to_destinations_that_are_not_cached) {
  run_from((plan_step_t){.kind = PLAN_REDUCE,
                         .reduce = {.dst = temporary, .first_source = 0, .source_count = 1}},
           false, PLAN_REACH_SCRATCH);
  cr_assert_eq(cached_dsts, 1, "scratch, but not the output");
  cr_assert_eq(into_output, COUNT);
}

Test(hint, is_followed_by_one_fence) {
  run(PLAN_REACH_SCRATCH);
  cr_assert(!unfenced, "stores that others may not see yet");
  cr_assert_eq(fences, 1);
}

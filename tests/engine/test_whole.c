/* What the engine tells the device about the whole of which an action stores a part. */
#include <criterion/criterion.h>
#include <string.h>

#include "alone.h"

enum { COUNT = 96 };

static alone_t alone;
static size_t into_scratch, into_output; /* the largest hint of each */
static int kept;                         /* destinations of the latest reduction */
static int settles;
static bool unsettled; /* something was stored since the latest */

static coll_status_t noting_copy(void *dst, const void *src, size_t bytes, size_t whole) {
  size_t *largest = (char *)dst == alone.scratch ? &into_scratch : &into_output;
  if (whole > *largest) *largest = whole;
  unsettled = true;
  memcpy(dst, src, bytes);
  return COLL_OK;
}

/* Of one source. */
static coll_status_t noting_reduce(void *const dsts[], int dst_count, int first_kept,
                                   const void *const sources[], int source_count, size_t count,
                                   coll_dtype_t dtype, coll_op_t op, size_t whole) {
  (void)dtype, (void)op;
  cr_assert_eq(source_count, 1);
  kept = first_kept;
  if (whole > into_output) into_output = whole;
  for (int d = 0; d < dst_count; d++) memcpy(dsts[d], sources[0], count);
  return COLL_OK;
}

static void noting_settle(void) {
  unsettled = false;
  settles++;
}

static const device_ops_t noting = {
    .name = "noting", .copy = noting_copy, .reduce = noting_reduce, .store_fence = noting_settle};

static const plan_span_t in = {0, PLAN_INPUT, 0, 1}, out = {0, PLAN_OUTPUT, 0, 1};
static const plan_span_t aside = {0, PLAN_SCRATCH, 0, 1};

/* `first`, from SCRATCH to OUTPUT, and then back where asked, in as many passes as SCRATCH makes of
 * it. */
static void run_from(plan_step_t first, bool back, plan_reach_t reach) {
  static char input[COUNT], output[COUNT];
  plan_step_t steps[] = {first,
                         {.kind = PLAN_COPY, .copy = {.dst = out, .src = aside}},
                         {.kind = PLAN_COPY, .copy = {.dst = aside, .src = out}}};
  plan_span_t source = in;
  plan_program_t program = {
      .lanes = {{.steps = steps, .count = back ? 3 : 2}}, .sources = &source, .source_count = 1};
  plan_t plan = {
      .shape = {COLL_ALLREDUCE, 1, 0}, .reach = reach, .parts = 1, .lanes = 1, .scratch_chunks = 1};
  engine_call_t call = {
      .input = input, .output = output, .count = COUNT, .element_bytes = 1, .id = {1, 2}};
  for (int i = 0; i < COUNT; i++) input[i] = (char)(i + 1);
  memset(output, 0, sizeof output);
  into_scratch = into_output = 0;
  settles = 0;
  alone_open(&alone, &noting);
  alone_run(&alone, &plan, &program, &call);
  cr_assert_arr_eq(output, input, COUNT);
  alone_close(&alone);
}

/* From INPUT to SCRATCH and on. */
static void run(plan_reach_t reach) {
  run_from((plan_step_t){.kind = PLAN_COPY, .copy = {.dst = aside, .src = in}}, false, reach);
}

Test(whole, is_the_call_where_a_pass_stores_for_good) {
  run(PLAN_REACH_SCRATCH);
  cr_assert_eq(into_output, COUNT);
}

Test(whole, is_nothing_where_peers_fetch_what_is_stored) {
  run(PLAN_REACH_SCRATCH);
  cr_assert_eq(into_scratch, 0);
}

Test(whole, is_the_call_where_a_plan_of_messages_does_not_send_it_on) {
  run(PLAN_REACH_OWN);
  cr_assert_eq(into_output, COUNT);
}

Test(whole, is_the_pass_where_it_is_read_again) {
  run_from((plan_step_t){.kind = PLAN_COPY, .copy = {.dst = aside, .src = in}}, true,
           PLAN_REACH_OWN);
  cr_assert_eq(into_output, ALONE_SCRATCH_BYTES);
}

Test(whole, is_of_the_others_where_some_destinations_are_kept) {
  run_from((plan_step_t){.kind = PLAN_REDUCE,
                         .reduce = {.dst = aside, .first_source = 0, .source_count = 1}},
           false, PLAN_REACH_SCRATCH);
  cr_assert_eq(kept, 1, "scratch, but not the output that is written along with it");
  cr_assert_eq(into_output, COUNT);
}

Test(whole, is_settled_once_when_all_is_stored) {
  run(PLAN_REACH_SCRATCH);
  cr_assert(!unsettled, "parts that others may not see yet");
  cr_assert_eq(settles, 1);
}

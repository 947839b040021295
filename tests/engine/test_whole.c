/* What the engine tells the device about the whole of which an action stores a part. */
#include <criterion/criterion.h>
#include <string.h>

#include "alone.h"

enum { COUNT = 96 };

static alone_t alone;
static size_t into_scratch, into_output; /* the largest hint of each */

static coll_status_t noting_copy(void *dst, const void *src, size_t bytes, size_t whole) {
  size_t *largest = (char *)dst == alone.scratch ? &into_scratch : &into_output;
  if (whole > *largest) *largest = whole;
  memcpy(dst, src, bytes);
  return COLL_OK;
}

static const device_ops_t noting = {.name = "noting", .copy = noting_copy};

/* From INPUT to SCRATCH and on to OUTPUT, in as many passes as SCRATCH makes of it. */
static void run(plan_reach_t reach) {
  static char input[COUNT], output[COUNT];
  plan_span_t in = {0, PLAN_INPUT, 0, 1}, out = {0, PLAN_OUTPUT, 0, 1};
  plan_span_t aside = {0, PLAN_SCRATCH, 0, 1};
  plan_step_t steps[] = {{.kind = PLAN_COPY, .copy = {.dst = aside, .src = in}},
                         {.kind = PLAN_COPY, .copy = {.dst = out, .src = aside}}};
  plan_program_t program = {.lanes = {{.steps = steps, .count = 2}}};
  plan_t plan = {
      .shape = {COLL_ALLREDUCE, 1, 0}, .reach = reach, .parts = 1, .lanes = 1, .scratch_chunks = 1};
  engine_call_t call = {
      .input = input, .output = output, .count = COUNT, .element_bytes = 1, .tag = 1};
  for (int i = 0; i < COUNT; i++) input[i] = (char)(i + 1);
  into_scratch = into_output = 0;
  alone_open(&alone, &noting);
  alone_run(&alone, &plan, &program, &call);
  cr_assert_arr_eq(output, input, COUNT);
  alone_close(&alone);
}

Test(whole, is_the_call_where_a_pass_stores_for_good) {
  run(PLAN_REACH_SCRATCH);
  cr_assert_eq(into_output, COUNT);
}

Test(whole, is_nothing_where_peers_fetch_what_is_stored) {
  run(PLAN_REACH_SCRATCH);
  cr_assert_eq(into_scratch, 0);
}

Test(whole, is_the_pass_where_messages_may_send_it_on) {
  run(PLAN_REACH_OWN);
  cr_assert_eq(into_output, ALONE_SCRATCH_BYTES);
}

/*
 * The text form: every builder's plan is equal after writing and reading, and malformed text is
 * rejected with line and reason, wherever a file may have been truncated.
 */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "base/names.h"
#include "plan/text.h"

static const char small_plan[] =
    "# a comment\n"
    "plan allreduce pair\n"
    "ranks 2\n"
    "root 0\n"
    "parts 2\n"
    "scratch 2   # one block\n"
    "lanes 2\n"
    "depth 1\n"
    "message 2\n"
    "reach user\n"
    "\n"
    "rank 0 in-place\n"
    "  send 1 <- input[0+2]\n"
    "  recv 1 -> scratch[0+2]\n"
    "lane 1\n"
    "  after 0:1\n"
    "  reduce output[0+2] <- input[0+2], scratch[0+2]\n"
    "  copy 1.output[0+2] <- output[0+2]\n"
    "  signal 1\n"
    "rank 1\n"
    "  send 0 <- input[0+2]\n"
    "  recv 0 -> scratch[0+2]\n"
    "lane 1\n"
    "  wait 0\n"
    "end\n";

static coll_status_t read_bytes(const char *text, size_t bytes, plan_t **plan) {
  FILE *in = bytes > 0 ? fmemopen((void *)text, bytes, "r") : fopen("/dev/null", "r");
  cr_assert_not_null(in);
  coll_status_t status = plan_text_read(in, "small.plan", plan);
  fclose(in);
  return status;
}

static void check_round_trip(const plan_t *plan) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&text, &bytes);
  cr_assert_eq(plan_text_write(plan, out), COLL_OK);
  fclose(out);
  plan_t *again = NULL;
  cr_assert_eq(read_bytes(text, bytes, &again), COLL_OK, "%s", base_last_error());
  cr_assert(plan_equal(plan, again), "%s changed in text", plan->algorithm);
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    cr_assert_eq(plan->programs[rank].in_place, again->programs[rank].in_place);
  }
  plan_free(again);
  free(text);
}

Test(plan_text, every_builder_round_trips) {
  int plans = 0;
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    const algo_t *algo;
    for (int i = 0; (algo = algo_at((coll_collective_t)c, i)) != NULL; i++) {
      for (int size = 1; size <= 17; size += size < 9 ? 1 : 4) {
        plan_shape_t shape = {.collective = algo->collective, .size = size};
        if (base_collective_is_rooted(algo->collective)) shape.root = size - 1;
        plan_t *plan = NULL;
        cr_assert_eq(algo_build(algo, &shape, ALGO_ALL_RANKS, size % 2 == 1, &plan), COLL_OK, "%s",
                     base_last_error());
        check_round_trip(plan);
        plan_free(plan);
        plans++;
      }
    }
  }
  cr_log_info("%d plans", plans);
}

Test(plan_text, hand_written_plan_reads) {
  plan_t *plan = NULL;
  cr_assert_eq(read_bytes(small_plan, strlen(small_plan), &plan), COLL_OK, "%s", base_last_error());
  cr_expect_eq(plan->shape.size, 2);
  cr_expect_eq(plan->reach, PLAN_REACH_USER);
  cr_expect(plan->programs[0].in_place && !plan->programs[1].in_place);
  cr_assert_eq(plan->programs[0].lanes[1].count, 4);
  const plan_step_t *reduce = &plan->programs[0].lanes[1].steps[1];
  cr_expect_eq(reduce->kind, PLAN_REDUCE);
  cr_expect_eq(reduce->reduce.source_count, 2);
  cr_expect_eq(plan->programs[0].sources[1].buffer, PLAN_SCRATCH);
  check_round_trip(plan);
  plan_free(plan);
}

/* A builder may emit steps of two lanes alternately; in text, lanes follow one another, so the
 * order of sources[] differs. */
Test(plan_text, order_of_sources_does_not_matter) {
  plan_shape_t shape = {.collective = COLL_ALLREDUCE, .size = 1};
  plan_t *plan = NULL;
  cr_assert_eq(plan_create(&shape, "alternating", &plan), COLL_OK);
  plan->parts = 2;
  cr_assert_eq(plan_set_lanes(plan, 2), COLL_OK);
  plan_emitter_t e = {.plan = plan, .program = &plan->programs[0]};
  for (int32_t i = 0; i < 4; i++) {
    plan_span_t source = plan_input(&e, i / 2, 1);
    plan_emit_reduce(&e, 1 - i % 2, plan_output(&e, i / 2, 1), &source, 1);
  }
  cr_assert_eq(e.status, COLL_OK);
  check_round_trip(plan);
  plan_free(plan);
}

/* Truncated at any byte, a file is rejected at a line or is still the same plan. */
Test(plan_text, truncated_files_are_rejected) {
  plan_t *whole = NULL;
  size_t bytes = strlen(small_plan), equal = 0;
  cr_assert_eq(read_bytes(small_plan, bytes, &whole), COLL_OK);
  for (size_t cut = 0; cut < bytes; cut++) {
    plan_t *plan = NULL;
    if (read_bytes(small_plan, cut, &plan) == COLL_OK) {
      cr_expect(plan_equal(plan, whole), "cut at byte %zu, it reads as another plan", cut);
      plan_free(plan);
      equal++;
    } else {
      cr_expect_null(plan);
      cr_expect_eq(strncmp(base_last_error(), "small.plan:", 11), 0, "%s", base_last_error());
    }
  }
  cr_expect_eq(equal, 1, "only the last newline may be missing");
  plan_free(whole);
}

/* With any byte replaced, reading gives an error or a plan, never a crash (run under ASan). */
Test(plan_text, any_byte_replaced_does_not_crash) {
  static const char replacements[] = "\0\n #09-[.,x";
  char text[sizeof small_plan];
  for (size_t at = 0; at < strlen(small_plan); at++) {
    for (size_t i = 0; i < sizeof replacements - 1; i++) {
      memcpy(text, small_plan, sizeof text);
      text[at] = replacements[i];
      plan_t *plan = NULL;
      if (read_bytes(text, strlen(small_plan), &plan) == COLL_OK) plan_free(plan);
    }
  }
}

/* The small plan with one line replaced, and the expected error. */
static const struct {
  const char *line, *replacement, *error;
} malformed[] = {
    {"plan allreduce pair", "plan allredcue pair",
     "small.plan:2: no collective is called 'allredcue'; did you mean 'allreduce'?"},
    {"plan allreduce pair", "plan allreduce",
     "small.plan:2: expected an algorithm's name, found "
     "the end of the line"},
    {"plan allreduce pair", "plan allreduce a-name-that-is-longer-than-a-plan-can-hold",
     "small.plan:2: the algorithm's name is longer than 31 characters"},
    {"plan allreduce pair",
     "\x7f"
     "ELF",
     "small.plan:2: expected 'plan COLLECTIVE ALGORITHM'"},
    {"ranks 2\n", "ranks 0\n", "small.plan:3: expected ranks from 1 to 4096, found '0'"},
    {"ranks 2\n", "ranks 99999999999999\n", "small.plan:3: expected ranks from 1 to 4096"},
    {"ranks 2\n", "ranks -1\n", "small.plan:3: expected ranks from 1 to 4096, found '-1'"},
    {"ranks 2\n", "rankz 2\n", "small.plan:3: expected the header's 'ranks' line, found 'rankz'"},
    {"root 0\n", "root 2\n", "small.plan:12: root 2 is not one of the 2 ranks"},
    {"root 0\n", "ranks 2\n", "small.plan:4: 'ranks' is given twice"},
    {"parts 2\n", "parts 2147483647\n", "small.plan:5: expected parts from 1 to 65536"},
    {"depth 1\n", "depth one\n", "small.plan:8: expected depth from 0 to 128, found 'one'"},
    {"reach user\n", "reach far\n", "small.plan:10: expected own, scratch or user, found 'far'"},
    {"reach user\n", "reach user\norder rising\n",
     "small.plan:11: expected any, fixed, canonical or exact, found 'rising'"},
    {"reach user\n", "reach user\norder exact\norder exact\n",
     "small.plan:12: 'order' is given twice"},
    {"reach user\n", "reach own\n",
     "small.plan:18: plan allreduce/pair: rank 0 lane 1 step 2: "
     "writes rank 1's output"},
    {"rank 0 in-place", "rank 2", "small.plan:12: expected a rank from 0 to 1, found '2'"},
    {"rank 0 in-place", "rank 0 inplace",
     "small.plan:12: expected the end of the line, found "
     "'inplace'"},
    {"rank 1\n", "rank 0\n", "small.plan:20: rank 0 after rank 0"},
    {"lane 1\n", "lane 2\n", "small.plan:15: expected a lane from 0 to 1, found '2'"},
    {"recv 1 -> scratch[0+2]", "recv 1 <- scratch[0+2]",
     "small.plan:14: expected '->', found '<-'"},
    {"recv 1 -> scratch[0+2]", "recv 1 -> scratch[0..2]",
     "small.plan:14: expected '+', found '..2]'"},
    {"recv 1 -> scratch[0+2]", "recv 1 -> scratch[0+0]",
     "small.plan:14: expected a number of chunks from 1 to 2147483647, found '0]'"},
    {"recv 1 -> scratch[0+2]", "recv 1 -> scratch[1+2]",
     "small.plan:14: plan allreduce/pair: rank 0 lane 0 step 1: scratch[1 +2] of rank 0 is outside "
     "its 2 chunks"},
    {"recv 1 -> scratch[0+2]", "recv 0 -> scratch[0+2]",
     "small.plan:14: plan allreduce/pair: rank 0 lane 0 step 1: a rank cannot be its own peer"},
    {"recv 1 -> scratch[0+2]", "receive 1 -> scratch[0+2]",
     "small.plan:14: expected a step, 'rank', 'lane' or 'end', found 'receive'"},
    {"after 0:1", "after 0:9",
     "small.plan:16: plan allreduce/pair: rank 0 lane 1 step 0: after step 9 of lane 0"},
    {"input[0+2], scratch", "input[0+2] scratch",
     "small.plan:17: expected the end of the line, found 'scratch[0+2]'"},
    {"end\n", "end\nend\n", "small.plan:26: expected nothing after 'end', found 'end'"},
    {"end\n", "# cut", "small.plan:25: the file ends without 'end': it was cut short"},
};

Test(plan_text, malformed_lines_are_named) {
  for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
    const char *found = strstr(small_plan, malformed[i].line);
    cr_assert_not_null(found, "%s", malformed[i].line);
    char text[sizeof small_plan + 100];
    snprintf(text, sizeof text, "%.*s%s%s", (int)(found - small_plan), small_plan,
             malformed[i].replacement, found + strlen(malformed[i].line));
    plan_t *plan = NULL;
    cr_expect_eq(read_bytes(text, strlen(text), &plan), COLL_ERROR_INVALID);
    cr_expect_null(plan);
    cr_expect_eq(strncmp(base_last_error(), malformed[i].error, strlen(malformed[i].error)), 0,
                 "for '%s':\n  %s\nwas expected, but it said\n  %s", malformed[i].replacement,
                 malformed[i].error, base_last_error());
  }
}

/* Reading from a device that never ends a line must not use unbounded memory. */
Test(plan_text, endless_line_is_rejected) {
  plan_t *plan = NULL;
  size_t bytes = 1 << 20;
  char *text = malloc(bytes);
  memset(text, 'x', bytes);
  cr_expect_eq(read_bytes(text, bytes, &plan), COLL_ERROR_INVALID);
  cr_expect_not_null(strstr(base_last_error(), "longer than"));
  free(text);
  FILE *in = fopen("/dev/zero", "r");
  cr_assert_not_null(in);
  cr_expect_eq(plan_text_read(in, "/dev/zero", &plan), COLL_ERROR_INVALID);
  fclose(in);
}

static void expect_multicast(const char *sends, const char *error) {
  char text[512];
  snprintf(text, sizeof text,
           "plan allreduce rows\nranks 3\nroot 0\nparts 1\nscratch 2\nlanes 1\ndepth 1\n"
           "message 1\nreach own\nmulticast 1\nrank 1\n%send\n",
           sends);
  plan_t *plan = NULL;
  coll_status_t status = read_bytes(text, strlen(text), &plan);
  cr_expect_eq(status, error == NULL ? COLL_OK : COLL_ERROR_INVALID, "%s", base_last_error());
  if (error != NULL) cr_expect_not_null(strstr(base_last_error(), error), "%s", base_last_error());
  if (plan != NULL) cr_expect(plan->multicast);
  plan_free(plan);
}

Test(plan_text, multicast_plans_send_the_same_span_to_all_peers) {
  expect_multicast("  send 2 <- input[0+1]\n  send 0 <- input[0+1]\n", NULL);
  expect_multicast("  send 0 <- input[0+1]\n  send 2 <- input[0+1]\n",
                   "step 0: a multicast plan must send to rank 2 here");
  expect_multicast("  send 2 <- input[0+1]\n", "step 1: a multicast plan must send to rank 0 here");
  expect_multicast("  send 2 <- input[0+1]\n  send 0 <- scratch[0+1]\n",
                   "step 1: a multicast plan must send the same span to all peers");
}

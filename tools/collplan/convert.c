/* collplan import and export: other people's schedules as plans, and plans as such schedules. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/text.h"
#include "tools/collplan/collplan.h"
#include "tools/collplan/msccl.h"
#include "verify/verify.h"

/* ---- import ---------------------------------------------------------------------------------*/

/* States the rejected step by the file's line, or its gpu if no step is to blame. */
static coll_status_t reject(const msccl_file_t *file, const msccl_lines_t *lines,
                            const verify_report_t *report) {
  int line = file->gpus[report->rank].line;
  if (report->cause.step >= 0) {
    line = msccl_line_of(lines, report->cause.rank, report->cause.lane, report->cause.step);
  }
  bool may_be_accepted = report->verdict == VERIFY_NOT_IDENTICAL;
  return msccl_refuse(
      file->name, line, "%s: %s%s", verify_verdict_name(report->verdict), report->text,
      may_be_accepted ? "; --any-order accepts that ranks hold different bits" : "");
}

/* Proves the plan, and sets its depth to the least of some that suffices. A plan that cannot be
 * stuck at a depth cannot be at a greater one. */
static coll_status_t run(plan_t *plan, verify_report_t *report) {
  static const int32_t depths[] = {1, 2, 4, 8, 16, 32, 64, PLAN_DEPTH_MAX};
  for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++) {
    plan->depth = depths[i];
    COLL_TRY(verify_plan(plan, report));
    if (report->verdict != VERIFY_DEADLOCK) break;
  }
  return COLL_OK;
}

/* any_order: where ranks reduce in different orders, the plan states that. */
static coll_status_t prove(const msccl_file_t *file, const msccl_lines_t *lines, bool any_order,
                           plan_t *plan) {
  verify_report_t report;
  COLL_TRY(run(plan, &report));
  if (report.verdict == VERIFY_NOT_IDENTICAL && any_order) {
    plan->order = PLAN_ORDER_ANY;
    COLL_TRY(run(plan, &report));
  }
  return report.verdict == VERIFY_PROVED ? COLL_OK : reject(file, lines, &report);
}

static coll_status_t import(FILE *in, const char *name, bool any_order) {
  msccl_file_t file;
  msccl_lines_t lines = {0};
  plan_t *plan = NULL;
  coll_status_t status = msccl_parse(in, name, stderr, &file);
  if (status == COLL_OK) status = msccl_import(&file, &plan, &lines);
  if (status == COLL_OK) status = prove(&file, &lines, any_order, plan);
  if (status == COLL_OK) status = plan_text_write(plan, stdout);
  plan_free(plan);
  msccl_lines_free(&lines);
  msccl_file_free(&file);
  return status;
}

static coll_status_t import_file(const char *name, bool any_order) {
  if (strcmp(name, "-") == 0) return import(stdin, "standard input", any_order);
  FILE *in = fopen(name, "r");
  if (in == NULL) return base_fail_errno(COLL_ERROR_INVALID, "cannot open %s", name);
  coll_status_t status = import(in, name, any_order);
  fclose(in);
  return status;
}

int collplan_import(int argc, char **argv) {
  bool any_order = false;
  const base_option_t options[] = {
      {0, "any-order", BASE_OPTION_FLAG, &any_order, NULL,
       "also if ranks reduce in different orders: they may then hold different bits", 0, 0, NULL},
  };
  const base_command_t command = {
      .name = "collplan import",
      .usage = "FILE.xml [options]",
      .summary =
          "Reads a schedule in MSCCL's XML, proves it and prints it as a plan in text. A "
          "schedule that is\nwrong is refused with the line of the step and the reason.",
      .examples =
          "  collplan import allreduce.xml > allreduce.plan\n"
          "      a plan that verify, show and export read\n"
          "  collplan import --any-order tree.xml > tree.plan\n"
          "      whose ranks may hold different bits of a sum, which the plan states\n",
      .options = options,
      .option_count = sizeof options / sizeof options[0]};
  const char *word;
  int code;
  if (!collplan_begin_one(&command, argc, argv, "file", &word, &code)) return code;
  return collplan_end(base_tool_input(import_file(word, any_order)));
}

/* ---- export ---------------------------------------------------------------------------------*/

static coll_status_t export(const collplan_request_t *request, bool msccl) {
  plan_t *plan = NULL;
  if (!msccl) {
    return base_fail(COLL_ERROR_INVALID, "export: name the format, --msccl");
  }
  COLL_TRY(collplan_make(request, &plan));
  coll_status_t status = base_tool_input(msccl_export(plan, stdout));
  plan_free(plan);
  return status;
}

int collplan_export(int argc, char **argv) {
  collplan_request_t request = {.ranks = 4};
  bool msccl = false;
  const base_option_t options[] = {
      {0, "msccl", BASE_OPTION_FLAG, &msccl, NULL, "as MSCCL's XML", 0, 0, NULL},
      {0, "algo", BASE_OPTION_TEXT, &request.algo, "NAME", "the algorithm; else the first listed",
       0, 0, NULL},
      {'n', "ranks", BASE_OPTION_INTEGER, &request.ranks, "N", "number of ranks", 1, PLAN_RANKS_MAX,
       NULL},
      {0, "root", BASE_OPTION_INTEGER, &request.root, "R", "the root", 0, PLAN_RANKS_MAX - 1, NULL},
      {0, "in-place", BASE_OPTION_FLAG, &request.in_place, NULL,
       "as for calls whose input and output overlap", 0, 0, NULL},
  };
  const base_command_t command = {
      .name = "collplan export",
      .usage = "COLLECTIVE|FILE --msccl [options]",
      .summary =
          "Prints a plan that only passes messages as a schedule of MSCCL. Reductions of "
          "several operands become\nchains, a lane with several peers several thread blocks.",
      .examples =
          "  collplan export allreduce --algo ring -n 8 --msccl > ring.xml\n"
          "      for MSCCL's runtime\n",
      .options = options,
      .option_count = sizeof options / sizeof options[0]};
  int code;
  if (!collplan_begin_one(&command, argc, argv, COLLPLAN_SOURCE, &request.word, &code)) return code;
  return collplan_end(export(&request, msccl));
}

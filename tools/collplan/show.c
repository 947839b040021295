/* collplan show: a plan as text or as a picture. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/text.h"
#include "tools/collplan/collplan.h"
#include "tools/collplan/picture.h"

typedef struct request {
  collplan_request_t plan;
  const char *svg, *layout_text;
  int64_t rank; /* -1: all */
} request_t;

static coll_status_t write_file(const char *file_name, const char *text, size_t bytes) {
  FILE *out = fopen(file_name, "w");
  if (out == NULL) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write %s", file_name);
  bool is_written = fwrite(text, 1, bytes, out) == bytes;
  is_written = fclose(out) == 0 && is_written;
  if (is_written) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write %s", file_name);
}

/* Draws into memory first, so that a picture that cannot be drawn does not overwrite an existing
 * file. */
static coll_status_t draw(const plan_t *plan, const char *file_name) {
  if (strcmp(file_name, "-") == 0) return picture_write(plan, stdout);
  char *text = NULL;
  size_t bytes = 0;
  FILE *stream = open_memstream(&text, &bytes);
  if (stream == NULL) return base_fail_errno(COLL_ERROR_MEMORY, "cannot draw the picture");
  coll_status_t status = picture_write(plan, stream);
  fclose(stream);
  if (status == COLL_OK) status = write_file(file_name, text, bytes);
  free(text);
  return status;
}

static coll_status_t print(const request_t *request, const plan_t *plan) {
  coll_collective_t collective;
  bool is_built = collplan_is_collective(request->plan.word, &collective);
  if (request->svg != NULL) {
    coll_status_t status = draw(plan, request->svg);
    return is_built ? status : base_tool_input(status);
  }
  if (request->rank < 0) return plan_text_write(plan, stdout);
  if (request->rank >= plan->shape.size) {
    return base_fail(COLL_ERROR_INVALID, "--rank %d: the plan has ranks 0 to %d",
                     (int)request->rank, plan->shape.size - 1);
  }
  return plan_text_write_rank(plan, (int)request->rank, stdout);
}

static coll_status_t show(request_t *request) {
  plan_t *plan = NULL;
  if (request->svg != NULL && request->rank >= 0) {
    return base_fail(COLL_ERROR_INVALID, "--svg draws all ranks; leave out --rank");
  }
  COLL_TRY(
      collplan_layout(request->layout_text, (int32_t)request->plan.ranks, &request->plan.layout));
  coll_status_t status = collplan_make(&request->plan, &plan);
  if (status == COLL_OK) status = print(request, plan);
  plan_free(plan);
  topo_layout_free(request->plan.layout);
  return status;
}

int collplan_show(int argc, char **argv) {
  request_t request = {.plan = {.ranks = 4}, .rank = -1};
  const base_option_t options[] = {
      {0, "algo", BASE_OPTION_TEXT, &request.plan.algo, "NAME",
       "the algorithm; else the first listed", 0, 0, NULL},
      {'n', "ranks", BASE_OPTION_INTEGER, &request.plan.ranks, "N", "number of ranks", 1,
       PLAN_RANKS_MAX, NULL},
      {0, "root", BASE_OPTION_INTEGER, &request.plan.root, "R", "the root, or the executor rank", 0,
       PLAN_RANKS_MAX - 1, NULL},
      {0, "in-place", BASE_OPTION_FLAG, &request.plan.in_place, NULL,
       "as for calls whose input and output overlap", 0, 0, NULL},
      {0, "rank", BASE_OPTION_INTEGER, &request.rank, "R", "only that rank's program; -1: all", -1,
       PLAN_RANKS_MAX - 1, NULL},
      {0, "svg", BASE_OPTION_TEXT, &request.svg, "FILE", "a picture instead (-: standard output)",
       0, 0, NULL},
      {0, "layout", BASE_OPTION_TEXT, &request.layout_text, "TEXT", COLLPLAN_LAYOUT_HELP, 0, 0,
       NULL},
  };
  const base_command_t command = {
      .name = "collplan show",
      .usage = "COLLECTIVE|FILE [options]",
      .summary =
          "Prints a plan as text that collplan loads back, or draws it: one row per rank, "
          "time to the right.",
      .examples =
          "  collplan show allreduce --algo ring -n 8\n      every rank's steps\n"
          "  collplan show broadcast -n 8 --root 3 --rank 3\n"
          "      what the root alone does\n"
          "  collplan show allreduce --algo ring -n 8 --svg ring.svg\n"
          "      a picture for a browser\n"
          "  collplan show allreduce --algo hierarchical -n 8 --layout hosts:3+5\n"
          "      two hosts, three ranks on the first\n"
          "  collplan show my.plan --svg my.svg\n"
          "      a plan written by hand\n",
      .options = options,
      .option_count = sizeof options / sizeof options[0]};
  int code;
  if (!collplan_begin_one(&command, argc, argv, COLLPLAN_SOURCE, &request.plan.word, &code))
    return code;
  return collplan_end(show(&request));
}

/* gpt schedule: builds a pipeline schedule, proves it, and shows it with its bubble. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "libtrain/planner/slices.h"
#include "libtrain/schedule/stages.h"
#include "tools/gpt/gpt.h"
#include "tools/gpt/lists.h"
#include "tools/gpt/partition.h"
#include "tools/gpt/schedule_replicas.h"
#include "tools/gpt/schedule_view.h"
#include "tools/gpt/slices.h"

enum { STAGES = 4, OPTIONS = 13 }; /* default of --pp; options of its own */

typedef struct request {
  int kind;
  int64_t stages, micro_batches, steps, chunks, columns;
  double update, latency;
  const char *costs_text, *layers_text, *slices_text, *svg, *json;
  double *layers; /* [layer_count], if layers_text */
  int layer_count;
  train_stage_cut_t *cuts; /* [layer_count] */
  double *parts;           /* of costs.virtual_stage_parts */
  double slice_parts[TRAIN_SLICES_MAX];
  gpt_replicas_t replicas;
  gpt_schedule_view_t view;
} request_t;

/* ---- options ---- */

static coll_status_t read_costs(request_t *request) {
  train_schedule_costs_t *costs = &request->view.costs;
  *costs = (train_schedule_costs_t){.forward = 1,
                                    .input = 1,
                                    .weight = 1,
                                    .update = request->update,
                                    .latency = request->latency};
  if (costs->update < 0 || costs->latency < 0) {
    return base_fail(COLL_ERROR_INVALID, "--update and --latency are times: at least 0");
  }
  const char *at = request->costs_text;
  if (at == NULL) return COLL_OK;
  bool is_read = gpt_list_number(&at, &costs->forward, NULL) &&
                 gpt_list_number(&at, &costs->input, NULL) &&
                 gpt_list_number(&at, &costs->weight, NULL);
  if (is_read && *at == '\0' && costs->forward + costs->input + costs->weight > 0) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "--costs %s: give the times of forward, backward (input) and backward "
                   "(weights), such as 1,1,1",
                   request->costs_text);
}

/* Slices of given lengths take times in proportion. */
static coll_status_t read_slices(request_t *request, train_schedule_shape_t *shape) {
  gpt_slices_t slices;
  double tokens = 0;
  int otherwise = shape->kind == TRAIN_SCHEDULE_TERAPIPE ? TRAIN_PLAN_SLICES : 1;
  COLL_TRY(gpt_slices_read(request->slices_text, otherwise, TRAIN_SCHEDULE_MAX_SLICES, &slices));
  shape->slices = slices.count;
  if (slices.lengths.count == 0) return COLL_OK;
  for (int i = 0; i < slices.count; i++) tokens += slices.lengths.lengths[i];
  for (int i = 0; i < slices.count; i++) {
    request->slice_parts[i] = slices.lengths.lengths[i] / tokens;
  }
  request->view.costs.slice_parts = request->slice_parts;
  return COLL_OK;
}

/* ---- partition ---- */

static coll_status_t read_layers(request_t *request) {
  return gpt_layer_costs_read(request->layers_text, &request->layers, &request->layer_count);
}

/* A schedule is of stages of one rank. */
static coll_status_t show_replicas(request_t *request) {
  if (request->layers_text == NULL) {
    return base_fail(COLL_ERROR_INVALID,
                     "--ranks %d cuts layers over ranks: give their times with --layer-costs, such "
                     "as 0.5,12*1,3",
                     (int)request->replicas.ranks);
  }
  if (request->stages > 0 || request->svg != NULL || request->json != NULL) {
    return base_fail(COLL_ERROR_INVALID,
                     "--ranks %d chooses the stages and shows no schedule: leave out --pp, --svg "
                     "and --json",
                     (int)request->replicas.ranks);
  }
  COLL_TRY(read_layers(request));
  return gpt_replicas_show(&request->replicas, request->layers, request->layer_count);
}

/* Cuts the layers into the virtual stages, and gives each its part of the time of a stage. */
static coll_status_t cut_layers(request_t *request, const train_schedule_shape_t *shape) {
  int virtual_stages = shape->stages * shape->chunks, count;
  COLL_TRY(read_layers(request));
  COLL_TRY(base_alloc((size_t)request->layer_count, sizeof *request->cuts, "stages",
                      (void **)&request->cuts));
  COLL_TRY(base_alloc((size_t)virtual_stages, sizeof(double), "stages", (void **)&request->parts));
  const train_stage_profile_t profile = {request->layer_count, request->layers, NULL, NULL};
  COLL_TRY(train_stages_cut(&profile, virtual_stages, 1, request->cuts, &count, NULL));
  double sum = 0;
  for (int i = 0; i < count; i++) sum += request->cuts[i].time;
  for (int i = 0; i < count; i++) {
    request->parts[i] = request->cuts[i].time / sum * shape->stages;
  }
  request->view.costs.virtual_stage_parts = request->parts;
  return COLL_OK;
}

/* The option of gpt train that cuts so, of a model with blocks between embedding and head. */
static void print_partition(const request_t *request, int ranges) {
  int blocks[TRAIN_SCHEDULE_MAX_STAGES];
  char text[TRAIN_STAGES_TEXT_BYTES];
  int layers = request->layer_count - 2;
  if (layers < 1 || ranges > TRAIN_SCHEDULE_MAX_STAGES) return;
  if (train_stages_blocks(request->layers, layers, ranges, blocks) != COLL_OK) return;
  printf("blocks of each: --partition %s\n", train_stages_text(blocks, ranges, text));
}

static void print_cuts(const request_t *request, const train_schedule_shape_t *shape) {
  double sum = 0;
  for (int i = 0; i < request->layer_count; i++) sum += request->layers[i];
  printf("%d layers, the slowest stage as fast as possible:\n", request->layer_count);
  for (int i = 0; i < shape->stages * shape->chunks; i++) {
    const train_stage_cut_t *cut = &request->cuts[i];
    printf("  stage %d", i % shape->stages);
    if (shape->chunks > 1) printf(", chunk %d", i / shape->stages);
    printf(": layer%s %d", cut->layers > 1 ? "s" : "", cut->first);
    if (cut->layers > 1) printf(" to %d", cut->first + cut->layers - 1);
    printf(", %.1f %% of the time\n", 100 * cut->time / sum);
  }
  print_partition(request, shape->stages * shape->chunks);
  printf("\n");
}

/* ---- printing ---- */

static void print_header(const request_t *request) {
  const train_schedule_costs_t *costs = &request->view.costs;
  const train_schedule_shape_t *shape = &request->view.schedule->shape;
  char title[GPT_SCHEDULE_TITLE_BYTES];
  printf("%s\n", gpt_schedule_title(shape, title));
  printf("a stage takes %g forward, %g backward (input %g, weights %g)", costs->forward,
         costs->input + costs->weight, costs->input, costs->weight);
  if (costs->update > 0) printf(", %g to update", costs->update);
  if (costs->latency > 0) printf("; a message takes %g", costs->latency);
  printf("\n");
  if (shape->kind != TRAIN_SCHEDULE_NAIVE &&
      train_schedule_total(shape) * shape->slices < shape->stages) {
    printf("note: fewer micro-batches than stages: at no time do all stages work\n");
  }
  printf("\n");
}

static void print_stages(const gpt_schedule_view_t *view) {
  const train_schedule_shape_t *shape = &view->schedule->shape;
  printf("stage  micro-batches held  limit  slots  versions    idle\n");
  for (int stage = 0; stage < shape->stages; stage++) {
    const train_stage_report_t *report = &view->report.stages[stage];
    double idle = view->timing.end > 0 ? 1 - view->timing.busy[stage] / view->timing.end : 0;
    printf("%5d  %18d  %5d  %5d  %8d  %5.1f %%\n", stage, report->live,
           train_schedule_live_limit(shape, stage), report->slots, report->versions,
           100 * fmax(idle, 0));
  }
  if (shape->chunks > 1) printf("micro-batches are counted in each of %d chunks\n", shape->chunks);
  printf("\n");
}

static void print_results(const gpt_schedule_view_t *view) {
  const train_schedule_shape_t *shape = &view->schedule->shape;
  double expected = train_schedule_bubble(shape, &view->costs);
  const char *formula = train_schedule_bubble_text(shape->kind);
  printf(
      "valid: every pass runs once, in order and on one version of the weights; no deadlock with "
      "%d send\nbuffer%s per channel\n",
      view->report.window, view->report.window == 1 ? "" : "s");
  if (view->report.staleness == 0) {
    printf("staleness 0: gradients are those of the newest weights\n");
  } else {
    printf(
        "staleness %d: weights are up to %d update%s older than the one that applies their "
        "gradient\n",
        view->report.staleness, view->report.staleness, view->report.staleness == 1 ? "" : "s");
  }
  if (fabs(view->timing.bubble - expected) < 1e-9) {
    printf("bubble %.2f %%, as the formula says: %s\n", 100 * expected, formula);
  } else {
    printf("bubble %.2f %%; with equal stages and no latency %.2f %%: %s\n",
           100 * view->timing.bubble, 100 * expected, formula);
  }
}

/* ---- the command ---- */

static coll_status_t show(request_t *request) {
  gpt_schedule_view_t *view = &request->view;
  COLL_TRY(train_schedule_check(view->schedule, &view->report));
  COLL_TRY(train_schedule_time(view->schedule, &view->costs, &view->timing));
  if (request->svg != NULL) COLL_TRY(gpt_schedule_draw(view, request->svg));
  if (request->json != NULL) COLL_TRY(gpt_schedule_write_json(view, request->json));
  print_header(request);
  if (request->layers_text != NULL) print_cuts(request, &view->schedule->shape);
  COLL_TRY(gpt_schedule_print_timeline(view, (int)request->columns));
  print_stages(view);
  print_results(view);
  return COLL_OK;
}

static coll_status_t run(request_t *request) {
  if (request->replicas.ranks > 0) return show_replicas(request);
  COLL_TRY(gpt_replicas_check_absent(&request->replicas));
  if (request->stages == 0) request->stages = STAGES;
  train_schedule_shape_t shape = {.kind = (train_schedule_kind_t)request->kind,
                                  .stages = (int)request->stages,
                                  .micro_batches = (int)request->micro_batches,
                                  .steps = (int)request->steps,
                                  .chunks = (int)request->chunks};
  if (shape.chunks == 0) shape.chunks = shape.kind == TRAIN_SCHEDULE_INTERLEAVED ? 2 : 1;
  if (shape.steps == 0) shape.steps = shape.kind == TRAIN_SCHEDULE_PIPEDREAM_2BW ? 3 : 1;
  COLL_TRY(read_costs(request));
  COLL_TRY(read_slices(request, &shape));
  COLL_TRY(train_schedule_create(&shape, &request->view.schedule));
  if (request->layers_text != NULL) COLL_TRY(cut_layers(request, &shape));
  return show(request);
}

static void release(request_t *request) {
  train_timing_free(&request->view.timing);
  train_schedule_report_free(&request->view.report);
  train_schedule_destroy(request->view.schedule);
  free(request->layers);
  free(request->cuts);
  free(request->parts);
}

int gpt_schedule(int argc, char **argv) {
  request_t request = {.kind = TRAIN_SCHEDULE_1F1B, .micro_batches = 8, .columns = 120};
  base_option_t options[OPTIONS + GPT_REPLICAS_OPTIONS] = {
      {0, "pp", BASE_OPTION_INTEGER, &request.stages, "N", "stages of the pipeline; default 4", 1,
       TRAIN_SCHEDULE_MAX_STAGES},
      {0, "microbatches", BASE_OPTION_INTEGER, &request.micro_batches, "N",
       "micro-batches of an update", 1, 1 << 20},
      {'k', "kind", BASE_OPTION_WORD, &request.kind, "NAME", "one of those above", 0, 0,
       train_schedule_names},
      {0, "virtual-stages", BASE_OPTION_INTEGER, &request.chunks, "N",
       "of each stage; 0: 2 for interleaved, 1 for others", 0, TRAIN_SCHEDULE_MAX_CHUNKS},
      {0, "slices", BASE_OPTION_TEXT, &request.slices_text, "N",
       "of the sequences, for terapipe; default 4; or tokens of each, such as 12,10,10"},
      {0, "updates", BASE_OPTION_INTEGER, &request.steps, "N",
       "updates; 0: 3 for pipedream-2bw, 1 for others", 0, 1 << 20},
      {0, "costs", BASE_OPTION_TEXT, &request.costs_text, "F,B,W",
       "times of forward, backward (input), backward (weights); default 1,1,1"},
      {0, "update", BASE_OPTION_NUMBER, &request.update, "X", "time of an update"},
      {0, "latency", BASE_OPTION_NUMBER, &request.latency, "X", "time of a message"},
      {0, "layer-costs", BASE_OPTION_TEXT, &request.layers_text, "LIST",
       "times of embedding, blocks and head, to cut them into stages"},
      {0, "columns", BASE_OPTION_INTEGER, &request.columns, "N", "width of the timeline", 40,
       10000},
      {0, "svg", BASE_OPTION_TEXT, &request.svg, "FILE", "also draw it"},
      {0, "json", BASE_OPTION_TEXT, &request.json, "FILE", "also write it, with every action"}};
  gpt_replicas_options(&request.replicas, options + OPTIONS);
  const base_command_t command = {
      .name = "gpt schedule",
      .usage = "[options]",
      .summary =
          "Shows the order in which the stages of a pipeline work, proves that it is valid, and "
          "compares its\nbubble (the share of time that stages idle) with the closed formula. "
          "Nothing is trained.\n"
          "\n"
          "Kinds:\n"
          "  naive          one micro-batch at a time\n"
          "  gpipe          all forward, then all backward\n"
          "  1f1b           one forward and one backward in turn: as fast, fewer activations\n"
          "  interleaved    1f1b with several virtual stages per stage: smaller bubble\n"
          "  zb-h1          backward split in two, the part for the weights fills the bubble\n"
          "  pipedream      an update after every micro-batch, stale weights, no flush\n"
          "  pipedream-2bw  an update after each batch, weights at most one update old, no flush\n"
          "  terapipe       slices of tokens follow each other through the stages",
      .examples =
          "  gpt schedule --pp 4 --microbatches 8 --kind 1f1b\n"
          "      F3 is forward of micro-batch 3, B3 backward, a dot idle time\n"
          "  gpt schedule --pp 4 --microbatches 8 --kind interleaved --virtual-stages 2 --svg "
          "i.svg\n"
          "      F3a and F3b are of the two virtual stages; also draws the picture\n"
          "  gpt schedule --pp 4 --kind zb-h1 --costs 1,1.2,0.8 --latency 0.1\n"
          "      W3 is the part of backward for the weights; measured times and messages\n"
          "  gpt schedule --pp 3 --layer-costs 0.5,12*1,3\n"
          "      cuts an embedding, 12 blocks and a head into 3 stages\n"
          "  gpt schedule --ranks 8 --layer-costs 0.5,12*1,3 --layer-weights 4,12*1,6\n"
          "      cuts them over 8 ranks, stages having unequal numbers of replicas\n",
      .options = options,
      .option_count = sizeof options / sizeof options[0]};
  bool helped = false;
  coll_status_t status = gpt_options_parse(&command, argc, argv, &helped);
  if (status == COLL_OK && helped) return 0;
  if (status == COLL_OK) status = base_tool_input(run(&request));
  int code = status == COLL_OK ? BASE_EXIT_DONE : base_tool_fail(command.name, status);
  release(&request);
  return code;
}

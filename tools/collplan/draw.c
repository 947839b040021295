/* collplan draw: a plan over a graph of machines, step by step, as an SVG picture. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/names.h"
#include "tools/collplan/collplan.h"
#include "tools/collplan/frames.h"
#include "topo/load.h"
#include "topo/place.h"

enum { LABEL_BYTES = 24 };

typedef struct request {
  const char *word, *algo, *topology;
  int64_t ranks, root;
  bool animated;
  plan_t *plan;
  topo_placement_t placement;
  topo_fabric_t *fabric;
} request_t;

/* ---- ranks ----------------------------------------------------------------------------------*/

/* GPUs of a host, or its cores if it has none. */
static int32_t places_in(const topo_graph_t *graph, int32_t host, bool *are_gpus) {
  int32_t gpus = 0, cores = 0;
  for (size_t i = 0; i < graph->node_count; i++) {
    if (topo_graph_host_of(graph, (int32_t)i) != host) continue;
    gpus += graph->nodes[i].kind == TOPO_GPU;
    cores += graph->nodes[i].kind == TOPO_CORE;
  }
  *are_gpus = gpus > 0;
  return gpus > 0 ? gpus : cores;
}

static coll_status_t check_places(const request_t *request, const topo_graph_t *graph) {
  const topo_placement_t *placement = &request->placement;
  for (int32_t first = 0, size = placement->layout->size; first < size;) {
    int32_t host = placement->host_of[first], count = 0;
    bool are_gpus;
    while (first < size && placement->host_of[first] == host) {
      first++;
      count++;
    }
    int32_t places = places_in(graph, host, &are_gpus);
    if (count <= places) continue;
    return base_fail(COLL_ERROR_INVALID,
                     "%d ranks do not fit %s: %d of them would share the %d %s of '%s'; use fewer "
                     "ranks, or a file with more hosts",
                     (int)size, request->topology, (int)count, (int)places,
                     are_gpus ? "GPUs" : "cores", graph->nodes[host].name);
  }
  return COLL_OK;
}

/* Places the ranks, and makes the fabric of which the paths are drawn. */
static coll_status_t place(request_t *request, int32_t ranks) {
  topo_graph_t *graph;
  int32_t *node_of = NULL;
  COLL_TRY(base_tool_input(topo_load(request->topology, TOPO_FORMAT_ANY, stderr, &graph)));
  coll_status_t status = topo_place(graph, ranks, &request->placement);
  if (status == COLL_OK) status = check_places(request, graph);
  if (status == COLL_OK) {
    status = base_alloc((size_t)ranks, sizeof *node_of, "ranks", (void **)&node_of);
  }
  if (status != COLL_OK) {
    topo_graph_free(graph);
    return status;
  }
  for (int32_t rank = 0; rank < ranks; rank++) {
    node_of[rank] = topo_placement_node(&request->placement, graph, rank);
  }
  status = topo_fabric_create(graph, ranks, node_of, &request->fabric);
  free(node_of);
  return status;
}

/* ---- labels ---------------------------------------------------------------------------------*/

/* The node whose box stands for the rank: cores have none. */
static int32_t box_of(const topo_graph_t *graph, int32_t node) {
  while (graph->nodes[node].kind == TOPO_CORE) node = graph->nodes[node].parent;
  return node;
}

/* "3", or "0-7" for several ranks of a box; ranks of a box follow each other. */
static void add_label(char *label, int32_t rank) {
  char first[LABEL_BYTES];
  snprintf(first, sizeof first, "%.*s", (int)strcspn(label, "-"), label);
  if (*label == '\0') {
    snprintf(label, LABEL_BYTES, "%d", (int)rank);
  } else {
    snprintf(label, LABEL_BYTES, "%.10s-%d", first, (int)rank);
  }
}

static coll_status_t draw_labelled(const request_t *request, const frames_t *frames) {
  const topo_graph_t *graph = topo_fabric_graph(request->fabric);
  char *texts = NULL;
  const char **labels = NULL;
  coll_status_t status = base_alloc(graph->node_count, LABEL_BYTES, "labels", (void **)&texts);
  if (status == COLL_OK) {
    status = base_alloc(graph->node_count, sizeof *labels, "labels", (void **)&labels);
  }
  for (int32_t rank = 0; status == COLL_OK && rank < request->plan->shape.size; rank++) {
    int32_t box = box_of(graph, topo_fabric_node(request->fabric, rank));
    labels[box] = &texts[box * LABEL_BYTES];
    add_label(&texts[box * LABEL_BYTES], rank);
  }
  if (status == COLL_OK) {
    status = frames_write(frames, request->plan, labels, request->animated, stdout);
  }
  free(labels);
  free(texts);
  return status;
}

/* ---- plans ----------------------------------------------------------------------------------*/

static coll_status_t build(request_t *request, coll_collective_t collective) {
  const algo_t *algo;
  bool legal;
  COLL_TRY(collplan_algo(collective, request->algo, &algo));
  COLL_TRY(collplan_check_root(collective, algo, request->root, (int32_t)request->ranks));
  COLL_TRY(place(request, (int32_t)request->ranks));
  const plan_shape_t shape = {.collective = collective,
                              .size = (int32_t)request->ranks,
                              .root = (int32_t)request->root,
                              .layout = request->placement.layout};
  COLL_TRY(algo_is_legal(algo, &shape, &legal));
  if (!legal) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s/%s maps memory of other ranks, and they are on several hosts; choose an "
                     "algorithm of reach 'own' (collplan list)",
                     base_collective_name(collective), algo->name);
  }
  return algo_build(algo, &shape, ALGO_ALL_RANKS, false, &request->plan);
}

static coll_status_t draw(request_t *request) {
  coll_collective_t collective;
  frames_t frames;
  if (request->topology == NULL) {
    return base_fail(COLL_ERROR_INVALID,
                     "draw: give the machines by --topology FILE (colltopo make prints some); "
                     "collplan show --svg draws a plan without");
  }
  if (collplan_is_collective(request->word, &collective)) {
    COLL_TRY(build(request, collective));
  } else {
    COLL_TRY(collplan_load(request->word, &request->plan));
    COLL_TRY(place(request, request->plan->shape.size));
  }
  COLL_TRY(frames_create(request->plan, request->fabric, &frames));
  coll_status_t status = draw_labelled(request, &frames);
  frames_free(&frames);
  return status;
}

int collplan_draw(int argc, char **argv) {
  request_t request = {.ranks = 8};
  const base_option_t options[] = {
      {0, "topology", BASE_OPTION_TEXT, &request.topology, "FILE",
       "the machines: JSON of colltopo, or XML of NCCL or hwloc", 0, 0, NULL},
      {0, "algo", BASE_OPTION_TEXT, &request.algo, "NAME", "the algorithm; else the first listed",
       0, 0, NULL},
      {'n', "ranks", BASE_OPTION_INTEGER, &request.ranks, "N", "number of ranks", 1, PLAN_RANKS_MAX,
       NULL},
      {0, "root", BASE_OPTION_INTEGER, &request.root, "R", "the root, or the executor rank", 0,
       PLAN_RANKS_MAX - 1, NULL},
      {0, "animate", BASE_OPTION_FLAG, &request.animated, NULL,
       "one step a second, instead of all beside each other", 0, 0, NULL},
  };
  const base_command_t command = {
      .name = "collplan draw",
      .usage = "COLLECTIVE|FILE --topology FILE [options]",
      .summary =
          "Prints an SVG picture of a plan over machines: a frame for each step, links coloured by "
          "the time\nthat they need for what they carry, and totals per class of link.",
      .examples =
          "  colltopo make dgx-a100 --hosts 2 --fabric rail > dgx2.json\n"
          "  collplan draw allreduce --algo hierarchical -n 16 --topology dgx2.json > h.svg\n"
          "      two machines, a rank on each GPU\n",
      .options = options,
      .option_count = sizeof options / sizeof options[0]};
  int code;
  if (!collplan_begin_one(&command, argc, argv, COLLPLAN_SOURCE, &request.word, &code)) return code;
  coll_status_t status = draw(&request);
  plan_free(request.plan);
  topo_fabric_free(request.fabric);
  topo_placement_free(&request.placement);
  return collplan_end(status);
}

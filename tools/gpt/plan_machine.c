/* The machine that layouts are planned for: from a file of colltopo, or hosts of equal size. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/gpt/plan.h"
#include "topo/load.h"
#include "topo/paths.h"
#include "topo/place.h"

/* Without a topology: NVLink of the third generation and a NIC of 200 Gb/s for each rank. */
#define HOST_BANDWIDTH 300e9
#define NETWORK_BANDWIDTH 25e9
#define HOST_LATENCY 1e-6
#define NETWORK_LATENCY 5e-6

#define DEFAULT_FLOPS 0.1e12 /* a rank on some cores */
#define REACHED 0.5  /* share of a data sheet's rate that products of a training run reach */
#define STREAMED 0.8 /* and of its memory bandwidth other operators */

/* Without --memory-bandwidth and a known GPU: bytes that a rank reads and writes while products do
 * a FLOP. As bench/step measures it on a core of a x86 processor with AVX-512: 200 GFLOP/s, 4 GB/s
 * in operators, which compute exponentials, and 20 GB/s in AdamW. */
#define OPERATOR_BYTES_PER_FLOP 0.02
#define UPDATE_BYTES_PER_FLOP 0.1

/* Data sheets of NVIDIA and AMD: TFLOP/s of matrix products without sparsity, GB of memory, GB/s
 * that it reads and writes. */
static const struct {
  const char *name;
  double narrow, float32; /* operands in 2 bytes; in float32 */
  double memory, bandwidth;
} gpus[] = {{"A100", 312, 19.5, 80, 2039},
            {"H100", 989, 67, 80, 3350},
            {"H200", 989, 67, 141, 4800},
            {"B200", 2250, 80, 180, 8000},
            {"MI300X", 1307, 163.4, 192, 5300}};

static void set_memory_bandwidth(double bandwidth, train_plan_machine_t *machine) {
  machine->operator_bandwidth = machine->update_bandwidth = bandwidth;
}

static void use_gpu(const char *model, train_precision_t precision, gpt_plan_machine_t *machine) {
  bool narrow = train_precision_stored(precision, TRAIN_KIND_WEIGHTS) != TRAIN_FLOAT32;
  for (size_t i = 0; i < sizeof gpus / sizeof gpus[0]; i++) {
    if (strstr(model, gpus[i].name) == NULL) continue;
    machine->machine.flops = REACHED * 1e12 * (narrow ? gpus[i].narrow : gpus[i].float32);
    machine->memory = (uint64_t)(gpus[i].memory * 1e9);
    set_memory_bandwidth(STREAMED * 1e9 * gpus[i].bandwidth, &machine->machine);
    snprintf(machine->source, sizeof machine->source, "half of the data sheet's rate of a %s",
             model);
  }
}

/* ---- links of a topology ---- */

/* A path between two ranks; false if there is none, or if both are on one node. */
static bool measure(const topo_graph_t *graph, const topo_placement_t *placement,
                    const topo_paths_t *paths, int a, int b, double *bandwidth, double *latency_s) {
  topo_path_t path;
  int32_t from = topo_placement_node(placement, graph, a);
  int32_t to = topo_placement_node(placement, graph, b);
  if (from == to || topo_path_find(paths, from, to, &path) != COLL_OK) return false;
  *bandwidth = path.gigabytes_per_s * 1e9;
  *latency_s = path.latency_us * 1e-6;
  topo_path_free(&path);
  return true;
}

static bool is_of_host(const topo_graph_t *graph, int32_t node, int32_t host) {
  return topo_graph_host_of(graph, node) == host;
}

/* The sum of a host's links to other hosts and to switches outside. */
static double width_of_host(const topo_graph_t *graph, int32_t host) {
  double sum = 0;
  for (size_t i = 0; i < graph->link_count; i++) {
    const topo_link_t *link = &graph->links[i];
    bool leaves = is_of_host(graph, link->a, host) != is_of_host(graph, link->b, host);
    if (leaves) sum += topo_link_width(link) * 1e9;
  }
  return sum;
}

static int ranks_of_host(const topo_placement_t *placement, int ranks, int32_t host) {
  int count = 0;
  for (int rank = 0; rank < ranks; rank++) count += placement->host_of[rank] == host;
  return count;
}

/* Inside a host from rank 0 to the slowest of its ranks; between hosts from rank 0 to the first
 * rank elsewhere, but no more than its part of the host's links. */
static void measure_links(const topo_graph_t *graph, const topo_placement_t *placement,
                          const topo_paths_t *paths, train_plan_machine_t *machine) {
  double slowest = INFINITY, bandwidth, latency_s;
  int32_t home = placement->host_of[0];
  bool outside = false;
  for (int rank = 1; rank < machine->ranks; rank++) {
    bool here = placement->host_of[rank] == home;
    if (!here && outside) continue;
    if (!measure(graph, placement, paths, 0, rank, &bandwidth, &latency_s)) continue;
    if (here && bandwidth < slowest) {
      slowest = bandwidth;
      machine->bandwidth[TRAIN_PLAN_INSIDE] = bandwidth;
      machine->latency_s[TRAIN_PLAN_INSIDE] = latency_s;
    } else if (!here) {
      double share = width_of_host(graph, home) / ranks_of_host(placement, machine->ranks, home);
      outside = true;
      machine->bandwidth[TRAIN_PLAN_BETWEEN] = share < bandwidth ? share : bandwidth;
      machine->latency_s[TRAIN_PLAN_BETWEEN] = latency_s;
    }
  }
}

/* Hosts in the order of the places of the mesh: by their lowest rank, all ranks of a host together.
 */
static coll_status_t take_hosts(const topo_placement_t *from, gpt_plan_machine_t *machine) {
  train_placement_t placement;
  int ranks = machine->machine.ranks;
  for (int rank = 0; rank < ranks; rank++) machine->host_of[rank] = from->host_of[rank];
  COLL_TRY(train_placement_init(ranks, machine->host_of, &placement));
  for (int place = 0; place < ranks; place++) {
    machine->host_of[place] = placement.host_of[placement.rank_at[place]];
  }
  machine->hosts = placement.hosts;
  train_placement_free(&placement);
  return COLL_OK;
}

static coll_status_t use_graph(const topo_graph_t *graph, train_precision_t precision,
                               gpt_plan_machine_t *machine) {
  topo_placement_t placement;
  topo_paths_t *paths;
  size_t count = topo_graph_count(graph, TOPO_GPU);
  if (count > 0 && (size_t)machine->machine.ranks > count) {
    return base_fail(COLL_ERROR_INVALID, "--ranks %d: the topology has %zu GPUs, one for a rank",
                     machine->machine.ranks, count);
  }
  COLL_TRY(topo_place(graph, machine->machine.ranks, &placement));
  coll_status_t status = topo_paths_create(graph, &paths);
  if (status == COLL_OK) {
    measure_links(graph, &placement, paths, &machine->machine);
    topo_paths_free(paths);
    status = take_hosts(&placement, machine);
  }
  int32_t gpu = placement.gpu_of[0];
  if (gpu != TOPO_NONE) use_gpu(graph->nodes[gpu].model, precision, machine);
  topo_placement_free(&placement);
  return status;
}

static coll_status_t use_topology(const char *path, train_precision_t precision,
                                  gpt_plan_machine_t *machine) {
  topo_graph_t *graph;
  COLL_TRY(topo_load(path, TOPO_FORMAT_ANY, stderr, &graph));
  coll_status_t status = use_graph(graph, precision, machine);
  topo_graph_free(graph);
  COLL_TRY(status);
  for (int link = 0; link < TRAIN_PLAN_LINKS; link++) {
    bool needed =
        link == TRAIN_PLAN_BETWEEN ? machine->hosts > 1 : machine->hosts < machine->machine.ranks;
    if (!needed || machine->machine.bandwidth[link] > 0) continue;
    return base_fail(COLL_ERROR_INVALID,
                     "%s: no links connect ranks %s; give --%s-bandwidth, in GB/s", path,
                     link == TRAIN_PLAN_BETWEEN ? "of different hosts" : "of one host",
                     link == TRAIN_PLAN_BETWEEN ? "network" : "host");
  }
  return COLL_OK;
}

/* ---- all ---- */

static void use_blocks(int64_t host_ranks, gpt_plan_machine_t *machine) {
  int ranks = machine->machine.ranks;
  for (int rank = 0; rank < ranks; rank++) machine->host_of[rank] = rank / (int)host_ranks;
  machine->hosts = machine->host_of[ranks - 1] + 1;
  machine->machine.bandwidth[TRAIN_PLAN_INSIDE] = HOST_BANDWIDTH;
  machine->machine.bandwidth[TRAIN_PLAN_BETWEEN] = NETWORK_BANDWIDTH;
  machine->machine.latency_s[TRAIN_PLAN_INSIDE] = HOST_LATENCY;
  machine->machine.latency_s[TRAIN_PLAN_BETWEEN] = NETWORK_LATENCY;
}

static coll_status_t check_positive(const char *option, double value) {
  if (value >= 0) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "--%s %g: give a positive number", option, value);
}

coll_status_t gpt_plan_machine_init(const gpt_plan_options_t *options, train_precision_t precision,
                                    int ranks, gpt_plan_machine_t *machine) {
  void *memory;
  train_plan_machine_t *speeds = &machine->machine;
  *machine = (gpt_plan_machine_t){.machine = {.ranks = ranks, .flops = DEFAULT_FLOPS},
                                  .source = "assumed; --tflops"};
  COLL_TRY(check_positive("tflops", options->tflops));
  COLL_TRY(check_positive("host-bandwidth", options->host_bandwidth));
  COLL_TRY(check_positive("network-bandwidth", options->network_bandwidth));
  COLL_TRY(check_positive("memory-bandwidth", options->memory_bandwidth));
  COLL_TRY(base_alloc((size_t)ranks, sizeof(int), "hosts of ranks", &memory));
  machine->host_of = memory;
  speeds->host_of = memory;
  speeds->bandwidth[TRAIN_PLAN_INSIDE] = options->host_bandwidth * 1e9;
  speeds->bandwidth[TRAIN_PLAN_BETWEEN] = options->network_bandwidth * 1e9;
  if (options->topology != NULL) {
    COLL_TRY(use_topology(options->topology, precision, machine));
  } else {
    use_blocks(options->host_ranks, machine);
  }
  if (options->host_bandwidth > 0) {
    speeds->bandwidth[TRAIN_PLAN_INSIDE] = options->host_bandwidth * 1e9;
  }
  if (options->network_bandwidth > 0) {
    speeds->bandwidth[TRAIN_PLAN_BETWEEN] = options->network_bandwidth * 1e9;
  }
  if (options->tflops > 0) {
    speeds->flops = options->tflops * 1e12;
    snprintf(machine->source, sizeof machine->source, "--tflops");
  }
  if (options->memory_bandwidth > 0) set_memory_bandwidth(options->memory_bandwidth * 1e9, speeds);
  if (speeds->operator_bandwidth == 0) {
    speeds->operator_bandwidth = OPERATOR_BYTES_PER_FLOP * speeds->flops;
    speeds->update_bandwidth = UPDATE_BYTES_PER_FLOP * speeds->flops;
  }
  if (options->memory > 0) machine->memory = options->memory;
  return COLL_OK;
}

void gpt_plan_machine_free(gpt_plan_machine_t *machine) {
  free(machine->host_of);
  machine->host_of = NULL;
}

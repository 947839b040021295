/* colltopo predict: which algorithm the library chooses on a topology, and the time of the call. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/names.h"
#include "base/progress.h"
#include "base/text.h"
#include "base/tool.h"
#include "tools/colltopo/colltopo.h"
#include "topo/fabric.h"
#include "tune/tune.h"

#define SIZES_MAX 64
#define DEFAULT_SIZES "1K,16K,256K,4M,64M"
#define ELEMENT_BYTES 4
#define SCRATCH_BYTES ((size_t)64 << 20)

typedef struct settings {
  const char *collective_name, *sizes_text;
  int64_t ranks; /* 0: one per GPU, or per host */
  int map;       /* topo_map_t */
  uint64_t message_bytes;
  bool all, json;
  coll_collective_t collective;
  uint64_t sizes[SIZES_MAX];
  int size_count;
} settings_t;

typedef struct prediction {
  const char *file;
  const settings_t *settings;
  const topo_layout_t *layout;
  const tune_machine_t *machine;
  const plan_capabilities_t *can;
  size_t hosts;
  tune_profile_t *profiles;
  tune_estimate_t *estimates;
  int *order; /* of the possible algorithms, from fast to slow */
  int count, possible, chosen;
} prediction_t;

/* ---- settings -------------------------------------------------------------------------------*/

static coll_status_t parse_sizes(settings_t *settings) {
  char word[32];
  for (const char *at = settings->sizes_text;; at++) {
    size_t length = strcspn(at, ",");
    snprintf(word, sizeof word, "%.*s", (int)length, at);
    if (settings->size_count == SIZES_MAX || length >= sizeof word ||
        !base_text_bytes(word, &settings->sizes[settings->size_count++])) {
      return base_fail(COLL_ERROR_INVALID, "--sizes %s: want up to %d sizes such as 4K,1M,64M",
                       settings->sizes_text, SIZES_MAX);
    }
    at += length;
    if (*at == '\0') return COLL_OK;
  }
}

static coll_status_t check_settings(settings_t *settings) {
  COLL_TRY(base_collective_find(settings->collective_name, &settings->collective));
  if (algo_at(settings->collective, 0) == NULL) {
    return base_fail(COLL_ERROR_INVALID, "--collective %s has no algorithms to choose from",
                     settings->collective_name);
  }
  return parse_sizes(settings);
}

/* ---- estimates ------------------------------------------------------------------------------*/

/* Bytes of a block where the larger of a rank's buffers has `bytes`. */
static size_t block_bytes(coll_collective_t collective, int32_t size, uint64_t bytes) {
  const plan_shape_t shape = {.collective = collective, .size = size};
  int32_t input = plan_blocks(&shape, 0, PLAN_INPUT), output = plan_blocks(&shape, 0, PLAN_OUTPUT);
  int32_t blocks = input > output ? input : output;
  if (blocks == 0) return 0;
  return (size_t)bytes / (size_t)blocks / ELEMENT_BYTES * ELEMENT_BYTES;
}

static tune_call_t call_of(const prediction_t *prediction, uint64_t bytes) {
  const settings_t *settings = prediction->settings;
  int32_t size = prediction->layout->size;
  bool mapped = topo_layout_is_mapped(prediction->layout);
  return (tune_call_t){.collective = settings->collective,
                       .bytes = block_bytes(settings->collective, size, bytes),
                       .element_bytes = ELEMENT_BYTES,
                       .size = size,
                       .cores = size,
                       .reach = PLAN_REACH_USER,
                       .room = {.slot_bytes = (size_t)settings->message_bytes,
                                .mcast_bytes = mapped ? (size_t)settings->message_bytes : 0,
                                .scratch_bytes = SCRATCH_BYTES}};
}

static const tune_estimate_t *sorted_estimates;

static int compare(const void *left, const void *right) {
  uint64_t a = sorted_estimates[*(const int *)left].total_ps;
  uint64_t b = sorted_estimates[*(const int *)right].total_ps;
  return (a > b) - (a < b);
}

/* Estimates all algorithms, and orders them from fast to slow. The chosen one need not be the
 * first: of those that are about as fast it has the fewest steps (TUNE_AS_GOOD). */
static coll_status_t estimate_all(prediction_t *prediction, uint64_t bytes) {
  const tune_call_t call = call_of(prediction, bytes);
  prediction->possible = 0;
  for (int i = 0; i < prediction->count; i++) {
    COLL_TRY(tune_estimate(prediction->machine, &prediction->profiles[i], &call,
                           &prediction->estimates[i]));
    if (prediction->estimates[i].verdict != TUNE_POSSIBLE) continue;
    prediction->order[prediction->possible++] = i;
  }
  sorted_estimates = prediction->estimates;
  qsort(prediction->order, (size_t)prediction->possible, sizeof(int), compare);
  prediction->chosen =
      tune_choose_of(prediction->profiles, prediction->estimates, prediction->count, &call);
  if (prediction->possible > 0) return COLL_OK;
  return base_fail(COLL_ERROR_UNSUPPORTED,
                   "no algorithm of %s fits messages of %" PRIu64 " bytes; give --message more",
                   prediction->settings->collective_name, prediction->settings->message_bytes);
}

static coll_status_t make_profiles(prediction_t *prediction) {
  coll_collective_t collective = prediction->settings->collective;
  while (algo_at(collective, prediction->count) != NULL) prediction->count++;
  size_t count = (size_t)prediction->count;
  COLL_TRY(base_alloc(count, sizeof(tune_profile_t), "profiles", (void **)&prediction->profiles));
  COLL_TRY(
      base_alloc(count, sizeof(tune_estimate_t), "estimates", (void **)&prediction->estimates));
  COLL_TRY(base_alloc(count, sizeof(int), "estimates", (void **)&prediction->order));
  for (int i = 0; i < prediction->count; i++) {
    COLL_TRY(tune_profile_make(algo_at(collective, i), prediction->layout->size, prediction->layout,
                               prediction->can, &prediction->profiles[i]));
  }
  return COLL_OK;
}

/* ---- output ---------------------------------------------------------------------------------*/

static const char *link_text(const prediction_t *prediction, const tune_estimate_t *estimate,
                             char text[2 * TOPO_NAME_BYTES + 16]) {
  int32_t wire = estimate->bottleneck.wire;
  const topo_fabric_t *fabric = prediction->layout->fabric;
  text[0] = '\0';
  if (wire < 0) return text;
  snprintf(text, 2 * TOPO_NAME_BYTES + 16, "%s to %s", topo_fabric_wire_from(fabric, wire)->name,
           topo_fabric_wire_to(fabric, wire)->name);
  return text;
}

static double busy_share(const tune_estimate_t *estimate) {
  if (estimate->total_ps == 0) return 0;
  return (double)estimate->bottleneck.busy_ps / (double)estimate->total_ps;
}

static void print_head(const prediction_t *prediction) {
  printf("# %s among %d ranks on %zu hosts, cut into messages of up to %" PRIu64 " bytes\n",
         prediction->settings->collective_name, prediction->layout->size, prediction->hosts,
         prediction->settings->message_bytes);
  printf("# %10s  %-22s %12s %8s  %-22s  %s\n", "size (B)", "algorithm", "time (us)", "GB/s",
         prediction->settings->all ? "" : "next", "busiest link");
}

/* How much slower than the chosen one: "ring x1.20". The next one is the fastest of the others. */
static void write_next(const prediction_t *prediction, char *text, size_t bytes) {
  if (prediction->possible < 2) return;
  int other = prediction->order[prediction->order[0] == prediction->chosen];
  snprintf(text, bytes, "%s x%.2f", prediction->profiles[other].algo->name,
           (double)prediction->estimates[other].total_ps /
               (double)prediction->estimates[prediction->chosen].total_ps);
}

/* Why the library takes an algorithm that is not the fastest. */
static const char *reason(const prediction_t *prediction, int algorithm) {
  if (algorithm != prediction->chosen) return "";
  if (algorithm != prediction->order[0]) return "  (chosen: about as fast, with fewer steps)";
  return prediction->settings->all ? "  (chosen)" : "";
}

static void print_line(const prediction_t *prediction, int algorithm, const char *size,
                       const char *next, uint64_t bytes) {
  const tune_estimate_t *estimate = &prediction->estimates[algorithm];
  char link[2 * TOPO_NAME_BYTES + 16];
  double us = (double)estimate->total_ps * 1e-6;
  printf("  %10s  %-22s %12.1f %8.3f  %-22s  %s %.0f %%%s\n", size,
         prediction->profiles[algorithm].algo->name, us, us > 0 ? (double)bytes * 1e-3 / us : 0,
         next, link_text(prediction, estimate, link), 100 * busy_share(estimate),
         reason(prediction, algorithm));
}

static void print_size(const prediction_t *prediction, uint64_t bytes) {
  char size[24], next[48] = "";
  snprintf(size, sizeof size, "%" PRIu64, bytes);
  if (!prediction->settings->all) {
    write_next(prediction, next, sizeof next);
    print_line(prediction, prediction->chosen, size, next, bytes);
    return;
  }
  for (int i = 0; i < prediction->possible; i++) {
    print_line(prediction, prediction->order[i], i == 0 ? size : "", "", bytes);
  }
}

static json_t *describe(const prediction_t *prediction, uint64_t bytes) {
  json_t *algorithms = json_array();
  for (int i = 0; i < prediction->possible; i++) {
    const tune_estimate_t *estimate = &prediction->estimates[prediction->order[i]];
    char link[2 * TOPO_NAME_BYTES + 16];
    json_t *terms = json_object();
    for (int term = 0; term < TUNE_TERM_COUNT; term++) {
      json_object_set_new(terms, tune_term_name((tune_term_t)term),
                          json_real((double)estimate->term_ps[term] * 1e-6));
    }
    json_array_append_new(algorithms,
                          json_pack("{s:s, s:b, s:f, s:o, s:s, s:f, s:f}", "algo",
                                    prediction->profiles[prediction->order[i]].algo->name, "chosen",
                                    prediction->order[i] == prediction->chosen, "time_us",
                                    (double)estimate->total_ps * 1e-6, "terms_us", terms, "link",
                                    link_text(prediction, estimate, link), "link_bytes",
                                    (double)estimate->bottleneck.bytes, "link_busy_us",
                                    (double)estimate->bottleneck.busy_ps * 1e-6));
  }
  return json_pack("{s:I, s:o}", "bytes", (json_int_t)bytes, "algorithms", algorithms);
}

static coll_status_t print_json(const prediction_t *prediction, json_t *rows) {
  json_t *document = json_pack(
      "{s:s, s:s, s:s, s:i, s:I, s:O}", "tool", "colltopo predict", "file", prediction->file,
      "collective", prediction->settings->collective_name, "ranks", prediction->layout->size,
      "message_bytes", (json_int_t)prediction->settings->message_bytes, "rows", rows);
  if (document == NULL) return base_fail(COLL_ERROR_MEMORY, "no memory for the prediction");
  (void)json_dumpf(document, stdout, JSON_INDENT(1));
  json_decref(document);
  putchar('\n');
  return COLL_OK;
}

static coll_status_t predict_sizes(prediction_t *prediction, json_t *rows) {
  const settings_t *settings = prediction->settings;
  base_progress_t progress;
  base_progress_begin(&progress, "predict", settings->size_count);
  for (int i = 0; i < settings->size_count; i++) {
    COLL_TRY(estimate_all(prediction, settings->sizes[i]));
    if (settings->json) {
      json_array_append_new(rows, describe(prediction, settings->sizes[i]));
    } else {
      print_size(prediction, settings->sizes[i]);
    }
    if (progress.terminal) base_progress_update(&progress, i + 1, "");
  }
  if (progress.terminal) base_progress_end(&progress, settings->size_count, "");
  return COLL_OK;
}

static coll_status_t predict(prediction_t *prediction) {
  json_t *rows = json_array();
  coll_status_t status = make_profiles(prediction);
  if (status == COLL_OK && !prediction->settings->json) print_head(prediction);
  if (status == COLL_OK) status = predict_sizes(prediction, rows);
  if (status == COLL_OK && prediction->settings->json) status = print_json(prediction, rows);
  json_decref(rows);
  free(prediction->order);
  free(prediction->estimates);
  free(prediction->profiles);
  return status;
}

/* ---- public ---------------------------------------------------------------------------------*/

/* Takes the graph over. */
static coll_status_t predict_on(const char *file, const settings_t *settings, topo_graph_t *graph) {
  size_t gpus = topo_graph_count(graph, TOPO_GPU), hosts = topo_graph_count(graph, TOPO_HOST);
  topo_placement_t placement;
  COLL_TRY(colltopo_place(graph, settings->ranks, (topo_map_t)settings->map, &placement));
  coll_status_t status = COLL_OK;
  if (placement.layout->fabric == NULL) {
    status = base_tool_input(
        base_fail(COLL_ERROR_INVALID,
                  "all ranks are on one host without GPUs: there the choice follows from costs "
                  "that are measured; collrun -n 2 collbench allreduce --explain prints it"));
  }
  prediction_t prediction = {.file = file,
                             .settings = settings,
                             .layout = placement.layout,
                             .machine = gpus > 0 ? &tune_machine_gpu : &tune_machine_builtin,
                             .can = gpus > 0 ? &plan_gpu_capabilities : &plan_host_capabilities,
                             .hosts = hosts};
  if (status == COLL_OK) status = predict(&prediction);
  topo_placement_free(&placement);
  return status;
}

int colltopo_predict(int argc, char **argv) {
  settings_t settings = {.collective_name = "allreduce",
                         .sizes_text = DEFAULT_SIZES,
                         .message_bytes = (uint64_t)1 << 20};
  const char *file;
  const base_option_t options[] = {
      {'c', "collective", BASE_OPTION_TEXT, &settings.collective_name, "NAME",
       "allreduce, allgather, ...", 0, 0, NULL},
      {'n', "ranks", BASE_OPTION_INTEGER, &settings.ranks, "N",
       "number of ranks; 0: one per GPU, or per host", 1, 65536, NULL},
      colltopo_map_option(&settings.map),
      {0, "sizes", BASE_OPTION_TEXT, &settings.sizes_text, "LIST",
       "bytes of a rank's larger buffer", 0, 0, NULL},
      {0, "message", BASE_OPTION_BYTES, &settings.message_bytes, "BYTES",
       "longest message of the transport", 64, (int64_t)1 << 30, NULL},
      {0, "all", BASE_OPTION_FLAG, &settings.all, NULL, "every algorithm, not only the chosen one",
       0, 0, NULL},
      {0, "json", BASE_OPTION_FLAG, &settings.json, NULL,
       "for machines: every algorithm with its terms", 0, 0, NULL}};
  const base_command_t command = {
      .name = "colltopo predict",
      .usage = "FILE [options]",
      .summary =
          "Prints which algorithm the library chooses for each size on the topology of a "
          "file, and the time\nof the call, by simulating every algorithm over the links. "
          "Computing is priced at the costs of a\ntypical processor or GPU. The file has several "
          "hosts, or GPUs.",
      .examples =
          "  colltopo predict dgx4.json\n      allreduce among all GPUs\n"
          "  colltopo predict torus.json --collective allgather --sizes 64K,1M --all\n"
          "      all algorithms, from fast to slow\n",
      .options = options,
      .option_count = sizeof options / sizeof options[0]};
  int code;
  if (!colltopo_begin(&command, argc, argv, &file, 1, &code)) return code;
  topo_graph_t *graph;
  coll_status_t status = check_settings(&settings);
  if (status == COLL_OK) status = colltopo_load(file, TOPO_FORMAT_ANY, &graph);
  if (status == COLL_OK) status = predict_on(file, &settings, graph);
  return colltopo_close(NULL, status);
}

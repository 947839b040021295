/* colltopo traffic: the bytes over each class of link, for each map of ranks to hosts. */
#include "tools/colltopo/traffic.h"

#include <inttypes.h>

#include "plan/plan.h"
#include "tools/colltopo/colltopo.h"

typedef struct settings {
  const char *collective, *algorithm, *svg;
  int64_t ranks; /* 0: one per GPU, or per host */
  uint64_t bytes;
} settings_t;

static coll_status_t check_settings(const settings_t *settings) {
  if (settings->algorithm == NULL) return COLL_OK;
  if (settings->collective == NULL) {
    return base_fail(COLL_ERROR_INVALID, "--algorithm %s: of which collective? Give --collective",
                     settings->algorithm);
  }
  if (!traffic_is_neighbours(settings->collective)) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "--algorithm %s: --collective neighbours has no algorithms; leave one of the "
                   "two out",
                   settings->algorithm);
}

/* Without a collective: two that show what the map changes and what it does not, and the exchange
 * that the grid map is for. */
static coll_status_t count_all(traffic_t *traffic, const settings_t *settings,
                               const topo_graph_t *graph) {
  int64_t ranks = settings->ranks;
  if (settings->collective != NULL) {
    return traffic_add(traffic, graph, ranks, settings->collective, settings->algorithm);
  }
  COLL_TRY(traffic_add(traffic, graph, ranks, "allreduce", "ring"));
  COLL_TRY(traffic_add(traffic, graph, ranks, "allreduce", "hierarchical"));
  return traffic_add(traffic, graph, ranks, "neighbours", NULL);
}

/* ---- output ---------------------------------------------------------------------------------*/

static void print_head(const traffic_t *traffic) {
  printf("# %d ranks on %d hosts; a rank's largest buffer (neighbours: each message) has %" PRId64
         " bytes\n",
         (int)traffic->ranks, (int)traffic->hosts, traffic->size);
  printf("# bytes over all links of a class, and over the busiest link in one direction\n");
  printf("# %-11s %-22s %-8s", "collective", "algorithm", "map");
  for (int c = 0; c < TOPO_CLASS_COUNT; c++) {
    if (traffic->is_used[c]) printf("  %15s %13s", topo_class_name((topo_class_t)c), "busiest");
  }
  printf("\n");
}

static bool uses_links(const traffic_t *traffic) {
  bool uses = false;
  for (int c = 0; c < TOPO_CLASS_COUNT; c++) uses = uses || traffic->is_used[c];
  return uses;
}

static void print_table(const traffic_t *traffic) {
  if (!uses_links(traffic)) {
    printf("# no bytes cross any link\n");
    return;
  }
  print_head(traffic);
  for (int i = 0; i < traffic->count; i++) {
    const traffic_pattern_t *pattern = &traffic->patterns[i];
    for (int map = 0; map < TOPO_MAP_COUNT; map++) {
      printf("  %-11s %-22s %-8s", pattern->collective,
             *pattern->algorithm != '\0' ? pattern->algorithm : "-", topo_map_words[map]);
      for (int c = 0; c < TOPO_CLASS_COUNT; c++) {
        const traffic_bytes_t *bytes = &pattern->bytes[map][c];
        if (traffic->is_used[c]) printf("  %15" PRId64 " %13" PRId64, bytes->total, bytes->most);
      }
      printf("\n");
    }
  }
}

static coll_status_t write_svg(const traffic_t *traffic, const char *file_name) {
  FILE *out = fopen(file_name, "we");
  if (out == NULL) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write %s", file_name);
  traffic_draw(traffic, out);
  bool failed = ferror(out) != 0;
  if (fclose(out) == 0 && !failed) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write %s", file_name);
}

static coll_status_t run(const settings_t *settings, const topo_graph_t *graph) {
  traffic_t traffic = {.size = (int64_t)settings->bytes};
  snprintf(traffic.name, sizeof traffic.name, "%s", graph->name);
  COLL_TRY(count_all(&traffic, settings, graph));
  print_table(&traffic);
  return settings->svg == NULL ? COLL_OK : write_svg(&traffic, settings->svg);
}

int colltopo_traffic(int argc, char **argv) {
  settings_t settings = {.bytes = (uint64_t)64 << 20};
  const char *file;
  const base_option_t options[] = {
      {'n', "ranks", BASE_OPTION_INTEGER, &settings.ranks, "N",
       "number of ranks; 0: one per GPU, or per host", 1, PLAN_RANKS_MAX, NULL},
      {'c', "collective", BASE_OPTION_TEXT, &settings.collective, "NAME",
       "allreduce, allgather, ..., or neighbours; else two allreduces and neighbours", 0, 0, NULL},
      {0, "algorithm", BASE_OPTION_TEXT, &settings.algorithm, "NAME",
       "of the collective; else the first that collplan list shows", 0, 0, NULL},
      {0, "bytes", BASE_OPTION_BYTES, &settings.bytes, "BYTES",
       "of a rank's largest buffer; of each message to a neighbour", 1, (int64_t)1 << 40, NULL},
      {0, "svg", BASE_OPTION_TEXT, &settings.svg, "FILE", "also draw the table as bars", 0, 0,
       NULL}};
  const base_command_t command = {
      .name = "colltopo traffic",
      .usage = "FILE [options]",
      .summary =
          "Prints the bytes that one call sends over the links of each class, and over the busiest "
          "of them,\nfor each map of ranks to hosts (collrun --map). Of neighbours, each rank "
          "sends to those beside it\non a near-square process grid without wrap-around, which the "
          "map grid serves.",
      .examples =
          "  colltopo traffic dgx8.json --svg maps.svg\n      a ring, hierarchical and neighbours; "
          "table and picture\n"
          "  colltopo traffic dgx8.json -n 64 --collective alltoall --bytes 16M\n"
          "      the first algorithm of another collective\n",
      .options = options,
      .option_count = sizeof options / sizeof options[0]};
  int code;
  if (!colltopo_begin(&command, argc, argv, &file, 1, &code)) return code;
  topo_graph_t *graph = NULL;
  coll_status_t status = check_settings(&settings);
  if (status == COLL_OK) status = colltopo_load(file, TOPO_FORMAT_ANY, &graph);
  if (status == COLL_OK) status = run(&settings, graph);
  return colltopo_close(graph, status);
}

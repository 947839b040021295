/* colltopo: makes and checks descriptions of machines, and shows where ranks are placed. */
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "base/text.h"
#include "topo/check.h"
#include "topo/json.h"
#include "topo/kinds.h"
#include "topo/place.h"

#define EXIT_REJECTED 1
#define EXIT_USAGE 2

static const char usage[] =
    "colltopo COMMAND [options]\n"
    "\n"
    "Describes machines and the network between them, for COLL_TOPO_FILE.\n"
    "\n"
    "Examples:\n"
    "  colltopo make dgx-h100 --hosts 4 --fabric rail > dgx4.json\n"
    "      four machines whose NICs are joined by rails\n"
    "  colltopo make laptop --hosts 16 --fabric torus:4x4 > torus.json\n"
    "      a grid of hosts\n"
    "  colltopo check dgx4.json\n"
    "      what the file contains, or the line that is wrong and why\n"
    "  colltopo layout dgx4.json -n 16\n"
    "      groups of ranks, and the host, GPU and cores of each rank\n"
    "\n"
    "Commands:\n"
    "  make     a known machine as JSON: dgx-a100 dgx-h100 gb200-nvl72 mi300x laptop\n"
    "  check    the rules of a file\n"
    "  layout   where ranks are placed\n"
    "\n"
    "colltopo COMMAND --help says more. Exit codes: 0 done, 1 a file was rejected, 2 wrong "
    "usage.\n";

static int fail(int code) {
  fflush(stdout);
  fprintf(stderr, "colltopo: %s\n", base_last_error());
  return code;
}

/* One word and options, in any order. */
static coll_status_t parse(const base_command_t *command, int argc, char **argv, const char **word,
                           bool *helped) {
  *word = NULL;
  for (int at = 0, first = 0; at < argc;) {
    COLL_TRY(base_options_parse(command, argc - at, argv + at, &first, helped));
    at += first;
    if (*helped || at >= argc) break;
    if (*word != NULL) {
      return base_fail(COLL_ERROR_INVALID, "%s: one word at most, not also '%s'", command->name,
                       argv[at]);
    }
    *word = argv[at];
  }
  if (*helped || *word != NULL) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "usage: %s %s", command->name, command->usage);
}

static coll_status_t load(const char *file_name, topo_graph_t **graph) {
  if (strcmp(file_name, "-") == 0) return topo_graph_read(stdin, "standard input", graph);
  return topo_graph_load(file_name, graph);
}

static int make(int argc, char **argv) {
  int64_t hosts = 1;
  const char *fabric = NULL, *kind;
  bool helped = false;
  const base_option_t options[] = {
      {0, "hosts", BASE_OPTION_INTEGER, &hosts, "N", "number of hosts", 1, TOPO_HOSTS_MAX, NULL},
      {0, "fabric", BASE_OPTION_TEXT, &fabric, "F", "rail, spine-leaf:L,S, torus:AxB[xC], mesh:AxB",
       0, 0, NULL},
  };
  char summary[4096] = "Prints a known machine as JSON. Kinds, and sources of their numbers:";
  const char *source, *name;
  for (int i = 0; (name = topo_kind_of_machine(i, &source)) != NULL; i++) {
    size_t length = strlen(summary);
    snprintf(summary + length, sizeof summary - length, "\n  %-12s %s", name, source);
  }
  const base_command_t command = {
      .name = "colltopo make",
      .usage = "KIND [options]",
      .summary = summary,
      .examples =
          "  colltopo make dgx-a100 --hosts 8 --fabric spine-leaf:4,2\n      two hosts on "
          "each leaf switch\n",
      .options = options,
      .option_count = sizeof options / sizeof options[0]};
  if (parse(&command, argc, argv, &kind, &helped) != COLL_OK) return fail(EXIT_USAGE);
  if (helped) return 0;
  topo_graph_t *graph;
  if (topo_make(kind, (int32_t)hosts, fabric, &graph) != COLL_OK) return fail(EXIT_USAGE);
  coll_status_t status = topo_graph_write(graph, stdout);
  topo_graph_free(graph);
  return status == COLL_OK ? 0 : fail(EXIT_USAGE);
}

static int check(int argc, char **argv) {
  bool helped = false;
  const char *file;
  const base_command_t command = {
      .name = "colltopo check",
      .usage = "FILE",
      .summary =
          "Reads a file (-: standard input) and prints what it contains, or the line that "
          "is wrong and what to do.",
      .examples = "  colltopo check dgx4.json\n      4 hosts, 32 gpus, ...\n"};
  if (parse(&command, argc, argv, &file, &helped) != COLL_OK) return fail(EXIT_USAGE);
  if (helped) return 0;
  topo_graph_t *graph;
  if (load(file, &graph) != COLL_OK) return fail(EXIT_REJECTED);
  printf("%s:", file);
  for (int kind = 0; kind < TOPO_KIND_COUNT; kind++) {
    size_t count = topo_graph_count(graph, (topo_kind_t)kind);
    if (count > 0) printf(" %s %zu,", topo_kind_name((topo_kind_t)kind), count);
  }
  printf(" links %zu\n", graph->link_count);
  topo_graph_free(graph);
  return 0;
}

static void print_ranks(const topo_graph_t *graph, const topo_placement_t *placement) {
  printf("%6s  %-16s %-20s %s\n", "rank", "host", "gpu", "cores");
  for (int32_t rank = 0; rank < placement->layout->size; rank++) {
    int32_t gpu = placement->gpu_of[rank], core = placement->core_of[rank];
    printf("%6d  %-16s %-20s ", rank, graph->nodes[placement->host_of[rank]].name,
           gpu != TOPO_NONE ? graph->nodes[gpu].name : "-");
    if (core == TOPO_NONE) {
      printf("-\n");
    } else {
      printf("%d from %s\n", placement->core_count[rank], graph->nodes[core].name);
    }
  }
}

static int layout(int argc, char **argv) {
  int64_t ranks = 1;
  bool helped = false;
  const char *file;
  const base_option_t options[] = {
      {'n', "ranks", BASE_OPTION_INTEGER, &ranks, "N", "number of ranks", 1, 65536, NULL}};
  const base_command_t command = {
      .name = "colltopo layout",
      .usage = "FILE -n RANKS",
      .summary =
          "Prints the groups of ranks that a job has on the hosts of a file, and the host, "
          "GPU and cores of each rank.",
      .examples = "  colltopo layout dgx4.json -n 16\n      four ranks on each of four hosts\n",
      .options = options,
      .option_count = 1};
  if (parse(&command, argc, argv, &file, &helped) != COLL_OK) return fail(EXIT_USAGE);
  if (helped) return 0;
  topo_graph_t *graph;
  topo_placement_t placement;
  if (load(file, &graph) != COLL_OK) return fail(EXIT_REJECTED);
  coll_status_t status = topo_place(graph, (int32_t)ranks, &placement);
  if (status == COLL_OK) {
    topo_layout_print(placement.layout, stdout);
    print_ranks(graph, &placement);
    topo_placement_free(&placement);
  }
  topo_graph_free(graph);
  return status == COLL_OK ? 0 : fail(EXIT_USAGE);
}

static const struct {
  const char *name;
  int (*run)(int argc, char **argv);
} commands[] = {{"make", make}, {"check", check}, {"layout", layout}};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

/* A failed write to standard output (disk full) is an error. */
static int run(size_t command, int argc, char **argv) {
  int code = commands[command].run(argc, argv);
  if (code != 0 || (fflush(stdout) == 0 && !ferror(stdout))) return code;
  fprintf(stderr, "colltopo: cannot write to standard output\n");
  return EXIT_USAGE;
}

int main(int argc, char **argv) {
  const char *names[COMMANDS];
  if (argc < 2) {
    fputs(usage, stderr);
    return EXIT_USAGE;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
    fputs(usage, stdout);
    return 0;
  }
  for (size_t i = 0; i < COMMANDS; i++) {
    names[i] = commands[i].name;
    if (strcmp(argv[1], names[i]) == 0) return run(i, argc - 1, argv + 1);
  }
  fprintf(stderr, "colltopo: no command '%s'; did you mean '%s'? (colltopo --help)\n", argv[1],
          base_text_nearest(argv[1], names, COMMANDS));
  return EXIT_USAGE;
}

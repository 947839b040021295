/* colltopo make: known machines and the networks between them. */
#include <stdio.h>
#include <string.h>

#include "tools/colltopo/colltopo.h"
#include "topo/json.h"
#include "topo/kinds.h"

int colltopo_make(int argc, char **argv) {
  int64_t hosts = 1;
  const char *fabric = NULL, *kind;
  const base_option_t options[] = {
      {0, "hosts", BASE_OPTION_INTEGER, &hosts, "N", "number of hosts", 1, TOPO_HOSTS_MAX, NULL},
      {0, "fabric", BASE_OPTION_TEXT, &fabric, "F",
       "rail, spine-leaf:L,S, fat-tree:K, dragonfly[:P,A,H], torus:AxB[xC], mesh:AxB[xC]", 0, 0,
       NULL},
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
          "each leaf switch\n"
          "  colltopo make laptop --hosts 72 --fabric dragonfly:2,4,2\n      nine groups of four "
          "routers\n",
      .options = options,
      .option_count = sizeof options / sizeof options[0]};
  int code;
  if (!colltopo_begin(&command, argc, argv, &kind, 1, &code)) return code;
  topo_graph_t *graph = NULL;
  coll_status_t status = topo_make(kind, (int32_t)hosts, fabric, &graph);
  if (status == COLL_OK) status = topo_graph_write(graph, stdout);
  return colltopo_close(graph, status);
}

/* Tiers are numbered outwards from the hosts. */
#include "tools/draw/fold.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { TIERS_MAX = 8 };

typedef struct folding {
  const topo_graph_t *graph;
  topo_graph_t *made;
  int32_t *tier;    /* [nodes]: of switches outside hosts, from 1 on; 0: not found */
  int32_t *node_of; /* [nodes]: in the folded graph, or TOPO_NONE */
  int32_t first;    /* host */
} folding_t;

static bool is_outside(const topo_graph_t *graph, int32_t node) {
  return topo_graph_host_of(graph, node) == TOPO_NONE;
}

/* NVSwitches are of tier 1 too, but folded apart. */
static void find_tiers(folding_t *folding) {
  const topo_graph_t *graph = folding->graph;
  for (int32_t tier = 1, moved = 1; moved > 0 && tier <= TIERS_MAX; tier++) {
    moved = 0;
    for (size_t i = 0; i < 2 * graph->link_count; i++) {
      const topo_link_t *link = &graph->links[i / 2];
      int32_t from = i % 2 == 0 ? link->a : link->b, to = i % 2 == 0 ? link->b : link->a;
      if (!is_outside(graph, to) || folding->tier[to] != 0) continue;
      bool is_next = tier == 1 ? !is_outside(graph, from) : folding->tier[from] == tier - 1;
      if (!is_next) continue;
      folding->tier[to] = tier;
      moved++;
    }
  }
}

static coll_status_t add_host(folding_t *folding) {
  const topo_graph_t *graph = folding->graph;
  for (size_t i = 0; i < graph->node_count; i++) {
    const topo_node_t *node = &graph->nodes[i];
    folding->node_of[i] = TOPO_NONE;
    if (topo_graph_host_of(graph, (int32_t)i) != folding->first) continue;
    int32_t parent = node->parent == TOPO_NONE ? TOPO_NONE : folding->node_of[node->parent];
    COLL_TRY(
        topo_graph_add_node(folding->made, node->kind, parent, node->name, &folding->node_of[i]));
    memcpy(folding->made->nodes[folding->node_of[i]].model, node->model, TOPO_NAME_BYTES);
  }
  return COLL_OK;
}

/* "rail" of "rail7"; "router" of "group1/router2". */
static void plain_name(const char *name, char plain[TOPO_NAME_BYTES]) {
  const char *slash = strrchr(name, '/');
  snprintf(plain, TOPO_NAME_BYTES, "%s", slash != NULL ? slash + 1 : name);
  size_t length = strlen(plain);
  while (length > 1 && plain[length - 1] >= '0' && plain[length - 1] <= '9') {
    plain[--length] = '\0';
  }
}

static coll_status_t add_tier(folding_t *folding, topo_kind_t kind, int32_t tier) {
  const topo_graph_t *graph = folding->graph;
  char plain[TOPO_NAME_BYTES] = "", name[2 * TOPO_NAME_BYTES];
  int32_t count = 0, node;
  for (size_t i = 0; i < graph->node_count; i++) {
    if (folding->tier[i] != tier || graph->nodes[i].kind != kind) continue;
    if (count++ == 0) plain_name(graph->nodes[i].name, plain);
  }
  if (count == 0) return COLL_OK;
  snprintf(name, sizeof name, "%d x %.40s", (int)count, plain);
  COLL_TRY(topo_graph_add_node(folding->made, kind, TOPO_NONE, name, &node));
  for (size_t i = 0; i < graph->node_count; i++) {
    if (folding->tier[i] == tier && graph->nodes[i].kind == kind) folding->node_of[i] = node;
  }
  return COLL_OK;
}

/* Adds a link to those there are between its ends, if it is of their rate. */
static coll_status_t add_link(folding_t *folding, const topo_link_t *link) {
  topo_graph_t *made = folding->made;
  topo_link_t folded = *link;
  folded.a = folding->node_of[link->a];
  folded.b = folding->node_of[link->b];
  if (folded.a == TOPO_NONE || folded.b == TOPO_NONE || folded.a == folded.b) return COLL_OK;
  bool is_inside = !is_outside(made, folded.a) && !is_outside(made, folded.b);
  for (size_t i = 0; i < made->link_count && !is_inside; i++) {
    topo_link_t *each = &made->links[i];
    bool joins = (each->a == folded.a && each->b == folded.b) ||
                 (each->a == folded.b && each->b == folded.a);
    if (!joins || each->gigabytes_per_s != folded.gigabytes_per_s) continue;
    each->count += folded.count;
    return COLL_OK;
  }
  return topo_graph_add_link(made, &folded);
}

static coll_status_t fold(folding_t *folding) {
  const topo_graph_t *graph = folding->graph;
  while ((size_t)folding->first < graph->node_count &&
         graph->nodes[folding->first].kind != TOPO_HOST) {
    folding->first++;
  }
  find_tiers(folding);
  COLL_TRY(add_host(folding));
  for (int32_t tier = 1; tier <= TIERS_MAX; tier++) {
    COLL_TRY(add_tier(folding, TOPO_NVSWITCH, tier));
    COLL_TRY(add_tier(folding, TOPO_SWITCH, tier));
  }
  for (size_t i = 0; i < graph->link_count; i++) COLL_TRY(add_link(folding, &graph->links[i]));
  return COLL_OK;
}

coll_status_t fold_graph(const topo_graph_t *graph, topo_graph_t **folded) {
  folding_t folding = {.graph = graph};
  coll_status_t status = topo_graph_create(graph->name, &folding.made);
  if (status == COLL_OK) {
    status = base_alloc(graph->node_count, sizeof(int32_t), "a picture", (void **)&folding.tier);
  }
  if (status == COLL_OK) {
    status = base_alloc(graph->node_count, sizeof(int32_t), "a picture", (void **)&folding.node_of);
  }
  if (status == COLL_OK) status = fold(&folding);
  free(folding.tier);
  free(folding.node_of);
  if (status != COLL_OK) {
    topo_graph_free(folding.made);
    return status;
  }
  *folded = folding.made;
  return COLL_OK;
}

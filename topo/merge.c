/* Copies part by part, with the number that each node has in the result. */
#include "topo/merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "topo/check.h"

/* ---- graphs -------------------------------------------------------------------------------- */

static coll_status_t find_host(const topo_part_t *part, size_t index, int32_t *host) {
  const topo_graph_t *graph = part->graph;
  size_t hosts = topo_graph_count(graph, TOPO_HOST);
  if (hosts != 1) {
    return base_fail(COLL_ERROR_INVALID, "graph %zu of those to merge has %zu hosts: give one each",
                     index, hosts);
  }
  *host = 0;
  while (graph->nodes[*host].kind != TOPO_HOST) ++*host;
  return COLL_OK;
}

static bool is_repeated(const topo_part_t parts[], size_t index) {
  for (size_t i = 0; i < index; i++) {
    if (strcmp(parts[i].identity, parts[index].identity) == 0) return true;
  }
  return false;
}

/* The node outside hosts of that name and kind among the first `count`, or TOPO_NONE. */
static int32_t find_outside(const topo_graph_t *graph, size_t count, const topo_node_t *node) {
  for (size_t i = 0; i < count; i++) {
    const topo_node_t *other = &graph->nodes[i];
    if (other->parent != TOPO_NONE || other->kind != node->kind || other->kind == TOPO_HOST)
      continue;
    if (strcmp(other->name, node->name) == 0) return (int32_t)i;
  }
  return TOPO_NONE;
}

/* The node's name in the result: its host's name is replaced by "host<number>". */
static coll_status_t name_in_host(const topo_graph_t *graph, int32_t host, int32_t node,
                                  size_t number, char name[TOPO_NAME_BYTES]) {
  const char *own = graph->nodes[node].name, *above = graph->nodes[host].name;
  size_t length = strlen(above);
  bool has_prefix = strncmp(own, above, length) == 0 && own[length] == '/';
  const char *rest = node == host ? "" : has_prefix ? own + length + 1 : own;
  int bytes = snprintf(name, TOPO_NAME_BYTES, "host%zu%s%s", number, node == host ? "" : "/", rest);
  if (bytes < TOPO_NAME_BYTES) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "the name of '%s' on host %zu would have more than %d bytes; shorten it", own,
                   number, TOPO_NAME_BYTES - 1);
}

/* Adds a node, or finds the one that stands for it. */
static coll_status_t merge_node(const topo_graph_t *graph, int32_t host, int32_t node,
                                size_t number, topo_graph_t *merged, int32_t number_of[]) {
  const topo_node_t *from = &graph->nodes[node];
  char name[TOPO_NAME_BYTES];
  int32_t parent = TOPO_NONE;
  if (from->parent != TOPO_NONE) {
    parent = number_of[from->parent];
  } else if (from->kind != TOPO_HOST) {
    number_of[node] = find_outside(merged, merged->node_count, from);
    if (number_of[node] != TOPO_NONE) return COLL_OK;
  }
  memcpy(name, from->name, sizeof name);
  if (node == host || from->parent != TOPO_NONE) {
    COLL_TRY(name_in_host(graph, host, node, number, name));
  }
  COLL_TRY(topo_graph_add_node(merged, from->kind, parent, name, &number_of[node]));
  memcpy(merged->nodes[number_of[node]].model, from->model, sizeof from->model);
  return COLL_OK;
}

static coll_status_t merge_part(const topo_graph_t *graph, int32_t host, size_t number,
                                topo_graph_t *merged, int32_t number_of[]) {
  int32_t before = (int32_t)merged->node_count;
  for (size_t i = 0; i < graph->node_count; i++) {
    COLL_TRY(merge_node(graph, host, (int32_t)i, number, merged, number_of));
  }
  for (size_t i = 0; i < graph->link_count; i++) {
    topo_link_t link = graph->links[i];
    link.a = number_of[link.a];
    link.b = number_of[link.b];
    if (link.a < before && link.b < before) continue; /* between switches of earlier parts */
    COLL_TRY(topo_graph_add_link(merged, &link));
  }
  return COLL_OK;
}

static coll_status_t merge_all(const topo_part_t parts[], size_t count, topo_graph_t *merged) {
  size_t number = 0;
  for (size_t i = 0; i < count; i++) {
    const topo_graph_t *graph = parts[i].graph;
    int32_t host = 0, *number_of;
    COLL_TRY(find_host(&parts[i], i, &host));
    if (is_repeated(parts, i)) continue;
    COLL_TRY(base_alloc(graph->node_count, sizeof *number_of, "a graph", (void **)&number_of));
    coll_status_t status = merge_part(graph, host, number, merged, number_of);
    free(number_of);
    COLL_TRY(status);
    number++;
  }
  return topo_graph_check(merged, NULL);
}

coll_status_t topo_merge(const topo_part_t parts[], size_t count, topo_graph_t **merged) {
  COLL_TRY(topo_graph_create("", merged));
  coll_status_t status = merge_all(parts, count, *merged);
  if (status == COLL_OK) return COLL_OK;
  topo_graph_free(*merged);
  *merged = NULL;
  return status;
}

/* ---- mapping domains ----------------------------------------------------------------------- */

/* Whether the rank shares memory with all earlier ranks of a domain. */
static bool fits(int32_t rank, int32_t domain, topo_can_share_t *can_share, void *context,
                 const int32_t domain_of[]) {
  for (int32_t other = 0; other < rank; other++) {
    if (domain_of[other] != domain) continue;
    if (!can_share(context, rank, other) || !can_share(context, other, rank)) return false;
  }
  return true;
}

void topo_domains_find(int32_t size, topo_can_share_t *can_share, void *context,
                       int32_t domain_of[]) {
  int32_t domains = 0;
  for (int32_t rank = 0; rank < size; rank++) {
    int32_t domain = 0;
    while (domain < domains && !fits(rank, domain, can_share, context, domain_of)) domain++;
    domain_of[rank] = domain;
    if (domain == domains) domains++;
  }
}

/*
 * Dijkstra's algorithm, twice: the first search finds the width of the widest path, the second the
 * lowest latency over links of at least that width. A widest path of lowest latency need not extend
 * one of the same kind, so that one search for both would not do.
 */
#include "topo/paths.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"

struct topo_paths {
  const topo_graph_t *graph;
  size_t *first;  /* [nodes + 1]: of each node's links in `links` */
  int32_t *links; /* [2 * link_count] */
};

static bool forwards(topo_kind_t kind) {
  return kind != TOPO_CORE && kind != TOPO_GPU;
}

/* ---- links by node --------------------------------------------------------------------------*/

static void sort_links(topo_paths_t *paths) {
  const topo_graph_t *graph = paths->graph;
  for (size_t i = 0; i < graph->link_count; i++) {
    paths->first[graph->links[i].a + 1]++;
    paths->first[graph->links[i].b + 1]++;
  }
  for (size_t i = 0; i < graph->node_count; i++) paths->first[i + 1] += paths->first[i];
  for (size_t i = graph->link_count; i-- > 0;) {
    /* from the back, so that first[n + 1] ends as the first link of node n + 1's predecessor */
    paths->links[--paths->first[graph->links[i].a + 1]] = (int32_t)i;
    paths->links[--paths->first[graph->links[i].b + 1]] = (int32_t)i;
  }
  for (size_t i = 0; i < graph->node_count; i++) paths->first[i] = paths->first[i + 1];
  paths->first[graph->node_count] = 2 * graph->link_count;
}

coll_status_t topo_paths_create(const topo_graph_t *graph, topo_paths_t **paths) {
  topo_paths_t *made;
  COLL_TRY(base_alloc(1, sizeof *made, "paths", (void **)&made));
  made->graph = graph;
  coll_status_t status =
      base_alloc(graph->node_count + 1, sizeof *made->first, "paths", (void **)&made->first);
  if (status == COLL_OK) {
    status =
        base_alloc(2 * graph->link_count + 1, sizeof *made->links, "paths", (void **)&made->links);
  }
  if (status != COLL_OK) {
    topo_paths_free(made);
    return status;
  }
  sort_links(made);
  *paths = made;
  return COLL_OK;
}

void topo_paths_free(topo_paths_t *paths) {
  if (paths == NULL) return;
  free(paths->first);
  free(paths->links);
  free(paths);
}

/* ---- search ---------------------------------------------------------------------------------*/

typedef struct entry {
  double cost;
  int32_t node;
} entry_t;

typedef struct search {
  const topo_paths_t *paths;
  bool by_width;      /* cost is minus the width so far; else the latency so far */
  double least_width; /* links below it are ignored */
  double *cost;       /* [nodes]: INFINITY: not reached */
  int32_t *by_link;   /* [nodes]: the last link to it */
  int32_t *order;     /* [nodes]: how many nodes were done before; TOPO_NONE: not done */
  entry_t *heap;
  size_t heap_count, heap_capacity;
} search_t;

static coll_status_t push(search_t *search, double cost, int32_t node) {
  COLL_TRY(base_grow((void **)&search->heap, &search->heap_capacity, search->heap_count + 1,
                     sizeof *search->heap, "a search for a path"));
  size_t at = search->heap_count++;
  for (; at > 0 && search->heap[(at - 1) / 2].cost > cost; at = (at - 1) / 2) {
    search->heap[at] = search->heap[(at - 1) / 2];
  }
  search->heap[at] = (entry_t){cost, node};
  return COLL_OK;
}

static entry_t pop(search_t *search) {
  entry_t *heap = search->heap, top = heap[0], last = heap[--search->heap_count];
  size_t at = 0, count = search->heap_count;
  for (size_t child = 1; child < count; child = 2 * at + 1) {
    if (child + 1 < count && heap[child + 1].cost < heap[child].cost) child++;
    if (heap[child].cost >= last.cost) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = last;
  return top;
}

static int32_t other_end(const topo_link_t *link, int32_t node) {
  return link->a == node ? link->b : link->a;
}

static double cost_over(const search_t *search, double cost, const topo_link_t *link) {
  if (!search->by_width) return cost + link->latency_us;
  return -topo_link_width(link) > cost ? -topo_link_width(link) : cost;
}

/* `to`: the end of the path. Of nodes that do not forward, no other is of use. */
static coll_status_t visit(search_t *search, int32_t node, int32_t to) {
  const topo_paths_t *paths = search->paths;
  for (size_t i = paths->first[node]; i < paths->first[node + 1]; i++) {
    const topo_link_t *link = &paths->graph->links[paths->links[i]];
    int32_t next = other_end(link, node);
    double cost = cost_over(search, search->cost[node], link);
    if (topo_link_width(link) < search->least_width || cost >= search->cost[next]) continue;
    if (next != to && to != TOPO_NONE && !forwards(paths->graph->nodes[next].kind)) continue;
    search->cost[next] = cost;
    search->by_link[next] = paths->links[i];
    COLL_TRY(push(search, cost, next));
  }
  return COLL_OK;
}

/* Fills in cost and by_link of the nodes up to `to`; of all, if it is TOPO_NONE. */
static coll_status_t run(search_t *search, int32_t from, int32_t to) {
  const topo_graph_t *graph = search->paths->graph;
  for (size_t i = 0; i < graph->node_count; i++) {
    search->cost[i] = INFINITY;
    search->order[i] = TOPO_NONE;
  }
  int32_t done = 0;
  search->heap_count = 0;
  search->cost[from] = search->by_width ? -INFINITY : 0;
  COLL_TRY(push(search, search->cost[from], from));
  while (search->heap_count > 0) {
    int32_t node = pop(search).node;
    if (search->order[node] != TOPO_NONE) continue;
    search->order[node] = done++;
    if (node == to) return COLL_OK;
    if (node == from || forwards(graph->nodes[node].kind)) {
      COLL_TRY(visit(search, node, to));
    }
  }
  return COLL_OK;
}

/* Whether the path of lowest latency to `node` may end with the link. Nodes at the same distance
 * are told apart by their order, so that links without latency make no loop. */
static bool may_end(const search_t *search, int32_t from, const topo_link_t *link, int32_t node) {
  int32_t before = other_end(link, node);
  return search->order[before] != TOPO_NONE && search->order[before] < search->order[node] &&
         (before == from || forwards(search->paths->graph->nodes[before].kind)) &&
         topo_link_width(link) >= search->least_width &&
         search->cost[before] + link->latency_us == search->cost[node];
}

/* Of the links by which an equally good path reaches `node`, selects one by the lowest digit of the
 * flow, and removes that digit. */
static void select_link(search_t *search, int32_t from, int32_t node, int32_t *flow) {
  const topo_paths_t *paths = search->paths;
  int32_t count = 0, wanted;
  for (size_t i = paths->first[node]; i < paths->first[node + 1]; i++) {
    count += may_end(search, from, &paths->graph->links[paths->links[i]], node);
  }
  if (count < 2) return;
  wanted = *flow % count;
  *flow /= count;
  for (size_t i = paths->first[node]; i < paths->first[node + 1]; i++) {
    if (!may_end(search, from, &paths->graph->links[paths->links[i]], node)) continue;
    if (wanted-- == 0) search->by_link[node] = paths->links[i];
  }
}

static void select_path(search_t *search, int32_t from, int32_t to, int32_t flow) {
  for (int32_t node = to; node != from;) {
    select_link(search, from, node, &flow);
    node = other_end(&search->paths->graph->links[search->by_link[node]], node);
  }
}

/* Follows by_link back from `to`. */
static coll_status_t trace(const search_t *search, int32_t from, int32_t to, topo_path_t *path) {
  const topo_graph_t *graph = search->paths->graph;
  topo_path_t made = {.gigabytes_per_s = INFINITY};
  for (int32_t node = to; node != from; made.hops++) {
    node = other_end(&graph->links[search->by_link[node]], node);
  }
  size_t hops = (size_t)made.hops;
  COLL_TRY(base_alloc(hops + 1, sizeof *made.nodes, "a path", (void **)&made.nodes));
  coll_status_t status = base_alloc(hops + 1, sizeof *made.links, "a path", (void **)&made.links);
  if (status != COLL_OK) {
    free(made.nodes);
    return status;
  }
  int32_t node = to;
  for (int32_t hop = made.hops; hop-- > 0;) {
    const topo_link_t *link = &graph->links[search->by_link[node]];
    made.nodes[hop + 1] = node;
    made.links[hop] = search->by_link[node];
    made.latency_us += link->latency_us;
    if (topo_link_width(link) < made.gigabytes_per_s) made.gigabytes_per_s = topo_link_width(link);
    node = other_end(link, node);
  }
  made.nodes[0] = from;
  *path = made;
  return COLL_OK;
}

static coll_status_t find(search_t *search, int32_t from, int32_t to, int32_t flow,
                          topo_path_t *path) {
  const topo_node_t *nodes = search->paths->graph->nodes;
  COLL_TRY(run(search, from, to));
  if (search->cost[to] == INFINITY) {
    return base_fail(COLL_ERROR_INVALID, "no links connect %s and %s", nodes[from].name,
                     nodes[to].name);
  }
  search->least_width = -search->cost[to];
  search->by_width = false;
  COLL_TRY(run(search, from, to));
  select_path(search, from, to, flow);
  return trace(search, from, to, path);
}

static void search_close(search_t *search) {
  free(search->cost);
  free(search->by_link);
  free(search->order);
  free(search->heap);
}

/* To be closed also on failure. */
static coll_status_t search_open(search_t *search, const topo_paths_t *paths) {
  size_t count = paths->graph->node_count;
  *search = (search_t){.paths = paths};
  COLL_TRY(base_alloc(count, sizeof *search->cost, "a path", (void **)&search->cost));
  COLL_TRY(base_alloc(count, sizeof *search->by_link, "a path", (void **)&search->by_link));
  return base_alloc(count, sizeof *search->order, "a path", (void **)&search->order);
}

coll_status_t topo_path_find_flow(const topo_paths_t *paths, int32_t from, int32_t to, int32_t flow,
                                  topo_path_t *path) {
  search_t search;
  coll_status_t status = search_open(&search, paths);
  search.by_width = true;
  if (status == COLL_OK) status = find(&search, from, to, flow, path);
  search_close(&search);
  return status;
}

coll_status_t topo_paths_reach(const topo_paths_t *paths, int32_t from, bool reached[]) {
  search_t search;
  coll_status_t status = search_open(&search, paths);
  if (status == COLL_OK) status = run(&search, from, TOPO_NONE);
  for (size_t i = 0; status == COLL_OK && i < paths->graph->node_count; i++) {
    reached[i] = search.order[i] != TOPO_NONE;
  }
  search_close(&search);
  return status;
}

coll_status_t topo_path_find(const topo_paths_t *paths, int32_t from, int32_t to,
                             topo_path_t *path) {
  return topo_path_find_flow(paths, from, to, 0, path);
}

void topo_path_free(topo_path_t *path) {
  free(path->links);
  free(path->nodes);
  *path = (topo_path_t){0};
}

/*
 * Dijkstra's algorithm, twice: the first search finds the width of the widest path, the second the
 * lowest latency over links of at least that width. A widest path of lowest latency need not extend
 * one of the same kind, so that one search for both would not do.
 */
#include "topo/paths.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"

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
  bool *done;         /* [nodes] */
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

static coll_status_t visit(search_t *search, int32_t node) {
  const topo_paths_t *paths = search->paths;
  for (size_t i = paths->first[node]; i < paths->first[node + 1]; i++) {
    const topo_link_t *link = &paths->graph->links[paths->links[i]];
    int32_t next = other_end(link, node);
    double cost = cost_over(search, search->cost[node], link);
    if (topo_link_width(link) < search->least_width || cost >= search->cost[next]) continue;
    search->cost[next] = cost;
    search->by_link[next] = paths->links[i];
    COLL_TRY(push(search, cost, next));
  }
  return COLL_OK;
}

/* Fills in cost and by_link of the nodes up to `to`. */
static coll_status_t run(search_t *search, int32_t from, int32_t to) {
  const topo_graph_t *graph = search->paths->graph;
  for (size_t i = 0; i < graph->node_count; i++) {
    search->cost[i] = INFINITY;
    search->done[i] = false;
  }
  search->heap_count = 0;
  search->cost[from] = search->by_width ? -INFINITY : 0;
  COLL_TRY(push(search, search->cost[from], from));
  while (search->heap_count > 0) {
    int32_t node = pop(search).node;
    if (search->done[node]) continue;
    search->done[node] = true;
    if (node == to) return COLL_OK;
    if (node == from || forwards(graph->nodes[node].kind)) COLL_TRY(visit(search, node));
  }
  return COLL_OK;
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

static coll_status_t find(search_t *search, int32_t from, int32_t to, topo_path_t *path) {
  const topo_node_t *nodes = search->paths->graph->nodes;
  COLL_TRY(run(search, from, to));
  if (search->cost[to] == INFINITY) {
    return base_fail(COLL_ERROR_INVALID, "no links connect %s and %s", nodes[from].name,
                     nodes[to].name);
  }
  search->least_width = -search->cost[to];
  search->by_width = false;
  COLL_TRY(run(search, from, to));
  return trace(search, from, to, path);
}

coll_status_t topo_path_find(const topo_paths_t *paths, int32_t from, int32_t to,
                             topo_path_t *path) {
  size_t count = paths->graph->node_count;
  search_t search = {.paths = paths, .by_width = true};
  coll_status_t status = base_alloc(count, sizeof *search.cost, "a path", (void **)&search.cost);
  if (status == COLL_OK) {
    status = base_alloc(count, sizeof *search.by_link, "a path", (void **)&search.by_link);
  }
  if (status == COLL_OK) {
    status = base_alloc(count, sizeof *search.done, "a path", (void **)&search.done);
  }
  if (status == COLL_OK) status = find(&search, from, to, path);
  free(search.cost);
  free(search.by_link);
  free(search.done);
  free(search.heap);
  return status;
}

void topo_path_free(topo_path_t *path) {
  free(path->links);
  free(path->nodes);
  *path = (topo_path_t){0};
}

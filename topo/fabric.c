/* The graph and its index are shared by the fabrics of a communicator and of its splits. */
#include "topo/fabric.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/digest.h"
#include "topo/paths.h"

typedef struct shared {
  atomic_int users; /* fabrics; written by the thread that creates or frees one */
  topo_graph_t *graph;
  topo_paths_t *paths;
} shared_t;

typedef struct path {
  int32_t count;
  int32_t wires[];
} path_t;

struct topo_fabric {
  shared_t *shared;
  int32_t size;
  int32_t *node_of; /* [size] */
  path_t ***paths;  /* [size][size]: NULL until asked for, rows as well */
};

/* ---- creation -------------------------------------------------------------------------------*/

static void release(shared_t *shared) {
  /* acq_rel: what other users have read is read before the last one frees it */
  if (atomic_fetch_sub_explicit(&shared->users, 1, memory_order_acq_rel) > 1) return;
  topo_paths_free(shared->paths);
  topo_graph_free(shared->graph);
  free(shared);
}

/* Takes over one use of `shared`, also on failure. */
static coll_status_t create(shared_t *shared, int32_t size, topo_fabric_t **fabric) {
  topo_fabric_t *made = NULL;
  coll_status_t status = base_alloc(1, sizeof *made, "a fabric", (void **)&made);
  if (status != COLL_OK) {
    release(shared);
    return status;
  }
  made->shared = shared;
  made->size = size;
  status = base_alloc((size_t)size, sizeof *made->node_of, "a fabric", (void **)&made->node_of);
  if (status == COLL_OK) {
    status = base_alloc((size_t)size, sizeof *made->paths, "a fabric", (void **)&made->paths);
  }
  if (status != COLL_OK) {
    topo_fabric_free(made);
    return status;
  }
  *fabric = made;
  return COLL_OK;
}

coll_status_t topo_fabric_create(topo_graph_t *graph, int32_t size, const int32_t node_of[],
                                 topo_fabric_t **fabric) {
  shared_t *shared;
  *fabric = NULL;
  coll_status_t status = base_alloc(1, sizeof *shared, "a fabric", (void **)&shared);
  if (status != COLL_OK) {
    topo_graph_free(graph);
    return status;
  }
  atomic_init(&shared->users, 1);
  shared->graph = graph;
  status = topo_paths_create(graph, &shared->paths);
  if (status != COLL_OK) {
    release(shared);
    return status;
  }
  COLL_TRY(create(shared, size, fabric));
  memcpy((*fabric)->node_of, node_of, (size_t)size * sizeof *node_of);
  return COLL_OK;
}

coll_status_t topo_fabric_select(const topo_fabric_t *fabric, const int32_t ranks[], int32_t count,
                                 topo_fabric_t **part) {
  *part = NULL;
  if (fabric == NULL) return COLL_OK;
  /* relaxed: the fabric that is copied keeps the graph alive meanwhile */
  atomic_fetch_add_explicit(&fabric->shared->users, 1, memory_order_relaxed);
  COLL_TRY(create(fabric->shared, count, part));
  for (int32_t i = 0; i < count; i++) (*part)->node_of[i] = fabric->node_of[ranks[i]];
  return COLL_OK;
}

void topo_fabric_free(topo_fabric_t *fabric) {
  if (fabric == NULL) return;
  for (int32_t from = 0; fabric->paths != NULL && from < fabric->size; from++) {
    for (int32_t to = 0; fabric->paths[from] != NULL && to < fabric->size; to++) {
      free(fabric->paths[from][to]);
    }
    free(fabric->paths[from]);
  }
  free(fabric->paths);
  free(fabric->node_of);
  release(fabric->shared);
  free(fabric);
}

/* ---- paths ----------------------------------------------------------------------------------*/

static coll_status_t find_path(const topo_fabric_t *fabric, int32_t from, int32_t to,
                               path_t **found) {
  const topo_graph_t *graph = fabric->shared->graph;
  topo_path_t path;
  COLL_TRY(topo_path_find_flow(fabric->shared->paths, fabric->node_of[from], fabric->node_of[to],
                               to, &path));
  size_t bytes = sizeof(path_t) + (size_t)path.hops * sizeof(int32_t);
  coll_status_t status = base_alloc(1, bytes, "a path", (void **)found);
  for (int32_t hop = 0; status == COLL_OK && hop < path.hops; hop++) {
    int32_t link = path.links[hop];
    (*found)->wires[hop] = 2 * link + (graph->links[link].a != path.nodes[hop]);
    (*found)->count++;
  }
  topo_path_free(&path);
  return status;
}

coll_status_t topo_fabric_path(topo_fabric_t *fabric, int32_t from, int32_t to,
                               const int32_t **wires, int32_t *count) {
  path_t ***row = &fabric->paths[from];
  if (*row == NULL) {
    COLL_TRY(base_alloc((size_t)fabric->size, sizeof **row, "paths", (void **)row));
  }
  path_t **path = &(*row)[to];
  if (*path == NULL) COLL_TRY(find_path(fabric, from, to, path));
  *wires = (*path)->wires;
  *count = (*path)->count;
  return COLL_OK;
}

coll_status_t topo_fabric_is_connected(const topo_fabric_t *fabric, bool *connected) {
  bool *reached;
  const shared_t *shared = fabric->shared;
  COLL_TRY(base_alloc(shared->graph->node_count, sizeof *reached, "a fabric", (void **)&reached));
  coll_status_t status = topo_paths_reach(shared->paths, fabric->node_of[0], reached);
  *connected = status == COLL_OK;
  for (int32_t rank = 0; rank < fabric->size; rank++) {
    *connected = *connected && reached[fabric->node_of[rank]];
  }
  free(reached);
  return status;
}

/* ---- what it consists of --------------------------------------------------------------------*/

int32_t topo_fabric_wire_count(const topo_fabric_t *fabric) {
  return (int32_t)(2 * fabric->shared->graph->link_count);
}

static const topo_link_t *link_of(const topo_fabric_t *fabric, int32_t wire) {
  return &fabric->shared->graph->links[wire / 2];
}

topo_wire_t topo_fabric_wire(const topo_fabric_t *fabric, int32_t wire) {
  const topo_link_t *link = link_of(fabric, wire);
  return (topo_wire_t){.link_class = link->link_class,
                       .kib_ps = (uint64_t)(1024e3 / topo_link_width(link) + 0.5),
                       .latency_ps = (uint64_t)(link->latency_us * 1e6 + 0.5)};
}

const topo_node_t *topo_fabric_wire_from(const topo_fabric_t *fabric, int32_t wire) {
  const topo_link_t *link = link_of(fabric, wire);
  return &fabric->shared->graph->nodes[wire % 2 == 0 ? link->a : link->b];
}

const topo_node_t *topo_fabric_wire_to(const topo_fabric_t *fabric, int32_t wire) {
  const topo_link_t *link = link_of(fabric, wire);
  return &fabric->shared->graph->nodes[wire % 2 == 0 ? link->b : link->a];
}

const topo_graph_t *topo_fabric_graph(const topo_fabric_t *fabric) {
  return fabric->shared->graph;
}

int32_t topo_fabric_node(const topo_fabric_t *fabric, int32_t rank) {
  return fabric->node_of[rank];
}

uint64_t topo_fabric_digest(const topo_fabric_t *fabric) {
  if (fabric == NULL) return 0;
  const topo_graph_t *graph = fabric->shared->graph;
  uint64_t digest = BASE_DIGEST_START;
  for (int32_t rank = 0; rank < fabric->size; rank++) {
    digest = base_digest_fold(digest, (uint64_t)fabric->node_of[rank]);
  }
  for (size_t i = 0; i < graph->link_count; i++) {
    const topo_link_t *link = &graph->links[i];
    topo_wire_t wire = topo_fabric_wire(fabric, 2 * (int32_t)i);
    digest = base_digest_fold(digest, (uint64_t)link->a << 32 | (uint32_t)link->b);
    digest = base_digest_fold(digest, wire.kib_ps);
    digest = base_digest_fold(digest, wire.latency_ps);
  }
  return digest != 0 ? digest : 1;
}

/*
 * The search extends one ring by one rank at a time and keeps, for each wire, how many more edges
 * may use it (its room). When a ring is complete it begins the next one; when a ring cannot be
 * extended it takes back the last rank, also of the ring before.
 */
#include "topo/rings.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/digest.h"

/* ---- rings as data --------------------------------------------------------------------------*/

static coll_status_t create(int32_t size, int32_t count, topo_rings_t **rings) {
  *rings = NULL;
  COLL_TRY(base_alloc(1, sizeof **rings, "rings", (void **)rings));
  **rings = (topo_rings_t){.size = size, .count = count};
  coll_status_t status = base_alloc((size_t)size * (size_t)count, sizeof *(*rings)->order, "rings",
                                    (void **)&(*rings)->order);
  if (status == COLL_OK) return COLL_OK;
  topo_rings_free(*rings);
  *rings = NULL;
  return status;
}

static void set_orders(topo_rings_t *rings, const int32_t order[]) {
  memcpy(rings->order, order, (size_t)rings->size * (size_t)rings->count * sizeof *order);
}

coll_status_t topo_rings_copy(const topo_rings_t *rings, topo_rings_t **copy) {
  *copy = NULL;
  if (rings == NULL) return COLL_OK;
  COLL_TRY(create(rings->size, rings->count, copy));
  set_orders(*copy, rings->order);
  return COLL_OK;
}

void topo_rings_free(topo_rings_t *rings) {
  if (rings == NULL) return;
  free(rings->order);
  free(rings);
}

uint64_t topo_rings_digest(const topo_rings_t *rings) {
  if (rings == NULL) return 0;
  uint64_t digest = base_digest_fold(BASE_DIGEST_START, (uint64_t)rings->count);
  for (int32_t i = 0; i < rings->count * rings->size; i++) {
    digest = base_digest_fold(digest, (uint64_t)rings->order[i]);
  }
  return digest != 0 ? digest : 1;
}

/* Counts the edges that use each wire. */
static coll_status_t count_uses(const topo_rings_t *rings, topo_fabric_t *fabric, uint64_t uses[]) {
  for (int32_t ring = 0; ring < rings->count; ring++) {
    const int32_t *order = topo_rings_order(rings, ring), *wires;
    for (int32_t i = 0; i < rings->size; i++) {
      int32_t count;
      COLL_TRY(topo_fabric_path(fabric, order[i], order[(i + 1) % rings->size], &wires, &count));
      for (int32_t hop = 0; hop < count; hop++) uses[wires[hop]]++;
    }
  }
  return COLL_OK;
}

coll_status_t topo_rings_load(const topo_rings_t *rings, topo_fabric_t *fabric, uint64_t *load_ps) {
  uint64_t *uses, most = 0;
  int32_t wires = topo_fabric_wire_count(fabric);
  COLL_TRY(base_alloc((size_t)wires, sizeof *uses, "rings", (void **)&uses));
  coll_status_t status = count_uses(rings, fabric, uses);
  for (int32_t wire = 0; status == COLL_OK && wire < wires; wire++) {
    uint64_t load = uses[wire] * topo_fabric_wire(fabric, wire).kib_ps;
    most = load > most ? load : most;
  }
  free(uses);
  if (status == COLL_OK) *load_ps = most;
  return status;
}

/* ---- what the search knows ------------------------------------------------------------------*/

typedef struct search {
  topo_fabric_t *fabric;
  int32_t size, hosts, wires;
  int32_t *host_of;  /* [size]: hosts that have ranks are numbered in the order of the graph */
  int32_t *first;    /* [hosts + 1]: of `members` */
  int32_t *members;  /* [size]: ranks by host, in their order */
  int32_t *place_of; /* [size]: index of a rank among the members of its host */
  bool *linked;      /* [hosts][hosts]: whether a link joins the two without a switch */
  bool has_linked;   /* any two; if so, rings go from host to host over such links only */

  uint64_t limit_ps; /* no wire needs longer for a KiB around each ring */
  int32_t *room;     /* [wires]: more edges that may use the wire */
  int32_t target;    /* number of rings that ends the search */
  int32_t edges_left;
  int32_t *order;         /* [TOPO_RINGS_MAX][size]: the rings so far */
  bool *visited;          /* [TOPO_RINGS_MAX][size] */
  int32_t best, *longest; /* the most rings that were complete together, as `order` */
  coll_status_t status;
} search_t;

static void search_close(search_t *search) {
  free(search->host_of);
  free(search->first);
  free(search->members);
  free(search->place_of);
  free(search->linked);
  free(search->room);
  free(search->order);
  free(search->visited);
  free(search->longest);
}

/* To be closed also on failure. */
static coll_status_t search_open(search_t *search, topo_fabric_t *fabric, int32_t size) {
  size_t ranks = (size_t)size, all = ranks * TOPO_RINGS_MAX, int_bytes = sizeof(int32_t);
  *search = (search_t){.fabric = fabric, .size = size, .wires = topo_fabric_wire_count(fabric)};
  const struct {
    size_t count, bytes;
    void **array;
  } arrays[] = {{ranks, int_bytes, (void **)&search->host_of},
                {ranks + 1, int_bytes, (void **)&search->first},
                {ranks, int_bytes, (void **)&search->members},
                {ranks, int_bytes, (void **)&search->place_of},
                {ranks * ranks, sizeof(bool), (void **)&search->linked},
                {(size_t)search->wires, int_bytes, (void **)&search->room},
                {all, int_bytes, (void **)&search->order},
                {all, sizeof(bool), (void **)&search->visited},
                {all, int_bytes, (void **)&search->longest}};
  for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
    COLL_TRY(base_alloc(arrays[i].count, arrays[i].bytes, "a search for rings", arrays[i].array));
  }
  return COLL_OK;
}

/* The number of a host that is a node of the graph, or TOPO_NONE. */
static int32_t number_of(const search_t *search, const int32_t host_nodes[], int32_t node) {
  for (int32_t host = 0; host < search->hosts; host++) {
    if (host_nodes[host] == node) return host;
  }
  return TOPO_NONE;
}

static int32_t host_node(const search_t *search, int32_t node) {
  return topo_graph_host_of(topo_fabric_graph(search->fabric), node);
}

/* Numbers the hosts and their ranks. host_nodes[size] */
static void find_members(search_t *search, int32_t host_nodes[]) {
  int32_t placed = 0;
  for (int32_t rank = 0; rank < search->size; rank++) {
    int32_t node = host_node(search, topo_fabric_node(search->fabric, rank)), at = search->hosts;
    if (number_of(search, host_nodes, node) != TOPO_NONE) continue;
    for (; at > 0 && host_nodes[at - 1] > node; at--) host_nodes[at] = host_nodes[at - 1];
    host_nodes[at] = node;
    search->hosts++;
  }
  for (int32_t host = 0; host < search->hosts; host++) {
    search->first[host] = placed;
    for (int32_t rank = 0; rank < search->size; rank++) {
      if (host_node(search, topo_fabric_node(search->fabric, rank)) != host_nodes[host]) continue;
      search->host_of[rank] = host;
      search->place_of[rank] = placed - search->first[host];
      search->members[placed++] = rank;
    }
  }
  search->first[search->hosts] = placed;
}

/* The hosts at both ends of a link, TOPO_NONE where it ends at a switch or at a host without
 * ranks. */
static void ends_of(const search_t *search, const int32_t host_nodes[], size_t link,
                    int32_t ends[2]) {
  const topo_link_t *each = &topo_fabric_graph(search->fabric)->links[link];
  ends[0] = number_of(search, host_nodes, host_node(search, each->a));
  ends[1] = number_of(search, host_nodes, host_node(search, each->b));
}

static void find_linked(search_t *search, const int32_t host_nodes[]) {
  for (size_t link = 0; link < topo_fabric_graph(search->fabric)->link_count; link++) {
    int32_t ends[2];
    ends_of(search, host_nodes, link, ends);
    if (ends[0] == ends[1] || ends[0] == TOPO_NONE || ends[1] == TOPO_NONE) continue;
    search->linked[ends[0] * search->hosts + ends[1]] = true;
    search->linked[ends[1] * search->hosts + ends[0]] = true;
    search->has_linked = true;
  }
}

static int32_t members_of(const search_t *search, int32_t host) {
  return search->first[host + 1] - search->first[host];
}

static int32_t member(const search_t *search, int32_t host, int32_t place) {
  return search->members[search->first[host] + place % members_of(search, host)];
}

/* ---- one edge -------------------------------------------------------------------------------*/

/* Takes (step -1) or gives back (1) the room of the wires between two ranks. */
static void use_wires(search_t *search, int32_t from, int32_t to, int32_t step) {
  const int32_t *wires;
  int32_t count;
  if (topo_fabric_path(search->fabric, from, to, &wires, &count) != COLL_OK) return;
  for (int32_t hop = 0; hop < count; hop++) search->room[wires[hop]] += step;
}

/* Takes the room of the wires between two ranks if all have some. */
static bool take_wires(search_t *search, int32_t from, int32_t to) {
  const int32_t *wires;
  int32_t count;
  coll_status_t status = topo_fabric_path(search->fabric, from, to, &wires, &count);
  if (status != COLL_OK) {
    search->status = status;
    return false;
  }
  for (int32_t hop = 0; hop < count; hop++) {
    if (search->room[wires[hop]] == 0) return false;
  }
  use_wires(search, from, to, -1);
  return true;
}

/* ---- the search -----------------------------------------------------------------------------
 * Functions return true to end it. */

/* Of `ring`, with `at` ranks so far; the last host was entered with the rank at `entered`. */
static bool extend(search_t *search, int32_t ring, int32_t at, int32_t entered);
static bool begin_ring(search_t *search, int32_t ring);

static bool must_end(const search_t *search) {
  return search->status != COLL_OK || search->edges_left <= 0;
}

static bool try_rank(search_t *search, int32_t ring, int32_t at, int32_t entered, int32_t rank) {
  int32_t *order = &search->order[ring * search->size];
  bool *visited = &search->visited[ring * search->size];
  if (visited[rank]) return false;
  search->edges_left--;
  if (!take_wires(search, order[at - 1], rank)) return must_end(search);
  order[at] = rank;
  visited[rank] = true;
  if (must_end(search) || extend(search, ring, at + 1, entered)) return true;
  visited[rank] = false;
  use_wires(search, order[at - 1], rank, 1);
  return must_end(search);
}

static bool complete(search_t *search, int32_t rings) {
  if (rings > search->best) {
    search->best = rings;
    memcpy(search->longest, search->order,
           (size_t)rings * (size_t)search->size * sizeof *search->order);
  }
  return rings == search->target || begin_ring(search, rings);
}

/* From the last rank to the first. Between hosts they have the same index. */
static bool close_ring(search_t *search, int32_t ring) {
  const int32_t *order = &search->order[ring * search->size];
  int32_t last = order[search->size - 1];
  if (search->hosts > 1) {
    if (search->place_of[last] != search->place_of[order[0]]) return false;
    int32_t link = search->host_of[last] * search->hosts + search->host_of[order[0]];
    if (search->has_linked && !search->linked[link]) return false;
  }
  if (!take_wires(search, last, order[0])) return must_end(search);
  if (complete(search, ring + 1)) return true;
  use_wires(search, last, order[0], 1);
  return false;
}

/* 0, 1, -1, 2, -2, ... modulo `count`. */
static int32_t zigzag(int32_t index, int32_t count) {
  int32_t offset = (index % count + 1) / 2;
  return index % count % 2 == 1 ? offset : count - offset;
}

/* To another rank of the host. The last host of all ends at the index of the first rank. */
static bool extend_inside(search_t *search, int32_t ring, int32_t at, int32_t entered) {
  const int32_t *order = &search->order[ring * search->size];
  int32_t host = search->host_of[order[at - 1]], count = members_of(search, host);
  int32_t entry = search->place_of[order[entered]], exit = search->place_of[order[0]];
  bool keeps_exit = search->hosts > 1 && entered + count == search->size && at < search->size - 1;
  for (int32_t i = 0; i < count; i++) {
    int32_t place = (entry + zigzag(at - entered + i, count)) % count;
    if (keeps_exit && place == exit) continue;
    if (try_rank(search, ring, at, entered, member(search, host, place))) return true;
  }
  return false;
}

/* To a host that was not visited, at the same index. */
static bool extend_across(search_t *search, int32_t ring, int32_t at) {
  const int32_t *order = &search->order[ring * search->size];
  int32_t host = search->host_of[order[at - 1]], place = search->place_of[order[at - 1]];
  for (int32_t i = 1; i < search->hosts; i++) {
    int32_t next = (host + i) % search->hosts, count = members_of(search, next);
    bool is_last = at + count == search->size;
    if (search->has_linked && !search->linked[host * search->hosts + next]) continue;
    if (place >= count || (is_last && count > 1 && place == search->place_of[order[0]])) continue;
    if (try_rank(search, ring, at, at, member(search, next, place))) return true;
  }
  return false;
}

static bool extend(search_t *search, int32_t ring, int32_t at, int32_t entered) {
  if (at == search->size) return close_ring(search, ring);
  int32_t host = search->host_of[search->order[ring * search->size + at - 1]];
  if (at - entered < members_of(search, host)) return extend_inside(search, ring, at, entered);
  return extend_across(search, ring, at);
}

/* The ring before the other way round, which uses the other direction of its links. */
static bool add_reverse(search_t *search, int32_t ring) {
  int32_t size = search->size, taken = 0;
  int32_t *order = &search->order[ring * size];
  bool ends = false;
  for (int32_t i = 0; i < size; i++) order[i] = order[-1 - i];
  while (taken < size && take_wires(search, order[taken], order[(taken + 1) % size])) taken++;
  search->edges_left--;
  if (taken == size) ends = complete(search, ring + 1);
  while (!ends && taken-- > 0) use_wires(search, order[taken], order[(taken + 1) % size], 1);
  return ends || must_end(search);
}

static bool begin_ring(search_t *search, int32_t ring) {
  if (search->has_linked && ring % 2 == 1) return add_reverse(search, ring);
  int32_t first = member(search, 0, ring);
  memset(&search->visited[ring * search->size], 0, (size_t)search->size * sizeof(bool));
  search->order[ring * search->size] = first;
  search->visited[ring * search->size + first] = true;
  return extend(search, ring, 1, 0);
}

/* ---- limits ---------------------------------------------------------------------------------*/

static coll_status_t slowest_wire(const search_t *search, int32_t from, int32_t to,
                                  uint64_t *kib_ps) {
  const int32_t *wires;
  int32_t count;
  *kib_ps = 0;
  COLL_TRY(topo_fabric_path(search->fabric, from, to, &wires, &count));
  for (int32_t hop = 0; hop < count; hop++) {
    uint64_t each = topo_fabric_wire(search->fabric, wires[hop]).kib_ps;
    *kib_ps = each > *kib_ps ? each : *kib_ps;
  }
  return COLL_OK;
}

/* The fastest way from a host to the next one, between ranks of the same index. */
static coll_status_t fastest_across(const search_t *search, int32_t host, uint64_t *kib_ps) {
  int32_t next = (host + 1) % search->hosts, count = members_of(search, host);
  if (members_of(search, next) < count) count = members_of(search, next);
  *kib_ps = UINT64_MAX;
  for (int32_t place = 0; place < count; place++) {
    uint64_t each;
    COLL_TRY(slowest_wire(search, member(search, host, place), member(search, next, place), &each));
    *kib_ps = each < *kib_ps ? each : *kib_ps;
  }
  return COLL_OK;
}

/* What the slowest edge of a ring needs for a KiB: between neighbours inside hosts, and between
 * hosts. */
static coll_status_t find_pace(const search_t *search, uint64_t *kib_ps) {
  *kib_ps = 0;
  for (int32_t host = 0; host < search->hosts; host++) {
    uint64_t each = 0;
    for (int32_t place = 0; place + 1 < members_of(search, host); place++) {
      COLL_TRY(slowest_wire(search, member(search, host, place), member(search, host, place + 1),
                            &each));
      *kib_ps = each > *kib_ps ? each : *kib_ps;
    }
    if (search->hosts > 1) COLL_TRY(fastest_across(search, host, &each));
    *kib_ps = each > *kib_ps ? each : *kib_ps;
  }
  return COLL_OK;
}

/* The most rings that the wires out of a host, or of the node of a rank, allow within the limit.
 * leaving[nodes]: edges that may leave a node, or a host */
static int32_t most_rings(const search_t *search, int64_t leaving[]) {
  const topo_graph_t *graph = topo_fabric_graph(search->fabric);
  int64_t most = TOPO_RINGS_MAX;
  for (size_t i = 0; i < graph->link_count; i++) {
    const topo_link_t *link = &graph->links[i];
    int32_t hosts[2] = {host_node(search, link->a), host_node(search, link->b)};
    int64_t edges =
        (int64_t)(search->limit_ps / topo_fabric_wire(search->fabric, 2 * (int32_t)i).kib_ps);
    for (int end = 0; end < 2; end++) {
      int32_t node = end == 0 ? link->a : link->b;
      if (hosts[end] != node) leaving[node] += edges;
      if (hosts[0] != hosts[1] && hosts[end] != TOPO_NONE) leaving[hosts[end]] += edges;
    }
  }
  for (int32_t rank = 0; rank < search->size; rank++) {
    int32_t node = topo_fabric_node(search->fabric, rank), host = host_node(search, node);
    if (node != host && leaving[node] < most) most = leaving[node];
    if (search->hosts > 1 && leaving[host] < most) most = leaving[host];
  }
  return (int32_t)most;
}

/* ---- the best rings -------------------------------------------------------------------------*/

typedef struct candidate {
  topo_rings_t *rings; /* NULL: the ranks in order */
  uint64_t load_ps, count;
} candidate_t;

/* load/count < other load/other count: less time for the same bytes. */
static bool is_faster(uint64_t load_ps, uint64_t count, const candidate_t *than) {
  return load_ps * than->count < than->load_ps * count;
}

static coll_status_t compare(const search_t *search, candidate_t *best) {
  topo_rings_t *made;
  uint64_t load_ps;
  if (search->best == 0) return COLL_OK;
  COLL_TRY(create(search->size, search->best, &made));
  set_orders(made, search->longest);
  coll_status_t status = topo_rings_load(made, search->fabric, &load_ps);
  if (status == COLL_OK && is_faster(load_ps, (uint64_t)made->count, best)) {
    topo_rings_free(best->rings);
    *best = (candidate_t){made, load_ps, (uint64_t)made->count};
    return COLL_OK;
  }
  topo_rings_free(made);
  return status;
}

/* Searches for as many rings as possible within the limit, if so many would be faster. */
static coll_status_t search_within(search_t *search, uint64_t limit_ps, candidate_t *best) {
  int64_t *leaving;
  size_t nodes = topo_fabric_graph(search->fabric)->node_count;
  search->limit_ps = limit_ps;
  COLL_TRY(base_alloc(nodes, sizeof *leaving, "a search for rings", (void **)&leaving));
  search->target = most_rings(search, leaving);
  free(leaving);
  if (search->target == 0 || !is_faster(limit_ps, (uint64_t)search->target, best)) return COLL_OK;
  for (int32_t wire = 0; wire < search->wires; wire++) {
    uint64_t edges = limit_ps / topo_fabric_wire(search->fabric, wire).kib_ps;
    search->room[wire] = edges < INT32_MAX ? (int32_t)edges : INT32_MAX;
  }
  search->edges_left = TOPO_RINGS_EDGES;
  search->best = 0;
  begin_ring(search, 0);
  COLL_TRY(search->status);
  return compare(search, best);
}

static coll_status_t search_all(search_t *search, candidate_t *best) {
  topo_rings_t in_order = {.size = search->size, .count = 1, .order = search->order};
  uint64_t pace_ps;
  for (int32_t rank = 0; rank < search->size; rank++) search->order[rank] = rank;
  COLL_TRY(topo_rings_load(&in_order, search->fabric, &best->load_ps));
  best->count = 1;
  int32_t *host_nodes;
  COLL_TRY(base_alloc((size_t)search->size, sizeof *host_nodes, "hosts", (void **)&host_nodes));
  find_members(search, host_nodes);
  find_linked(search, host_nodes);
  free(host_nodes);
  COLL_TRY(find_pace(search, &pace_ps));
  COLL_TRY(search_within(search, pace_ps, best));
  return search_within(search, 2 * pace_ps, best);
}

coll_status_t topo_rings_find(topo_fabric_t *fabric, int32_t size, topo_rings_t **rings) {
  search_t search;
  candidate_t best = {0};
  *rings = NULL;
  if (size < 3 || size > TOPO_RINGS_RANKS_MAX) return COLL_OK;
  coll_status_t status = search_open(&search, fabric, size);
  if (status == COLL_OK) status = search_all(&search, &best);
  search_close(&search);
  if (status == COLL_OK) {
    *rings = best.rings;
  } else {
    topo_rings_free(best.rings);
  }
  return status;
}

/*
 * Networks between hosts. All links of a fabric have the bandwidth of a NIC, those of tori and
 * meshes excepted, where hosts are the routers. Ports of switches are filled by the NICs in order,
 * host by host.
 */
#include <stdlib.h>
#include <string.h>

#include "topo/kinds.h"
#include "topo/kinds_build.h"

enum { RADIX_MAX = 128, NUMBERS_MAX = 3 };

static int32_t add_switch(topo_builder_t *b, const char *name, int32_t index) {
  return topo_build_node(b, TOPO_SWITCH, TOPO_NONE, "", "%s%d", name, index);
}

static void join_switches(topo_builder_t *b, int32_t from, int32_t to, int32_t count) {
  topo_build_link(b, from, to, b->nic_class, count, b->nic_gbs, TOPO_SWITCH_US);
}

/* NIC i of all: to the switch node. */
static void join_nic(topo_builder_t *b, int32_t i, int32_t to) {
  topo_build_link(b, b->nic[i], to, b->nic_class, 1, b->nic_gbs, TOPO_NIC_US);
}

static coll_status_t refuse(const char *fabric, const char *reason) {
  return base_fail(COLL_ERROR_INVALID, "fabric %s: %s", fabric, reason);
}

/* ---- rail, spine-leaf -----------------------------------------------------------------------*/

static coll_status_t add_rails(topo_builder_t *b, const char *fabric, const int32_t numbers[]) {
  (void)fabric;
  (void)numbers;
  for (int32_t i = 0; i < b->nics; i++) {
    int32_t rail = add_switch(b, "rail", i);
    for (int32_t h = 0; h < b->hosts; h++) join_nic(b, h * b->nics + i, rail);
  }
  return b->status;
}

static coll_status_t add_leaves(topo_builder_t *b, const char *fabric, const int32_t numbers[]) {
  int32_t leaves = numbers[0], spines = numbers[1], first = (int32_t)b->graph->node_count;
  if (leaves > b->hosts) return refuse(fabric, "give at most one leaf switch per host");
  for (int32_t l = 0; l < leaves; l++) add_switch(b, "leaf", l);
  for (int32_t s = 0; s < spines; s++) add_switch(b, "spine", s);
  int32_t down = (b->hosts + leaves - 1) / leaves * b->nics;
  for (int32_t i = 0; i < b->hosts * b->nics; i++) {
    join_nic(b, i, first + (int32_t)((int64_t)(i / b->nics) * leaves / b->hosts));
  }
  for (int32_t i = 0; i < leaves * spines; i++) {
    join_switches(b, first + i / spines, first + leaves + i % spines, (down + spines - 1) / spines);
  }
  return b->status;
}

/* ---- fat-tree -------------------------------------------------------------------------------
 * K pods of K/2 edge and K/2 aggregation switches, and (K/2)^2 core switches, all of K ports.
 * Aggregation switch j of each pod has the core switches j K/2 to (j + 1) K/2 - 1. */

static coll_status_t add_fat_tree(topo_builder_t *b, const char *fabric, const int32_t numbers[]) {
  int32_t k = numbers[0], half = k / 2, first = (int32_t)b->graph->node_count;
  if (k % 2 != 0 || k > RADIX_MAX) return refuse(fabric, "give an even number of ports up to 128");
  if (b->hosts * b->nics > k * half * half) {
    return base_fail(COLL_ERROR_INVALID,
                     "fabric %s: has %d ports for %d NICs; give larger switches", fabric,
                     (int)(k * half * half), (int)(b->hosts * b->nics));
  }
  int32_t aggregation = first + k * half, core = aggregation + k * half;
  for (int32_t i = 0; i < k * half; i++) add_switch(b, "edge", i);
  for (int32_t i = 0; i < k * half; i++) add_switch(b, "aggregation", i);
  for (int32_t i = 0; i < half * half; i++) add_switch(b, "core", i);
  for (int32_t i = 0; i < b->hosts * b->nics; i++) join_nic(b, i, first + i / half);
  for (int32_t i = 0; i < k * half; i++) {
    for (int32_t j = 0; j < half; j++) {
      join_switches(b, first + i, aggregation + i / half * half + j, 1);
      join_switches(b, aggregation + i, core + i % half * half + j, 1);
    }
  }
  return b->status;
}

/* ---- dragonfly ------------------------------------------------------------------------------
 * Groups of `a` routers, all joined with each other; a router has p NICs and h links to other
 * groups. */

typedef struct dragonfly {
  int32_t p, a, h, groups, first; /* first: router */
} dragonfly_t;

/* The smallest balanced dragonfly, a = 2 p = 2 h, with a port for every NIC. */
static dragonfly_t balanced(int32_t nics) {
  int32_t p = 1;
  while ((int64_t)p * 2 * p * (2 * p * p + 1) < nics) p++;
  return (dragonfly_t){.p = p, .a = 2 * p, .h = p};
}

/* The i-th global link of a group in the order of its routers. */
static int32_t router_of(const dragonfly_t *d, int32_t group, int32_t i) {
  return d->first + group * d->a + i / d->h;
}

/* Joins each two groups by equally many links. A group has its links to the next groups first, in
 * a circle. */
static void join_groups(topo_builder_t *b, const dragonfly_t *d) {
  int32_t others = d->groups - 1, each = others > 0 ? d->a * d->h / others : 0;
  for (int32_t from = 0; from < d->groups; from++) {
    for (int32_t to = from + 1; to < d->groups; to++) {
      for (int32_t i = 0; i < each; i++) {
        int32_t up = (to - from - 1) * each + i, down = (others - to + from) * each + i;
        join_switches(b, router_of(d, from, up), router_of(d, to, down), 1);
      }
    }
  }
}

static coll_status_t build_dragonfly(topo_builder_t *b, const char *fabric, dragonfly_t d) {
  int32_t nics = b->hosts * b->nics, ports = d.p * d.a;
  d.first = (int32_t)b->graph->node_count;
  d.groups = (nics + ports - 1) / ports;
  if (d.groups > d.a * d.h + 1) {
    return base_fail(COLL_ERROR_INVALID,
                     "fabric %s: has %d ports for %d NICs; give more routers or links", fabric,
                     (int)(ports * (d.a * d.h + 1)), (int)nics);
  }
  for (int32_t i = 0; i < d.groups * d.a; i++) {
    topo_build_node(b, TOPO_SWITCH, TOPO_NONE, "", "group%d/router%d", (int)(i / d.a),
                    (int)(i % d.a));
  }
  for (int32_t i = 0; i < nics; i++) join_nic(b, i, d.first + i / d.p);
  for (int32_t i = 0; i < d.groups * d.a; i++) {
    for (int32_t j = i + 1; j < (i / d.a + 1) * d.a; j++) {
      join_switches(b, d.first + i, d.first + j, 1);
    }
  }
  join_groups(b, &d);
  return b->status;
}

static coll_status_t add_balanced(topo_builder_t *b, const char *fabric, const int32_t numbers[]) {
  (void)numbers;
  return build_dragonfly(b, fabric, balanced(b->hosts * b->nics));
}

static coll_status_t add_dragonfly(topo_builder_t *b, const char *fabric, const int32_t numbers[]) {
  for (int i = 0; i < 3; i++) {
    if (numbers[i] > RADIX_MAX) return refuse(fabric, "give numbers up to 128");
  }
  return build_dragonfly(b, fabric, (dragonfly_t){numbers[0], numbers[1], numbers[2], 0, 0});
}

/* ---- torus, mesh ----------------------------------------------------------------------------*/

static void add_grid(topo_builder_t *b, int32_t dims, const int32_t extents[], bool wraps) {
  double gbs = b->nics * b->nic_gbs / (2 * dims);
  b->graph->grid = (topo_grid_t){.dims = dims, .wraps = wraps};
  memcpy(b->graph->grid.extents, extents, (size_t)dims * sizeof *extents);
  for (int32_t i = 0; i < b->hosts * b->nics; i++) {
    topo_build_link(b, b->nic[i], b->host[i / b->nics], TOPO_CLASS_PCIE, 1, b->pcie_gbs,
                    TOPO_PCIE_US);
  }
  int32_t stride = b->hosts;
  for (int32_t d = 0; d < dims; d++) {
    int32_t extent = extents[d];
    stride /= extent;
    for (int32_t h = 0; h < b->hosts; h++) {
      bool last = h / stride % extent == extent - 1;
      if (extent == 1 || (last && !wraps)) continue;
      int32_t next = last ? h - (extent - 1) * stride : h + stride;
      topo_build_link(b, b->host[h], b->host[next], TOPO_CLASS_TORUS, 1, gbs, TOPO_NIC_US);
    }
  }
}

static coll_status_t build_grid(topo_builder_t *b, const char *fabric, const int32_t numbers[],
                                bool wraps) {
  int32_t dims = 0;
  int64_t cells = 1;
  while (dims < NUMBERS_MAX && numbers[dims] > 0) cells *= numbers[dims++];
  if (cells != b->hosts) {
    return base_fail(COLL_ERROR_INVALID,
                     "fabric %s: its extents do not multiply to %d hosts; write torus:4x4 for 16",
                     fabric, (int)b->hosts);
  }
  add_grid(b, dims, numbers, wraps);
  return b->status;
}

static coll_status_t add_torus(topo_builder_t *b, const char *fabric, const int32_t numbers[]) {
  return build_grid(b, fabric, numbers, true);
}

static coll_status_t add_mesh(topo_builder_t *b, const char *fabric, const int32_t numbers[]) {
  return build_grid(b, fabric, numbers, false);
}

/* ---- by name --------------------------------------------------------------------------------*/

static const struct {
  const char *prefix;
  char separator;
  int32_t least, most; /* how many numbers follow the prefix */
  coll_status_t (*add)(topo_builder_t *b, const char *fabric, const int32_t numbers[]);
} fabrics[] = {
    {"rail", ',', 0, 0, add_rails},         {"spine-leaf:", ',', 2, 2, add_leaves},
    {"fat-tree:", ',', 1, 1, add_fat_tree}, {"dragonfly:", ',', 3, 3, add_dragonfly},
    {"dragonfly", ',', 0, 0, add_balanced}, {"torus:", 'x', 1, 3, add_torus},
    {"mesh:", 'x', 1, 3, add_mesh},
};

/* Parses "4x4" with the given separator; returns how many numbers there are, -1 if malformed. The
 * others are 0. */
static int32_t parse_numbers(const char *text, char separator, int32_t numbers[NUMBERS_MAX]) {
  int32_t count = 0;
  memset(numbers, 0, NUMBERS_MAX * sizeof *numbers);
  if (*text == '\0') return 0;
  for (;;) {
    char *end;
    long number = strtol(text, &end, 10);
    if (end == text || *text < '0' || *text > '9' || number < 1 || number > TOPO_HOSTS_MAX ||
        count == NUMBERS_MAX) {
      return -1;
    }
    numbers[count++] = (int32_t)number;
    if (*end == '\0') return count;
    if (*end != separator) return -1;
    text = end + 1;
  }
}

coll_status_t topo_build_fabric(topo_builder_t *b, const char *fabric) {
  int32_t numbers[NUMBERS_MAX];
  for (size_t i = 0; i < sizeof fabrics / sizeof fabrics[0]; i++) {
    size_t length = strlen(fabrics[i].prefix);
    if (strncmp(fabric, fabrics[i].prefix, length) != 0) continue;
    int32_t count = parse_numbers(fabric + length, fabrics[i].separator, numbers);
    if (count < fabrics[i].least || count > fabrics[i].most) continue;
    return fabrics[i].add(b, fabric, numbers);
  }
  return base_fail(COLL_ERROR_INVALID,
                   "no fabric '%s'; give rail, spine-leaf:L,S, fat-tree:K, dragonfly, "
                   "dragonfly:P,A,H, torus:AxB[xC] or mesh:AxB[xC]",
                   fabric);
}

/* Links between the parts of a host have typical bandwidths where none are reported. */
#include "topo/host_build.h"

#include <stdio.h>

#include "base/alloc.h"
#include "topo/pci.h"

void topo_host_set_model(topo_builder_t *b, int32_t node, const char *model) {
  if (b->status != COLL_OK) return;
  char *text = b->graph->nodes[node].model;
  snprintf(text, TOPO_NAME_BYTES, "%.*s", TOPO_NAME_BYTES - 1, model != NULL ? model : "");
  for (char *at = text; *at != '\0'; at++) {
    if (*at < ' ' || *at > '~') *at = '?';
  }
}

static bool is_top(const topo_builder_t *b, int32_t host, int32_t node) {
  const topo_node_t *each = &b->graph->nodes[node];
  return each->parent == host && (each->kind == TOPO_PACKAGE || each->kind == TOPO_NUMA);
}

int32_t topo_host_add_numa(topo_builder_t *b, int32_t host, int32_t around, int number) {
  while (b->status == COLL_OK && b->graph->nodes[around].kind == TOPO_NUMA) {
    around = b->graph->nodes[around].parent; /* NUMA nodes do not contain each other */
  }
  int32_t node = topo_build_node(b, TOPO_NUMA, around, "", "host0/numa%d", number);
  if (around != host) {
    topo_build_link(b, around, node, TOPO_CLASS_MEMORY, 1, TOPO_TYPICAL_MEMORY_GBS, TOPO_CORE_US);
  }
  return node;
}

void topo_host_link_tops(topo_builder_t *b, int32_t host) {
  int32_t count = b->status == COLL_OK ? (int32_t)b->graph->node_count : 0;
  for (int32_t i = 0; i < count; i++) {
    for (int32_t j = 0; j < i; j++) {
      if (!is_top(b, host, i) || !is_top(b, host, j)) continue;
      topo_build_link(b, j, i, TOPO_CLASS_MEMORY, 1, TOPO_TYPICAL_PACKAGES_GBS, TOPO_CORE_US);
    }
  }
}

void topo_host_link_core(topo_builder_t *b, int32_t above, int32_t node, bool serves_part,
                         int32_t before) {
  topo_build_link(b, above, node, serves_part ? TOPO_CLASS_CACHE : TOPO_CLASS_MEMORY, 1,
                  serves_part ? TOPO_TYPICAL_CACHE_GBS : TOPO_TYPICAL_MEMORY_GBS,
                  serves_part ? TOPO_TYPICAL_CACHE_US : TOPO_CORE_US);
  for (int32_t i = 1; i <= before && !serves_part; i++) {
    topo_build_link(b, node - i, node, TOPO_CLASS_CACHE, 1, TOPO_TYPICAL_CACHE_GBS,
                    TOPO_TYPICAL_CACHE_US);
  }
}

topo_host_place_t topo_host_narrowed(topo_host_place_t at, double gbs) {
  if (gbs > 0 && (at.gbs <= 0 || gbs < at.gbs)) at.gbs = gbs;
  return at;
}

void topo_host_link_up(topo_builder_t *b, int32_t host, int32_t node, topo_host_place_t at) {
  double gbs = at.gbs > 0 ? at.gbs : TOPO_TYPICAL_PCIE_GBS;
  if (at.node != host) {
    topo_build_link(b, at.node, node, TOPO_CLASS_PCIE, 1, gbs, TOPO_PCIE_US);
    return;
  }
  for (int32_t i = 0; b->status == COLL_OK && i < node; i++) {
    if (!is_top(b, host, i)) continue;
    topo_build_link(b, i, node, TOPO_CLASS_PCIE, 1, gbs, TOPO_PCIE_US);
  }
}

void topo_host_set_address(topo_builder_t *b, topo_host_addresses_t *addresses, int32_t node,
                           int64_t address) {
  size_t count = (size_t)node + 1;
  if (b->status == COLL_OK) {
    b->status = base_grow((void **)&addresses->of, &addresses->capacity, count,
                          sizeof *addresses->of, "PCI addresses");
  }
  if (b->status != COLL_OK) return;
  while (addresses->count < count) addresses->of[addresses->count++] = TOPO_PCI_NONE;
  if (address != TOPO_PCI_NONE) addresses->of[node] = address;
}

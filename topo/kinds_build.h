/* Construction of a graph step by step, of a machine's kind or of what a machine reports. The first
 * failure is kept, so that no step needs a check. */
#ifndef TOPO_KINDS_BUILD_H
#define TOPO_KINDS_BUILD_H

#include "topo/graph.h"

/* Typical latencies in us, assumed. */
#define TOPO_CORE_US 0.1
#define TOPO_GPU_US 0.5
#define TOPO_PCIE_US 0.3
#define TOPO_NIC_US 0.6    /* between NIC and switch */
#define TOPO_SWITCH_US 0.3 /* between switches */

/* Typical bandwidths in GB/s per direction of what neither hwloc nor sysfs reports, assumed. */
#define TOPO_TYPICAL_CACHE_GBS 50.0    /* a core and a shared cache */
#define TOPO_TYPICAL_MEMORY_GBS 204.8  /* 8 channels of DDR4-3200 */
#define TOPO_TYPICAL_PACKAGES_GBS 62.4 /* between packages: 3 UPI links of 10.4 GT/s */
#define TOPO_TYPICAL_PCIE_GBS 15.8     /* x16 of PCIe 3.0 */
#define TOPO_TYPICAL_CACHE_US 0.05

typedef struct topo_builder {
  topo_graph_t *graph;
  coll_status_t status;
  int32_t hosts, nics; /* nics: of a host */
  double nic_gbs;      /* GB/s per direction of a NIC */
  double pcie_gbs;     /* and of its PCIe slot */
  topo_class_t nic_class;
  int32_t *host, *nic; /* nodes: [hosts], [hosts * nics] host by host */
} topo_builder_t;

/* Adds a node and returns its number. */
int32_t topo_build_node(topo_builder_t *b, topo_kind_t kind, int32_t parent, const char *model,
                        const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Adds `count` parallel links. */
void topo_build_link(topo_builder_t *b, int32_t from, int32_t to, topo_class_t link_class,
                     int32_t count, double gbs, double latency_us);

/* Joins the NICs by the fabric of that name (kinds.h). COLL_ERROR_INVALID says what is wrong with
 * the name or its numbers. */
coll_status_t topo_build_fabric(topo_builder_t *b, const char *fabric);

#endif

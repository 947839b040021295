/* Devices of a file of NCCL: <pci> and what it contains. What a <pci> is shows in that, so its node
 * is made when that begins, or at the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "topo/kinds_build.h"
#include "topo/nccl_facts.h"
#include "topo/nccl_parser.h"

enum { WIDTH_MAX = 32 };

/* ---- pci, gpu -------------------------------------------------------------------------------*/

/* A hexadecimal number as in "0x10de", 0 if it is missing. */
static uint32_t find_hex(const topo_nccl_parser_t *parser, const char *name) {
  const char *text = topo_nccl_find(parser, name);
  return text == NULL ? 0 : (uint32_t)strtoul(text, NULL, 16);
}

static void set_model(topo_nccl_parser_t *parser, int32_t node, const char *model) {
  snprintf(parser->reader.graph->nodes[node].model, TOPO_NAME_BYTES, "%s", model);
}

/* Links the node of a pci to what contains it. */
static coll_status_t link_up(topo_nccl_parser_t *parser, const topo_nccl_frame_t *pci,
                             int32_t node) {
  int32_t parent = parser->reader.graph->nodes[node].parent;
  return topo_nccl_add_link(
      &parser->reader, pci->line,
      (topo_link_t){parent, node, TOPO_CLASS_PCIE, 1, pci->pcie_gbs, TOPO_PCIE_US});
}

/* Makes the pci a switch if it is nothing yet. */
static coll_status_t make_switch(topo_nccl_parser_t *parser, topo_nccl_frame_t *pci) {
  if (pci->node != TOPO_NONE) {
    if (parser->reader.graph->nodes[pci->node].kind == TOPO_PCI_SWITCH) return COLL_OK;
    return TOPO_NCCL_REFUSE(parser,
                            "the <pci> in line %d is a device and cannot contain others; give each "
                            "device its own <pci>",
                            (int)pci->line);
  }
  COLL_TRY(topo_nccl_add_named(parser, pci->line, TOPO_PCI_SWITCH, pci[-1].node, &pci->node,
                               "host%d/pci%d", topo_nccl_host_index(parser),
                               (int)parser->host->switches++));
  return link_up(parser, pci, pci->node);
}

static coll_status_t take_pcie(topo_nccl_parser_t *parser, topo_nccl_frame_t *pci) {
  const char *speed = topo_nccl_find(parser, "link_speed");
  bool unknown = speed == NULL || *speed == '\0' || strncmp(speed, "Unknown", 7) == 0;
  int generation = topo_nccl_pcie_generation(unknown ? "8 GT/s" : speed);
  int64_t width;
  if (generation < 0) {
    return TOPO_NCCL_REFUSE(parser, "link_speed=\"%.24s\": give 2.5, 5, 8, 16, 32 or 64 GT/s",
                            speed);
  }
  COLL_TRY(topo_nccl_take_number_or(parser, "link_width", 0, WIDTH_MAX, 0, &width));
  pci->speed_known = !unknown;
  pci->pcie_gbs = topo_nccl_pcie_gbs(generation, width == 0 ? 16 : (int32_t)width);
  return COLL_OK;
}

coll_status_t topo_nccl_begin_pci(topo_nccl_parser_t *parser) {
  topo_nccl_frame_t *pci = topo_nccl_top(parser);
  topo_nccl_reader_t *reader = &parser->reader;
  topo_nccl_device_t device = {.host = parser->host->node, .node = TOPO_NONE, .line = pci->line};
  const char *bus_id;
  COLL_TRY(topo_nccl_take_text(parser, "busid", &bus_id));
  COLL_TRY(topo_nccl_parse_bus_id(reader, pci->line, bus_id, &device.id));
  COLL_TRY(take_pcie(parser, pci));
  pci->pci_class = find_hex(parser, "class");
  if (pci->pci_class < 0x100) pci->pci_class <<= 16; /* "0x03" */
  pci->vendor = find_hex(parser, "vendor");
  pci->model = find_hex(parser, "device");
  if (pci[-1].element == TOPO_NCCL_PCI) COLL_TRY(make_switch(parser, &pci[-1]));
  pci->device = (int32_t)reader->device_count;
  COLL_TRY(base_grow((void **)&reader->devices, &reader->device_capacity, reader->device_count + 1,
                     sizeof device, "devices"));
  reader->devices[reader->device_count++] = device;
  return COLL_OK;
}

/* Makes the pci GPU number `dev`. */
static coll_status_t make_gpu(topo_nccl_parser_t *parser, topo_nccl_frame_t *pci, int64_t dev,
                              const char *model) {
  const topo_nccl_gpu_t *known = topo_nccl_gpu_of_device(pci->vendor, pci->model);
  if (dev >= parser->host->gpus) parser->host->gpus = (int32_t)dev + 1;
  COLL_TRY(topo_nccl_add_named(parser, pci->line, TOPO_GPU, pci[-1].node, &pci->node,
                               "host%d/gpu%d", topo_nccl_host_index(parser), (int)dev));
  set_model(parser, pci->node, known != NULL ? known->model : model);
  return COLL_OK;
}

coll_status_t topo_nccl_begin_gpu(topo_nccl_parser_t *parser) {
  topo_nccl_frame_t *gpu = topo_nccl_top(parser), *pci = gpu - 1;
  const char *gcn = topo_nccl_find(parser, "gcn");
  int64_t dev, sm;
  char model[TOPO_NAME_BYTES];
  COLL_TRY(
      topo_nccl_take_number_or(parser, "dev", 0, TOPO_NCCL_NUMBER_MAX, parser->host->gpus, &dev));
  COLL_TRY(topo_nccl_take_number_or(parser, "sm", 0, TOPO_NCCL_NUMBER_MAX, 0, &sm));
  const topo_nccl_gpu_t *kind = gcn != NULL ? topo_nccl_gpu_of_gcn(gcn) : topo_nccl_gpu_of_sm(sm);
  gpu->link_gbs = kind->link_gbs;
  if (pci->node != TOPO_NONE) {
    gpu->is_ignored = parser->reader.graph->nodes[pci->node].kind == TOPO_GPU;
    if (gpu->is_ignored) return COLL_OK;
    return TOPO_NCCL_REFUSE(parser, "a <gpu> beside other devices; give it its own <pci>");
  }
  snprintf(model, sizeof model, "sm %d", (int)sm);
  if (sm == 0) model[0] = '\0';
  if (gcn != NULL) {
    size_t prefix = strncmp(gcn, "gfx", 3) == 0 ? 0 : 3;
    memcpy(model, "gfx", 3);
    topo_nccl_copy_ascii(model + prefix, 24, gcn);
  }
  return make_gpu(parser, pci, dev, model);
}

coll_status_t topo_nccl_begin_nvlink(topo_nccl_parser_t *parser) {
  const topo_nccl_frame_t *gpu = topo_nccl_top(parser) - 1;
  topo_nccl_reader_t *reader = &parser->reader;
  const char *target, *target_class = topo_nccl_find(parser, "tclass");
  int64_t count;
  if (gpu->is_ignored) return COLL_OK;
  COLL_TRY(topo_nccl_take_text(parser, "target", &target));
  COLL_TRY(topo_nccl_take_number(parser, "count", 1, INT32_MAX, &count));
  topo_nccl_edge_t edge = {.from = gpu[-1].node,
                           .host = parser->host->node,
                           .cpu = TOPO_NONE,
                           .count = (int32_t)count,
                           .line = topo_nccl_line(parser),
                           .gbs = gpu->link_gbs};
  unsigned long kind = target_class != NULL ? strtoul(target_class, NULL, 16) : 0;
  edge.to_switch = kind == 0x068000 || strcmp(target, "fffffff:ffff:ff") == 0;
  if (kind == 0x068001) {
    for (topo_nccl_frame_t *at = topo_nccl_top(parser); at->element != TOPO_NCCL_SYSTEM; at--) {
      if (at->element == TOPO_NCCL_CPU) edge.cpu = at->node;
    }
  }
  if (!edge.to_switch && edge.cpu == TOPO_NONE) {
    COLL_TRY(topo_nccl_parse_bus_id(reader, edge.line, target, &edge.target));
  }
  COLL_TRY(base_grow((void **)&reader->edges, &reader->edge_capacity, reader->edge_count + 1,
                     sizeof edge, "NVLinks"));
  reader->edges[reader->edge_count++] = edge;
  return COLL_OK;
}

coll_status_t topo_nccl_begin_c2c(topo_nccl_parser_t *parser) {
  topo_nccl_frame_t *gpu = topo_nccl_top(parser) - 1, *cpu = gpu;
  int64_t count, mbps;
  if (gpu->is_ignored) return COLL_OK;
  COLL_TRY(topo_nccl_take_number(parser, "count", 1, INT32_MAX, &count));
  COLL_TRY(topo_nccl_take_number(parser, "bw", 1, INT32_MAX, &mbps));
  gpu[-1].has_c2c = true;
  while (cpu->element != TOPO_NCCL_CPU) cpu--;
  return topo_nccl_add_link(&parser->reader, topo_nccl_line(parser),
                            (topo_link_t){cpu->node, gpu[-1].node, TOPO_CLASS_NVLINK,
                                          (int32_t)count, (double)mbps / 1000, TOPO_GPU_US});
}

/* The device of a pci that contains nothing follows from its class. */
coll_status_t topo_nccl_end_pci(topo_nccl_parser_t *parser, topo_nccl_frame_t *pci) {
  unsigned base_class = pci->pci_class >> 16;
  topo_nccl_device_t *device = &parser->reader.devices[pci->device];
  if (pci->node == TOPO_NONE && (base_class == 0x03 || base_class == 0x12)) {
    COLL_TRY(make_gpu(parser, pci, parser->host->gpus, ""));
  } else if (pci->node == TOPO_NONE && base_class == 0x02) {
    COLL_TRY(topo_nccl_add_named(parser, pci->line, TOPO_NIC, pci[-1].node, &pci->node,
                                 "host%d/nic%d", topo_nccl_host_index(parser),
                                 (int)parser->host->nics++));
  } else if (pci->node == TOPO_NONE) {
    COLL_TRY(make_switch(parser, pci));
  }
  device->node = pci->node;
  bool is_switch = parser->reader.graph->nodes[pci->node].kind == TOPO_PCI_SWITCH;
  if (is_switch || (pci->has_c2c && !pci->speed_known)) return COLL_OK;
  return link_up(parser, pci, pci->node);
}

/* ---- nic, net -------------------------------------------------------------------------------*/

coll_status_t topo_nccl_begin_net(topo_nccl_parser_t *parser) {
  topo_nccl_net_t net = {.line = topo_nccl_line(parser), .latency_us = TOPO_NIC_US};
  const char *name = topo_nccl_find(parser, "name"), *latency = topo_nccl_find(parser, "latency");
  int64_t dev;
  if (topo_nccl_find(parser, "dev") == NULL) return COLL_OK;
  COLL_TRY(topo_nccl_take_number(parser, "dev", 0, TOPO_NCCL_NUMBER_MAX, &dev));
  COLL_TRY(topo_nccl_take_number_or(parser, "speed", -1, INT32_MAX, 0, &net.mbps));
  if (latency != NULL && (!base_text_number(latency, &net.latency_us) || net.latency_us < 0)) {
    return TOPO_NCCL_REFUSE(parser, "latency=\"%.24s\": give a number of us that is not negative",
                            latency);
  }
  if (net.latency_us == 0) net.latency_us = TOPO_NIC_US;
  net.dev = (int32_t)dev;
  topo_nccl_copy_ascii(net.name, sizeof net.name, name != NULL ? name : "");
  COLL_TRY(base_grow((void **)&parser->nets, &parser->net_capacity, parser->net_count + 1,
                     sizeof net, "nets"));
  parser->nets[parser->net_count++] = net;
  return COLL_OK;
}

/* Devices of ibverbs are Infiniband or RoCE; their names are those of Linux's drivers. */
static topo_class_t class_of(const topo_nccl_frame_t *pci, const topo_nccl_net_t *net) {
  static const char *const verbs[] = {"mlx", "bnxt_re", "irdma", "ionic", "hfi1", "roce", "ibp"};
  bool found = pci->element == TOPO_NCCL_PCI && pci->pci_class >> 8 == 0x0207;
  for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
    found = found || strncmp(net->name, verbs[i], strlen(verbs[i])) == 0;
  }
  return found ? TOPO_CLASS_INFINIBAND : TOPO_CLASS_ETHERNET;
}

static coll_status_t add_net(topo_nccl_parser_t *parser, const topo_nccl_frame_t *within,
                             int32_t parent, const topo_nccl_net_t *net, int32_t *nic) {
  int32_t port;
  COLL_TRY(topo_nccl_add_named(parser, net->line, TOPO_NIC, parent, nic, "host%d/nic%d",
                               topo_nccl_host_index(parser), (int)net->dev));
  if (net->dev >= parser->host->nics) parser->host->nics = net->dev + 1;
  set_model(parser, *nic, net->name);
  if (net->mbps <= 0) return COLL_OK;
  COLL_TRY(topo_nccl_add_named(parser, net->line, TOPO_SWITCH, TOPO_NONE, &port, "host%d/net%d",
                               topo_nccl_host_index(parser), (int)net->dev));
  return topo_nccl_add_link(&parser->reader, net->line,
                            (topo_link_t){*nic, port, class_of(within, net), 1,
                                          (double)net->mbps / 8000, net->latency_us});
}

/* The nets of a <nic> in a <cpu> are not on PCIe. */
static coll_status_t end_cpu_nic(topo_nccl_parser_t *parser, const topo_nccl_frame_t *cpu) {
  for (size_t i = 0; i < parser->net_count; i++) {
    int32_t nic;
    COLL_TRY(add_net(parser, cpu, cpu->node, &parser->nets[i], &nic));
    COLL_TRY(topo_nccl_add_link(
        &parser->reader, parser->nets[i].line,
        (topo_link_t){cpu->node, nic, TOPO_CLASS_MEMORY, 1, TOPO_NCCL_CORE_GBS, TOPO_CORE_US}));
  }
  return COLL_OK;
}

coll_status_t topo_nccl_end_nic(topo_nccl_parser_t *parser, topo_nccl_frame_t *within) {
  if (within->element == TOPO_NCCL_CPU) return end_cpu_nic(parser, within);
  if (parser->net_count == 1 && within->node == TOPO_NONE) {
    return add_net(parser, within, within[-1].node, &parser->nets[0], &within->node);
  }
  for (size_t i = 0; i < parser->net_count; i++) {
    int32_t nic;
    COLL_TRY(make_switch(parser, within));
    COLL_TRY(add_net(parser, within, within->node, &parser->nets[i], &nic));
    COLL_TRY(link_up(parser, within, nic));
  }
  return COLL_OK;
}

/* Devices of a file of NCCL: <pci> and what it contains. What a <pci> is shows in that, so its node
 * is made when that begins, or at the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
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

static bool is_switch(const topo_nccl_parser_t *parser, const topo_nccl_frame_t *pci) {
  return pci->node != TOPO_NONE && parser->reader.graph->nodes[pci->node].kind == TOPO_PCI_SWITCH;
}

/* Makes the pci a switch if it is nothing yet. */
static coll_status_t make_switch(topo_nccl_parser_t *parser, topo_nccl_frame_t *pci) {
  if (pci->node != TOPO_NONE) return COLL_OK;
  COLL_TRY(topo_nccl_add_named(parser, pci->line, TOPO_PCI_SWITCH, pci[-1].node, &pci->node,
                               "host%d/pci%d", topo_nccl_host_index(parser),
                               (int)parser->host->switches++));
  return link_up(parser, pci, pci->node);
}

static void take_pcie(topo_nccl_parser_t *parser, topo_nccl_frame_t *pci) {
  const char *speed = topo_nccl_find(parser, "link_speed");
  bool unknown = speed == NULL || *speed == '\0' || strncmp(speed, "Unknown", 7) == 0;
  int generation = unknown ? -1 : topo_nccl_pcie_generation(speed);
  if (generation < 0) {
    if (!unknown) {
      TOPO_NCCL_WARN(parser,
                     "link_speed=\"%.24s\" is none of 2.5, 5, 8, 16, 32 and 64 GT/s; 8 GT/s are "
                     "assumed, as by NCCL",
                     speed);
    }
    generation = topo_nccl_pcie_generation("8 GT/s");
  }
  int64_t width = topo_nccl_take_number_or(parser, "link_width", 0, WIDTH_MAX, 0);
  pci->speed_known = !unknown;
  pci->pcie_gbs = topo_nccl_pcie_gbs(generation, width == 0 ? 16 : (int32_t)width);
}

static coll_status_t add_device(topo_nccl_parser_t *parser, topo_nccl_device_t device,
                                int32_t *index) {
  topo_nccl_reader_t *reader = &parser->reader;
  *index = (int32_t)reader->device_count;
  COLL_TRY(base_grow((void **)&reader->devices, &reader->device_capacity, reader->device_count + 1,
                     sizeof device, "devices"));
  reader->devices[reader->device_count++] = device;
  return COLL_OK;
}

coll_status_t topo_nccl_begin_pci(topo_nccl_parser_t *parser) {
  topo_nccl_frame_t *pci = topo_nccl_top(parser);
  topo_nccl_reader_t *reader = &parser->reader;
  topo_nccl_device_t device = {.host = parser->host->node, .node = TOPO_NONE, .line = pci->line};
  const char *bus_id;
  COLL_TRY(topo_nccl_take_text(parser, "busid", &bus_id));
  if (pci[-1].node != TOPO_NONE && pci[-1].element == TOPO_NCCL_PCI &&
      !is_switch(parser, &pci[-1])) {
    topo_nccl_ignore(parser, "the outer one is a device");
    return COLL_OK;
  }
  device.id = topo_nccl_parse_bus_id(reader, pci->line, bus_id);
  take_pcie(parser, pci);
  pci->pci_class = find_hex(parser, "class");
  if (pci->pci_class < 0x100) pci->pci_class <<= 16; /* "0x03" */
  pci->vendor = find_hex(parser, "vendor");
  pci->model = find_hex(parser, "device");
  if (pci[-1].element == TOPO_NCCL_PCI) COLL_TRY(make_switch(parser, &pci[-1]));
  return add_device(parser, device, &pci->device);
}

/* *number: `dev`, or another one if a device of that kind in the host has that. */
static coll_status_t number_device(topo_nccl_parser_t *parser, topo_nccl_numbers_t *numbers,
                                   const char *kind, int64_t dev, int32_t *number) {
  COLL_TRY(topo_nccl_take_free(numbers, dev, number));
  if (*number != dev) {
    TOPO_NCCL_WARN(parser, "dev=\"%d\" is the second one of the host; this one is %s%d", (int)dev,
                   kind, (int)*number);
  }
  return COLL_OK;
}

/* Makes a GPU of the number `dev`: the pci, or, if that is a switch, a device in it. */
static coll_status_t make_gpu(topo_nccl_parser_t *parser, topo_nccl_frame_t *pci, int64_t dev,
                              const char *model, int32_t *node) {
  const topo_nccl_gpu_t *known = topo_nccl_gpu_of_device(pci->vendor, pci->model);
  int32_t within = pci->node == TOPO_NONE ? pci[-1].node : pci->node, number, index;
  COLL_TRY(number_device(parser, &parser->host->gpus, "gpu", dev, &number));
  COLL_TRY(topo_nccl_add_named(parser, pci->line, TOPO_GPU, within, node, "host%d/gpu%d",
                               topo_nccl_host_index(parser), (int)number));
  set_model(parser, *node, known != NULL ? known->model : model);
  if (pci->node == TOPO_NONE) {
    pci->node = *node;
    return COLL_OK;
  }
  topo_nccl_device_t device = parser->reader.devices[pci->device];
  device.node = *node;
  COLL_TRY(add_device(parser, device, &index));
  return link_up(parser, pci, *node);
}

/* The name of a GPU's architecture in the attributes of the current element. */
static void find_model(const topo_nccl_parser_t *parser, int64_t sm, char model[TOPO_NAME_BYTES]) {
  const char *gcn = topo_nccl_find(parser, "gcn");
  snprintf(model, TOPO_NAME_BYTES, "sm %d", (int)sm);
  if (sm == 0) model[0] = '\0';
  if (gcn == NULL) return;
  size_t prefix = strncmp(gcn, "gfx", 3) == 0 ? 0 : 3;
  memcpy(model, "gfx", 3);
  topo_nccl_copy_ascii(model + prefix, 24, gcn);
}

coll_status_t topo_nccl_begin_gpu(topo_nccl_parser_t *parser) {
  topo_nccl_frame_t *gpu = topo_nccl_top(parser), *pci = gpu - 1;
  const char *gcn = topo_nccl_find(parser, "gcn");
  char model[TOPO_NAME_BYTES];
  int64_t sm = topo_nccl_take_number_or(parser, "sm", 0, TOPO_NCCL_NUMBER_MAX, 0);
  const topo_nccl_gpu_t *kind = gcn != NULL ? topo_nccl_gpu_of_gcn(gcn) : topo_nccl_gpu_of_sm(sm);
  gpu->link_gbs = kind->link_gbs;
  gpu->is_ignored = pci->node != TOPO_NONE && !is_switch(parser, pci);
  if (gpu->is_ignored) return COLL_OK;
  int64_t dev =
      topo_nccl_take_number_or(parser, "dev", 0, TOPO_NCCL_DEV_MAX, parser->host->gpus.next);
  find_model(parser, sm, model);
  return make_gpu(parser, pci, dev, model, &gpu->node);
}

/* Adds what a link leads to. As in NCCL, what is neither a GPU nor the cpu is the NVSwitch. */
static coll_status_t find_target(topo_nccl_parser_t *parser, topo_nccl_edge_t *edge) {
  const char *target = topo_nccl_find(parser, "target");
  const char *kind = topo_nccl_find(parser, "tclass");
  bool is_gpu = kind == NULL || *kind == '\0' || strncmp(kind, "0x03", 4) == 0 ||
                strncmp(kind, "0x12", 4) == 0;
  topo_nccl_copy_ascii(edge->target_text, sizeof edge->target_text, target != NULL ? target : "");
  if (kind != NULL && strncmp(kind, "0x068001", 8) == 0) {
    for (topo_nccl_frame_t *at = topo_nccl_top(parser); at->element != TOPO_NCCL_SYSTEM; at--) {
      if (at->element == TOPO_NCCL_CPU) edge->cpu = at->node;
    }
    return COLL_OK;
  }
  edge->to_switch = !is_gpu || (target != NULL && strcmp(target, "fffffff:ffff:ff") == 0);
  if (edge->to_switch) return COLL_OK;
  COLL_TRY(topo_nccl_take_text(parser, "target", &target));
  edge->target = topo_nccl_parse_bus_id(&parser->reader, edge->line, target);
  return COLL_OK;
}

/* *count: of links; 0, with a warning, if they are left out. */
static coll_status_t take_count(topo_nccl_parser_t *parser, const char *name, int64_t *count) {
  COLL_TRY(topo_nccl_take_number(parser, name, INT32_MIN, INT32_MAX, count));
  if (*count > 0) return COLL_OK;
  TOPO_NCCL_WARN(parser, "<%s> with %s=\"%d\" is left out", topo_nccl_top(parser)->name, name,
                 (int)*count);
  *count = 0;
  return COLL_OK;
}

coll_status_t topo_nccl_begin_nvlink(topo_nccl_parser_t *parser) {
  const topo_nccl_frame_t *gpu = topo_nccl_top(parser) - 1;
  topo_nccl_reader_t *reader = &parser->reader;
  int64_t count;
  if (gpu->is_ignored) return COLL_OK;
  COLL_TRY(take_count(parser, "count", &count));
  topo_nccl_edge_t edge = {.from = gpu->node,
                           .host = parser->host->node,
                           .cpu = TOPO_NONE,
                           .count = (int32_t)count,
                           .line = topo_nccl_line(parser),
                           .gbs = gpu->link_gbs};
  COLL_TRY(find_target(parser, &edge));
  if (count == 0) return COLL_OK;
  COLL_TRY(base_grow((void **)&reader->edges, &reader->edge_capacity, reader->edge_count + 1,
                     sizeof edge, "NVLinks"));
  reader->edges[reader->edge_count++] = edge;
  return COLL_OK;
}

coll_status_t topo_nccl_begin_c2c(topo_nccl_parser_t *parser) {
  topo_nccl_frame_t *gpu = topo_nccl_top(parser) - 1, *cpu = gpu;
  int64_t count, mbps;
  if (gpu->is_ignored) return COLL_OK;
  COLL_TRY(take_count(parser, "count", &count));
  COLL_TRY(take_count(parser, "bw", &mbps));
  if (count == 0 || mbps == 0) return COLL_OK;
  gpu[-1].has_c2c = true;
  while (cpu->element != TOPO_NCCL_CPU) cpu--;
  return topo_nccl_add_link(&parser->reader, topo_nccl_line(parser),
                            (topo_link_t){cpu->node, gpu->node, TOPO_CLASS_NVLINK, (int32_t)count,
                                          (double)mbps / 1000, TOPO_GPU_US});
}

/* The device of a pci that contains nothing follows from its class. */
coll_status_t topo_nccl_end_pci(topo_nccl_parser_t *parser, topo_nccl_frame_t *pci) {
  unsigned base_class = pci->pci_class >> 16;
  int32_t node, number;
  if (pci->node == TOPO_NONE && (base_class == 0x03 || base_class == 0x12)) {
    COLL_TRY(make_gpu(parser, pci, parser->host->gpus.next, "", &node));
  } else if (pci->node == TOPO_NONE && base_class == 0x02) {
    COLL_TRY(topo_nccl_take_free(&parser->host->nics, parser->host->nics.next, &number));
    COLL_TRY(topo_nccl_add_named(parser, pci->line, TOPO_NIC, pci[-1].node, &pci->node,
                                 "host%d/nic%d", topo_nccl_host_index(parser), (int)number));
  } else if (pci->node == TOPO_NONE) {
    COLL_TRY(make_switch(parser, pci));
  }
  parser->reader.devices[pci->device].node = pci->node;
  if (is_switch(parser, pci) || (pci->has_c2c && !pci->speed_known)) return COLL_OK;
  return link_up(parser, pci, pci->node);
}

/* ---- nic, net -------------------------------------------------------------------------------*/

/* The latency of a net in us, TOPO_NIC_US if it is not given. */
static double take_latency(topo_nccl_parser_t *parser) {
  const char *text = topo_nccl_find(parser, "latency");
  double us = 0;
  if (text != NULL && (!base_text_number(text, &us) || us < 0)) {
    TOPO_NCCL_WARN(parser, "latency=\"%.24s\" is no number of us and ignored", text);
    us = 0;
  }
  return us > 0 ? us : TOPO_NIC_US;
}

coll_status_t topo_nccl_begin_net(topo_nccl_parser_t *parser) {
  topo_nccl_net_t net = {.line = topo_nccl_line(parser)};
  const char *name = topo_nccl_find(parser, "name");
  if (topo_nccl_find(parser, "dev") == NULL) return COLL_OK;
  net.dev = (int32_t)topo_nccl_take_number_or(parser, "dev", 0, TOPO_NCCL_DEV_MAX,
                                              parser->host->nics.next);
  net.mbps = topo_nccl_take_number_or(parser, "speed", INT32_MIN, INT32_MAX, 0);
  net.latency_us = take_latency(parser);
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
  int32_t port, number;
  COLL_TRY(number_device(parser, &parser->host->nics, "nic", net->dev, &number));
  COLL_TRY(topo_nccl_add_named(parser, net->line, TOPO_NIC, parent, nic, "host%d/nic%d",
                               topo_nccl_host_index(parser), (int)number));
  set_model(parser, *nic, net->name);
  if (net->mbps <= 0) return COLL_OK;
  COLL_TRY(topo_nccl_add_named(parser, net->line, TOPO_SWITCH, TOPO_NONE, &port, "host%d/net%d",
                               topo_nccl_host_index(parser), (int)number));
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
    /* the port of a GPU's own NIC is beside the GPU */
    bool beside = !is_switch(parser, within);
    COLL_TRY(
        add_net(parser, within, beside ? within[-1].node : within->node, &parser->nets[i], &nic));
    COLL_TRY(link_up(parser, within, nic));
  }
  return COLL_OK;
}

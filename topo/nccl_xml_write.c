/* Writes topology files of NCCL. Its parser takes plain elements only: no XML declaration, no
 * references of characters, values of less than 255 bytes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "topo/host_view.h"
#include "topo/nccl_facts.h"
#include "topo/nccl_xml.h"

enum { AFFINITY_GROUPS_MAX = 28 }; /* of 32 CPUs in 9 bytes of a value */

#define RESOLUTION 0.01 /* greatest relative difference that is not worth a warning */

typedef struct writer {
  topo_host_view_t view;
  topo_nccl_dialect_t dialect;
  FILE *out;
  bool *written; /* of each link, whether the file states it */
  bool has_warned[TOPO_KIND_COUNT], has_warned_of_links;
} writer_t;

static bool differs(double a, double b) {
  return fabs(a - b) > RESOLUTION * b;
}

static double total_gbs(const topo_link_t *link) {
  return link->count * link->gigabytes_per_s;
}

/* The nearest number that the format can have, with a warning if it is far. */
static int32_t to_integer(const writer_t *w, const topo_node_t *node, double value) {
  double nearest = fmin(fmax(round(value), 1), INT32_MAX);
  if (differs(value, nearest)) {
    topo_host_view_warn(&w->view, "a speed of '%s' is written as %.0f Mb/s or MB/s, not %g",
                        node->name, nearest, value);
  }
  return (int32_t)nearest;
}

/* ---- pci ------------------------------------------------------------------------------------*/

/* The attributes of a <pci> up to its link. */
static void write_pci(writer_t *w, int32_t node, int indent, const char *pci_class) {
  const topo_graph_t *graph = w->view.graph;
  int32_t uplink = w->view.nodes[node].uplink, width = 0;
  int generation = 0;
  const char *speed = "";
  if (uplink != TOPO_NONE) {
    const topo_link_t *link = &graph->links[uplink];
    topo_nccl_pcie_nearest(total_gbs(link), &generation, &width);
    speed = topo_nccl_pcie_speed(generation);
    double gbs = topo_nccl_pcie_gbs(generation, width);
    if (differs(total_gbs(link), gbs)) {
      topo_host_view_warn(&w->view, "the %g GB/s of '%s' are written as %s x%d, %g GB/s",
                          total_gbs(link), graph->nodes[node].name, speed, (int)width, gbs);
    }
    w->written[uplink] = true;
  }
  fprintf(w->out, "%*s<pci busid=\"%s\" class=\"%s\"", indent, "",
          topo_bus_id(w->view.nodes[node].bus).text, pci_class);
  fprintf(w->out, " link_speed=\"%s\" link_width=\"%d\"", speed, (int)width);
}

/* ---- gpu ------------------------------------------------------------------------------------*/

/* The first NVLink of a GPU, or NULL. */
static const topo_link_t *any_nvlink(const writer_t *w, int32_t gpu) {
  const topo_graph_t *graph = w->view.graph;
  for (size_t i = 0; i < graph->link_count; i++) {
    int32_t other = topo_link_other(&graph->links[i], gpu);
    if (other == TOPO_NONE || graph->links[i].link_class != TOPO_CLASS_NVLINK) continue;
    topo_kind_t kind = graph->nodes[other].kind;
    if (kind == TOPO_GPU || kind == TOPO_NVSWITCH) return &graph->links[i];
  }
  return NULL;
}

static coll_status_t find_generation(writer_t *w, int32_t gpu, const topo_nccl_gpu_t **found) {
  const topo_node_t *node = &w->view.graph->nodes[gpu];
  const topo_link_t *link = any_nvlink(w, gpu);
  bool amd = w->dialect == TOPO_NCCL_AMD;
  *found = topo_nccl_gpu_of_model(node->model);
  if (*found == NULL) {
    *found = topo_nccl_gpu_of_links(amd, link != NULL ? link->gigabytes_per_s : 25.0);
    if (!w->has_warned[TOPO_GPU]) {
      topo_host_view_warn(&w->view, "the model of GPU '%s', '%s', is not known; %s is written",
                          node->name, node->model, (*found)->model);
    }
    w->has_warned[TOPO_GPU] = true;
  }
  if (((*found)->gcn != NULL) == amd) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "GPU '%s' is a %s; files of %s describe GPUs of %s only",
                   node->name, node->model, amd ? "RCCL" : "NCCL",
                   amd ? "AMD: use --to nccl" : "NVIDIA: use --to rccl");
}

static void write_nvlink(writer_t *w, const topo_link_t *link, int32_t other, int indent,
                         const topo_nccl_gpu_t *gpu) {
  const topo_node_t *target = &w->view.graph->nodes[other];
  const char *gpu_class = w->dialect == TOPO_NCCL_AMD ? "0x120000" : "0x030200";
  fprintf(w->out, "%*s<%s target=\"%s\" count=\"%d\" tclass=\"%s\"/>\n", indent, "",
          w->dialect == TOPO_NCCL_AMD ? "xgmi" : "nvlink",
          topo_bus_id(w->view.nodes[other].bus).text, (int)link->count,
          target->kind == TOPO_GPU ? gpu_class : "0x068000");
  if (differs(link->gigabytes_per_s, gpu->link_gbs) && !w->has_warned_of_links) {
    topo_host_view_warn(&w->view,
                        "the format has no bandwidth of NVLinks: those of '%s', %g GB/s, are taken "
                        "for links of %g GB/s",
                        target->name, link->gigabytes_per_s, gpu->link_gbs);
    w->has_warned_of_links = true;
  }
  if (!w->view.nodes[other].is_inside && !w->has_warned[TOPO_NVSWITCH]) {
    topo_host_view_warn(&w->view, "'%s' connects hosts; it is written as one of this host",
                        target->name);
    w->has_warned[TOPO_NVSWITCH] = true;
  }
}

/* The NVLinks of a GPU, to others and to its cpu. */
static void write_nvlinks(writer_t *w, int32_t gpu, int indent, const topo_nccl_gpu_t *kind) {
  const topo_graph_t *graph = w->view.graph;
  for (size_t i = 0; i < graph->link_count; i++) {
    const topo_link_t *link = &graph->links[i];
    int32_t other = topo_link_other(link, gpu);
    if (other == TOPO_NONE || link->link_class != TOPO_CLASS_NVLINK) continue;
    topo_kind_t kind_of_other = graph->nodes[other].kind;
    bool is_inside = w->view.nodes[other].is_inside;
    if (kind_of_other == TOPO_NVSWITCH || (kind_of_other == TOPO_GPU && is_inside)) {
      write_nvlink(w, link, other, indent, kind);
    } else if (is_inside && other == graph->nodes[gpu].parent && w->dialect == TOPO_NCCL_NVIDIA) {
      fprintf(w->out, "%*s<c2c count=\"%d\" bw=\"%d\"/>\n", indent, "", (int)link->count,
              (int)to_integer(w, &graph->nodes[gpu], link->gigabytes_per_s * 1000));
    } else {
      continue;
    }
    w->written[i] = true;
  }
}

static coll_status_t write_gpu(writer_t *w, int32_t node, int indent) {
  bool amd = w->dialect == TOPO_NCCL_AMD;
  int32_t number = w->view.nodes[node].number;
  const topo_nccl_gpu_t *gpu;
  COLL_TRY(find_generation(w, node, &gpu));
  write_pci(w, node, indent, amd ? "0x120000" : "0x030200");
  fprintf(w->out, " vendor=\"0x%04x\" device=\"0x%04x\">\n", gpu->vendor, gpu->device);
  fprintf(w->out, "%*s<gpu dev=\"%d\" sm=\"%d\"", indent + 2, "", (int)number, (int)gpu->sm);
  if (amd) fprintf(w->out, " gcn=\"%s\" arch=\"38911\"", gpu->gcn);
  fprintf(w->out, " rank=\"%d\" gdr=\"1\">\n", (int)number);
  write_nvlinks(w, node, indent + 4, gpu);
  fprintf(w->out, "%*s</gpu>\n%*s</pci>\n", indent + 2, "", indent, "");
  return COLL_OK;
}

/* ---- nic ------------------------------------------------------------------------------------*/

/* The link of a NIC to the network, or TOPO_NONE; *is_port: nothing else is connected there. */
static int32_t find_network(const writer_t *w, int32_t nic, bool *is_port) {
  const topo_graph_t *graph = w->view.graph;
  int32_t found = TOPO_NONE, network = TOPO_NONE, links = 0;
  for (size_t i = 0; i < graph->link_count && found == TOPO_NONE; i++) {
    topo_class_t link_class = graph->links[i].link_class;
    bool is_network = link_class == TOPO_CLASS_INFINIBAND || link_class == TOPO_CLASS_ETHERNET;
    int32_t other = topo_link_other(&graph->links[i], nic);
    if (other == TOPO_NONE || !is_network) continue;
    found = (int32_t)i;
    network = other;
  }
  for (size_t i = 0; i < graph->link_count && found != TOPO_NONE; i++) {
    links += topo_link_other(&graph->links[i], network) != TOPO_NONE;
  }
  *is_port = links == 1;
  return found;
}

/* Whether another NIC of the host has that model. */
static bool shares_model(const writer_t *w, int32_t nic) {
  const topo_graph_t *graph = w->view.graph;
  for (int32_t i = 0; i < (int32_t)graph->node_count; i++) {
    bool is_other = i != nic && graph->nodes[i].kind == TOPO_NIC && w->view.nodes[i].is_inside;
    if (is_other && strcmp(graph->nodes[i].model, graph->nodes[nic].model) == 0) return true;
  }
  return false;
}

/* The name by which NCCL finds the device is its model, as in "mlx5_0", if only it has that. */
static void write_nic(writer_t *w, int32_t node, int indent) {
  const topo_graph_t *graph = w->view.graph;
  const topo_node_t *nic = &graph->nodes[node];
  int32_t number = w->view.nodes[node].number;
  bool is_port;
  int32_t network = find_network(w, node, &is_port);
  const topo_link_t *link = network == TOPO_NONE ? NULL : &graph->links[network];
  bool infiniband = link != NULL && link->link_class == TOPO_CLASS_INFINIBAND;
  write_pci(w, node, indent, infiniband ? "0x020700" : "0x020000");
  fprintf(w->out, ">\n%*s<nic>\n%*s<net", indent + 2, "", indent + 4, "");
  bool has_own = nic->model[0] != '\0' && !shares_model(w, node);
  topo_xml_write_text(w->out, "name", has_own ? nic->model : topo_node_short_name(nic));
  fprintf(w->out, " dev=\"%d\"", (int)number);
  if (link != NULL) {
    fprintf(w->out, " speed=\"%d\" latency=\"%f\"", (int)to_integer(w, nic, total_gbs(link) * 8000),
            link->latency_us);
    w->written[network] = is_port;
  } else if (!w->has_warned[TOPO_NIC]) {
    topo_host_view_warn(&w->view,
                        "'%s' is linked to no network, so its speed is not known and NCCL takes 10 "
                        "Gb/s; make the topology with --fabric rail",
                        nic->name);
    w->has_warned[TOPO_NIC] = true;
  }
  fprintf(w->out, " port=\"1\" guid=\"0x%x\" maxconn=\"131072\" gdr=\"%d\"/>\n",
          (unsigned)number + 1, link == NULL || infiniband);
  fprintf(w->out, "%*s</nic>\n%*s</pci>\n", indent + 2, "", indent, "");
}

/* ---- the tree -------------------------------------------------------------------------------*/

static coll_status_t write_device(writer_t *w, int32_t node, int indent) {
  topo_kind_t kind = w->view.graph->nodes[node].kind;
  if (kind == TOPO_GPU) return write_gpu(w, node, indent);
  if (kind == TOPO_NIC) {
    write_nic(w, node, indent);
    return COLL_OK;
  }
  bool is_root_complex = topo_host_view_is_root_complex(&w->view, node);
  if (is_root_complex) {
    w->written[w->view.nodes[node].uplink] = true;
    indent -= 2;
    if (!w->has_warned[TOPO_PCI_SWITCH]) {
      topo_host_view_warn(&w->view,
                          "root complexes as '%s' are left out; cpus have what is in them",
                          w->view.graph->nodes[node].name);
    }
    w->has_warned[TOPO_PCI_SWITCH] = true;
  } else {
    write_pci(w, node, indent, "0x060400");
    fputs(">\n", w->out);
  }
  for (int32_t child = w->view.nodes[node].first_child; child != TOPO_NONE;) {
    COLL_TRY(write_device(w, child, indent + 2));
    child = w->view.nodes[child].next_sibling;
  }
  if (!is_root_complex) fprintf(w->out, "%*s</pci>\n", indent, "");
  return COLL_OK;
}

/* The cores of a cpu, groups of 32 bits, the highest first. Left out if there are none, or too many
 * for a value. */
static void write_affinity(writer_t *w, int32_t cpu) {
  uint32_t groups[AFFINITY_GROUPS_MAX] = {0};
  const topo_graph_t *graph = w->view.graph;
  int count = (w->view.core_count + 31) / 32, cores = 0;
  if (count > AFFINITY_GROUPS_MAX) {
    if (!w->has_warned[TOPO_CORE]) {
      topo_host_view_warn(&w->view, "the %d cores are more than NCCL reads, and left out",
                          (int)w->view.core_count);
    }
    w->has_warned[TOPO_CORE] = true;
    return;
  }
  for (size_t i = 0; i < graph->node_count; i++) {
    const topo_view_node_t *each = &w->view.nodes[i];
    if (!each->is_inside || graph->nodes[i].kind != TOPO_CORE || each->cpu != cpu) continue;
    groups[each->number / 32] |= 1u << each->number % 32;
    cores++;
  }
  if (cores == 0) return;
  fputs(" affinity=\"", w->out);
  for (int i = count - 1; i >= 0; i--) fprintf(w->out, "%08x%s", groups[i], i > 0 ? "," : "\"");
}

/* The number of the package that contains a NUMA node, or TOPO_NONE. */
static int32_t package_of(const writer_t *w, int32_t node) {
  const topo_graph_t *graph = w->view.graph;
  while (node != TOPO_NONE && graph->nodes[node].kind != TOPO_PACKAGE) {
    node = graph->nodes[node].parent;
  }
  return node == TOPO_NONE ? TOPO_NONE : w->view.nodes[node].number;
}

static void write_processor(writer_t *w, int32_t node) {
  const topo_graph_t *graph = w->view.graph;
  const topo_node_t *cpu = &graph->nodes[node];
  topo_nccl_cpu_t processor;
  const char *model = cpu->model;
  if (*model == '\0' && cpu->parent != TOPO_NONE) model = graph->nodes[cpu->parent].model;
  if (!topo_nccl_cpu_of_model(model, &processor) && !w->has_warned[TOPO_PACKAGE]) {
    topo_host_view_warn(&w->view,
                        "the processor of '%s', '%s', is not known; one of Intel is "
                        "written",
                        cpu->name, model);
    w->has_warned[TOPO_PACKAGE] = true;
  }
  topo_xml_write_text(w->out, "arch", processor.arch);
  if (processor.vendor[0] != '\0') {
    topo_xml_write_text(w->out, "vendor", processor.vendor);
    fprintf(w->out, " familyid=\"%d\" modelid=\"%d\"", (int)processor.family, (int)processor.model);
  }
}

static coll_status_t write_cpu(writer_t *w, int32_t cpu) {
  const topo_graph_t *graph = w->view.graph;
  int32_t node = w->view.cpus[cpu], package = package_of(w, node);
  fprintf(w->out, "  <cpu numaid=\"%d\"", (int)cpu);
  if (graph->nodes[node].kind == TOPO_PACKAGE) {
    fputs(" package=\"self\"", w->out);
  } else if (package != TOPO_NONE) {
    fprintf(w->out, " package=\"%d\"", (int)package);
  }
  write_affinity(w, cpu);
  write_processor(w, node);
  fputs(">\n", w->out);
  for (int32_t i = 0; i < (int32_t)graph->node_count; i++) {
    if (!topo_host_view_is_root_device(&w->view, i) || w->view.nodes[i].cpu != cpu) continue;
    COLL_TRY(write_device(w, i, 4));
  }
  fputs("  </cpu>\n", w->out);
  return COLL_OK;
}

/* ---- what is left out -----------------------------------------------------------------------*/

/* Whether an end of the link is in the host. */
static bool touches(const writer_t *w, const topo_link_t *link) {
  return w->view.nodes[link->a].is_inside || w->view.nodes[link->b].is_inside;
}

static void warn_of_links(const writer_t *w) {
  const topo_graph_t *graph = w->view.graph;
  size_t left[TOPO_CLASS_COUNT] = {0}, outside = 0;
  for (size_t i = 0; i < graph->link_count; i++) {
    bool is_inside = touches(w, &graph->links[i]);
    if (is_inside && !w->written[i]) left[graph->links[i].link_class]++;
    outside += !is_inside;
  }
  if (left[TOPO_CLASS_MEMORY] + left[TOPO_CLASS_CACHE] > 0) {
    topo_host_view_warn(&w->view, "bandwidths of memory and caches are left out; NCCL has its own");
    left[TOPO_CLASS_MEMORY] = left[TOPO_CLASS_CACHE] = 0;
  }
  for (int i = 0; i < TOPO_CLASS_COUNT; i++) {
    bool is_network = i == TOPO_CLASS_INFINIBAND || i == TOPO_CLASS_ETHERNET;
    if (left[i] == 0) continue;
    topo_host_view_warn(&w->view, "%zu links of class %s are left out: %s", left[i],
                        topo_class_name((topo_class_t)i),
                        is_network ? "the file states the speed of NICs, not what they connect to"
                                   : "the format has none between such nodes");
  }
  if (outside > 0) {
    topo_host_view_warn(&w->view, "%zu links outside of the host are left out", outside);
  }
}

static coll_status_t write_all(writer_t *w) {
  const topo_graph_t *graph = w->view.graph;
  fprintf(w->out, "<system version=\"%d\"", w->dialect == TOPO_NCCL_AMD ? 2 : 1);
  if (graph->name[0] != '\0') topo_xml_write_text(w->out, "name", graph->name);
  fputs(">\n", w->out);
  for (int32_t i = 0; i < w->view.cpu_count; i++) COLL_TRY(write_cpu(w, i));
  fputs("</system>\n", w->out);
  warn_of_links(w);
  if (!ferror(w->out)) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write the topology");
}

coll_status_t topo_graph_to_nccl_xml(const topo_graph_t *graph, const char *host,
                                     topo_nccl_dialect_t dialect, FILE *out, FILE *warnings) {
  writer_t w = {.dialect = dialect, .out = out};
  coll_status_t status = topo_host_view_create(graph, host, "a file of NCCL", warnings, &w.view);
  if (status == COLL_OK) {
    status = base_alloc(graph->link_count + 1, sizeof *w.written, "links", (void **)&w.written);
  }
  if (status == COLL_OK) status = write_all(&w);
  free(w.written);
  topo_host_view_free(&w.view);
  return status;
}

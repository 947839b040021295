/* Writes hwloc's XML. The objects of the processors are written by scope: the machine, a package or
 * a cpu (topo/host_view.h), whose sets are those of its cores and NUMA nodes. */
#include "topo/hwloc_xml.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "topo/host_view.h"
#include "topo/nccl_facts.h"

typedef struct scope {
  int32_t package, cpu; /* node, index; TOPO_NONE: all */
} scope_t;

static const scope_t whole = {TOPO_NONE, TOPO_NONE};

typedef struct writer {
  topo_host_view_t view;
  FILE *out;
  int objects;       /* so far */
  int32_t *package;  /* of each cpu, TOPO_NONE: none */
  int32_t *cores;    /* of each cpu, how many */
  int32_t *core_cpu; /* of each core */
  uint32_t *bits;
} writer_t;

static bool is_in(const writer_t *w, scope_t scope, int32_t cpu) {
  if (scope.cpu != TOPO_NONE) return cpu == scope.cpu;
  return scope.package == TOPO_NONE || w->package[cpu] == scope.package;
}

static int32_t cores_of(const writer_t *w, scope_t scope) {
  int32_t cores = 0;
  for (int32_t i = 0; i < w->view.cpu_count; i++) cores += is_in(w, scope, i) ? w->cores[i] : 0;
  return cores;
}

/* ---- sets -----------------------------------------------------------------------------------*/

/* Writes name="0x00000001,0x00000000" and complete_name of w->bits, and clears them. */
static void write_bits(writer_t *w, const char *name, int32_t count, bool is_machine) {
  static const char *const prefixes[] = {"", "complete_", "allowed_"};
  for (int p = 0; p < (is_machine ? 3 : 2); p++) {
    fprintf(w->out, " %s%s=\"", prefixes[p], name);
    for (int32_t i = (count - 1) / 32; i >= 0; i--) {
      fprintf(w->out, "0x%08x%s", w->bits[i], i > 0 ? "," : "\"");
    }
  }
  for (int32_t i = 0; i <= (count - 1) / 32; i++) w->bits[i] = 0;
}

static void set_bit(writer_t *w, int32_t bit) {
  w->bits[bit / 32] |= 1u << bit % 32;
}

static void write_cpuset(writer_t *w, scope_t scope) {
  for (int32_t i = 0; i < w->view.core_count; i++) {
    if (is_in(w, scope, w->core_cpu[i])) set_bit(w, i);
  }
  write_bits(w, "cpuset", w->view.core_count, scope.cpu == TOPO_NONE && scope.package == TOPO_NONE);
}

static void write_nodeset(writer_t *w, scope_t scope) {
  for (int32_t i = 0; i < w->view.cpu_count; i++) {
    if (is_in(w, scope, i)) set_bit(w, i);
  }
  write_bits(w, "nodeset", w->view.cpu_count, scope.cpu == TOPO_NONE && scope.package == TOPO_NONE);
}

static void write_object(writer_t *w, int indent, const char *type) {
  fprintf(w->out, "%*s<object type=\"%s\" gp_index=\"%d\"", indent, "", type, ++w->objects);
}

static void end_object(writer_t *w, int indent) {
  fprintf(w->out, "%*s</object>\n", indent, "");
}

static void write_info(writer_t *w, int indent, const char *name, const char *value) {
  if (*value == '\0') return;
  fprintf(w->out, "%*s<info name=\"%s\"", indent, "", name);
  topo_xml_write_text(w->out, "value", value);
  fputs("/>\n", w->out);
}

/* ---- devices --------------------------------------------------------------------------------*/

static void write_pci(writer_t *w, int32_t node, uint32_t pci_class, uint32_t vendor,
                      uint32_t device) {
  double gbs = topo_host_view_uplink_gbs(&w->view, node);
  fprintf(w->out, " pci_busid=\"%s\" pci_type=\"%04x [%04x:%04x] [0000:0000] 00\"",
          topo_bus_id(w->view.nodes[node].bus).text, pci_class, vendor, device);
  if (gbs > 0) fprintf(w->out, " pci_link_speed=\"%f\"", gbs);
}

/* bridge_pci="0000:[01-02]" of the buses from first to last. */
static void write_buses(writer_t *w, int32_t first, int32_t last) {
  topo_bus_id_t begin = topo_bus_id(first), end = topo_bus_id(last < first ? first : last);
  bool is_one_domain = memcmp(begin.text, end.text, 5) == 0;
  fprintf(w->out, " bridge_pci=\"%.5s[%.2s-%.2s]\"", begin.text, begin.text + 5,
          is_one_domain ? end.text + 5 : "ff");
}

static void write_gpu(writer_t *w, int32_t node, int indent) {
  const char *model = w->view.graph->nodes[node].model;
  const topo_nccl_gpu_t *known = topo_nccl_gpu_of_model(model);
  write_object(w, indent, "PCIDev");
  write_pci(w, node, known != NULL && known->gcn != NULL ? 0x1200 : 0x0302,
            known != NULL ? known->vendor : 0, known != NULL ? known->device : 0);
  fputs(">\n", w->out);
  write_info(w, indent + 2, "PCIDevice", model);
  end_object(w, indent);
}

static bool has_infiniband(const writer_t *w, int32_t node) {
  const topo_graph_t *graph = w->view.graph;
  for (size_t i = 0; i < graph->link_count; i++) {
    bool is_its = topo_link_other(&graph->links[i], node) != TOPO_NONE;
    if (is_its && graph->links[i].link_class == TOPO_CLASS_INFINIBAND) return true;
  }
  return false;
}

static void write_nic(writer_t *w, int32_t node, int indent) {
  const topo_node_t *nic = &w->view.graph->nodes[node];
  bool infiniband = has_infiniband(w, node);
  write_object(w, indent, "PCIDev");
  write_pci(w, node, infiniband ? 0x0207 : 0x0200, 0, 0);
  fputs(">\n", w->out);
  write_object(w, indent + 2, "OSDev");
  topo_xml_write_text(w->out, "name",
                      nic->model[0] != '\0' ? nic->model : topo_node_short_name(nic));
  fprintf(w->out, " osdev_type=\"%d\"/>\n", infiniband ? 3 : 2); /* OpenFabrics, network */
  end_object(w, indent);
}

/* `depth`: how many bridges contain it. */
static void write_device(writer_t *w, int32_t node, int indent, int depth) {
  const topo_view_node_t *each = &w->view.nodes[node];
  topo_kind_t kind = w->view.graph->nodes[node].kind;
  if (kind == TOPO_GPU) {
    write_gpu(w, node, indent);
    return;
  }
  if (kind == TOPO_NIC) {
    write_nic(w, node, indent);
    return;
  }
  write_object(w, indent, "Bridge");
  fprintf(w->out, " bridge_type=\"%d-1\" depth=\"%d\"", depth > 0, depth);
  write_buses(w, each->bus + (depth > 0), each->last_bus);
  if (depth > 0) write_pci(w, node, 0x0604, 0, 0);
  fputs(">\n", w->out);
  for (int32_t child = each->first_child; child != TOPO_NONE;) {
    write_device(w, child, indent + 2, depth + 1);
    child = w->view.nodes[child].next_sibling;
  }
  end_object(w, indent);
}

static void write_root_device(writer_t *w, int32_t node, int indent) {
  if (topo_host_view_is_root_complex(&w->view, node)) {
    write_device(w, node, indent, 0);
    return;
  }
  write_object(w, indent, "Bridge");
  fputs(" bridge_type=\"0-1\" depth=\"0\"", w->out);
  write_buses(w, w->view.nodes[node].bus, w->view.nodes[node].last_bus);
  fputs(">\n", w->out);
  write_device(w, node, indent + 2, 1);
  end_object(w, indent);
}

/* The devices of a cpu, or with TOPO_NONE those of cpus without cores, which have no object. */
static void write_devices(writer_t *w, int32_t cpu, int indent) {
  for (int32_t i = 0; i < (int32_t)w->view.graph->node_count; i++) {
    if (!topo_host_view_is_root_device(&w->view, i)) continue;
    int32_t its = w->view.nodes[i].cpu;
    if (w->cores[its] == 0) its = TOPO_NONE;
    if (its == cpu) write_root_device(w, i, indent);
  }
}

/* ---- processors -----------------------------------------------------------------------------*/

/* The memory of a cpu, attached to the object of a scope. */
static void write_numa(writer_t *w, int32_t cpu, scope_t scope, int indent) {
  write_object(w, indent, "NUMANode");
  fprintf(w->out, " os_index=\"%d\"", (int)cpu);
  write_cpuset(w, scope);
  write_nodeset(w, (scope_t){TOPO_NONE, cpu});
  fputs("/>\n", w->out);
}

static void write_core(writer_t *w, int32_t core, int32_t cpu, int indent) {
  static const char *const types[] = {"Core", "PU"};
  for (int i = 0; i < 2; i++) {
    write_object(w, indent + 2 * i, types[i]);
    fprintf(w->out, " os_index=\"%d\"", (int)core);
    set_bit(w, core);
    write_bits(w, "cpuset", w->view.core_count, false);
    write_nodeset(w, (scope_t){TOPO_NONE, cpu});
    fputs(i == 0 ? ">\n" : "/>\n", w->out);
  }
  end_object(w, indent);
}

/* Cores, then I/O, as hwloc orders them. */
static void write_cpu_contents(writer_t *w, int32_t cpu, int indent) {
  for (int32_t i = 0; i < w->view.core_count; i++) {
    if (w->core_cpu[i] == cpu) write_core(w, i, cpu, indent);
  }
  write_devices(w, cpu, indent);
}

static void write_group(writer_t *w, int32_t cpu, int indent) {
  const scope_t scope = {TOPO_NONE, cpu};
  write_object(w, indent, "Group");
  write_cpuset(w, scope);
  write_nodeset(w, scope);
  fputs(" kind=\"0\" subkind=\"0\">\n", w->out);
  write_numa(w, cpu, scope, indent + 2);
  write_cpu_contents(w, cpu, indent + 2);
  end_object(w, indent);
}

/* Memory without cores belongs to the object of the scope. */
static void write_bare_memory(writer_t *w, scope_t scope, int indent) {
  for (int32_t i = 0; i < w->view.cpu_count; i++) {
    bool has_package =
        w->package[i] != TOPO_NONE && cores_of(w, (scope_t){w->package[i], TOPO_NONE}) > 0;
    if (w->cores[i] > 0 || (has_package ? w->package[i] : TOPO_NONE) != scope.package) continue;
    write_numa(w, i, scope, indent);
  }
}

static void write_package(writer_t *w, int32_t package, int indent) {
  const topo_graph_t *graph = w->view.graph;
  const scope_t scope = {package, TOPO_NONE};
  int32_t with_cores = 0, cpu = TOPO_NONE;
  for (int32_t i = 0; i < w->view.cpu_count; i++) {
    if (!is_in(w, scope, i) || w->cores[i] == 0) continue;
    with_cores++;
    cpu = i;
  }
  if (with_cores == 0) return;
  write_object(w, indent, "Package");
  fprintf(w->out, " os_index=\"%d\"", (int)w->view.nodes[package].number);
  write_cpuset(w, scope);
  write_nodeset(w, scope);
  fputs(">\n", w->out);
  write_info(w, indent + 2, "CPUModel", graph->nodes[package].model);
  write_bare_memory(w, scope, indent + 2);
  if (with_cores == 1) {
    write_numa(w, cpu, scope, indent + 2);
    write_cpu_contents(w, cpu, indent + 2);
  } else {
    for (int32_t i = 0; i < w->view.cpu_count; i++) {
      if (is_in(w, scope, i) && w->cores[i] > 0) write_group(w, i, indent + 2);
    }
  }
  end_object(w, indent);
}

static void write_machine(writer_t *w) {
  const topo_graph_t *graph = w->view.graph;
  bool is_plain = w->view.cpus[0] == w->view.host;
  write_object(w, 2, "Machine");
  fputs(" os_index=\"0\"", w->out);
  write_cpuset(w, whole);
  write_nodeset(w, whole);
  fputs(">\n", w->out);
  write_info(w, 4, "DMIProductName", graph->nodes[w->view.host].model);
  if (is_plain) {
    write_numa(w, 0, whole, 4);
    write_cpu_contents(w, 0, 4);
  }
  if (!is_plain) write_bare_memory(w, whole, 4);
  for (int32_t i = 0; i < (int32_t)graph->node_count; i++) {
    if (graph->nodes[i].kind == TOPO_PACKAGE && w->view.nodes[i].is_inside) write_package(w, i, 4);
  }
  for (int32_t i = 0; i < w->view.cpu_count && !is_plain; i++) {
    if (w->package[i] == TOPO_NONE && w->cores[i] > 0) write_group(w, i, 4);
  }
  write_devices(w, TOPO_NONE, 4);
  end_object(w, 2);
}

/* ---- the whole ------------------------------------------------------------------------------*/

static void warn(const writer_t *w) {
  const topo_graph_t *graph = w->view.graph;
  size_t left[TOPO_CLASS_COUNT] = {0}, packages = 0;
  for (size_t i = 0; i < graph->link_count; i++) {
    const topo_link_t *link = &graph->links[i];
    bool is_uplink =
        w->view.nodes[link->a].uplink == (int32_t)i || w->view.nodes[link->b].uplink == (int32_t)i;
    bool is_pcie = link->link_class == TOPO_CLASS_PCIE && is_uplink;
    bool touches = w->view.nodes[link->a].is_inside || w->view.nodes[link->b].is_inside;
    if (touches && !is_pcie) left[link->link_class]++;
  }
  for (size_t i = 0; i < graph->node_count; i++) {
    if (graph->nodes[i].kind != TOPO_PACKAGE || !w->view.nodes[i].is_inside) continue;
    packages += cores_of(w, (scope_t){(int32_t)i, TOPO_NONE}) == 0;
  }
  for (int i = 0; i < TOPO_CLASS_COUNT; i++) {
    if (left[i] == 0) continue;
    topo_host_view_warn(&w->view, "hwloc's XML has no bandwidths of class %s: %zu links left out",
                        topo_class_name((topo_class_t)i), left[i]);
  }
  if (packages > 0) {
    topo_host_view_warn(&w->view, "%zu packages have no cores of their own and are left out",
                        packages);
  }
}

/* The package of a cpu, which is it or contains it. */
static int32_t package_of(const topo_graph_t *graph, int32_t node) {
  while (node != TOPO_NONE && graph->nodes[node].kind != TOPO_PACKAGE) {
    node = graph->nodes[node].parent;
  }
  return node;
}

/* Numbers cores as they are written, package by package, then those of no package: hwloc orders
 * objects by their first PU. */
static void number_cores(writer_t *w) {
  const topo_graph_t *graph = w->view.graph;
  int32_t next = 0;
  for (size_t i = 0; i < graph->node_count; i++) {
    const topo_view_node_t *each = &w->view.nodes[i];
    if (each->is_inside && graph->nodes[i].kind == TOPO_CORE) w->cores[each->cpu]++;
  }
  for (size_t i = 0; i <= graph->node_count; i++) { /* the last: no package */
    int32_t package = i < graph->node_count ? (int32_t)i : TOPO_NONE;
    if (package != TOPO_NONE && graph->nodes[i].kind != TOPO_PACKAGE) continue;
    for (int32_t cpu = 0; cpu < w->view.cpu_count; cpu++) {
      if (w->package[cpu] != package) continue;
      for (int32_t core = 0; core < w->cores[cpu]; core++) w->core_cpu[next++] = cpu;
    }
  }
}

static coll_status_t prepare(writer_t *w) {
  const topo_graph_t *graph = w->view.graph;
  size_t cpus = (size_t)w->view.cpu_count, cores = (size_t)w->view.core_count;
  if (cores == 0) {
    return base_fail(COLL_ERROR_INVALID,
                     "host '%s' has no cores, which hwloc needs; add nodes of kind core",
                     graph->nodes[w->view.host].name);
  }
  COLL_TRY(base_alloc(cpus, sizeof *w->package, "a host", (void **)&w->package));
  COLL_TRY(base_alloc(cpus, sizeof *w->cores, "a host", (void **)&w->cores));
  COLL_TRY(base_alloc(cores, sizeof *w->core_cpu, "a host", (void **)&w->core_cpu));
  COLL_TRY(base_alloc((cpus > cores ? cpus : cores) / 32 + 1, sizeof *w->bits, "a host",
                      (void **)&w->bits));
  for (int32_t i = 0; i < w->view.cpu_count; i++) {
    w->package[i] = package_of(graph, w->view.cpus[i]);
  }
  number_cores(w);
  return COLL_OK;
}

static coll_status_t write_all(writer_t *w) {
  COLL_TRY(prepare(w));
  fputs(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
      "<topology version=\"2.0\">\n",
      w->out);
  write_machine(w);
  fputs("</topology>\n", w->out);
  warn(w);
  if (!ferror(w->out)) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot write the topology");
}

coll_status_t topo_graph_to_hwloc_xml(const topo_graph_t *graph, const char *host, FILE *out,
                                      FILE *warnings) {
  writer_t w = {.out = out};
  coll_status_t status = topo_host_view_create(graph, host, "hwloc's XML", warnings, &w.view);
  if (status == COLL_OK) status = write_all(&w);
  free(w.package);
  free(w.cores);
  free(w.core_cpu);
  free(w.bits);
  topo_host_view_free(&w.view);
  return status;
}

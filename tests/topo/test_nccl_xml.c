/* Topology files of NCCL and RCCL: what samples of both dialects become, what is refused, and what
 * known machines keep on the way to a file and back. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/check.h"
#include "topo/kinds.h"
#include "topo/nccl_facts.h"
#include "topo/nccl_xml.h"

static coll_status_t parse(const char *text, topo_graph_t **graph) {
  return topo_graph_from_nccl_xml(text, strlen(text), "x.xml", NULL, graph);
}

static topo_graph_t *accepted(const char *text) {
  topo_graph_t *graph;
  cr_assert_eq(parse(text, &graph), COLL_OK, "%s", base_last_error());
  cr_assert_eq(topo_graph_check(graph, NULL), COLL_OK, "%s", base_last_error());
  return graph;
}

static int32_t node_of(const topo_graph_t *graph, const char *name) {
  topo_names_t names;
  int32_t twin;
  cr_assert_eq(topo_names_create(graph, &names, &twin), COLL_OK);
  int32_t node = topo_names_find(graph, &names, name);
  free(names.slots);
  cr_assert_neq(node, TOPO_NONE, "no node %s", name);
  return node;
}

static const topo_link_t no_link = {.count = 0};

/* The first link of two nodes and that class, or no_link. */
static const topo_link_t *link_of(const topo_graph_t *graph, const char *a, const char *b,
                                  topo_class_t link_class) {
  int32_t from = node_of(graph, a), to = node_of(graph, b);
  for (size_t i = 0; i < graph->link_count; i++) {
    const topo_link_t *link = &graph->links[i];
    if (link->link_class != link_class) continue;
    if ((link->a == from && link->b == to) || (link->a == to && link->b == from)) return link;
  }
  return &no_link;
}

static void expect_link(const topo_graph_t *graph, const char *a, const char *b,
                        topo_class_t link_class, int32_t count, double gbs) {
  const topo_link_t *link = link_of(graph, a, b, link_class);
  cr_expect(link->count == count && fabs(link->gigabytes_per_s - gbs) < 1e-9,
            "%s - %s: %d of class %s, %g GB/s", a, b, (int)link->count, topo_class_name(link_class),
            link->gigabytes_per_s);
}

static void expect_parent(const topo_graph_t *graph, const char *name, const char *parent) {
  const topo_node_t *node = &graph->nodes[node_of(graph, name)];
  cr_expect_str_eq(graph->nodes[node->parent].name, parent, "parent of %s", name);
}

/* ---- samples --------------------------------------------------------------------------------*/

#define CPU "<cpu numaid=\"0\" affinity=\"0000000f\" arch=\"x86_64\" vendor=\"GenuineIntel\" "
#define PCI16 "link_speed=\"16.0 GT/s PCIe\" link_width=\"16\""

/* Two GPUs with NVLinks to each other and to two NVSwitches, a NIC beside one, an older GPU of
 * another socket with an NVLink to it. */
static const char nvidia[] =
    "<!-- a sample -->\n"
    "<system version=\"1\">\n"
    "  " CPU
    "familyid=\"6\" modelid=\"143\">\n"
    "    <pci busid=\"0000:10:00.0\" class=\"0x060400\" " PCI16
    ">\n"
    "      <pci busid=\"0000:11:00.0\" class=\"0x030200\" vendor=\"0x10de\" "
    "device=\"0x20b0\" " PCI16
    ">\n"
    "        <gpu dev=\"1\" sm=\"80\" rank=\"0\" gdr=\"1\">\n"
    "          <nvlink target=\"0000:12:00.0\" count=\"4\" tclass=\"0x030200\"/>\n"
    "          <nvlink target=\"0000:f0:00.0\" count=\"2\" tclass=\"0x068000\"/>\n"
    "          <nvlink target=\"0000:f1:00.0\" count=\"3\" tclass=\"0x068000\"/>\n"
    "        </gpu>\n"
    "      </pci>\n"
    "      <pci busid=\"0000:12:00.0\" class=\"0x030200\" link_speed=\"8 GT/s\" link_width=\"8\">\n"
    "        <gpu dev=\"0\" sm=\"100\" rank=\"1\" gdr=\"1\">\n"
    "          <nvlink target=\"0000:11:00.0\" count=\"4\" tclass=\"0x030200\"/>\n"
    "        </gpu>\n"
    "        <gpu dev=\"0\" sm=\"100\" rank=\"2\" gdr=\"1\"/>\n"
    "      </pci>\n"
    "      <pci busid=\"0000:13:00.0\" class=\"0x020700\" link_speed=\"\" link_width=\"\">\n"
    "        <nic>\n"
    "          <net name=\"mlx5_3\" dev=\"2\" speed=\"200000\" port=\"1\" guid=\"0x1\" "
    "latency=\"1.5\"/>\n"
    "        </nic>\n"
    "      </pci>\n"
    "    </pci>\n"
    "    <nic><net name=\"eth0\" dev=\"0\" speed=\"-1\"/></nic>\n"
    "  </cpu>\n"
    "  <cpu numaid=\"1\" arch=\"ppc64\">\n"
    "    <pci busid=\"0001:12:00.0\" class=\"0x030200\" " PCI16
    ">\n"
    "      <gpu dev=\"2\" sm=\"70\" rank=\"3\" gdr=\"0\">\n"
    "        <nvlink target=\"x\" count=\"3\" tclass=\"0x068001\"/>\n"
    "        <future a=\"1\"><gpu/></future>\n"
    "      </gpu>\n"
    "    </pci>\n"
    "  </cpu>\n"
    "</system>\n";

Test(nccl_xml, a_file_of_nvidia) {
  topo_graph_t *graph = accepted(nvidia);
  cr_expect_eq(topo_graph_count(graph, TOPO_GPU), 3);
  cr_expect_eq(topo_graph_count(graph, TOPO_CORE), 4);
  cr_expect_eq(topo_graph_count(graph, TOPO_PCI_SWITCH), 1);
  expect_parent(graph, "host0/gpu1", "host0/pci0");
  expect_parent(graph, "host0/numa1", "host0");
  expect_link(graph, "host0/gpu1", "host0/pci0", TOPO_CLASS_PCIE, 1, 31.5);
  expect_link(graph, "host0/gpu0", "host0/pci0", TOPO_CLASS_PCIE, 1, 7.88);
  expect_link(graph, "host0/nic2", "host0/pci0", TOPO_CLASS_PCIE, 1, 15.8);
  expect_link(graph, "host0/gpu0", "host0/gpu1", TOPO_CLASS_NVLINK, 4, 25.0);
  expect_link(graph, "host0/gpu1", "host0/nvswitch", TOPO_CLASS_NVLINK, 5, 25.0);
  expect_link(graph, "host0/gpu2", "host0/numa1", TOPO_CLASS_NVLINK, 3, 25.0);
  expect_link(graph, "host0/numa0", "host0/numa1", TOPO_CLASS_MEMORY, 1, 32.0);
  expect_link(graph, "host0/nic2", "host0/net2", TOPO_CLASS_INFINIBAND, 1, 25.0);
  cr_expect_eq(link_of(graph, "host0/nic2", "host0/net2", TOPO_CLASS_INFINIBAND)->latency_us, 1.5);
  cr_expect_str_eq(graph->nodes[node_of(graph, "host0/gpu1")].model, "A100 SXM");
  cr_expect_str_eq(graph->nodes[node_of(graph, "host0/gpu0")].model, "sm 100");
  cr_expect_str_eq(graph->nodes[node_of(graph, "host0/nic2")].model, "mlx5_3");
  cr_expect_eq(topo_graph_count(graph, TOPO_SWITCH), 1); /* none for a speed of -1 */
  topo_graph_free(graph);
}

/* Three GPUs in a triangle of xGMI links, of two generations; a NIC of two ports. */
static const char amd[] =
    "<system version=\"2\">\n"
    "<cpu numaid=\"3\" affinity=\"00000001,80000000\" arch=\"x86_64\" vendor=\"AuthenticAMD\" "
    "familyid=\"143\" modelid=\"49\" package=\"1\">\n"
    "<pci busid=\"0000:c1:00.0\" class=\"0x038000\" link_speed=\"16 GT/s\" link_width=\"16\">\n"
    "<gpu dev=\"0\" sm=\"120\" gcn=\"908\" arch=\"38911\" rank=\"0\" gdr=\"1\">\n"
    "<xgmi target=\"0000:c2:00.0\" count=\"1\" tclass=\"0x038000\"/>\n"
    "<xgmi target=\"0000:C3:00.0\" count=\"1\" tclass=\"0x120000\"/>\n"
    "</gpu></pci>\n"
    "<pci busid=\"0000:c2:00.0\" class=\"0x038000\" link_speed=\"16 GT/s\" link_width=\"16\">\n"
    "<gpu dev=\"1\" sm=\"120\" gcn=\"gfx908\" arch=\"38911\" rank=\"1\" gdr=\"1\">\n"
    "<xgmi target=\"0000:c1:00.0\" count=\"1\" tclass=\"0x038000\"/>\n"
    "</gpu></pci>\n"
    "</cpu>\n"
    "<cpu numaid=\"2\" arch=\"x86_64\" vendor=\"AuthenticAMD\" package=\"1\">\n"
    "<pci busid=\"0000:c3:00.0\" class=\"0x120000\" link_speed=\"32.0 GT/s PCIe\" "
    "link_width=\"16\">\n"
    "<gpu dev=\"2\" sm=\"304\" gcn=\"gfx942\" arch=\"38911\" rank=\"2\" gdr=\"1\"/></pci>\n"
    "<pci busid=\"0000:d1:00.0\" class=\"0x020000\" link_speed=\"16 GT/s\" link_width=\"8\">\n"
    "<nic><net name=\"rocep209s0\" dev=\"0\" speed=\"100000\"/>"
    "<net name=\"ens5\" dev=\"1\" speed=\"25000\"/><net name=\"no dev\"/></nic></pci>\n"
    "</cpu></system>\n";

Test(nccl_xml, a_file_of_amd) {
  topo_graph_t *graph = accepted(amd);
  expect_parent(graph, "host0/numa3", "host0/package1");
  expect_parent(graph, "host0/numa2", "host0/package1");
  cr_expect_eq(topo_graph_count(graph, TOPO_PACKAGE), 1);
  cr_expect_eq(topo_graph_count(graph, TOPO_CORE), 2);
  expect_link(graph, "host0/gpu0", "host0/gpu1", TOPO_CLASS_NVLINK, 1, 46.0);
  expect_link(graph, "host0/gpu0", "host0/gpu2", TOPO_CLASS_NVLINK, 1, 46.0);
  expect_link(graph, "host0/gpu2", "host0/numa2", TOPO_CLASS_PCIE, 1, 63.0);
  expect_link(graph, "host0/numa2", "host0/numa3", TOPO_CLASS_MEMORY, 1, 16.0);
  expect_parent(graph, "host0/nic1", "host0/pci0");
  expect_link(graph, "host0/nic0", "host0/net0", TOPO_CLASS_INFINIBAND, 1, 12.5);
  expect_link(graph, "host0/nic1", "host0/net1", TOPO_CLASS_ETHERNET, 1, 3.125);
  cr_expect_eq(topo_graph_count(graph, TOPO_NIC), 2);
  topo_graph_free(graph);
}

/* Devices by their class, as in files that are written by hand, and two hosts of one NVSwitch. */
Test(nccl_xml, hosts_and_devices_without_contents) {
  topo_graph_t *graph = accepted(
      "<?xml version=\"1.0\"?><system version='1' name=\"rack\">"
      "<cpu numaid=\"0\" host_hash=\"0xa\"><pci busid=\"1:0\" class=\"0x030200\"/>"
      "<pci busid=\"2:0\" class=\"0x020700\"/><pci busid=\"3:0\" class=\"0x060400\"/>"
      "<pci busid=\"4:0\"><gpu dev=\"5\" sm=\"100\"><nvlink target=\"fffffff:ffff:ff\" "
      "count=\"18\"/><c2c bw=\"44800\" count=\"5\"/></gpu></pci></cpu>"
      "<cpu numaid=\"0\" host_hash=\"0xb\"><pci busid=\"4:0\"><gpu sm=\"100\">"
      "<nvlink target=\"5:0\" count=\"18\" tclass=\"0x068000\"/></gpu></pci></cpu>"
      "<cpu numaid=\"1\" host_hash=\"0xa\"/></system>");
  cr_expect_str_eq(graph->name, "rack");
  cr_expect_eq(topo_graph_count(graph, TOPO_HOST), 2);
  cr_expect_eq(topo_graph_count(graph, TOPO_NVSWITCH), 1);
  expect_parent(graph, "host0/numa1", "host0");
  expect_parent(graph, "host1/gpu0", "host1/numa0");
  cr_expect_eq(graph->nodes[node_of(graph, "host0/nic0")].kind, TOPO_NIC);
  cr_expect_eq(graph->nodes[node_of(graph, "host0/gpu0")].kind, TOPO_GPU);
  expect_link(graph, "host0/gpu5", "nvswitch", TOPO_CLASS_NVLINK, 18, 50.0);
  expect_link(graph, "host1/gpu0", "nvswitch", TOPO_CLASS_NVLINK, 18, 50.0);
  expect_link(graph, "host0/gpu5", "host0/numa0", TOPO_CLASS_NVLINK, 5, 44.8);
  topo_graph_free(graph);
}

/* ---- bad files ------------------------------------------------------------------------------*/

#define IN_PCI(text)                                                                \
  "<system version=\"1\">\n<cpu numaid=\"0\">\n<pci busid=\"0000:01:00.0\">\n" text \
  "\n"                                                                              \
  "</pci></cpu></system>"

static const struct {
  const char *text, *message; /* message: a part of the expected one */
} bad[] = {
    {"", "x.xml:1: the file ends in the middle"},
    {"<system version=\"1\">\n<cpu numaid=\"0\">\n<pci bus", "x.xml:3: the file ends"},
    {"<system version=\"1\"><cpu></system>", "x.xml:1: <cpu> has no numaid"},
    {"<system version=\"1\"><cpu numaid=\"0\"></system>", "x.xml:1: not XML: mismatched tag"},
    {"<system version=\"1\"/>", "x.xml:1: the <system> has no <cpu>; add one"},
    {"<system/>", "<system> has no version"},
    {"<system version=\"0\"/>", "version=\"0\": give a number from 1"},
    {"\n<system version=\"3\"/>", "x.xml:2: <system version=\"3\"> is newer than what can be read"},
    {"<graphs version=\"1\"/>", "<graphs> is not the beginning of a topology of NCCL"},
    {"<graphs version=\"1\"/>", "NCCL_TOPO_DUMP_FILE"},
    {"<!DOCTYPE a [<!ENTITY b \"c\">]><system version=\"1\"/>", "have no document type"},
    {IN_PCI("<pci/>"), "x.xml:4: <pci> has no busid; add busid="},
    {IN_PCI("<gpu sm=\"80\"><nvlink count=\"1\"/></gpu>"), "<nvlink> has no target"},
    {IN_PCI("<gpu sm=\"80\"><nvlink target=\"9\" count=\"x\"/></gpu>"), "count=\"x\": give"},
};

Test(nccl_xml, bad_files_are_refused) {
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    topo_graph_t *graph;
    cr_assert_eq(parse(bad[i].text, &graph), COLL_ERROR_INVALID, "%s", bad[i].text);
    cr_expect_null(graph);
    cr_expect(strstr(base_last_error(), bad[i].message) != NULL, "'%s' is not in '%s'",
              bad[i].message, base_last_error());
  }
}

/* Every beginning of a file is refused, as is every file with one character less. */
Test(nccl_xml, cut_files) {
  size_t bytes = strlen(nvidia) - 1; /* without the last newline */
  for (size_t i = 0; i < bytes; i++) {
    topo_graph_t *graph;
    cr_assert_eq(topo_graph_from_nccl_xml(nvidia, i, "x.xml", NULL, &graph), COLL_ERROR_INVALID);
    cr_assert(strstr(base_last_error(), "x.xml:") == base_last_error(), "%s", base_last_error());
  }
}

Test(nccl_xml, ten_megabytes_of_nesting) {
  const size_t bytes = (size_t)10 << 20;
  static const char begin[] = "<system version=\"1\"><cpu numaid=\"0\">";
  char *text = malloc(bytes);
  size_t at = strlen(begin);
  memcpy(text, begin, at);
  for (int i = 0; at + 32 < bytes; i++) {
    at += (size_t)snprintf(text + at, bytes - at, "<pci busid=\"%x\">", i);
  }
  topo_graph_t *graph;
  cr_expect_eq(topo_graph_from_nccl_xml(text, at, "x.xml", NULL, &graph), COLL_ERROR_INVALID);
  cr_expect(strstr(base_last_error(), "nested more than 63 deep") != NULL, "%s", base_last_error());
  free(text);
}

/* ---- there and back -------------------------------------------------------------------------*/

/* The file of a host, and its warnings; the caller frees both. */
static coll_status_t write_text(const topo_graph_t *graph, const char *host,
                                topo_nccl_dialect_t dialect, char **text, char **warnings) {
  size_t bytes;
  FILE *out = open_memstream(text, &bytes), *warned = open_memstream(warnings, &bytes);
  coll_status_t status = topo_graph_to_nccl_xml(graph, host, dialect, out, warned);
  fclose(out);
  fclose(warned);
  return status;
}

/* Links of b are as in a, those of memory but for their bandwidth. */
static void expect_same(const topo_graph_t *a, const topo_graph_t *b) {
  cr_expect_eq(a->node_count, b->node_count);
  cr_expect_eq(a->link_count, b->link_count, "%zu links, not %zu", b->link_count, a->link_count);
  for (size_t i = 0; i < a->link_count; i++) {
    const topo_link_t *link = &a->links[i], *other;
    const char *from = a->nodes[link->a].name, *to = a->nodes[link->b].name;
    if (a->nodes[link->b].kind == TOPO_SWITCH) continue; /* called otherwise */
    other = link_of(b, from, to, link->link_class);
    cr_expect(other != &no_link, "%s - %s", from, to);
    cr_expect_eq(other->latency_us, link->latency_us, "%s - %s", from, to);
    if (link->link_class == TOPO_CLASS_MEMORY) continue;
    cr_expect_eq(other->count, link->count, "%s - %s", from, to);
    cr_expect(fabs(other->gigabytes_per_s / link->gigabytes_per_s - 1) < 0.005,
              "%s - %s: %g GB/s, not %g", from, to, other->gigabytes_per_s, link->gigabytes_per_s);
  }
  for (size_t i = 0; i < a->node_count; i++) {
    const topo_node_t *node = &a->nodes[i];
    if (node->kind == TOPO_SWITCH) continue;
    const topo_node_t *same = &b->nodes[node_of(b, node->name)];
    cr_expect_eq(same->kind, node->kind, "%s", node->name);
    if (node->kind == TOPO_GPU) cr_expect_str_eq(same->model, node->model);
    if (node->parent != TOPO_NONE && same->parent != TOPO_NONE) {
      cr_expect_str_eq(b->nodes[same->parent].name, a->nodes[node->parent].name);
    }
  }
}

static void expect_round_trip(const char *kind, const char *fabric, topo_nccl_dialect_t dialect) {
  topo_graph_t *graph, *back;
  char *text, *warnings, *again;
  cr_assert_eq(topo_make(kind, 1, fabric, &graph), COLL_OK);
  cr_assert_eq(write_text(graph, NULL, dialect, &text, &warnings), COLL_OK, "%s",
               base_last_error());
  back = accepted(text);
  expect_same(graph, back);
  cr_expect_eq(strstr(warnings, "linked to no network") == NULL, fabric != NULL, "%s", warnings);
  free(warnings);
  cr_assert_eq(write_text(back, NULL, dialect, &again, &warnings), COLL_OK);
  cr_expect_str_eq(again, text);
  free(text);
  free(again);
  free(warnings);
  topo_graph_free(graph);
  topo_graph_free(back);
}

Test(nccl_xml, machines_keep_nodes_and_links) {
  expect_round_trip("dgx-a100", NULL, TOPO_NCCL_NVIDIA);
  expect_round_trip("dgx-a100", "rail", TOPO_NCCL_NVIDIA);
  expect_round_trip("dgx-h100", NULL, TOPO_NCCL_NVIDIA);
  expect_round_trip("dgx-h100", "rail", TOPO_NCCL_NVIDIA);
  expect_round_trip("mi300x", NULL, TOPO_NCCL_AMD);
  expect_round_trip("mi300x", "rail", TOPO_NCCL_AMD);
  expect_round_trip("laptop", "rail", TOPO_NCCL_NVIDIA);
}

/* NUMA nodes of a package, whose numbers are not those of the file. */
Test(nccl_xml, a_file_is_the_same_after_a_second_time) {
  const char *const files[] = {nvidia, amd};
  const topo_nccl_dialect_t dialects[] = {TOPO_NCCL_NVIDIA, TOPO_NCCL_AMD};
  for (int i = 0; i < 2; i++) {
    char *first, *second, *warnings;
    topo_graph_t *graph = accepted(files[i]);
    cr_assert_eq(write_text(graph, NULL, dialects[i], &first, &warnings), COLL_OK);
    free(warnings);
    topo_graph_free(graph);
    graph = accepted(first);
    cr_assert_eq(write_text(graph, NULL, dialects[i], &second, &warnings), COLL_OK);
    cr_expect_str_eq(second, first);
    free(warnings);
    free(first);
    free(second);
    topo_graph_free(graph);
  }
}

/* ---- what is refused or warned of -----------------------------------------------------------*/

static void expect_refused(const char *kind, int32_t hosts, const char *host,
                           topo_nccl_dialect_t dialect, const char *message) {
  topo_graph_t *graph;
  char *text, *warnings;
  cr_assert_eq(topo_make(kind, hosts, NULL, &graph), COLL_OK);
  cr_expect_eq(write_text(graph, host, dialect, &text, &warnings), COLL_ERROR_INVALID);
  cr_expect(strstr(base_last_error(), message) != NULL, "%s", base_last_error());
  free(text);
  free(warnings);
  topo_graph_free(graph);
}

Test(nccl_xml, graphs_that_do_not_fit_are_refused) {
  expect_refused("dgx-a100", 2, NULL, TOPO_NCCL_NVIDIA, "has 2 hosts");
  expect_refused("dgx-a100", 2, "host2", TOPO_NCCL_NVIDIA, "no host is called 'host2'");
  expect_refused("dgx-a100", 1, NULL, TOPO_NCCL_AMD, "describe GPUs of AMD: use --to nccl");
  expect_refused("mi300x", 1, NULL, TOPO_NCCL_NVIDIA, "describe GPUs of NVIDIA: use --to rccl");
}

Test(nccl_xml, one_host_of_several) {
  topo_graph_t *graph, *back;
  char *text, *warnings;
  cr_assert_eq(topo_make("gb200-nvl72", 18, "rail", &graph), COLL_OK);
  cr_assert_eq(write_text(graph, "host7", TOPO_NCCL_NVIDIA, &text, &warnings), COLL_OK);
  cr_expect(strstr(warnings, "'rack0/nvswitch' connects hosts") != NULL, "%s", warnings);
  cr_expect(strstr(warnings, "what they connect to") != NULL, "%s", warnings);
  cr_expect(strstr(warnings, "outside of the host") != NULL, "%s", warnings);
  back = accepted(text);
  cr_expect_eq(topo_graph_count(back, TOPO_GPU), 4);
  expect_link(back, "host0/gpu0", "host0/nvswitch", TOPO_CLASS_NVLINK, 18, 50.0);
  expect_link(back, "host0/gpu0", "host0/cpu0", TOPO_CLASS_NVLINK, 1, 225.0);
  expect_link(back, "host0/nic3", "host0/net3", TOPO_CLASS_INFINIBAND, 1, 50.0);
  free(text);
  free(warnings);
  topo_graph_free(graph);
  topo_graph_free(back);
}

Test(nccl_xml, bandwidths_of_pcie_and_of_links) {
  int generation;
  int32_t width;
  cr_expect_eq(topo_nccl_pcie_generation("16 GT/s"), 3);
  cr_expect_eq(topo_nccl_pcie_generation("5.0 GT/s PCIe"), 1);
  cr_expect_eq(topo_nccl_pcie_generation("16 GT"), -1);
  cr_expect_eq(topo_nccl_pcie_gbs(0, 1), 0.25);
  cr_expect_eq(topo_nccl_pcie_gbs(5, 16), 121.0);
  for (int g = 2; topo_nccl_pcie_speed(g) != NULL; g++) { /* at 16 lanes each is of its own */
    topo_nccl_pcie_nearest(topo_nccl_pcie_gbs(g, 16), &generation, &width);
    cr_expect(generation == g && width == 16, "%d: %d x%d", g, generation, (int)width);
  }
  topo_nccl_pcie_nearest(7.9, &generation, &width);
  cr_expect(generation == 2 && width == 8, "%d x%d", generation, (int)width);
  cr_expect_str_eq(topo_nccl_gpu_of_gcn("gfx941")->model, "MI300X");
  cr_expect_eq(topo_nccl_gpu_of_sm(103)->link_gbs, 50.0);
  cr_expect_eq(topo_nccl_gpu_of_sm(75)->link_gbs, 25.0);
}

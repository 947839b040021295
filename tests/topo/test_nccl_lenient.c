/* What NCCL accepts in topology files is accepted, with a warning that has the line and the words
 * of the file. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/check.h"
#include "topo/nccl_xml.h"

/* The text inside the cpu stands in line 3. */
#define IN_CPU(text) "<system version=\"1\">\n<cpu numaid=\"0\">\n" text "\n</cpu></system>"
#define GPU(id, links) "<pci busid=\"" id "\"><gpu sm=\"80\">" links "</gpu></pci>"

typedef struct counts {
  size_t gpus, nics, switches, cores, nvlinks;
} counts_t;

static const struct {
  const char *text, *warning; /* warning: the whole line; NULL: none */
  counts_t counts;            /* of what is left */
} odd[] = {
    {IN_CPU(GPU("0001:00:00.0", "<nvlink target=\"0001:00:00.0\" count=\"12\"/>")),
     "warning: x.xml:3: 12 links to target=\"0001:00:00.0\" are left out: it is the GPU itself\n",
     {.gpus = 1}},
    {IN_CPU(GPU("1", "\n<nvlink target=\"0009:00:00.0\" count=\"4\" tclass=\"0x030200\"/>")),
     "warning: x.xml:4: 4 links to target=\"0009:00:00.0\" are left out: it is no GPU of this "
     "host; "
     "an NVSwitch has tclass=\"0x068000\"\n",
     {.gpus = 1}},
    {IN_CPU(GPU("1", "<nvlink count=\"4\" tclass=\"0x068000\"/>")),
     NULL,
     {.gpus = 1, .nvlinks = 1}},
    {IN_CPU(GPU("1", "<nvlink target=\"2\" count=\"4\" tclass=\"0x058000\"/>")),
     NULL,
     {.gpus = 1, .nvlinks = 1}},
    {IN_CPU(GPU("1", "<nvlink target=\"2\" count=\"4\"/>") "\n" GPU(
         "2", "<nvlink target=\"1\" count=\"2\"/>")),
     "warning: x.xml:4: 'host0/gpu0' has 4 links to 'host0/gpu1', which has 2 back; 2 are taken\n",
     {.gpus = 2, .nvlinks = 1}},
    {IN_CPU(GPU("1", "<nvlink target=\"2\" count=\"0\"/>")),
     "warning: x.xml:3: <nvlink> with count=\"0\" is left out\n",
     {.gpus = 1}},
    {IN_CPU(GPU("1", "<c2c count=\"1\" bw=\"0\"/>")),
     "warning: x.xml:3: <c2c> with bw=\"0\" is left out\n",
     {.gpus = 1}},
    {IN_CPU("<pci busid=\"1\" link_width=\"16 lanes\"><gpu dev=\"0\"/></pci>"),
     "warning: x.xml:3: link_width=\"16 lanes\" is read as 16, as by NCCL\n",
     {.gpus = 1}},
    {IN_CPU("<pci busid=\"1\" link_width=\"255\"><gpu dev=\"0\"/></pci>"),
     "warning: x.xml:3: link_width=\"255\" is no number from 0 to 32 and ignored\n",
     {.gpus = 1}},
    {IN_CPU("<pci busid=\"1\" link_speed=\"256.0 GT/s PCIe\"><gpu dev=\"0\"/></pci>"),
     "warning: x.xml:3: link_speed=\"256.0 GT/s PCIe\" is none of 2.5, 5, 8, 16, 32 and 64 GT/s; 8 "
     "GT/s are assumed, as by NCCL\n",
     {.gpus = 1}},
    {IN_CPU("<pci busid=\"1\" link_speed=\"32.0 GT/s PCIe Gen5\"><gpu dev=\"0\"/></pci>"),
     NULL,
     {.gpus = 1}},
    {IN_CPU("<pci busid=\"1\">\n<pci busid=\"2\" class=\"0x03\"/>\n<pcilink target=\"9\"/></pci>"),
     "warning: x.xml:5: <pcilink target=\"9\"> is left out: links beside the tree of PCI switches "
     "have no place in a graph\n",
     {.gpus = 1, .switches = 1}},
    {IN_CPU("<numa/>\n" GPU("1", "")),
     "warning: x.xml:3: <numa> in <cpu> is ignored: it is unknown\n",
     {.gpus = 1}},
    {IN_CPU("<gpu><nvlink/></gpu>\n" GPU("1", "")),
     "warning: x.xml:3: <gpu> in <cpu> is ignored: it belongs in <pci>\n",
     {.gpus = 1}},
    {IN_CPU("<pci busid=\"1\"><gpu sm=\"80\"/>\n<pci busid=\"2\"><gpu/></pci></pci>"),
     "warning: x.xml:4: <pci> in <pci> is ignored: the outer one is a device\n",
     {.gpus = 1}},
    {IN_CPU("<pci busid=\"1\"><pci busid=\"2\" class=\"0x02\"/><gpu sm=\"80\">"
            "<nvlink target=\"3\" count=\"2\"/></gpu></pci>" GPU("3", "")),
     NULL,
     {.gpus = 2, .nics = 1, .switches = 1, .nvlinks = 1}},
    {IN_CPU("<pci busid=\"1\"><gpu sm=\"80\"/><nic><net dev=\"0\"/></nic></pci>"),
     NULL,
     {.gpus = 1, .nics = 1}},
    {IN_CPU(GPU("1", "") "\n" GPU("1", "")),
     "warning: x.xml:4: the <pci> in line 3 has the same busid; NVLinks to it are those of the "
     "first GPU\n",
     {.gpus = 2}},
    {IN_CPU("<pci busid=\"gpu1\" class=\"0x03\"/>"),
     "warning: x.xml:3: 'gpu1' is no bus id such as 0000:0c:00.0; it is read as 0, as by NCCL\n",
     {.gpus = 1}},
    {IN_CPU("<pci busid=\"1\"><gpu dev=\"0\"/></pci>\n<pci busid=\"2\"><gpu dev=\"0\"/></pci>"),
     "warning: x.xml:4: dev=\"0\" is the second one of the host; this one is gpu1\n",
     {.gpus = 2}},
    {IN_CPU("<nic><net name=\"a\" dev=\"1\"/>\n<net name=\"b\" dev=\"1\"/></nic>"),
     "warning: x.xml:4: dev=\"1\" is the second one of the host; this one is nic2\n",
     {.nics = 2}},
    {IN_CPU("<nic><net dev=\"0\" speed=\"-7\"/></nic>"), NULL, {.nics = 1}},
    {IN_CPU("<nic><net dev=\"0\" latency=\"-1\"/></nic>"),
     "warning: x.xml:3: latency=\"-1\" is no number of us and ignored\n",
     {.nics = 1}},
    {"<system version=\"1\"><cpu numaid=\"0\"/>\n<cpu numaid=\"0\" affinity=\"3\"/></system>",
     "warning: x.xml:2: numaid=\"0\" is in the host for the second time; this one is 1\n",
     {.cores = 2}},
    {"<system version=\"1\"><cpu numaid=\"0\" affinity=\"0-3\"/></system>",
     "warning: x.xml:1: affinity=\"0-3\" is no mask of hexadecimal digits such as 0000000f; the "
     "cpu "
     "has no cores\n",
     {.cores = 0}},
    {IN_CPU(GPU("1", "")) "\n<system version=\"1\"/>",
     "warning: x.xml:5: what comes after </system> is ignored\n",
     {.gpus = 1}},
    {IN_CPU("<pci busid=\"1\"><gpu sm=\"80\"\n dev=\"0\" rank=\"0\" dev=\"7\"/></pci>"),
     "warning: x.xml:4: <gpu> has dev=\"0\" and then \"7\"; the first one is taken, as by NCCL\n",
     {.gpus = 1}},
    {IN_CPU("<nic>\n<net name=\"R&D <1>\" dev=\"0\"/></nic>"),
     "warning: x.xml:4: name=\"R&D <1>\": '&' is read as it stands, as by NCCL; XML has &amp; "
     "there\n",
     {.nics = 1}},
    {IN_CPU("<nic><net name='a<b' dev=\"0\"/></nic>"),
     "warning: x.xml:3: name=\"a<b\": '<' is read as it stands, as by NCCL; XML has &lt; there\n",
     {.nics = 1}},
    {IN_CPU("<nic><net name=\"&copy;\" dev=\"0\"/></nic>"),
     "warning: x.xml:3: name=\"&copy;\": '&' is read as it stands, as by NCCL; XML has &amp; "
     "there\n",
     {.nics = 1}},
    {IN_CPU("<nic><net name=\"R&amp;D &lt;1&gt;\" dev=\"0\"/></nic>"), NULL, {.nics = 1}},
    {IN_CPU("<nic><net name=\"a\x01z\" dev=\"0\"/></nic>"), NULL, {.nics = 1}},
    {IN_CPU("<nic><net virtual dev=\"0\"/></nic>"),
     "warning: x.xml:3: <net> has virtual without a value, which is ignored\n",
     {.nics = 1}},
    {IN_CPU("<!-- a \n-- comment & <one> -->" GPU("1", "") "\n" GPU("1", "")),
     "warning: x.xml:5: the <pci> in line 4 has the same busid; NVLinks to it are those of the "
     "first GPU\n",
     {.gpus = 2}},
    {IN_CPU("<nic><net name=\"K\xf6ln\" dev=\"0\"/></nic>"), NULL, {.nics = 1}},
};

static size_t nvlinks_of(const topo_graph_t *graph) {
  size_t count = 0;
  for (size_t i = 0; i < graph->link_count; i++) {
    count += graph->links[i].link_class == TOPO_CLASS_NVLINK;
  }
  return count;
}

/* The graph of a text and the warnings; the caller frees both. */
static topo_graph_t *accepted(const char *text, char **warnings) {
  topo_graph_t *graph;
  size_t bytes;
  FILE *out = open_memstream(warnings, &bytes);
  coll_status_t status = topo_graph_from_nccl_xml(text, strlen(text), "x.xml", out, &graph);
  fclose(out);
  cr_assert_eq(status, COLL_OK, "%s: %s", text, base_last_error());
  cr_assert_eq(topo_graph_check(graph, NULL), COLL_OK, "%s: %s", text, base_last_error());
  return graph;
}

Test(nccl_lenient, what_nccl_accepts_is_accepted_with_a_warning) {
  for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
    char *warnings;
    topo_graph_t *graph = accepted(odd[i].text, &warnings);
    const counts_t *counts = &odd[i].counts;
    cr_expect_str_eq(warnings, odd[i].warning != NULL ? odd[i].warning : "", "%s: %s", odd[i].text,
                     warnings);
    cr_expect_eq(topo_graph_count(graph, TOPO_GPU), counts->gpus, "%s", odd[i].text);
    cr_expect_eq(topo_graph_count(graph, TOPO_NIC), counts->nics, "%s", odd[i].text);
    cr_expect_eq(topo_graph_count(graph, TOPO_PCI_SWITCH), counts->switches, "%s", odd[i].text);
    cr_expect_eq(topo_graph_count(graph, TOPO_CORE), counts->cores, "%s", odd[i].text);
    cr_expect_eq(nvlinks_of(graph), counts->nvlinks, "%s", odd[i].text);
    topo_graph_free(graph);
    free(warnings);
  }
}

/* A file of many such places is no flood of lines. */
Test(nccl_lenient, warnings_are_counted_after_the_first) {
  char *text, *warnings;
  size_t bytes, lines = 0;
  FILE *out = open_memstream(&text, &bytes);
  fprintf(out, "<system version=\"1\"><cpu numaid=\"0\">");
  for (int i = 0; i < 100; i++) fprintf(out, "<future/>\n");
  fprintf(out, "</cpu></system>");
  fclose(out);
  topo_graph_free(accepted(text, &warnings));
  for (const char *at = warnings; *at != '\0'; at++) lines += *at == '\n';
  cr_expect_eq(lines, 21);
  cr_expect_not_null(strstr(warnings, "\nwarning: x.xml: 80 more of these\n"), "%s", warnings);
  free(warnings);
  free(text);
}

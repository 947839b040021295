/*
 * Reads NCCL's topology files by expat, one element at a time (nccl_xml_cpu.c, nccl_xml_device.c).
 * NVLinks name bus ids that may come later: they are collected, and become links at the end
 * (nccl_links.c).
 */
#include <stdlib.h>
#include <string.h>

#include "topo/check.h"
#include "topo/nccl_parser.h"

static const struct {
  const char *name;
  unsigned parents; /* a bit for each */
  const char *where;
} elements[TOPO_NCCL_UNKNOWN + 1] = {
    [TOPO_NCCL_FILE] = {"", 0, ""},
    [TOPO_NCCL_UNKNOWN] = {"", 0, ""},
    [TOPO_NCCL_SYSTEM] = {"system", 1u << TOPO_NCCL_FILE, "the outermost element"},
    [TOPO_NCCL_CPU] = {"cpu", 1u << TOPO_NCCL_SYSTEM, "in <system>"},
    [TOPO_NCCL_PCI] = {"pci", 1u << TOPO_NCCL_CPU | 1u << TOPO_NCCL_PCI, "in <cpu> or <pci>"},
    [TOPO_NCCL_GPU] = {"gpu", 1u << TOPO_NCCL_PCI, "in <pci>"},
    [TOPO_NCCL_NIC] = {"nic", 1u << TOPO_NCCL_CPU | 1u << TOPO_NCCL_PCI, "in <pci> or <cpu>"},
    [TOPO_NCCL_NET] = {"net", 1u << TOPO_NCCL_NIC, "in <nic>"},
    [TOPO_NCCL_NVLINK] = {"nvlink", 1u << TOPO_NCCL_GPU, "in <gpu>"},
    [TOPO_NCCL_XGMI] = {"xgmi", 1u << TOPO_NCCL_GPU, "in <gpu>"},
    [TOPO_NCCL_C2C] = {"c2c", 1u << TOPO_NCCL_GPU, "in <gpu>"},
};

/* ---- elements --------------------------------------------------------------------------------*/

static coll_status_t begin_system(topo_nccl_parser_t *parser) {
  int64_t version;
  const char *given = topo_nccl_find(parser, "name");
  char name[TOPO_NAME_BYTES];
  if (parser->has_system) return TOPO_NCCL_REFUSE(parser, "a second <system>; a file has one");
  parser->has_system = true;
  COLL_TRY(topo_nccl_take_number(parser, "version", 1, 2, &version));
  topo_nccl_copy_ascii(name, sizeof name, given != NULL ? given : "");
  return topo_graph_create(name, &parser->reader.graph);
}

/* ---- expat ----------------------------------------------------------------------------------*/

static topo_nccl_element_t element_of(const char *name) {
  topo_nccl_element_t element = TOPO_NCCL_SYSTEM;
  while (element < TOPO_NCCL_UNKNOWN && strcmp(elements[element].name, name) != 0) element++;
  return element;
}

static coll_status_t begin(topo_nccl_parser_t *parser, const char *name) {
  topo_nccl_element_t within = topo_nccl_top(parser)->element, element = element_of(name);
  if (parser->depth + 1 == TOPO_NCCL_DEPTH_MAX) {
    return TOPO_NCCL_REFUSE(parser, "elements are nested more than %d deep; remove PCI switches",
                            TOPO_NCCL_DEPTH_MAX - 1);
  }
  if (within == TOPO_NCCL_UNKNOWN) element = TOPO_NCCL_UNKNOWN;
  if (within == TOPO_NCCL_FILE && element != TOPO_NCCL_SYSTEM) {
    return TOPO_NCCL_REFUSE(
        parser, "<%.24s> is not the beginning of a topology of NCCL, which is <system>", name);
  }
  parser->depth++;
  *topo_nccl_top(parser) = (topo_nccl_frame_t){.element = element,
                                               .name = elements[element].name,
                                               .line = topo_nccl_line(parser),
                                               .node = TOPO_NONE};
  if (element != TOPO_NCCL_UNKNOWN && (elements[element].parents & 1u << within) == 0) {
    return TOPO_NCCL_REFUSE(parser, "<%s> in <%s>: it belongs %s", name, elements[within].name,
                            elements[element].where);
  }
  switch (element) {
    case TOPO_NCCL_SYSTEM: return begin_system(parser);
    case TOPO_NCCL_CPU: return topo_nccl_begin_cpu(parser);
    case TOPO_NCCL_PCI: return topo_nccl_begin_pci(parser);
    case TOPO_NCCL_GPU: return topo_nccl_begin_gpu(parser);
    case TOPO_NCCL_NIC: parser->net_count = 0; return COLL_OK;
    case TOPO_NCCL_NET: return topo_nccl_begin_net(parser);
    case TOPO_NCCL_NVLINK:
    case TOPO_NCCL_XGMI: return topo_nccl_begin_nvlink(parser);
    case TOPO_NCCL_C2C: return topo_nccl_begin_c2c(parser);
    case TOPO_NCCL_FILE:
    case TOPO_NCCL_UNKNOWN: break;
  }
  return COLL_OK;
}

static void keep(topo_nccl_parser_t *parser, coll_status_t status) {
  if (status == COLL_OK) return;
  parser->status = status;
  XML_StopParser(parser->xml, XML_FALSE);
}

static void on_start(void *data, const char *name, const char **attributes) {
  topo_nccl_parser_t *parser = data;
  if (parser->status != COLL_OK) return;
  parser->attributes = attributes;
  keep(parser, begin(parser, name));
}

static void on_end(void *data, const char *name) {
  topo_nccl_parser_t *parser = data;
  (void)name; /* expat checks that tags match */
  if (parser->status != COLL_OK) return;
  topo_nccl_frame_t *ended = topo_nccl_top(parser);
  parser->depth--;
  if (ended->element == TOPO_NCCL_PCI) keep(parser, topo_nccl_end_pci(parser, ended));
  if (ended->element == TOPO_NCCL_NIC)
    keep(parser, topo_nccl_end_nic(parser, topo_nccl_top(parser)));
}

/* Topologies need no document type, and entities could make a short file long. */
static void on_doctype(void *data, const char *name, const char *system, const char *public,
                       int has_internal_subset) {
  topo_nccl_parser_t *parser = data;
  (void)name, (void)system, (void)public, (void)has_internal_subset;
  if (parser->status != COLL_OK) return;
  keep(parser, TOPO_NCCL_REFUSE(
                   parser, "topologies of NCCL have no document type; remove the declaration"));
}

static coll_status_t parse_all(topo_nccl_parser_t *parser, const char *text, size_t bytes) {
  if (bytes > INT32_MAX) return TOPO_NCCL_REFUSE(parser, "the file has more than 2 GiB");
  if (XML_Parse(parser->xml, text, (int)bytes, XML_TRUE) == XML_STATUS_OK) return COLL_OK;
  if (parser->status != COLL_OK) return parser->status;
  enum XML_Error error = XML_GetErrorCode(parser->xml);
  if (error == XML_ERROR_NO_ELEMENTS || error == XML_ERROR_UNCLOSED_TOKEN ||
      error == XML_ERROR_PARTIAL_CHAR) {
    return TOPO_NCCL_REFUSE(parser, "the file ends in the middle of the topology; copy it again");
  }
  return TOPO_NCCL_REFUSE(parser, "not XML: %s; correct the text there", XML_ErrorString(error));
}

static coll_status_t complete(topo_nccl_parser_t *parser) {
  topo_nccl_reader_t *reader = &parser->reader;
  if (parser->host_count == 0)
    return TOPO_NCCL_REFUSE(parser, "the <system> has no <cpu>; add one");
  COLL_TRY(topo_nccl_link_gpus(reader));
  const topo_source_t source = {reader->file, reader->node_lines, reader->link_lines, 1};
  return topo_graph_check(reader->graph, &source);
}

coll_status_t topo_graph_from_nccl_xml(const char *text, size_t bytes, const char *file_name,
                                       topo_graph_t **graph) {
  topo_nccl_parser_t parser = {.reader = {.file = file_name}, .xml = XML_ParserCreate(NULL)};
  *graph = NULL;
  if (parser.xml == NULL) return base_fail(COLL_ERROR_MEMORY, "no memory to parse XML");
  XML_SetUserData(parser.xml, &parser);
  XML_SetElementHandler(parser.xml, on_start, on_end);
  XML_SetStartDoctypeDeclHandler(parser.xml, on_doctype);
  coll_status_t status = parse_all(&parser, text, bytes);
  if (status == COLL_OK) status = complete(&parser);
  XML_ParserFree(parser.xml);
  free(parser.hosts);
  free(parser.nets);
  free(parser.reader.node_lines);
  free(parser.reader.link_lines);
  free(parser.reader.devices);
  free(parser.reader.edges);
  if (status == COLL_OK) {
    *graph = parser.reader.graph;
  } else {
    topo_graph_free(parser.reader.graph);
  }
  return status;
}

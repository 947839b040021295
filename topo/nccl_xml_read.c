/*
 * Reads NCCL's topology files by expat, one element at a time (nccl_xml_cpu.c, nccl_xml_device.c).
 * NVLinks name bus ids that may come later: they are collected, and become links at the end
 * (nccl_links.c).
 */
#include <stdlib.h>
#include <string.h>

#include "base/xml.h"
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

enum { VERSION_MAX = 2 };

static coll_status_t begin_system(topo_nccl_parser_t *parser) {
  int64_t version;
  const char *given = topo_nccl_find(parser, "name");
  char name[TOPO_NAME_BYTES];
  COLL_TRY(topo_nccl_take_number(parser, "version", 1, INT32_MAX, &version));
  if (version > VERSION_MAX) {
    return TOPO_NCCL_REFUSE(parser,
                            "<system version=\"%d\"> is newer than what can be read: version 1 of "
                            "NCCL, 2 of RCCL",
                            (int)version);
  }
  topo_nccl_copy_ascii(name, sizeof name, given != NULL ? given : "");
  return topo_graph_create(name, &parser->reader.graph);
}

/* ---- expat ----------------------------------------------------------------------------------*/

static topo_nccl_element_t element_of(const char *name) {
  topo_nccl_element_t element = TOPO_NCCL_SYSTEM;
  while (element < TOPO_NCCL_UNKNOWN && strcmp(elements[element].name, name) != 0) element++;
  return element;
}

void topo_nccl_ignore(topo_nccl_parser_t *parser, const char *why) {
  topo_nccl_frame_t *top = topo_nccl_top(parser);
  top->element = TOPO_NCCL_UNKNOWN;
  TOPO_NCCL_WARN(parser, "<%s> in <%s> is ignored: %s", top->name, top[-1].name, why);
}

/* An element that is not read, as NCCL reads none that it does not know, or not where it is. */
static void ignore_unknown(topo_nccl_parser_t *parser, const char *name) {
  topo_nccl_frame_t *top = topo_nccl_top(parser);
  const char *target = topo_nccl_find(parser, "target");
  if (top[-1].element == TOPO_NCCL_UNKNOWN) return;
  if (strcmp(name, "pcilink") == 0 && target != NULL) {
    TOPO_NCCL_WARN(parser,
                   "<pcilink target=\"%.24s\"> is left out: links beside the tree of PCI "
                   "switches have no place in a graph",
                   target);
    return;
  }
  TOPO_NCCL_WARN(parser, "<%.24s> in <%s> is ignored: it is unknown", name, top[-1].name);
}

static coll_status_t begin(topo_nccl_parser_t *parser, const char *name) {
  topo_nccl_element_t within = topo_nccl_top(parser)->element, element = element_of(name);
  if (parser->depth + 1 == TOPO_NCCL_DEPTH_MAX) {
    return TOPO_NCCL_REFUSE(parser, "elements are nested more than %d deep; remove PCI switches",
                            TOPO_NCCL_DEPTH_MAX - 1);
  }
  if (within == TOPO_NCCL_UNKNOWN) element = TOPO_NCCL_UNKNOWN;
  if (within == TOPO_NCCL_FILE && element != TOPO_NCCL_SYSTEM) {
    bool is_graph = strcmp(name, "graphs") == 0;
    return TOPO_NCCL_REFUSE(
        parser, "<%.24s> is not the beginning of a topology of NCCL, which is <system>%s", name,
        is_graph ? "; NCCL writes that to NCCL_TOPO_DUMP_FILE, not NCCL_GRAPH_DUMP_FILE" : "");
  }
  parser->depth++;
  *topo_nccl_top(parser) = (topo_nccl_frame_t){.element = element,
                                               .name = elements[element].name,
                                               .line = topo_nccl_line(parser),
                                               .node = TOPO_NONE};
  if (element != TOPO_NCCL_UNKNOWN && (elements[element].parents & 1u << within) == 0) {
    char why[64];
    snprintf(why, sizeof why, "it belongs %s", elements[element].where);
    topo_nccl_ignore(parser, why);
    return COLL_OK;
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
    case TOPO_NCCL_UNKNOWN: ignore_unknown(parser, name); break;
    case TOPO_NCCL_FILE: break;
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
  if (error == XML_ERROR_JUNK_AFTER_DOC_ELEMENT) {
    TOPO_NCCL_WARN(parser, "what comes after </system> is ignored");
    return COLL_OK;
  }
  if (error == XML_ERROR_NO_ELEMENTS || error == XML_ERROR_UNCLOSED_TOKEN ||
      error == XML_ERROR_PARTIAL_CHAR) {
    return TOPO_NCCL_REFUSE(parser, "the file ends in the middle of the topology; copy it again");
  }
  return TOPO_NCCL_REFUSE(parser, "not XML: %s; correct the text there", XML_ErrorString(error));
}

static void warn_of_repair(void *reader, int line, const char *sentence) {
  topo_nccl_warn(reader, line, "%s", sentence);
}

static coll_status_t repair_and_parse(topo_nccl_parser_t *parser, const char *text, size_t bytes) {
  char *repaired;
  size_t repaired_bytes;
  coll_status_t status =
      base_xml_repair(text, bytes, warn_of_repair, &parser->reader, &repaired, &repaired_bytes);
  if (status == COLL_OK) status = parse_all(parser, repaired, repaired_bytes);
  free(repaired);
  return status;
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
                                       FILE *warnings, topo_graph_t **graph) {
  /* NCCL takes bytes as they are, so no encoding may be wrong; names are cut to ASCII anyway */
  topo_nccl_parser_t parser = {.reader = {.file = file_name, .warnings = warnings},
                               .xml = XML_ParserCreate("ISO-8859-1")};
  *graph = NULL;
  if (parser.xml == NULL) return base_fail(COLL_ERROR_MEMORY, "no memory to parse XML");
  XML_SetUserData(parser.xml, &parser);
  XML_SetElementHandler(parser.xml, on_start, on_end);
  XML_SetStartDoctypeDeclHandler(parser.xml, on_doctype);
  coll_status_t status = repair_and_parse(&parser, text, bytes);
  if (status == COLL_OK) status = complete(&parser);
  topo_nccl_warn_more(&parser.reader);
  XML_ParserFree(parser.xml);
  for (size_t i = 0; i < parser.host_count; i++) {
    free(parser.hosts[i].numas.words);
    free(parser.hosts[i].packages.words);
    free(parser.hosts[i].gpus.words);
    free(parser.hosts[i].nics.words);
  }
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

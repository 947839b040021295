/* Reads a whole file and hands it to the reader of its format. */
#include "topo/load.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/xml.h"
#include "topo/hwloc_graph.h"
#include "topo/json.h"
#include "topo/nccl_xml.h"

static const char byte_order_mark[] = "\xef\xbb\xbf";

/* ---- formats ------------------------------------------------------------------------------- */

/* The first text at or after `at` that equals `word`, or the end. */
static size_t find(const char *text, size_t at, size_t bytes, const char *word) {
  size_t length = strlen(word);
  while (at + length <= bytes && memcmp(text + at, word, length) != 0) at++;
  return at + length <= bytes ? at + length : bytes;
}

static bool begins(const char *text, size_t at, size_t bytes, const char *word) {
  return bytes - at >= strlen(word) && memcmp(text + at, word, strlen(word)) == 0;
}

/* hwloc's files begin with <topology>, those of its first releases with <root>. */
static bool is_of_hwloc(const char *text, size_t at, size_t bytes) {
  return begins(text, at, bytes, "<topology") || begins(text, at, bytes, "<root") ||
         begins(text, at, bytes, "<!DOCTYPE topology") || begins(text, at, bytes, "<!DOCTYPE root");
}

topo_format_t topo_format_of(const char *text, size_t bytes) {
  size_t at = begins(text, 0, bytes, byte_order_mark) ? strlen(byte_order_mark) : 0;
  for (;;) {
    while (at < bytes && isspace((unsigned char)text[at])) at++;
    if (begins(text, at, bytes, "<?")) {
      at = find(text, at, bytes, "?>");
    } else if (begins(text, at, bytes, "<!--")) {
      at = find(text, at, bytes, "-->");
    } else {
      break;
    }
  }
  if (is_of_hwloc(text, at, bytes)) return TOPO_FORMAT_HWLOC;
  if (begins(text, at, bytes, "<")) return TOPO_FORMAT_NCCL;
  /* an empty file is a topology that was cut off */
  bool is_json = at == bytes || text[at] == '{' || text[at] == '[';
  return is_json ? TOPO_FORMAT_JSON : TOPO_FORMAT_ANY;
}

/* ---- reading ------------------------------------------------------------------------------- */

static coll_status_t refuse_unknown(const char *text, size_t bytes, const char *name) {
  int length = 0;
  while ((size_t)length < bytes && length < 24 && isprint((unsigned char)text[length])) length++;
  return base_fail(
      COLL_ERROR_INVALID,
      "%s:1: a file that begins with '%.*s' is no topology; give JSON of colltopo, XML "
      "of NCCL (NCCL_TOPO_DUMP_FILE) or XML of hwloc (lstopo FILE.xml)",
      name, length, text);
}

static coll_status_t parse(const char *text, size_t bytes, const char *name, topo_format_t format,
                           FILE *warnings, topo_graph_t **graph) {
  if (begins(text, 0, bytes, byte_order_mark)) {
    text += strlen(byte_order_mark);
    bytes -= strlen(byte_order_mark);
  }
  if (format == TOPO_FORMAT_ANY) format = topo_format_of(text, bytes);
  switch (format) {
    case TOPO_FORMAT_HWLOC: return topo_graph_from_hwloc_xml(text, bytes, name, warnings, graph);
    case TOPO_FORMAT_JSON: return topo_graph_parse(text, bytes, name, graph);
    case TOPO_FORMAT_NCCL:
    case TOPO_FORMAT_RCCL: return topo_graph_from_nccl_xml(text, bytes, name, warnings, graph);
    case TOPO_FORMAT_ANY: break;
  }
  return refuse_unknown(text, bytes, name);
}

coll_status_t topo_load_stream(FILE *in, const char *name, topo_format_t format, FILE *warnings,
                               topo_graph_t **graph) {
  char *text;
  size_t bytes;
  *graph = NULL;
  coll_status_t status = base_xml_read(in, name, &text, &bytes);
  if (status == COLL_OK) status = parse(text, bytes, name, format, warnings, graph);
  free(text);
  return status;
}

coll_status_t topo_load(const char *file_name, topo_format_t format, FILE *warnings,
                        topo_graph_t **graph) {
  FILE *in = fopen(file_name, "re");
  *graph = NULL;
  if (in == NULL) return base_fail_errno(COLL_ERROR_INVALID, "cannot open %s", file_name);
  coll_status_t status = topo_load_stream(in, file_name, format, warnings, graph);
  fclose(in);
  return status;
}

/* Reads a whole file and hands it to the reader of its format. */
#include "tools/colltopo/formats.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "topo/hwloc_graph.h"
#include "topo/json.h"
#include "topo/nccl_xml.h"

#define FILE_BYTES_MAX ((size_t)1 << 30)

/* Appends all that the stream contains; *text is freed by the caller also after a failure. */
static coll_status_t read_stream(FILE *in, const char *name, char **text, size_t *bytes) {
  size_t capacity = 0, got = 1;
  *text = NULL;
  *bytes = 0;
  while (got > 0) {
    if (*bytes >= FILE_BYTES_MAX) {
      return base_fail(COLL_ERROR_INVALID, "%s has more than 1 GiB; give a topology", name);
    }
    COLL_TRY(base_grow((void **)text, &capacity, *bytes + 65536, 1, "a topology's file"));
    got = fread(*text + *bytes, 1, capacity - *bytes, in);
    *bytes += got;
  }
  if (!ferror(in)) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot read %s", name);
}

/* The first text at or after `at` that equals `word`, or the end. */
static size_t find(const char *text, size_t at, size_t bytes, const char *word) {
  size_t length = strlen(word);
  while (at + length <= bytes && memcmp(text + at, word, length) != 0) at++;
  return at + length <= bytes ? at + length : bytes;
}

static bool begins(const char *text, size_t at, size_t bytes, const char *word) {
  return bytes - at >= strlen(word) && memcmp(text + at, word, strlen(word)) == 0;
}

colltopo_format_t colltopo_recognise(const char *text, size_t bytes) {
  size_t at = begins(text, 0, bytes, "\xef\xbb\xbf") ? 3 : 0; /* a byte order mark */
  for (;;) {
    while (at < bytes && isspace((unsigned char)text[at])) at++;
    if (begins(text, at, bytes, "<?")) {
      at = find(text, at, bytes, "?>");
    } else if (begins(text, at, bytes, "<!--")) {
      at = find(text, at, bytes, "-->");
    } else if (begins(text, at, bytes, "<!DOCTYPE topology")) {
      return COLLTOPO_HWLOC;
    } else {
      break;
    }
  }
  if (begins(text, at, bytes, "<topology")) return COLLTOPO_HWLOC;
  return begins(text, at, bytes, "<") ? COLLTOPO_NCCL : COLLTOPO_JSON;
}

static coll_status_t parse(const char *text, size_t bytes, const char *name,
                           colltopo_format_t format, topo_graph_t **graph) {
  if (format == COLLTOPO_ANY) format = colltopo_recognise(text, bytes);
  if (format == COLLTOPO_HWLOC) return topo_graph_from_hwloc_xml(text, bytes, name, graph);
  if (format == COLLTOPO_JSON) return topo_graph_parse(text, bytes, name, graph);
  return topo_graph_from_nccl_xml(text, bytes, name, graph);
}

coll_status_t colltopo_load_format(const char *file_name, colltopo_format_t format,
                                   topo_graph_t **graph) {
  bool is_stdin = strcmp(file_name, "-") == 0;
  const char *name = is_stdin ? "standard input" : file_name;
  FILE *in = is_stdin ? stdin : fopen(file_name, "r");
  char *text;
  size_t bytes;
  *graph = NULL;
  if (in == NULL) return base_fail_errno(COLL_ERROR_INVALID, "cannot open %s", file_name);
  coll_status_t status = read_stream(in, name, &text, &bytes);
  if (!is_stdin) fclose(in);
  if (status == COLL_OK) status = parse(text, bytes, name, format, graph);
  free(text);
  return status;
}

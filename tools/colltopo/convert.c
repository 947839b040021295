/* colltopo convert: a topology of one program's format in another's. */
#include <stdio.h>
#include <stdlib.h>

#include "tools/colltopo/colltopo.h"
#include "topo/hwloc_xml.h"
#include "topo/json.h"
#include "topo/nccl_xml.h"

static const char *const inputs[] = {"json", "nccl", "rccl", "hwloc", "any", NULL};
static const char *const outputs[] = {"json", "nccl", "rccl", "hwloc", NULL};

static coll_status_t write_graph(const topo_graph_t *graph, topo_format_t format, const char *host,
                                 FILE *out) {
  switch (format) {
    case TOPO_FORMAT_NCCL:
      return topo_graph_to_nccl_xml(graph, host, TOPO_NCCL_NVIDIA, out, stderr);
    case TOPO_FORMAT_RCCL: return topo_graph_to_nccl_xml(graph, host, TOPO_NCCL_AMD, out, stderr);
    case TOPO_FORMAT_HWLOC: return topo_graph_to_hwloc_xml(graph, host, out, stderr);
    case TOPO_FORMAT_JSON:
    case TOPO_FORMAT_ANY: break;
  }
  if (host == NULL) return topo_graph_write(graph, out);
  return base_fail(COLL_ERROR_INVALID, "--host is for formats of one host: nccl, rccl and hwloc");
}

/* Writes to a memory first, so that a refused topology leaves no half a file. */
static coll_status_t write_file(const topo_graph_t *graph, topo_format_t format, const char *host,
                                const char *file_name) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *memory = open_memstream(&text, &bytes);
  if (memory == NULL) return base_fail_errno(COLL_ERROR_MEMORY, "no memory for the topology");
  coll_status_t status = write_graph(graph, format, host, memory);
  if (fclose(memory) != 0 && status == COLL_OK) {
    status = base_fail_errno(COLL_ERROR_MEMORY, "no memory for the topology");
  }
  FILE *out = stdout;
  if (status == COLL_OK && file_name != NULL) {
    out = fopen(file_name, "w");
    if (out == NULL) status = base_fail_errno(COLL_ERROR_SYSTEM, "cannot create %s", file_name);
  }
  if (status == COLL_OK) {
    bool failed = fwrite(text, 1, bytes, out) != bytes;
    if (out != stdout && fclose(out) != 0) failed = true;
    if (failed) status = base_fail_errno(COLL_ERROR_SYSTEM, "cannot write the topology");
  }
  free(text);
  return status;
}

int colltopo_convert(int argc, char **argv) {
  int from = TOPO_FORMAT_ANY, to = TOPO_FORMAT_JSON;
  const char *host = NULL, *out = NULL, *file;
  const base_option_t options[] = {
      {0, "from", BASE_OPTION_WORD, &from, "F", "format of FILE; any: recognised by its content", 0,
       0, inputs},
      {0, "to", BASE_OPTION_WORD, &to, "F", "format to write", 0, 0, outputs},
      {0, "host", BASE_OPTION_TEXT, &host, "NAME",
       "the host to write; other formats than json describe one", 0, 0, NULL},
      {0, "out", BASE_OPTION_TEXT, &out, "FILE", "where to write; without it standard output", 0, 0,
       NULL},
  };
  const base_command_t command = {
      .name = "colltopo convert",
      .usage = "FILE [options]",
      .summary =
          "Reads a topology (-: standard input) and writes it in another format: json (ours), nccl "
          "and rccl\n(topology files of NCCL in NVIDIA's and AMD's dialects), hwloc (XML of hwloc "
          "2). What the format\ncannot express is left out, with a warning on standard error.",
      .examples =
          "  colltopo make dgx-h100 --fabric rail | colltopo convert - --to nccl --out dgx.xml\n"
          "      for NCCL_TOPO_FILE=dgx.xml\n"
          "  colltopo convert dgx.xml --out dgx.json\n"
          "      what NCCL wrote by NCCL_TOPO_DUMP_FILE, for COLL_TOPO_FILE\n"
          "  lstopo --of xml | colltopo convert - > here.json\n"
          "      what hwloc knows of this machine\n"
          "  colltopo convert dgx4.json --to hwloc --host host2\n"
          "      one of several hosts\n",
      .options = options,
      .option_count = sizeof options / sizeof options[0]};
  int code;
  if (!colltopo_begin(&command, argc, argv, &file, 1, &code)) return code;
  topo_graph_t *graph = NULL;
  coll_status_t status = colltopo_load(file, (topo_format_t)from, &graph);
  if (status == COLL_OK) status = write_file(graph, (topo_format_t)to, host, out);
  return colltopo_close(graph, base_tool_input(status));
}

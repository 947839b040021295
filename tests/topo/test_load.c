/* Files of topologies: each format is recognised by its content, whatever the file is called. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "topo/load.h"

#define JSON "{\"nodes\": [{\"name\": \"a\", \"kind\": \"host\"}], \"links\": []}"
#define NCCL "<system version=\"1\"><cpu numaid=\"0\"/></system>"
#define HWLOC                                                                                \
  "<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\" cpuset=\"0x1\" "        \
  "complete_cpuset=\"0x1\" allowed_cpuset=\"0x1\" nodeset=\"0x1\" complete_nodeset=\"0x1\" " \
  "allowed_nodeset=\"0x1\" gp_index=\"1\"><object type=\"NUMANode\" os_index=\"0\" "         \
  "cpuset=\"0x1\" complete_cpuset=\"0x1\" nodeset=\"0x1\" complete_nodeset=\"0x1\" "         \
  "gp_index=\"2\" local_memory=\"1024\"/><object type=\"PU\" os_index=\"0\" cpuset=\"0x1\" " \
  "complete_cpuset=\"0x1\" nodeset=\"0x1\" complete_nodeset=\"0x1\" gp_index=\"3\"/>"        \
  "</object></topology>"

static coll_status_t load(const char *text, topo_format_t format, topo_graph_t **graph) {
  char path[] = "/tmp/topology.XXXXXX";
  int fd = mkstemp(path);
  cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
  close(fd);
  coll_status_t status = topo_load(path, format, NULL, graph);
  unlink(path);
  return status;
}

Test(load, formats_are_recognised) {
  static const char *const texts[] = {
      JSON,
      "\n  " JSON,
      "\xef\xbb\xbf" JSON,
      NCCL,
      "<!-- a -->\n" NCCL,
      "\xef\xbb\xbf" NCCL,
      "<?xml version=\"1.0\"?>" NCCL,
      HWLOC,
      "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n" HWLOC "\n \n",
  };
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    topo_graph_t *graph;
    cr_assert_eq(load(texts[i], TOPO_FORMAT_ANY, &graph), COLL_OK, "%s: %s", texts[i],
                 base_last_error());
    cr_expect_eq(topo_graph_count(graph, TOPO_HOST), 1, "%s", texts[i]);
    topo_graph_free(graph);
  }
}

/* The message is about the format that the file has, or about what it begins with. */
Test(load, other_files_are_refused) {
  static const struct {
    const char *text;
    topo_format_t format;
    const char *message;
  } bad[] = {
      {"\tGPU0\tGPU1\n", TOPO_FORMAT_ANY, "is no topology; give JSON of colltopo, XML of NCCL"},
      {"host0 slots=2\n", TOPO_FORMAT_ANY, ":1: a file that begins with 'host0 slots=2' is no"},
      {"", TOPO_FORMAT_ANY, "the file ends in the middle"},
      {NCCL, TOPO_FORMAT_JSON, ":1: not JSON"},
      {JSON, TOPO_FORMAT_NCCL, ":1: not XML"},
      {"<algo name=\"x\"/>", TOPO_FORMAT_ANY, "<algo> is not the beginning of a topology of NCCL"},
      {"\n<topology version=\"9.1\"></topology>", TOPO_FORMAT_ANY,
       ":2: <topology version=\"9.1\">"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    topo_graph_t *graph;
    cr_assert_eq(load(bad[i].text, bad[i].format, &graph), COLL_ERROR_INVALID, "%s", bad[i].text);
    cr_expect_null(graph);
    cr_expect_not_null(strstr(base_last_error(), bad[i].message), "'%s' is not in '%s'",
                       bad[i].message, base_last_error());
  }
}

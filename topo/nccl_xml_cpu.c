/* Hosts, packages, NUMA nodes and cores of a file of NCCL: <cpu>. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "topo/kinds.h"
#include "topo/kinds_build.h"
#include "topo/nccl_facts.h"
#include "topo/nccl_parser.h"

/* Makes parser->host that of the cpu's host_hash. */
static coll_status_t find_host(topo_nccl_parser_t *parser) {
  const char *hash_text = topo_nccl_find(parser, "host_hash");
  uint64_t hash = hash_text == NULL ? 0 : strtoull(hash_text, NULL, 16);
  for (size_t i = 0; i < parser->host_count; i++) {
    parser->host = &parser->hosts[i];
    if (parser->host->hash == hash) return COLL_OK;
  }
  if (parser->host_count == TOPO_HOSTS_MAX) {
    return TOPO_NCCL_REFUSE(parser, "the file has more than %d hosts (values of host_hash)",
                            TOPO_HOSTS_MAX);
  }
  COLL_TRY(base_grow((void **)&parser->hosts, &parser->host_capacity, parser->host_count + 1,
                     sizeof *parser->hosts, "hosts"));
  parser->host = &parser->hosts[parser->host_count++];
  *parser->host = (topo_nccl_host_t){.hash = hash};
  return topo_nccl_add_named(parser, topo_nccl_line(parser), TOPO_HOST, TOPO_NONE,
                             &parser->host->node, "host%d", topo_nccl_host_index(parser));
}

/* *node: the package of a number in the current host, which may be made by an earlier cpu. */
static coll_status_t find_package(topo_nccl_parser_t *parser, int64_t number, int32_t *node) {
  const topo_graph_t *graph = parser->reader.graph;
  char name[TOPO_NAME_BYTES];
  snprintf(name, sizeof name, "host%d/package%d", topo_nccl_host_index(parser), (int)number);
  for (int32_t i = 0; i < parser->host->cpu_count; i++) {
    *node = graph->nodes[parser->host->cpus[i]].parent;
    if (strcmp(graph->nodes[*node].name, name) == 0) return COLL_OK;
  }
  return topo_nccl_add_node(&parser->reader, topo_nccl_line(parser), TOPO_PACKAGE,
                            parser->host->node, name, node);
}

/* A core for each bit of groups of 32, the highest first: "00000000,0000ffff". */
static coll_status_t add_cores(topo_nccl_parser_t *parser, int32_t cpu) {
  const char *affinity = topo_nccl_find(parser, "affinity");
  int cores = 0;
  if (affinity == NULL) return COLL_OK;
  if (affinity[strspn(affinity, "0123456789abcdefABCDEF,")] != '\0') {
    TOPO_NCCL_WARN(parser,
                   "affinity=\"%.24s\" is no mask of hexadecimal digits such as 0000000f; the cpu "
                   "has no cores",
                   affinity);
    return COLL_OK;
  }
  for (const char *at = affinity; *at != '\0'; at++) {
    const char digit[2] = {*at, '\0'};
    unsigned long bits = strtoul(digit, NULL, 16);
    for (; bits != 0; bits &= bits - 1) {
      int32_t core;
      COLL_TRY(topo_nccl_add_named(parser, topo_nccl_line(parser), TOPO_CORE, cpu, &core,
                                   "%.40s/core%d", parser->reader.graph->nodes[cpu].name, cores++));
      COLL_TRY(topo_nccl_add_link(
          &parser->reader, topo_nccl_line(parser),
          (topo_link_t){cpu, core, TOPO_CLASS_MEMORY, 1, TOPO_NCCL_CORE_GBS, TOPO_CORE_US}));
    }
  }
  return COLL_OK;
}

static void take_processor(topo_nccl_parser_t *parser, topo_nccl_cpu_t *cpu) {
  const char *arch = topo_nccl_find(parser, "arch"), *vendor = topo_nccl_find(parser, "vendor");
  int64_t family = topo_nccl_take_number_or(parser, "familyid", 0, TOPO_NCCL_NUMBER_MAX, 0);
  int64_t model = topo_nccl_take_number_or(parser, "modelid", 0, TOPO_NCCL_NUMBER_MAX, 0);
  *cpu = (topo_nccl_cpu_t){.family = (int32_t)family, .model = (int32_t)model};
  topo_nccl_copy_ascii(cpu->arch, sizeof cpu->arch, arch != NULL ? arch : "x86_64");
  topo_nccl_copy_ascii(cpu->vendor, sizeof cpu->vendor, vendor != NULL ? vendor : "");
}

/* *number: numaid, or the next one if it is in the current host for the second time. */
static coll_status_t number_cpu(topo_nccl_parser_t *parser, bool is_package, int32_t *number) {
  topo_nccl_numbers_t *numbers = is_package ? &parser->host->packages : &parser->host->numas;
  int64_t id;
  COLL_TRY(topo_nccl_take_number(parser, "numaid", -1, TOPO_NCCL_DEV_MAX, &id));
  COLL_TRY(topo_nccl_take_free(numbers, id + 1, number));
  *number -= 1; /* there is a numaid of -1 */
  if (*number != id) {
    TOPO_NCCL_WARN(parser, "numaid=\"%d\" is in the host for the second time; this one is %d",
                   (int)id, (int)*number);
  }
  return COLL_OK;
}

coll_status_t topo_nccl_begin_cpu(topo_nccl_parser_t *parser) {
  const char *package = topo_nccl_find(parser, "package");
  topo_nccl_cpu_t processor;
  int64_t number;
  int32_t parent, node, id;
  take_processor(parser, &processor);
  COLL_TRY(find_host(parser));
  topo_nccl_host_t *host = parser->host;
  parent = host->node;
  bool is_package = package != NULL && strcmp(package, "self") == 0;
  if (package != NULL && !is_package) {
    COLL_TRY(topo_nccl_take_number(parser, "package", 0, TOPO_NCCL_NUMBER_MAX, &number));
    COLL_TRY(find_package(parser, number, &parent));
  }
  if (host->cpu_count == TOPO_NCCL_CPUS_MAX) {
    return TOPO_NCCL_REFUSE(parser, "the host has more than %d cpus; combine NUMA nodes",
                            TOPO_NCCL_CPUS_MAX);
  }
  COLL_TRY(number_cpu(parser, is_package, &id));
  COLL_TRY(topo_nccl_add_named(parser, topo_nccl_line(parser),
                               is_package ? TOPO_PACKAGE : TOPO_NUMA, parent, &node, "host%d/%s%d",
                               topo_nccl_host_index(parser), is_package ? "cpu" : "numa", (int)id));
  topo_nccl_cpu_name(&processor, parser->reader.graph->nodes[node].model);
  host->cpu_gbs = topo_nccl_cpu_gbs(&processor);
  for (int32_t i = 0; i < host->cpu_count; i++) {
    COLL_TRY(topo_nccl_add_link(
        &parser->reader, topo_nccl_line(parser),
        (topo_link_t){host->cpus[i], node, TOPO_CLASS_MEMORY, 1, host->cpu_gbs, TOPO_CORE_US}));
  }
  host->cpus[host->cpu_count++] = node;
  topo_nccl_top(parser)->node = node;
  return add_cores(parser, node);
}

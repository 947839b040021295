/* A graph that is made from a file of NCCL, the lines that its parts come from, and the NVLinks
 * whose targets are looked up when all bus ids are known. For nccl_xml_read.c and nccl_links.c. */
#ifndef TOPO_NCCL_READER_H
#define TOPO_NCCL_READER_H

#include <stdio.h>

#include "topo/graph.h"

#define TOPO_NCCL_TARGET_BYTES 24

typedef struct topo_nccl_device {
  int32_t host; /* a node */
  uint64_t id;  /* of the bus */
  int32_t node; /* of the graph, TOPO_NONE: none */
  int32_t line;
} topo_nccl_device_t;

/* The NVLinks of a GPU to one target. */
typedef struct topo_nccl_edge {
  int32_t from, host; /* nodes */
  int32_t cpu;        /* node: the target is the cpu; otherwise TOPO_NONE */
  bool to_switch;
  uint64_t target; /* bus id, if neither of the two */
  char target_text[TOPO_NCCL_TARGET_BYTES];
  int32_t count, line;
  double gbs; /* of one link */
} topo_nccl_edge_t;

typedef struct topo_nccl_reader {
  const char *file;
  FILE *warnings; /* or NULL */
  int warned;
  topo_graph_t *graph;
  int32_t *node_lines, *link_lines;
  size_t node_line_capacity, link_line_capacity;
  topo_nccl_device_t *devices;
  size_t device_count, device_capacity;
  topo_nccl_edge_t *edges;
  size_t edge_count, edge_capacity;
} topo_nccl_reader_t;

/* COLL_ERROR_INVALID with "file:line: " before the sentence. */
coll_status_t topo_nccl_refuse(const char *file, int32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes "warning: file:line: " and the sentence. After the first 20 they are only counted. */
void topo_nccl_warn(topo_nccl_reader_t *reader, int32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void topo_nccl_warn_more(topo_nccl_reader_t *reader);

coll_status_t topo_nccl_add_node(topo_nccl_reader_t *reader, int32_t line, topo_kind_t kind,
                                 int32_t parent, const char *name, int32_t *node);
coll_status_t topo_nccl_add_link(topo_nccl_reader_t *reader, int32_t line, topo_link_t link);

/* A bus id ("0000:0c:00.0"): hexadecimal digits between ':' and '.'. As in NCCL, what comes after
 * other characters does not count; a warning says so. */
uint64_t topo_nccl_parse_bus_id(topo_nccl_reader_t *reader, int32_t line, const char *text);

/* Adds the links of all edges. With a warning: of devices with one bus id, the first GPU is the
 * target; links to no GPU of the host, and from a GPU to itself, are left out; of two counts of the
 * same links the smaller one is taken. */
coll_status_t topo_nccl_link_gpus(topo_nccl_reader_t *reader);

#endif

/* A graph that is made from a file of NCCL, the lines that its parts come from, and the NVLinks
 * whose targets are looked up when all bus ids are known. For nccl_xml_read.c and nccl_links.c. */
#ifndef TOPO_NCCL_READER_H
#define TOPO_NCCL_READER_H

#include "topo/graph.h"

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
  int32_t count, line;
  double gbs; /* of one link */
} topo_nccl_edge_t;

typedef struct topo_nccl_reader {
  const char *file;
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

coll_status_t topo_nccl_add_node(topo_nccl_reader_t *reader, int32_t line, topo_kind_t kind,
                                 int32_t parent, const char *name, int32_t *node);
coll_status_t topo_nccl_add_link(topo_nccl_reader_t *reader, int32_t line, topo_link_t link);

/* Parses a bus id ("0000:0c:00.0"): hexadecimal digits between ':' and '.'. */
coll_status_t topo_nccl_parse_bus_id(const topo_nccl_reader_t *reader, int32_t line,
                                     const char *text, uint64_t *id);

/* Adds the links of all edges. COLL_ERROR_INVALID: two devices of a host have one bus id, a target
 * is no GPU of the host, or two GPUs count their links differently. */
coll_status_t topo_nccl_link_gpus(topo_nccl_reader_t *reader);

#endif

/* The state of reading a file of NCCL, its attributes and elements. For nccl_xml_*.c. */
#ifndef TOPO_NCCL_PARSER_H
#define TOPO_NCCL_PARSER_H

#include <expat.h>

#include "topo/nccl_reader.h"
#include "topo/nccl_xml.h"

enum { TOPO_NCCL_CPUS_MAX = 256, TOPO_NCCL_NUMBER_MAX = 1 << 20, TOPO_NCCL_DEV_MAX = 1 << 14 };

typedef enum topo_nccl_element {
  TOPO_NCCL_FILE,
  TOPO_NCCL_SYSTEM,
  TOPO_NCCL_CPU,
  TOPO_NCCL_PCI,
  TOPO_NCCL_GPU,
  TOPO_NCCL_NIC,
  TOPO_NCCL_NET,
  TOPO_NCCL_NVLINK,
  TOPO_NCCL_XGMI,
  TOPO_NCCL_C2C,
  TOPO_NCCL_UNKNOWN, /* ignored, with all that it contains */
} topo_nccl_element_t;

/* An open element. */
typedef struct topo_nccl_frame {
  topo_nccl_element_t element;
  const char *name; /* of the element */
  int32_t line;
  int32_t node;   /* of the graph; TOPO_NONE: none, or a <pci> that has none yet */
  int32_t device; /* pci: its index */
  uint32_t pci_class, vendor, model;
  double pcie_gbs, link_gbs; /* pci: of its link; gpu: of one NVLink */
  bool speed_known, has_c2c; /* pci: its GPU has c2c */
  bool is_ignored;           /* gpu: another one of its pci */
} topo_nccl_frame_t;

/* Numbers that devices of a host have. */
typedef struct topo_nccl_numbers {
  uint64_t *words;
  size_t capacity;
  int32_t next; /* above all of them */
} topo_nccl_numbers_t;

typedef struct topo_nccl_host {
  uint64_t hash;
  int32_t node, cpu_count, cpus[TOPO_NCCL_CPUS_MAX];
  double cpu_gbs;   /* between two of them */
  int32_t switches; /* number of the next one */
  topo_nccl_numbers_t numas, packages, gpus, nics;
} topo_nccl_host_t;

typedef struct topo_nccl_net {
  int32_t line, dev;
  int64_t mbps;
  double latency_us;
  char name[TOPO_NAME_BYTES];
} topo_nccl_net_t;

typedef struct topo_nccl_parser {
  topo_nccl_reader_t reader;
  XML_Parser xml;
  coll_status_t status;
  topo_nccl_frame_t frames[TOPO_NCCL_DEPTH_MAX];
  int depth;               /* open elements; frames[0] is the file */
  topo_nccl_host_t *hosts; /* cpus of a host need not be neighbours */
  size_t host_count, host_capacity;
  topo_nccl_host_t *host; /* of the current cpu */
  topo_nccl_net_t *nets;  /* of the current nic */
  size_t net_count, net_capacity;
  const char **attributes; /* of the current element: name, value, name, value, NULL */
} topo_nccl_parser_t;

/* A warning, or COLL_ERROR_INVALID, with file and line of the current element. */
#define TOPO_NCCL_WARN(parser, ...) \
  topo_nccl_warn(&(parser)->reader, topo_nccl_line(parser), __VA_ARGS__)
#define TOPO_NCCL_REFUSE(parser, ...) \
  topo_nccl_refuse((parser)->reader.file, topo_nccl_line(parser), __VA_ARGS__)

int32_t topo_nccl_line(const topo_nccl_parser_t *parser);

/* The innermost open element. The one that contains it is before it. */
topo_nccl_frame_t *topo_nccl_top(topo_nccl_parser_t *parser);

/* The value of an attribute, or NULL. */
const char *topo_nccl_find(const topo_nccl_parser_t *parser, const char *name);

/* The same. COLL_ERROR_INVALID: it is missing. */
coll_status_t topo_nccl_take_text(topo_nccl_parser_t *parser, const char *name, const char **text);

/* A number in [least, most]. Digits before other characters count, as in NCCL, with a warning.
 * COLL_ERROR_INVALID: it is missing or another one. */
coll_status_t topo_nccl_take_number(topo_nccl_parser_t *parser, const char *name, int64_t least,
                                    int64_t most, int64_t *number);

/* The same; `otherwise` if the attribute is missing or "", or, with a warning, another one. */
int64_t topo_nccl_take_number_or(topo_nccl_parser_t *parser, const char *name, int64_t least,
                                 int64_t most, int64_t otherwise);

/* *number: `wanted`, or if a device has that already, the next one. COLL_ERROR_MEMORY. */
coll_status_t topo_nccl_take_free(topo_nccl_numbers_t *numbers, int64_t wanted, int32_t *number);

/* Copies a text, cut to `bytes`, with '_' for all but printable ASCII. */
void topo_nccl_copy_ascii(char *copy, size_t bytes, const char *text);

/* Adds a node whose name is printed. */
coll_status_t topo_nccl_add_named(topo_nccl_parser_t *parser, int32_t line, topo_kind_t kind,
                                  int32_t parent, int32_t *node, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* The number of the current host. */
int topo_nccl_host_index(const topo_nccl_parser_t *parser);

/* Ignores the current element and what it contains, with a warning: "<pci> in <gpu> is ignored: "
 * and the reason. */
void topo_nccl_ignore(topo_nccl_parser_t *parser, const char *why);

/* What follows from the beginning or end of an element, the current one. `within`: the element that
 * contains a nic. COLL_ERROR_INVALID with file and line. */
coll_status_t topo_nccl_begin_cpu(topo_nccl_parser_t *parser);
coll_status_t topo_nccl_begin_pci(topo_nccl_parser_t *parser);
coll_status_t topo_nccl_begin_gpu(topo_nccl_parser_t *parser);
coll_status_t topo_nccl_begin_nvlink(topo_nccl_parser_t *parser);
coll_status_t topo_nccl_begin_c2c(topo_nccl_parser_t *parser);
coll_status_t topo_nccl_begin_net(topo_nccl_parser_t *parser);
coll_status_t topo_nccl_end_pci(topo_nccl_parser_t *parser, topo_nccl_frame_t *pci);
coll_status_t topo_nccl_end_nic(topo_nccl_parser_t *parser, topo_nccl_frame_t *within);

#endif

/*
 * Network devices as Linux shows them in sysfs (Documentation/ABI: sysfs-class-infiniband,
 * sysfs-class-net). The folder where sysfs is mounted is a parameter, so that tests can give a
 * recorded tree.
 */
#ifndef TOPO_SYSFS_H
#define TOPO_SYSFS_H

#include "topo/graph.h"
#include "topo/pci.h"

#define TOPO_SYSFS "/sys"

typedef struct topo_sysfs_nic {
  char name[TOPO_NAME_BYTES]; /* "mlx5_0", "eth0" */
  bool is_rdma;               /* Infiniband or RoCE */
  bool is_infiniband;         /* the link layer; false: Ethernet */
  double gigabytes_per_s;     /* per direction, of its active ports; 0: none, or not reported */
  int32_t numa;               /* NUMA node near it; -1: not known */
  int64_t address;            /* of its PCI function; TOPO_PCI_NONE: it has none */
} topo_sysfs_nic_t;

/* The devices of class/infiniband, then those of class/net that have hardware, by name. The caller
 * frees *nics. Files that are missing or unreadable mean that nothing is reported.
 * COLL_ERROR_MEMORY. */
coll_status_t topo_sysfs_nics(const char *root, topo_sysfs_nic_t **nics, size_t *count);

/* The first line of folder/name/file_name; "" if there is none. */
#define TOPO_SYSFS_LINE_BYTES 256
void topo_sysfs_line(const char *folder, const char *name, const char *file_name,
                     char line[TOPO_SYSFS_LINE_BYTES]);

/* The address of a PCI function from its name, "0000:3b:00.1". */
bool topo_sysfs_parse_address(const char *name, int64_t *address);

/* Differs, but for chance, if the PCI functions, network devices or online cpus do. Reads names
 * only, which takes some 100 us. */
uint64_t topo_sysfs_digest(const char *root);

#endif

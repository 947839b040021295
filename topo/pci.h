/* Addresses of PCI functions as numbers, by which hwloc, sysfs and NVML are matched; and what they
 * are. */
#ifndef TOPO_PCI_H
#define TOPO_PCI_H

#include <stdbool.h>
#include <stdint.h>

#define TOPO_PCI_NONE INT64_C(-1) /* not a PCI function */

static inline int64_t topo_pci_address(uint32_t domain, uint32_t bus, uint32_t device,
                                       uint32_t function) {
  return (int64_t)domain << 16 | (int64_t)(bus & 255) << 8 | (device & 31) << 3 | (function & 7);
}

/* Display controllers that compute nothing, by the vendor of the function. */
bool topo_pci_is_display_only(unsigned vendor);

/* Whether a class (two bytes: class and subclass) is that of GPUs or accelerators. */
bool topo_pci_is_gpu(unsigned class_id, unsigned vendor);

/* GB/s per direction of a link of so many lanes with so many gigatransfers per second; 0 if one of
 * them is 0. */
double topo_pci_gbs(double transfers, double lanes);

#endif

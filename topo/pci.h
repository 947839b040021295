/* Addresses of PCI functions as numbers, by which hwloc, sysfs and NVML are matched. */
#ifndef TOPO_PCI_H
#define TOPO_PCI_H

#include <stdint.h>

#define TOPO_PCI_NONE INT64_C(-1) /* not a PCI function */

static inline int64_t topo_pci_address(uint32_t domain, uint32_t bus, uint32_t device,
                                       uint32_t function) {
  return (int64_t)domain << 16 | (int64_t)(bus & 255) << 8 | (device & 31) << 3 | (function & 7);
}

#endif

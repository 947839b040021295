/* PCI Code and ID Assignment Specification; PCI Express Base Specification. */
#include "topo/pci.h"

#include <stddef.h>

/* ASPEED and Matrox (management processors), Bochs, Cirrus, virtio, VMware, VirtualBox, Hyper-V. */
bool topo_pci_is_display_only(unsigned vendor) {
  static const unsigned vendors[] = {0x1a03, 0x102b, 0x1234, 0x1b36, 0x1013,
                                     0x1af4, 0x15ad, 0x80ee, 0x1414};
  for (size_t i = 0; i < sizeof vendors / sizeof vendors[0]; i++) {
    if (vendors[i] == vendor) return true;
  }
  return false;
}

bool topo_pci_is_gpu(unsigned class_id, unsigned vendor) {
  unsigned class_of = class_id >> 8;
  return (class_of == 0x03 && !topo_pci_is_display_only(vendor)) || class_of == 0x12;
}

double topo_pci_gbs(double transfers, double lanes) {
  double efficiency = transfers < 8 ? 8.0 / 10 : 128.0 / 130;
  return transfers * efficiency * lanes / 8;
}

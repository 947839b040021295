/* NICs of a recorded tree, and the digest of the device list. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "tests/topo/tree.h"
#include "topo/sysfs.h"

#define MLX5 "devices/pci0000:16/0000:16:01.0/0000:17:00.1"
#define VIRTIO "devices/pci0000:00/0000:00:03.0/virtio1"

static char root[TREE_BYTES];

/* An RDMA device with two ports, one of them down, its network interface, a virtio interface whose
 * link has no speed, loopback and a bridge. */
static void make_tree(void) {
  tree_make(root);
  tree_link(root, "class/infiniband/mlx5_0/device", MLX5);
  tree_add(root, MLX5 "/numa_node", "1\n");
  tree_add(root, "class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  tree_add(root, "class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
  tree_add(root, "class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
  tree_add(root, "class/infiniband/mlx5_0/ports/2/state", "1: DOWN\n");
  tree_add(root, "class/infiniband/mlx5_0/ports/2/rate", "10 Gb/sec (4X SDR)\n");
  tree_link(root, "class/net/ib0/device", MLX5);
  tree_add(root, "class/net/ib0/speed", "25000\n");
  tree_link(root, "class/net/eth0/device", VIRTIO);
  tree_add(root, "class/net/eth0/speed", "-1\n");
  tree_add(root, "class/net/lo/speed", "");
  tree_add(root, "class/net/br0/speed", "10000\n");
  tree_add(root, "bus/pci/devices/0000:17:00.1/vendor", "0x15b3\n");
  tree_add(root, "devices/system/cpu/online", "0-7\n");
}

Test(sysfs, nics_have_rate_address_and_numa_node) {
  topo_sysfs_nic_t *nics;
  size_t count;
  make_tree();
  cr_assert_eq(topo_sysfs_nics(root, &nics, &count), COLL_OK);
  cr_assert_eq(count, 3, "%zu: interfaces without hardware count", count);
  cr_assert_str_eq(nics[0].name, "mlx5_0");
  cr_assert(nics[0].is_rdma && nics[0].is_infiniband && nics[0].numa == 1);
  cr_assert_float_eq(nics[0].gigabytes_per_s, 50.0, 1e-9, "the port that is down counts");
  cr_assert_eq(nics[0].address, topo_pci_address(0, 0x17, 0, 1));
  cr_assert_str_eq(nics[1].name, "eth0");
  cr_assert(!nics[1].is_rdma && nics[1].gigabytes_per_s == 0 && nics[1].numa == -1);
  cr_assert_eq(nics[1].address, topo_pci_address(0, 0, 3, 0), "a virtio device's function");
  cr_assert_str_eq(nics[2].name, "ib0");
  cr_assert_float_eq(nics[2].gigabytes_per_s, 3.125, 1e-9);
  free(nics);
  tree_remove(root);
}

Test(sysfs, a_missing_tree_has_no_nics) {
  topo_sysfs_nic_t *nics;
  size_t count;
  cr_assert_eq(topo_sysfs_nics("/nowhere", &nics, &count), COLL_OK);
  cr_assert_eq(count, 0);
  free(nics);
}

Test(sysfs, the_digest_follows_the_device_list) {
  make_tree();
  uint64_t before = topo_sysfs_digest(root);
  tree_add(root, "class/net/veth7/speed", "10000\n");
  tree_add(root, "class/infiniband/mlx5_0/ports/2/state", "4: ACTIVE\n");
  cr_assert_eq(topo_sysfs_digest(root), before, "software interfaces and states do not count");
  tree_add(root, "bus/pci/devices/0000:18:00.0/vendor", "0x10de\n");
  uint64_t with_gpu = topo_sysfs_digest(root);
  cr_assert_neq(with_gpu, before);
  tree_add(root, "devices/system/cpu/online", "0-3\n");
  cr_assert_neq(topo_sysfs_digest(root), with_gpu);
  tree_remove(root);
}

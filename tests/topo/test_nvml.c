/* What the stand-in for NVML reports. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "topo/nvml.h"

static topo_nvml_gpu_t *gpus_of(const char *machine, size_t expected) {
  topo_nvml_gpu_t *gpus;
  size_t count;
  setenv("NVML_STUB", machine, 1);
  cr_assert_eq(topo_nvml_gpus(NVML_STUB_LIBRARY, &gpus, &count), COLL_OK, "%s", base_last_error());
  cr_assert_eq(count, expected);
  return gpus;
}

Test(nvml, direct_links_lead_to_the_other_gpu) {
  topo_nvml_gpu_t *gpus = gpus_of("direct", 2);
  cr_assert_str_eq(gpus[1].model, "Stub GPU 1");
  cr_assert_eq(gpus[1].address, topo_pci_address(0, 0x82, 0, 0));
  cr_assert(gpus[0].reaches_peers && gpus[0].link_count == 4);
  for (int i = 0; i < 4; i++) {
    cr_assert_eq(gpus[0].links[i].remote, TOPO_NVML_REMOTE_GPU);
    cr_assert_eq(gpus[0].links[i].address, gpus[1].address);
    cr_assert_eq(gpus[0].links[i].gigabytes_per_s, 25.0);
  }
  free(gpus);
}

Test(nvml, switches_are_told_from_gpus) {
  topo_nvml_gpu_t *gpus = gpus_of("switches", 2);
  cr_assert_eq(gpus[0].link_count, 18);
  cr_assert_eq(gpus[0].links[17].remote, TOPO_NVML_REMOTE_SWITCH);
  cr_assert(gpus[0].reaches_peers);
  free(gpus);
  gpus = gpus_of("refused", 2);
  cr_assert_not(gpus[0].reaches_peers);
  free(gpus);
}

Test(nvml, without_driver_or_library_there_are_no_gpus) {
  topo_nvml_gpu_t *gpus = gpus_of("none", 0);
  size_t count = 7;
  cr_assert_null(gpus);
  cr_assert_eq(topo_nvml_gpus("/nowhere/libnvidia-ml.so.1", &gpus, &count), COLL_OK);
  cr_assert(gpus == NULL && count == 0);
}

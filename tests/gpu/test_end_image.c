/*
 * The kernel's code in this build: either there is none, which an end says, or it is a fatbin.
 */
#include "device/cuda/end.h"
#include "device/cuda/image.h"
#include "gpu/gpu.h"

#ifdef CUDA_HAS_IMAGE
Test(end_image, is_a_fatbin) {
  const uint32_t magic = 0xba55ed50;
  cr_assert(memcmp(cuda_image(), &magic, sizeof magic) == 0);
}
#else
Test(end_image, is_missed) {
  const cuda_end_config_t config = {.size = 1};
  cuda_end_t *end;
  cr_assert(cuda_image() == NULL);
  GPU_FAILS(COLL_ERROR_UNSUPPORTED, "this build of libcoll has no kernel for GPUs",
            cuda_end_create(gpu_driver(), &config, &end));
  gpu_expect_clean();
}
#endif

/*
 * The kernels' code in this build: either there is none, which an end says, or each is a fatbin of
 * its own.
 */
#include "device/cuda/end.h"
#include "device/cuda/image.h"
#include "gpu/gpu.h"

#ifdef CUDA_HAS_IMAGE
Test(end_image, is_a_fatbin_of_each_kernel) {
  const uint32_t magic = 0xba55ed50;
  const void *last = NULL;
  for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++) {
    for (int ops = 0; ops < GPU_OPS_COUNT; ops++) {
      const void *image = cuda_image((coll_dtype_t)dtype, (gpu_ops_t)ops);
      cr_assert(memcmp(image, &magic, sizeof magic) == 0);
      cr_assert(image != last);
      last = image;
    }
  }
}
#else
Test(end_image, is_missed) {
  const cuda_end_config_t config = {.size = 1};
  cuda_end_t *end;
  cr_assert(cuda_image(COLL_FLOAT32, GPU_OPS_SUM) == NULL);
  GPU_FAILS(COLL_ERROR_UNSUPPORTED, "this build of libcoll has no kernel for GPUs",
            cuda_end_create(gpu_driver(), &config, &end));
  gpu_expect_clean();
}
#endif

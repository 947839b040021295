/* Finds the kernel's code: image.S has it where it was compiled. Otherwise nothing defines the
 * symbol, unless another library of the process does, as that of the tests. */
#include "device/cuda/image.h"

#include <stddef.h>

#ifdef CUDA_HAS_IMAGE
extern const char coll_cuda_image[];
#else
extern const char coll_cuda_image[] __attribute__((weak));
#endif

const void *cuda_image(void) {
  const char *image = coll_cuda_image;
  return image;
}

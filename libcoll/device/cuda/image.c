/* Finds the kernels' code: image.S has it where it was compiled. Otherwise nothing defines the
 * symbol, unless another library of the process does, as that of the tests. */
#include "device/cuda/image.h"

#include "device/cuda/dtypes.h"

enum {
#define PLACE_OF(dtype, number) PLACE_##dtype,
  GPU_DTYPES(PLACE_OF) PLACES
};
#define IS_IN_ORDER(dtype, number) \
  _Static_assert((int)PLACE_##dtype == (int)(number), "the order of dtypes.h");
GPU_DTYPES(IS_IN_ORDER)
_Static_assert((int)PLACES == (int)COLL_DTYPE_COUNT, "the dtypes of dtypes.h");

/* Of each dtype, of each set of operations: where its code begins, in bytes from the table. */
#ifdef CUDA_HAS_IMAGE
extern const int64_t coll_cuda_image[];
#else
extern const int64_t coll_cuda_image[] __attribute__((weak));
#endif

const void *cuda_image(coll_dtype_t dtype, gpu_ops_t ops) {
  const int64_t *places = coll_cuda_image;
  if (places == NULL) return NULL;
  return (const char *)places + places[(int)dtype * GPU_OPS_COUNT + (int)ops];
}

/* The kernels' code, as nvcc compiled it for each dtype and set of operations, behind a table of
 * where each begins (image.h). The assembler finds the files in its include path. */
#include "device/cuda/dtypes.h"

#define IMAGE_FILE(name) .incbin #name
#define IMAGE_OF(dtype, ops)    \
  .balign 64;                   \
  .Limage_##dtype##_##ops:      \
  IMAGE_FILE(kernel_##dtype##_##ops.fatbin);
#define IMAGES_OF(dtype, number) IMAGE_OF(dtype, sum) IMAGE_OF(dtype, other)
#define PLACE_OF(dtype, ops) .quad .Limage_##dtype##_##ops - coll_cuda_image;
#define PLACES_OF(dtype, number) PLACE_OF(dtype, sum) PLACE_OF(dtype, other)

        .section .rodata.coll_cuda_image, "a", %progbits
        .balign 64
        .global coll_cuda_image
        .hidden coll_cuda_image
        .type coll_cuda_image, %object
coll_cuda_image:
        GPU_DTYPES(PLACES_OF)
        GPU_DTYPES(IMAGES_OF)
        .size coll_cuda_image, . - coll_cuda_image
        .section .note.GNU-stack, "", %progbits

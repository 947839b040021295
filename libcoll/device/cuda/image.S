/* The kernel's code, as nvcc compiled it. KERNEL_FATBIN is the file's name. */
        .section .rodata.coll_cuda_image, "a", %progbits
        .balign 64
        .global coll_cuda_image
        .hidden coll_cuda_image
        .type coll_cuda_image, %object
coll_cuda_image:
        .incbin KERNEL_FATBIN
        .size coll_cuda_image, . - coll_cuda_image
        .section .note.GNU-stack, "", %progbits

/*
 * The kernel's code for GPUs, which meson compiles where option `cuda` is enabled.
 */
#ifndef DEVICE_CUDA_IMAGE_H
#define DEVICE_CUDA_IMAGE_H

#define CUDA_KERNEL_NAME "gpu_run_kernel"

/* What cuModuleLoadData takes: a fatbin. NULL: this build has none. */
const void *cuda_image(void);

#endif

/*
 * The kernels' code for GPUs, which meson compiles where option `cuda` is enabled.
 */
#ifndef DEVICE_CUDA_IMAGE_H
#define DEVICE_CUDA_IMAGE_H

#include "device/cuda/call.h"

/* What cuModuleLoadData takes: a fatbin with the kernels gpu_run_DTYPE_OPS and
 * gpu_compute_DTYPE_OPS, as in gpu_run_float32_sum. NULL: this build has none. */
const void *cuda_image(coll_dtype_t dtype, gpu_ops_t ops);

#endif

/*
 * The kernels for CUDA devices, compiled for each dtype and set of operations by itself:
 *
 *   GPU_DTYPE   as in float32
 *   GPU_OPS     of gpu_ops_t
 *   GPU_UNIT    both, as in float32_sum, behind the names of its kernels
 */
#define GPU_NAME_OF(kernel, unit) kernel##_##unit
#define GPU_NAME(kernel, unit) GPU_NAME_OF(kernel, unit)
#define gpu_run_kernel GPU_NAME(gpu_run, GPU_UNIT)
#define gpu_compute_kernel GPU_NAME(gpu_compute, GPU_UNIT)

#include "device/cuda/compute_kernel.c"
#include "device/cuda/kernel.c"

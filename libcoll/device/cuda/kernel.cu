/* The kernels, compiled for CUDA devices. */
#include "device/cuda/compute_kernel.c"
#include "device/cuda/kernel.c"

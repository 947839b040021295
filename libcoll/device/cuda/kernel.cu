/* The kernel, compiled for CUDA devices. */
#include "device/cuda/kernel.c"

/*
 * The kernel on the stand-in's GPUs: a shared library that registers it when it is loaded, and says
 * that the build has the kernel's code. A launch then runs the blocks of the kernel as threads of
 * this process, by virtual.h, in an order and with delays drawn from COLL_STANDIN_SEED. A GPU has
 * as many blocks resident as the driver's occupancy function says.
 *
 * Programs are linked with it (standin_kernel_dep), or started with LD_PRELOAD. Either way the
 * stand-in for NVIDIA's driver is loaded, too.
 */
#ifndef TESTS_GPU_STANDIN_KERNEL_H
#define TESTS_GPU_STANDIN_KERNEL_H

#include "gpu/standin/standin.h"

/* How many launches of the kernel have begun in this process. A program that is linked with the
 * library must call it: the linker leaves out libraries that are not called. */
STANDIN_API int standin_kernel_launches(void);

#endif

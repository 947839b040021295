/*
 * What CUDA's driver knows, if the program has loaded it. The front end has no code for GPUs yet;
 * this is how it refuses their memory instead of reading it.
 */
#ifndef FRONTENDS_NCCL_DRIVER_H
#define FRONTENDS_NCCL_DRIVER_H

#include <stdbool.h>

/* The calling thread's device; 0 if it has none. Also looks for the driver, which programs load
 * before they make a communicator. */
int nccl_driver_device(void);

/* Whether it is memory of a GPU that this process cannot read. NULL: no. */
bool nccl_driver_owns(const void *ptr);

#endif

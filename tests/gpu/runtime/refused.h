/*
 * What refused.c, which sees no header of NVIDIA, calls of the rest.
 */
#ifndef TESTS_GPU_RUNTIME_REFUSED_H
#define TESTS_GPU_RUNTIME_REFUSED_H

/* Ends a call with cudaErrorNotSupported, and names what was asked for on standard error. */
int runtime_refuse(const char *what);

#endif

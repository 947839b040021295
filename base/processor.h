/* Name of the processor. */
#ifndef BASE_PROCESSOR_H
#define BASE_PROCESSOR_H

#include <stddef.h>

/* Writes the name from /proc/cpuinfo, truncated to `bytes`; "unknown" if it is not found. */
void base_processor_name(char *name, size_t bytes);

#endif

/* What the processor is called. */
#ifndef BASE_PROCESSOR_H
#define BASE_PROCESSOR_H

#include <stddef.h>

/* By /proc/cpuinfo, as much as there is room for; "unknown" where it does not say. */
void base_processor_name(char *name, size_t bytes);

#endif

/*
 * Counts what the calling thread allocates: the program is linked so that calls of the allocators
 * from libtrain come here (meson.build). What libcoll and other libraries allocate is not counted.
 */
#ifndef TESTS_LIBTRAIN_PLANNER_COUNTING_H
#define TESTS_LIBTRAIN_PLANNER_COUNTING_H

#include <stddef.h>

/* Bytes allocated and not freed by this thread so far. */
size_t counting_bytes(void);

#endif

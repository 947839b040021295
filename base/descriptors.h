/* How many file descriptors the process may have. */
#ifndef BASE_DESCRIPTORS_H
#define BASE_DESCRIPTORS_H

#include <stddef.h>

/* Raises the process's soft limit, where it is lower, so that `more` descriptors can be opened
 * beside those that are open; by no more than its hard limit allows. Whether that is enough shows
 * where one is opened. */
void base_descriptors_make_room(size_t more);

#endif

/* Limit on the number of open file descriptors. */
#ifndef BASE_DESCRIPTORS_H
#define BASE_DESCRIPTORS_H

#include <stddef.h>

/* Raises the process's soft limit, up to its hard limit, so that `more` descriptors can be opened
 * in addition to those that are open. A failure is not reported here: opening a descriptor fails
 * later. */
void base_descriptors_make_room(size_t more);

#endif

/* Layouts of known machines with the links between ranks, for tests. */
#ifndef TESTS_TOPO_LAYOUTS_H
#define TESTS_TOPO_LAYOUTS_H

#include "topo/layout.h"

/* Of `ranks` on the hosts of topo_make. Fails the test if it cannot be made. Owned by the caller.
 */
topo_layout_t *test_layout_of(const char *kind, int32_t hosts, const char *fabric, int32_t ranks);

#endif

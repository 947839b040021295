/* In place of UCX where its headers were missing when libcoll was built. */
#include "transport/net/wire/ucx/ucx.h"

coll_status_t ucx_wire_open(wire_t **wire) {
  (void)wire;
  return base_fail(COLL_ERROR_UNSUPPORTED,
                   "this libcoll was built without UCX; install its headers (Debian: libucx-dev) "
                   "and build it again");
}

const base_knob_t *ucx_wire_knob(int index) {
  (void)index;
  return NULL;
}

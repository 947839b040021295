/* In place of UCX where its headers were missing when libcoll was built. */
#include "transport/ucx/ucx.h"

coll_status_t transport_ucx_open(tcp_netmod_t **netmod) {
  (void)netmod;
  return base_fail(COLL_ERROR_UNSUPPORTED,
                   "this libcoll was built without UCX; install its headers (Debian: libucx-dev) "
                   "and build it again");
}

const base_knob_t *transport_ucx_knob(int index) {
  (void)index;
  return NULL;
}

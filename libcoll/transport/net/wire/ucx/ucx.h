/*
 * UCX (openucx.org) as a wire: frames are active messages of UCP, over whatever network UCX
 * knows. The library is loaded at run time. Any version from 1.11 on will do.
 */
#ifndef TRANSPORT_NET_WIRE_UCX_UCX_H
#define TRANSPORT_NET_WIRE_UCX_UCX_H

#include "base/knob.h"
#include "transport/net/wire/ops.h"

/* Opens UCX with the devices of this machine. COLL_ERROR_UNSUPPORTED: there is no library, or
 * libcoll was built without it. COLL_ERROR_SYSTEM: says what UCX says. COLL_ERROR_MEMORY. */
coll_status_t ucx_wire_open(wire_t **wire);

/* NULL past the last. */
const base_knob_t *ucx_wire_knob(int index);

#endif

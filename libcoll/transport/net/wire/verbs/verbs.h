/*
 * The wire over RDMA devices (InfiniBand, RoCE), by libibverbs: reliable connections (RC queue
 * pairs) between two ranks, made when first used; frames are sent by the first of them, to buffers
 * that a rank shares among all its peers (a shared receive queue).
 */
#ifndef TRANSPORT_NET_WIRE_VERBS_VERBS_H
#define TRANSPORT_NET_WIRE_VERBS_VERBS_H

#include "base/knob.h"
#include "transport/net/wire/ops.h"

/* Opens the devices of one rank. The wire is the caller's until it is attached.
 * COLL_ERROR_INVALID: a knob is wrong. COLL_ERROR_UNSUPPORTED: there is no library or no device
 * that can be used. COLL_ERROR_SYSTEM, COLL_ERROR_MEMORY: the device refuses something. */
coll_status_t verbs_wire_open(wire_t **wire);

/* The wire's knobs; NULL past the last. */
const base_knob_t *verbs_wire_knob(int index);

#endif

/*
 * Messages between two ranks while a communicator is created: straight over its transport, so that
 * they are none of its calls. They are not numbered, recorded or counted, and errors name the
 * creation. A wait ends when the peer is lost, the creation fails or is given up (base/cancel.h),
 * or at a deadline.
 */
#ifndef CALIBRATE_NETWORK_LINK_H
#define CALIBRATE_NETWORK_LINK_H

#include <stddef.h>
#include <stdint.h>

#include "comm/comm.h"

typedef struct network_link {
  struct coll_comm *comm;
  int peer;
  transport_port_t *port;
  uint64_t deadline_ns; /* of each wait, as base_clock_now_ns */
} network_link_t;

network_link_t calibrate_link_to(struct coll_comm *comm, int peer, uint64_t deadline_ns);

/* Sends out_bytes and receives in_bytes at the same time; the peer's call has these sizes the other
 * way round. The transport may still be sending after the return, but not from `out`. Fails after
 * it ended the communicator: COLL_ERROR_RANK_LOST, COLL_ERROR_TIMEOUT (of the peer), or with the
 * failure of another rank. */
coll_status_t calibrate_link_exchange(const network_link_t *link, const void *out, size_t out_bytes,
                                      void *in, size_t in_bytes);

#endif

/* One rank's end of the transport. One thread at a time uses it, under its lock: beside the holder
 * of the communicator's lock, any thread may abort. */
#ifndef TRANSPORT_NET_STATE_H
#define TRANSPORT_NET_STATE_H

#include "transport/net/channel/channel.h"
#include "transport/net/connect/connect.h"
#include "transport/net/wire/socket/socket.h"

typedef struct net {
  transport_t transport;
  pthread_mutex_t lock;
  net_pairs_t pairs;
  net_channels_t channels;
  wire_t *sockets;  /* whose descriptor is what a rank that sleeps waits for */
  wire_t *wire;     /* NULL: none */
  bool wire_is_due; /* as it said at arm */
  bool is_complete; /* it was created */
  char *scratch;    /* [NET_SCRATCH_BYTES]: this rank's own */
} net_t;

#define NET_SCRATCH_BYTES (2 * NET_SLOT_BYTES)

/* Descriptors in the wait set that are no link's of the sockets. */
#define NET_WAKEUP_EVENT UINT32_MAX
#define NET_WIRE_EVENT (UINT32_MAX - 1)

static inline net_t *net_of(transport_t *t) {
  return (net_t *)(void *)t;
}

extern const transport_ops_t net_ops;
extern const transport_fetch_ops_t net_fetch_ops;

#endif

/*
 * Connects the ranks of a new communicator: by shared memory those of one host, else by a wire
 * that both have (wires.h) or by TCP, as the settings allow (settings.h). Two ranks are on one
 * host if their host identities are equal (topo/host.h, or COLL_HOST_ID).
 */
#ifndef TRANSPORT_CONNECT_H
#define TRANSPORT_CONNECT_H

#include "base/net/secret.h"
#include "topo/host.h"
#include "transport/net/connect/names.h"
#include "transport/ops.h"
#include "transport/settings.h"
#include "transport/shm/mesh.h"
#include "transport/watch.h"

/* How a rank can be reached; exchanged by the communicator's bootstrap. */
typedef struct transport_name {
  char host[TOPO_HOST_BYTES];
  shm_mesh_name_t shm; /* length 0: not by shared memory */
  net_name_t tcp;      /* count 0: not between hosts */
  uint8_t wire;        /* 1 + the index of its kind: the one that it has opened; 0: none */
  uint8_t sockets;     /* 1: they may carry messages too */
} transport_name_t;

#define TRANSPORT_NONE_BYTES 512

/* What a rank listens on. Closed by transport_listener_close, or taken over by transport_connect.
 */
typedef struct transport_listener {
  shm_mesh_t mesh;
  net_listener_t tcp;
  wire_t *wire;                        /* NULL: none */
  char why_none[TRANSPORT_NONE_BYTES]; /* of each wire that could not be opened, why */
} transport_listener_t;

/* A listener that listens on nothing. */
transport_listener_t transport_listener_none(void);

/* COLL_ERROR_INVALID: a knob of a wire, or the list of interfaces, is wrong. COLL_ERROR_SYSTEM.
 */
coll_status_t transport_listen(const transport_settings_t *settings, transport_listener_t *listener,
                               transport_name_t *name);
void transport_listener_close(transport_listener_t *listener);

/* Speed of the fastest interface to other hosts, in Mb/s; 0: not known. */
uint32_t transport_name_megabits(const transport_name_t *name);

/* How many of its interfaces each connection takes at once (COLL_INTERFACES). */
uint32_t transport_name_rails(const transport_name_t *name);

/* Whether the two ranks are on one host. */
bool transport_same_host(const transport_name_t *a, const transport_name_t *b);

/* Whether they are, and both may use shared memory. An equivalence. A rank does with itself. */
bool transport_share_memory(const transport_name_t *a, const transport_name_t *b);

typedef struct transport_group {
  int rank, size;
  const transport_name_t *names; /* [size] */
  bool one_process;              /* the ranks are threads of one process */
  uint64_t session;              /* the same on all ranks, and different for every communicator */
  const base_secret_t *secret;   /* likewise */
  uint64_t deadline_ns;
  const transport_watch_t *watch; /* NULL: none */
} transport_group_t;

/* Creates this rank's end of a transport to all others. Takes over the listener, also on failure.
 * COLL_ERROR_UNSUPPORTED: the ranks have no transport in common. COLL_ERROR_RANK_LOST: a peer has
 * disconnected. COLL_ERROR_TIMEOUT: names a rank that did not connect. Otherwise a failure of the
 * watch. */
coll_status_t transport_connect(transport_listener_t *listener, const transport_group_t *group,
                                transport_t **t);

/* Creates all ends at once, for ranks that are threads of this process: ends[i] is rank i's, owned
 * by the caller. COLL_ERROR_INVALID: a knob of a wire is wrong. COLL_ERROR_SYSTEM,
 * COLL_ERROR_MEMORY. */
coll_status_t transport_connect_local(const transport_choice_t *choice, int size,
                                      transport_t *ends[]);

#endif

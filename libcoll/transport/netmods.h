/*
 * The netmods (tcp/netmod.h) that can carry messages between hosts in place of sockets, and what
 * COLL_TRANSPORTS says of all transports.
 */
#ifndef TRANSPORT_NETMODS_H
#define TRANSPORT_NETMODS_H

#include "base/knob.h"
#include "transport/tcp/netmod.h"

typedef struct transport_netmod_kind {
  const char *name; /* in COLL_TRANSPORTS */

  /* COLL_ERROR_INVALID: a knob is wrong. Any other failure: this machine cannot use it, and the
   * message says why. The netmod is the caller's until it is attached. */
  coll_status_t (*open)(tcp_netmod_t **netmod);

  const base_knob_t *(*knob)(int index); /* its knobs; NULL past the last */
} transport_netmod_kind_t;

/* NULL past the last. */
const transport_netmod_kind_t *transport_netmod_kind(int index);

#define TRANSPORT_NETMODS_MAX 4

/* What may be used. */
typedef struct transport_choice {
  bool shm, tcp;
  int netmod_count;
  int netmods[TRANSPORT_NETMODS_MAX]; /* indices of kinds, in the order of preference */
} transport_choice_t;

/* Reads a list such as "shm,tcp". source: for messages (base_knob_source). COLL_ERROR_INVALID:
 * names what may be given. */
coll_status_t transport_choice_read(const char *text, const char *source,
                                    transport_choice_t *choice);

/* Opens the first of the chosen netmods that this machine can use. *kind: its index, or -1, with
 * *netmod NULL, if there is none; `why`, of `bytes` bytes, then says of each why.
 * COLL_ERROR_INVALID: a knob is wrong. */
coll_status_t transport_netmod_open(const transport_choice_t *choice, int *kind,
                                    tcp_netmod_t **netmod, char *why, size_t bytes);

#endif

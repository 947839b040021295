/*
 * The fabrics (tcp/fabric.h) that can carry messages between hosts in place of sockets, and what
 * COLL_TRANSPORTS says of all transports.
 */
#ifndef TRANSPORT_FABRICS_H
#define TRANSPORT_FABRICS_H

#include "base/knob.h"
#include "transport/tcp/fabric.h"

typedef struct transport_fabric_kind {
  const char *name; /* in COLL_TRANSPORTS */

  /* COLL_ERROR_INVALID: a knob is wrong. Any other failure: this machine cannot use it, and the
   * message says why. The fabric is the caller's until it is attached. */
  coll_status_t (*open)(tcp_fabric_t **fabric);

  const base_knob_t *(*knob)(int index); /* its knobs; NULL past the last */
} transport_fabric_kind_t;

/* NULL past the last. */
const transport_fabric_kind_t *transport_fabric_kind(int index);

#define TRANSPORT_FABRICS_MAX 4

/* What may be used. */
typedef struct transport_choice {
  bool shm, tcp;
  int fabric_count;
  int fabrics[TRANSPORT_FABRICS_MAX]; /* indices of kinds, in the order of preference */
} transport_choice_t;

/* Reads a list such as "shm,tcp". source: for messages (base_knob_source). COLL_ERROR_INVALID:
 * names what may be given. */
coll_status_t transport_choice_read(const char *text, const char *source,
                                    transport_choice_t *choice);

/* Opens the first of the chosen fabrics that this machine can use. *kind: its index, or -1, with
 * *fabric NULL, if there is none; `why`, of `bytes` bytes, then says of each why.
 * COLL_ERROR_INVALID: a knob is wrong. */
coll_status_t transport_fabric_open(const transport_choice_t *choice, int *kind,
                                    tcp_fabric_t **fabric, char *why, size_t bytes);

#endif

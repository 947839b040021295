/*
 * The wires (ops.h) that can carry messages between hosts in place of sockets, and what
 * COLL_TRANSPORTS says of all transports.
 */
#ifndef TRANSPORT_NET_WIRE_WIRES_H
#define TRANSPORT_NET_WIRE_WIRES_H

#include "base/knob.h"
#include "transport/net/wire/ops.h"

typedef struct wire_kind {
  const char *name; /* in COLL_TRANSPORTS */

  /* COLL_ERROR_INVALID: a knob is wrong. Any other failure: this machine cannot use it, and the
   * message says why. The wire is the caller's until it is attached. */
  coll_status_t (*open)(wire_t **wire);

  const base_knob_t *(*knob)(int index); /* its knobs; NULL past the last */
} wire_kind_t;

/* NULL past the last. */
const wire_kind_t *wire_kind(int index);

#define WIRE_KINDS_MAX 4

/* What may be used. */
typedef struct transport_choice {
  bool shm, tcp;
  int wire_count;
  int wires[WIRE_KINDS_MAX]; /* indices of kinds, in the order of preference */
} transport_choice_t;

/* Reads a list such as "shm,tcp". source: for messages (base_knob_source). COLL_ERROR_INVALID:
 * names what may be given. */
coll_status_t transport_choice_read(const char *text, const char *source,
                                    transport_choice_t *choice);

/* Opens the first of the chosen wires that this machine can use. *kind: its index, or -1, with
 * *wire NULL, if there is none; `why`, of `bytes` bytes, then says of each why.
 * COLL_ERROR_INVALID: a knob is wrong. */
coll_status_t wire_open_first(const transport_choice_t *choice, int *kind, wire_t **wire, char *why,
                              size_t bytes);

#endif

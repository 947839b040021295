/*
 * One connection between two ranks that is being made, private to this folder. One has connected
 * to the port of the other. Both prove that they know the communicator's secret
 * (base/net/handshake.h); then the one that has connected says who it is (hello), the other
 * replies, and the first confirms: so both know that the other has the same connection, although an
 * attempt may be given up and made again at another address, or reach a host that is no rank's. A
 * rank that has closed its side of the pair for good refuses in place of the reply: without that,
 * the other would take each connection for one that was reset, and make the next.
 */
#ifndef TRANSPORT_NET_CONNECT_ATTEMPT_H
#define TRANSPORT_NET_CONNECT_ATTEMPT_H

#include <stdbool.h>

#include "base/net/address.h"
#include "base/net/handshake.h"
#include "transport/net/connect/names.h"

#define NET_PURPOSE "ranks" /* of handshakes */

/* Who this rank is. */
typedef struct net_identity {
  int rank, size;
  uint64_t session;
  base_secret_t secret;
} net_identity_t;

typedef struct net_handshake_note {
  uint64_t magic, session;
  int32_t rank;
  uint8_t kind, rail;
  uint16_t made; /* connections that the sender had on this rail before; of a refusal: net_loss_t */
} net_handshake_note_t;

/* What has come of it. */
typedef enum net_handshake_progress {
  NET_HANDSHAKE_NONE,    /* more is to arrive */
  NET_HANDSHAKE_HELLO,   /* a rank has connected: net_attempt_reply, or close */
  NET_HANDSHAKE_REPLY,   /* the peer has replied: net_attempt_confirm, or close */
  NET_HANDSHAKE_CONFIRM, /* the peer has confirmed: the connection is the caller's */
  NET_HANDSHAKE_FAILED   /* see `failure`; the attempt is closed */
} net_handshake_progress_t;

typedef enum net_failure {
  NET_FAILURE_OTHER,   /* the peer's host has accepted it, and nothing came of it */
  NET_FAILURE_REFUSED, /* nobody listens there, or somebody who is no rank */
  NET_FAILURE_SILENT,  /* the host does not answer, or there is no way to it */
  NET_FAILURE_LOCAL,   /* this host cannot connect, see `error` */
  NET_FAILURE_GIVEN_UP /* the peer has given up this rank; error: why, net_loss_t */
} net_failure_t;

typedef struct net_attempt {
  int fd;                     /* -1: none */
  int peer;                   /* -1: not known yet */
  int rail;                   /* likewise */
  uint16_t made;              /* connections of this rank on the rail before */
  bool is_known;              /* the handshake is done */
  base_handshake_t handshake; /* of the one that has connected */
  uint64_t patience_ns;       /* for the peer to answer */
  int expects;                /* the kind of the next note from the peer */
  size_t received;            /* bytes of `note` */
  net_handshake_note_t note;
  int polled;        /* its place in what the connector polls; -1: none */
  uint64_t until_ns; /* when it is given up */
  net_failure_t failure;
  int error; /* errno of it; or see NET_FAILURE_GIVEN_UP */
} net_attempt_t;

/* Of a connection that was made to a rank, which it takes over. doublings: of the time that it has
 * to answer. False: it has failed. */
bool net_attempt_begin(net_attempt_t *attempt, int fd, int peer, int rail, uint16_t made,
                       int doublings, const net_identity_t *own);

/* Of a connection that a rank has made to this one, which it takes over: the handshake is done. */
void net_attempt_accept(net_attempt_t *attempt, int fd);

/* Goes on with what has arrived; events: of poll. Fails if it is too late. */
net_handshake_progress_t net_attempt_serve(net_attempt_t *attempt, const net_identity_t *own,
                                           short events);

/* made: connections of this rank on attempt->rail before. True: until the time given for it, or the
 * usual one if that is later, the peer may confirm. */
bool net_attempt_reply(net_attempt_t *attempt, const net_identity_t *own, uint16_t made,
                       uint64_t until_ns);

/* In place of the reply, before close: this rank has given up the peer. why: net_loss_t. */
void net_attempt_refuse(net_attempt_t *attempt, const net_identity_t *own, uint16_t why);

/* The number of this connection on its rail, from 1, once both ranks have said what they know. */
uint16_t net_attempt_number(const net_attempt_t *attempt);

/* True: the connection is the caller's. */
bool net_attempt_confirm(net_attempt_t *attempt, const net_identity_t *own);

void net_attempt_close(net_attempt_t *attempt);

/* Of the rank with that name. */
base_address_t net_address_of(const net_name_t *name, int index);

#endif

/*
 * One connection between two ranks that is being made, private to this folder. One has connected
 * to the port of the other. Both prove that they know the communicator's secret
 * (base/net/handshake.h); then the one that has connected says who it is (hello), the other
 * replies, and the first confirms: so both know that the other has the same connection, although an
 * attempt may be given up and made again at another address, or reach a host that is no rank's.
 */
#ifndef TRANSPORT_TCP_ATTEMPT_H
#define TRANSPORT_TCP_ATTEMPT_H

#include <stdbool.h>

#include "base/net/address.h"
#include "base/net/handshake.h"
#include "transport/tcp/connect.h"

#define TCP_PURPOSE "ranks" /* of handshakes */

/* Who this rank is. */
typedef struct tcp_identity {
  int rank, size;
  uint64_t session;
  base_secret_t secret;
} tcp_identity_t;

typedef struct tcp_note {
  uint64_t magic, session;
  int32_t rank;
  uint8_t kind, rail;
  uint16_t made; /* connections that the sender had on this rail before */
} tcp_note_t;

/* What has come of it. */
typedef enum tcp_progress {
  TCP_PROGRESS_NONE,    /* more is to arrive */
  TCP_PROGRESS_HELLO,   /* a rank has connected: tcp_attempt_reply, or close */
  TCP_PROGRESS_REPLY,   /* the peer has replied: tcp_attempt_confirm, or close */
  TCP_PROGRESS_CONFIRM, /* the peer has confirmed: the connection is the caller's */
  TCP_PROGRESS_FAILED   /* see `failure`; the attempt is closed */
} tcp_progress_t;

typedef enum tcp_failure {
  TCP_FAILURE_OTHER,   /* the peer's host has accepted it, and nothing came of it */
  TCP_FAILURE_REFUSED, /* nobody listens there, or somebody who is no rank */
  TCP_FAILURE_SILENT,  /* the host does not answer, or there is no way to it */
  TCP_FAILURE_LOCAL    /* this host cannot connect, see `error` */
} tcp_failure_t;

typedef struct tcp_attempt {
  int fd;                     /* -1: none */
  int peer;                   /* -1: not known yet */
  int rail;                   /* likewise */
  uint16_t made;              /* connections of this rank on the rail before */
  bool is_known;              /* the handshake is done */
  base_handshake_t handshake; /* of the one that has connected */
  uint64_t patience_ns;       /* for the peer to answer */
  int expects;                /* the kind of the next note from the peer */
  size_t received;            /* bytes of `note` */
  tcp_note_t note;
  int polled;        /* its place in what the connector polls; -1: none */
  uint64_t until_ns; /* when it is given up */
  tcp_failure_t failure;
  int error; /* errno of it */
} tcp_attempt_t;

/* Of a connection that was made to a rank, which it takes over. doublings: of the time that it has
 * to answer. False: it has failed. */
bool tcp_attempt_begin(tcp_attempt_t *attempt, int fd, int peer, int rail, uint16_t made,
                       int doublings, const tcp_identity_t *own);

/* Of a connection that a rank has made to this one, which it takes over: the handshake is done. */
void tcp_attempt_accept(tcp_attempt_t *attempt, int fd);

/* Goes on with what has arrived; events: of poll. Fails if it is too late. */
tcp_progress_t tcp_attempt_serve(tcp_attempt_t *attempt, const tcp_identity_t *own, short events);

/* made: connections of this rank on attempt->rail before. True: until the time given for it, or the
 * usual one if that is later, the peer may confirm. */
bool tcp_attempt_reply(tcp_attempt_t *attempt, const tcp_identity_t *own, uint16_t made,
                       uint64_t until_ns);

/* The number of this connection on its rail, from 1, once both ranks have said what they know. */
uint16_t tcp_attempt_number(const tcp_attempt_t *attempt);

/* True: the connection is the caller's. */
bool tcp_attempt_confirm(tcp_attempt_t *attempt, const tcp_identity_t *own);

void tcp_attempt_close(tcp_attempt_t *attempt);

/* Of the rank with that name. */
base_address_t tcp_address_of(const tcp_name_t *name, int index);

#endif

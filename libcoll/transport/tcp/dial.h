/*
 * Attempts to connect to one peer on one rail, private to this folder: in rounds over the addresses
 * of the peer's interface (base/net/dial.h), until one succeeds. What came of them says whether the
 * peer can be reached at all.
 */
#ifndef TRANSPORT_TCP_DIAL_H
#define TRANSPORT_TCP_DIAL_H

#include "base/net/dial.h"
#include "transport/tcp/attempt.h"

typedef struct tcp_dial {
  struct tcp_dial *next;      /* for lists of the owner */
  base_addresses_t addresses; /* of the peer, on the rail */
  base_dial_t round;          /* before the first address: when it is begun */
  tcp_attempt_t attempt;      /* on the connection that was made last, if its fd is open */
  int peer, rail;
  uint16_t made;         /* connections on the rail when it was asked for */
  uint64_t since_ns;     /* since when nothing but refusal and silence came of it, */
  int misses;            /* and in how many attempts */
  int unanswered;        /* rounds in which a host accepted and no rank answered */
  int strangers;         /* attempts in a row that somebody closed who did not prove to be a rank */
  tcp_failure_t failure; /* the latest, */
  int error;             /* and errno of it */
  bool is_all_refused;   /* in this round */
  bool is_all_missed;    /* likewise: nobody has accepted */
} tcp_dial_t;

/* rails: of the pair; the only rail of a pair uses all addresses. */
void tcp_dial_init(tcp_dial_t *dial, int peer, int rail, int rails, uint16_t made,
                   const tcp_name_t *name);

/* It has become urgent. */
void tcp_dial_hurry(tcp_dial_t *dial);

/* Goes on without an attempt. True: there is one again. made: connections on the rail so far. */
bool tcp_dial_continue(tcp_dial_t *dial, uint16_t made, const tcp_identity_t *own);

/* A sign of life of the peer. */
void tcp_dial_note_sign(tcp_dial_t *dial);

/* The attempt has failed: the round goes on at the other addresses. */
void tcp_dial_note_failure(tcp_dial_t *dial);

/* Gives up this attempt and the round because that of the peer is under way. */
void tcp_dial_step_back(tcp_dial_t *dial);

/* At the end of a round: whether the peer cannot be reached, and why. */
bool tcp_dial_is_unreachable(const tcp_dial_t *dial, uint64_t now_ns);
tcp_failure_t tcp_dial_failure(const tcp_dial_t *dial);

/* Goes on with another round. is_idle: it is not urgent. */
void tcp_dial_begin_round(tcp_dial_t *dial, bool is_idle, uint64_t now_ns);

void tcp_dial_close(tcp_dial_t *dial);

#endif

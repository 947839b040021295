/*
 * Attempts to connect to one peer on one rail, private to this folder: in rounds over the addresses
 * of the peer's interface (base/net/dial.h), until one succeeds. What came of them says whether the
 * peer can be reached at all.
 */
#ifndef TRANSPORT_NET_CONNECT_DIAL_H
#define TRANSPORT_NET_CONNECT_DIAL_H

#include "base/net/dial.h"
#include "transport/net/connect/attempt.h"

typedef struct net_dial {
  struct net_dial *next;      /* for lists of the owner */
  base_addresses_t addresses; /* of the peer, on the rail */
  base_dial_t round;          /* before the first address: when it is begun */
  net_attempt_t attempt;      /* on the connection that was made last, if its fd is open */
  int peer, rail;
  uint16_t made;         /* connections on the rail when it was asked for */
  uint64_t since_ns;     /* since when nothing but refusal and silence came of it, */
  int misses;            /* and in how many attempts */
  int unanswered;        /* rounds in which a host accepted and no rank answered */
  int strangers;         /* attempts in a row that somebody closed who did not prove to be a rank */
  net_failure_t failure; /* the latest, */
  int error;             /* and that of the attempt or of connect */
  bool is_all_refused;   /* in this round */
  bool is_all_missed;    /* likewise: nobody has accepted */
} net_dial_t;

/* rails: of the pair; the only rail of a pair uses all addresses. */
void net_dial_init(net_dial_t *dial, int peer, int rail, int rails, uint16_t made,
                   const net_name_t *name);

/* It has become urgent. */
void net_dial_hurry(net_dial_t *dial);

/* Goes on without an attempt. True: there is one again. made: connections on the rail so far. */
bool net_dial_continue(net_dial_t *dial, uint16_t made, const net_identity_t *own);

/* A sign of life of the peer. */
void net_dial_note_sign(net_dial_t *dial);

/* The attempt has failed: the round goes on at the other addresses. */
void net_dial_note_failure(net_dial_t *dial);

/* Gives up this attempt and the round because that of the peer is under way. */
void net_dial_step_back(net_dial_t *dial);

/* Whether the latest attempt was refused by the peer, at whichever address. */
static inline bool net_dial_is_given_up(const net_dial_t *dial) {
  return dial->failure == NET_FAILURE_GIVEN_UP;
}

/* At the end of a round: whether the peer cannot be reached, and why. */
bool net_dial_is_unreachable(const net_dial_t *dial, uint64_t now_ns);
net_failure_t net_dial_failure(const net_dial_t *dial);

/* Goes on with another round. is_idle: it is not urgent. */
void net_dial_begin_round(net_dial_t *dial, bool is_idle, uint64_t now_ns);

void net_dial_close(net_dial_t *dial);

#endif

/*
 * Attempts to connect to one peer on one rail, private to this folder: in rounds over the addresses
 * of the peer's interface, until one succeeds. What came of them says whether the peer can be
 * reached at all.
 */
#ifndef TRANSPORT_TCP_DIAL_H
#define TRANSPORT_TCP_DIAL_H

#include "transport/tcp/attempt.h"

typedef struct tcp_dial {
  struct tcp_dial *next; /* for lists of the owner */
  tcp_attempt_t attempt; /* the present one, if its fd is open */
  int peer, rail, rails; /* of so many of the pair */
  uint16_t made;         /* connections on the rail when it was asked for */
  int address;           /* of the peer's */
  uint64_t resume_ns;    /* without an attempt: when the next one is begun */
  uint64_t since_ns;     /* since when nothing but refusal and silence came of it, */
  int misses;            /* and in how many attempts */
  int unanswered;        /* rounds in which a host accepted and no rank answered */
  int strangers;         /* attempts in a row that somebody closed who did not prove to be a rank */
  bool is_all_refused;   /* in this round */
  bool is_all_missed;    /* likewise: nobody has accepted */
} tcp_dial_t;

/* rails: of the pair. */
void tcp_dial_init(tcp_dial_t *dial, int peer, int rail, int rails, uint16_t made,
                   const tcp_name_t *name);

/* It has become urgent. */
void tcp_dial_hurry(tcp_dial_t *dial);

/* Begins an attempt; made: connections on the rail so far. False: it has failed. */
bool tcp_dial_begin(tcp_dial_t *dial, uint16_t made, const tcp_name_t *name);

/* A sign of life of the peer. */
void tcp_dial_note_sign(tcp_dial_t *dial);

/* The attempt has failed: the next one is made at the next address. True: that ends a round. */
bool tcp_dial_note_failure(tcp_dial_t *dial, const tcp_name_t *name, uint64_t now_ns);

/* Gives up this attempt because that of the peer is under way. */
void tcp_dial_step_back(tcp_dial_t *dial);

/* At the end of a round: whether the peer cannot be reached, and why. */
bool tcp_dial_is_unreachable(const tcp_dial_t *dial, uint64_t now_ns);
tcp_failure_t tcp_dial_failure(const tcp_dial_t *dial);

/* Goes on with another round. is_idle: it is not urgent. */
void tcp_dial_begin_round(tcp_dial_t *dial, bool is_idle, uint64_t now_ns);

#endif

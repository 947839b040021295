/*
 * Decides whether a connection, and the host at its other end, still live. The functions depend on
 * their arguments alone: what the kernel says of a connection, whether the host has answered, and
 * the time of the look. health.c looks every NET_LIVENESS_CHECK_NS, and acts.
 */
#ifndef TRANSPORT_NET_CONNECT_LIVENESS_H
#define TRANSPORT_NET_CONNECT_LIVENESS_H

#include <stdbool.h>
#include <stdint.h>

struct tcp_info; /* linux/tcp.h, which cannot be used beside netinet/tcp.h */

#define NET_LIVENESS_CHECK_NS 100000000u       /* between looks at a connection */
#define NET_LIVENESS_SUSPECT_MS 500            /* without an acknowledgement of what was sent */
#define NET_LIVENESS_UNANSWERED_NS 2000000000u /* after which a host is lost */
#define NET_LIVENESS_ANSWERED_NS 1000000000u   /* for which an answer counts */
#define NET_LIVENESS_BLOCKED_NS UINT64_C(15000000000) /* what is sent does not arrive */
/* Looks that are further apart do not show what was between them: this process computed, or was
 * stopped. What was measured until then does not count. */
#define NET_LIVENESS_APART_NS 1000000000u

/* What was acknowledged on a connection. Zeros: not looked at yet. */
typedef struct net_acks {
  uint64_t checked_ns;  /* the latest look */
  uint64_t acked_bytes; /* that the peer's host had acknowledged then, */
  uint64_t acked_ns;    /* and since when no more, as far as that was watched */
} net_acks_t;

/* What a connection is suspected of, on which something was sent and not acknowledged for a while.
 */
typedef struct net_suspicion {
  bool is_silent;  /* nothing else comes from the host either */
  bool is_resent;  /* what was sent is being sent again */
  bool is_blocked; /* it does not arrive, if the host answers */
} net_suspicion_t;

bool net_liveness_is_due(const net_acks_t *acks, uint64_t now_ns);
net_suspicion_t net_liveness_check(net_acks_t *acks, const struct tcp_info *info, uint64_t now_ns);

/* Whether a host answers. Zeros: it was not asked. */
typedef struct net_question {
  uint64_t asked_ns;    /* since when it has not answered; 0: it is not asked */
  uint64_t looked_ns;   /* when that was last looked at */
  uint64_t answered_ns; /* when it last did */
} net_question_t;

typedef enum net_answer {
  NET_ANSWER_NONE,   /* none yet */
  NET_ANSWER_GIVEN,  /* or refused: by the host in any case */
  NET_ANSWER_UNASKED /* this process cannot ask */
} net_answer_t;

/* Whether the host is to be asked, or its answer looked for; it is not if it has answered lately.
 * A question that was not followed up is withdrawn. */
bool net_liveness_asks(net_question_t *question, uint64_t now_ns);

/* Whether the host has not answered for too long. */
bool net_liveness_is_gone(net_question_t *question, net_answer_t answer, uint64_t now_ns);

#endif

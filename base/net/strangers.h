/*
 * Those who have called a listening socket and have not yet proved that they know its secret
 * (handshake.h): anyone who reaches it may call. There is room for a limited number. Where it is
 * full, the one that has been there longest without a proof, and longer than a process of ours
 * takes for it, is hung up on for the next one; nobody is waited for. Nothing that a stranger sends
 * is looked at but the handshake.
 */
#ifndef BASE_NET_STRANGERS_H
#define BASE_NET_STRANGERS_H

#include <poll.h>

#include "base/net/handshake.h"

typedef struct base_stranger base_stranger_t;

typedef struct base_strangers {
  /* The owner sets these, and they stay. */
  int listener;                /* does not block; closed by base_strangers_close. -1: closed */
  const base_secret_t *secret; /* as those of handshakes: not copied */
  const char *purpose;
  const void
      *retry; /* what one who is hung up on behind the listener's answer is sent in place of */
  size_t retry_bytes; /* what the owner would send it next: it is to call again */
  uint64_t limit_ns;  /* for a handshake; UINT64_MAX: until the room is needed */
  int max;            /* at a time, with those of the owner that count as well (others) */
  void (*admit)(void *owner, int fd); /* has proved it; the connection is the owner's */
  void *owner;

  int error; /* of the latest call that could not be accepted, as in errno; 0: it could */
  base_stranger_t *callers; /* [max]; `count` of them, oldest first */
  int count, others;
  uint64_t accept_ns; /* when calls are accepted again, for want of descriptors */
} base_strangers_t;

/* The owner's fields are set. COLL_ERROR_MEMORY. */
coll_status_t base_strangers_init(base_strangers_t *strangers);

/* Fills what is to be polled, at most 1 + max. Returns how many, and lowers *due_ns to when they
 * are to be served in any case. others: as many connections of the owner leave room for fewer. */
int base_strangers_poll(base_strangers_t *strangers, int others, struct pollfd polled[],
                        uint64_t *due_ns);

/* Goes on with what poll has found; accepts one of those who have called. */
void base_strangers_serve(base_strangers_t *strangers, const struct pollfd polled[]);

/* Closes the listener and hangs up on all. May be called again. */
void base_strangers_close(base_strangers_t *strangers);

#endif

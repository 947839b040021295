/*
 * Connections to one of several addresses, of which some may lead nowhere, or to another host: of a
 * network that only the server's host is on, or of a bridge that every host has. An address is
 * tried as soon as the one before it has failed, and beside it if that has not answered for a
 * moment (as in RFC 8305), so that a wrong address costs little.
 */
#ifndef BASE_NET_DIAL_H
#define BASE_NET_DIAL_H

#include <poll.h>

#include "base/net/address.h"

/* ---- one address ----------------------------------------------------------------------------*/

/* Begins to connect a new socket, which does not block. -1 with errno. type: SOCK_STREAM or another
 * one. */
int base_dial_begin_one(int type, const base_address_t *address);

/* Once poll has found something: 0, it is connected, or why it is not, as in errno. */
int base_dial_result(int fd);

/* ---- several, without blocking --------------------------------------------------------------*/

typedef struct base_dial {
  const base_addresses_t *to; /* not copied */
  int first;
  int begun; /* so many addresses, from `first` on */
  int open;  /* so many of these are under way */
  uint64_t next_ns, last_ns;
  uint64_t due_ns; /* when to go on, whatever poll says */
  /* In the order of trying, [to->count]: */
  struct pollfd polled[BASE_ADDRESSES_MAX]; /* to poll; fd -1: not under way */
  int errors[BASE_ADDRESSES_MAX];           /* why it has not answered; 0: none */
} base_dial_t;

/* due_ns: when to begin. next_ns: the time until the next address is tried beside one that does not
 * answer; last_ns: and from the last one until all are given up. */
void base_dial_init(base_dial_t *dial, const base_addresses_t *to, int first, uint64_t due_ns,
                    uint64_t next_ns, uint64_t last_ns);

/* Goes on with what poll has found, or what is due. Returns a connected socket, which is the
 * caller's and does not block, or -1. Others may answer later. */
int base_dial_continue(base_dial_t *dial);

/* Whether nothing more can come. */
bool base_dial_is_over(const base_dial_t *dial);

/* Gives up those that are under way. */
void base_dial_end(base_dial_t *dial);

/* Why none has answered, as in errno: a refusal says most, as the host is there; what waiting
 * cannot change is said only if all failed so. */
int base_dial_error(const base_dial_t *dial);

/* Whether a connection that has failed so may succeed later. */
bool base_dial_may_heal(int error);

/* ---- several, blocking ----------------------------------------------------------------------*/

/* Tries each address once. Returns a connected socket, which blocks, or -1 with errno: at the
 * deadline, or earlier if all have failed or the thread's waits are cancelled (base/cancel.h). */
int base_dial_connect(const base_addresses_t *to, int first, uint64_t deadline_ns);

#endif

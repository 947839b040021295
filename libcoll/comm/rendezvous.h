/*
 * Where ranks meet: a small TCP server, run by a thread of the process that opened it, collects one
 * record from every rank and then gives all records to all of them. It lives until they have met,
 * or until one is missing, double, gone or of another mind, which it then tells the rest.
 */
#ifndef COMM_RENDEZVOUS_H
#define COMM_RENDEZVOUS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define RENDEZVOUS_HOST_BYTES 64

typedef struct rendezvous_place {
  char host[RENDEZVOUS_HOST_BYTES]; /* a numeric address or a name */
  uint16_t port;
  uint64_t key; /* callers that do not know it are hung up on */
} rendezvous_place_t;

/* Listens at place->host, on place->port or, for 0, on a free one that it sets, and starts the
 * server. Waits, for a second at most, for the port of a meeting that has just failed.
 * COLL_ERROR_SYSTEM says so when the port is in use. */
coll_status_t rendezvous_open(rendezvous_place_t *place);

/* Who calls, and what it brings along. */
typedef struct rendezvous_rank {
  int rank, size;
  const void *record; /* record_bytes, at most RENDEZVOUS_RECORD_MOST */
  size_t record_bytes;
} rendezvous_rank_t;

#define RENDEZVOUS_RECORD_MOST 512

/* Meets all other ranks: records (size * record_bytes, by rank) and a random number that is the
 * same for all. Waits for the server to open and for the ranks to come, timeout_ms in all; whom the
 * server hangs up on before it has greeted calls again.
 * COLL_ERROR_TIMEOUT names the missing, or says that nobody answers who knows the key;
 * COLL_ERROR_INVALID two ranks of one number, different sizes or records, or a host that cannot be
 * resolved; COLL_ERROR_RANK_LOST a rank that went away meanwhile. */
coll_status_t rendezvous_meet(const rendezvous_place_t *place, const rendezvous_rank_t *own,
                              int timeout_ms, void *records, uint64_t *session);

#endif

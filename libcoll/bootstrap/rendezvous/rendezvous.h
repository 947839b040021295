/*
 * How the ranks of a new communicator find each other. A small TCP server collects one record from
 * every rank and sends all records to all of them. It keeps the connections open until every rank
 * has reported that its part of the communicator is made, so that a rank that dies or fails on the
 * way is noticed at once, and is named to all others. The server runs in a thread of the process
 * that started it.
 */
#ifndef BOOTSTRAP_RENDEZVOUS_RENDEZVOUS_H
#define BOOTSTRAP_RENDEZVOUS_RENDEZVOUS_H

#include <stdbool.h>

#include "base/net/secret.h"
#include "base/status.h"
#include "bootstrap/process.h"
#include "bootstrap/rendezvous/wire.h"

#define RENDEZVOUS_HOST_BYTES 64
#define RENDEZVOUS_RECORD_MAX 768

typedef struct rendezvous_address {
  char host[RENDEZVOUS_HOST_BYTES]; /* a numeric address or a host name; for callers also several,
                                       with commas between them */
  uint16_t port;
  bool is_here; /* the server is this host's and listens at all of its addresses */
  int32_t pid;  /* of the server, which is already listening; 0: not known, it may come later */
  bootstrap_process_t process; /* the same process; space 0: not known */
  uint64_t job; /* tells servers of several jobs on one port apart; may be known to anyone */
  base_secret_t secret; /* the server hangs up on callers that do not know it */
} rendezvous_address_t;

/* Listens and starts the server, at address->host, or at all addresses of this host: if
 * address->host is "", and, where there is a secret or COLL_INSECURE is 1, if it is of no use to
 * listen there: a name that others resolve but that this host does not know or takes for its
 * loopback interface, or an address that is none of this host's, as that of a service. Then sets
 * address->is_here. The port is address->port, or, if that is 0, a free one. Sets address->port and
 * address->pid. While the port is in use it retries for up to a second, because the server of a
 * rendezvous that failed keeps its port for a moment. COLL_ERROR_SYSTEM: the port is in use, or a
 * resource is missing. COLL_ERROR_INVALID: the host has no such name or address. */
coll_status_t rendezvous_server_start(rendezvous_address_t *address);

/* The same at COLL_INTERFACE_ADDRESS, if that is set, else at `otherwise`; "": at all addresses of
 * this host, or at a loopback address if it has no other or `interfaces` (topo/interfaces.h) asks
 * for no other. Sets address->host to what callers connect to: for all addresses, the list of those
 * that `interfaces` allows, for which it waits as rendezvous_await_addresses. */
coll_status_t rendezvous_server_start_own(const char *otherwise, const char *interfaces,
                                          uint64_t deadline_ns, rendezvous_address_t *address);

/* Waits until this host has an address that `interfaces` allows, if one of these interfaces runs
 * without one, at most until the deadline. who: for the line that says so. COLL_ERROR_INVALID:
 * there is none, and the list asks for some. */
coll_status_t rendezvous_await_addresses(const char *who, const char *interfaces,
                                         uint64_t deadline_ns);

/* Sets address->host to COLL_INTERFACE_ADDRESS, if that is set. COLL_ERROR_INVALID: it is empty or
 * too long. */
coll_status_t rendezvous_address_choose(rendezvous_address_t *address);

/* Sets address->secret, where the launcher has not: from collrun, or from the file COLL_AUTH_FILE.
 * None if all ranks are on this host, because they meet at a loopback address, or if COLL_INSECURE
 * is 1. COLL_ERROR_INVALID: there is no secret, or the file is wrong. COLL_ERROR_SYSTEM. */
coll_status_t rendezvous_secret_find(rendezvous_address_t *address);

/* The purpose of handshakes at the address. */
#define RENDEZVOUS_PURPOSE_BYTES 40
void rendezvous_purpose(const rendezvous_address_t *address,
                        char purpose[RENDEZVOUS_PURPOSE_BYTES]);

typedef struct rendezvous_rank {
  int rank, size;
  const void *record; /* record_bytes, at most RENDEZVOUS_RECORD_MAX */
  size_t record_bytes;
} rendezvous_rank_t;

/* A rank's connection to the server. Initialised by rendezvous_join, closed by rendezvous_finish.
 */
typedef struct rendezvous_link {
  int fd; /* -1: none; readable when there is news for rendezvous_check */
  int rank;
  int server_pid;
  bootstrap_process_t server_process; /* space 0: not known */
  int server_rank; /* the rank whose process runs the server; -1: none, or not known yet */
  wire_answer_t verdict;
  size_t verdict_received; /* bytes */
} rendezvous_link_t;

/* Joins and waits for all other ranks. Sets records (size * record_bytes, ordered by rank) and
 * *session (a random number, the same on all ranks). Retries until the server is up. On success
 * the caller owns *link and must call rendezvous_finish; on failure there is no link.
 * COLL_ERROR_TIMEOUT: after timeout_ms, names the missing ranks or says that no server answers.
 * COLL_ERROR_INVALID: two ranks of one number, different sizes or records, or an unknown host.
 * COLL_ERROR_RANK_LOST: names a rank that died meanwhile. */
coll_status_t rendezvous_join(const rendezvous_address_t *address, const rendezvous_rank_t *own,
                              int timeout_ms, void *records, uint64_t *session,
                              rendezvous_link_t *link);

/* Tells the server that this rank, which has not joined, gives up, because its thread's waits are
 * cancelled. Tried once. Of the record, only its size matters. rendezvous_join does the same. */
void rendezvous_announce_cancelled(const rendezvous_address_t *address,
                                   const rendezvous_rank_t *own, int timeout_ms);

/* Whether creation has failed elsewhere, without blocking. COLL_ERROR_RANK_LOST names the rank that
 * died or failed. */
coll_status_t rendezvous_check(rendezvous_link_t *link);

/* Reports `status`, the result of this rank's part of the creation, and the thread's last error;
 * waits until all ranks have reported; closes the link. Returns COLL_OK only if all ranks reported
 * COLL_OK. Returns the rank's own failure, unless it is COLL_ERROR_RANK_LOST: such a rank has only
 * seen a peer disconnect, and the verdict says which rank was the cause. Sets *failed_rank on
 * failure: the rank that caused it, or this rank, where no other is known. */
coll_status_t rendezvous_finish(rendezvous_link_t *link, coll_status_t status, uint64_t deadline_ns,
                                int *failed_rank);

#endif

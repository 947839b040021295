/*
 * The state of a rendezvous server, which its parts share: callers (callers.c), and members and the
 * poll loop (server.c).
 */
#ifndef BOOTSTRAP_RENDEZVOUS_SERVER_STATE_H
#define BOOTSTRAP_RENDEZVOUS_SERVER_STATE_H

#include <poll.h>

#include "base/net/strangers.h"
#include "bootstrap/rendezvous/rendezvous.h"
#include "bootstrap/rendezvous/server.h"
#include "bootstrap/rendezvous/wire.h"

#define RENDEZVOUS_CALLERS_MAX 512 /* with strangers */

typedef struct rendezvous_caller {
  int fd;
  size_t received;
  struct {
    wire_hello_t hello;
    char record[RENDEZVOUS_RECORD_MAX];
  } message;
} rendezvous_caller_t;

typedef struct rendezvous_member {
  int fd; /* -1: has not joined, or was closed */
  int32_t pid;
  int32_t informed; /* pid of the process of this rank that knows of the failure; 0: none */
  bool reported;    /* that its part of the communicator is made */
  size_t records_sent, verdict_sent, report_received; /* bytes */
  wire_report_t report;
} rendezvous_member_t;

struct rendezvous_server {
  base_strangers_t strangers;
  base_secret_t secret;
  char purpose[RENDEZVOUS_PURPOSE_BYTES];
  bool own_port;
  rendezvous_caller_t callers[RENDEZVOUS_CALLERS_MAX];
  int caller_count;
  rendezvous_member_t *members; /* [size] */
  int size;                     /* 0 until the first rank has joined */
  int open_count;               /* members whose connection is open */
  int joined_count, reported_count;
  bool decided;     /* the verdict stands */
  bool holds_rank0; /* rank 0 is not to get the verdict yet, as late ranks still call */
  wire_answer_t verdict;
  char *records; /* a wire_answer_t, then the records by rank */
  size_t record_bytes;
  size_t records_bytes; /* of `records` to send; 0 until all have joined */
  int32_t timeout_ms;   /* longest of the members' */
  uint64_t deadline_ns; /* for joining: earliest of the members'; then for their reports */
  struct pollfd *polls; /* as many as are open: there may be fewer descriptors than ranks */
  int *polled;          /* the rank of each member in polls */
  size_t poll_capacity, polled_capacity;
};

/* ---- callers.c: those who know the secret, but whose hello or record is incomplete. A complete
 * one makes the caller a member, or is answered with the reason why not. ----------------------*/

/* Sets up server->strangers, of whom it gets callers; its secret and purpose are set. Takes over
 * the listening socket on success. COLL_ERROR_MEMORY. */
coll_status_t rendezvous_callers_listen(rendezvous_server_t *server, int listener);

/* Receives from those that have sent something. polls: one per caller. */
void rendezvous_callers_serve(rendezvous_server_t *server, const struct pollfd polls[]);

/* Closes the listening socket, and hangs up on all, so that they call again. */
void rendezvous_callers_drop_all(rendezvous_server_t *server);

/* ---- server.c -------------------------------------------------------------------------------*/

/* The rendezvous fails because of `rank` (-1: not known); the first reason stands. */
void rendezvous_server_fail(rendezvous_server_t *server, coll_status_t status, int rank,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));
void rendezvous_server_fail_died(rendezvous_server_t *server, int rank, int pid);

#endif

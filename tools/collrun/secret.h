/*
 * The secret of a job, by which its ranks prove to each other that they belong to it. It is given
 * out at a UNIX socket, whose name is in the ranks' environment, to processes of the same user, any
 * number of times; to an agent, as the first line of its standard input.
 */
#ifndef COLLRUN_SECRET_H
#define COLLRUN_SECRET_H

#include "base/net/secret.h"

#define COLLRUN_SECRET_NAME_BYTES 112

typedef struct collrun_secret {
  base_secret_t secret;
  int listener;                         /* -1: none */
  char name[COLLRUN_SECRET_NAME_BYTES]; /* of the socket: @ and its abstract name */
} collrun_secret_t;

/* Draws the secret, or, as an agent, reads it from standard input; and listens, if this process
 * starts ranks itself. Owned by the caller: collrun_secret_close. COLL_ERROR_SYSTEM. */
coll_status_t collrun_secret_open(bool is_agent, bool starts_ranks, collrun_secret_t *secret);

/* Serves the processes that have connected. COLL_ERROR_SYSTEM: none can be served, ever. */
coll_status_t collrun_secret_serve(const collrun_secret_t *secret);

/* Sends it to an agent, whose standard input is a new pipe. */
void collrun_secret_send(const collrun_secret_t *secret, int to);

void collrun_secret_close(collrun_secret_t *secret);

#endif

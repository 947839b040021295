/*
 * One rendezvous of a test: what each process does, and the result it must get.
 */
#ifndef TESTS_BOOTSTRAP_RENDEZVOUS_SCENARIO_H
#define TESTS_BOOTSTRAP_RENDEZVOUS_SCENARIO_H

#include <stdbool.h>

#include "bootstrap/rendezvous/rendezvous.h"
#include "harness/harness.h"

#define RENDEZVOUS_JOB 815u

typedef struct rendezvous_scenario {
  rendezvous_address_t address;
  int ranks[8], sizes[8]; /* rank that each process passes */
  int timeout_ms;
  int late;            /* process that joins after the others, or -1 */
  int dies;            /* process that dies after its hello, or -1 */
  int unknown_callers; /* number of connections made before those of the ranks */
  bool garbage;        /* the unknown callers send bytes that are not a hello; else nothing */
  char expected[64];   /* text in every error message */
  coll_status_t status;
} rendezvous_scenario_t;

/* Of ranks that all join on this host. Who waits in vain does so for 120 s, twice as long as a run
 * may take (RENDEZVOUS_RUN_MS). */
#define RENDEZVOUS_RUN_MS (60000 / HARNESS_PATIENCE)
rendezvous_scenario_t rendezvous_scenario(int size);

/* A connection to the server; -1: there is none. */
int rendezvous_dial(const rendezvous_address_t *address);

/* Proves on it that this process knows the secret. */
bool rendezvous_shake_hands(int fd, const rendezvous_address_t *address);

/* Joins as that rank as far as the server's greeting: the server knows of the rank then. -1: it
 * cannot. */
int rendezvous_join_until_greeted(const rendezvous_address_t *address, int rank, int size,
                                  int timeout_ms, size_t record_bytes);

#endif

/*
 * Starts one rank with its environment, cores, standard streams and process group. Signals are sent
 * to the group, so that they reach the child processes of the rank as well.
 */
#ifndef COLLRUN_SPAWN_H
#define COLLRUN_SPAWN_H

#include <signal.h>
#include <sys/types.h>

#include "base/status.h"
#include "tools/collrun/agent.h"
#include "tools/collrun/settings.h"
#include "topo/machine.h"

/* Parameters that are the same for all ranks. */
typedef struct collrun_spawn {
  const collrun_settings_t *settings;
  const topo_machine_t *machine; /* NULL: do not bind */
  collrun_address_t address;     /* where the ranks find each other */
  const char *secret_socket;     /* of the socket at which ranks ask for the secret */
  sigset_t signal_mask;          /* of collrun, before it blocked any signal */
} collrun_spawn_t;

/* A running rank. The descriptors are collrun's ends of its pipes; -1: no pipe. */
typedef struct collrun_rank {
  pid_t pid; /* also its process group; 0 after it was reaped */
  int in, out, err;
} collrun_rank_t;

/* The processes that collrun starts: agents, or ranks, which it numbers from 0 here. */
static inline int collrun_children(const collrun_settings_t *settings) {
  return settings->hosts.count > 0 ? settings->hosts.count : settings->ranks;
}

/* Starts a rank, or the agent of a host. Returns when the program runs in the new process. On
 * failure *exit_code is the exit code for collrun: 127 if the program was not found, 126 if it
 * cannot be executed, else BASE_EXIT_FAILED. */
coll_status_t collrun_rank_spawn(const collrun_spawn_t *spawn, int child, collrun_rank_t *started,
                                 int *exit_code);

#endif

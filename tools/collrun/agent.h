/*
 * Agents: collrun on each host of a job, which the collrun that the user has started runs through
 * ssh or another command (--agent). An agent runs the ranks of its host. It stops them when its
 * standard input ends, because then the other collrun or the connection to it has.
 */
#ifndef COLLRUN_AGENT_H
#define COLLRUN_AGENT_H

#include <stdint.h>

#include "tools/collrun/settings.h"

#define COLLRUN_ADDRESS_BYTES 64

typedef struct collrun_address {
  char text[COLLRUN_ADDRESS_BYTES];
  int port;
} collrun_address_t;

/* Whether --agent goes through ssh, so that a remote shell splits the command into words. */
bool collrun_agent_is_ssh(const collrun_settings_t *settings);

/* COLL_INTERFACE_ADDRESS, or the best address of this host that others reach, and a free port;
 * printed for agent_ask. */
coll_status_t collrun_agent_print_address(int port);

/* Asks the first host for its address, with its agent, unless --address and --port give one.
 * COLL_ERROR_SYSTEM: the agent does not work there. */
coll_status_t collrun_agent_ask(const collrun_settings_t *settings, collrun_address_t *address);

/* *command: argv of the agent of a host, NULL-terminated. Owned by the caller:
 * collrun_agent_free. COLL_ERROR_MEMORY. */
coll_status_t collrun_agent_command(const collrun_settings_t *settings, int host,
                                    const collrun_address_t *address, char ***command);
void collrun_agent_free(char **command);

#endif

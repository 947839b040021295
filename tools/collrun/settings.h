/* The checked command line of collrun. */
#ifndef COLLRUN_SETTINGS_H
#define COLLRUN_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/options.h"
#include "base/status.h"
#include "tools/collrun/hosts.h"
#include "topo/map.h"

typedef struct collrun_settings {
  int ranks;             /* that collrun starts, itself or by agents */
  collrun_hosts_t hosts; /* owned: collrun_settings_free */
  const char *agent;     /* command that runs something on {host} */
  const char *address;   /* MASTER_ADDR, or NULL */
  int port;              /* 0: any free port */
  int grace_ms;
  bool bind;
  bool prefix;
  bool show_layout;           /* print where the ranks are; run nothing */
  bool print_address;         /* print an address and a port of this host; run nothing */
  bool is_agent;              /* of another collrun (agent.h) */
  int first_rank, world_size; /* of an agent's ranks, else 0 and ranks */
  topo_map_t map;             /* COLL_TOPO_MAP of the ranks */
  base_option_list_t exports; /* variables that other hosts get, too */
  const char *output;         /* folder for rank-N.out and rank-N.err, or NULL */
  char **program;             /* argv of every rank, NULL-terminated */
} collrun_settings_t;

/* *help_printed: the help was printed; do not run anything. COLL_ERROR_INVALID: the command line is
 * wrong. */
coll_status_t collrun_settings_parse(int argc, char **argv, collrun_settings_t *settings,
                                     bool *help_printed);

void collrun_settings_free(collrun_settings_t *settings);

#endif

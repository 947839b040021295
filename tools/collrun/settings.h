/* The checked command line of collrun. */
#ifndef COLLRUN_SETTINGS_H
#define COLLRUN_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "topo/map.h"

typedef struct collrun_settings {
  int ranks;
  int port; /* 0: any free port */
  int grace_ms;
  bool bind;
  bool prefix;
  bool show_layout;   /* print where the ranks are; run nothing */
  topo_map_t map;     /* COLL_TOPO_MAP of the ranks */
  const char *output; /* folder for rank-N.out and rank-N.err, or NULL */
  char **program;     /* argv of every rank, NULL-terminated */
} collrun_settings_t;

/* *help_printed: the help was printed; do not run anything. COLL_ERROR_INVALID: the command line is
 * wrong. */
coll_status_t collrun_settings_parse(int argc, char **argv, collrun_settings_t *settings,
                                     bool *help_printed);

#endif

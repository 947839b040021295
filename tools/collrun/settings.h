/* What a run of collrun was asked to do, from its command line. */
#ifndef COLLRUN_SETTINGS_H
#define COLLRUN_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct collrun_settings {
  int ranks;
  int port; /* 0: any free one */
  int grace_ms;
  bool bind;
  bool prefix;
  const char *output; /* folder for rank-N.out and rank-N.err, or NULL */
  char **program;     /* argv of every rank, NULL-terminated */
} collrun_settings_t;

/* *helped: the help page was printed and nothing is to be run. COLL_ERROR_INVALID says what is
 * wrong with the command line. */
coll_status_t collrun_settings_parse(int argc, char **argv, collrun_settings_t *settings,
                                     bool *helped);

#endif

/* Options of mpirun and mpiexec (Open MPI, MPICH), as people type them for collrun. */
#ifndef COLLRUN_MPIRUN_OPTIONS_H
#define COLLRUN_MPIRUN_OPTIONS_H

#include "base/options.h"
#include "tools/collrun/settings.h"

#define COLLRUN_MPIRUN_OPTIONS_MAX 48

typedef struct collrun_mpirun {
  int64_t per_host; /* ranks on each host; 0: not given */
  bool oversubscribe;
  const char *bind, *map;      /* --bind-to, --map-by; NULL: not given */
  base_option_list_t exports;  /* -x NAME, -x NAME=VALUE */
  base_option_list_t pairs;    /* -genv NAME VALUE */
  base_option_list_t settings; /* --mca NAME VALUE: of another library */
  bool unused;
  base_option_t table[COLLRUN_MPIRUN_OPTIONS_MAX];
  size_t count;
} collrun_mpirun_t;

/* Where the options of collrun store the same. */
typedef struct collrun_mpirun_same {
  int64_t *ranks;
  const char **hosts, **hostfile, **folder, **output;
  bool *prefix;
} collrun_mpirun_same_t;

/* Fills in the table, whose values are in *mpirun and *same. */
void collrun_mpirun_list(collrun_mpirun_t *mpirun, const collrun_mpirun_same_t *same);

/* Applies --bind-to, --map-by and the variables; prints what has no effect, once. *bind: whether
 * the ranks are bound. COLL_ERROR_INVALID names the option. */
coll_status_t collrun_mpirun_apply(collrun_mpirun_t *mpirun, bool *bind);

/* Whether the variable, NAME or NAME=VALUE, was given to -x, so that it goes to other hosts. */
bool collrun_mpirun_exports(const base_option_list_t *exports, const char *variable);

#endif

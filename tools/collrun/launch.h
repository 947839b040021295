/*
 * Starts one rank: its environment, its cores, its standard streams and its process group. The
 * group is what signals are sent to, so that they reach whatever the rank starts in turn.
 */
#ifndef COLLRUN_LAUNCH_H
#define COLLRUN_LAUNCH_H

#include <signal.h>
#include <sys/types.h>

#include "base/status.h"
#include "tools/collrun/settings.h"
#include "topo/machine.h"

/* What all ranks have in common. */
typedef struct collrun_launch {
  const collrun_settings_t *settings;
  const topo_machine_t *machine; /* NULL: do not bind */
  int port;
  sigset_t signal_mask; /* collrun's own before it blocked any */
} collrun_launch_t;

/* A rank that runs. The descriptors are collrun's ends of its pipes, -1 where it has none. */
typedef struct collrun_rank {
  pid_t pid; /* also its process group; 0 once it has been waited for */
  int in, out, err;
} collrun_rank_t;

/* Returns once the program runs in the new process. On failure *exit_code is what collrun should
 * leave with: 127 when the program was not found, 126 when it cannot be executed, else 2. */
coll_status_t collrun_rank_start(const collrun_launch_t *launch, int rank, collrun_rank_t *started,
                                 int *exit_code);

#endif

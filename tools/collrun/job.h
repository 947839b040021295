/*
 * A running job: an event loop over signals, the output of the ranks and the input of rank 0, until
 * every rank has exited. If a rank fails, the others get a grace period, then SIGTERM, then
 * SIGKILL. SIGQUIT and the end of the grace period print the table of ranks.
 */
#ifndef COLLRUN_JOB_H
#define COLLRUN_JOB_H

#include "base/status.h"
#include "tools/collrun/spawn.h"

/* Starts all ranks and waits for them. Blocks SIGCHLD and the signals that it forwards; call it
 * from a process with one thread. On success *exit_code is that of the first rank that failed (128
 * + the number of the signal that ended it), 0 if none failed. On failure no rank is running, and
 * *exit_code is the exit code for collrun. */
coll_status_t collrun_job_run(const collrun_settings_t *settings, const topo_machine_t *machine,
                              const collrun_address_t *address, int *exit_code);

#endif

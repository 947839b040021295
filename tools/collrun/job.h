/*
 * The running job: an event loop over signals, the ranks' output and rank 0's input, until every
 * rank has ended. It also carries out the end of a failed job: a grace period, SIGTERM, SIGKILL.
 * SIGQUIT prints the table of ranks, and so does the end of the grace period.
 */
#ifndef COLLRUN_JOB_H
#define COLLRUN_JOB_H

#include "base/status.h"
#include "tools/collrun/launch.h"

/* Starts all ranks and waits for them. Blocks the signals that it passes on, and SIGCHLD; call it
 * from a process with one thread. On success *exit_code is that of the first rank that failed (128
 * + signal number when one ended it), 0 when none did; otherwise nothing runs any more and
 * *exit_code says what collrun should leave with. */
coll_status_t collrun_job_run(const collrun_settings_t *settings, const topo_machine_t *machine,
                              int port, int *exit_code);

#endif

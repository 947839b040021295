/*
 * The identity of the launcher process. It distinguishes jobs whose launcher sets ranks but no job
 * id: all ranks of a job on this machine have the same launcher process.
 */
#ifndef BOOTSTRAP_LAUNCH_ANCESTOR_H
#define BOOTSTRAP_LAUNCH_ANCESTOR_H

#define LAUNCH_ANCESTOR_BYTES 64

/* Writes pid and start time of the nearest ancestor without `variable` in its environment. The
 * launcher sets `variable` for every rank, so scripts between the launcher and the rank have it
 * too. */
void launch_ancestor_identity(const char *variable, char identity[LAUNCH_ANCESTOR_BYTES]);

/* Its pid. */
int launch_ancestor_pid(const char *variable);

#endif

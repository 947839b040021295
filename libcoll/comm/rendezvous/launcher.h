/*
 * The identity of the launcher process. It distinguishes jobs whose launcher sets ranks but no job
 * id: all ranks of a job on this machine have the same launcher process.
 */
#ifndef COMM_RENDEZVOUS_LAUNCHER_H
#define COMM_RENDEZVOUS_LAUNCHER_H

#define COMM_LAUNCHER_BYTES 64

/* Writes pid and start time of the nearest ancestor without `variable` in its environment. The
 * launcher sets `variable` for every rank, so scripts between the launcher and the rank have it
 * too. */
void comm_launcher_identity(const char *variable, char identity[COMM_LAUNCHER_BYTES]);

/* Its pid. */
int comm_launcher_pid(const char *variable);

#endif

/*
 * Which process started this rank and those of its job: for launchers that tell ranks apart, but
 * not jobs.
 */
#ifndef COMM_RENDEZVOUS_LAUNCHER_H
#define COMM_RENDEZVOUS_LAUNCHER_H

#define COMM_LAUNCHER_BYTES 64

/* Names the nearest ancestor that was itself started without `variable`, which the launcher gives
 * to every rank, so that scripts in between do not count: the same for all ranks of a job on this
 * machine, and no other job's. */
void comm_launcher_identity(const char *variable, char name[COMM_LAUNCHER_BYTES]);

#endif

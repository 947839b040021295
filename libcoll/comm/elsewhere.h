/*
 * Waits across communicators. A rank that is in no call of a communicator cannot enter one either
 * if all threads of its process wait on other communicators. The process then publishes what it
 * waits for in the rank's recorder, so that its peers find cycles of waits that pass through it.
 */
#ifndef COMM_ELSEWHERE_H
#define COMM_ELSEWHERE_H

/* The calling thread begins to wait in calls, or goes on. */
void comm_elsewhere_begin(void);
void comm_elsewhere_end(void);

/* By a thread that waits: publishes, if all threads of the process wait. */
void comm_elsewhere_publish(void);

/* A stream's worker has no job, or is given one by the calling thread. */
void comm_elsewhere_idle_begin(void);
void comm_elsewhere_idle_end(void);

#endif

/*
 * Waits that span communicators. A rank that is in no call of a communicator cannot enter one if
 * all threads of its process wait on other communicators. The process then publishes these waits in
 * the rank's recorder, so that its peers find cycles of waits that pass through it.
 */
#ifndef COMM_CROSS_WAIT_H
#define COMM_CROSS_WAIT_H

/* The calling thread begins to wait in a call, or stops waiting. */
void comm_cross_wait_begin(void);
void comm_cross_wait_end(void);

/* Called by a waiting thread. Publishes if all threads of the process wait. */
void comm_cross_wait_publish(void);

/* A stream's worker becomes idle, or the calling thread gives it a job. */
void comm_cross_wait_idle_begin(void);
void comm_cross_wait_idle_end(void);

#endif

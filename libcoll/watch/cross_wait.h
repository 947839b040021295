/*
 * Waits that span communicators. A process makes no call and sends no message while all of its
 * threads wait, on whatever communicators. It then publishes all these waits in the recorders of
 * its ranks, so that their peers find cycles of waits that pass through it.
 */
#ifndef WATCH_CROSS_WAIT_H
#define WATCH_CROSS_WAIT_H

/* The calling thread begins to wait in a call, or stops waiting. */
void watch_cross_wait_begin(void);
void watch_cross_wait_end(void);

/* Called by a waiting thread. Publishes if all threads of the process wait. The published polls are
 * grace periods. What one thread has counted may be published later by another one; but a period
 * that ends 3 after the one that a peer has read began after the peer had read it: the publication
 * of the first may have been under way, the second began before that publication. */
void watch_cross_wait_publish(void);

/* A stream's worker becomes idle, or the calling thread gives it a job. */
void watch_cross_wait_idle_begin(void);
void watch_cross_wait_idle_end(void);

#endif

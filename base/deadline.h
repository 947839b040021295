/* Waiting for file descriptors until a deadline (a time of base/clock.h). */
#ifndef BASE_DEADLINE_H
#define BASE_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

/* Milliseconds until the deadline, rounded up, for poll and similar calls; 0 if it has passed. */
int base_deadline_left_ms(uint64_t deadline_ns);

/* Waits until fd has one of poll's events, an error or a hang-up. Returns false at the deadline, or
 * when the thread's waits are cancelled (cancel.h). */
bool base_deadline_poll(int fd, short events, uint64_t deadline_ns);

/* Sets a time limit for connect on the socket: it fails at the deadline with EAGAIN, or with
 * EINPROGRESS on network sockets. If the deadline has passed, the limit is 1 microsecond. */
void base_deadline_limit(int fd, uint64_t deadline_ns);

#endif

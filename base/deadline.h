/* Waiting until a deadline (a time of base/clock.h), and time limits of system calls that block. */
#ifndef BASE_DEADLINE_H
#define BASE_DEADLINE_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Time until the deadline; 0 if it has passed. UINT64_MAX: there is none. Milliseconds are rounded
 * up. */
uint64_t base_deadline_left_ns(uint64_t deadline_ns);
int base_deadline_left_ms(uint64_t deadline_ns);

/* The time limit for one system call of a wait that has left_ns left: for poll and similar calls
 * (UINT64_MAX: -1), and for a futex. When it is over, the caller reads the clock again. */
int base_deadline_limit_ms(uint64_t left_ns);
struct timespec base_deadline_limit(uint64_t left_ns);

/* Initializes a condition, and waits for one so initialized for at most that limit. */
void base_deadline_condition(pthread_cond_t *condition);
void base_deadline_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t left_ns);

/* Waits until fd has one of poll's events, an error or a hang-up. Returns false at the deadline, or
 * when the thread's waits are cancelled (cancel.h). */
bool base_deadline_poll(int fd, short events, uint64_t deadline_ns);

/* The same for one of several. */
bool base_deadline_poll_any(struct pollfd polled[], nfds_t count, uint64_t deadline_ns);

#endif

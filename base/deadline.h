/* Waiting for descriptors until a point in time (base/clock.h). */
#ifndef BASE_DEADLINE_H
#define BASE_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

/* Milliseconds until the deadline, rounded up, for poll and the like; 0 when it has passed. */
int base_deadline_left_ms(uint64_t deadline_ns);

/* Whether fd has one of poll's events, or an end to report, before the deadline. */
bool base_deadline_poll(int fd, short events, uint64_t deadline_ns);

/* From now on connect on the socket gives up at the deadline: with EAGAIN, or EINPROGRESS where a
 * network is in between. One that has passed leaves it a moment. */
void base_deadline_limit(int fd, uint64_t deadline_ns);

#endif

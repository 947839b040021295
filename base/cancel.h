/*
 * Cancelling the waits of a thread that works in the background. Another thread sets a flag, and
 * what waits in that thread for sockets (deadline.h) or in a loop of its own gives up within some
 * 20 ms.
 */
#ifndef BASE_CANCEL_H
#define BASE_CANCEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define BASE_CANCEL_CHECK_NS UINT64_C(20000000)
#define BASE_CANCEL_WHY_BYTES 400

typedef struct base_cancel {
  char why[BASE_CANCEL_WHY_BYTES]; /* for error texts; written before `requested` is set */
  _Atomic bool requested;
} base_cancel_t;

/* What cancels the calling thread's waits from now on; NULL: nothing. Returns the former one. */
const base_cancel_t *base_cancel_watch(const base_cancel_t *cancel);

/* Whether the calling thread's waits may be cancelled at all. */
bool base_cancel_is_possible(void);

/* Whether they are cancelled. */
bool base_cancel_is_requested(void);

/* Why; "" if they are not. */
const char *base_cancel_why(void);

#endif

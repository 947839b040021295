/*
 * Failures: the place that first classifies one writes the sentence (what, which rank or file, what
 * to do) with base_fail; everyone above passes the status on with COLL_TRY. The sentence is kept
 * per thread until the next one.
 */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include <coll.h>

/* Leaves the function with the status of `call` unless it is COLL_OK. The one macro of this code
 * that hides control flow; a function that owns something uses a label and unwinds instead. */
#define COLL_TRY(call)                                      \
  do {                                                      \
    coll_status_t coll_try_status = (call);                 \
    if (coll_try_status != COLL_OK) return coll_try_status; \
  } while (0)

/* Keeps the sentence as this thread's last error and returns `status`. */
coll_status_t base_fail(coll_status_t status, const char *format, ...)
    __attribute__((cold, format(printf, 2, 3)));

/* The same, ending in ": " and the text of errno as it was on entry. */
coll_status_t base_fail_errno(coll_status_t status, const char *format, ...)
    __attribute__((cold, format(printf, 2, 3)));

/* This thread's last sentence, "" before any. Never NULL; valid until the thread's next failure. */
const char *base_last_error(void);

/* "out of memory" and so on; "unknown status" past the end. */
const char *base_status_string(coll_status_t status);

#endif

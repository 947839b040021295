/*
 * Error handling. The function that first detects a failure sets the error message (what failed,
 * which rank or file, what to do) with base_fail; its callers pass the status on with COLL_TRY.
 * Each thread has its own last message.
 */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include <coll.h>

/* Returns from the function with the status of `call` unless it is COLL_OK. This is the only macro
 * that hides control flow; a function that owns resources uses a label and cleans up instead. */
#define COLL_TRY(call)                                      \
  do {                                                      \
    coll_status_t coll_try_status = (call);                 \
    if (coll_try_status != COLL_OK) return coll_try_status; \
  } while (0)

/* Sets this thread's last error message and returns `status`. */
coll_status_t base_fail(coll_status_t status, const char *format, ...)
    __attribute__((cold, format(printf, 2, 3)));

/* The same, with ": " and the text of errno (its value on entry) appended. */
coll_status_t base_fail_errno(coll_status_t status, const char *format, ...)
    __attribute__((cold, format(printf, 2, 3)));

/* This thread's last error message, "" before any. Never NULL; valid until the thread's next
 * failure. */
const char *base_last_error(void);

/* Text of a status, such as "out of memory"; "unknown status" outside the enumeration. */
const char *base_status_string(coll_status_t status);

#endif

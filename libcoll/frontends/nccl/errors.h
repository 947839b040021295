/*
 * Failures: a result for the program, and a sentence for ncclGetLastError and NCCL_DEBUG=WARN.
 */
#ifndef FRONTENDS_NCCL_ERRORS_H
#define FRONTENDS_NCCL_ERRORS_H

#include <coll.h>
#include <pthread.h>

#include "frontends/nccl/abi.h"

#define NCCL_TEXT_BYTES 1024

/* At most once in a file: the function is called in the child of a fork, where it makes the file's
 * locks anew, as a thread of the parent may have held them. */
#define NCCL_IN_CHILD(function)                                 \
  __attribute__((constructor)) static void attach_child(void) { \
    (void)pthread_atfork(NULL, NULL, function);                 \
  }                                                             \
  _Static_assert(1, "for the semicolon")

/* Records the sentence as the latest failure of this thread and of the process; returns result. */
ncclResult_t nccl_fail(ncclResult_t result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Records the text of a failure that another thread has logged; returns result. */
ncclResult_t nccl_repeat(ncclResult_t result, const char *text);

/* The result for a status of coll.h. A failure is recorded with the text that coll.h has for it in
 * this thread, behind the name of the function that the program called. */
ncclResult_t nccl_result(coll_status_t status, const char *function);

/* The result alone: records nothing. */
ncclResult_t nccl_result_of(coll_status_t status);

/* The latest failure of this thread, or else of the process; "" if there was none. Valid until the
 * thread's next failure or call of this function. */
const char *nccl_last_text(void);

#endif

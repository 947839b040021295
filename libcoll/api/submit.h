/*
 * From a checked call to its execution: now, on a stream, or into the thread's group. All calls go
 * this way but those that repeat.h knows a shorter one for.
 */
#ifndef API_SUBMIT_H
#define API_SUBMIT_H

#include "base/inline.h"
#include "comm/batch.h"

/* How many groups the thread has open, one in the other. It is looked at by every call, so it is
 * found without asking where this thread's variables are: 4 bytes of what every program has room
 * for, when it loads the library late as well. */
extern _Thread_local int api_group_depth __attribute__((tls_model("initial-exec")));

static inline bool api_group_is_open(void) {
  return api_group_depth > 0;
}

/* Outside groups and streams a call runs right here, in the caller's thread. */
static inline bool api_runs_at_once(coll_stream_t stream) {
  return stream == NULL && !api_group_is_open();
}

/* Whatever api_submit does not run at once. */
coll_status_t api_submit_otherwise(coll_status_t checked, const comm_call_t *call,
                                   coll_stream_t stream);

/* What a verb's checks came to, and the call if they passed. Takes over call->blocks. */
BASE_INLINE coll_status_t api_submit(coll_status_t checked, const comm_call_t *call,
                                     coll_stream_t stream) {
  if (checked != COLL_OK || !api_runs_at_once(stream)) {
    return api_submit_otherwise(checked, call, stream);
  }
  coll_status_t status = comm_call_run(call);
  comm_call_free(call);
  return status;
}

/* Queues the calls (whose blocks it takes over, on failure too) as one batch behind what is on the
 * stream. */
coll_status_t api_stream_push(coll_stream_t stream, const comm_call_t calls[], size_t count);

/* Instead of making the call, whose blocks it takes over. Where memory ran out its peers make it
 * all the same, and shall not wait for it: its communicator is finished. */
void api_call_drop(const comm_call_t *call, coll_status_t status);

/* COLL_ERROR_INVALID unless `stream` is a live stream, as far as can be told. */
coll_status_t api_stream_check(coll_stream_t stream);

/* Adds to the thread's group what a verb came to. Takes over call->blocks. */
coll_status_t api_group_add(coll_status_t checked, const comm_call_t *call, coll_stream_t stream);

#endif

/*
 * From a checked call to its execution: at once, on a stream, or in the thread's group. All calls
 * except those on the fast path (fastpath.h) go this way.
 */
#ifndef API_SUBMIT_H
#define API_SUBMIT_H

#include "base/inline.h"
#include "run/batch.h"

/* The nesting depth of the thread's open groups. Every call reads it, so it uses the initial-exec
 * TLS model: an access without a function call, for 4 bytes of the static TLS space, which is
 * available also if the library is loaded by dlopen. */
extern _Thread_local int api_group_depth __attribute__((tls_model("initial-exec")));

static inline bool api_group_is_open(void) {
  return api_group_depth > 0;
}

/* A call outside groups and streams runs at once, in the caller's thread. */
static inline bool api_runs_at_once(coll_stream_t stream) {
  return stream == NULL && !api_group_is_open();
}

/* For failed checks, open groups, streams, and buffers that may be memory of a GPU. */
coll_status_t api_submit_slow(coll_status_t checked, const run_call_t *call, coll_stream_t stream);

/* Submits the call if its checks passed (`checked` is COLL_OK); else returns `checked`. Takes over
 * call->blocks. */
BASE_INLINE coll_status_t api_submit(coll_status_t checked, const run_call_t *call,
                                     coll_stream_t stream) {
  if (checked != COLL_OK || !api_runs_at_once(stream) || call->comm->near_gpu) {
    return api_submit_slow(checked, call, stream);
  }
  coll_status_t status = run_call_run(call);
  run_call_free(call);
  return status;
}

/* Drops the call and takes over its blocks. If memory ran out, peers make the call and must not
 * wait for this rank, so the communicator is ended. */
void api_call_drop(const run_call_t *call, coll_status_t status);

/* Adds a call to the thread's group, or records the failure of its checks. Takes over call->blocks.
 */
coll_status_t api_group_add(coll_status_t checked, const run_call_t *call, coll_stream_t stream);

#endif

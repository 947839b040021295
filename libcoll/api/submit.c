/* Outside groups and streams a call runs right here, in the caller's thread. */
#include "api/submit.h"

#include <stdlib.h>

#include "base/inline.h"

static coll_status_t run_now(const comm_call_t *call) {
  coll_status_t status = comm_call_run(call);
  comm_call_free(call);
  return status;
}

BASE_APART static coll_status_t queue(const comm_call_t *call, coll_stream_t stream) {
  coll_status_t status = api_stream_check(stream);
  if (status != COLL_OK) {
    comm_call_free(call);
    return status;
  }
  return api_stream_push(stream, call, 1);
}

coll_status_t api_submit(coll_status_t checked, const comm_call_t *call, coll_stream_t stream) {
  if (checked != COLL_OK && comm_check(call->comm) == COLL_OK) comm_keep_error(call->comm, checked);
  if (api_group_is_open()) return api_group_add(checked, call, stream);
  if (checked != COLL_OK) {
    comm_call_free(call);
    return checked;
  }
  return stream == NULL ? run_now(call) : queue(call, stream);
}

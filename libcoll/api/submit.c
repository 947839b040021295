/* The slow path of api_submit: calls that fail, join a group or are queued on a stream. */
#include "api/submit.h"

#include "api/stream.h"

void api_call_drop(const comm_call_t *call, coll_status_t status) {
  if (status == COLL_ERROR_MEMORY && call->comm != NULL) {
    comm_calls_drop(call, 1, status);
  } else {
    comm_call_free(call);
  }
}

static coll_status_t queue(const comm_call_t *call, coll_stream_t stream) {
  coll_status_t status = api_stream_check(stream);
  if (status != COLL_OK) {
    comm_call_free(call);
    return status;
  }
  return api_stream_push(stream, call);
}

coll_status_t api_submit_slow(coll_status_t checked, const comm_call_t *call,
                              coll_stream_t stream) {
  if (checked != COLL_OK && comm_check(call->comm) == COLL_OK)
    comm_record_error(call->comm, checked);
  if (api_group_is_open()) return api_group_add(checked, call, stream);
  if (checked == COLL_OK) return queue(call, stream);
  api_call_drop(call, checked);
  return checked;
}

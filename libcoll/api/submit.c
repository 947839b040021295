/* The slow path of api_submit: calls that fail, join a group or are queued on a stream. */
#include "api/submit.h"

#include "api/gpu.h"
#include "api/stream.h"

void api_call_drop(const run_call_t *call, coll_status_t status) {
  if (status == COLL_ERROR_MEMORY && call->comm != NULL) {
    run_calls_drop(call, 1, status);
  } else {
    run_call_free(call);
  }
}

static coll_status_t run(const run_call_t *call, coll_stream_t stream) {
  if (stream == NULL) {
    coll_status_t status = run_call_run(call);
    run_call_free(call);
    return status;
  }
  return api_stream_is_gpu(stream) ? api_gpu_run(call, stream) : api_stream_push(stream, call);
}

/* Replaces *stream, if the call is on a GPU without naming one of its streams. */
static coll_status_t check_stream(const run_call_t *call, coll_stream_t *stream) {
  if (*stream != NULL) COLL_TRY(api_stream_check(*stream));
  return api_gpu_resolve(call, stream);
}

coll_status_t api_submit_slow(coll_status_t checked, const run_call_t *call, coll_stream_t stream) {
  /* Pairs of a group are as short as calls get. */
  if (checked == COLL_OK && stream == NULL && !call->comm->near_gpu) {
    return api_group_add(checked, call, stream);
  }
  bool is_live = comm_check(call->comm) == COLL_OK;
  if (checked == COLL_OK) checked = check_stream(call, &stream);
  if (checked != COLL_OK && is_live) comm_record_error(call->comm, checked);
  if (api_group_is_open()) return api_group_add(checked, call, stream);
  if (checked == COLL_OK) return run(call, stream);
  api_call_drop(call, checked);
  return checked;
}

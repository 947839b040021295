/*
 * A group collects calls in thread-local arrays. Its end coalesces small calls and makes one batch
 * per stream. The batches of streams are queued first; the caller's own batch runs last, so that
 * all progress together.
 */
#include <stdlib.h>

#include "api/submit.h"
#include "base/memory.h"
#include "comm/coalesce.h"

typedef struct group {
  coll_status_t status; /* first error of a call in the group */
  comm_call_t *calls;
  coll_stream_t *streams; /* of each call */
  size_t count, call_capacity, stream_capacity;
} group_t;

_Thread_local int api_group_depth;
static _Thread_local group_t group;

/* The calls of a communicator have one order, which would be undefined on two streams of one group.
 */
static coll_status_t check_one_stream(const comm_call_t *call, coll_stream_t stream) {
  for (size_t i = group.count; i-- > 0;) {
    if (group.calls[i].comm != call->comm) continue;
    if (group.streams[i] == stream) return COLL_OK;
    return base_fail(COLL_ERROR_INVALID,
                     "rank %d: one group uses the communicator on two streams: put the calls on "
                     "one, or into two groups",
                     call->comm->rank);
  }
  return COLL_OK;
}

static coll_status_t make_room(void) {
  COLL_TRY(base_grow((void **)&group.calls, &group.call_capacity, group.count + 1,
                     sizeof *group.calls, "a group's calls"));
  return base_grow((void **)&group.streams, &group.stream_capacity, group.count + 1,
                   sizeof *group.streams, "a group's streams");
}

coll_status_t api_group_add(coll_status_t checked, const comm_call_t *call, coll_stream_t stream) {
  if (checked == COLL_OK && stream != NULL) checked = api_stream_check(stream);
  if (checked == COLL_OK) checked = check_one_stream(call, stream);
  if (checked == COLL_OK) checked = make_room();
  if (checked != COLL_OK) {
    api_call_drop(call, checked);
    if (group.status == COLL_OK) group.status = checked;
    return checked;
  }
  group.calls[group.count] = *call;
  group.streams[group.count++] = stream;
  return COLL_OK;
}

coll_status_t coll_group_start(void) {
  api_group_depth++;
  return COLL_OK;
}

static void close_group(void) {
  free(group.calls);
  free(group.streams);
  group = (group_t){0};
}

/* Drops the remaining calls. Coalesced calls that another call replaces have comm NULL. */
static void drop_calls(coll_status_t status) {
  for (size_t i = 0; i < group.count; i++) api_call_drop(&group.calls[i], status);
}

/* Moves the calls of `stream` to `calls`, in order, and returns their number; `calls` has room for
 * all. Removes calls that another call replaces. */
static size_t take_stream(coll_stream_t stream, comm_call_t *calls) {
  size_t taken = 0, remaining = 0;
  for (size_t i = 0; i < group.count; i++) {
    if (group.calls[i].comm == NULL) continue;
    if (group.streams[i] == stream) {
      calls[taken++] = group.calls[i];
    } else {
      group.streams[remaining] = group.streams[i];
      group.calls[remaining++] = group.calls[i];
    }
  }
  group.count = remaining;
  return taken;
}

static bool is_collective_of(const comm_call_t *call, const struct coll_comm *comm) {
  return call->comm == comm && call->kind == COMM_COLLECTIVE;
}

/* Sets comm_call_t.continues. Ranks compare which collectives of a communicator a group holds. */
static void mark_continued(void) {
  for (size_t i = 0; i < group.count; i++) {
    comm_call_t *call = &group.calls[i];
    if (call->comm == NULL || call->kind != COMM_COLLECTIVE) continue;
    for (size_t j = i + 1; j < group.count && !call->continues; j++) {
      call->continues = is_collective_of(&group.calls[j], call->comm);
    }
  }
}

static coll_status_t take_caller_calls(comm_call_t *calls, comm_batch_t *own) {
  size_t taken = take_stream(NULL, calls);
  if (taken == 0) return COLL_OK;
  coll_status_t status = comm_batch_create(calls, taken, own);
  if (status != COLL_OK) comm_calls_drop(calls, taken, status);
  return status;
}

/* Queues the batches of all streams, then runs the caller's own batch. */
static coll_status_t launch(comm_call_t *calls) {
  comm_batch_t own = {0};
  coll_status_t status = take_caller_calls(calls, &own);
  while (group.count > 0 && status == COLL_OK) {
    coll_stream_t stream = group.streams[0];
    size_t taken = take_stream(stream, calls);
    status = api_stream_push(stream, calls, taken);
  }
  if (own.call_count == 0) return status;
  if (status != COLL_OK) {
    comm_batch_drop(&own, status);
    return status;
  }
  return comm_batch_run(&own, false);
}

coll_status_t coll_group_end(void) {
  comm_call_t *calls = NULL;
  if (api_group_depth == 0) {
    return base_fail(COLL_ERROR_INVALID, "coll_group_end without coll_group_start in this thread");
  }
  if (--api_group_depth > 0) return COLL_OK;
  coll_status_t status = group.status;
  if (status == COLL_OK && group.count > 0) {
    status = base_alloc(group.count, sizeof *calls, "a group's calls", (void **)&calls);
    if (status == COLL_OK) status = comm_coalesce(group.calls, group.count);
    if (status == COLL_OK) {
      mark_continued();
      status = launch(calls);
    }
  }
  drop_calls(status);
  free(calls);
  close_group();
  return status;
}

/*
 * A group collects calls, or communicators to be made, in thread-local arrays. Its end launches
 * them (launch.h, create.h).
 */
#include <stdlib.h>
#include <unistd.h>

#include "api/create.h"
#include "api/gpu.h"
#include "api/group_run.h"
#include "api/stream.h"
#include "api/submit.h"
#include "base/alloc.h"
#include "base/fork.h"

typedef struct collector {
  coll_status_t status; /* first error of a call in the group */
  api_group_t group;
  size_t call_capacity, stream_capacity;
  api_creations_t creations;
  pid_t maker; /* this process was forked in the group, from that one; 0: it was not */
} collector_t;

_Thread_local int api_group_depth;
static _Thread_local collector_t collector;

/* In the thread that called fork. What its open group has collected is the parent's. */
static void forget(void) {
  if (api_group_depth == 0) return;
  collector = (collector_t){.status = COLL_ERROR_INVALID, .maker = getppid()};
}
BASE_FORK_PART(NULL, forget);

/* Whether the latest call of the communicator in the group names another stream, or none. */
static bool changes_stream(const api_group_t *group, const run_call_t *call, coll_stream_t stream) {
  for (size_t i = group->count; i-- > 0;) {
    if (group->calls[i].comm == call->comm) return group->streams[i] != stream;
  }
  return false;
}

static coll_status_t make_room(void) {
  api_group_t *group = &collector.group;
  COLL_TRY(base_grow((void **)&group->calls, &collector.call_capacity, group->count + 1,
                     sizeof *group->calls, "a group's calls"));
  return base_grow((void **)&group->streams, &collector.stream_capacity, group->count + 1,
                   sizeof *group->streams, "a group's streams");
}

static coll_status_t fail_mixed(void) {
  return base_fail(COLL_ERROR_INVALID,
                   "a group has either calls of communicators or the creation of others: end the "
                   "group that creates them first");
}

coll_status_t api_group_fail(coll_status_t status) {
  bool is_error = status != COLL_OK && status != COLL_IN_PROGRESS;
  if (is_error && api_group_is_open() && collector.status == COLL_OK) collector.status = status;
  return status;
}

coll_status_t api_group_creations(api_creations_t **creations) {
  *creations = &collector.creations;
  return collector.group.count > 0 ? fail_mixed() : COLL_OK;
}

coll_status_t api_group_add(coll_status_t checked, const run_call_t *call, coll_stream_t stream) {
  api_group_t *group = &collector.group;
  if (checked == COLL_OK && collector.creations.count > 0) checked = fail_mixed();
  if (checked == COLL_OK) checked = make_room();
  if (checked != COLL_OK) {
    api_call_drop(call, checked);
    return api_group_fail(checked);
  }
  bool on_gpu = stream != NULL && api_stream_is_gpu(stream);
  group->on_gpus = group->on_gpus || on_gpu;
  group->on_streams = group->on_streams || (stream != NULL && !on_gpu);
  group->joins = group->joins || (group->on_streams && changes_stream(group, call, stream));
  group->calls[group->count] = *call;
  group->streams[group->count++] = stream;
  return COLL_OK;
}

coll_status_t coll_group_start(void) {
  api_group_depth++;
  return COLL_OK;
}

static coll_status_t run_group(api_group_t *group, coll_status_t status) {
  if (status == COLL_OK) return group->count > 0 ? api_group_run(group) : COLL_OK;
  for (size_t i = 0; i < group->count; i++) api_call_drop(&group->calls[i], status);
  return status;
}

static coll_status_t fail_inherited(pid_t maker) {
  return base_fork_fail("the group", maker, "a forked process begins its own after the fork");
}

static coll_status_t fail_no_group(const char *function) {
  return base_fail(COLL_ERROR_INVALID, "%s without coll_group_start in this thread", function);
}

/* Takes what the thread's group has collected: a progress callback may make groups of its own. */
static collector_t take_collected(void) {
  collector_t taken = collector;
  collector = (collector_t){0};
  return taken;
}

/* Runs what was collected, or with a failure drops it. */
static coll_status_t finish(collector_t *ended, coll_status_t status) {
  if (ended->creations.count > 0 && status == COLL_OK) {
    status = api_creations_run(&ended->creations);
  } else {
    api_creations_discard(&ended->creations, status);
    status = run_group(&ended->group, status);
  }
  free(ended->group.calls);
  free(ended->group.streams);
  return status;
}

coll_status_t coll_group_end(void) {
  if (api_group_depth == 0) return fail_no_group("coll_group_end");
  if (--api_group_depth > 0) return COLL_OK;
  collector_t ended = take_collected();
  return finish(&ended, ended.maker != 0 ? fail_inherited(ended.maker) : ended.status);
}

coll_status_t coll_group_cancel(void) {
  if (api_group_depth == 0) return fail_no_group("coll_group_cancel");
  api_group_depth = 0;
  collector_t cancelled = take_collected();
  bool had_failed = cancelled.status != COLL_OK;
  (void)finish(&cancelled, had_failed ? cancelled.status : COLL_ERROR_INVALID);
  return COLL_OK;
}

/*
 * A group collects calls, or communicators to be made, in thread-local arrays. Its end launches
 * them (launch.h, create.h). A group of few calls allocates nothing.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/create.h"
#include "api/gpu.h"
#include "api/group_run.h"
#include "api/stream.h"
#include "api/submit.h"
#include "base/alloc.h"
#include "base/fork.h"
#include "base/thread_memory.h"
#include "run/batch.h"

typedef struct collector {
  coll_status_t status; /* first error of a call in the group */
  api_group_t group;
  size_t call_capacity, stream_capacity;
  api_creations_t creations;
  pid_t maker; /* this process was forked in the group, from that one; 0: it was not */
} collector_t;

_Thread_local int api_group_depth;
static _Thread_local collector_t collector;

/* The arrays of a group that has no more calls, and runs in no progress callback of another one. A
 * thread keeps them. */
typedef struct few {
  run_call_t calls[RUN_FEW_CALLS];
  coll_stream_t streams[RUN_FEW_CALLS];
  bool is_used;
} few_t;

static base_thread_memory_t few_memory = {.bytes = sizeof(few_t)};

/* NULL: there are none, or they are used. */
static few_t *take_few(void) {
  few_t *few = base_thread_memory_allocate(&few_memory);
  if (few == NULL || few->is_used) return NULL;
  few->is_used = true;
  return few;
}

/* Whether the group uses the thread's, which it then no longer does. */
static bool give_back_few(const api_group_t *group) {
  few_t *few = group->calls != NULL ? base_thread_memory_find(&few_memory) : NULL;
  bool is_few = few != NULL && group->calls == few->calls;
  if (is_few) few->is_used = false;
  return is_few;
}

static void free_arrays(api_group_t *group) {
  if (give_back_few(group)) return;
  free(group->calls);
  free(group->streams);
}

/* In the thread that called fork. What its open group has collected is the parent's. */
static void forget(void) {
  if (api_group_depth == 0) return;
  (void)give_back_few(&collector.group);
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

static coll_status_t grow(collector_t *grown) {
  api_group_t *group = &grown->group;
  COLL_TRY(base_grow((void **)&group->calls, &grown->call_capacity, group->count + 1,
                     sizeof *group->calls, "a group's calls"));
  return base_grow((void **)&group->streams, &grown->stream_capacity, group->count + 1,
                   sizeof *group->streams, "a group's streams");
}

/* From the arrays of few calls to arrays that grow. */
static coll_status_t move_to_heap(void) {
  collector_t moved = collector;
  moved.group.calls = NULL;
  moved.group.streams = NULL;
  coll_status_t status = grow(&moved);
  if (status != COLL_OK) {
    free(moved.group.calls);
    return status;
  }
  size_t count = collector.group.count;
  memcpy(moved.group.calls, collector.group.calls, count * sizeof *moved.group.calls);
  memcpy(moved.group.streams, collector.group.streams, count * sizeof *moved.group.streams);
  (void)give_back_few(&collector.group);
  collector = moved;
  return COLL_OK;
}

static coll_status_t make_room(void) {
  api_group_t *group = &collector.group;
  few_t *few = group->calls == NULL ? take_few() : NULL;
  if (few != NULL) {
    group->calls = few->calls;
    group->streams = few->streams;
  }
  if (group->calls == NULL || collector.call_capacity > 0) return grow(&collector);
  return group->count < RUN_FEW_CALLS ? COLL_OK : move_to_heap();
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
  free_arrays(&ended->group);
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

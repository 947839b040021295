/*
 * Each stream gets one job of the group. If the calls of a communicator name several streams, one
 * of them, or the calling thread if a call names none, runs the calls; a join holds the others
 * (run/join.h). Jobs of all streams are queued at once; the caller's own batch runs last, so that
 * all progress together.
 */
#include "api/group_run.h"

#include <stdlib.h>
#include <string.h>

#include "api/gpu.h"
#include "api/stream.h"
#include "api/submit.h"
#include "base/alloc.h"
#include "run/coalesce.h"

/* A communicator uses the stream, and other streams beside it. */
typedef struct use {
  coll_stream_t stream;
  run_join_t *join;
} use_t;

typedef struct launch {
  api_group_t *group;
  use_t *uses;
  size_t use_count;
  coll_stream_t *streams; /* distinct, in the order of their addresses */
  size_t stream_count;
  api_job_t **jobs;
  /* of one job */
  run_call_t *calls;
  run_join_t **joins;
  run_batch_t own;
} launch_t;

/* Drops the remaining calls. Coalesced calls that another call replaces have comm NULL. */
static void drop_calls(const api_group_t *group, coll_status_t status) {
  for (size_t i = 0; i < group->count; i++) api_call_drop(&group->calls[i], status);
}

/* ---- what the calls of a group have in common ------------------------------------------------*/

static bool is_collective_of(const run_call_t *call, const struct coll_comm *comm) {
  return call->comm == comm && call->kind == RUN_COLLECTIVE;
}

/* Sets run_call_t.continues. Ranks compare which collectives of a communicator a group holds. */
static void mark_continued(api_group_t *group) {
  for (size_t i = 0; i < group->count; i++) {
    run_call_t *call = &group->calls[i];
    if (call->comm == NULL || call->kind != RUN_COLLECTIVE) continue;
    for (size_t j = i + 1; j < group->count && !call->continues; j++) {
      call->continues = is_collective_of(&group->calls[j], call->comm);
    }
  }
}

static coll_status_t combine(api_group_t *group) {
  COLL_TRY(run_coalesce(group->calls, group->count));
  mark_continued(group);
  return COLL_OK;
}

/* ---- joins ----------------------------------------------------------------------------------*/

/* Whether the call is the first one of its communicator that names its stream. */
static bool is_first_use(const api_group_t *group, size_t index) {
  for (size_t i = index; i-- > 0;) {
    if (group->calls[i].comm == group->calls[index].comm &&
        group->streams[i] == group->streams[index]) {
      return false;
    }
  }
  return true;
}

/* Makes the join of the communicator whose first call is at `first`, if it needs one. */
static coll_status_t join_comm(launch_t *launch, size_t first) {
  api_group_t *group = launch->group;
  const struct coll_comm *comm = group->calls[first].comm;
  coll_stream_t home = group->streams[first];
  size_t uses = launch->use_count;
  run_join_t *join;
  for (size_t i = first; i < group->count; i++) {
    if (group->calls[i].comm != comm || !is_first_use(group, i)) continue;
    if (group->streams[i] == NULL) home = NULL;
    if (group->streams[i] != NULL) launch->uses[uses++].stream = group->streams[i];
  }
  size_t streams = uses - launch->use_count;
  if (streams == (home != NULL)) return COLL_OK; /* one stream, or none */
  COLL_TRY(run_join_create((int)streams, &join));
  while (launch->use_count < uses) launch->uses[launch->use_count++].join = join;
  for (size_t i = first; i < group->count; i++) {
    if (group->calls[i].comm != comm) continue;
    group->calls[i].join = join;
    group->streams[i] = home;
  }
  return COLL_OK;
}

/* Afterwards group->streams says where the calls run. */
static coll_status_t join_comms(launch_t *launch) {
  api_group_t *group = launch->group;
  for (size_t i = 0; i < group->count; i++) {
    bool seen = group->calls[i].join != NULL;
    for (size_t j = i; j-- > 0 && !seen;) seen = group->calls[j].comm == group->calls[i].comm;
    if (!seen) COLL_TRY(join_comm(launch, i));
  }
  return COLL_OK;
}

/* Each join is in the uses of at least one stream; its uses are consecutive. */
static void free_joins(launch_t *launch) {
  for (size_t i = 0; i < launch->use_count; i++) {
    bool last = i + 1 == launch->use_count || launch->uses[i + 1].join != launch->uses[i].join;
    if (last) run_join_free(launch->uses[i].join);
  }
}

/* ---- jobs -----------------------------------------------------------------------------------*/

static int compare_addresses(const void *a, const void *b) {
  uintptr_t first = (uintptr_t) * (const coll_stream_t *)a;
  uintptr_t second = (uintptr_t) * (const coll_stream_t *)b;
  return (first > second) - (first < second);
}

static void list_streams(launch_t *launch) {
  const api_group_t *group = launch->group;
  size_t named = 0, distinct = 0;
  for (size_t i = 0; i < group->count; i++) {
    if (group->streams[i] != NULL) launch->streams[named++] = group->streams[i];
  }
  qsort(launch->streams, named, sizeof *launch->streams, compare_addresses);
  for (size_t i = 0; i < named; i++) {
    if (i > 0 && launch->streams[i] == launch->streams[i - 1]) continue;
    launch->streams[distinct++] = launch->streams[i];
  }
  launch->stream_count = distinct;
}

/* Copies the calls that `stream` runs to launch->calls, in order. Returns their number. */
static size_t select_calls(launch_t *launch, coll_stream_t stream) {
  const api_group_t *group = launch->group;
  size_t count = 0;
  for (size_t i = 0; i < group->count; i++) {
    if (group->calls[i].comm == NULL || group->streams[i] != stream) continue;
    launch->calls[count++] = group->calls[i];
  }
  return count;
}

static size_t select_joins(launch_t *launch, coll_stream_t stream) {
  size_t count = 0;
  for (size_t i = 0; i < launch->use_count; i++) {
    if (launch->uses[i].stream == stream) launch->joins[count++] = launch->uses[i].join;
  }
  return count;
}

static coll_status_t create_jobs(launch_t *launch) {
  size_t count = select_calls(launch, NULL);
  if (count > 0) COLL_TRY(run_batch_create(launch->calls, count, &launch->own));
  for (size_t i = 0; i < launch->stream_count; i++) {
    count = select_calls(launch, launch->streams[i]);
    size_t joins = select_joins(launch, launch->streams[i]);
    COLL_TRY(api_job_create(launch->calls, count, launch->joins, joins, &launch->jobs[i]));
  }
  return COLL_OK;
}

static coll_status_t prepare(launch_t *launch) {
  size_t count = launch->group->count;
  const char *what = "a group's calls";
  COLL_TRY(base_alloc(count, sizeof *launch->uses, what, (void **)&launch->uses));
  COLL_TRY(base_alloc(count, sizeof *launch->streams, what, (void **)&launch->streams));
  COLL_TRY(base_alloc(count, sizeof *launch->jobs, what, (void **)&launch->jobs));
  COLL_TRY(base_alloc(count, sizeof *launch->calls, what, (void **)&launch->calls));
  COLL_TRY(base_alloc(count, sizeof *launch->joins, what, (void **)&launch->joins));
  list_streams(launch);
  if (launch->group->joins) COLL_TRY(join_comms(launch));
  COLL_TRY(combine(launch->group));
  return create_jobs(launch);
}

/* After a failure of prepare: nothing of the group runs. */
static void discard(launch_t *launch, coll_status_t status) {
  for (size_t i = 0; i < launch->stream_count; i++) api_job_free(launch->jobs[i]);
  run_batch_discard(&launch->own);
  free_joins(launch);
  drop_calls(launch->group, status);
}

static coll_status_t launch_on_streams(api_group_t *group) {
  launch_t launch = {.group = group};
  coll_status_t status = prepare(&launch);
  if (status == COLL_OK) {
    api_streams_push(launch.streams, launch.jobs, launch.stream_count, &launch.own);
  } else {
    discard(&launch, status);
  }
  free(launch.uses);
  free(launch.streams);
  free(launch.jobs);
  free(launch.calls);
  free(launch.joins);
  return launch.own.call_count > 0 ? run_batch_run(&launch.own, false) : status;
}

/* ---- without streams ------------------------------------------------------------------------*/

static void remove_replaced(api_group_t *group) {
  size_t count = 0;
  for (size_t i = 0; i < group->count; i++) {
    if (group->calls[i].comm != NULL) group->calls[count++] = group->calls[i];
  }
  group->count = count;
}

static coll_status_t launch_here(api_group_t *group) {
  coll_status_t status = combine(group);
  if (status != COLL_OK) {
    drop_calls(group, status);
    return status;
  }
  remove_replaced(group);
  return run_calls_run(group->calls, group->count);
}

/* ---- on GPUs --------------------------------------------------------------------------------*/

static coll_status_t check_one_kind(const api_group_t *group, size_t gpu_calls) {
  for (size_t i = 0; i < gpu_calls; i++) {
    for (size_t j = gpu_calls; j < group->count; j++) {
      if (group->calls[i].comm != group->calls[j].comm) continue;
      return base_fail(COLL_ERROR_INVALID,
                       "rank %d: a group has calls of one communicator on a GPU and on the host: "
                       "put them into two groups",
                       group->calls[i].comm->rank);
    }
  }
  return COLL_OK;
}

/* Moves the calls on GPUs to the front, in order. The arrays have room for all calls. */
static void select_gpu_calls(api_group_t *group, run_call_t calls[], coll_stream_t streams[],
                             size_t *gpu_calls) {
  size_t count = 0;
  for (int on_gpu = 1; on_gpu >= 0; on_gpu--) {
    for (size_t i = 0; i < group->count; i++) {
      coll_stream_t stream = group->streams[i];
      if ((stream != NULL && api_stream_is_gpu(stream)) != (on_gpu == 1)) continue;
      calls[count] = group->calls[i];
      streams[count++] = stream;
    }
    if (on_gpu == 1) *gpu_calls = count;
  }
  memcpy(group->calls, calls, count * sizeof *calls);
  memcpy(group->streams, streams, count * sizeof(coll_stream_t));
}

static coll_status_t sort_kinds(api_group_t *group, size_t *gpu_calls) {
  run_call_t *calls = NULL;
  coll_stream_t *streams = NULL;
  const char *what = "a group's calls";
  coll_status_t status = base_alloc(group->count, sizeof *calls, what, (void **)&calls);
  if (status == COLL_OK) {
    status = base_alloc(group->count, sizeof(coll_stream_t), what, (void **)&streams);
  }
  if (status == COLL_OK) select_gpu_calls(group, calls, streams, gpu_calls);
  free(calls);
  free(streams);
  return status == COLL_OK ? check_one_kind(group, *gpu_calls) : status;
}

/* Queues the calls on GPUs, runs the others, and then waits, so that all progress together. */
static coll_status_t launch_both(api_group_t *group, size_t gpu_calls, offload_stream_t on[]) {
  api_group_t rest = *group;
  coll_status_t first = api_gpu_queue(group->calls, group->streams, gpu_calls, on);
  rest.calls += gpu_calls;
  rest.streams += gpu_calls;
  rest.count -= gpu_calls;
  rest.on_gpus = false;
  coll_status_t status = rest.count > 0 ? api_group_run(&rest) : COLL_OK;
  if (first == COLL_OK) first = status;
  status = offload_complete(group->calls, on, gpu_calls);
  return first == COLL_OK ? status : first;
}

static coll_status_t launch_on_gpus(api_group_t *group) {
  size_t gpu_calls = 0;
  offload_stream_t *on = NULL;
  coll_status_t status = sort_kinds(group, &gpu_calls);
  if (status == COLL_OK) {
    status = base_alloc(gpu_calls, sizeof *on, "calls on GPUs", (void **)&on);
  }
  if (status == COLL_OK) {
    status = launch_both(group, gpu_calls, on);
  } else {
    drop_calls(group, status);
  }
  free(on);
  return status;
}

coll_status_t api_group_run(api_group_t *group) {
  if (group->on_gpus) return launch_on_gpus(group);
  return group->on_streams ? launch_on_streams(group) : launch_here(group);
}

/*
 * Groups. Calls go into a group of coll.h as they come; windows, creations and destructions, which
 * that does not take, are kept here: the end makes the windows, runs the calls, then makes the
 * communicators, then destroys.
 */
#include "frontends/nccl/group.h"

#include <stdio.h>
#include <stdlib.h>

#include "frontends/nccl/environment.h"
#include "frontends/nccl/windows.h"

/* A call, for its estimated time, or a release if `releases`, whose failure is none if `aborts`. */
typedef struct member {
  ncclComm_t comm;
  bool releases, aborts;
  coll_collective_t collective;
  size_t count;
  coll_dtype_t dtype;
} member_t;

typedef struct group {
  ncclResult_t status; /* the first failure */
  bool has_calls;      /* a group of coll.h is open */
  member_t *members;
  size_t count, capacity;
  nccl_creation_t *first, *last;
  ncclWindow_t first_window, last_window;
  bool is_inherited; /* this process was forked in the group */
} group_t;

_Thread_local int nccl_group_depth;
static _Thread_local group_t group;

/* In the thread that called fork. What its open group has is the parent's. */
static void forget(void) {
  group = (group_t){.has_calls = group.has_calls, .is_inherited = nccl_group_depth > 0};
}
NCCL_IN_CHILD(forget);

void nccl_group_fail(ncclResult_t result) {
  if (group.status == ncclSuccess) group.status = result;
}

static ncclResult_t add_member(const member_t *member) {
  if (group.count == group.capacity) {
    size_t capacity = group.capacity > 0 ? 2 * group.capacity : 8;
    member_t *members = realloc(group.members, capacity * sizeof *members);
    if (members == NULL) return nccl_fail(ncclSystemError, "out of memory for a group's calls");
    group.members = members;
    group.capacity = capacity;
  }
  group.members[group.count++] = *member;
  return ncclSuccess;
}

ncclResult_t nccl_group_add_call(ncclComm_t comm, coll_collective_t collective, size_t count,
                                 coll_dtype_t dtype) {
  ncclResult_t result = add_member(
      &(member_t){.comm = comm, .collective = collective, .count = count, .dtype = dtype});
  if (result != ncclSuccess) return result;
  nccl_handle_use(comm);
  if (group.has_calls) return ncclSuccess;
  group.has_calls = true;
  return nccl_result(coll_group_start(), "ncclGroupStart");
}

void nccl_group_add_creation(nccl_creation_t *creation) {
  *(group.last != NULL ? &group.last->next : &group.first) = creation;
  group.last = creation;
}

void nccl_group_add_window(ncclWindow_t window) {
  *(group.last_window != NULL ? nccl_window_next(group.last_window) : &group.first_window) = window;
  group.last_window = window;
}

ncclResult_t nccl_group_add_release(ncclComm_t comm, bool aborts) {
  return add_member(&(member_t){.comm = comm, .releases = true, .aborts = aborts});
}

/* Runs the calls, or drops them. */
static ncclResult_t end_calls(const group_t *ended, bool runs) {
  if (!ended->has_calls) return ncclSuccess;
  return runs ? nccl_result(coll_group_end(), "ncclGroupEnd")
              : nccl_result(coll_group_cancel(), "ncclGroupEnd");
}

/* Ends uses: of calls, and of programs. Destroys what nobody uses any more. */
static ncclResult_t release_members(group_t *ended) {
  ncclResult_t first = ncclSuccess;
  for (size_t i = 0; i < ended->count; i++) {
    coll_status_t status = nccl_handle_release(ended->members[i].comm);
    if (first == ncclSuccess && !ended->members[i].aborts)
      first = nccl_result(status, "ncclCommDestroy");
  }
  free(ended->members);
  return first;
}

/* Ends a level; true if it was the outermost, whose group is then in *ended. */
static bool leave(group_t *ended) {
  if (--nccl_group_depth > 0) return false;
  *ended = group;
  group = (group_t){0};
  return true;
}

static ncclResult_t refuse_end(const char *function) {
  return nccl_fail(ncclInvalidUsage, "%s without ncclGroupStart in this thread", function);
}

ncclResult_t ncclGroupStart(void) {
  nccl_environment_read();
  nccl_group_depth++;
  return ncclSuccess;
}
NCCL_ALIAS(ncclGroupStart);

/* Makes the windows and runs the calls. These are run also if a window could not be made: the other
 * ranks of a communicator find that too, but those of the others wait for the calls. */
static ncclResult_t make_and_call(const group_t *ended) {
  char text[NCCL_TEXT_BYTES];
  ncclResult_t made = nccl_windows_make_all(ended->first_window);
  if (made != ncclSuccess) snprintf(text, sizeof text, "%s", nccl_last_text());
  ncclResult_t called = end_calls(ended, true);
  return made == ncclSuccess ? called : nccl_repeat(made, text);
}

/* Leaves the communicators usable, as a refused call does: other ranks that wait for what is
 * dropped fail when this one makes its next call on the communicator, or ends it. */
static void drop(const group_t *ended) {
  nccl_windows_drop(ended->first_window);
  (void)end_calls(ended, false);
}

static ncclResult_t fail_inherited(void) {
  return nccl_fail(ncclInvalidUsage,
                   "ncclGroupEnd: the group was begun by the process from which this one was "
                   "forked, where its calls run: a forked process begins its own");
}

ncclResult_t ncclGroupEnd(void) {
  group_t ended;
  if (nccl_group_depth == 0) return refuse_end("ncclGroupEnd");
  if (!leave(&ended)) return ncclSuccess;
  ncclResult_t result = ended.is_inherited ? fail_inherited() : ended.status;
  if (result == ncclSuccess) {
    result = make_and_call(&ended);
  } else {
    drop(&ended);
  }
  if (result == ncclSuccess) {
    result = nccl_create_all(ended.first);
  } else {
    nccl_create_drop(ended.first);
  }
  ncclResult_t released = release_members(&ended);
  return result == ncclSuccess ? released : result;
}
NCCL_ALIAS(ncclGroupEnd);

/* ---- the estimated time of a group ----------------------------------------------------------*/

/* Of a call by the algorithm that the library would choose, in us; 0 if it has no estimate. */
static double estimate_call(const member_t *call) {
  coll_estimate_t estimate = COLL_ESTIMATE_INIT;
  for (int i = 0; coll_algo_name(call->collective, i) != NULL; i++) {
    coll_status_t status = coll_comm_estimate(call->comm->comm, call->collective, call->count,
                                              call->dtype, 0, i, &estimate);
    if (status == COLL_OK && estimate.chosen) return estimate.time_us;
  }
  return 0.0;
}

/* The calls of a communicator run one after the other, communicators at the same time. */
static double estimate_group(const group_t *ended) {
  double longest_us = 0.0;
  for (size_t i = 0; i < ended->count; i++) {
    double sum_us = 0.0;
    for (size_t j = i; j < ended->count; j++) {
      const member_t *member = &ended->members[j];
      if (member->comm == ended->members[i].comm && !member->releases) {
        sum_us += estimate_call(member);
      }
    }
    longest_us = sum_us > longest_us ? sum_us : longest_us;
  }
  return longest_us;
}

ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *info) {
  group_t ended;
  if (nccl_group_depth == 0) return refuse_end("ncclGroupSimulateEnd");
  if (!leave(&ended)) return ncclSuccess;
  ncclResult_t result = ended.status;
  if (result == ncclSuccess &&
      (info == NULL || info->magic != NCCL_SIM_MAGIC || info->size < sizeof *info)) {
    result = nccl_fail(ncclInvalidArgument,
                       "ncclGroupSimulateEnd: set simInfo to NCCL_SIM_INFO_INITIALIZER first");
  }
  if (result == ncclSuccess) info->estimatedTime = (float)estimate_group(&ended);
  nccl_create_drop(ended.first);
  drop(&ended);
  release_members(&ended);
  return result;
}
NCCL_ALIAS(ncclGroupSimulateEnd);

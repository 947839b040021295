/*
 * Only collectives whose buffers are single blocks are coalesced: the blocks of several calls, one
 * behind the other, form one block again.
 */
#include "run/coalesce.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/names.h"

#define COALESCED_BYTES_MAX ((size_t)8 << 10) /* fits one small message */
#define COALESCED_CALLS_MAX 256

static size_t bytes_of(const run_call_t *call) {
  return call->shape.count * base_dtype_bytes(comm_traits_of(call->shape).dtype);
}

static bool can_coalesce(const run_call_t *call) {
  const comm_traits_t traits = comm_traits_of(call->shape);
  bool one_block = traits.collective == COLL_ALLREDUCE || traits.collective == COLL_REDUCE ||
                   traits.collective == COLL_BROADCAST;
  return call->kind == RUN_COLLECTIVE && one_block && traits.op != COMM_PREMUL &&
         call->shape.count > 0 && bytes_of(call) < COALESCED_BYTES_MAX;
}

/* The traits of the coalesced call. Its buffers are not in place, and no peer may map them: they
 * are freed with the call, also if it fails. */
static uint64_t coalesced_traits(const run_call_t *call) {
  comm_traits_t traits = comm_traits_of(call->shape);
  traits.in_place = false;
  traits.reach = PLAN_REACH_SCRATCH;
  return comm_traits_pack(traits);
}

static bool are_compatible(const run_call_t *a, const run_call_t *b) {
  return a->comm == b->comm && coalesced_traits(a) == coalesced_traits(b);
}

/* The calls of a group that one coalesced call replaces, by their indices in the group. */
typedef struct selection {
  const run_call_t *calls;
  size_t indices[COALESCED_CALLS_MAX];
  size_t count;
} selection_t;

static const run_call_t *selected_call(const selection_t *selection, size_t i) {
  return &selection->calls[selection->indices[i]];
}

/* Selects the call at `first` and the collectives that follow it on its communicator, up to the
 * first incompatible one. Sends, receives and calls on other communicators may lie between and are
 * skipped: they differ from rank to rank. */
static selection_t select_calls(const run_call_t calls[], size_t count, size_t first) {
  selection_t selection = {.calls = calls, .indices = {first}, .count = 1};
  if (!can_coalesce(&calls[first])) return selection;
  size_t bytes = bytes_of(&calls[first]);
  for (size_t i = first + 1; i < count && selection.count < COALESCED_CALLS_MAX; i++) {
    const run_call_t *call = &calls[i];
    if (call->comm != calls[first].comm || call->kind != RUN_COLLECTIVE) continue;
    if (!can_coalesce(call) || !are_compatible(&calls[first], call)) break;
    bytes += bytes_of(call);
    if (bytes > COALESCED_BYTES_MAX) break;
    selection.indices[selection.count++] = i;
  }
  return selection;
}

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
  return a != NULL && b != NULL && base_overlap(a, a_bytes, b, b_bytes);
}

static bool share_memory(const run_call_t *a, const run_call_t *b) {
  size_t a_bytes = bytes_of(a), b_bytes = bytes_of(b);
  return overlap(a->send, a_bytes, b->recv, b_bytes) ||
         overlap(a->recv, a_bytes, b->recv, b_bytes) || overlap(a->recv, a_bytes, b->send, b_bytes);
}

/* The address range that covers all send buffers, or all receive buffers, of the selected calls. */
typedef struct extent {
  uintptr_t first, end; /* first > end: empty */
  bool ascending;       /* every buffer starts at or behind the end of the one before */
} extent_t;

static extent_t extent_of(const selection_t *selection, bool of_send) {
  extent_t extent = {.first = UINTPTR_MAX, .ascending = true};
  for (size_t i = 0; i < selection->count; i++) {
    const run_call_t *call = selected_call(selection, i);
    uintptr_t first = (uintptr_t)(of_send ? call->send : call->recv), end = first + bytes_of(call);
    if (first == 0) continue;
    extent.ascending = extent.ascending && first >= extent.end;
    if (first < extent.first) extent.first = first;
    if (end > extent.end) extent.end = end;
  }
  return extent;
}

/* Whether the extents alone show that no two calls share memory. True in most programs. */
static bool are_apart_by_extent(const selection_t *selection) {
  extent_t of_send = extent_of(selection, true), received = extent_of(selection, false);
  return received.ascending && (of_send.end <= received.first || received.end <= of_send.first);
}

static coll_status_t check_disjoint(const selection_t *selection) {
  if (are_apart_by_extent(selection)) return COLL_OK;
  for (size_t i = 1; i < selection->count; i++) {
    for (size_t j = 0; j < i; j++) {
      const run_call_t *call = selected_call(selection, i);
      if (!share_memory(call, selected_call(selection, j))) continue;
      coll_status_t status =
          base_fail(COLL_ERROR_INVALID,
                    "rank %d: two calls of coll_%s in one group use the same memory, and the "
                    "calls of a group have no order: put them into two groups",
                    call->comm->rank, base_collective_name(comm_traits_of(call->shape).collective));
      return comm_record_error(call->comm, status);
    }
  }
  return COLL_OK;
}

/* Makes the coalesced call. */
static coll_status_t coalesce(const selection_t *selection, run_call_t *combined) {
  struct run_coalesced *coalesced;
  size_t count = selection->count;
  run_call_t call = *selected_call(selection, 0);
  COLL_TRY(check_disjoint(selection));
  COLL_TRY(base_alloc(1, sizeof *coalesced + count * sizeof *coalesced->members, "a coalesced call",
                      (void **)&coalesced));
  call.shape = (comm_shape_t){.count = 0, .traits = coalesced_traits(&call)};
  coalesced->count = count;
  for (size_t i = 0; i < count; i++) {
    const run_call_t *each = selected_call(selection, i);
    coalesced->members[i] = (comm_member_t){each->send, each->recv, bytes_of(each)};
    call.shape.count += each->shape.count;
  }
  coll_status_t status =
      base_alloc(2, bytes_of(&call), "the buffers of a coalesced call", &coalesced->memory);
  if (status != COLL_OK) {
    free(coalesced);
    return status;
  }
  if (call.send != NULL) call.send = coalesced->memory;
  if (call.recv != NULL) call.recv = (char *)coalesced->memory + bytes_of(&call);
  call.coalesced = coalesced;
  *combined = call;
  return COLL_OK;
}

/* The coalesced call replaces the first selected call; comm NULL marks the others as replaced. */
static coll_status_t coalesce_from(run_call_t calls[], size_t count, size_t first) {
  if (calls[first].comm == NULL) return COLL_OK;
  selection_t selection = select_calls(calls, count, first);
  if (selection.count == 1) return COLL_OK;
  COLL_TRY(coalesce(&selection, &calls[first]));
  for (size_t i = 1; i < selection.count; i++) calls[selection.indices[i]].comm = NULL;
  return COLL_OK;
}

coll_status_t run_coalesce(run_call_t calls[], size_t count) {
  for (size_t i = 0; i < count; i++) COLL_TRY(coalesce_from(calls, count, i));
  return COLL_OK;
}

void run_coalesced_gather(const run_call_t *call) {
  const struct run_coalesced *coalesced = call->coalesced;
  char *at = coalesced->memory;
  for (size_t i = 0; call->send != NULL && i < coalesced->count; i++) {
    memcpy(at, coalesced->members[i].send, coalesced->members[i].bytes);
    at += coalesced->members[i].bytes;
  }
}

void run_coalesced_scatter(const run_call_t *call) {
  const struct run_coalesced *coalesced = call->coalesced;
  const char *at = call->recv;
  for (size_t i = 0; call->recv != NULL && i < coalesced->count; i++) {
    memcpy(coalesced->members[i].recv, at, coalesced->members[i].bytes);
    at += coalesced->members[i].bytes;
  }
}

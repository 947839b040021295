/* Only verbs whose buffers are single blocks are joined: blocks of several calls end to end are a
 * block again. */
#include "comm/coalesce.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/names.h"

#define BUNDLE_BYTES ((size_t)8 << 10) /* as much as still goes in one small message */
#define BUNDLE_PIECES 256

static size_t bytes_of(const comm_call_t *call) {
  return call->shape.count * base_dtype_bytes(comm_traits_of(call->shape).dtype);
}

static bool can_be_joined(const comm_call_t *call) {
  const comm_traits_t traits = comm_traits_of(call->shape);
  bool one_block = traits.collective == COLL_ALLREDUCE || traits.collective == COLL_REDUCE ||
                   traits.collective == COLL_BROADCAST;
  return call->kind == COMM_COLLECTIVE && one_block && traits.op != COMM_PREMUL &&
         call->shape.count > 0 && bytes_of(call) < BUNDLE_BYTES;
}

/* The joined call, whose buffers are a coalesced's, never is in place, and no peer reaches into
 * them: they are freed with the call, also when it fails. */
static uint64_t joined_traits(const comm_call_t *call) {
  comm_traits_t traits = comm_traits_of(call->shape);
  traits.in_place = false;
  traits.reach = PLAN_REACH_SCRATCH;
  return comm_traits_pack(traits);
}

static bool go_together(const comm_call_t *a, const comm_call_t *b) {
  return a->comm == b->comm && joined_traits(a) == joined_traits(b);
}

/* Calls that make one, by their places in the group. */
typedef struct members {
  const comm_call_t *calls;
  size_t places[BUNDLE_PIECES];
  size_t count;
} members_t;

static const comm_call_t *member(const members_t *members, size_t i) {
  return &members->calls[members->places[i]];
}

/* The call at `first` and the collectives that follow it on its communicator, up to one that does
 * not go with them. Sends, receives and other communicators' calls may lie between, and do not
 * count: they differ from rank to rank. */
static members_t gather_members(const comm_call_t calls[], size_t count, size_t first) {
  members_t members = {.calls = calls, .places = {first}, .count = 1};
  if (!can_be_joined(&calls[first])) return members;
  size_t bytes = bytes_of(&calls[first]);
  for (size_t i = first + 1; i < count && members.count < BUNDLE_PIECES; i++) {
    const comm_call_t *call = &calls[i];
    if (call->comm != calls[first].comm || call->kind != COMM_COLLECTIVE) continue;
    if (!can_be_joined(call) || !go_together(&calls[first], call)) break;
    bytes += bytes_of(call);
    if (bytes > BUNDLE_BYTES) break;
    members.places[members.count++] = i;
  }
  return members;
}

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
  return a != NULL && b != NULL && base_overlap(a, a_bytes, b, b_bytes);
}

static bool share_memory(const comm_call_t *a, const comm_call_t *b) {
  size_t a_bytes = bytes_of(a), b_bytes = bytes_of(b);
  return overlap(a->send, a_bytes, b->recv, b_bytes) ||
         overlap(a->recv, a_bytes, b->recv, b_bytes) || overlap(a->recv, a_bytes, b->send, b_bytes);
}

/* Memory from the first to the last byte of the members' buffers of one side. */
typedef struct extent {
  uintptr_t first, end; /* first > end: nothing */
  bool rising;          /* each buffer lies behind the one before */
} extent_t;

static extent_t extent_of(const members_t *members, bool sent) {
  extent_t extent = {.first = UINTPTR_MAX, .rising = true};
  for (size_t i = 0; i < members->count; i++) {
    const comm_call_t *call = member(members, i);
    uintptr_t first = (uintptr_t)(sent ? call->send : call->recv), end = first + bytes_of(call);
    if (first == 0) continue;
    extent.rising = extent.rising && first >= extent.end;
    if (first < extent.first) extent.first = first;
    if (end > extent.end) extent.end = end;
  }
  return extent;
}

/* Whether a look at the extents tells that no two share memory, as it mostly does. */
static bool are_clearly_apart(const members_t *members) {
  extent_t sent = extent_of(members, true), received = extent_of(members, false);
  return received.rising && (sent.end <= received.first || received.end <= sent.first);
}

static coll_status_t check_apart(const members_t *members) {
  if (are_clearly_apart(members)) return COLL_OK;
  for (size_t i = 1; i < members->count; i++) {
    for (size_t j = 0; j < i; j++) {
      const comm_call_t *call = member(members, i);
      if (!share_memory(call, member(members, j))) continue;
      coll_status_t status =
          base_fail(COLL_ERROR_INVALID,
                    "rank %d: two calls of coll_%s in one group use the same memory, and the "
                    "calls of a group have no order: put them into two groups",
                    call->comm->rank, base_collective_name(comm_traits_of(call->shape).collective));
      return comm_keep_error(call->comm, status);
    }
  }
  return COLL_OK;
}

/* The call that stands for all of them. */
static coll_status_t join(const members_t *members, comm_call_t *joined) {
  struct comm_coalesced *coalesced;
  size_t count = members->count;
  comm_call_t call = *member(members, 0);
  COLL_TRY(check_apart(members));
  COLL_TRY(base_alloc(1, sizeof *coalesced + count * sizeof *coalesced->pieces,
                      "a coalesced of calls", (void **)&coalesced));
  call.shape = (comm_shape_t){.count = 0, .traits = joined_traits(&call)};
  coalesced->count = count;
  for (size_t i = 0; i < count; i++) {
    const comm_call_t *each = member(members, i);
    coalesced->pieces[i] = (comm_piece_t){each->send, each->recv, bytes_of(each)};
    call.shape.count += each->shape.count;
  }
  coll_status_t status =
      base_alloc(2, bytes_of(&call), "a coalesced's buffers", &coalesced->memory);
  if (status != COLL_OK) {
    free(coalesced);
    return status;
  }
  if (call.send != NULL) call.send = coalesced->memory;
  if (call.recv != NULL) call.recv = (char *)coalesced->memory + bytes_of(&call);
  call.coalesced = coalesced;
  *joined = call;
  return COLL_OK;
}

/* The first member's place is taken by what stands for all; the others are marked as gone. */
static coll_status_t join_from(comm_call_t calls[], size_t count, size_t first) {
  if (calls[first].comm == NULL) return COLL_OK;
  members_t members = gather_members(calls, count, first);
  if (members.count == 1) return COLL_OK;
  COLL_TRY(join(&members, &calls[first]));
  for (size_t i = 1; i < members.count; i++) calls[members.places[i]].comm = NULL;
  return COLL_OK;
}

coll_status_t comm_coalesce(comm_call_t calls[], size_t count) {
  for (size_t i = 0; i < count; i++) COLL_TRY(join_from(calls, count, i));
  return COLL_OK;
}

void comm_coalesced_gather(const comm_call_t *call) {
  const struct comm_coalesced *coalesced = call->coalesced;
  char *at = coalesced->memory;
  for (size_t i = 0; call->send != NULL && i < coalesced->count; i++) {
    memcpy(at, coalesced->pieces[i].send, coalesced->pieces[i].bytes);
    at += coalesced->pieces[i].bytes;
  }
}

void comm_coalesced_scatter(const comm_call_t *call) {
  const struct comm_coalesced *coalesced = call->coalesced;
  const char *at = call->recv;
  for (size_t i = 0; call->recv != NULL && i < coalesced->count; i++) {
    memcpy(coalesced->pieces[i].recv, at, coalesced->pieces[i].bytes);
    at += coalesced->pieces[i].bytes;
  }
}

void comm_call_free_owned(const comm_call_t *call) {
  if (call->coalesced != NULL) free(call->coalesced->memory);
  free(call->coalesced);
  free(call->blocks);
}

/*
 * Every rank tells all others its color, key and how it can be reached, by an allgather on the
 * parent; then the ranks of a color connect as if they had met at a meeting point of their own.
 */
#include "comm/split.h"

#include <stdlib.h>
#include <sys/random.h>

#include "base/memory.h"
#include "comm/batch.h"
#include "comm/create.h"
#include "comm/turn.h"

typedef struct wish {
  int32_t color, key;
  int32_t rank;   /* in the parent */
  int32_t failed; /* this rank cannot take part: nobody gets a child */
  uint64_t session;
  comm_record_t record;
} wish_t;

/* qsort's order within a color: key, then old rank. */
static int compare_wishes(const void *left, const void *right) {
  const wish_t *a = left, *b = right;
  if (a->key != b->key) return a->key < b->key ? -1 : 1;
  return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static coll_status_t tell_all(struct coll_comm *parent, const wish_t *own, wish_t wishes[]) {
  const comm_traits_t traits = {
      .collective = COLL_ALLGATHER, .dtype = COLL_UINT8, .reach = PLAN_REACH_SCRATCH};
  const comm_call_t call = {.kind = COMM_COLLECTIVE,
                            .comm = parent,
                            .shape = comm_shape_make(traits, sizeof *own),
                            .send = own,
                            .recv = wishes};
  return comm_call_run(&call);
}

/* Moves those of `color` to the front, in order; returns how many. */
static int keep_color(wish_t wishes[], int count, int color) {
  int kept = 0;
  for (int i = 0; i < count; i++) {
    if (wishes[i].color == color) wishes[kept++] = wishes[i];
  }
  qsort(wishes, (size_t)kept, sizeof *wishes, compare_wishes);
  return kept;
}

static coll_status_t check_all_can(const struct coll_comm *parent, const wish_t wishes[]) {
  for (int rank = 0; rank < parent->size; rank++) {
    if (!wishes[rank].failed || rank == parent->rank) continue;
    return base_fail(COLL_ERROR_SYSTEM,
                     "rank %d: rank %d could not take part in the split (its own error says why)",
                     parent->rank, rank);
  }
  return COLL_OK;
}

/* Describes this rank. A rank that fails here still tells the others, or they would wait. */
static coll_status_t make_wish(const struct coll_comm *parent, shm_mesh_t *mesh, wish_t *own) {
  if (getrandom(&own->session, sizeof own->session, 0) != (ssize_t)sizeof own->session) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "no random number for a communicator");
  }
  COLL_TRY(comm_introduce(mesh, &own->record));
  own->record.costs = parent->costs;
  return COLL_OK;
}

static coll_status_t connect_members(shm_mesh_t *mesh, const wish_t members[], int count,
                                     int parent_rank, struct coll_comm **child) {
  comm_record_t *records = NULL;
  const char *address;
  int timeout_ms, rank = 0;
  coll_status_t status = comm_settings(NULL, &address, &timeout_ms);
  if (status == COLL_OK) {
    status = base_alloc((size_t)count, sizeof *records, "records of ranks", (void **)&records);
  }
  if (status != COLL_OK) {
    shm_mesh_close(mesh);
    return status;
  }
  for (int i = 0; i < count; i++) {
    records[i] = members[i].record;
    if (members[i].rank == parent_rank) rank = i;
  }
  status = comm_connect(mesh, rank, count, records, members[0].session, timeout_ms, child);
  free(records);
  return status;
}

coll_status_t comm_split(struct coll_comm *parent, int color, int key, struct coll_comm **child) {
  shm_mesh_t mesh = {.listener = -1};
  wish_t *wishes = NULL, own = {.color = color, .key = key, .rank = parent->rank};
  coll_status_t status =
      base_alloc((size_t)parent->size, sizeof *wishes, "wishes of ranks", (void **)&wishes);
  if (status != COLL_OK) {
    comm_turn_take(parent, comm_turn_ticket(parent));
    comm_finish(parent, status, parent->rank);
    comm_turn_pass(parent);
    return status;
  }
  coll_status_t own_status = make_wish(parent, &mesh, &own);
  own.failed = own_status != COLL_OK;
  status = tell_all(parent, &own, wishes);
  if (status == COLL_OK) status = own_status;
  if (status == COLL_OK) status = check_all_can(parent, wishes);
  if (status != COLL_OK || color < 0) {
    shm_mesh_close(&mesh);
    if (status == COLL_OK) *child = NULL;
  } else {
    int count = keep_color(wishes, parent->size, color);
    status = connect_members(&mesh, wishes, count, parent->rank, child);
  }
  free(wishes);
  return status;
}

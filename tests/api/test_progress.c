/*
 * Progress callbacks: they are called throughout a wait, may make calls of other communicators, and
 * are refused those that would wait for themselves. A late rank arrives only when the others have
 * seen enough callbacks, so that no test depends on the load of the machine.
 */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "harness/party.h"

#define LATE_NS 50000000u
#define ENOUGH 10

/* Callbacks of each rank, for all to see. */
typedef struct counts {
  _Atomic int of[HARNESS_RANKS_MAX];
} counts_t;

static _Atomic int *own_count(const party_rank_t *self) {
  return &((counts_t *)harness_board())->of[self->rank];
}

static void count_call(void *context) {
  atomic_fetch_add((_Atomic int *)context, 1);
}

/* Waits until the callbacks of all ranks but this one are enough. */
static void await_callbacks(const party_rank_t *self, int enough) {
  const counts_t *counts = harness_board();
  for (int rank = 0; rank < self->size; rank++) {
    while (rank != self->rank && atomic_load(&counts->of[rank]) < enough) {
      base_clock_sleep_ns(1000000);
    }
  }
}

/* ---- calls ----------------------------------------------------------------------------------*/

/* How the ranks that are not late wait. */
typedef enum way { IN_BARRIER, IN_RECV, ON_STREAM, IN_GROUP } way_t;

static int wait_in(const party_rank_t *self, way_t way, coll_stream_t stream) {
  int last = self->size - 1;
  bool late = self->rank == last;
  uint8_t data = 1;
  switch (way) {
    case IN_BARRIER: PARTY_OK(coll_barrier(self->comm, NULL)); break;
    case ON_STREAM:
      PARTY_OK(coll_barrier(self->comm, stream));
      PARTY_OK(coll_stream_sync(stream));
      break;
    case IN_GROUP:
      PARTY_OK(coll_group_start());
      PARTY_OK(coll_barrier(self->comm, NULL));
      PARTY_OK(coll_group_end());
      break;
    case IN_RECV:
      for (int rank = 0; rank < last && late; rank++) {
        PARTY_OK(coll_send(&data, 1, COLL_UINT8, rank, self->comm, NULL));
      }
      if (!late) PARTY_OK(coll_recv(&data, 1, COLL_UINT8, last, self->comm, NULL));
      break;
  }
  return 0;
}

static int wait_for_a_late_rank(party_rank_t *self) {
  coll_stream_t stream;
  bool late = self->rank == self->size - 1;
  _Atomic int *count = own_count(self);
  PARTY_OK(coll_stream_create(&stream));
  for (way_t way = IN_BARRIER; way <= IN_GROUP; way++) {
    atomic_store(count, 0);
    PARTY_OK(coll_comm_set_progress(self->comm, count_call, count));
    harness_barrier();
    if (late) {
      base_clock_sleep_ns(LATE_NS);
      await_callbacks(self, ENOUGH);
    }
    PARTY_TRY(wait_in(self, way, stream));
    PARTY_REQUIRE(late || atomic_load(count) >= ENOUGH, "way %d: %d callbacks", (int)way,
                  atomic_load(count));
    /* a removed callback is not called by the next wait */
    PARTY_OK(coll_comm_set_progress(self->comm, NULL, NULL));
    int before = atomic_load(count);
    harness_barrier();
    if (late) base_clock_sleep_ns(LATE_NS / 10);
    PARTY_TRY(wait_in(self, way, stream));
    PARTY_REQUIRE(atomic_load(count) == before, "way %d: a removed callback was called", (int)way);
  }
  PARTY_OK(coll_stream_destroy(stream));
  return 0;
}

Test(progress, is_called_while_a_rank_is_late) {
  PARTY_RUN(2, 30000, wait_for_a_late_rank, NULL);
  PARTY_RUN(7, 30000, wait_for_a_late_rank, NULL); /* of more ranks than cores */
}

/* Between hosts the transport sleeps for whole milliseconds. */
Test(progress, is_called_between_hosts) {
  harness_result_t result;
  setenv("COLL_TRANSPORTS", "tcp", 1);
  cr_assert(party_processes(2, 30000, wait_for_a_late_rank, NULL, &result), "%s", result.text);
}

/* ---- what a callback may do -----------------------------------------------------------------*/

typedef struct scene {
  coll_comm_t waiting, other;
  int rank, calls;
  uint64_t begin_ns;
  coll_status_t status;
  char text[256]; /* of the first failure that was expected */
} scene_t;

/* Long after a wait of all threads would have been taken for a deadlock. */
static void call_other_late(void *context) {
  scene_t *scene = context;
  int one = 1, sum = 0;
  if (scene->calls > 0 || base_clock_now_ns() - scene->begin_ns < 4 * LATE_NS) return;
  scene->calls++;
  coll_group_start();
  coll_allreduce(&one, &sum, 1, COLL_INT32, COLL_SUM, scene->other, NULL);
  scene->status = coll_group_end();
}

/* Rank 0 waits for the others, and they wait for a call that its callback makes. Both are in groups
 * of their own. */
static int call_other(party_rank_t *self) {
  scene_t scene = {.waiting = self->comm, .begin_ns = base_clock_now_ns()};
  int one = 1, sum = 0;
  PARTY_OK(coll_comm_split(self->comm, 0, self->rank, NULL, &scene.other));
  if (self->rank == 0) {
    PARTY_OK(coll_comm_set_progress(self->comm, call_other_late, &scene));
  } else {
    PARTY_OK(coll_allreduce(&one, &sum, 1, COLL_INT32, COLL_SUM, scene.other, NULL));
    PARTY_REQUIRE(sum == self->size, "sum %d", sum);
  }
  PARTY_OK(coll_group_start());
  PARTY_OK(coll_barrier(self->comm, NULL));
  PARTY_OK(coll_group_end());
  PARTY_REQUIRE(self->rank > 0 || scene.calls == 1, "%d calls", scene.calls);
  PARTY_OK(scene.status);
  PARTY_OK(coll_comm_destroy(scene.other));
  return 0;
}

Test(progress, may_call_other_communicators) {
  PARTY_RUN(2, 20000, call_other, NULL);
  PARTY_RUN(4, 20000, call_other, NULL);
}

static bool is_refused(coll_status_t status) {
  return status == COLL_ERROR_INVALID &&
         strstr(coll_last_error(NULL), "the callback may use other communicators only") != NULL;
}

/* Each is refused: the thread waits in a call of the communicator. Then removes itself. */
static void call_own(void *context) {
  scene_t *scene = context;
  coll_comm_t comm = scene->waiting, made;
  coll_estimate_t estimate = COLL_ESTIMATE_INIT;
  int data[64] = {0};
  bool refused =
      is_refused(coll_barrier(comm, NULL)) &&
      is_refused(coll_allreduce(data, data, 1, COLL_INT32, COLL_SUM, comm, NULL)) &&
      is_refused(coll_send(data, 1, COLL_INT32, 1, comm, NULL)) &&
      is_refused(coll_comm_split(comm, 0, 0, NULL, &made)) && is_refused(coll_comm_destroy(comm)) &&
      is_refused(coll_comm_algo_set(comm, COLL_ALLREDUCE, NULL)) &&
      is_refused(coll_comm_plan_load(comm, "none", NULL)) &&
      is_refused(coll_comm_estimate(comm, COLL_ALLREDUCE, 1, COLL_INT32, 0, 0, &estimate)) &&
      strcmp(coll_comm_algo_used(comm, COLL_ALLREDUCE), "") == 0 &&
      is_refused(coll_barrier(scene->other, NULL));
  bool allowed =
      coll_comm_error(comm) == COLL_OK && coll_comm_set_progress(comm, NULL, NULL) == COLL_OK;
  if (!refused) snprintf(scene->text, sizeof scene->text, "%s", coll_last_error(NULL));
  scene->status = refused && allowed ? COLL_OK : COLL_ERROR_INTERNAL;
  scene->calls++;
  atomic_store(&((counts_t *)harness_board())->of[0], ENOUGH);
}

/* Rank 0 waits on two communicators, and its callback must use neither. */
static int call_waiting(party_rank_t *self) {
  scene_t scene = {.waiting = self->comm, .status = COLL_OK};
  int one = 1, sum = 0;
  PARTY_OK(coll_comm_split(self->comm, 0, self->rank, NULL, &scene.other));
  atomic_store(own_count(self), 0);
  harness_barrier();
  if (self->rank == 0) {
    PARTY_OK(coll_comm_set_progress(self->comm, call_own, &scene));
  } else {
    while (atomic_load(&((counts_t *)harness_board())->of[0]) < ENOUGH) {
      base_clock_sleep_ns(1000000);
    }
  }
  PARTY_OK(coll_group_start());
  PARTY_OK(coll_barrier(self->comm, NULL));
  PARTY_OK(coll_allreduce(&one, &sum, 1, COLL_INT32, COLL_SUM, scene.other, NULL));
  PARTY_OK(coll_group_end());
  PARTY_REQUIRE(sum == self->size, "sum %d", sum);
  PARTY_REQUIRE(self->rank > 0 || scene.calls == 1, "%d calls", scene.calls);
  PARTY_REQUIRE(scene.status == COLL_OK, "a call was not refused: %s", scene.text);
  PARTY_OK(coll_comm_destroy(scene.other));
  return 0;
}

Test(progress, may_not_call_the_communicators_it_waits_on) {
  PARTY_RUN(2, 20000, call_waiting, NULL);
}

/* ---- threads --------------------------------------------------------------------------------*/

/* The callback has its own context for as long as it is set, and runs in one thread at a time. */
typedef struct guarded {
  _Atomic int inside, calls, overlaps;
} guarded_t;

static void enter_alone(void *context) {
  guarded_t *guarded = context;
  if (atomic_fetch_add(&guarded->inside, 1) > 0) atomic_fetch_add(&guarded->overlaps, 1);
  atomic_fetch_add(&guarded->calls, 1);
  atomic_fetch_sub(&guarded->inside, 1);
}

/* Two workers of a rank wait, one of them for the lock, while this thread changes the callback. */
static int change_while_waiting(party_rank_t *self) {
  guarded_t guarded[2] = {{0}};
  coll_stream_t streams[2];
  bool late = self->rank == self->size - 1;
  for (int i = 0; i < 2; i++) PARTY_OK(coll_stream_create(&streams[i]));
  if (late) harness_barrier();
  for (int i = 0; i < 2; i++) PARTY_OK(coll_barrier(self->comm, streams[i]));
  for (int turn = 0; turn < 20 && !late; turn++) {
    guarded_t *now = &guarded[turn % 2];
    int before = atomic_load(&now->calls);
    PARTY_OK(coll_comm_set_progress(self->comm, enter_alone, now));
    while (atomic_load(&now->calls) < before + 2) base_clock_sleep_ns(100000);
    PARTY_OK(coll_comm_set_progress(self->comm, NULL, NULL));
    int after = atomic_load(&now->calls);
    base_clock_sleep_ns(500000);
    PARTY_REQUIRE(atomic_load(&now->calls) == after, "a removed callback was called");
  }
  if (!late) harness_barrier();
  for (int i = 0; i < 2; i++) {
    PARTY_OK(coll_stream_destroy(streams[i]));
    PARTY_REQUIRE(atomic_load(&guarded[i].overlaps) == 0, "two threads called it at once");
  }
  return 0;
}

Test(progress, is_changed_while_threads_wait) {
  PARTY_RUN(2, 20000, change_while_waiting, NULL);
}

/* ---- failures -------------------------------------------------------------------------------*/

/* Found as without a callback: a rank that aborts, and ranks that wait for each other. */
static int fail_while_called(party_rank_t *self) {
  int data = 0, peer = 1 - self->rank;
  coll_comm_t other;
  PARTY_OK(coll_comm_split(self->comm, 0, self->rank, NULL, &other));
  atomic_store(own_count(self), 0);
  PARTY_OK(coll_comm_set_progress(self->comm, count_call, own_count(self)));
  PARTY_OK(coll_comm_set_progress(other, count_call, own_count(self)));
  harness_barrier();
  coll_status_t status = coll_recv(&data, 1, COLL_INT32, peer, other, NULL);
  PARTY_REQUIRE(status == COLL_ERROR_MISMATCH, "%s", coll_last_error(NULL));
  PARTY_REQUIRE(atomic_load(own_count(self)) > 0, "no callbacks");
  harness_barrier();
  if (self->rank == 1) {
    base_clock_sleep_ns(LATE_NS);
    PARTY_OK(coll_comm_abort(self->comm));
  } else {
    status = coll_barrier(self->comm, NULL);
    PARTY_REQUIRE(status == COLL_ERROR_RANK_LOST, "%s", coll_last_error(NULL));
  }
  coll_comm_destroy(other);
  return 0;
}

Test(progress, leaves_failures_to_be_found) {
  setenv("COLL_HANG_MS", "100", 1); /* until then another thread might send */
  PARTY_RUN(2, 20000, fail_while_called, NULL);
}

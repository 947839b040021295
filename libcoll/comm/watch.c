/*
 * What a peer sent before it died or left still counts, so a peer is given up only when it is found
 * gone twice, with a look at everything in between that moved nothing.
 */
#include "comm/watch.h"

#include "base/clock.h"
#include "comm/deadlock.h"
#include "comm/elsewhere.h"
#include "comm/hang.h"

/* How often all ranks of a collective are looked at, beside those that are waited for directly:
 * whoever we wait for may itself wait for one that is gone. And sooner in a wait that just began.
 */
#define ROLL_CALL_SLEEPS 25

/* How often a process looks whether all of its threads wait. */
#define ELSEWHERE_SLEEPS 4

static bool is_roll_call(int sleeps) {
  return sleeps % ROLL_CALL_SLEEPS == 0 || (sleeps & (sleeps - 1)) == 0;
}

/* ---- publishing -----------------------------------------------------------------------------*/

/* What this rank waits for on one communicator: the first of its tasks under way names the call,
 * and all of them the ranks. */
static void publish(comm_wait_t *wait, struct coll_comm *comm, comm_task_t tasks[], size_t count) {
  comm_task_t *first = NULL;
  base_ranks_clear(&comm->waits_for);
  for (size_t i = 0; i < count; i++) {
    if (tasks[i].call->comm != comm || !comm_task_is_under_way(&tasks[i])) continue;
    if (first == NULL) first = &tasks[i];
    comm_task_waits_for(&tasks[i], &comm->waits_for);
  }
  bool collective = first->call->kind == COMM_COLLECTIVE;
  if (wait->begin_ns == 0) wait->begin_ns = base_clock_now_ns();
  flight_standstill_t standstill = {.begin_ns = wait->begin_ns,
                                    .collectives = comm->sequence,
                                    .history = comm->history,
                                    .number = first->number,
                                    .call = first->id,
                                    .peers = comm->waits_for.words,
                                    .words = base_ranks_words(comm->size)};
  first->published = true;
  if (collective) standstill.history = first->engine_call->history;
  flight_wait_publish(comm->local->flight, &standstill);
  comm->local->ops->publish(comm->local);
}

void comm_watch_end(comm_wait_t *wait) {
  comm_elsewhere_end();
  for (size_t i = 0; i < wait->watched_count; i++) {
    comm_task_t *task = &wait->watched[i];
    if (!task->published) continue; /* its communicator may be gone */
    struct coll_comm *comm = task->call->comm;
    task->published = false;
    flight_wait_end(comm->local->flight);
    comm->local->ops->publish(comm->local);
  }
  wait->watched = NULL;
}

/* ---- peers that are gone --------------------------------------------------------------------*/

static coll_status_t say_gone(struct coll_comm *comm, int peer, transport_peer_state_t state) {
  flight_standstill_t own = {0};
  char text[FLIGHT_TEXT_BYTES];
  flight_wait_read(comm->local->flight, &own);
  flight_call_describe(own.call, comm_forced_name(own.call), text, sizeof text);
  coll_status_t status;
  if (state == TRANSPORT_PEER_LOST) {
    status = base_fail(COLL_ERROR_RANK_LOST,
                       "rank %d: rank %d (pid %d) died while call %llu, %s, was under way; the "
                       "communicator is finished",
                       comm->rank, peer, (int)comm->peers[peer].pid, (unsigned long long)own.number,
                       text);
  } else {
    status = base_fail(COLL_ERROR_MISMATCH,
                       "rank %d is in call %llu, %s, but rank %d (pid %d) is in destroy(): all "
                       "ranks must make the same calls in the same order",
                       comm->rank, (unsigned long long)own.number, text, peer,
                       (int)comm->peers[peer].pid);
  }
  return comm_finish(comm, status, peer);
}

/* Gives up on a peer when it is found gone for the second time in a row. */
static coll_status_t suspect(comm_wait_t *wait, struct coll_comm *comm, int peer,
                             transport_peer_state_t state) {
  if (wait->suspected_comm == comm && wait->suspected_peer == peer) {
    return say_gone(comm, peer, state);
  }
  wait->suspected_comm = comm;
  wait->suspected_peer = peer;
  /* Of several communicators only one was armed: what a transport holds back (shm/slip.h), and the
   * peer had sent, is found by the next look. */
  comm->local->ops->arm(comm->local);
  comm->local->ops->disarm(comm->local);
  return COLL_OK;
}

/* Whether the peer is needed: it is waited for, or will never join the collective under way. A rank
 * that left with this call behind it is missed by none; should it do so between the two looks at
 * it, the next roll call sees both. */
static bool is_needed(const struct coll_comm *comm, const comm_task_t *collective, int peer) {
  if (base_ranks_has(&comm->waits_for, peer)) return true;
  if (collective == NULL || peer == comm->rank) return false;
  const flight_recorder_t *recorder = comm->local->ops->recorder(comm->local, peer);
  return recorder != NULL && flight_completed(recorder) <= collective->number;
}

/* *gone: a peer that is needed. */
static coll_status_t check_peers(comm_wait_t *wait, struct coll_comm *comm,
                                 const comm_task_t *collective, bool *gone) {
  for (int peer = 0; peer < comm->size && !*gone; peer++) {
    if (!is_needed(comm, collective, peer)) continue;
    transport_t *route = comm->world.routes[peer];
    transport_peer_state_t state = route->ops->peer_state(route, peer);
    *gone = state != TRANSPORT_PEER_HERE;
    if (*gone) COLL_TRY(suspect(wait, comm, peer, state));
  }
  return COLL_OK;
}

/* ---- calls that differ ----------------------------------------------------------------------*/

/* Of two ranks that wait in collectives of one number, the later to publish sees the other. */
static coll_status_t compare_calls(struct coll_comm *comm) {
  flight_standstill_t own, other;
  if (!flight_wait_read(comm->local->flight, &own) || !flight_is_collective(own.call))
    return COLL_OK;
  for (int peer = 0; peer < comm->size; peer++) {
    const flight_recorder_t *recorder = comm->local->ops->recorder(comm->local, peer);
    if (peer == comm->rank || recorder == NULL || !flight_wait_read(recorder, &other)) continue;
    if (!flight_is_collective(other.call) || other.number != own.number) continue;
    if (flight_call_is(own.call, other.call) && own.history == other.history) continue;
    return comm_finish(
        comm, comm_mismatch(comm->rank, own.number, own.call, peer, other.number, other.call),
        comm->rank);
  }
  return COLL_OK;
}

/* ---- all of it ------------------------------------------------------------------------------*/

/* The collective of the communicator that is under way, or NULL; there is one at most. */
static const comm_task_t *collective_of(const struct coll_comm *comm, const comm_task_t tasks[],
                                        size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (tasks[i].call->comm == comm && tasks[i].call->kind == COMM_COLLECTIVE &&
        comm_task_is_under_way(&tasks[i])) {
      return &tasks[i];
    }
  }
  return NULL;
}

static coll_status_t watch_comm(comm_wait_t *wait, struct coll_comm *comm, comm_task_t tasks[],
                                size_t count, bool *gone) {
  coll_status_t status = comm_failure(comm);
  if (status != COLL_OK) return comm_finish(comm, status, comm->rank);
  publish(wait, comm, tasks, count);
  if (wait->sleeps > 0) { /* before the first sleep there was one look only */
    bool roll = wait->suspected_comm != NULL || is_roll_call(wait->sleeps);
    const comm_task_t *collective = roll ? collective_of(comm, tasks, count) : NULL;
    COLL_TRY(check_peers(wait, comm, collective, gone));
    if (*gone) return COLL_OK;
  }
  COLL_TRY(compare_calls(comm));
  COLL_TRY(comm_deadlock_check(comm));
  return comm_hang_check(comm, wait->begin_ns);
}

/* Whether an earlier task is under way on the same communicator. */
static bool is_watched(const comm_task_t tasks[], size_t index) {
  for (size_t i = index; i-- > 0;) {
    if (tasks[i].call->comm == tasks[index].call->comm && comm_task_is_under_way(&tasks[i])) {
      return true;
    }
  }
  return false;
}

coll_status_t comm_watch(comm_wait_t *wait, comm_task_t tasks[], size_t count) {
  bool gone = false;
  if (wait->watched == NULL) comm_elsewhere_begin();
  wait->watched = tasks;
  wait->watched_count = count;
  for (size_t i = 0; i < count && !gone; i++) {
    if (!comm_task_is_under_way(&tasks[i]) || is_watched(tasks, i)) continue;
    COLL_TRY(watch_comm(wait, tasks[i].call->comm, tasks, count, &gone));
  }
  if (!gone) wait->suspected_comm = NULL;
  if (wait->sleeps % ELSEWHERE_SLEEPS == ELSEWHERE_SLEEPS - 1) comm_elsewhere_publish();
  return COLL_OK;
}

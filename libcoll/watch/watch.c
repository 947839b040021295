/*
 * Messages that a peer sent before it died or left must still be received. So a peer counts as lost
 * only when it was found lost twice, with a poll of all inputs in between that brought no progress.
 */
#include "watch/watch.h"

#include "base/clock.h"
#include "watch/cross_wait.h"
#include "watch/deadlock.h"
#include "watch/hang.h"

/* Sleeps between two checks of all ranks of a collective, not only of those that are waited for
 * directly: a rank that we wait for may itself wait for a lost one. In a new wait the checks are
 * more frequent. */
#define ALL_PEERS_SLEEPS 25

/* Of more ranks than this, a check looks at so many at a time, each rank at others: together they
 * see all of them. To ask the kernel for a process takes a time that grows with the number of ranks
 * (transport/shm/presence.h). */
#define MANY_RANKS 64
#define PEERS_AT_ONCE 16

/* With many ranks, a new wait has the more frequent checks of all from this sleep on: most waits
 * are over by then. */
#define MANY_FIRST_SLEEP 4

/* Sleeps between two checks of whether all threads of the process wait. */
#define CROSS_WAIT_SLEEPS 4

/* A wait is made visible to ranks of other hosts, which costs a message to each, if it lasts this
 * long, or longer among more ranks, and then each time that it has become a quarter longer. */
#define SHOW_AFTER_NS 20000000u
#define SHOW_CROWD 16 /* ranks for which it is twice as long, and so on */

static bool has_many(const struct coll_comm *comm) {
  return comm->size > MANY_RANKS;
}

static bool checks_all_peers(const struct coll_comm *comm, int sleeps) {
  if (has_many(comm) && sleeps < MANY_FIRST_SLEEP) return false;
  return sleeps % ALL_PEERS_SLEEPS == 0 || (sleeps & (sleeps - 1)) == 0;
}

/* ---- publishing -----------------------------------------------------------------------------*/

static void show(watch_t *watch, struct coll_comm *comm) {
  uint64_t now_ns = base_clock_now_ns(), lasted_ns = now_ns - watch->begin_ns;
  uint64_t shown_ns = watch->shown_ns > 0 ? watch->shown_ns - watch->begin_ns : 0;
  uint64_t after_ns = SHOW_AFTER_NS * (uint64_t)(1 + comm->size / SHOW_CROWD);
  if (lasted_ns < after_ns || lasted_ns < shown_ns + shown_ns / 4) return;
  comm->local->ops->publish(comm->local);
  watch->shown_ns = now_ns;
}

/* Publishes this rank's wait on one communicator. */
static void publish(watch_t *watch, const watch_waiting_t *waiting) {
  struct coll_comm *comm = waiting->comm;
  flight_standstill_t standstill = {.begin_ns = watch->begin_ns,
                                    .collectives = comm->sequence,
                                    .history = waiting->history,
                                    .number = waiting->number,
                                    .call = waiting->call,
                                    .may_be_ended = waiting->may_be_ended,
                                    .peers = comm->watched.waits_for.words,
                                    .words = base_ranks_words(comm->size)};
  flight_wait_publish(comm->local->flight, &standstill);
  show(watch, comm);
}

void watch_withdraw(const watch_t *watch, struct coll_comm *comm) {
  flight_wait_end(comm->local->flight);
  if (watch->shown_ns > 0) comm->local->ops->publish(comm->local);
}

/* ---- peers that are lost --------------------------------------------------------------------*/

/* A peer that leaves in the middle of a call may do so because of a rank that it has lost on
 * another communicator. */
coll_status_t watch_fail_left(struct coll_comm *comm, int peer, transport_peer_state_t state) {
  flight_standstill_t own = {0};
  char text[FLIGHT_TEXT_BYTES];
  int lost = state == TRANSPORT_PEER_LOST ? peer : comm_lost_rank(comm);
  flight_wait_read(comm->local->flight, &own);
  flight_call_describe(own.call, comm_forced_name(own.call), text, sizeof text);
  coll_status_t status;
  if (lost >= 0) {
    char loss[COMM_LOSS_BYTES];
    comm_describe_loss(comm, lost, loss);
    status = base_fail(COLL_ERROR_RANK_LOST,
                       "rank %d: %s while call %llu, %s, was under way; the communicator has "
                       "failed",
                       comm->rank, loss, (unsigned long long)own.number, text);
  } else {
    status = base_fail(COLL_ERROR_MISMATCH,
                       "rank %d is in call %llu, %s, but rank %d (pid %d) is in destroy(): all "
                       "ranks must make the same calls in the same order",
                       comm->rank, (unsigned long long)own.number, text, peer,
                       (int)comm->peers[peer].pid);
  }
  return comm_fail(comm, status, lost >= 0 ? lost : peer);
}

/* Fails if the peer was found lost for the second time in a row; otherwise remembers it. */
static coll_status_t confirm_loss(watch_t *watch, struct coll_comm *comm, int peer,
                                  transport_peer_state_t state) {
  if (watch->suspected_comm == comm && watch->suspected_peer == peer) {
    return watch_fail_left(comm, peer, state);
  }
  watch->suspected_comm = comm;
  watch->suspected_peer = peer;
  return COLL_OK;
}

/* Peer number `offset` in the order in which this rank looks at peers. Each of many ranks begins
 * with others. */
static int peer_at(const struct coll_comm *comm, int offset) {
  return has_many(comm) ? (comm->rank + offset) % comm->size : offset;
}

static int peers_at_once(const struct coll_comm *comm) {
  return has_many(comm) ? PEERS_AT_ONCE : comm->size;
}

static coll_status_t check_peer(watch_t *watch, struct coll_comm *comm, int peer, bool *lost) {
  transport_t *route = comm->world.routes[peer];
  transport_peer_state_t state = route->ops->peer_state(route, peer);
  *lost = state != TRANSPORT_PEER_HERE;
  return *lost ? confirm_loss(watch, comm, peer, state) : COLL_OK;
}

/* The next check begins behind the `count` peers of this one, but at the same ones while one of any
 * communicator is suspected. */
static void advance(const watch_t *watch, const struct coll_comm *comm, int count, int *next) {
  if (watch->suspected_comm == NULL) *next = (*next + count) % comm->size;
}

/* Peers that are waited for. *lost: one of them is lost. */
static coll_status_t check_waited(watch_t *watch, struct coll_comm *comm, bool *lost) {
  int left = peers_at_once(comm), passed = 0;
  int peer = peer_at(comm, watch->next_waited % comm->size);
  for (; passed < comm->size && left > 0 && !*lost; passed++) {
    if (base_ranks_has(&comm->watched.waits_for, peer)) {
      left--;
      comm->world.routes[peer]->ops->waits_for(comm->world.routes[peer], peer);
      COLL_TRY(check_peer(watch, comm, peer, lost));
    }
    peer = peer + 1 < comm->size ? peer + 1 : 0;
  }
  advance(watch, comm, passed, &watch->next_waited);
  return COLL_OK;
}

/* Whether the peer has not completed the collective, which only recorders of the same host show in
 * time. A rank that completed this call and then left is not needed. If it does both between the
 * two checks, the next check of all peers sees both. */
static bool is_needed(const struct coll_comm *comm, uint64_t collective, int peer) {
  if (peer == comm->rank || comm->local->delays) return false;
  const flight_recorder_t *recorder = comm->local->ops->recorder(comm->local, peer);
  return recorder != NULL && flight_completed(recorder) <= collective;
}

/* The same for peers that the collective needs, waited for by this rank or not. */
static coll_status_t check_needed(watch_t *watch, struct coll_comm *comm, uint64_t collective,
                                  bool *lost) {
  int count = peers_at_once(comm);
  for (int i = 0; i < count && !*lost; i++) {
    int peer = peer_at(comm, (watch->next_needed + i) % comm->size);
    if (is_needed(comm, collective, peer)) COLL_TRY(check_peer(watch, comm, peer, lost));
  }
  advance(watch, comm, count, &watch->next_needed);
  return COLL_OK;
}

/* ---- calls that differ ----------------------------------------------------------------------*/

/* Compares the current collectives. Of two ranks that wait in collectives of the same number, the
 * one that publishes later sees the other. */
static coll_status_t compare_calls(const watch_t *watch, struct coll_comm *comm) {
  flight_standstill_t own, other;
  if (!flight_wait_read(comm->local->flight, &own) || !flight_is_collective(own.call))
    return COLL_OK;
  int count = peers_at_once(comm);
  int first = (int)(watch->turns * (unsigned)count % (unsigned)comm->size);
  for (int i = 0; i < count; i++) {
    int peer = peer_at(comm, (first + i) % comm->size);
    if (peer == comm->rank) continue;
    const flight_recorder_t *recorder = comm->local->ops->recorder(comm->local, peer);
    if (recorder == NULL || !flight_wait_read(recorder, &other)) continue;
    if (!flight_is_collective(other.call) || other.number != own.number) continue;
    if (flight_call_is(own.call, other.call) && own.history == other.history) continue;
    return comm_fail(
        comm, comm_fail_mismatch(comm->rank, own.number, own.call, peer, other.number, other.call),
        comm->rank);
  }
  return COLL_OK;
}

/* ---- watching -------------------------------------------------------------------------------*/

coll_status_t watch_check(watch_t *watch, const watch_waiting_t *waiting, bool *lost) {
  struct coll_comm *comm = waiting->comm;
  coll_status_t status = comm_failure(comm);
  if (status != COLL_OK) return comm_fail(comm, status, comm->rank);
  publish(watch, waiting);
  if (watch->sleeps > 0) { /* before the first sleep there was only one poll */
    bool all_peers = watch->suspected_comm != NULL || checks_all_peers(comm, watch->sleeps);
    COLL_TRY(check_waited(watch, comm, lost));
    if (all_peers && waiting->has_collective && !*lost) {
      COLL_TRY(check_needed(watch, comm, waiting->collective, lost));
    }
    if (*lost) return COLL_OK;
  }
  COLL_TRY(compare_calls(watch, comm));
  /* of many ranks, each looks less often at what all others wait for */
  if (!has_many(comm) || checks_all_peers(comm, watch->sleeps)) {
    COLL_TRY(watch_deadlock_check(comm));
  }
  return watch_hang_check(comm, watch->begin_ns);
}

void watch_turn(watch_t *watch, bool lost) {
  if (!lost) watch->suspected_comm = NULL;
  if (!lost) watch->turns++;
  if (watch->sleeps % CROSS_WAIT_SLEEPS == CROSS_WAIT_SLEEPS - 1) watch_cross_wait_publish();
}

/* All pairs of a rank, and the connections that are made when a communicator is created. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/deadline.h"
#include "transport/net/connect/connector.h"
#include "transport/net/connect/state.h"

#define POLL_NS 10000000u

coll_status_t net_pairs_init(net_pairs_t *pairs, int rails) {
  size_t size = (size_t)pairs->size, count = (size_t)rails;
  COLL_TRY(base_alloc(size, sizeof *pairs->pairs, "connections", (void **)&pairs->pairs));
  COLL_TRY(base_alloc(size * count, sizeof *pairs->rails, "connections", (void **)&pairs->rails));
  pairs->rail_count = rails;
  for (int i = 0; i < pairs->size * rails; i++) {
    pairs->rails[i] = (net_rail_t){.pair = &pairs->pairs[i / rails], .index = i % rails, .link = i};
  }
  for (int rank = 0; rank < pairs->size; rank++) {
    pairs->pairs[rank] = (net_pair_t){
        .all = pairs, .rank = rank, .rails = &pairs->rails[rank * rails], .rail_count = 1};
  }
  return COLL_OK;
}

void net_pairs_free(net_pairs_t *pairs) {
  net_health_free(pairs);
  free(pairs->pairs);
  free(pairs->rails);
}

void net_pairs_end_connecting(net_pairs_t *pairs) {
  net_connector_destroy(pairs->connector);
  pthread_mutex_lock(pairs->lock);
  pairs->connector = NULL;
  pthread_mutex_unlock(pairs->lock);
}

/* ---- the connections of creation ------------------------------------------------------------*/

static int parent_of(int rank) {
  return (rank - 1) / 2;
}

/* Whether the connection is made at creation: to all ranks, or to the neighbours in a binary tree.
 */
static bool is_first(const net_pairs_t *pairs, int peer) {
  int rank = pairs->rank;
  if (peer == rank) return false;
  return pairs->is_mesh || (rank > 0 && parent_of(rank) == peer) ||
         (peer > 0 && parent_of(peer) == rank);
}

static coll_status_t fail_late(const net_pairs_t *pairs, int peer) {
  int error = net_connector_error(pairs->connector);
  if (error != 0) {
    return base_fail(COLL_ERROR_TIMEOUT, "rank %d: no connection to rank %d: %s%s", pairs->rank,
                     peer, strerror(error),
                     error == EMFILE ? " (raise ulimit -n)" : " on this host");
  }
  return base_fail(COLL_ERROR_TIMEOUT,
                   "rank %d: no connection to rank %d: is a firewall between their hosts?",
                   pairs->rank, peer);
}

/* The first of them that is missing; -1: none. */
static int find_missing(const net_pairs_t *pairs) {
  int peer = 0;
  while (peer < pairs->size && (!is_first(pairs, peer) || net_pair_is_open(&pairs->pairs[peer]))) {
    peer++;
  }
  return peer < pairs->size ? peer : -1;
}

/* *missing: as find_missing. */
static coll_status_t look(net_pairs_t *pairs, uint64_t deadline_ns, int *missing) {
  coll_status_t status = COLL_OK;
  pthread_mutex_lock(pairs->lock);
  *missing = find_missing(pairs);
  if (pairs->error != 0) {
    errno = pairs->error;
    status = base_fail_errno(COLL_ERROR_SYSTEM, "rank %d: a connection is unusable", pairs->rank);
  } else if (*missing >= 0 && base_clock_now_ns() >= deadline_ns) {
    status = fail_late(pairs, *missing);
  }
  pthread_mutex_unlock(pairs->lock);
  return status;
}

static coll_status_t await_first(net_pairs_t *pairs, const net_group_t *group) {
  const transport_watch_t *watch = group->watch;
  struct pollfd polled[2] = {{.fd = net_connector_descriptor(pairs->connector), .events = POLLIN},
                             {.fd = watch != NULL ? watch->fd : -1, .events = POLLIN}};
  for (;;) {
    int missing;
    uint64_t count;
    COLL_TRY(look(pairs, group->deadline_ns, &missing));
    if (missing < 0) return COLL_OK;
    if (watch != NULL) COLL_TRY(watch->check(watch->context));
    if (poll(polled, 2, base_deadline_limit_ms(POLL_NS)) > 0 && polled[0].revents != 0) {
      (void)!read(polled[0].fd, &count, sizeof count);
    }
  }
}

/* The higher rank of two begins. */
static coll_status_t ask_first(net_pairs_t *pairs) {
  coll_status_t status = COLL_OK;
  pthread_mutex_lock(pairs->lock);
  for (int peer = 0; peer < pairs->rank && status == COLL_OK; peer++) {
    if (is_first(pairs, peer)) status = net_pair_ask(&pairs->pairs[peer]);
  }
  pthread_mutex_unlock(pairs->lock);
  return status;
}

/* Whether connections may be made later. */
static bool may_connect(const net_pairs_t *pairs) {
  for (int rank = 0; rank < pairs->size; rank++) {
    if (pairs->pairs[rank].recovers) return true;
  }
  return !pairs->is_mesh;
}

static void end_first(net_pairs_t *pairs) {
  pthread_mutex_lock(pairs->lock);
  bool may = may_connect(pairs);
  if (may) net_connector_may_give_up(pairs->connector);
  pthread_mutex_unlock(pairs->lock);
  if (!may) net_pairs_end_connecting(pairs);
}

coll_status_t net_pairs_connect(net_pairs_t *pairs, net_listener_t *listener,
                                const net_group_t *group) {
  const net_name_t *names = group->names;
  pairs->is_mesh = (uint32_t)group->size <= names[0].mesh_ranks;
  pairs->recovery = (net_recovery_t)names[0].recovery;
  for (int rank = 0; pairs->recovery != NET_RECOVERY_NONE && rank < group->size; rank++) {
    int rails = names[rank].rails;
    pairs->pairs[rank].rail_count = rails < pairs->rail_count ? rails : pairs->rail_count;
  }
  COLL_TRY(net_connector_create(pairs, listener, group, &pairs->connector));
  COLL_TRY(net_connector_start(pairs->connector));
  COLL_TRY(ask_first(pairs));
  COLL_TRY(await_first(pairs, group));
  end_first(pairs);
  return COLL_OK;
}

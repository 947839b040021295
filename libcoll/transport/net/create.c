/* Creation of ends, in processes that find each other by names, and in one process. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/deadline.h"
#include "base/net/listen.h"
#include "base/net/socket.h"
#include "transport/net/end.h"
#include "transport/net/net.h"

#define POLL_NS 10000000u

static coll_status_t open_wait_set(net_t *end) {
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = NET_WAKEUP_EVENT};
  end->wait_set = epoll_create1(EPOLL_CLOEXEC);
  end->wakeup = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (end->wait_set < 0 || end->wakeup < 0 ||
      epoll_ctl(end->wait_set, EPOLL_CTL_ADD, end->wakeup, &event) != 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "rank %d: nothing to wait on for its connections",
                           end->transport.rank);
  }
  return COLL_OK;
}

static coll_status_t allocate(net_t *end, size_t size, size_t rails) {
  COLL_TRY(base_alloc(size, sizeof *end->peers, "connections", (void **)&end->peers));
  COLL_TRY(base_alloc(size * rails, sizeof *end->rails, "connections", (void **)&end->rails));
  end->rail_count = (int)rails;
  for (size_t rank = 0; rank < size; rank++) {
    net_peer_t *peer = &end->peers[rank];
    *peer = (net_peer_t){
        .end = end, .rank = (int)rank, .rails = &end->rails[rank * rails], .rail_count = 1};
    for (size_t i = 0; i < rails; i++) {
      peer->rails[i] = (net_rail_t){.peer = peer, .index = (int)i, .fd = -1};
    }
  }
  COLL_TRY(base_alloc(1, NET_INPUT_BYTES, "received bytes", (void **)&end->input));
  COLL_TRY(base_alloc(1, NET_SCRATCH_BYTES, "scratch memory", (void **)&end->scratch));
  return base_alloc(1, sizeof *end->recorder, "a flight recorder", (void **)&end->recorder);
}

/* An end without connections, with so many rails at most. */
static coll_status_t end_create(int rank, int size, int rails, uint64_t communicator, bool any_wire,
                                net_t **end) {
  net_t *made = NULL;
  COLL_TRY(base_alloc(1, sizeof *made, "a TCP transport", (void **)&made));
  made->transport = (transport_t){.ops = &net_ops,
                                  .rank = rank,
                                  .slot_bytes = any_wire ? WIRE_SLOT_BYTES : NET_SLOT_BYTES,
                                  .peeks = true,
                                  .recvs_direct = true,
                                  .borrows = true,
                                  .delays = true,
                                  .abort_word = &made->aborted};
  made->wait_set = made->wakeup = -1;
  pthread_mutex_init(&made->lock, NULL);
  coll_status_t status = allocate(made, (size_t)size, (size_t)rails);
  if (status == COLL_OK) {
    made->transport.size = size;
    made->transport.flight = made->recorder;
    made->published = made->recorder;
    flight_begin(made->recorder, communicator, rank);
    status = open_wait_set(made);
  }
  if (status != COLL_OK) {
    net_ops.destroy(&made->transport);
    return status;
  }
  *end = made;
  return COLL_OK;
}

/* The peers have the same wire where has_wire says so; NULL: all have. Takes it over, also on
 * failure. */
static coll_status_t attach(net_t *end, wire_t *wire, const bool has_wire[]) {
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = NET_WIRE_EVENT};
  const transport_t *t = &end->transport;
  if (wire == NULL) return COLL_OK;
  wire->end = end;
  wire->rank = t->rank;
  wire->size = t->size;
  end->wire = wire;
  end->transport.recvs_direct = end->transport.borrows =
      false; /* messages come in the wire's memory */
  if (epoll_ctl(end->wait_set, EPOLL_CTL_ADD, wire->descriptor, &event) != 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "rank %d: cannot wait for %s", t->rank,
                           wire->ops->name);
  }
  for (int peer = 0; peer < t->size; peer++) {
    end->peers[peer].has_wire = peer != t->rank && (has_wire == NULL || has_wire[peer]);
  }
  return COLL_OK;
}

/* ---- the first connections ------------------------------------------------------------------*/

static coll_status_t fail_late(const net_t *end, int peer) {
  int error = net_connector_error(end->connector);
  if (error != 0) {
    return base_fail(COLL_ERROR_TIMEOUT, "rank %d: no connection to rank %d: %s%s",
                     end->transport.rank, peer, strerror(error),
                     error == EMFILE ? " (raise ulimit -n)" : " on this host");
  }
  return base_fail(COLL_ERROR_TIMEOUT,
                   "rank %d: no connection to rank %d: is a firewall between their hosts?",
                   end->transport.rank, peer);
}

/* The first of them that is missing; -1: none. */
static int find_missing(const net_t *end) {
  int peer = 0;
  while (peer < end->transport.size &&
         (!net_end_is_first(end, peer) || net_peer_is_open(&end->peers[peer]))) {
    peer++;
  }
  return peer < end->transport.size ? peer : -1;
}

/* *missing: as find_missing. */
static coll_status_t look(net_t *end, uint64_t deadline_ns, int *missing) {
  coll_status_t status = COLL_OK;
  pthread_mutex_lock(&end->lock);
  *missing = find_missing(end);
  if (end->error != 0) {
    errno = end->error;
    status = base_fail_errno(COLL_ERROR_SYSTEM, "rank %d: a connection is unusable",
                             end->transport.rank);
  } else if (*missing >= 0 && base_clock_now_ns() >= deadline_ns) {
    status = fail_late(end, *missing);
  }
  pthread_mutex_unlock(&end->lock);
  return status;
}

static coll_status_t await_first(net_t *end, const net_group_t *group) {
  const transport_watch_t *watch = group->watch;
  struct pollfd polled[2] = {{.fd = net_connector_descriptor(end->connector), .events = POLLIN},
                             {.fd = watch != NULL ? watch->fd : -1, .events = POLLIN}};
  for (;;) {
    int missing;
    uint64_t count;
    COLL_TRY(look(end, group->deadline_ns, &missing));
    if (missing < 0) return COLL_OK;
    if (watch != NULL) COLL_TRY(watch->check(watch->context));
    if (poll(polled, 2, base_deadline_limit_ms(POLL_NS)) > 0 && polled[0].revents != 0) {
      (void)!read(polled[0].fd, &count, sizeof count);
    }
  }
}

/* The higher rank of two begins. */
static coll_status_t ask_first(net_t *end) {
  coll_status_t status = COLL_OK;
  pthread_mutex_lock(&end->lock);
  for (int peer = 0; peer < end->transport.rank && status == COLL_OK; peer++) {
    if (net_end_is_first(end, peer)) status = net_end_ask(&end->peers[peer]);
  }
  pthread_mutex_unlock(&end->lock);
  return status;
}

/* Whether connections may be made later. */
static bool may_connect(const net_t *end) {
  for (int rank = 0; rank < end->transport.size; rank++) {
    if (end->peers[rank].recovers) return true;
  }
  return !end->is_mesh;
}

static void end_first(net_t *end) {
  net_connector_t *connector = end->connector;
  pthread_mutex_lock(&end->lock);
  end->is_complete = true;
  bool may = may_connect(end);
  if (may) net_connector_may_give_up(connector);
  pthread_mutex_unlock(&end->lock);
  if (may) return;
  net_connector_destroy(connector);
  end->connector = NULL;
}

static coll_status_t connect_first(net_t *end, net_listener_t *listener, const net_group_t *group) {
  const net_name_t *names = group->names;
  end->is_mesh = (uint32_t)group->size <= names[0].mesh_ranks;
  end->recovery = (net_recovery_t)names[0].recovery;
  for (int rank = 0; end->recovery != NET_RECOVERY_NONE && rank < group->size; rank++) {
    int rails = names[rank].rails;
    end->peers[rank].rail_count = rails < end->rail_count ? rails : end->rail_count;
  }
  COLL_TRY(net_connector_create(end, listener, group, &end->connector));
  COLL_TRY(net_connector_start(end->connector));
  COLL_TRY(ask_first(end));
  COLL_TRY(await_first(end, group));
  end_first(end);
  return COLL_OK;
}

coll_status_t transport_net_create(net_listener_t *listener, const net_group_t *group,
                                   transport_t **t) {
  net_t *end = NULL;
  coll_status_t status = end_create(group->rank, group->size, group->names[group->rank].rails,
                                    group->session, group->any_wire, &end);
  if (status == COLL_OK) {
    status = attach(end, group->wire, group->has_wire);
  } else if (group->wire != NULL) {
    group->wire->ops->destroy(group->wire);
  }
  if (status == COLL_OK) status = connect_first(end, listener, group);
  net_listener_close(listener); /* if nobody has taken it over */
  if (status != COLL_OK && end != NULL) net_ops.destroy(&end->transport);
  if (status == COLL_OK) *t = &end->transport;
  return status;
}

/* ---- in one process -------------------------------------------------------------------------*/

/* Whether the two are ends of one connection: any process of the host may have called, too. */
static bool are_connected(int accepted, int caller) {
  struct sockaddr_in peer, own;
  socklen_t peer_bytes = sizeof peer, own_bytes = sizeof own;
  return getpeername(accepted, (struct sockaddr *)&peer, &peer_bytes) == 0 &&
         getsockname(caller, (struct sockaddr *)&own, &own_bytes) == 0 &&
         peer.sin_port == own.sin_port && peer.sin_addr.s_addr == own.sin_addr.s_addr;
}

/* Two sockets that are connected over the loopback interface. They are the caller's. */
static coll_status_t connect_pair(int sockets[2]) {
  const struct in_addr loopback = {.s_addr = htonl(INADDR_LOOPBACK)};
  base_address_t at = base_address_of_ip(false, &loopback, 0);
  int listener = base_listen(SOCK_STREAM, &at, 0);
  sockets[0] = base_socket(AF_INET, SOCK_STREAM, 0);
  sockets[1] = -1;
  if (listener >= 0 && connect(sockets[0], &at.any, at.bytes) == 0) {
    sockets[1] = base_socket_accept(listener);
    while (sockets[1] >= 0 && !are_connected(sockets[1], sockets[0])) {
      base_socket_close(sockets[1]);
      sockets[1] = base_socket_accept(listener);
    }
  }
  coll_status_t status = COLL_OK;
  if (sockets[1] < 0) {
    status = base_fail_errno(COLL_ERROR_SYSTEM, "no connection over the loopback interface");
    if (sockets[0] >= 0) base_socket_close(sockets[0]);
  }
  if (listener >= 0) base_socket_close(listener);
  return status;
}

static coll_status_t connect_pairs(int size, transport_t *const ends[]) {
  for (int a = 0; a < size; a++) {
    for (int b = 0; b < a; b++) {
      int sockets[2];
      COLL_TRY(connect_pair(sockets));
      bool one = net_end_connected(net_end_of(ends[a]), b, 0, 1, sockets[0]);
      bool other = net_end_connected(net_end_of(ends[b]), a, 0, 1, sockets[1]);
      if (!one || !other) {
        return base_fail(COLL_ERROR_SYSTEM, "ranks %d and %d have no usable connection", b, a);
      }
    }
  }
  return COLL_OK;
}

static coll_status_t create_one_of(int rank, int size, uint64_t communicator, wire_t *const wires[],
                                   transport_t **t) {
  net_t *end = NULL;
  coll_status_t status = end_create(rank, size, 1, communicator, wires != NULL, &end);
  *t = status == COLL_OK ? &end->transport : NULL;
  if (wires == NULL) return status;
  if (status == COLL_OK) return attach(end, wires[rank], NULL);
  wires[rank]->ops->destroy(wires[rank]);
  return status;
}

coll_status_t transport_net_create_local(int size, wire_t *const wires[], transport_t *ends[]) {
  uint64_t communicator = base_clock_now_ns();
  coll_status_t status = COLL_OK;
  for (int rank = 0; rank < size; rank++) {
    coll_status_t own = create_one_of(rank, size, communicator, wires, &ends[rank]);
    if (status == COLL_OK) status = own;
  }
  if (status == COLL_OK) status = connect_pairs(size, ends);
  for (int rank = 0; status == COLL_OK && rank < size; rank++) {
    net_end_of(ends[rank])->is_complete = net_end_of(ends[rank])->is_mesh = true;
  }
  for (int rank = 0; status != COLL_OK && rank < size; rank++) {
    if (ends[rank] != NULL) ends[rank]->ops->destroy(ends[rank]);
  }
  return status;
}

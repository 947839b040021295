/* Creation of ends, in processes that find each other by names, and in one process. */
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/net/listen.h"
#include "base/net/socket.h"
#include "transport/net/net.h"
#include "transport/net/state.h"

/* With so many connections to a peer at most. */
static coll_status_t open_sockets(net_t *end, int rails) {
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = NET_WAKEUP_EVENT};
  const transport_t *t = &end->transport;
  COLL_TRY(socket_wire_open(t->size * rails, &end->sockets));
  end->sockets->owner_ops = &net_channels_of_sockets;
  end->sockets->owner = &end->channels;
  end->pairs = (net_pairs_t){.owner_ops = &net_channels_of_pairs,
                             .owner = &end->channels,
                             .rank = t->rank,
                             .size = t->size,
                             .lock = &end->lock,
                             .sockets = end->sockets};
  COLL_TRY(net_pairs_init(&end->pairs, rails));
  end->channels.transport = &end->transport;
  end->channels.pairs = &end->pairs;
  end->channels.sockets = end->sockets;
  COLL_TRY(net_channels_init(&end->channels));
  if (epoll_ctl(end->sockets->descriptor, EPOLL_CTL_ADD, end->channels.wakeup, &event) == 0) {
    return COLL_OK;
  }
  return base_fail_errno(COLL_ERROR_SYSTEM, "rank %d: nothing to wait on for its connections",
                         t->rank);
}

/* An end without connections, with so many rails at most. */
static coll_status_t end_create(int rank, int size, int rails, uint64_t communicator, bool any_wire,
                                net_t **end) {
  net_t *made = NULL;
  COLL_TRY(base_alloc(1, sizeof *made, "a TCP transport", (void **)&made));
  made->transport = (transport_t){.ops = &net_ops,
                                  .rank = rank,
                                  .size = size,
                                  .slot_bytes = any_wire ? WIRE_SLOT_BYTES : NET_SLOT_BYTES,
                                  .peeks = true,
                                  .recvs_direct = true,
                                  .borrows = true,
                                  .delays = true,
                                  .abort_word = &made->channels.aborted};
  made->channels.wakeup = -1;
  made->pairs.lock = &made->lock;
  pthread_mutex_init(&made->lock, NULL);
  coll_status_t status =
      base_alloc(1, NET_SCRATCH_BYTES, "scratch memory", (void **)&made->scratch);
  if (status == COLL_OK) status = open_sockets(made, rails);
  if (status != COLL_OK) {
    net_ops.destroy(&made->transport);
    return status;
  }
  made->transport.flight = made->channels.recorder;
  flight_begin(made->channels.recorder, communicator, rank);
  *end = made;
  return COLL_OK;
}

/* The peers have the same wire where has_wire says so; NULL: all have. Takes it over, also on
 * failure. */
static coll_status_t attach(net_t *end, wire_t *wire, const bool has_wire[]) {
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = NET_WIRE_EVENT};
  const transport_t *t = &end->transport;
  if (wire == NULL) return COLL_OK;
  wire->owner_ops = &net_channels_of_wire;
  wire->owner = &end->channels;
  wire->rank = t->rank;
  wire->size = t->size;
  end->wire = end->channels.wire = wire;
  end->transport.recvs_direct = end->transport.borrows =
      false; /* messages come in the wire's memory */
  if (epoll_ctl(end->sockets->descriptor, EPOLL_CTL_ADD, wire->descriptor, &event) != 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "rank %d: cannot wait for %s", t->rank,
                           wire->ops->name);
  }
  for (int peer = 0; peer < t->size; peer++) {
    end->channels.peers[peer].has_wire = peer != t->rank && (has_wire == NULL || has_wire[peer]);
  }
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
  if (status == COLL_OK) status = net_pairs_connect(&end->pairs, listener, group);
  if (status == COLL_OK) end->is_complete = true;
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
      bool one = net_pair_connected(&net_of(ends[a])->pairs.pairs[b], 0, 1, sockets[0]);
      bool other = net_pair_connected(&net_of(ends[b])->pairs.pairs[a], 0, 1, sockets[1]);
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
    net_of(ends[rank])->is_complete = net_of(ends[rank])->pairs.is_mesh = true;
  }
  for (int rank = 0; status != COLL_OK && rank < size; rank++) {
    if (ends[rank] != NULL) ends[rank]->ops->destroy(ends[rank]);
  }
  return status;
}

/* Creation of ends, in processes that find each other by names, and in one process. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "transport/tcp/end.h"
#include "transport/tcp/tcp.h"

/* More than a rank may send that then makes no calls for a while: what the socket does not accept
 * is sent in later calls. The system may grant less. */
#define SEND_BUFFER_BYTES (4 * TRANSPORT_P2P_BYTES)

/* A host that does not answer for 3 s on an idle connection is lost; on one that is not, health.c
 * finds that. */
enum { KEEPALIVE_IDLE_S = 1, KEEPALIVE_INTERVAL_S = 1, KEEPALIVE_PROBES = 2 };

static coll_status_t open_wait_set(tcp_t *end) {
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = TCP_WAKEUP_EVENT};
  end->wait_set = epoll_create1(EPOLL_CLOEXEC);
  end->wakeup = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (end->wait_set < 0 || end->wakeup < 0 ||
      epoll_ctl(end->wait_set, EPOLL_CTL_ADD, end->wakeup, &event) != 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "rank %d: nothing to wait on for its connections",
                           end->transport.rank);
  }
  return COLL_OK;
}

static coll_status_t allocate(tcp_t *end, size_t size) {
  COLL_TRY(base_alloc(size, sizeof *end->peers, "connections", (void **)&end->peers));
  for (size_t rank = 0; rank < size; rank++) {
    end->peers[rank] = (tcp_peer_t){.end = end, .rank = (int)rank, .fd = -1};
  }
  COLL_TRY(base_alloc(1, TCP_INPUT_BYTES, "received bytes", (void **)&end->input));
  COLL_TRY(base_alloc(1, TCP_SCRATCH_BYTES, "scratch memory", (void **)&end->scratch));
  return base_alloc(1, sizeof *end->recorder, "a flight recorder", (void **)&end->recorder);
}

/* An end without connections. */
static coll_status_t end_create(int rank, int size, uint64_t communicator, tcp_t **end) {
  tcp_t *made = NULL;
  COLL_TRY(base_alloc(1, sizeof *made, "a TCP transport", (void **)&made));
  made->transport = (transport_t){.ops = &tcp_ops,
                                  .rank = rank,
                                  .slot_bytes = TCP_SLOT_BYTES,
                                  .peeks = true,
                                  .delays = true,
                                  .abort_word = &made->aborted};
  made->wait_set = made->wakeup = -1;
  pthread_mutex_init(&made->lock, NULL);
  coll_status_t status = allocate(made, (size_t)size);
  if (status == COLL_OK) {
    made->transport.size = size;
    made->transport.flight = made->recorder;
    made->published = made->recorder;
    flight_begin(made->recorder, communicator, rank);
    status = open_wait_set(made);
  }
  if (status != COLL_OK) {
    tcp_ops.destroy(&made->transport);
    return status;
  }
  *end = made;
  return COLL_OK;
}

/* Gives it the connection to a peer, which it takes over, also on failure. */
static coll_status_t end_connect(tcp_t *end, int peer, int fd) {
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)peer};
  int one = 1, bytes = (int)SEND_BUFFER_BYTES;
  int idle_s = KEEPALIVE_IDLE_S, interval_s = KEEPALIVE_INTERVAL_S, probes = KEEPALIVE_PROBES;
  end->peers[peer].fd = fd;
  (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
  (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0 ||
      ioctl(fd, FIONBIO, &one) != 0 || epoll_ctl(end->wait_set, EPOLL_CTL_ADD, fd, &event) != 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "rank %d: its connection to rank %d is unusable",
                           end->transport.rank, peer);
  }
  return tcp_health_add(&end->peers[peer]);
}

/* The peers have the same fabric where has_fabric says so; NULL: all have. Takes it over, also on
 * failure. */
static coll_status_t attach(tcp_t *end, tcp_fabric_t *fabric, const bool has_fabric[]) {
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = TCP_FABRIC_EVENT};
  const transport_t *t = &end->transport;
  if (fabric == NULL) return COLL_OK;
  fabric->end = end;
  fabric->rank = t->rank;
  fabric->size = t->size;
  end->fabric = fabric;
  if (epoll_ctl(end->wait_set, EPOLL_CTL_ADD, fabric->descriptor, &event) != 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "rank %d: cannot wait for %s", t->rank,
                           fabric->ops->name);
  }
  for (int peer = 0; peer < t->size; peer++) {
    end->peers[peer].has_fabric = peer != t->rank && (has_fabric == NULL || has_fabric[peer]);
  }
  return COLL_OK;
}

coll_status_t transport_tcp_create(tcp_listener_t *listener, const tcp_group_t *group,
                                   transport_t **t) {
  int *sockets = NULL;
  tcp_t *end = NULL;
  coll_status_t status = end_create(group->rank, group->size, group->session, &end);
  if (status == COLL_OK) {
    status = attach(end, group->fabric, group->has_fabric);
  } else if (group->fabric != NULL) {
    group->fabric->ops->destroy(group->fabric);
  }
  if (status == COLL_OK) {
    status = base_alloc((size_t)group->size, sizeof *sockets, "connections", (void **)&sockets);
  }
  if (status == COLL_OK) {
    status = tcp_connect_all(listener, group, sockets);
  } else {
    tcp_listener_close(listener);
  }
  bool connected = status == COLL_OK;
  for (int peer = 0; connected && peer < group->size; peer++) {
    if (peer == group->rank) continue;
    if (status == COLL_OK)
      status = end_connect(end, peer, sockets[peer]);
    else
      close(sockets[peer]);
  }
  free(sockets);
  if (status != COLL_OK && end != NULL) tcp_ops.destroy(&end->transport);
  if (status == COLL_OK) *t = &end->transport;
  return status;
}

static coll_status_t connect_pairs(int size, transport_t *const ends[]) {
  for (int a = 0; a < size; a++) {
    for (int b = 0; b < a; b++) {
      int sockets[2];
      COLL_TRY(tcp_connect_pair(sockets));
      coll_status_t status = end_connect(tcp_end_of(ends[a]), b, sockets[0]);
      coll_status_t other = end_connect(tcp_end_of(ends[b]), a, sockets[1]);
      if (status != COLL_OK || other != COLL_OK) return COLL_ERROR_SYSTEM;
    }
  }
  return COLL_OK;
}

static coll_status_t create_one_of(int rank, int size, uint64_t communicator,
                                   tcp_fabric_t *const fabrics[], transport_t **t) {
  tcp_t *end = NULL;
  coll_status_t status = end_create(rank, size, communicator, &end);
  *t = status == COLL_OK ? &end->transport : NULL;
  if (fabrics == NULL) return status;
  if (status == COLL_OK) return attach(end, fabrics[rank], NULL);
  fabrics[rank]->ops->destroy(fabrics[rank]);
  return status;
}

coll_status_t transport_tcp_create_local(int size, tcp_fabric_t *const fabrics[],
                                         transport_t *ends[]) {
  uint64_t communicator = base_clock_now_ns();
  coll_status_t status = COLL_OK;
  for (int rank = 0; rank < size; rank++) {
    coll_status_t own = create_one_of(rank, size, communicator, fabrics, &ends[rank]);
    if (status == COLL_OK) status = own;
  }
  if (status == COLL_OK) status = connect_pairs(size, ends);
  for (int rank = 0; status != COLL_OK && rank < size; rank++) {
    if (ends[rank] != NULL) ends[rank]->ops->destroy(ends[rank]);
  }
  return status;
}

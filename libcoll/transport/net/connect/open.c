/* Connections that the connector makes: those of creation, and those that are first used later. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/net/socket.h"
#include "transport/net/end.h"

/* More than a rank may send that then makes no calls for a while: what the socket does not accept
 * is sent in later calls. The system may grant less. */
#define SEND_BUFFER_BYTES (4 * TRANSPORT_P2P_BYTES)

/* A host that does not answer for 3 s on an idle connection is lost; on one that is not, health.c
 * finds that. */
enum { KEEPALIVE_IDLE_S = 1, KEEPALIVE_INTERVAL_S = 1, KEEPALIVE_PROBES = 2 };

/* A peer for which this rank waits connects by itself when it sends something. */
#define AWAITED_NS 100000000u

static int parent_of(int rank) {
  return (rank - 1) / 2;
}

bool net_end_is_first(const net_t *end, int peer) {
  int rank = end->transport.rank;
  if (peer == rank) return false;
  return end->is_mesh || (rank > 0 && parent_of(rank) == peer) ||
         (peer > 0 && parent_of(peer) == rank);
}

coll_status_t net_end_ask(net_peer_t *peer) {
  for (int i = 0; i < peer->rail_count; i++) {
    net_rail_t *rail = &peer->rails[i];
    if (rail->fd >= 0 || rail->is_wanted) continue;
    COLL_TRY(net_connector_ask(peer->end->connector, peer->rank, i, rail->made));
    rail->is_wanted = true;
  }
  return COLL_OK;
}

void net_end_waits_for(net_peer_t *peer) {
  uint64_t now_ns = base_clock_now_ns();
  if (!net_peer_is_pending(peer)) return;
  if (peer->awaited_ns == 0) peer->awaited_ns = now_ns;
  if (now_ns > peer->awaited_ns + AWAITED_NS) (void)net_end_ask(peer);
}

static bool set_options(const net_rail_t *rail, int fd) {
  const net_t *end = rail->peer->end;
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)(rail - end->rails)};
  int one = 1, bytes = (int)SEND_BUFFER_BYTES;
  int idle_s = KEEPALIVE_IDLE_S, interval_s = KEEPALIVE_INTERVAL_S, probes = KEEPALIVE_PROBES;
  (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
  (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0 &&
         ioctl(fd, FIONBIO, &one) == 0 && epoll_ctl(end->wait_set, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* Whether both ends are at one address. */
static bool is_within_host(int fd, const struct sockaddr_storage *address) {
  struct sockaddr_storage own;
  socklen_t bytes = sizeof own;
  memset(&own, 0, sizeof own);
  if (getsockname(fd, (struct sockaddr *)&own, &bytes) != 0) return true;
  return net_health_is_same(&own, address);
}

static void note_known(net_peer_t *peer, int fd, const struct sockaddr_storage *address) {
  const net_t *end = peer->end;
  if (peer->is_known) return;
  peer->is_known = true;
  peer->recovers =
      end->connector != NULL && end->recovery != NET_RECOVERY_NONE &&
      (end->recovery == NET_RECOVERY_ALL || peer->rail_count > 1 || !is_within_host(fd, address));
}

static bool prepare(net_rail_t *rail, int fd) {
  struct sockaddr_storage address;
  socklen_t bytes = sizeof address;
  memset(&address, 0, sizeof address);
  if (getpeername(fd, (struct sockaddr *)&address, &bytes) != 0) return false;
  errno = ENOMEM;
  if (net_health_add(rail, &address, bytes) != COLL_OK || !set_options(rail, fd)) return false;
  note_known(rail->peer, fd, &address);
  return true;
}

static void give_up(net_rail_t *rail, net_loss_t loss, int error) {
  net_peer_t *peer = rail->peer;
  peer->loss = loss;
  peer->lost_host = rail->host;
  peer->error = error;
  net_rails_close(peer, TRANSPORT_PEER_LOST);
}

/* The peer has made another connection because it lost this one. */
static void replace(net_rail_t *rail) {
  socket_close(rail);
  net_order_forget(rail);
}

/* It was reset before it could be used: another one is made. */
static bool is_reset(int error) {
  return error == ENOTCONN || error == ECONNRESET || error == EINVAL;
}

static bool reject(net_rail_t *rail, int fd, int error) {
  net_peer_t *peer = rail->peer;
  base_socket_close(fd);
  if (net_peer_is_open(peer)) net_order_open(peer); /* what the rail had to deliver before */
  if (is_reset(error) && net_end_ask(peer) == COLL_OK) return true;
  if (!net_peer_is_pending(peer)) return true;
  peer->end->error = error;
  give_up(rail, NET_LOSS_LOCAL, error);
  return false;
}

bool net_end_connected(net_t *end, int rank, int index, uint16_t made, int fd) {
  net_peer_t *peer = &end->peers[rank];
  net_rail_t *rail = &peer->rails[index];
  if (index >= peer->rail_count || peer->is_closed) {
    base_socket_close(fd);
    return true;
  }
  replace(rail);
  rail->made = made;
  rail->is_wanted = rail->is_unreachable = rail->is_refused = false;
  if (!prepare(rail, fd)) return reject(rail, fd, errno);
  rail->fd = fd;
  rail->send_error = 0;
  rail->acks = (net_acks_t){0};
  peer->open_count++;
  net_order_open(peer);
  net_abort_tell(peer);
  if (end->is_leaving && !peer->has_left_by_socket) net_end_say_leave(peer);
  return true;
}

/* A rank that was connected before, and does not listen any more, has ended. */
static net_loss_t loss_of(const net_peer_t *peer, net_failure_t failure) {
  for (int i = 0; i < peer->rail_count; i++) {
    if (peer->rails[i].is_refused) return peer->is_known ? NET_LOSS_PROCESS : NET_LOSS_REFUSED;
  }
  return failure == NET_FAILURE_LOCAL ? NET_LOSS_LOCAL : NET_LOSS_SILENT;
}

bool net_end_unreachable(net_t *end, int rank, int index, net_failure_t failure, int error,
                         const struct sockaddr_storage *address, socklen_t bytes) {
  net_peer_t *peer = &end->peers[rank];
  net_rail_t *rail = &peer->rails[index];
  rail->is_unreachable = true;
  rail->is_refused = failure == NET_FAILURE_REFUSED;
  if (peer->is_closed) return true;
  if (!net_peer_is_pending(peer)) return false;
  for (int i = 0; i < peer->rail_count; i++) {
    if (!peer->rails[i].is_unreachable) return false;
  }
  (void)net_health_add(rail, address, bytes);
  give_up(rail, loss_of(peer, failure), error);
  return true;
}

/* Connections that the connector makes: those of creation, and those that are first used later. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/tcp/end.h"

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

bool tcp_end_is_first(const tcp_t *end, bool is_mesh, int peer) {
  int rank = end->transport.rank;
  if (peer == rank) return false;
  return is_mesh || (rank > 0 && parent_of(rank) == peer) || (peer > 0 && parent_of(peer) == rank);
}

coll_status_t tcp_end_ask(tcp_peer_t *peer) {
  if (peer->is_wanted) return COLL_OK;
  COLL_TRY(tcp_connector_ask(peer->end->connector, peer->rank));
  peer->is_wanted = true;
  return COLL_OK;
}

void tcp_end_waits_for(tcp_peer_t *peer) {
  uint64_t now_ns = base_clock_now_ns();
  if (!tcp_peer_is_pending(peer) || peer->is_wanted) return;
  if (peer->awaited_ns == 0) peer->awaited_ns = now_ns;
  if (now_ns > peer->awaited_ns + AWAITED_NS) (void)tcp_end_ask(peer);
}

static bool set_options(const tcp_t *end, int rank, int fd) {
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)rank};
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

static bool prepare(tcp_t *end, tcp_peer_t *peer, int fd) {
  struct sockaddr_storage address;
  socklen_t bytes = sizeof address;
  memset(&address, 0, sizeof address);
  if (getpeername(fd, (struct sockaddr *)&address, &bytes) != 0) return false;
  errno = ENOMEM;
  return tcp_health_add(peer, &address, bytes) == COLL_OK && set_options(end, peer->rank, fd);
}

static void give_up(tcp_peer_t *peer, tcp_loss_t loss, int error) {
  peer->loss = loss;
  peer->send_error = error;
  tcp_stream_close(peer, TRANSPORT_PEER_LOST);
}

bool tcp_end_connected(tcp_t *end, int rank, int fd) {
  tcp_peer_t *peer = &end->peers[rank];
  if (peer->fd >= 0 || peer->state != TRANSPORT_PEER_HERE || !prepare(end, peer, fd)) {
    end->error = errno;
    close(fd);
    if (tcp_peer_is_pending(peer)) give_up(peer, TCP_LOSS_LOCAL, end->error);
    return false;
  }
  peer->fd = fd;
  peer->is_wanted = true;
  tcp_stream_open(peer);
  tcp_abort_tell(peer);
  if (end->is_leaving && !peer->has_left_by_socket) tcp_end_say_leave(peer);
  return true;
}

static tcp_loss_t loss_of(tcp_failure_t failure) {
  if (failure == TCP_FAILURE_REFUSED) return TCP_LOSS_REFUSED;
  return failure == TCP_FAILURE_LOCAL ? TCP_LOSS_LOCAL : TCP_LOSS_SILENT;
}

void tcp_end_unreachable(tcp_t *end, int rank, tcp_failure_t failure, int error,
                         const struct sockaddr_storage *address, socklen_t bytes) {
  tcp_peer_t *peer = &end->peers[rank];
  if (!tcp_peer_is_pending(peer)) return;
  (void)tcp_health_add(peer, address, bytes);
  give_up(peer, loss_of(failure), error);
}

/* Connections that the connector makes: when they are asked for, and when they are made. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/net/socket.h"
#include "transport/net/connect/connector.h"
#include "transport/net/connect/state.h"

/* More than a rank may send that then makes no calls for a while: what the socket does not accept
 * is sent in later calls. The system may grant less. */
#define SEND_BUFFER_BYTES (4 * TRANSPORT_P2P_BYTES)

/* A host that does not answer for 3 s on an idle connection is lost; on one that is not, health.c
 * finds that. */
enum { KEEPALIVE_IDLE_S = 1, KEEPALIVE_INTERVAL_S = 1, KEEPALIVE_PROBES = 2 };

/* A peer for which this rank waits connects by itself when it sends something. */
#define AWAITED_NS 100000000u

coll_status_t net_pair_ask(net_pair_t *pair) {
  for (int i = 0; i < pair->rail_count; i++) {
    net_rail_t *rail = &pair->rails[i];
    if (net_rail_fd(rail) >= 0 || rail->is_wanted) continue;
    COLL_TRY(net_connector_ask(pair->all->connector, pair->rank, i, rail->made));
    rail->is_wanted = true;
  }
  return COLL_OK;
}

void net_pair_await(net_pair_t *pair) {
  uint64_t now_ns = base_clock_now_ns();
  if (!net_pair_is_pending(pair)) return;
  if (pair->awaited_ns == 0) pair->awaited_ns = now_ns;
  if (now_ns > pair->awaited_ns + AWAITED_NS) (void)net_pair_ask(pair);
}

static bool set_options(int fd) {
  int one = 1, bytes = (int)SEND_BUFFER_BYTES;
  int idle_s = KEEPALIVE_IDLE_S, interval_s = KEEPALIVE_INTERVAL_S, probes = KEEPALIVE_PROBES;
  (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
  (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0;
}

/* Whether both ends are at one address. */
static bool is_within_host(int fd, const struct sockaddr_storage *address) {
  struct sockaddr_storage own;
  socklen_t bytes = sizeof own;
  memset(&own, 0, sizeof own);
  if (getsockname(fd, (struct sockaddr *)&own, &bytes) != 0) return true;
  return net_health_is_same(&own, address);
}

static void note_known(net_pair_t *pair, int fd, const struct sockaddr_storage *address) {
  const net_pairs_t *all = pair->all;
  if (pair->is_known) return;
  pair->is_known = true;
  pair->recovers =
      all->connector != NULL && all->recovery != NET_RECOVERY_NONE &&
      (all->recovery == NET_RECOVERY_ALL || pair->rail_count > 1 || !is_within_host(fd, address));
}

static bool prepare(net_rail_t *rail, int fd) {
  struct sockaddr_storage address;
  socklen_t bytes = sizeof address;
  memset(&address, 0, sizeof address);
  if (getpeername(fd, (struct sockaddr *)&address, &bytes) != 0) return false;
  errno = ENOMEM;
  if (net_health_add(rail, &address, bytes) != COLL_OK || !set_options(fd) ||
      !socket_wire_connect(rail->pair->all->sockets, rail->link, fd)) {
    return false;
  }
  note_known(rail->pair, fd, &address);
  return true;
}

static void give_up(net_rail_t *rail, net_loss_t loss, int error) {
  net_pair_t *pair = rail->pair;
  pair->loss = loss;
  pair->lost_host = rail->host;
  pair->error = error;
  net_pair_give_up(pair);
}

/* It was reset before it could be used: another one is made. */
static bool is_reset(int error) {
  return error == ENOTCONN || error == ECONNRESET || error == EINVAL;
}

static bool reject(net_rail_t *rail, int fd, int error) {
  net_pair_t *pair = rail->pair;
  base_socket_close(fd);
  /* others carry what the rail had to deliver before */
  if (net_pair_is_open(pair)) pair->all->owner_ops->opened(pair->all, pair->rank, false);
  if (is_reset(error) && net_pair_ask(pair) == COLL_OK) return true;
  if (!net_pair_is_pending(pair)) return true;
  pair->all->error = error;
  give_up(rail, NET_LOSS_LOCAL, error);
  return false;
}

bool net_pair_connected(net_pair_t *pair, int index, uint16_t made, int fd) {
  net_rail_t *rail = &pair->rails[index];
  if (index >= pair->rail_count || pair->is_closed) {
    base_socket_close(fd);
    return true;
  }
  net_rail_close(rail); /* the peer has made another connection because it lost this one */
  rail->made = made;
  rail->is_wanted = rail->is_unreachable = rail->is_refused = false;
  if (!prepare(rail, fd)) return reject(rail, fd, errno);
  rail->acks = (net_acks_t){0};
  pair->open_count++;
  pair->all->owner_ops->opened(pair->all, pair->rank, true);
  return true;
}

/* A rank that was connected before, and does not listen any more, has ended. */
static net_loss_t loss_of(const net_pair_t *pair, net_failure_t failure) {
  for (int i = 0; i < pair->rail_count; i++) {
    if (pair->rails[i].is_refused) return pair->is_known ? NET_LOSS_PROCESS : NET_LOSS_REFUSED;
  }
  return failure == NET_FAILURE_LOCAL ? NET_LOSS_LOCAL : NET_LOSS_SILENT;
}

/* The peer has closed its side for good. Where a rail seems to be open, what has come by it is
 * received first; its end is found as any other's (net_rail_lost). */
static void be_refused(net_rail_t *rail, int why) {
  net_pair_t *pair = rail->pair;
  pair->is_given_up = true;
  pair->peer_loss = (net_loss_t)why;
  if (!net_pair_is_open(pair)) give_up(rail, NET_LOSS_GIVEN_UP, 0);
}

bool net_pair_unreachable(net_pair_t *pair, int index, net_failure_t failure, int error,
                          const struct sockaddr_storage *address, socklen_t bytes) {
  net_rail_t *rail = &pair->rails[index];
  rail->is_unreachable = true;
  rail->is_refused = failure == NET_FAILURE_REFUSED;
  if (pair->is_closed) return true;
  if (failure == NET_FAILURE_GIVEN_UP) {
    (void)net_health_add(rail, address, bytes);
    be_refused(rail, error);
    return true;
  }
  if (!net_pair_is_pending(pair)) return false;
  for (int i = 0; i < pair->rail_count; i++) {
    if (!pair->rails[i].is_unreachable) return false;
  }
  (void)net_health_add(rail, address, bytes);
  give_up(rail, loss_of(pair, failure), error);
  return true;
}

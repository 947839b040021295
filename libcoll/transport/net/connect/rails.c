/*
 * The connections of a pair of ranks, one for each pair of interfaces. If one is lost, the others
 * carry what it had to deliver, and it is made again. If it was the last one, the peer is lost when
 * no other can be made, which takes no time if its process has ended: its host refuses.
 */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>

#include "base/clock.h"
#include "transport/net/connect/state.h"

#define CLOSED 7 /* tcp_info.tcpi_state: TCP_CLOSE in the kernel's net/tcp_states.h */

#define SPREAD_BYTES 8192u /* of payloads from which the rail is chosen by load */
/* A rail that became silent gets no long frames for a second, then two, and so on: on its way may
 * be a hop through which only short packets pass. */
#define DISTRUST_NS UINT64_C(1000000000)
#define DISTRUST_DOUBLINGS_MAX 6

/* ---- sending --------------------------------------------------------------------------------*/

bool net_rail_accepts(const net_rail_t *rail) {
  return net_rail_fd(rail) >= 0 && !socket_wire_is_mute(rail->pair->all->sockets, rail->link);
}

static bool is_distrusted(const net_rail_t *rail) {
  int doublings = rail->silences - 1;
  if (rail->silences == 0) return false;
  if (doublings > DISTRUST_DOUBLINGS_MAX) doublings = DISTRUST_DOUBLINGS_MAX;
  return base_clock_now_ns() < rail->silent_ns + (DISTRUST_NS << doublings);
}

/* Long payloads take the rail with the least under way, so that a faster rail carries more. */
const net_rail_t *net_pair_choose_rail(const net_pair_t *pair, size_t bytes) {
  const net_rail_t *best = NULL;
  size_t least = SIZE_MAX;
  for (int i = 0; i < pair->rail_count; i++) {
    const net_rail_t *rail = &pair->rails[i];
    if (!net_rail_accepts(rail)) continue;
    if (bytes < SPREAD_BYTES || pair->open_count == 1) return rail;
    size_t load = is_distrusted(rail) ? SIZE_MAX : socket_wire_load(pair->all->sockets, rail->link);
    if (best == NULL || load < least) {
      best = rail;
      least = load;
    }
  }
  return best;
}

bool net_pair_accepts(const net_pair_t *pair) {
  int i = 0;
  while (i < pair->rail_count && !net_rail_accepts(&pair->rails[i])) i++;
  return i < pair->rail_count;
}

bool net_pair_holds(const net_pair_t *pair, int channel) {
  wire_t *sockets = pair->all->sockets;
  for (int i = 0; i < pair->rail_count; i++) {
    if (sockets->ops->holds(sockets, pair->rails[i].link, channel)) return true;
  }
  return false;
}

static bool is_queued(const net_rail_t *rail) {
  const net_pair_t *pair = rail->pair;
  const wire_t *sockets = pair->all->sockets;
  int fd = net_rail_fd(rail);
  struct tcp_info info;
  socklen_t length = sizeof info;
  if (fd < 0) return false;
  if (socket_wire_is_mute(sockets, rail->link)) return pair->recovers;
  if (pair->recovers && getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
      info.tcpi_state == CLOSED) {
    return true;
  }
  return sockets->ops->is_unsent(sockets, rail->link);
}

bool net_pair_is_queued(const net_pair_t *pair) {
  int i = 0;
  while (i < pair->rail_count && !is_queued(&pair->rails[i])) i++;
  return i < pair->rail_count;
}

/* ---- closing --------------------------------------------------------------------------------*/

static void close_socket(const net_rail_t *rail) {
  wire_t *sockets = rail->pair->all->sockets;
  if (net_rail_fd(rail) < 0) return;
  sockets->ops->disconnect(sockets, rail->link);
  rail->pair->open_count--;
}

void net_rail_close(net_rail_t *rail) {
  net_pairs_t *all = rail->pair->all;
  close_socket(rail);
  all->owner_ops->closed(all, rail->pair->rank, rail->index);
}

void net_pair_close(net_pair_t *pair, transport_peer_state_t state) {
  if (pair->is_closed) return;
  pair->is_closed = true;
  for (int i = 0; i < pair->rail_count; i++) close_socket(&pair->rails[i]);
  pair->state = state;
  pair->all->owner_ops->ended(pair->all, pair->rank);
}

void net_pair_give_up(net_pair_t *pair) {
  net_pair_close(pair,
                 pair->state == TRANSPORT_PEER_LEFT ? TRANSPORT_PEER_LEFT : TRANSPORT_PEER_LOST);
}

/* ---- loss -----------------------------------------------------------------------------------*/

/* The connection may have been reset, or closed by a peer to which this rail was silent. If the
 * peer has ended, its host refuses another one. */
static bool may_be_remade(const net_pair_t *pair, net_loss_t loss) {
  if (!pair->recovers || pair->state != TRANSPORT_PEER_HERE || pair->is_given_up ||
      pair->all->connector == NULL) {
    return false;
  }
  return loss == NET_LOSS_PROCESS || pair->open_count > 1;
}

/* What was asked for while there were other rails has become urgent. */
static coll_status_t ask_at_once(net_pair_t *pair) {
  for (int i = 0; i < pair->rail_count; i++) {
    pair->rails[i].is_wanted = pair->rails[i].is_unreachable = false;
  }
  return net_pair_ask(pair);
}

static void lose_peer(const net_rail_t *rail, net_loss_t loss) {
  net_pair_t *pair = rail->pair;
  if (pair->state != TRANSPORT_PEER_LEFT) pair->loss = pair->is_given_up ? NET_LOSS_GIVEN_UP : loss;
  pair->lost_host = rail->host;
  pair->all->owner_ops->ending(pair->all, pair->rank);
  net_pair_give_up(pair);
}

void net_rail_lost(net_rail_t *rail, net_loss_t loss) {
  net_pair_t *pair = rail->pair;
  bool has_others = pair->open_count > 1 && pair->recovers;
  if (may_be_remade(pair, loss)) {
    net_rail_close(rail);
    coll_status_t asked = has_others ? net_pair_ask(pair) : ask_at_once(pair);
    if (!has_others && asked != COLL_OK) lose_peer(rail, loss);
  } else if (has_others) {
    net_rail_close(rail);
  } else {
    lose_peer(rail, loss);
  }
  if (has_others) pair->all->owner_ops->opened(pair->all, pair->rank, false);
}

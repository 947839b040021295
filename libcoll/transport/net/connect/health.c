/*
 * Whether hosts are still there. A process that is stopped, or does not receive, is not lost, and
 * its host's kernel answers for it. On a connection on which nothing is under way, the kernel finds
 * out by itself (keepalive, open.c). Where something was sent and not acknowledged for a while,
 * retransmissions become rare, and a receiver without room may be slow to answer for good reason:
 * then another connection to the host is begun, which its kernel accepts or refuses at once. Only
 * if that is not answered either, its ranks are lost (liveness.h decides).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/net/dial.h"
#include "base/net/socket.h"
#include "transport/net/connect/state.h"

/* ---- hosts ----------------------------------------------------------------------------------*/

bool net_health_is_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b) {
  if (a->ss_family != b->ss_family) return false;
  if (a->ss_family == AF_INET) {
    return ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr ==
           ((const struct sockaddr_in *)(const void *)b)->sin_addr.s_addr;
  }
  return memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
                &((const struct sockaddr_in6 *)(const void *)b)->sin6_addr,
                sizeof(struct in6_addr)) == 0;
}

/* An IPv4 address in an IPv6 one, as connections that were accepted have, becomes itself. */
static void unmap(struct sockaddr_storage *address, socklen_t *bytes) {
  const struct sockaddr_in6 wide = *(const struct sockaddr_in6 *)(const void *)address;
  if (address->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&wide.sin6_addr)) return;
  struct sockaddr_in narrow = {.sin_family = AF_INET, .sin_port = wide.sin6_port};
  memcpy(&narrow.sin_addr, wide.sin6_addr.s6_addr + 12, sizeof narrow.sin_addr);
  memset(address, 0, sizeof *address);
  memcpy(address, &narrow, sizeof narrow);
  *bytes = sizeof narrow;
}

coll_status_t net_health_add(net_rail_t *rail, const struct sockaddr_storage *from,
                             socklen_t bytes) {
  net_pairs_t *all = rail->pair->all;
  size_t index = 0;
  struct sockaddr_storage address = *from;
  unmap(&address, &bytes);
  while (index < all->host_count && !net_health_is_same(&all->hosts[index].address, &address))
    index++;
  rail->host = (int)index;
  if (index < all->host_count) return COLL_OK;
  COLL_TRY(
      base_grow((void **)&all->hosts, &all->host_capacity, index + 1, sizeof *all->hosts, "hosts"));
  all->hosts[all->host_count++] =
      (net_host_t){.address = address, .address_bytes = bytes, .probe = -1};
  return COLL_OK;
}

static void end_probe(net_host_t *host) {
  if (host->probe >= 0) base_socket_close(host->probe);
  host->probe = -1;
}

void net_health_free(net_pairs_t *pairs) {
  for (size_t i = 0; i < pairs->host_count; i++) end_probe(&pairs->hosts[i]);
  free(pairs->hosts);
}

/* ---- asking a host --------------------------------------------------------------------------*/

/* The host does not answer, or there is no way to it. */
static bool is_silence(int error) {
  return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
}

/* False: this process cannot ask, for want of a descriptor or a port. */
static bool begin_probe(net_host_t *host) {
  const base_address_t address = {.bytes = host->address_bytes, .room = host->address};
  host->probe = base_dial_begin_one(SOCK_STREAM, &address);
  return host->probe >= 0 || is_silence(errno);
}

/* Refused or reset or not, an answer is one. *is_over: the probe has got none and is to be begun
 * anew. */
static bool look_at_probe(const net_host_t *host, bool *is_over) {
  struct pollfd polled = {.fd = host->probe, .events = POLLOUT};
  *is_over = host->probe < 0;
  if (*is_over || poll(&polled, 1, 0) != 1) return false;
  *is_over = is_silence(base_dial_result(host->probe));
  return !*is_over;
}

static net_answer_t ask(net_host_t *host) {
  bool is_over;
  if (look_at_probe(host, &is_over)) {
    end_probe(host);
    return NET_ANSWER_GIVEN;
  }
  if (!is_over) return NET_ANSWER_NONE;
  end_probe(host);
  return begin_probe(host) ? NET_ANSWER_NONE : NET_ANSWER_UNASKED;
}

/* Whether the host has not answered for too long. Asks it, unless it has answered lately. */
static bool is_gone(net_host_t *host, uint64_t now_ns) {
  bool asks = net_liveness_asks(&host->question, now_ns);
  if (host->question.asked_ns == 0) end_probe(host); /* of a question that was withdrawn */
  return asks && net_liveness_is_gone(&host->question, ask(host), now_ns);
}

static void lose_host(net_pairs_t *pairs, int host) {
  end_probe(&pairs->hosts[host]);
  for (size_t i = 0; i < (size_t)pairs->size * (size_t)pairs->rail_count; i++) {
    net_rail_t *rail = &pairs->rails[i];
    if (net_rail_fd(rail) >= 0 && rail->host == host) net_rail_lost(rail, NET_LOSS_SILENT);
  }
}

#define SILENCES_NS 120000000000u /* after which earlier ones do not count */

/* The others carry on. */
static void lose_rail(net_rail_t *rail, uint64_t now_ns) {
  if (now_ns > rail->silent_ns + SILENCES_NS) rail->silences = 0;
  rail->silences++;
  rail->silent_ns = now_ns;
  net_rail_lost(rail, NET_LOSS_SILENT);
}

static bool has_others(const net_rail_t *rail) {
  return rail->pair->recovers && rail->pair->open_count > 1;
}

/* ---- connections ----------------------------------------------------------------------------*/

/* A receiver without room is asked for it (tcp_probes), and nothing is sent to it again. */
static void check_rail(net_rail_t *rail, uint64_t now_ns) {
  struct tcp_info info;
  socklen_t length = sizeof info;
  net_pairs_t *all = rail->pair->all;
  int fd = net_rail_fd(rail);
  if (fd < 0 || !net_liveness_is_due(&rail->acks, now_ns)) return;
  memset(&info, 0, sizeof info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return;
  net_suspicion_t found = net_liveness_check(&rail->acks, &info, now_ns);
  if (found.is_silent && found.is_resent && has_others(rail)) {
    lose_rail(rail, now_ns);
  } else if (found.is_silent && is_gone(&all->hosts[rail->host], now_ns)) {
    lose_host(all, rail->host);
  } else if (found.is_blocked) {
    net_rail_lost(rail, NET_LOSS_BLOCKED);
  }
}

void net_pair_check(net_pair_t *pair) {
  uint64_t now_ns = base_clock_now_ns();
  for (int i = 0; i < pair->rail_count; i++) check_rail(&pair->rails[i], now_ns);
}

void net_rail_failed(net_rail_t *rail, int error) {
  if (error == EBADMSG) {
    net_pair_close(rail->pair, TRANSPORT_PEER_LOST);
  } else if (is_silence(error) && has_others(rail)) {
    lose_rail(rail, base_clock_now_ns());
  } else if (is_silence(error)) {
    lose_host(rail->pair->all, rail->host);
  } else {
    net_rail_lost(rail, NET_LOSS_PROCESS);
  }
}

/* Of a peer that has given up this rank. */
static const char *describe_peer_loss(net_loss_t loss) {
  switch (loss) {
    case NET_LOSS_SILENT: return ", whose host did not answer it for some seconds";
    case NET_LOSS_BLOCKED: return ", at which nothing arrived that it sent";
    case NET_LOSS_REFUSED: return ", whose host refused it a connection";
    case NET_LOSS_LOCAL: return ", to which its host could not connect";
    default: return ", as their connection had ended";
  }
}

static void describe_loss(const net_pair_t *pair, const char *address,
                          char why[TRANSPORT_WHY_BYTES]) {
  switch (pair->loss) {
    case NET_LOSS_PROCESS: why[0] = '\0'; break;
    case NET_LOSS_SILENT:
      snprintf(why, TRANSPORT_WHY_BYTES, "%s has not answered for some seconds", address);
      break;
    case NET_LOSS_BLOCKED:
      snprintf(why, TRANSPORT_WHY_BYTES,
               "%s answers, but what is sent to it does not arrive (a firewall, or too small an "
               "MTU on the way)",
               address);
      break;
    case NET_LOSS_REFUSED:
      snprintf(why, TRANSPORT_WHY_BYTES,
               "%s refuses a connection to it: it has ended, or has destroyed the communicator",
               address);
      break;
    case NET_LOSS_LOCAL:
      snprintf(why, TRANSPORT_WHY_BYTES, "%s cannot be connected to from this one: %s%s", address,
               strerror(pair->error), pair->error == EMFILE ? " (raise ulimit -n)" : "");
      break;
    case NET_LOSS_GIVEN_UP:
      snprintf(why, TRANSPORT_WHY_BYTES, "%s answers that rank %d has given up rank %d%s", address,
               pair->rank, pair->all->rank, describe_peer_loss(pair->peer_loss));
  }
}

void net_pair_describe(const net_pair_t *pair, char why[TRANSPORT_WHY_BYTES]) {
  char text[INET6_ADDRSTRLEN] = "?";
  why[0] = '\0';
  if (pair->loss == NET_LOSS_PROCESS || (size_t)pair->lost_host >= pair->all->host_count) return;
  const struct sockaddr_storage *address = &pair->all->hosts[pair->lost_host].address;
  const void *bytes =
      address->ss_family == AF_INET
          ? (const void *)&((const struct sockaddr_in *)(const void *)address)->sin_addr
          : &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
  inet_ntop(address->ss_family, bytes, text, sizeof text);
  describe_loss(pair, text, why);
}

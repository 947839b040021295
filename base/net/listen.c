/* A server takes over the port of one that has ended, whose connections the kernel remembers. */
#include "base/net/listen.h"

#include <errno.h>

#include "base/clock.h"
#include "base/net/socket.h"

#define BACKLOG 4096
#define RETRY_NS 5000000u

static void share_port(int fd) {
  int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
}

/* Of two sockets that already share their ports, the kernel may choose one port for both, at which
 * only one can listen. */
static bool bind_to(int fd, const base_address_t *address) {
  int zero = 0, family = address->any.sa_family;
  bool has_port = (family == AF_INET || family == AF_INET6) && base_address_port(address) != 0;
  if (has_port) share_port(fd);
  if (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero) != 0) {
    return false;
  }
  if (bind(fd, &address->any, address->bytes) != 0) return false;
  if (!has_port) share_port(fd);
  return true;
}

static int listen_once(int type, base_address_t *address) {
  int fd = base_socket(address->any.sa_family, type | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  if (bind_to(fd, address) && listen(fd, BACKLOG) == 0) {
    address->bytes = sizeof address->room;
    if (getsockname(fd, &address->any, &address->bytes) == 0) return fd;
  }
  base_socket_close(fd);
  return -1;
}

int base_listen(int type, base_address_t *address, uint64_t retry_ns) {
  uint64_t deadline_ns = base_clock_now_ns() + retry_ns;
  int fd = listen_once(type, address);
  while (fd < 0 && errno == EADDRINUSE && base_clock_now_ns() < deadline_ns) {
    base_clock_sleep_ns(RETRY_NS);
    fd = listen_once(type, address);
  }
  return fd;
}

/* IPv6 with IPv4 in it, or where there is no IPv6, IPv4. */
int base_listen_everywhere(uint16_t *port, uint64_t retry_ns) {
  const struct in_addr all = {.s_addr = htonl(INADDR_ANY)};
  base_address_t address = base_address_of_ip(true, &in6addr_any, *port);
  int fd = base_listen(SOCK_STREAM, &address, retry_ns);
  if (fd < 0 && errno != EADDRINUSE) {
    address = base_address_of_ip(false, &all, *port);
    fd = base_listen(SOCK_STREAM, &address, retry_ns);
  }
  if (fd >= 0) *port = base_address_port(&address);
  return fd;
}

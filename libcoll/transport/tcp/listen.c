/* The socket on which a rank listens for others, and the addresses by which they reach it. */
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/net/handshake.h"
#include "base/net/socket.h"
#include "base/text.h"
#include "topo/interfaces.h"
#include "transport/tcp/attempt.h"
#include "transport/tcp/connect.h"

/* ---- addresses ------------------------------------------------------------------------------*/

static void address_of(const struct sockaddr_storage *from, tcp_address_t *to) {
  *to = (tcp_address_t){.is_ipv6 = from->ss_family == AF_INET6};
  if (to->is_ipv6) {
    memcpy(to->bytes, &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr, 16);
  } else {
    memcpy(to->bytes, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
  }
}

/* The speed of an interface in Mb/s as its driver states it; 0: it does not. */
static uint32_t speed_of(const char *interface) {
  char path[64 + IFNAMSIZ], text[16] = "";
  int64_t speed = 0;
  snprintf(path, sizeof path, "/sys/class/net/%.*s/speed", IFNAMSIZ, interface);
  FILE *file = fopen(path, "re");
  if (file == NULL) return 0;
  bool got = fgets(text, sizeof text, file) != NULL;
  fclose(file);
  text[strcspn(text, "\n")] = '\0';
  return got && base_text_integer(text, 1, UINT32_MAX, &speed) ? (uint32_t)speed : 0;
}

/* The rail of the interface of found[index]. Where nobody asks for interfaces, some of those that
 * there are may lead nowhere: all are one rail. */
static int rail_of(const topo_interface_t found[], int index, const char *interfaces,
                   const tcp_name_t *name) {
  if (interfaces[0] == '\0' || interfaces[0] == '^') return 0;
  for (int i = 0; i < index; i++) {
    if (strcmp(found[i].name, found[index].name) == 0) return name->addresses[i].rail;
  }
  return name->rails < TCP_RAILS_MAX ? name->rails : 0;
}

/* If there are none that other hosts reach, that of the loopback interface. */
static coll_status_t find_addresses(const char *interfaces, tcp_name_t *name) {
  topo_interface_t found[TCP_ADDRESSES];
  int count;
  COLL_TRY(topo_interfaces_find(interfaces, TCP_ADDRESSES, found, &count));
  for (int i = 0; i < count; i++) {
    uint32_t speed = speed_of(found[i].name);
    if (speed > name->megabits) name->megabits = speed;
    address_of(&found[i].address, &name->addresses[i]);
    int rail = rail_of(found, i, interfaces, name);
    name->addresses[i].rail = (uint8_t)rail;
    if (rail >= name->rails) name->rails = (uint8_t)(rail + 1);
  }
  name->count = (uint8_t)count;
  if (name->rails == 0) name->rails = 1;
  if (count == 0) name->addresses[name->count++] = (tcp_address_t){.bytes = {127, 0, 0, 1}};
  return COLL_OK;
}

socklen_t tcp_sockaddr_of(const tcp_name_t *name, int index, struct sockaddr_storage *to) {
  const tcp_address_t *from = &name->addresses[index];
  memset(to, 0, sizeof *to);
  if (from->is_ipv6) {
    struct sockaddr_in6 *wide = (struct sockaddr_in6 *)(void *)to;
    wide->sin6_family = AF_INET6;
    wide->sin6_port = htons(name->port);
    memcpy(&wide->sin6_addr, from->bytes, 16);
    return sizeof *wide;
  }
  struct sockaddr_in *narrow = (struct sockaddr_in *)(void *)to;
  narrow->sin_family = AF_INET;
  narrow->sin_port = htons(name->port);
  memcpy(&narrow->sin_addr, from->bytes, 4);
  return sizeof *narrow;
}

/* ---- listening ------------------------------------------------------------------------------*/

/* IPv6 with IPv4 in it, or where there is no IPv6, IPv4. */
static int open_listener(uint16_t *port) {
  struct sockaddr_in6 wide = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any};
  struct sockaddr_in narrow = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
  socklen_t length = sizeof wide;
  int zero = 0, fd = base_socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0);
  bool is_bound = fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero) == 0 &&
                  bind(fd, (struct sockaddr *)&wide, sizeof wide) == 0;
  if (!is_bound) {
    if (fd >= 0) base_socket_close(fd);
    fd = base_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    is_bound = fd >= 0 && bind(fd, (struct sockaddr *)&narrow, sizeof narrow) == 0;
  }
  if (is_bound && listen(fd, SOMAXCONN) == 0 &&
      getsockname(fd, (struct sockaddr *)&wide, &length) == 0) {
    *port = ntohs(wide.sin6_port); /* at the same place in both */
    return fd;
  }
  if (fd >= 0) base_socket_close(fd);
  return -1;
}

coll_status_t tcp_listen(tcp_listener_t *listener, const char *interfaces, tcp_name_t *name) {
  memset(name, 0, sizeof *name);
  COLL_TRY(base_handshake_check_hosts());
  name->mesh_ranks = TCP_MESH_RANKS;
  listener->fd = open_listener(&name->port);
  if (listener->fd < 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "cannot listen for other ranks over TCP");
  }
  coll_status_t status = find_addresses(interfaces, name);
  if (status != COLL_OK) tcp_listener_close(listener);
  return status;
}

void tcp_listener_close(tcp_listener_t *listener) {
  if (listener->fd >= 0) base_socket_close(listener->fd);
  listener->fd = -1;
}

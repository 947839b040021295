/* The socket on which a rank listens for others, and the addresses by which they reach it. */
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "base/net/handshake.h"
#include "base/net/listen.h"
#include "base/net/socket.h"
#include "base/text.h"
#include "topo/interfaces.h"
#include "transport/net/connect/attempt.h"
#include "transport/net/connect/names.h"

/* ---- addresses ------------------------------------------------------------------------------*/

static void address_of(const struct sockaddr_storage *found, net_address_t *to) {
  const base_address_t from = {.room = *found};
  *to = (net_address_t){.is_ipv6 = found->ss_family == AF_INET6};
  memcpy(to->bytes, to->is_ipv6 ? (const void *)&from.ipv6.sin6_addr : &from.ipv4.sin_addr,
         to->is_ipv6 ? 16 : 4);
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
                   const net_name_t *name) {
  if (interfaces[0] == '\0' || interfaces[0] == '^') return 0;
  for (int i = 0; i < index; i++) {
    if (strcmp(found[i].name, found[index].name) == 0) return name->addresses[i].rail;
  }
  return name->rails < NET_RAILS_MAX ? name->rails : 0;
}

/* If there are none that other hosts reach, that of the loopback interface. */
static coll_status_t find_addresses(const char *interfaces, net_name_t *name) {
  topo_interface_t found[NET_ADDRESSES];
  int count;
  COLL_TRY(topo_interfaces_find(interfaces, NET_ADDRESSES, found, &count));
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
  if (count == 0) name->addresses[name->count++] = (net_address_t){.bytes = {127, 0, 0, 1}};
  return COLL_OK;
}

base_address_t net_address_of(const net_name_t *name, int index) {
  const net_address_t *from = &name->addresses[index];
  return base_address_of_ip(from->is_ipv6, from->bytes, name->port);
}

/* ---- listening ------------------------------------------------------------------------------*/

coll_status_t net_listen(net_listener_t *listener, const char *interfaces, net_name_t *name) {
  memset(name, 0, sizeof *name);
  COLL_TRY(base_handshake_check_hosts());
  name->mesh_ranks = NET_MESH_RANKS;
  listener->fd = base_listen_everywhere(&name->port, 0);
  if (listener->fd < 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "cannot listen for other ranks over TCP");
  }
  coll_status_t status = find_addresses(interfaces, name);
  if (status != COLL_OK) net_listener_close(listener);
  return status;
}

void net_listener_close(net_listener_t *listener) {
  if (listener->fd >= 0) base_socket_close(listener->fd);
  listener->fd = -1;
}

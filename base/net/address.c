/* The bytes that a family does not use are zero, so that addresses can be compared. */
#include "base/net/address.h"

#include <string.h>

base_address_t base_address_of(const struct sockaddr *from, socklen_t bytes) {
  base_address_t address;
  memset(&address, 0, sizeof address);
  address.bytes = bytes;
  memcpy(&address.room, from, bytes);
  return address;
}

base_address_t base_address_of_ip(bool is_ipv6, const void *ip, uint16_t port) {
  base_address_t address;
  memset(&address, 0, sizeof address);
  address.bytes = is_ipv6 ? sizeof address.ipv6 : sizeof address.ipv4;
  address.any.sa_family = is_ipv6 ? AF_INET6 : AF_INET;
  address.ipv4.sin_port = htons(port); /* at the same place in both */
  memcpy(is_ipv6 ? (void *)&address.ipv6.sin6_addr : &address.ipv4.sin_addr, ip, is_ipv6 ? 16 : 4);
  return address;
}

uint16_t base_address_port(const base_address_t *address) {
  return ntohs(address->ipv4.sin_port);
}

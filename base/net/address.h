/* Addresses of sockets. */
#ifndef BASE_NET_ADDRESS_H
#define BASE_NET_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

typedef struct base_address {
  socklen_t bytes;
  union {
    struct sockaddr any;
    struct sockaddr_in ipv4;
    struct sockaddr_in6 ipv6;
    struct sockaddr_un local;
    struct sockaddr_storage room;
  };
} base_address_t;

#define BASE_ADDRESSES_MAX 8

typedef struct base_addresses {
  int count;
  base_address_t at[BASE_ADDRESSES_MAX];
} base_addresses_t;

base_address_t base_address_of(const struct sockaddr *from, socklen_t bytes);

/* ip: 4 bytes, or 16 of IPv6, in the order of the network. */
base_address_t base_address_of_ip(bool is_ipv6, const void *ip, uint16_t port);

/* Of IPv4 or IPv6. */
uint16_t base_address_port(const base_address_t *address);

#endif

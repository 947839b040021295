/* A rendezvous server that listens at all addresses of its host. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "comm/rendezvous/rendezvous.h"
#include "topo/interfaces.h"
#include "transport/connect.h"

#define ADDRESSES_MAX 16

/* Appends one to the list, if it fits. */
static void add_address(const topo_interface_t *from, char *list, size_t bytes) {
  char text[INET6_ADDRSTRLEN];
  size_t length = strlen(list);
  const void *address = &((const struct sockaddr_in *)(const void *)&from->address)->sin_addr;
  if (from->address.ss_family == AF_INET6) {
    address = &((const struct sockaddr_in6 *)(const void *)&from->address)->sin6_addr;
  }
  if (inet_ntop(from->address.ss_family, address, text, sizeof text) == NULL) return;
  if (length + strlen(text) + 2 > bytes) return;
  snprintf(list + length, bytes - length, "%s%s", length > 0 ? "," : "", text);
}

/* Sets list to "" if this host has no address that other hosts may reach. */
static coll_status_t list_addresses(char *list, size_t bytes) {
  topo_interface_t found[ADDRESSES_MAX];
  const char *interfaces;
  int count;
  list[0] = '\0';
  COLL_TRY(transport_interfaces(&interfaces));
  COLL_TRY(topo_interfaces_find(interfaces, ADDRESSES_MAX, found, &count));
  for (int i = 0; i < count; i++) add_address(&found[i], list, bytes);
  return COLL_OK;
}

static coll_status_t start_at(const char *host, rendezvous_address_t *address) {
  snprintf(address->host, sizeof address->host, "%s", host);
  return rendezvous_server_start(address);
}

coll_status_t rendezvous_server_start_everywhere(rendezvous_address_t *address) {
  char list[RENDEZVOUS_HOST_BYTES];
  COLL_TRY(list_addresses(list, sizeof list));
  if (list[0] == '\0') return start_at("127.0.0.1", address);
  coll_status_t status = start_at("::", address);
  /* Without libsodium all ranks are of this host. */
  if (status == COLL_ERROR_UNSUPPORTED) return start_at("127.0.0.1", address);
  if (status != COLL_OK) status = start_at("0.0.0.0", address); /* a host without IPv6 */
  if (status == COLL_OK) memcpy(address->host, list, sizeof list);
  return status;
}

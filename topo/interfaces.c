/* Reads lists element by element, without a copy. */
#include "topo/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "topo/containers.h"

#define ADDRESS_BYTES 16 /* IPv4 in IPv6 as ::ffff:a.b.c.d */
#define IPV4_BITS 96     /* before it */

typedef struct element {
  const char *name; /* of `length` characters; NULL: `block` */
  size_t length;
  bool excludes, is_whole;
  uint8_t block[ADDRESS_BYTES];
  int bits; /* of the block that an address has in common with it */
} element_t;

static void widen(const void *ipv4, uint8_t bytes[ADDRESS_BYTES]) {
  memset(bytes, 0, ADDRESS_BYTES);
  bytes[10] = bytes[11] = 0xff;
  memcpy(bytes + 12, ipv4, 4);
}

/* What stands before all elements. */
static const char *read_signs(const char *text, bool *excludes, bool *is_whole) {
  *excludes = *text == '^';
  if (*excludes) text++;
  *is_whole = *text == '=';
  return *is_whole ? text + 1 : text;
}

static bool read_block(const char *text, size_t length, element_t *element) {
  char copy[INET6_ADDRSTRLEN + 8];
  struct in_addr ipv4;
  int64_t bits;
  if (length >= sizeof copy) return false;
  memcpy(copy, text, length);
  copy[length] = '\0';
  char *slash = strchr(copy, '/');
  *slash = '\0';
  element->name = NULL;
  if (inet_pton(AF_INET, copy, &ipv4) == 1) {
    if (!base_text_integer(slash + 1, 0, 32, &bits)) return false;
    widen(&ipv4, element->block);
    element->bits = IPV4_BITS + (int)bits;
    return true;
  }
  if (inet_pton(AF_INET6, copy, element->block) != 1) return false;
  if (!base_text_integer(slash + 1, 0, 8 * ADDRESS_BYTES, &bits)) return false;
  element->bits = (int)bits;
  return true;
}

/* Reads the element at *at and goes on to the next one; *at is NULL behind the last. */
static bool read_element(const char **at, element_t *element) {
  const char *text = read_signs(*at, &element->excludes, &element->is_whole);
  size_t length = strcspn(text, ",");
  *at = text[length] == ',' ? text + length + 1 : NULL;
  element->name = text;
  element->length = length;
  if (memchr(text, '/', length) != NULL) return read_block(text, length, element);
  return length > 0 && length < IFNAMSIZ;
}

bool topo_interfaces_is_list(const char *list) {
  element_t element;
  const char *at = *list == '\0' ? NULL : list;
  while (at != NULL) {
    if (!read_element(&at, &element)) return false;
  }
  return true;
}

static bool is_in(const uint8_t block[ADDRESS_BYTES], int bits, const struct sockaddr *address) {
  uint8_t bytes[ADDRESS_BYTES];
  if (address->sa_family == AF_INET) {
    widen(&((const struct sockaddr_in *)(const void *)address)->sin_addr, bytes);
  } else if (address->sa_family == AF_INET6) {
    memcpy(bytes, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, ADDRESS_BYTES);
  } else {
    return false;
  }
  int whole = bits / 8, rest = bits % 8;
  if (memcmp(block, bytes, (size_t)whole) != 0) return false;
  return rest == 0 || (block[whole] ^ bytes[whole]) >> (8 - rest) == 0;
}

static bool matches(const element_t *element, const char *name, const struct sockaddr *address) {
  if (element->name == NULL) return is_in(element->block, element->bits, address);
  if (strncmp(name, element->name, element->length) != 0) return false;
  return !element->is_whole || name[element->length] == '\0';
}

bool topo_interfaces_allow(const char *list, const char *name, const struct sockaddr *address) {
  bool all_exclude, all_whole, asks = false, matched = false;
  const char *at = *list == '\0' ? NULL : list;
  (void)read_signs(list, &all_exclude, &all_whole);
  while (at != NULL) {
    element_t element;
    if (!read_element(&at, &element)) return false;
    element.is_whole = element.is_whole || all_whole;
    bool found = matches(&element, name, address);
    if (element.excludes || all_exclude) {
      if (found) return false;
    } else {
      asks = true;
      matched = matched || found;
    }
  }
  return matched || !asks;
}

/* ---- this host ------------------------------------------------------------------------------*/

static bool is_link_local(const struct sockaddr *address) {
  const struct sockaddr_in6 *wide = (const struct sockaddr_in6 *)(const void *)address;
  return address->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&wide->sin6_addr);
}

static bool has_address(const struct ifaddrs *each) {
  return each->ifa_addr != NULL &&
         (each->ifa_addr->sa_family == AF_INET || each->ifa_addr->sa_family == AF_INET6);
}

static bool is_usable(const char *list, const struct ifaddrs *each) {
  const struct sockaddr *address = each->ifa_addr;
  bool asks = list[0] != '\0' && list[0] != '^';
  if ((each->ifa_flags & IFF_RUNNING) == 0) return false;
  if ((each->ifa_flags & IFF_LOOPBACK) != 0 && !asks) return false;
  if (!has_address(each) || is_link_local(address)) return false;
  return topo_interfaces_allow(list, each->ifa_name, address);
}

static void copy_interface(const struct ifaddrs *each, topo_interface_t *found) {
  bool is_narrow = each->ifa_addr->sa_family == AF_INET;
  memset(found, 0, sizeof *found);
  snprintf(found->name, sizeof found->name, "%s", each->ifa_name);
  memcpy(&found->address, each->ifa_addr,
         is_narrow ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
}

static coll_status_t fail_none(const char *list, const struct ifaddrs *all) {
  char text[256] = "";
  size_t used = 0;
  for (; all != NULL && used + IFNAMSIZ + 2 < sizeof text; all = all->ifa_next) {
    if (!has_address(all) || strstr(text, all->ifa_name) != NULL) continue;
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? ", " : "",
                             all->ifa_name);
  }
  return base_fail(COLL_ERROR_INVALID,
                   "COLL_INTERFACES=%s: no interface of this host is like that: there are %s", list,
                   text[0] != '\0' ? text : "none");
}

coll_status_t topo_interfaces_find(const char *list, int max, topo_interface_t found[],
                                   int *count) {
  struct ifaddrs *all;
  *count = 0;
  if (!topo_interfaces_is_list(list)) {
    return base_fail(COLL_ERROR_INVALID,
                     "COLL_INTERFACES=%s: give names and blocks of addresses, such as "
                     "eth0,10.1.0.0/16, or ^docker to exclude some",
                     list);
  }
  if (getifaddrs(&all) != 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "the addresses of this host cannot be listed");
  }
  for (int of_containers = 0; of_containers < 2; of_containers++) {
    for (const struct ifaddrs *each = all; each != NULL && *count < max; each = each->ifa_next) {
      if (!is_usable(list, each)) continue;
      if (topo_container_interface(each->ifa_name) != of_containers) continue;
      copy_interface(each, &found[(*count)++]);
    }
  }
  bool asks = list[0] != '\0' && list[0] != '^';
  coll_status_t status = asks && *count == 0 ? fail_none(list, all) : COLL_OK;
  freeifaddrs(all);
  return status;
}

const base_knob_t topo_interfaces_knob = {
    .name = "COLL_INTERFACES",
    .kind = BASE_KNOB_TEXT,
    .fallback = "",
    .help =
        "the network interfaces at which other hosts reach this one: beginnings of names, "
        "=names and blocks of addresses (eth,=ib0,10.1.0.0/16), ^ before those that are not "
        "used; all where it is not set"};

coll_status_t topo_interfaces_own(int max, topo_interface_t found[], int *count) {
  const char *list;
  COLL_TRY(base_knob_text(&topo_interfaces_knob, &list));
  return topo_interfaces_find(list, max, found, count);
}

/* Whether it has an address in the list, so far as it may be used. */
static bool is_addressed(const struct ifaddrs *all, const char *name) {
  for (; all != NULL; all = all->ifa_next) {
    if (strcmp(all->ifa_name, name) == 0 && has_address(all) && !is_link_local(all->ifa_addr)) {
      return true;
    }
  }
  return false;
}

/* Blocks of addresses may be those that it will have. */
static bool may_be_asked(const char *list, const char *name) {
  const struct sockaddr none = {.sa_family = AF_UNSPEC};
  return strchr(list, '/') != NULL || topo_interfaces_allow(list, name, &none);
}

bool topo_interfaces_are_awaited(const char *list, char name[IFNAMSIZ]) {
  struct ifaddrs *all;
  bool found = false;
  if (!topo_interfaces_is_list(list) || getifaddrs(&all) != 0) return false;
  for (const struct ifaddrs *each = all; each != NULL && !found; each = each->ifa_next) {
    if ((each->ifa_flags & IFF_RUNNING) == 0 || (each->ifa_flags & IFF_LOOPBACK) != 0) continue;
    if (topo_container_interface(each->ifa_name) || is_addressed(all, each->ifa_name)) continue;
    found = may_be_asked(list, each->ifa_name);
    if (found) snprintf(name, IFNAMSIZ, "%s", each->ifa_name);
  }
  freeifaddrs(all);
  return found;
}

void topo_interface_text(const topo_interface_t *from, char text[INET6_ADDRSTRLEN]) {
  const void *address = &((const struct sockaddr_in *)(const void *)&from->address)->sin_addr;
  if (from->address.ss_family == AF_INET6) {
    address = &((const struct sockaddr_in6 *)(const void *)&from->address)->sin6_addr;
  }
  if (inet_ntop(from->address.ss_family, address, text, INET6_ADDRSTRLEN) == NULL) text[0] = '\0';
}

bool topo_address_is_loopback(const struct sockaddr *address) {
  if (address->sa_family == AF_INET) {
    const struct sockaddr_in *narrow = (const struct sockaddr_in *)(const void *)address;
    return ntohl(narrow->sin_addr.s_addr) >> 24 == 127;
  }
  const struct sockaddr_in6 *wide = (const struct sockaddr_in6 *)(const void *)address;
  return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&wide->sin6_addr);
}

/*
 * Network interfaces: lists of their names, and the address that other hosts reach.
 */
#include "frontends/nccl/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

/* The prefix of a list of NCCL: ^ excludes what it names, = names whole names. */
typedef struct list {
  bool excludes, whole;
  const char *items;
} list_t;

static list_t parse(const char *text) {
  list_t list = {.items = text};
  if (*list.items == '^') list.excludes = *list.items++ == '^';
  if (*list.items == '=') list.whole = *list.items++ == '=';
  return list;
}

bool nccl_list_translate(const char *text, char *out, size_t bytes) {
  list_t list = parse(text);
  size_t used = 0;
  for (const char *item = list.items; *item != '\0';) {
    size_t length = strcspn(item, ",");
    int written = snprintf(out + used, bytes - used, "%s%s%s%.*s", used > 0 ? "," : "",
                           list.excludes ? "^" : "", list.whole ? "=" : "", (int)length, item);
    if (written < 0 || (size_t)written >= bytes - used) return false;
    used += (size_t)written;
    item += length + (item[length] == ',');
  }
  return used > 0;
}

static bool is_listed(const list_t *list, const char *name) {
  for (const char *item = list->items; *item != '\0';) {
    size_t length = strcspn(item, ",");
    bool starts = length > 0 && strncmp(item, name, length) == 0;
    if (starts && (!list->whole || name[length] == '\0')) return true;
    item += length + (item[length] == ',');
  }
  return false;
}

/* 0: not to be used, 1: IPv6, 2: IPv4, which is preferred. */
static int rate(const struct ifaddrs *found, const list_t *list) {
  bool is_loopback = (found->ifa_flags & IFF_LOOPBACK) != 0;
  if (found->ifa_addr == NULL || !(found->ifa_flags & IFF_UP)) return 0;
  if (is_loopback && list->excludes) return 0; /* only if it is asked for */
  if (is_listed(list, found->ifa_name) == list->excludes) return 0;
  if (found->ifa_addr->sa_family == AF_INET) return 2;
  if (found->ifa_addr->sa_family != AF_INET6) return 0;
  const struct sockaddr_in6 *address = (const void *)found->ifa_addr;
  return IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr) ? 0 : 1;
}

bool nccl_interface_find(const char *text, char *out, size_t bytes) {
  list_t list = parse(text != NULL ? text : "^docker,virbr,br-,veth,cni");
  const struct ifaddrs *best = NULL;
  struct ifaddrs *all;
  int best_rate = 0;
  if (getifaddrs(&all) != 0) return false;
  for (const struct ifaddrs *each = all; each != NULL; each = each->ifa_next) {
    int rated = rate(each, &list);
    if (rated <= best_rate) continue;
    best_rate = rated;
    best = each;
  }
  socklen_t length = best_rate == 2 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
  bool found = best != NULL && getnameinfo(best->ifa_addr, length, out, (socklen_t)bytes, NULL, 0,
                                           NI_NUMERICHOST) == 0;
  freeifaddrs(all);
  return found;
}

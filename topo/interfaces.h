/*
 * Which of a host's network interfaces are used: a list as COLL_INTERFACES takes it. Each element
 * is the beginning of an interface's name ("eth"), with "=" before it the whole name ("=eth0"), or
 * a block of addresses in CIDR notation ("10.1.0.0/16", "fd00::/8"; RFC 4632, RFC 4291). "^" before
 * an element excludes what it matches. Either sign at the beginning of the list is for all
 * elements, as in NCCL_SOCKET_IFNAME.
 */
#ifndef TOPO_INTERFACES_H
#define TOPO_INTERFACES_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/knob.h"

/* Whether the text is such a list. */
bool topo_interfaces_is_list(const char *list);

/* Whether an interface may be used with this address of it: it is not excluded, and is matched if
 * any element asks for something. The empty list allows all. An IPv4 address in IPv6 is IPv4. */
bool topo_interfaces_allow(const char *list, const char *name, const struct sockaddr *address);

/* An address of this host. */
typedef struct topo_interface {
  char name[IFNAMSIZ];
  struct sockaddr_storage address; /* IPv4 or IPv6; its port is 0 */
} topo_interface_t;

/* Those of interfaces that run and that the list allows, without link-local ones, at most `max`,
 * the best first: those of containers (containers.h) come last, as other hosts may have the same.
 * Loopback ones only if the list asks for something. COLL_ERROR_INVALID: the list is none, or asks
 * for what this host does not have. COLL_ERROR_SYSTEM. */
coll_status_t topo_interfaces_find(const char *list, int max, topo_interface_t found[], int *count);

/* COLL_INTERFACES. */
extern const base_knob_t topo_interfaces_knob;

/* topo_interfaces_find with the list of COLL_INTERFACES, for programs that have no config. */
coll_status_t topo_interfaces_own(int max, topo_interface_t found[], int *count);

/* Whether an interface that the list allows runs and has no such address yet; sets its name. */
bool topo_interfaces_are_awaited(const char *list, char name[IFNAMSIZ]);

/* The address as a text. */
void topo_interface_text(const topo_interface_t *from, char text[INET6_ADDRSTRLEN]);

/* Whether it is one of a loopback interface. */
bool topo_address_is_loopback(const struct sockaddr *address);

#endif

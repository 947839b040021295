/*
 * Interfaces that lead to the containers and virtual machines of this host, not to other hosts:
 * bridges between them, ends of their links, and tunnels of their networks.
 */
#ifndef TOPO_CONTAINERS_H
#define TOPO_CONTAINERS_H

#include <stdbool.h>

/* Whether the interface of that name is one, as far as its name and the kernel say. */
bool topo_container_interface(const char *name);

#endif

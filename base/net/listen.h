/* Sockets that listen. They do not block, as a caller may be gone before it is accepted
 * (base_socket_accept, socket.h). */
#ifndef BASE_NET_LISTEN_H
#define BASE_NET_LISTEN_H

#include "base/net/address.h"

/* type: SOCK_STREAM or another one. Sets in *address what the kernel chooses: a port that is 0, or
 * the name of a UNIX socket without one. retry_ns: how long it tries again where another listens at
 * the address. Returns a socket, which the caller closes (base_socket_close), or -1 with errno. */
int base_listen(int type, base_address_t *address, uint64_t retry_ns);

/* The same with TCP at all addresses of this host. Sets *port if it is 0. */
int base_listen_everywhere(uint16_t *port, uint64_t retry_ns);

#endif

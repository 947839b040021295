/* Who is at the other end of a UNIX socket, as the kernel says (unix(7), SO_PEERCRED). */
#ifndef BASE_NET_PEER_H
#define BASE_NET_PEER_H

#include <stdbool.h>

/* Whether fd is a connected UNIX socket whose other end was opened by a process of this process's
 * user, or of root. False for all other sockets. */
bool base_peer_is_own_user(int fd);

#endif

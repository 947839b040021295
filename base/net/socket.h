/*
 * Sockets whose end tells a peer that this process has ended. The kernel ends a connection when the
 * last process that holds it closes it, and a forked child holds its parent's: a helper that
 * outlives its parent would keep it alive in the eyes of all others. So a child that fork(2) has
 * made closes these sockets, and no others, before fork returns there. exec closes them too. (A
 * child made by clone(2) or _Fork(3), which run no handlers, holds them until it execs or ends.)
 *
 * No thread forks between the making of a socket and its entry in the list, or between its removal
 * and close.
 */
#ifndef BASE_NET_SOCKET_H
#define BASE_NET_SOCKET_H

/* As socket(2), with SOCK_CLOEXEC. */
int base_socket(int domain, int type, int protocol);

/* As accept4(2) without an address, with SOCK_CLOEXEC and SOCK_NONBLOCK, but that callers who have
 * gone are passed over. The listener does not block. */
int base_socket_accept(int listener);

/* Sets the error number only if it fails, as close(2). */
void base_socket_close(int fd);

#endif

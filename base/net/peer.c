/* The credentials are those at the time of connect and listen; no process can set others. */
#include "base/net/peer.h"

#include <sys/socket.h>
#include <unistd.h>

/* In a user namespace, all users that it does not map look as this one (user_namespaces(7)). */
#define OVERFLOW_UID 65534

bool base_peer_is_own_user(int fd) {
  int family = AF_UNSPEC;
  struct ucred peer;
  socklen_t family_bytes = sizeof family, peer_bytes = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &family_bytes) == 0 && family == AF_UNIX &&
         getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes) == 0 &&
         ((peer.uid == geteuid() && peer.uid != OVERFLOW_UID) || peer.uid == 0);
}

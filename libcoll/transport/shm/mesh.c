/*
 * SOCK_SEQPACKET keeps notes whole. Every rank connects to the ranks below it and accepts those
 * above; a connection's first packet says who is calling.
 */
#include "transport/shm/mesh.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"

#define BACKLOG 4096

typedef struct hello {
  uint64_t key;
  int32_t rank;
} hello_t;

coll_status_t shm_mesh_listen(shm_mesh_t *mesh, shm_mesh_name_t *name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  socklen_t length = sizeof(sa_family_t); /* an empty name asks the kernel for a free one */
  *mesh = (shm_mesh_t){.listener = -1};
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot make a socket for local ranks");
  if (bind(fd, (struct sockaddr *)&address, length) != 0 || listen(fd, BACKLOG) != 0) {
    coll_status_t status =
        base_fail_errno(COLL_ERROR_SYSTEM, "cannot listen on a socket for local ranks");
    close(fd);
    return status;
  }
  length = sizeof address;
  getsockname(fd, (struct sockaddr *)&address, &length);
  size_t bytes = length - sizeof(sa_family_t);
  if (bytes > sizeof name->text) {
    close(fd);
    return base_fail(COLL_ERROR_SYSTEM, "the kernel chose a socket name of %zu bytes", bytes);
  }
  memset(name, 0, sizeof *name);
  name->length = (uint8_t)bytes;
  memcpy(name->text, address.sun_path, bytes);
  mesh->listener = fd;
  return COLL_OK;
}

static int left_ms(uint64_t deadline_ns) {
  uint64_t now_ns = base_clock_now_ns();
  if (deadline_ns <= now_ns) return 0;
  uint64_t ms = (deadline_ns - now_ns) / 1000000u + 1;
  return ms > 1000000 ? 1000000 : (int)ms;
}

/* Whether fd has something to read (or an end to report) before the deadline. */
static bool readable(int fd, uint64_t deadline_ns) {
  struct pollfd poller = {.fd = fd, .events = POLLIN};
  int ready;
  do {
    ready = poll(&poller, 1, left_ms(deadline_ns));
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

static coll_status_t call_peer(shm_mesh_t *mesh, int peer, const shm_mesh_name_t *name,
                               uint64_t key) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  hello_t hello = {.key = key, .rank = mesh->rank};
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "rank %d: cannot make a socket to rank %d",
                           mesh->rank, peer);
  }
  memcpy(address.sun_path, name->text, name->length);
  socklen_t length = (socklen_t)(sizeof(sa_family_t) + name->length);
  if (connect(fd, (struct sockaddr *)&address, length) != 0 ||
      send(fd, &hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t)sizeof hello) {
    coll_status_t status = base_fail_errno(
        COLL_ERROR_RANK_LOST, "rank %d: cannot reach rank %d on this machine (has it ended?)",
        mesh->rank, peer);
    close(fd);
    return status;
  }
  mesh->sockets[peer] = fd;
  return COLL_OK;
}

static coll_status_t name_missing(const shm_mesh_t *mesh) {
  for (int peer = mesh->rank + 1; peer < mesh->size; peer++) {
    if (mesh->sockets[peer] >= 0) continue;
    return base_fail(COLL_ERROR_TIMEOUT,
                     "rank %d: rank %d met us but then did not connect in time (has it ended?)",
                     mesh->rank, peer);
  }
  return COLL_ERROR_INTERNAL;
}

/* Accepts one caller; one that does not know the key is hung up on and does not count. */
static coll_status_t accept_peer(shm_mesh_t *mesh, uint64_t key, uint64_t deadline_ns,
                                 bool *accepted) {
  hello_t hello;
  *accepted = false;
  if (!readable(mesh->listener, deadline_ns)) return name_missing(mesh);
  int fd = accept4(mesh->listener, NULL, NULL, SOCK_CLOEXEC);
  if (fd < 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "rank %d: cannot accept a local rank", mesh->rank);
  }
  bool known = readable(fd, deadline_ns) &&
               recv(fd, &hello, sizeof hello, 0) == (ssize_t)sizeof hello && hello.key == key &&
               hello.rank > mesh->rank && hello.rank < mesh->size && mesh->sockets[hello.rank] < 0;
  if (!known) {
    close(fd);
    return COLL_OK;
  }
  mesh->sockets[hello.rank] = fd;
  *accepted = true;
  return COLL_OK;
}

coll_status_t shm_mesh_connect(shm_mesh_t *mesh, int rank, int size, const shm_mesh_name_t names[],
                               uint64_t key, uint64_t deadline_ns) {
  mesh->rank = rank;
  mesh->size = size;
  COLL_TRY(base_alloc((size_t)size, sizeof *mesh->sockets, "sockets", (void **)&mesh->sockets));
  for (int peer = 0; peer < size; peer++) mesh->sockets[peer] = -1;
  for (int peer = 0; peer < rank; peer++) COLL_TRY(call_peer(mesh, peer, &names[peer], key));
  for (int missing = size - 1 - rank; missing > 0;) {
    bool accepted;
    COLL_TRY(accept_peer(mesh, key, deadline_ns, &accepted));
    if (accepted) missing--;
  }
  close(mesh->listener);
  mesh->listener = -1;
  return COLL_OK;
}

coll_status_t shm_mesh_send(shm_mesh_t *mesh, int peer, const shm_note_t *note, int fd,
                            bool *sent) {
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control = {0};
  struct iovec data = {.iov_base = (void *)(uintptr_t)note, .iov_len = sizeof *note};
  struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
  if (fd >= 0) {
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  ssize_t moved = sendmsg(mesh->sockets[peer], &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  *sent = moved == (ssize_t)sizeof *note;
  if (*sent || errno == EAGAIN || errno == EPIPE || errno == ECONNRESET || errno == ENOBUFS ||
      errno == ETOOMANYREFS) {
    return COLL_OK;
  }
  return base_fail_errno(COLL_ERROR_SYSTEM, "rank %d: cannot hand shared memory to rank %d",
                         mesh->rank, peer);
}

coll_status_t shm_mesh_recv(shm_mesh_t *mesh, int peer, uint64_t deadline_ns, shm_note_t *note,
                            int *fd, bool *got) {
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control;
  struct iovec data = {.iov_base = note, .iov_len = sizeof *note};
  struct msghdr message = {.msg_iov = &data,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes};
  *got = false;
  *fd = -1;
  if (deadline_ns > 0 && !readable(mesh->sockets[peer], deadline_ns)) return COLL_OK;
  ssize_t moved = recvmsg(mesh->sockets[peer], &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (moved < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNRESET)) return COLL_OK;
  if (moved < 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "rank %d: cannot read from rank %d's socket",
                           mesh->rank, peer);
  }
  for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header != NULL;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
      memcpy(fd, CMSG_DATA(header), sizeof *fd);
    }
  }
  *got = moved == (ssize_t)sizeof *note;
  return COLL_OK;
}

bool shm_mesh_hung_up(const shm_mesh_t *mesh, int peer) {
  struct pollfd poller = {.fd = mesh->sockets[peer], .events = POLLRDHUP};
  return poll(&poller, 1, 0) > 0 && (poller.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void shm_mesh_close(shm_mesh_t *mesh) {
  if (mesh->listener >= 0) close(mesh->listener);
  for (int peer = 0; mesh->sockets != NULL && peer < mesh->size; peer++) {
    if (mesh->sockets[peer] >= 0) close(mesh->sockets[peer]);
  }
  free(mesh->sockets);
  *mesh = (shm_mesh_t){.listener = -1};
}

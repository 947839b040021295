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
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/memory.h"

#define BACKLOG 4096
#define HELLO_NS 250000000u /* a caller says hello at once; one that does not is a stranger */
#define PROBE_NS 200000000u /* how often the ranks that are missing are asked whether they live */

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

/* Without a deadline, connect waits for room among those who are to be accepted, of which a rank
 * that is stopped may have none left. errno is EAGAIN where the deadline passed so. */
static int connect_to(const shm_mesh_name_t *name, uint64_t deadline_ns) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  base_deadline_limit(fd, deadline_ns);
  memcpy(address.sun_path, name->text, name->length);
  socklen_t length = (socklen_t)(sizeof(sa_family_t) + name->length);
  if (connect(fd, (struct sockaddr *)&address, length) == 0) return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

static coll_status_t call_peer(shm_mesh_t *mesh, int peer, const shm_mesh_name_t *name,
                               uint64_t key, uint64_t deadline_ns) {
  hello_t hello = {.key = key, .rank = mesh->rank};
  int fd = connect_to(name, deadline_ns);
  if (fd < 0 && errno == EAGAIN) {
    return base_fail(COLL_ERROR_TIMEOUT,
                     "rank %d: rank %d met us but then took no connection in time (is it stopped?)",
                     mesh->rank, peer);
  }
  if (fd < 0 || send(fd, &hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t)sizeof hello) {
    coll_status_t status = base_fail_errno(
        COLL_ERROR_RANK_LOST, "rank %d: cannot reach rank %d on this machine (has it ended?)",
        mesh->rank, peer);
    if (fd >= 0) close(fd);
    return status;
  }
  mesh->sockets[peer] = fd;
  return COLL_OK;
}

static coll_status_t name_missing(const shm_mesh_t *mesh) {
  for (int peer = mesh->rank + 1; peer < mesh->size; peer++) {
    if (mesh->sockets[peer] >= 0) continue;
    return base_fail(COLL_ERROR_TIMEOUT,
                     "rank %d: rank %d met us but then did not connect in time (is it stopped?)",
                     mesh->rank, peer);
  }
  return COLL_ERROR_INTERNAL;
}

/* A rank listens until it is connected to all others, so one that is missing and does not listen
 * is dead. What it sees of the probe is a stranger that hangs up. One that has no room for another
 * stranger lives. */
static coll_status_t probe_missing(const shm_mesh_t *mesh, const shm_mesh_name_t names[]) {
  for (int peer = mesh->rank + 1; peer < mesh->size; peer++) {
    struct pollfd caller = {.fd = mesh->listener, .events = POLLIN};
    if (mesh->sockets[peer] >= 0) continue;
    int fd = connect_to(&names[peer], 0);
    if (fd >= 0) {
      close(fd);
    } else if (errno == ECONNREFUSED && poll(&caller, 1, 0) == 0) {
      return base_fail(COLL_ERROR_RANK_LOST,
                       "rank %d: rank %d died while the communicator was made", mesh->rank, peer);
    }
  }
  return COLL_OK;
}

/* Takes one caller; one that does not know the key is hung up on and does not count. */
static void accept_caller(shm_mesh_t *mesh, uint64_t key, int *missing) {
  hello_t hello;
  int fd = accept4(mesh->listener, NULL, NULL, SOCK_CLOEXEC);
  if (fd < 0) return;
  bool known = base_deadline_poll(fd, POLLIN, base_clock_now_ns() + HELLO_NS) &&
               recv(fd, &hello, sizeof hello, 0) == (ssize_t)sizeof hello && hello.key == key &&
               hello.rank > mesh->rank && hello.rank < mesh->size && mesh->sockets[hello.rank] < 0;
  if (!known) {
    close(fd);
    return;
  }
  mesh->sockets[hello.rank] = fd;
  --*missing;
}

static coll_status_t accept_peers(shm_mesh_t *mesh, const shm_mesh_name_t names[], uint64_t key,
                                  uint64_t deadline_ns) {
  for (int missing = mesh->size - 1 - mesh->rank; missing > 0;) {
    uint64_t now_ns = base_clock_now_ns();
    if (now_ns >= deadline_ns) return name_missing(mesh);
    uint64_t probe_ns = now_ns + PROBE_NS < deadline_ns ? now_ns + PROBE_NS : deadline_ns;
    if (base_deadline_poll(mesh->listener, POLLIN, probe_ns)) {
      accept_caller(mesh, key, &missing);
    } else {
      COLL_TRY(probe_missing(mesh, names));
    }
  }
  return COLL_OK;
}

/* The peer's process, by the credentials that the kernel keeps with the socket. */
static int open_process(int fd) {
  struct ucred peer;
  socklen_t length = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.pid <= 0) return -1;
  return (int)syscall(SYS_pidfd_open, peer.pid, 0);
}

coll_status_t shm_mesh_connect(shm_mesh_t *mesh, int rank, int size, const shm_mesh_name_t names[],
                               uint64_t key, uint64_t deadline_ns) {
  size_t count = (size_t)size;
  mesh->rank = rank;
  mesh->size = size;
  COLL_TRY(base_alloc(count, sizeof *mesh->sockets, "sockets", (void **)&mesh->sockets));
  for (int peer = 0; peer < size; peer++) mesh->sockets[peer] = -1;
  COLL_TRY(base_alloc(count, sizeof *mesh->processes, "processes", (void **)&mesh->processes));
  for (int peer = 0; peer < size; peer++) mesh->processes[peer] = -1;
  for (int peer = 0; peer < rank; peer++) {
    COLL_TRY(call_peer(mesh, peer, &names[peer], key, deadline_ns));
  }
  COLL_TRY(accept_peers(mesh, names, key, deadline_ns));
  for (int peer = 0; peer < size; peer++) {
    if (peer != rank) mesh->processes[peer] = open_process(mesh->sockets[peer]);
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
  if (deadline_ns > 0 && !base_deadline_poll(mesh->sockets[peer], POLLIN, deadline_ns))
    return COLL_OK;
  ssize_t moved;
  do { /* of a peer that died with notes unread we are told once, before what it sent */
    moved = recvmsg(mesh->sockets[peer], &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (moved < 0 && errno == ECONNRESET);
  if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return COLL_OK;
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
  if (!*got && *fd >= 0) {
    close(*fd);
    *fd = -1;
  }
  return COLL_OK;
}

bool shm_mesh_hung_up(const shm_mesh_t *mesh, int peer) {
  struct pollfd pollers[] = {{.fd = mesh->sockets[peer], .events = POLLRDHUP},
                             {.fd = mesh->processes[peer], .events = POLLIN}};
  if (poll(pollers, 2, 0) <= 0) return false;
  return (pollers[0].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0 ||
         (pollers[1].revents & POLLIN) != 0;
}

static void close_all(int fds[], int count) {
  for (int i = 0; fds != NULL && i < count; i++) {
    if (fds[i] >= 0) close(fds[i]);
  }
  free(fds);
}

void shm_mesh_close(shm_mesh_t *mesh) {
  if (mesh->listener >= 0) close(mesh->listener);
  close_all(mesh->sockets, mesh->size);
  close_all(mesh->processes, mesh->size);
  *mesh = (shm_mesh_t){.listener = -1};
}

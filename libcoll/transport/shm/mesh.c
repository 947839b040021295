/*
 * SOCK_SEQPACKET sockets preserve the boundaries of notes. Every rank connects to the lower ranks
 * and accepts connections from the higher ones. The first packet of a connection, the hello, holds
 * the key and the connecting rank.
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
#define WATCH_NS 20000000u /* between checks of the watch */
#define RETRY_NS 5000000u  /* between attempts to connect to a full queue */

typedef struct hello {
  uint64_t key;
  int32_t rank;
} hello_t;

coll_status_t shm_mesh_listen(shm_mesh_t *mesh, shm_mesh_name_t *name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  socklen_t length = sizeof(sa_family_t); /* an empty name: the kernel chooses one */
  *mesh = (shm_mesh_t){.listener = -1};
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
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

/* ---- waiting --------------------------------------------------------------------------------*/

/* Polls until one of the descriptors is ready, the deadline passes, or the watch reports a failure.
 * polls[0] is reserved for the watch. *found: descriptors beside it that are ready. */
static coll_status_t poll_watched(const shm_mesh_t *mesh, struct pollfd polls[], size_t count,
                                  uint64_t deadline_ns, int *found) {
  const transport_watch_t *watch = mesh->watch;
  polls[0] = (struct pollfd){.fd = watch != NULL ? watch->fd : -1, .events = POLLIN};
  for (;;) {
    uint64_t now_ns = base_clock_now_ns(), until_ns = deadline_ns;
    if (watch != NULL && until_ns > now_ns + WATCH_NS) until_ns = now_ns + WATCH_NS;
    *found = poll(polls, (nfds_t)count, base_deadline_left_ms(until_ns));
    if (*found < 0 && errno != EINTR) {
      return base_fail_errno(COLL_ERROR_SYSTEM, "rank %d: cannot poll", mesh->rank);
    }
    if (*found > 0 && polls[0].revents != 0) --*found;
    if (*found > 0) return COLL_OK; /* data from a peer has priority over another rank's failure */
    if (watch != NULL) COLL_TRY(watch->check(watch->context));
    *found = 0;
    if (now_ns >= deadline_ns) return COLL_OK;
  }
}

coll_status_t shm_mesh_await(const shm_mesh_t *mesh, int peer, uint64_t deadline_ns) {
  struct pollfd polls[2] = {[1] = {.fd = mesh->sockets[peer], .events = POLLIN}};
  int found;
  COLL_TRY(poll_watched(mesh, polls, 2, deadline_ns, &found));
  if (found > 0) return COLL_OK;
  return base_fail(COLL_ERROR_TIMEOUT,
                   "rank %d: rank %d is connected, but sent nothing in time (is it stopped?)",
                   mesh->rank, peer);
}

/* ---- connecting to the ranks below ----------------------------------------------------------*/

/* Non-blocking, because the peer's queue of connections may be full. -1 with errno. */
static int connect_once(const shm_mesh_name_t *name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  memcpy(address.sun_path, name->text, name->length);
  socklen_t length = (socklen_t)(sizeof(sa_family_t) + name->length);
  if (connect(fd, (struct sockaddr *)&address, length) == 0) return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

/* Retries while the peer's queue is full (EAGAIN), as it is when the peer is stopped. */
static coll_status_t connect_until(const shm_mesh_t *mesh, int peer, const shm_mesh_name_t *name,
                                   uint64_t deadline_ns, int *fd) {
  struct pollfd watch_only[1];
  int found;
  for (;;) {
    *fd = connect_once(name);
    if (*fd >= 0) return COLL_OK;
    if (errno != EAGAIN) {
      return base_fail_errno(COLL_ERROR_RANK_LOST,
                             "rank %d: cannot connect to rank %d on this machine (has it exited?)",
                             mesh->rank, peer);
    }
    uint64_t now_ns = base_clock_now_ns();
    if (now_ns >= deadline_ns) break;
    COLL_TRY(poll_watched(mesh, watch_only, 1, now_ns + RETRY_NS, &found));
  }
  return base_fail(COLL_ERROR_TIMEOUT,
                   "rank %d: rank %d joined, but accepted no connection in time (is it stopped?)",
                   mesh->rank, peer);
}

static coll_status_t connect_to_peer(shm_mesh_t *mesh, int peer, const shm_mesh_name_t *name,
                                     uint64_t key, uint64_t deadline_ns) {
  hello_t hello = {.key = key, .rank = mesh->rank};
  COLL_TRY(connect_until(mesh, peer, name, deadline_ns, &mesh->sockets[peer]));
  if (send(mesh->sockets[peer], &hello, sizeof hello, MSG_NOSIGNAL) == (ssize_t)sizeof hello) {
    return COLL_OK;
  }
  return base_fail_errno(COLL_ERROR_RANK_LOST,
                         "rank %d: cannot send to rank %d on this machine (has it exited?)",
                         mesh->rank, peer);
}

/* ---- accepting the ranks above --------------------------------------------------------------*/

/* Connections whose hello has not arrived yet, oldest first. They are polled together, so that
 * neither a slow rank nor an unknown caller delays the others. */
typedef struct accepting {
  uint64_t key;
  int missing;          /* ranks that have not connected */
  struct pollfd *polls; /* the watch, the listener, then `count` callers */
  size_t count, capacity;
} accepting_t;

#define FIRST_CALLER 2

static coll_status_t fail_missing(const shm_mesh_t *mesh) {
  for (int peer = mesh->rank + 1; peer < mesh->size; peer++) {
    if (mesh->sockets[peer] >= 0) continue;
    return base_fail(COLL_ERROR_TIMEOUT,
                     "rank %d: rank %d joined, but did not connect in time (is it stopped?)",
                     mesh->rank, peer);
  }
  return COLL_ERROR_INTERNAL;
}

/* Receives the caller's hello. Returns true if the connection was assigned to a peer or closed. */
static bool identify_caller(shm_mesh_t *mesh, accepting_t *accepting, int fd) {
  hello_t hello;
  ssize_t bytes = recv(fd, &hello, sizeof hello, MSG_DONTWAIT);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  bool is_peer = bytes == (ssize_t)sizeof hello && hello.key == accepting->key &&
                 hello.rank > mesh->rank && hello.rank < mesh->size &&
                 mesh->sockets[hello.rank] < 0;
  if (is_peer) {
    mesh->sockets[hello.rank] = fd;
    accepting->missing--;
  } else {
    close(fd);
  }
  return true;
}

static void identify_callers(shm_mesh_t *mesh, accepting_t *accepting) {
  size_t pending = FIRST_CALLER, end = FIRST_CALLER + accepting->count;
  for (size_t i = FIRST_CALLER; i < end; i++) {
    const struct pollfd *caller = &accepting->polls[i];
    bool resolved = caller->revents != 0 && identify_caller(mesh, accepting, caller->fd);
    if (!resolved) accepting->polls[pending++] = *caller;
  }
  accepting->count = pending - FIRST_CALLER;
}

static coll_status_t accept_caller(const shm_mesh_t *mesh, accepting_t *accepting) {
  COLL_TRY(base_grow((void **)&accepting->polls, &accepting->capacity,
                     FIRST_CALLER + accepting->count + 1, sizeof *accepting->polls, "callers"));
  struct pollfd *callers = accepting->polls + FIRST_CALLER;
  int fd = accept4(mesh->listener, NULL, NULL, SOCK_CLOEXEC);
  if (fd >= 0) {
    callers[accepting->count++] = (struct pollfd){.fd = fd, .events = POLLIN};
  } else if ((errno == EMFILE || errno == ENFILE) && accepting->count > 0) {
    close(callers[0].fd); /* the one that has been silent longest makes room */
    memmove(callers, callers + 1, --accepting->count * sizeof *callers);
  } else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "rank %d: cannot accept local ranks' connections",
                           mesh->rank);
  }
  return COLL_OK;
}

static coll_status_t accept_until_complete(shm_mesh_t *mesh, accepting_t *accepting,
                                           uint64_t deadline_ns) {
  COLL_TRY(base_grow((void **)&accepting->polls, &accepting->capacity, FIRST_CALLER,
                     sizeof *accepting->polls, "callers"));
  while (accepting->missing > 0) {
    int found;
    accepting->polls[1] = (struct pollfd){.fd = mesh->listener, .events = POLLIN};
    COLL_TRY(
        poll_watched(mesh, accepting->polls, FIRST_CALLER + accepting->count, deadline_ns, &found));
    if (found == 0) return fail_missing(mesh);
    bool has_caller = accepting->polls[1].revents != 0;
    identify_callers(mesh, accepting);
    if (has_caller) COLL_TRY(accept_caller(mesh, accepting));
  }
  return COLL_OK;
}

static coll_status_t accept_peers(shm_mesh_t *mesh, uint64_t key, uint64_t deadline_ns) {
  accepting_t accepting = {.key = key, .missing = mesh->size - 1 - mesh->rank};
  coll_status_t status = accept_until_complete(mesh, &accepting, deadline_ns);
  for (size_t i = 0; i < accepting.count; i++) close(accepting.polls[FIRST_CALLER + i].fd);
  free(accepting.polls);
  return status;
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
    COLL_TRY(connect_to_peer(mesh, peer, &names[peer], key, deadline_ns));
  }
  COLL_TRY(accept_peers(mesh, key, deadline_ns));
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
  return base_fail_errno(COLL_ERROR_SYSTEM, "rank %d: cannot send shared memory to rank %d",
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
  /* a peer that died with unread notes: ECONNRESET is reported once, before what the peer sent */
  do {
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

int shm_mesh_pid(const shm_mesh_t *mesh, int peer) {
  struct ucred credentials = {0};
  socklen_t length = sizeof credentials;
  int fd = mesh->sockets[peer];
  bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0;
  return known ? credentials.pid : 0;
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

/* SOCK_SEQPACKET sockets preserve the boundaries of notes. What was sent on a connection stays
 * readable after the sender has closed it, also if it was accepted only then. */
#include "transport/shm/mesh.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/deadline.h"
#include "base/net/dial.h"
#include "base/net/handshake.h"
#include "base/net/listen.h"
#include "base/net/socket.h"

#define WATCH_NS 20000000u /* between checks of the watch */
#define RETRY_NS 5000000u  /* between attempts to send to a full queue */

/* Room for a note's descriptor in a message. */
typedef union control {
  struct cmsghdr align;
  char bytes[CMSG_SPACE(sizeof(int))];
} control_t;

coll_status_t shm_mesh_listen(shm_mesh_t *mesh, shm_mesh_name_t *name) {
  base_address_t address = {.bytes = sizeof(sa_family_t), .local = {.sun_family = AF_UNIX}};
  *mesh = (shm_mesh_t){.listener = -1};
  int fd = base_listen(SOCK_SEQPACKET, &address, 0);
  if (fd < 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "cannot listen on a socket for local ranks");
  }
  size_t bytes = address.bytes - sizeof(sa_family_t);
  if (bytes > sizeof name->text) {
    base_socket_close(fd);
    return base_fail(COLL_ERROR_SYSTEM, "the kernel chose a socket name of %zu bytes", bytes);
  }
  memset(name, 0, sizeof *name);
  name->length = (uint8_t)bytes;
  memcpy(name->text, address.local.sun_path, bytes);
  mesh->listener = fd;
  return COLL_OK;
}

coll_status_t shm_mesh_join(shm_mesh_t *mesh, int rank, int size, const shm_mesh_name_t names[],
                            uint64_t key) {
  mesh->rank = rank;
  mesh->size = size;
  mesh->key = key;
  COLL_TRY(base_alloc((size_t)size, sizeof *mesh->names, "names of ranks", (void **)&mesh->names));
  memcpy(mesh->names, names, (size_t)size * sizeof *names);
  return COLL_OK;
}

/* ---- waiting --------------------------------------------------------------------------------*/

/* Polls until a connection is pending or one of the silent ones is readable (*found), or the
 * deadline passes. The watch is checked in between. fd: the listener, or -1 to wait for nothing. */
static coll_status_t poll_watched(const shm_mesh_t *mesh, int fd, uint64_t deadline_ns,
                                  bool *found) {
  const transport_watch_t *watch = mesh->watch;
  struct pollfd polls[2 + SHM_MESH_SILENT_MAX] = {
      {.fd = watch != NULL ? watch->fd : -1, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
  nfds_t count = 2;
  for (int i = 0; fd >= 0 && i < mesh->silent_count; i++) {
    polls[count++] = (struct pollfd){.fd = mesh->silent[i], .events = POLLIN};
  }
  for (;;) {
    uint64_t now_ns = base_clock_now_ns(), until_ns = deadline_ns;
    if (watch != NULL && until_ns > now_ns + WATCH_NS) until_ns = now_ns + WATCH_NS;
    int limit_ms = base_deadline_limit_ms(base_deadline_left_ns(until_ns));
    int ready = poll(polls, count, limit_ms);
    if (ready < 0 && errno != EINTR) {
      return base_fail_errno(COLL_ERROR_SYSTEM, "rank %d: cannot poll", mesh->rank);
    }
    if (ready > 0 && polls[0].revents != 0) ready--;
    *found = ready > 0;
    if (*found) return COLL_OK; /* a note has priority over another rank's failure */
    if (watch != NULL) COLL_TRY(watch->check(watch->context));
    if (now_ns >= deadline_ns) return COLL_OK;
  }
}

/* ---- sending --------------------------------------------------------------------------------*/

/* Non-blocking, because the peer's queue of connections may be full. -1 with errno. */
static int connect_once(const shm_mesh_name_t *name) {
  base_address_t address = {.bytes = (socklen_t)(sizeof(sa_family_t) + name->length),
                            .local = {.sun_family = AF_UNIX}};
  memcpy(address.local.sun_path, name->text, name->length);
  return base_dial_begin_one(SOCK_SEQPACKET, &address);
}

/* False with errno. */
static bool send_on(int connection, const shm_note_t *note, int fd) {
  control_t control = {0};
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
  return sendmsg(connection, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof *note;
}

/* Returns 0, or the error as in errno. */
static int send_once(const shm_mesh_t *mesh, int peer, const shm_note_t *note, int fd) {
  shm_note_t own = *note;
  own.source = mesh->rank;
  own.key = mesh->key;
  int connection = connect_once(&mesh->names[peer]);
  if (connection < 0) return errno;
  int error = !base_handshake_is_for(connection) ? ECONNREFUSED
              : send_on(connection, &own, fd)    ? 0
                                                 : errno;
  base_socket_close(connection);
  return error;
}

/* Nobody listens at the peer's socket. */
static bool is_gone(int error) {
  return error == ECONNREFUSED;
}

/* Too many connections to the peer are pending, too many descriptors are under way to processes
 * that have not received them, or this process or the machine has no descriptor left. Or the
 * connection was closed before the note was sent: the peer needed its place (close_oldest), or has
 * gone, which the next connection finds out. */
static bool is_full(int error) {
  return error == EAGAIN || error == ENOBUFS || error == ETOOMANYREFS || error == EMFILE ||
         error == ENFILE || error == EPIPE || error == ECONNRESET;
}

coll_status_t shm_mesh_send(const shm_mesh_t *mesh, int peer, const shm_note_t *note, int fd,
                            bool *sent) {
  int error = send_once(mesh, peer, note, fd);
  *sent = error == 0;
  if (*sent || is_gone(error) || is_full(error)) return COLL_OK;
  errno = error;
  return base_fail_errno(COLL_ERROR_SYSTEM, "rank %d: cannot send shared memory to rank %d",
                         mesh->rank, peer);
}

coll_status_t shm_mesh_send_until(const shm_mesh_t *mesh, int peer, const shm_note_t *note, int fd,
                                  uint64_t deadline_ns) {
  for (;;) {
    bool found;
    int error = send_once(mesh, peer, note, fd);
    if (error == 0) return COLL_OK;
    errno = error;
    if (!is_full(error)) {
      return base_fail_errno(is_gone(error) ? COLL_ERROR_RANK_LOST : COLL_ERROR_SYSTEM,
                             "rank %d: cannot connect to rank %d on this machine%s", mesh->rank,
                             peer, is_gone(error) ? " (has it exited?)" : "");
    }
    uint64_t now_ns = base_clock_now_ns();
    if (now_ns >= deadline_ns) break;
    COLL_TRY(poll_watched(mesh, -1, now_ns + RETRY_NS, &found));
  }
  return base_fail_errno(COLL_ERROR_TIMEOUT,
                         "rank %d: rank %d joined, but could not be sent the shared memory in time "
                         "(is it stopped?)",
                         mesh->rank, peer);
}

/* ---- receiving ------------------------------------------------------------------------------*/

/* Takes the descriptor out of a received message; -1: there is none. */
static int descriptor_of(struct msghdr *message) {
  int fd = -1;
  for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL;
       header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
      memcpy(&fd, CMSG_DATA(header), sizeof fd);
    }
  }
  return fd;
}

static bool is_of_this_mesh(const shm_mesh_t *mesh, const shm_note_t *note, ssize_t bytes) {
  return bytes == (ssize_t)sizeof *note && note->key == mesh->key && note->source >= 0 &&
         note->source < mesh->size && note->source != mesh->rank;
}

/* A result of 0 is confirmed by a second call: Linux looks for a message first and for the end of
 * the connection afterwards, so it reports the end of one whose sender sent and closed in between,
 * and its note is still there. */
static ssize_t receive_message(int connection, struct msghdr *message) {
  const size_t room = message->msg_controllen;
  ssize_t bytes = 0;
  for (int attempt = 0; attempt < 2 && bytes == 0; attempt++) {
    message->msg_controllen = room;
    bytes = recvmsg(connection, message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  }
  return bytes;
}

/* Receives the note of a connection and closes it. False: it has not arrived yet. *got: it is one
 * of a peer. */
static bool receive_from(shm_mesh_t *mesh, int connection, shm_note_t *note, int *fd, bool *got) {
  control_t control;
  struct iovec data = {.iov_base = note, .iov_len = sizeof *note};
  struct msghdr message = {.msg_iov = &data,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes};
  *got = false;
  *fd = -1;
  ssize_t bytes = receive_message(connection, &message);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (bytes > 0) *fd = descriptor_of(&message);
  *got = is_of_this_mesh(mesh, note, bytes);
  mesh->cut = *got && (message.msg_flags & MSG_CTRUNC) != 0;
  if (!*got && *fd >= 0) {
    close(*fd);
    *fd = -1;
  }
  base_socket_close(connection);
  return true;
}

static void remove_silent(shm_mesh_t *mesh, int index) {
  mesh->silent_count--;
  memmove(&mesh->silent[index], &mesh->silent[index + 1],
          (size_t)(mesh->silent_count - index) * sizeof *mesh->silent);
}

/* Makes room: closes the connection that has been silent longest. It may be a peer's that has been
 * slow between connecting and sending. So its note is received if it came meanwhile; afterwards
 * sending fails, and the peer connects again. */
static void close_oldest(shm_mesh_t *mesh, shm_note_t *note, int *fd, bool *got) {
  int connection = mesh->silent[0];
  remove_silent(mesh, 0);
  shutdown(connection, SHUT_RD);
  if (!receive_from(mesh, connection, note, fd, got)) base_socket_close(connection);
}

static void add_silent(shm_mesh_t *mesh, int connection, shm_note_t *note, int *fd, bool *got) {
  if (mesh->silent_count == SHM_MESH_SILENT_MAX) close_oldest(mesh, note, fd, got);
  mesh->silent[mesh->silent_count++] = connection;
}

/* Oldest first: a peer makes a connection once its note on the one before it was sent. So if that
 * was silent when it was accepted, its note is there when the next one is accepted. */
static void receive_from_silent(shm_mesh_t *mesh, shm_note_t *note, int *fd, bool *got) {
  for (int i = 0; i < mesh->silent_count && !*got;) {
    if (receive_from(mesh, mesh->silent[i], note, fd, got)) {
      remove_silent(mesh, i);
    } else {
      i++;
    }
  }
}

coll_status_t shm_mesh_recv(shm_mesh_t *mesh, shm_note_t *note, int *fd, bool *got) {
  *got = false;
  *fd = -1;
  receive_from_silent(mesh, note, fd, got);
  while (!*got) {
    int connection = base_socket_accept(mesh->listener);
    if (connection >= 0 && !base_handshake_is_for(connection)) {
      base_socket_close(connection);
    } else if (connection >= 0) {
      add_silent(mesh, connection, note, fd, got);
      if (!*got) receive_from_silent(mesh, note, fd, got);
    } else if ((errno == EMFILE || errno == ENFILE) && mesh->silent_count > 0) {
      close_oldest(mesh, note, fd, got);
    } else if (errno == EAGAIN) {
      return COLL_OK;
    } else {
      return base_fail_errno(COLL_ERROR_SYSTEM, "rank %d: cannot accept local ranks' connections",
                             mesh->rank);
    }
  }
  return COLL_OK;
}

static coll_status_t fail_cut(const shm_mesh_t *mesh, int peer) {
  errno = EMFILE;
  return base_fail_errno(COLL_ERROR_SYSTEM, "rank %d: cannot take the files that rank %d shares",
                         mesh->rank, peer);
}

coll_status_t shm_mesh_await(shm_mesh_t *mesh, int peer, uint64_t deadline_ns, shm_note_t *note,
                             int *fd) {
  for (;;) {
    bool got, found;
    COLL_TRY(shm_mesh_recv(mesh, note, fd, &got));
    if (got && note->source == peer && mesh->cut) return fail_cut(mesh, peer);
    if (got && note->source == peer) return COLL_OK;
    if (*fd >= 0) close(*fd);
    if (got) continue;
    COLL_TRY(poll_watched(mesh, mesh->listener, deadline_ns, &found));
    if (found) continue;
    return base_fail(COLL_ERROR_TIMEOUT,
                     "rank %d: rank %d joined, but sent nothing in time (is it stopped?)",
                     mesh->rank, peer);
  }
}

void shm_mesh_close(shm_mesh_t *mesh) {
  if (mesh->listener >= 0) base_socket_close(mesh->listener);
  for (int i = 0; i < mesh->silent_count; i++) base_socket_close(mesh->silent[i]);
  free(mesh->names);
  *mesh = (shm_mesh_t){.listener = -1};
}

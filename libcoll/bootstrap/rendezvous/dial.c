/*
 * Connects to the first of several addresses that answers. The next one is tried as soon as one has
 * failed, or has not answered for a moment (as in RFC 8305), so that a wrong address costs little.
 */
#include "bootstrap/rendezvous/dial.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/deadline.h"
#include "base/net/socket.h"

#define NEXT_NS 100000000u  /* an address that has not answered by then is not waited for alone */
#define LAST_NS 2000000000u /* those that have not answered so long after the last was tried */

/* While no server listens on a port of the ephemeral range, the kernel may choose that port as the
 * local one of a connection to it: TCP then connects the socket to itself. */
static bool connected_to_itself(int fd) {
  struct sockaddr_storage own, peer;
  socklen_t own_bytes = sizeof own, peer_bytes = sizeof peer;
  memset(&own, 0, sizeof own);
  memset(&peer, 0, sizeof peer);
  return getsockname(fd, (struct sockaddr *)&own, &own_bytes) == 0 &&
         getpeername(fd, (struct sockaddr *)&peer, &peer_bytes) == 0 && own_bytes == peer_bytes &&
         memcmp(&own, &peer, own_bytes) == 0;
}

static int fail_with(int fd, int error) {
  if (fd >= 0) base_socket_close(fd);
  errno = error;
  return -1;
}

/* Blocks. A connection to an address that does not answer would take minutes, hence the limit. */
static int dial_one(const dial_targets_t *targets, uint64_t deadline_ns) {
  int fd = base_socket(targets->at[0].ss_family, SOCK_STREAM, 0);
  if (fd < 0) return -1;
  const struct sockaddr *address = (const struct sockaddr *)&targets->at[0];
  bool connected = base_deadline_connect(fd, address, targets->lengths[0], deadline_ns) == 0;
  if (connected && !connected_to_itself(fd)) return fd;
  return fail_with(fd, connected ? ECONNREFUSED : errno);
}

typedef struct attempts {
  struct pollfd polls[DIAL_TARGETS]; /* fd -1: has failed */
  int count;
  int error; /* of the one that has failed for the best reason; 0: none */
} attempts_t;

/* A refusal says most: the host is there. What waiting cannot change is said only if all fail so.
 */
static int weight_of(int error) {
  if (error == ECONNREFUSED) return 3;
  return error == 0 ? 0 : 1 + dial_may_heal(error);
}

static void note_failure(attempts_t *attempts, int error) {
  if (weight_of(error) > weight_of(attempts->error)) attempts->error = error;
}

static void begin(attempts_t *attempts, const dial_targets_t *targets, int index) {
  int fd = base_socket(targets->at[index].ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
  bool is_under_way = fd >= 0 && (connect(fd, (const struct sockaddr *)&targets->at[index],
                                          targets->lengths[index]) == 0 ||
                                  errno == EINPROGRESS);
  if (!is_under_way) {
    note_failure(attempts, errno);
    if (fd >= 0) base_socket_close(fd);
    fd = -1;
  }
  attempts->polls[attempts->count++] = (struct pollfd){.fd = fd, .events = POLLOUT};
}

/* A connected socket, which is taken out of the attempts; -1: none yet. */
static int take_connected(attempts_t *attempts) {
  for (int i = 0; i < attempts->count; i++) {
    struct pollfd *each = &attempts->polls[i];
    int error = 0, fd = each->fd;
    socklen_t length = sizeof error;
    if (fd < 0 || each->revents == 0) continue;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
    if (error == 0 && connected_to_itself(fd)) error = ECONNREFUSED;
    each->fd = -1;
    if (error == 0) return fd;
    note_failure(attempts, error);
    base_socket_close(fd);
  }
  return -1;
}

static bool is_any_open(const attempts_t *attempts) {
  for (int i = 0; i < attempts->count; i++) {
    if (attempts->polls[i].fd >= 0) return true;
  }
  return false;
}

static uint64_t soon(uint64_t wait_ns, uint64_t deadline_ns) {
  uint64_t until_ns = base_clock_now_ns() + wait_ns;
  return until_ns < deadline_ns ? until_ns : deadline_ns;
}

static int await_one(attempts_t *attempts, uint64_t until_ns) {
  int fd = -1;
  while (fd < 0 && is_any_open(attempts) && base_deadline_left_ms(until_ns) > 0 &&
         !base_cancel_is_requested()) {
    uint64_t look_ns = soon(BASE_CANCEL_CHECK_NS, until_ns);
    uint64_t left_ns = base_deadline_left_ns(base_cancel_is_possible() ? look_ns : until_ns);
    poll(attempts->polls, (nfds_t)attempts->count, base_deadline_limit_ms(left_ns));
    fd = take_connected(attempts);
  }
  return fd;
}

bool dial_may_heal(int error) {
  return error != EAFNOSUPPORT && error != EPROTONOSUPPORT && error != EINVAL;
}

int dial_once(const dial_targets_t *targets, int first, uint64_t deadline_ns) {
  attempts_t attempts = {0};
  int fd = -1;
  if (targets->count == 1 && !base_cancel_is_possible()) return dial_one(targets, deadline_ns);
  for (int i = 0; i < targets->count && fd < 0; i++) {
    begin(&attempts, targets, (first + i) % targets->count);
    bool is_last = i == targets->count - 1;
    fd = await_one(&attempts, targets->count == 1 ? deadline_ns
                                                  : soon(is_last ? LAST_NS : NEXT_NS, deadline_ns));
  }
  for (int i = 0; i < attempts.count; i++) {
    if (attempts.polls[i].fd < 0) continue;
    note_failure(&attempts, ETIMEDOUT);
    base_socket_close(attempts.polls[i].fd);
  }
  if (attempts.error == 0) attempts.error = ETIMEDOUT;
  if (fd < 0) return fail_with(-1, attempts.error);
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  return fd;
}

/* A rank's side of the meeting: connect and say hello (again and again, until the server greets),
 * then hear the answer. */
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "comm/rendezvous.h"
#include "comm/wire.h"

#define RETRY_LEAST_NS 200000u /* doubles from try to try */
#define RETRY_MOST_NS 20000000u
#define HANG_UP_LEAST_NS 5000000u /* doubles from call to call */
#define HANG_UP_MOST_NS 200000000u
#define ANSWER_SLACK_NS 2000000000u /* the server's own sentence is better than "no answer" */

static coll_status_t resolve(const rendezvous_place_t *place, struct addrinfo **found) {
  char port[8];
  struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  snprintf(port, sizeof port, "%u", (unsigned)place->port);
  int error = getaddrinfo(place->host, port, &hints, found);
  if (error == 0) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "cannot resolve the meeting point's host '%s': %s",
                   place->host, gai_strerror(error));
}

/* While nobody listens on a port of the range that the kernel gives out, a connection to it can be
 * given that very port and meet itself. */
static bool met_itself(int fd) {
  struct sockaddr_storage own, peer;
  socklen_t own_bytes = sizeof own, peer_bytes = sizeof peer;
  memset(&own, 0, sizeof own);
  memset(&peer, 0, sizeof peer);
  return getsockname(fd, (struct sockaddr *)&own, &own_bytes) == 0 &&
         getpeername(fd, (struct sockaddr *)&peer, &peer_bytes) == 0 && own_bytes == peer_bytes &&
         memcmp(&own, &peer, own_bytes) == 0;
}

/* An address that nobody answers from keeps connect waiting for minutes. */
static int connect_once(const struct addrinfo *addresses, uint64_t deadline_ns) {
  for (const struct addrinfo *each = addresses; each != NULL; each = each->ai_next) {
    int fd = socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    base_deadline_limit(fd, deadline_ns);
    bool connected = connect(fd, each->ai_addr, each->ai_addrlen) == 0;
    if (connected && !met_itself(fd)) return fd;
    int error = connected ? ECONNREFUSED : errno == EINPROGRESS ? ETIMEDOUT : errno;
    close(fd);
    errno = error;
  }
  return -1;
}

static coll_status_t connect_until(const rendezvous_place_t *place,
                                   const struct addrinfo *addresses, int rank, uint64_t deadline_ns,
                                   int *fd) {
  for (uint64_t pause_ns = RETRY_LEAST_NS;; pause_ns *= pause_ns < RETRY_MOST_NS ? 2 : 1) {
    int on = 1;
    *fd = connect_once(addresses, deadline_ns);
    if (*fd >= 0) {
      setsockopt(*fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      return COLL_OK;
    }
    if (base_clock_now_ns() >= deadline_ns) break;
    base_clock_sleep_ns(pause_ns);
  }
  return base_fail(COLL_ERROR_TIMEOUT,
                   "rank %d: nobody answers at the meeting point %s port %u (%s): is rank 0 "
                   "running, and are the address and port right?",
                   rank, place->host, (unsigned)place->port, strerror(errno));
}

/* Whether the server has taken note, and will answer. */
static bool say_hello(int fd, const rendezvous_place_t *place, const rendezvous_rank_t *own,
                      uint64_t deadline_ns) {
  uint64_t greeting, answer_ns = deadline_ns + ANSWER_SLACK_NS;
  int left_ms = base_deadline_left_ms(deadline_ns);
  wire_hello_t hello = {.magic = WIRE_MAGIC,
                        .key = place->key,
                        .rank = own->rank,
                        .size = own->size,
                        .timeout_ms = left_ms > 0 ? left_ms : 1,
                        .pid = (int32_t)getpid(),
                        .record_bytes = own->record_bytes};
  return wire_send(fd, &hello, sizeof hello, answer_ns) &&
         wire_send(fd, own->record, own->record_bytes, answer_ns) &&
         wire_recv(fd, &greeting, sizeof greeting, answer_ns) && greeting == WIRE_MAGIC;
}

static coll_status_t no_answer(const rendezvous_place_t *place, int rank) {
  return base_fail(COLL_ERROR_TIMEOUT,
                   "rank %d: the meeting point %s port %u gave no answer: did rank 0 end, or is "
                   "another program listening there?",
                   rank, place->host, (unsigned)place->port);
}

static coll_status_t hear_answer(int fd, const rendezvous_place_t *place,
                                 const rendezvous_rank_t *own, uint64_t deadline_ns, void *records,
                                 uint64_t *session) {
  wire_answer_t answer;
  if (!wire_recv(fd, &answer, sizeof answer, deadline_ns)) return no_answer(place, own->rank);
  if (answer.status != COLL_OK) {
    answer.text[sizeof answer.text - 1] = '\0';
    return base_fail((coll_status_t)answer.status, "rank %d: %s", own->rank, answer.text);
  }
  size_t bytes = (size_t)own->size * own->record_bytes;
  if (!wire_recv(fd, records, bytes, deadline_ns)) {
    return base_fail(COLL_ERROR_RANK_LOST, "rank %d: the meeting point %s port %u broke off",
                     own->rank, place->host, (unsigned)place->port);
  }
  *session = answer.session;
  return COLL_OK;
}

/* Calls until the server greets. It hangs up to make room, and when it holds another meeting than
 * this rank's. */
static coll_status_t call(const rendezvous_place_t *place, const struct addrinfo *addresses,
                          const rendezvous_rank_t *own, uint64_t deadline_ns, int *fd) {
  for (uint64_t pause_ns = HANG_UP_LEAST_NS;; pause_ns *= pause_ns < HANG_UP_MOST_NS ? 2 : 1) {
    COLL_TRY(connect_until(place, addresses, own->rank, deadline_ns, fd));
    if (say_hello(*fd, place, own, deadline_ns)) return COLL_OK;
    close(*fd);
    if (base_clock_now_ns() + pause_ns >= deadline_ns) return no_answer(place, own->rank);
    base_clock_sleep_ns(pause_ns);
  }
}

coll_status_t rendezvous_meet(const rendezvous_place_t *place, const rendezvous_rank_t *own,
                              int timeout_ms, void *records, uint64_t *session) {
  uint64_t deadline_ns = base_clock_now_ns() + (uint64_t)timeout_ms * 1000000u;
  struct addrinfo *addresses;
  int fd;
  COLL_TRY(resolve(place, &addresses));
  coll_status_t status = call(place, addresses, own, deadline_ns, &fd);
  freeaddrinfo(addresses);
  if (status != COLL_OK) return status;
  status = hear_answer(fd, place, own, deadline_ns + ANSWER_SLACK_NS, records, session);
  close(fd);
  return status;
}

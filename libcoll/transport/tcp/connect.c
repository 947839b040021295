/*
 * One loop serves all connections that are being made. Behind the handshake the connecting rank
 * sends a hello, the other replies, and the first confirms: so both know that the other has the
 * same connection, although an attempt may be given up and made again at another address, or reach
 * a host that is no rank's. Of connections from strangers there is a limited number at a time, and
 * the oldest is closed when there is no room for another.
 */
#include "transport/tcp/connect.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/handshake.h"
#include "base/memory.h"
#include "base/text.h"
#include "topo/interfaces.h"

#define MAGIC \
  UINT64_C(0x31706374636c6c31) /* changes with frames; differs in the other byte order */
#define CONNECT_NS 1000000000u /* for a host to accept a connection */
#define REPLY_NS 3000000000u   /* for a rank to answer */
#define RETRY_NS 20000000u
#define CALLERS_MAX 256         /* incoming connections that have not said who they are */
#define SILENT_NS 20000000u     /* without a word, after which one may be closed for another */
#define UNPROVEN_NS 1000000000u /* the same without a proof that it knows the secret */
#define PURPOSE "ranks"
#define POLL_MS 10

typedef enum note_kind { NOTE_HELLO = 1, NOTE_REPLY, NOTE_CONFIRM } note_kind_t;

typedef struct note {
  uint64_t magic, session;
  int32_t rank, kind;
} note_t;

typedef struct attempt {
  int fd;             /* -1: none */
  int peer;           /* -1: not known yet */
  bool is_connecting; /* it is not connected yet */
  bool is_known;      /* the handshake is done */
  base_handshake_t handshake;
  note_kind_t expects; /* the next note from the peer */
  size_t received;     /* bytes of `note` */
  note_t note;
  uint64_t since_ns; /* of a caller: when it was accepted */
  uint64_t until_ns; /* when it is given up; without fd, when the next one is made */
  int address;       /* of the peer's */
} attempt_t;

typedef struct connector {
  const tcp_group_t *group;
  int listener, open;
  int error;             /* errno of the last attempt that failed on this host; 0: none */
  uint64_t resume_ns;    /* when callers are accepted again, for want of descriptors */
  attempt_t *attempts;   /* [rank] to ranks below this one, then [CALLERS_MAX] from others */
  struct pollfd *polled; /* of each attempt, then the listener, then the watch */
  int *sockets;
} connector_t;

/* ---- addresses ------------------------------------------------------------------------------*/

static void address_of(const struct sockaddr_storage *from, tcp_address_t *to) {
  *to = (tcp_address_t){.is_ipv6 = from->ss_family == AF_INET6};
  if (to->is_ipv6) {
    memcpy(to->bytes, &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr, 16);
  } else {
    memcpy(to->bytes, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
  }
}

/* The speed of an interface in Mb/s as its driver states it; 0: it does not. */
static uint32_t speed_of(const char *interface) {
  char path[64 + IFNAMSIZ], text[16] = "";
  int64_t speed = 0;
  snprintf(path, sizeof path, "/sys/class/net/%.*s/speed", IFNAMSIZ, interface);
  FILE *file = fopen(path, "re");
  if (file == NULL) return 0;
  bool got = fgets(text, sizeof text, file) != NULL;
  fclose(file);
  text[strcspn(text, "\n")] = '\0';
  return got && base_text_integer(text, 1, UINT32_MAX, &speed) ? (uint32_t)speed : 0;
}

/* If there are none that other hosts reach, that of the loopback interface. */
static coll_status_t find_addresses(const char *interfaces, tcp_name_t *name) {
  topo_interface_t found[TCP_ADDRESSES];
  int count;
  COLL_TRY(topo_interfaces_find(interfaces, TCP_ADDRESSES, found, &count));
  for (int i = 0; i < count; i++) {
    uint32_t speed = speed_of(found[i].name);
    if (speed > name->megabits) name->megabits = speed;
    address_of(&found[i].address, &name->addresses[i]);
  }
  name->count = (uint8_t)count;
  if (count == 0) name->addresses[name->count++] = (tcp_address_t){.bytes = {127, 0, 0, 1}};
  return COLL_OK;
}

static socklen_t sockaddr_of(const tcp_name_t *name, int index, struct sockaddr_storage *to) {
  const tcp_address_t *from = &name->addresses[index];
  memset(to, 0, sizeof *to);
  if (from->is_ipv6) {
    struct sockaddr_in6 *wide = (struct sockaddr_in6 *)(void *)to;
    wide->sin6_family = AF_INET6;
    wide->sin6_port = htons(name->port);
    memcpy(&wide->sin6_addr, from->bytes, 16);
    return sizeof *wide;
  }
  struct sockaddr_in *narrow = (struct sockaddr_in *)(void *)to;
  narrow->sin_family = AF_INET;
  narrow->sin_port = htons(name->port);
  memcpy(&narrow->sin_addr, from->bytes, 4);
  return sizeof *narrow;
}

/* ---- listening ------------------------------------------------------------------------------*/

/* IPv6 with IPv4 in it, or where there is no IPv6, IPv4. */
static int open_listener(uint16_t *port) {
  struct sockaddr_in6 wide = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any};
  struct sockaddr_in narrow = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
  socklen_t length = sizeof wide;
  int zero = 0, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  bool is_bound = fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero) == 0 &&
                  bind(fd, (struct sockaddr *)&wide, sizeof wide) == 0;
  if (!is_bound) {
    if (fd >= 0) close(fd);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    is_bound = fd >= 0 && bind(fd, (struct sockaddr *)&narrow, sizeof narrow) == 0;
  }
  if (is_bound && listen(fd, SOMAXCONN) == 0 &&
      getsockname(fd, (struct sockaddr *)&wide, &length) == 0) {
    *port = ntohs(wide.sin6_port); /* at the same place in both */
    return fd;
  }
  if (fd >= 0) close(fd);
  return -1;
}

coll_status_t tcp_listen(tcp_listener_t *listener, const char *interfaces, tcp_name_t *name) {
  memset(name, 0, sizeof *name);
  listener->fd = open_listener(&name->port);
  if (listener->fd < 0) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot listen for other hosts");
  coll_status_t status = find_addresses(interfaces, name);
  if (status != COLL_OK) tcp_listener_close(listener);
  return status;
}

void tcp_listener_close(tcp_listener_t *listener) {
  if (listener->fd >= 0) close(listener->fd);
  listener->fd = -1;
}

/* ---- attempts -------------------------------------------------------------------------------*/

/* The next attempt is made at the peer's next address. */
static void give_up(const connector_t *c, attempt_t *attempt) {
  if (attempt->fd >= 0) close(attempt->fd);
  int peer = attempt - c->attempts < c->group->rank ? attempt->peer : -1;
  int next = peer >= 0 ? (attempt->address + 1) % c->group->names[peer].count : 0;
  *attempt = (attempt_t){
      .fd = -1, .peer = peer, .address = next, .until_ns = base_clock_now_ns() + RETRY_NS};
}

/* The buffer of a socket without anything in it has room for a note. */
static bool send_note(const connector_t *c, attempt_t *attempt, note_kind_t kind) {
  const note_t note = {
      .magic = MAGIC, .session = c->group->session, .rank = c->group->rank, .kind = kind};
  return send(attempt->fd, &note, sizeof note, MSG_NOSIGNAL) == (ssize_t)sizeof note;
}

static void expect(attempt_t *attempt, note_kind_t kind) {
  attempt->expects = kind;
  attempt->received = 0;
  attempt->until_ns = base_clock_now_ns() + REPLY_NS;
}

/* What keeps this host from making connections, and may pass. */
static void note_error(connector_t *c, int error) {
  bool is_local = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM ||
                  error == EADDRNOTAVAIL;
  if (is_local) c->error = error;
}

static void begin(connector_t *c, attempt_t *attempt) {
  struct sockaddr_storage to;
  socklen_t length = sockaddr_of(&c->group->names[attempt->peer], attempt->address, &to);
  int on = 1; /* the proof and the hello are sent one after the other */
  attempt->fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (attempt->fd >= 0) setsockopt(attempt->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  attempt->is_connecting = true;
  attempt->until_ns = base_clock_now_ns() + CONNECT_NS;
  if (attempt->fd < 0 ||
      (connect(attempt->fd, (struct sockaddr *)&to, length) != 0 && errno != EINPROGRESS)) {
    note_error(c, errno);
    give_up(c, attempt);
  }
}

static void finish_connecting(const connector_t *c, attempt_t *attempt) {
  int error = 0;
  socklen_t length = sizeof error;
  attempt->is_connecting = false;
  attempt->until_ns = base_clock_now_ns() + REPLY_NS;
  if (getsockopt(attempt->fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0 ||
      base_handshake_begin_caller(&attempt->handshake, attempt->fd, c->group->secret, PURPOSE) !=
          BASE_HANDSHAKE_UNDER_WAY) {
    give_up(c, attempt);
  }
}

/* The one that has connected says who it is once the other has proved that it is a rank. */
static void continue_handshake(const connector_t *c, attempt_t *attempt) {
  base_handshake_state_t state = base_handshake_continue(&attempt->handshake, attempt->fd);
  if (state == BASE_HANDSHAKE_UNDER_WAY) return;
  attempt->is_known = state == BASE_HANDSHAKE_DONE;
  if (attempt->is_known && attempt->handshake.is_listener) {
    expect(attempt, NOTE_HELLO);
  } else if (attempt->is_known && send_note(c, attempt, NOTE_HELLO)) {
    expect(attempt, NOTE_REPLY);
  } else {
    give_up(c, attempt);
  }
}

/* Whether the note is of a rank of this session with which this rank is not yet connected. */
static bool is_valid(const connector_t *c, const attempt_t *attempt) {
  const note_t *note = &attempt->note;
  if (note->magic != MAGIC || note->session != c->group->session) return false;
  if (note->kind != (int32_t)attempt->expects || note->rank < 0 || note->rank >= c->group->size) {
    return false;
  }
  if (attempt->peer >= 0) return note->rank == attempt->peer;
  return note->rank > c->group->rank && c->sockets[note->rank] < 0;
}

static void complete(connector_t *c, attempt_t *attempt) {
  int peer = attempt->peer;
  if (c->sockets[peer] >= 0) { /* by another attempt of the same peer */
    give_up(c, attempt);
    return;
  }
  c->sockets[peer] = attempt->fd;
  c->open--;
  *attempt = (attempt_t){.fd = -1, .peer = attempt - c->attempts < c->group->rank ? peer : -1};
}

static void handle_note(connector_t *c, attempt_t *attempt) {
  bool good = is_valid(c, attempt);
  attempt->peer = good ? attempt->note.rank : attempt->peer;
  if (!good) {
    give_up(c, attempt);
  } else if (attempt->expects == NOTE_CONFIRM) {
    complete(c, attempt);
  } else if (attempt->expects == NOTE_REPLY) {
    if (base_clock_now_ns() < attempt->until_ns && send_note(c, attempt, NOTE_CONFIRM))
      complete(c, attempt);
    else
      give_up(c, attempt);
  } else {
    expect(attempt, NOTE_CONFIRM);
    /* the caller may be slow to answer, and ends the connection if it gives up */
    attempt->until_ns = c->group->deadline_ns;
    if (!send_note(c, attempt, NOTE_REPLY)) give_up(c, attempt);
  }
}

/* No more than the note is read: what follows is the transport's. */
static void receive_note(connector_t *c, attempt_t *attempt) {
  ssize_t got = recv(attempt->fd, (char *)&attempt->note + attempt->received,
                     sizeof attempt->note - attempt->received, 0);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  if (got <= 0) {
    give_up(c, attempt);
    return;
  }
  attempt->received += (size_t)got;
  if (attempt->received == sizeof attempt->note) handle_note(c, attempt);
}

static bool is_stranger(const attempt_t *caller, uint64_t now_ns) {
  uint64_t allowed_ns = caller->handshake.has_answered ? UNPROVEN_NS : SILENT_NS;
  return !caller->is_known && now_ns > caller->since_ns + allowed_ns;
}

/* Room for a caller, or the oldest that may be closed for it. NULL: it waits in the system's queue.
 */
static attempt_t *free_caller(const connector_t *c) {
  attempt_t *callers = c->attempts + c->group->rank, *oldest = NULL;
  uint64_t now_ns = base_clock_now_ns();
  for (int i = 0; i < CALLERS_MAX; i++) {
    attempt_t *caller = &callers[i];
    if (caller->fd < 0) return caller;
    bool is_older = oldest == NULL || caller->since_ns < oldest->since_ns;
    if (is_older && is_stranger(caller, now_ns)) oldest = caller;
  }
  return oldest;
}

static void accept_callers(connector_t *c) {
  attempt_t *caller;
  while ((caller = free_caller(c)) != NULL) {
    int fd = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      note_error(c, errno);
      c->resume_ns = errno == EAGAIN ? 0 : base_clock_now_ns() + RETRY_NS;
      return;
    }
    if (caller->fd >= 0) close(caller->fd);
    uint64_t now_ns = base_clock_now_ns();
    *caller = (attempt_t){.fd = fd, .peer = -1, .since_ns = now_ns, .until_ns = now_ns + REPLY_NS};
    base_handshake_begin_listener(&caller->handshake, c->group->secret, PURPOSE);
  }
}

/* ---- the loop -------------------------------------------------------------------------------*/

static bool is_wanted(const connector_t *c, int index) {
  return index < c->group->rank && c->sockets[c->attempts[index].peer] < 0;
}

static void serve(connector_t *c, int index, short events) {
  attempt_t *attempt = &c->attempts[index];
  if (attempt->fd < 0) {
    if (is_wanted(c, index) && base_clock_now_ns() >= attempt->until_ns) begin(c, attempt);
  } else if (events != 0) {
    if (attempt->is_connecting)
      finish_connecting(c, attempt);
    else if (!attempt->is_known)
      continue_handshake(c, attempt);
    if (attempt->fd >= 0 && attempt->is_known) receive_note(c, attempt);
  } else if (base_clock_now_ns() > attempt->until_ns) {
    give_up(c, attempt);
  }
}

static void turn(connector_t *c) {
  int count = c->group->rank + CALLERS_MAX;
  const transport_watch_t *watch = c->group->watch;
  for (int i = 0; i < count; i++) {
    const attempt_t *attempt = &c->attempts[i];
    c->polled[i] =
        (struct pollfd){.fd = attempt->fd, .events = attempt->is_connecting ? POLLOUT : POLLIN};
  }
  bool accepts = base_clock_now_ns() >= c->resume_ns && free_caller(c) != NULL;
  int listener = accepts ? c->listener : -1;
  c->polled[count] = (struct pollfd){.fd = listener, .events = POLLIN};
  c->polled[count + 1] = (struct pollfd){.fd = watch != NULL ? watch->fd : -1, .events = POLLIN};
  if (poll(c->polled, (nfds_t)count + 2, POLL_MS) < 0) return;
  for (int i = 0; i < count; i++) serve(c, i, c->polled[i].revents);
  if (c->polled[count].revents != 0) accept_callers(c);
}

static coll_status_t fail_late(const connector_t *c) {
  int peer = 0;
  while (peer == c->group->rank || c->sockets[peer] >= 0) peer++;
  if (c->error != 0) {
    return base_fail(COLL_ERROR_TIMEOUT, "rank %d: no connection to rank %d: %s%s", c->group->rank,
                     peer, strerror(c->error),
                     c->error == EMFILE ? " (raise ulimit -n)" : " on this host");
  }
  return base_fail(COLL_ERROR_TIMEOUT,
                   "rank %d: no connection to rank %d: is a firewall between their hosts?",
                   c->group->rank, peer);
}

static coll_status_t connect_until(connector_t *c, uint64_t deadline_ns) {
  const transport_watch_t *watch = c->group->watch;
  while (c->open > 0) {
    turn(c);
    if (c->open == 0) break;
    if (watch != NULL) COLL_TRY(watch->check(watch->context));
    if (base_clock_now_ns() >= deadline_ns) return fail_late(c);
  }
  return COLL_OK;
}

static void begin_all(connector_t *c) {
  for (int i = 0; i < c->group->rank + CALLERS_MAX; i++) {
    c->attempts[i] = (attempt_t){.fd = -1, .peer = i < c->group->rank ? i : -1};
  }
  for (int peer = 0; peer < c->group->size; peer++) c->sockets[peer] = -1;
}

static void close_all(connector_t *c, bool failed) {
  for (int i = 0; i < c->group->rank + CALLERS_MAX; i++) {
    if (c->attempts[i].fd >= 0) close(c->attempts[i].fd);
  }
  for (int peer = 0; failed && peer < c->group->size; peer++) {
    if (c->sockets[peer] >= 0) close(c->sockets[peer]);
    c->sockets[peer] = -1;
  }
}

coll_status_t tcp_connect_all(tcp_listener_t *listener, const tcp_group_t *group, int sockets[]) {
  size_t count = (size_t)group->rank + CALLERS_MAX;
  connector_t c = {
      .group = group, .listener = listener->fd, .open = group->size - 1, .sockets = sockets};
  coll_status_t status = base_alloc(count, sizeof *c.attempts, "connections", (void **)&c.attempts);
  if (status == COLL_OK) {
    status = base_alloc(count + 2, sizeof *c.polled, "connections", (void **)&c.polled);
  }
  if (status == COLL_OK) {
    begin_all(&c);
    status = connect_until(&c, group->deadline_ns);
    close_all(&c, status != COLL_OK);
  }
  free(c.polled);
  free(c.attempts);
  tcp_listener_close(listener);
  return status;
}

coll_status_t tcp_connect_pair(int sockets[2]) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof at;
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockets[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockets[1] = -1;
  if (listener >= 0 && bind(listener, (struct sockaddr *)&at, sizeof at) == 0 &&
      listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr *)&at, &length) == 0 &&
      connect(sockets[0], (struct sockaddr *)&at, sizeof at) == 0) {
    sockets[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  }
  coll_status_t status = COLL_OK;
  if (sockets[1] < 0) {
    status = base_fail_errno(COLL_ERROR_SYSTEM, "no connection over the loopback interface");
    if (sockets[0] >= 0) close(sockets[0]);
  }
  if (listener >= 0) close(listener);
  return status;
}

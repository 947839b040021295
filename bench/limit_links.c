/* Every rank connects to those of a lower number and accepts those of a higher one. The first bytes
 * on a connection say which rank and which of the pair's sockets it is. */
#include "bench/limit_links.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/status.h"

#define OPEN_NS ((uint64_t)20 * 1000000000)
#define RETRY_NS ((uint64_t)20 * 1000000)
#define LARGE_BUFFER_BYTES (8 << 20)

typedef struct hello {
  int32_t rank, socket;
} hello_t;

/* ---- addresses */

static coll_status_t parse_addresses(const char *text, struct in_addr *addresses, int *count) {
  for (*count = 0; *text != '\0';) {
    char word[INET_ADDRSTRLEN];
    size_t length = strcspn(text, ",");
    snprintf(word, sizeof word, "%.*s", (int)length, text);
    if (*count == LIMIT_LINKS_HOSTS_MAX || length >= sizeof word ||
        inet_pton(AF_INET, word, &addresses[*count]) != 1) {
      return base_fail(COLL_ERROR_INVALID, "'%s' is not a list of at most %d IPv4 addresses", text,
                       LIMIT_LINKS_HOSTS_MAX);
    }
    ++*count;
    text += length + (text[length] == ',');
  }
  return COLL_OK;
}

static struct sockaddr_in address_of(struct in_addr host, int port) {
  return (struct sockaddr_in){
      .sin_family = AF_INET, .sin_addr = host, .sin_port = htons((uint16_t)port)};
}

/* ---- sockets */

/* Large buffers may need a privilege; without it the kernel limits them. */
static void set_buffer(int fd, int forced, int plain) {
  int bytes = LARGE_BUFFER_BYTES;
  if (setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof bytes) == 0) return;
  (void)setsockopt(fd, SOL_SOCKET, plain, &bytes, sizeof bytes);
}

static void configure(int fd, int socket) {
  int on = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (socket != LIMIT_LARGE_SOCKET) return;
  set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF);
  set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF);
}

coll_status_t limit_links_send(int fd, const void *data, size_t bytes) {
  for (const char *at = data; bytes > 0;) {
    ssize_t sent = send(fd, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot send to another rank");
    at += sent;
    bytes -= (size_t)sent;
  }
  return COLL_OK;
}

coll_status_t limit_links_receive(int fd, void *data, size_t bytes) {
  for (char *at = data; bytes > 0;) {
    ssize_t got = recv(fd, at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot receive from another rank");
    if (got == 0) return base_fail(COLL_ERROR_SYSTEM, "another rank has ended");
    at += got;
    bytes -= (size_t)got;
  }
  return COLL_OK;
}

/* The peer may not listen yet. */
static coll_status_t connect_until(const struct sockaddr_in *address, int number,
                                   uint64_t deadline_ns, int *fd) {
  for (;;) {
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot make a socket");
    configure(*fd, number);
    if (connect(*fd, (const struct sockaddr *)address, sizeof *address) == 0) return COLL_OK;
    int error = errno;
    close(*fd);
    *fd = -1;
    if (base_clock_now_ns() > deadline_ns) break;
    errno = error;
    base_clock_sleep_ns(RETRY_NS);
  }
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot connect to %s, port %d",
                         inet_ntoa(address->sin_addr), ntohs(address->sin_port));
}

static coll_status_t connect_pair(limit_links_t *links, int peer, const struct sockaddr_in *address,
                                  uint64_t deadline_ns) {
  for (int i = 0; i < LIMIT_SOCKETS; i++) {
    hello_t hello = {links->rank, i};
    COLL_TRY(connect_until(address, i, deadline_ns, &links->sockets[peer][i]));
    COLL_TRY(limit_links_send(links->sockets[peer][i], &hello, sizeof hello));
  }
  return COLL_OK;
}

static coll_status_t accept_one(limit_links_t *links, int listener, uint64_t deadline_ns) {
  hello_t hello;
  if (!base_deadline_poll(listener, POLLIN, deadline_ns)) {
    return base_fail(COLL_ERROR_TIMEOUT, "another rank did not connect to rank %d", links->rank);
  }
  int fd = accept(listener, NULL, NULL);
  if (fd < 0) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot accept a connection");
  coll_status_t status = limit_links_receive(fd, &hello, sizeof hello);
  bool known = status == COLL_OK && hello.rank > links->rank && hello.rank < links->ranks &&
               hello.socket >= 0 && hello.socket < LIMIT_SOCKETS &&
               links->sockets[hello.rank][hello.socket] < 0;
  if (!known) {
    close(fd);
    return status == COLL_OK ? base_fail(COLL_ERROR_SYSTEM, "a stranger connected") : status;
  }
  configure(fd, hello.socket);
  links->sockets[hello.rank][hello.socket] = fd;
  return COLL_OK;
}

static coll_status_t make_listener(const struct sockaddr_in *address, int *listener) {
  int on = 1;
  *listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (*listener < 0) return base_fail_errno(COLL_ERROR_SYSTEM, "cannot make a socket");
  (void)setsockopt(*listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(*listener, (const struct sockaddr *)address, sizeof *address) == 0 &&
      listen(*listener, LIMIT_LINKS_RANKS_MAX * LIMIT_SOCKETS) == 0) {
    return COLL_OK;
  }
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot listen at %s, port %d",
                         inet_ntoa(address->sin_addr), ntohs(address->sin_port));
}

static coll_status_t connect_all(limit_links_t *links, const struct in_addr *hosts, int port,
                                 int *listener) {
  uint64_t deadline_ns = base_clock_now_ns() + OPEN_NS;
  struct sockaddr_in own = address_of(hosts[links->rank / links->per_host], port + links->rank);
  COLL_TRY(make_listener(&own, listener));
  for (int peer = 0; peer < links->rank; peer++) {
    struct sockaddr_in address = address_of(hosts[peer / links->per_host], port + peer);
    COLL_TRY(connect_pair(links, peer, &address, deadline_ns));
  }
  int expected = (links->ranks - 1 - links->rank) * LIMIT_SOCKETS;
  for (int i = 0; i < expected; i++) COLL_TRY(accept_one(links, *listener, deadline_ns));
  return COLL_OK;
}

coll_status_t limit_links_open(const char *addresses, int port, int rank, int ranks,
                               limit_links_t *links) {
  struct in_addr hosts[LIMIT_LINKS_HOSTS_MAX];
  int listener = -1;
  *links = (limit_links_t){.rank = rank, .ranks = ranks};
  memset(links->sockets, -1, sizeof links->sockets);
  COLL_TRY(parse_addresses(addresses, hosts, &links->hosts));
  if (links->hosts == 0 || ranks > LIMIT_LINKS_RANKS_MAX || ranks % links->hosts != 0) {
    return base_fail(COLL_ERROR_INVALID, "%d ranks cannot be divided among %d hosts", ranks,
                     links->hosts);
  }
  links->per_host = ranks / links->hosts;
  coll_status_t status = connect_all(links, hosts, port, &listener);
  if (listener >= 0) close(listener);
  return status;
}

void limit_links_close(limit_links_t *links) {
  for (int peer = 0; peer < links->ranks; peer++) {
    for (int i = 0; i < LIMIT_SOCKETS; i++) {
      if (links->sockets[peer][i] >= 0) close(links->sockets[peer][i]);
    }
  }
}

/* ---- maximum */

coll_status_t limit_links_max(const limit_links_t *links, double *values, int count) {
  size_t bytes = (size_t)count * sizeof *values;
  if (links->rank != 0) {
    COLL_TRY(limit_links_send(links->sockets[0][0], values, bytes));
    return limit_links_receive(links->sockets[0][0], values, bytes);
  }
  for (int peer = 1; peer < links->ranks; peer++) {
    for (int i = 0; i < count; i++) {
      double other;
      COLL_TRY(limit_links_receive(links->sockets[peer][0], &other, sizeof other));
      if (other > values[i]) values[i] = other;
    }
  }
  for (int peer = 1; peer < links->ranks; peer++) {
    COLL_TRY(limit_links_send(links->sockets[peer][0], values, bytes));
  }
  return COLL_OK;
}

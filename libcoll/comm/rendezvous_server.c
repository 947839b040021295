/*
 * One thread, one poll loop, one guest list. The first caller says how many ranks there are and how
 * long to wait. When all are here the listening socket is closed before anyone is answered, so that
 * whoever opens the next meeting on the same port cannot meet callers of this one.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/memory.h"
#include "comm/rendezvous.h"
#include "comm/wire.h"
#include "plan/plan.h"

#define HELLO_NS 250000000u          /* a rank says hello at once; else it is a stranger */
#define NO_ROOM_NS 10000000u         /* pause when the process has no descriptor left */
#define UNATTENDED_NS 3600000000000u /* a meeting point that nobody ever came to */
#define LATE_NS 300000000u           /* how long a failed meeting still tells why */
#define ANSWER_NS 5000000000u

typedef struct guest {
  int fd; /* -1: not here */
  int32_t pid;
} guest_t;

typedef struct server {
  int listener;
  uint64_t key;
  int size; /* 0 until the first rank is here */
  size_t record_bytes;
  int here;             /* ranks that are */
  guest_t *guests;      /* [size] */
  char *records;        /* [size][record_bytes] */
  struct pollfd *polls; /* [size + 1] */
  uint64_t deadline_ns;
  wire_answer_t answer;
} server_t;

static void decide(server_t *server, coll_status_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The meeting fails; the first reason stands. */
static void decide(server_t *server, coll_status_t status, const char *format, ...) {
  if (server->answer.status != COLL_OK) return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(server->answer.text, sizeof server->answer.text, format, arguments);
  va_end(arguments);
  server->answer.status = (int32_t)status;
}

static bool first_rank_came(server_t *server, const wire_hello_t *hello) {
  size_t size = (size_t)hello->size;
  if (base_alloc(size, sizeof *server->guests, "guests", (void **)&server->guests) != COLL_OK ||
      base_alloc(size, hello->record_bytes, "records", (void **)&server->records) != COLL_OK ||
      base_alloc(size + 1, sizeof *server->polls, "polls", (void **)&server->polls) != COLL_OK) {
    decide(server, COLL_ERROR_MEMORY, "the meeting point ran out of memory");
    return false;
  }
  for (size_t rank = 0; rank < size; rank++) server->guests[rank].fd = -1;
  server->size = hello->size;
  server->record_bytes = hello->record_bytes;
  server->deadline_ns = base_clock_now_ns() + (uint64_t)hello->timeout_ms * 1000000u;
  return true;
}

static bool makes_sense(const server_t *server, const wire_hello_t *hello) {
  return hello->magic == WIRE_MAGIC && hello->key == server->key && hello->size >= 1 &&
         hello->size <= PLAN_RANKS_MAX && hello->rank >= 0 && hello->rank < hello->size &&
         hello->timeout_ms > 0 && hello->record_bytes <= RENDEZVOUS_RECORD_MOST;
}

/* One caller, from its hello to a seat or to the reason why the meeting fails. */
static void seat(server_t *server, int fd, const wire_hello_t *hello, const char *record) {
  if (server->size == 0 && !first_rank_came(server, hello)) return;
  if (hello->record_bytes != server->record_bytes) {
    decide(server, COLL_ERROR_INVALID,
           "process %d and others were built with different versions of the library",
           (int)hello->pid);
    return;
  }
  if (hello->size != server->size) {
    decide(server, COLL_ERROR_INVALID,
           "the ranks disagree: process %d says there are %d, others say %d", (int)hello->pid,
           (int)hello->size, server->size);
    return;
  }
  guest_t *guest = &server->guests[hello->rank];
  if (guest->fd >= 0) {
    decide(server, COLL_ERROR_INVALID,
           "two processes, %d and %d, both call themselves rank %d: give each its own",
           (int)guest->pid, (int)hello->pid, (int)hello->rank);
    return;
  }
  *guest = (guest_t){.fd = fd, .pid = hello->pid};
  memcpy(server->records + (size_t)hello->rank * server->record_bytes, record,
         server->record_bytes);
  server->here++;
}

/* Answers a caller that got no seat with the reason, if there is one. */
static void turn_away(const server_t *server, int fd) {
  if (server->answer.status != COLL_OK) {
    wire_send(fd, &server->answer, sizeof server->answer, base_clock_now_ns() + ANSWER_NS);
  }
  close(fd);
}

static void welcome(server_t *server) {
  char record[RENDEZVOUS_RECORD_MOST];
  wire_hello_t hello;
  int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
  if (fd < 0) {
    base_clock_sleep_ns(NO_ROOM_NS);
    return;
  }
  uint64_t deadline_ns = base_clock_now_ns() + HELLO_NS;
  if (!wire_recv(fd, &hello, sizeof hello, deadline_ns) || !makes_sense(server, &hello) ||
      !wire_recv(fd, record, hello.record_bytes, deadline_ns)) {
    close(fd); /* a stranger */
    return;
  }
  int before = server->here;
  if (server->answer.status == COLL_OK) seat(server, fd, &hello, record);
  if (server->here == before) turn_away(server, fd);
}

/* When the meeting has failed, ranks that are only on their way get the reason too. */
static void wait_for_late(server_t *server) {
  uint64_t deadline_ns = base_clock_now_ns() + LATE_NS;
  while (base_deadline_poll(server->listener, POLLIN, deadline_ns)) welcome(server);
}

/* A guest has nothing more to say, so anything readable is its hanging up. */
static void mind_guests(server_t *server, const struct pollfd polls[]) {
  for (int rank = 0; rank < server->size; rank++) {
    guest_t *guest = &server->guests[rank];
    if (guest->fd < 0 || polls[rank].revents == 0) continue;
    decide(server, COLL_ERROR_RANK_LOST,
           "rank %d (process %d) went away while the ranks were meeting", rank, (int)guest->pid);
    close(guest->fd);
    guest->fd = -1;
  }
}

static void name_missing(server_t *server) {
  char list[200] = "";
  size_t used = 0;
  for (int rank = 0; rank < server->size && used < sizeof list - 16; rank++) {
    if (server->guests[rank].fd >= 0) continue;
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%d", used > 0 ? ", " : "", rank);
  }
  decide(server, COLL_ERROR_TIMEOUT,
         "%d of %d ranks did not come in time (missing: %s): were they all started?",
         server->size - server->here, server->size, list);
}

static void gather_ranks(server_t *server) {
  while (server->answer.status == COLL_OK && (server->size == 0 || server->here < server->size)) {
    struct pollfd lone, *polls = server->size > 0 ? server->polls : &lone;
    nfds_t count = 0;
    for (; count < (nfds_t)server->size; count++) {
      polls[count] = (struct pollfd){.fd = server->guests[count].fd, .events = POLLIN};
    }
    polls[count] = (struct pollfd){.fd = server->listener, .events = POLLIN};
    int found = poll(polls, count + 1, base_deadline_left_ms(server->deadline_ns));
    if (found < 0 && errno != EINTR) {
      decide(server, COLL_ERROR_SYSTEM, "the meeting point cannot poll: %s", strerror(errno));
    } else if (found == 0) {
      if (server->size == 0) return;
      name_missing(server);
    } else if (found > 0) {
      bool caller = polls[count].revents != 0;
      mind_guests(server, polls);
      if (caller) welcome(server);
    }
  }
}

/* From the last rank down: the server lives in rank 0's process, which may leave when it knows. */
static void answer_guests(server_t *server) {
  uint64_t deadline_ns = base_clock_now_ns() + ANSWER_NS;
  size_t bytes = (size_t)server->size * server->record_bytes;
  for (int rank = server->size - 1; rank >= 0; rank--) {
    int fd = server->guests[rank].fd;
    if (fd < 0) continue;
    if (wire_send(fd, &server->answer, sizeof server->answer, deadline_ns) &&
        server->answer.status == COLL_OK) {
      wire_send(fd, server->records, bytes, deadline_ns);
    }
    close(fd);
  }
}

static void *serve(void *argument) {
  server_t *server = argument;
  gather_ranks(server);
  if (server->answer.status == COLL_OK) close(server->listener);
  answer_guests(server);
  if (server->answer.status != COLL_OK) {
    wait_for_late(server);
    close(server->listener);
  }
  free(server->guests);
  free(server->records);
  free(server->polls);
  free(server);
  return NULL;
}

static coll_status_t listen_at(const rendezvous_place_t *place, int *listener) {
  char port[8];
  int on = 1;
  struct addrinfo *found, hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  snprintf(port, sizeof port, "%u", (unsigned)place->port);
  int error = getaddrinfo(place->host, port, &hints, &found);
  if (error != 0) {
    return base_fail(COLL_ERROR_INVALID, "cannot resolve the meeting point's host '%s': %s",
                     place->host, gai_strerror(error));
  }
  coll_status_t status = COLL_OK;
  int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, 1024) != 0) {
    status = base_fail_errno(COLL_ERROR_SYSTEM,
                             "cannot open the meeting point at %s port %u (choose another port if "
                             "it is in use)",
                             place->host, (unsigned)place->port);
    if (fd >= 0) close(fd);
  }
  freeaddrinfo(found);
  if (status == COLL_OK) *listener = fd;
  return status;
}

static uint16_t port_of(int listener) {
  struct sockaddr_storage address;
  char port[8];
  socklen_t length = sizeof address;
  if (getsockname(listener, (struct sockaddr *)&address, &length) != 0 ||
      getnameinfo((struct sockaddr *)&address, length, NULL, 0, port, sizeof port,
                  NI_NUMERICSERV) != 0) {
    return 0;
  }
  return (uint16_t)strtoul(port, NULL, 10);
}

static coll_status_t start_thread(server_t *server) {
  pthread_t thread;
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  int error = pthread_create(&thread, &detached, serve, server);
  pthread_attr_destroy(&detached);
  if (error == 0) return COLL_OK;
  return base_fail(COLL_ERROR_SYSTEM, "cannot start the meeting point's thread: %s",
                   strerror(error));
}

coll_status_t rendezvous_open(rendezvous_place_t *place) {
  server_t *server = NULL;
  COLL_TRY(base_alloc(1, sizeof *server, "a meeting point", (void **)&server));
  server->key = place->key;
  server->deadline_ns = base_clock_now_ns() + UNATTENDED_NS;
  server->answer = (wire_answer_t){.magic = WIRE_MAGIC, .status = COLL_OK};
  coll_status_t status = COLL_OK;
  if (getrandom(&server->answer.session, sizeof(uint64_t), 0) != (ssize_t)sizeof(uint64_t)) {
    status = base_fail_errno(COLL_ERROR_SYSTEM, "no random number for a meeting point");
  }
  if (status == COLL_OK) status = listen_at(place, &server->listener);
  if (status != COLL_OK) goto free_server;
  uint16_t port = port_of(server->listener);
  status = start_thread(server);
  if (status != COLL_OK) goto close_listener;
  place->port = port;
  return COLL_OK;

close_listener:
  close(server->listener);
free_server:
  free(server);
  return status;
}

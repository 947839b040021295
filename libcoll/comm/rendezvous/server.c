/*
 * One poll loop serves all connections, so that no slow or silent one delays another. A connection
 * is a caller until its hello and record are complete, then a member. The first rank to join states
 * the number of ranks. When all have joined, the listening socket is closed before anyone is
 * answered, so that ranks of the next rendezvous on the same port cannot reach this server.
 */
#include "comm/rendezvous/server.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/descriptors.h"
#include "base/memory.h"
#include "comm/rendezvous/rendezvous.h"
#include "plan/plan.h"

#define CALLERS_MAX 64             /* when full, the oldest is hung up on: ranks call again */
#define NO_ROOM_NS 10000000u       /* pause when the process has no descriptor left */
#define UNUSED_NS 3600000000000u   /* lifetime of a server that no rank joins */
#define SENDING_NS 5000000000u     /* with no member taking in anything, sending is given up */
#define FAILING_NS 500000000u      /* the same once the rendezvous has failed */
#define REPORT_SLACK_NS 1000000000 /* the ranks' own timeouts come first */

typedef struct caller {
  int fd;
  size_t received;
  struct {
    wire_hello_t hello;
    char record[RENDEZVOUS_RECORD_MAX];
  } message;
} caller_t;

typedef struct member {
  int fd; /* -1: has not joined, or was closed */
  int32_t pid;
  int32_t informed; /* pid of the process of this rank that knows of the failure; 0: none */
  bool reported;    /* that its part of the communicator is made */
  size_t records_sent, verdict_sent, report_received; /* bytes */
  wire_report_t report;
} member_t;

struct rendezvous_server {
  int listener; /* -1: closed */
  uint64_t key;
  bool own_port;
  caller_t callers[CALLERS_MAX]; /* oldest first */
  int caller_count;
  bool starved;      /* the last caller could not be accepted for want of descriptors */
  member_t *members; /* [size] */
  int size;          /* 0 until the first rank has joined */
  int open_count;    /* members whose connection is open */
  int joined_count, reported_count;
  bool decided;     /* the verdict stands */
  bool holds_rank0; /* rank 0 is not to get the verdict yet, as late ranks still call */
  wire_answer_t verdict;
  char *records; /* a wire_answer_t, then the records by rank */
  size_t record_bytes;
  size_t records_bytes; /* of `records` to send; 0 until all have joined */
  int32_t timeout_ms;   /* longest of the members' */
  uint64_t deadline_ns; /* for joining: earliest of the members'; then for their reports */
  struct pollfd *polls; /* as many as are open: there may be fewer descriptors than ranks */
  int *polled;          /* the rank of each member in polls */
  size_t poll_capacity, polled_capacity;
};

static void fail(rendezvous_server_t *server, coll_status_t status, int rank, const char *format,
                 ...) __attribute__((format(printf, 4, 5)));

/* The rendezvous fails because of `rank` (-1: not known); the first reason stands. */
static void fail(rendezvous_server_t *server, coll_status_t status, int rank, const char *format,
                 ...) {
  if (server->decided) return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(server->verdict.text, sizeof server->verdict.text, format, arguments);
  va_end(arguments);
  server->verdict.status = (int32_t)status;
  server->verdict.failed_rank = rank;
  server->decided = true;
}

static void fail_died(rendezvous_server_t *server, int rank, int pid) {
  fail(server, COLL_ERROR_RANK_LOST, rank,
       "rank %d (pid %d) died while the communicator was being made", rank, pid);
}

static bool has_failed(const rendezvous_server_t *server) {
  return server->decided && server->verdict.status != COLL_OK;
}

/* ---- callers --------------------------------------------------------------------------------*/

static bool is_valid(const rendezvous_server_t *server, const wire_hello_t *hello) {
  return hello->magic == WIRE_MAGIC && hello->key == server->key && hello->size >= 1 &&
         hello->size <= PLAN_RANKS_MAX && hello->rank >= 0 && hello->rank < hello->size &&
         hello->timeout_ms > 0 && hello->record_bytes <= RENDEZVOUS_RECORD_MAX;
}

static bool allocate_members(rendezvous_server_t *server, const wire_hello_t *hello) {
  size_t size = (size_t)hello->size;
  size_t bytes = sizeof(wire_answer_t) + size * hello->record_bytes;
  if (base_alloc(size, sizeof *server->members, "ranks", (void **)&server->members) != COLL_OK ||
      base_alloc(bytes, 1, "records", (void **)&server->records) != COLL_OK) {
    fail(server, COLL_ERROR_MEMORY, -1, "the rendezvous server ran out of memory");
    return false;
  }
  for (size_t rank = 0; rank < size; rank++) server->members[rank].fd = -1;
  server->size = hello->size;
  server->record_bytes = hello->record_bytes;
  server->deadline_ns = base_clock_now_ns() + (uint64_t)hello->timeout_ms * 1000000u;
  base_descriptors_make_room(size + CALLERS_MAX);
  return true;
}

/* Makes the caller a member. False: it is the reason why the rendezvous fails. */
static bool join(rendezvous_server_t *server, const caller_t *caller) {
  const wire_hello_t *hello = &caller->message.hello;
  if (server->size == 0 && !allocate_members(server, hello)) return false;
  if (hello->record_bytes != server->record_bytes) {
    fail(server, COLL_ERROR_INVALID, -1,
         "process %d and others were built with different versions of the library",
         (int)hello->pid);
    return false;
  }
  if (hello->size != server->size) {
    fail(server, COLL_ERROR_INVALID, -1,
         "the ranks disagree: process %d says there are %d, others say %d", (int)hello->pid,
         (int)hello->size, server->size);
    return false;
  }
  member_t *member = &server->members[hello->rank];
  if (member->fd >= 0) {
    fail(server, COLL_ERROR_INVALID, -1,
         "two processes, %d and %d, both call themselves rank %d: give each its own",
         (int)member->pid, (int)hello->pid, (int)hello->rank);
    return false;
  }
  uint64_t deadline_ns = base_clock_now_ns() + (uint64_t)hello->timeout_ms * 1000000u;
  if (deadline_ns < server->deadline_ns) server->deadline_ns = deadline_ns;
  if (hello->timeout_ms > server->timeout_ms) server->timeout_ms = hello->timeout_ms;
  *member = (member_t){.fd = caller->fd, .pid = hello->pid};
  memcpy(server->records + sizeof(wire_answer_t) + (size_t)hello->rank * server->record_bytes,
         caller->message.record, server->record_bytes);
  server->open_count++;
  server->joined_count++;
  return true;
}

/* Sends what the buffer of a new connection has room for. */
static bool send_at_once(int fd, const void *data, size_t bytes) {
  size_t sent = 0;
  return wire_send_some(fd, data, bytes, &sent) && sent == bytes;
}

static void hang_up_for_retry(const caller_t *caller) {
  static const wire_greeting_t retry = {.magic = WIRE_RETRY};
  (void)send_at_once(caller->fd, &retry, sizeof retry); /* else the caller retries all the same */
  close(caller->fd);
}

static bool is_rank_of(const rendezvous_server_t *server, const wire_hello_t *hello) {
  return hello->rank < server->size && hello->size == server->size;
}

static void send_failure_to(rendezvous_server_t *server, const caller_t *caller) {
  const wire_hello_t *hello = &caller->message.hello;
  bool sent = send_at_once(caller->fd, &server->verdict, sizeof server->verdict);
  close(caller->fd);
  if (sent && is_rank_of(server, hello)) server->members[hello->rank].informed = hello->pid;
}

static void answer_hello(rendezvous_server_t *server, const caller_t *caller) {
  const wire_greeting_t greeting = {.magic = WIRE_MAGIC, .pid = (int64_t)getpid()};
  const wire_hello_t *hello = &caller->message.hello;
  /* A rank that knows of the failure and calls again means the next rendezvous on this port. */
  if (is_rank_of(server, hello) && server->members[hello->rank].informed == hello->pid) {
    hang_up_for_retry(caller);
  } else if (!send_at_once(caller->fd, &greeting, sizeof greeting)) {
    close(caller->fd);
  } else if ((server->decided && hello->rank > 0) || !join(server, caller)) {
    /* rank 0 joins also after a failure: it is to get the verdict last (has_to_send) */
    send_failure_to(server, caller);
  }
}

/* The connection ended before the record was complete. Without a complete hello it may have been
 * anyone's; with one it was a rank's. */
static void lose_caller(rendezvous_server_t *server, const caller_t *caller) {
  const wire_hello_t *hello = &caller->message.hello;
  bool is_rank = caller->received >= sizeof *hello && is_valid(server, hello);
  if (is_rank && (server->size > 0 || allocate_members(server, hello))) {
    fail_died(server, hello->rank, (int)hello->pid);
    if (is_rank_of(server, hello)) server->members[hello->rank].informed = hello->pid;
  }
  close(caller->fd);
}

/* True: the hello or the record is still incomplete. */
static bool receive_hello(rendezvous_server_t *server, caller_t *caller) {
  const wire_hello_t *hello = &caller->message.hello;
  for (;;) {
    size_t wanted = sizeof *hello;
    if (caller->received >= wanted) wanted += hello->record_bytes;
    if (!wire_recv_some(caller->fd, &caller->message, wanted, &caller->received)) {
      lose_caller(server, caller);
      return false;
    }
    if (caller->received < wanted) return true;
    if (!is_valid(server, hello)) {
      close(caller->fd);
      return false;
    }
    if (caller->received < sizeof *hello + hello->record_bytes) continue;
    answer_hello(server, caller);
    return false;
  }
}

/* polls: one per caller. */
static void serve_callers(rendezvous_server_t *server, const struct pollfd polls[]) {
  int count = server->caller_count;
  server->caller_count = 0;
  for (int i = 0; i < count; i++) {
    caller_t *caller = &server->callers[i];
    if (polls[i].revents != 0 && !receive_hello(server, caller)) continue;
    int index = server->caller_count++;
    if (index != i) server->callers[index] = *caller;
  }
}

static void drop_callers(rendezvous_server_t *server, int count) {
  for (int i = 0; i < count; i++) hang_up_for_retry(&server->callers[i]);
  server->caller_count -= count;
  memmove(server->callers, server->callers + count,
          (size_t)server->caller_count * sizeof *server->callers);
}

static void accept_caller(rendezvous_server_t *server) {
  int on = 1;
  if (server->caller_count == CALLERS_MAX) drop_callers(server, 1);
  int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  server->starved = fd < 0 && (errno == EMFILE || errno == ENFILE);
  if (fd >= 0) {
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    server->callers[server->caller_count++] = (caller_t){.fd = fd};
  } else if (server->starved && server->caller_count > 0) {
    drop_callers(server, 1);
  } else if (errno != EAGAIN) {
    base_clock_sleep_ns(NO_ROOM_NS);
  }
}

/* ---- members --------------------------------------------------------------------------------*/

/* Unread bytes are taken out first: closing over them would reset the connection, and the verdict
 * could be lost on its way. */
static void close_member(rendezvous_server_t *server, member_t *member) {
  char unread[256];
  while (recv(member->fd, unread, sizeof unread, MSG_DONTWAIT) > 0) continue;
  close(member->fd);
  member->fd = -1;
  server->open_count--;
}

static bool has_to_send(const rendezvous_server_t *server, int rank) {
  const member_t *member = &server->members[rank];
  if (member->records_sent < server->records_bytes) return true;
  /* The server may run in rank 0's process, which may exit once it has the verdict. */
  return server->decided && (rank > 0 || (server->open_count == 1 && !server->holds_rank0));
}

static void send_to_member(rendezvous_server_t *server, int rank) {
  member_t *member = &server->members[rank];
  bool open =
      wire_send_some(member->fd, server->records, server->records_bytes, &member->records_sent);
  if (open && member->records_sent < server->records_bytes) return;
  if (open && !server->decided) return;
  if (open && has_to_send(server, rank)) {
    open =
        wire_send_some(member->fd, &server->verdict, sizeof server->verdict, &member->verdict_sent);
  }
  if (open && member->verdict_sent < sizeof server->verdict) return;
  if (!open && !server->decided) fail_died(server, rank, (int)member->pid);
  member->informed = member->pid;
  close_member(server, member);
}

/* A rank of this process: its pid is this process's. Ranks of other hosts may have the same. */
static int server_rank_of(const rendezvous_server_t *server) {
  for (int rank = 0; rank < server->size; rank++) {
    if (server->members[rank].pid == (int32_t)getpid()) return rank;
  }
  return -1;
}

static void take_report(rendezvous_server_t *server, int rank, member_t *member) {
  wire_report_t *report = &member->report;
  report->text[sizeof report->text - 1] = '\0';
  switch (report->status) {
    case COLL_OK:
      member->reported = true;
      if (++server->reported_count == server->size) server->decided = true;
      break;
    case COLL_ERROR_TIMEOUT:
    case COLL_ERROR_RANK_LOST: /* both name the rank that is to blame, which is not the reporter */
      fail(server, (coll_status_t)report->status, -1, "%s", report->text);
      break;
    default:
      fail(server, COLL_ERROR_RANK_LOST, rank,
           "rank %d (pid %d) could not make the communicator: %s", rank, (int)member->pid,
           report->text);
  }
}

/* A member sends nothing but its report, once. */
static void receive_from_member(rendezvous_server_t *server, int rank) {
  member_t *member = &server->members[rank];
  char surplus;
  bool open = member->reported ? recv(member->fd, &surplus, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN
                               : wire_recv_some(member->fd, &member->report, sizeof member->report,
                                                &member->report_received);
  if (!open) {
    fail_died(server, rank, (int)member->pid);
    member->informed = member->pid;
    close_member(server, member);
  } else if (!member->reported && member->report_received == sizeof member->report) {
    take_report(server, rank, member);
  }
}

static void serve_members(rendezvous_server_t *server, int count, const struct pollfd polls[]) {
  for (int i = 0; i < count; i++) {
    int rank = server->polled[i];
    member_t *member = &server->members[rank];
    if (polls[i].revents == 0) continue;
    bool broken = server->decided && (polls[i].revents & (POLLERR | POLLHUP)) != 0;
    if (!server->decided) receive_from_member(server, rank);
    if (member->fd >= 0 && has_to_send(server, rank)) send_to_member(server, rank);
    if (member->fd >= 0 && broken) close_member(server, member);
  }
}

/* ---- the poll loop --------------------------------------------------------------------------*/

typedef struct poll_counts {
  int members, callers, all;
} poll_counts_t;

/* Members, then callers, then the listener. */
static coll_status_t fill_polls(rendezvous_server_t *server, poll_counts_t *counts) {
  size_t most = (size_t)(server->open_count + server->caller_count + 1);
  COLL_TRY(base_grow((void **)&server->polls, &server->poll_capacity, most, sizeof *server->polls,
                     "polls"));
  COLL_TRY(base_grow((void **)&server->polled, &server->polled_capacity, most,
                     sizeof *server->polled, "ranks that are polled"));
  *counts = (poll_counts_t){.callers = server->caller_count};
  struct pollfd *next = server->polls;
  for (int rank = 0; rank < server->size; rank++) {
    int fd = server->members[rank].fd;
    if (fd < 0) continue;
    short events = server->decided ? 0 : POLLIN;
    if (has_to_send(server, rank)) events |= POLLOUT;
    server->polled[counts->members++] = rank;
    *next++ = (struct pollfd){.fd = fd, .events = events};
  }
  for (int i = 0; i < counts->callers; i++) {
    *next++ = (struct pollfd){.fd = server->callers[i].fd, .events = POLLIN};
  }
  if (server->listener >= 0) {
    *next++ = (struct pollfd){.fd = server->listener, .events = POLLIN};
  }
  counts->all = (int)(next - server->polls);
  return COLL_OK;
}

/* Waits for events and serves them. False: there were none before the deadline, or polling failed.
 */
static bool serve_once(rendezvous_server_t *server, uint64_t deadline_ns) {
  poll_counts_t counts;
  if (fill_polls(server, &counts) != COLL_OK) {
    fail(server, COLL_ERROR_MEMORY, -1, "the rendezvous server ran out of memory");
    return false;
  }
  const struct pollfd *polls = server->polls;
  int found = poll(server->polls, (nfds_t)counts.all, base_deadline_left_ms(deadline_ns));
  if (found < 0 && errno == EINTR) return true;
  if (found < 0) {
    fail(server, COLL_ERROR_SYSTEM, -1, "the rendezvous server cannot poll: %s", strerror(errno));
  }
  if (found <= 0) return false;
  serve_members(server, counts.members, polls);
  serve_callers(server, polls + counts.members);
  bool called = counts.all > counts.members + counts.callers && polls[counts.all - 1].revents != 0;
  if (called) accept_caller(server);
  return true;
}

static void fail_missing(rendezvous_server_t *server) {
  char list[200] = "";
  size_t used = 0;
  for (int rank = 0; rank < server->size && used < sizeof list - 16; rank++) {
    if (server->members[rank].fd >= 0) continue;
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%d", used > 0 ? ", " : "", rank);
  }
  fail(server, COLL_ERROR_TIMEOUT, -1, "%d of %d ranks did not join in time (missing: %s): %s",
       server->size - server->joined_count, server->size, list,
       server->starved ? "may rank 0's process open more files (ulimit -n)?"
                       : "were they all started?");
}

static void await_joins(rendezvous_server_t *server) {
  while (!server->decided && (server->size == 0 || server->joined_count < server->size)) {
    bool served = serve_once(server, server->deadline_ns);
    if (!served && server->size == 0) return;
    bool late = !served || base_clock_now_ns() >= server->deadline_ns;
    if (late && server->joined_count < server->size) fail_missing(server);
  }
}

static void stop_listening(rendezvous_server_t *server) {
  if (server->listener >= 0) close(server->listener);
  server->listener = -1;
  drop_callers(server, server->caller_count);
}

static void fail_unreported(rendezvous_server_t *server) {
  for (int rank = 0; rank < server->size; rank++) {
    if (server->members[rank].reported) continue;
    fail(server, COLL_ERROR_TIMEOUT, rank,
         "rank %d (pid %d) joined, but did not make the communicator in time: is it stopped?", rank,
         (int)server->members[rank].pid);
  }
}

static void await_reports(rendezvous_server_t *server) {
  wire_answer_t answer = {
      .session = server->verdict.session, .server_rank = server_rank_of(server), .status = COLL_OK};
  stop_listening(server);
  memcpy(server->records, &answer, sizeof answer);
  server->records_bytes = sizeof answer + (size_t)server->size * server->record_bytes;
  server->deadline_ns =
      base_clock_now_ns() + (uint64_t)server->timeout_ms * 1000000u + REPORT_SLACK_NS;
  while (!server->decided && serve_once(server, server->deadline_ns)) {
    if (base_clock_now_ns() >= server->deadline_ns) break;
  }
  if (!server->decided) fail_unreported(server);
}

/* All but rank 0 where it has joined and is still connected. */
static bool all_are_informed(const rendezvous_server_t *server) {
  for (int rank = 0; rank < server->size; rank++) {
    const member_t *member = &server->members[rank];
    if (member->informed == 0 && (rank > 0 || member->fd < 0)) return false;
  }
  return true;
}

static void linger_until(rendezvous_server_t *server, uint64_t end_ns) {
  while (!all_are_informed(server) && base_clock_now_ns() < end_ns && serve_once(server, end_ns)) {
    continue;
  }
}

/* Late ranks are told of the failure when they call. */
static void linger(rendezvous_server_t *server) {
  server->holds_rank0 = true;
  linger_until(server, base_clock_now_ns() + RENDEZVOUS_LINGER_NS);
  server->holds_rank0 = false;
  if (server->own_port) linger_until(server, server->deadline_ns);
}

static void send_verdict(rendezvous_server_t *server) {
  uint64_t patience_ns = has_failed(server) ? FAILING_NS : SENDING_NS;
  while (server->open_count > 0 && serve_once(server, base_clock_now_ns() + patience_ns)) continue;
  /* Where some take in nothing, the others have had the verdict, but for rank 0, the last one. */
  for (int rank = server->size - 1; rank >= 0; rank--) {
    member_t *member = &server->members[rank];
    uint64_t deadline_ns = base_clock_now_ns() + (rank == 0 ? patience_ns : 0);
    while (member->fd >= 0 && base_deadline_poll(member->fd, POLLOUT, deadline_ns)) {
      send_to_member(server, rank);
    }
    if (member->fd >= 0) close_member(server, member);
  }
}

void rendezvous_server_run(rendezvous_server_t *server) {
  await_joins(server);
  if (server->size == 0) return;
  if (!server->decided) await_reports(server);
  if (server->listener >= 0) linger(server);
  send_verdict(server);
}

coll_status_t rendezvous_server_create(int listener, uint64_t key, bool own_port,
                                       rendezvous_server_t **server) {
  rendezvous_server_t *made = NULL;
  COLL_TRY(base_alloc(1, sizeof *made, "a rendezvous server", (void **)&made));
  made->listener = listener;
  (void)fcntl(listener, F_SETFL, O_NONBLOCK); /* a caller may be gone before it is accepted */
  made->key = key;
  made->own_port = own_port;
  made->deadline_ns = base_clock_now_ns() + UNUSED_NS;
  if (getrandom(&made->verdict.session, sizeof(uint64_t), 0) != (ssize_t)sizeof(uint64_t)) {
    coll_status_t status = base_fail_errno(COLL_ERROR_SYSTEM, "no random number for a rendezvous");
    free(made);
    return status;
  }
  *server = made;
  return COLL_OK;
}

void rendezvous_server_destroy(rendezvous_server_t *server) {
  stop_listening(server);
  for (int rank = 0; rank < server->size; rank++) {
    if (server->members[rank].fd >= 0) close(server->members[rank].fd);
  }
  free(server->members);
  free(server->records);
  free(server->polls);
  free(server->polled);
  free(server);
}

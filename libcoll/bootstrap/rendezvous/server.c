/*
 * One poll loop serves all connections, so that no slow or silent one delays another. A connection
 * is a caller until its hello and record are complete, then a member. The first rank to join states
 * the number of ranks. When all have joined, the listening socket is closed before anyone is
 * answered, so that ranks of the next rendezvous on the same port cannot reach this server.
 */
#include "bootstrap/rendezvous/server.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/deadline.h"
#include "base/net/socket.h"
#include "bootstrap/rendezvous/server_state.h"

#define UNUSED_NS 3600000000000u   /* lifetime of a server that no rank joins */
#define SENDING_NS 5000000000u     /* with no member taking in anything, sending is given up */
#define FAILING_NS 500000000u      /* the same once the rendezvous has failed */
#define REPORT_SLACK_NS 1000000000 /* the ranks' own timeouts come first */

void rendezvous_server_fail(rendezvous_server_t *server, coll_status_t status, int rank,
                            const char *format, ...) {
  if (server->decided) return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(server->verdict.text, sizeof server->verdict.text, format, arguments);
  va_end(arguments);
  server->verdict.status = (int32_t)status;
  server->verdict.failed_rank = rank;
  server->decided = true;
}

void rendezvous_server_fail_died(rendezvous_server_t *server, int rank, int pid) {
  rendezvous_server_fail(server, COLL_ERROR_RANK_LOST, rank,
                         "rank %d (pid %d) died while the communicator was being made", rank, pid);
}

static bool has_failed(const rendezvous_server_t *server) {
  return server->decided && server->verdict.status != COLL_OK;
}

/* ---- members --------------------------------------------------------------------------------*/

/* Unread bytes are taken out first: closing over them would reset the connection, and the verdict
 * could be lost on its way. */
static void close_member(rendezvous_server_t *server, rendezvous_member_t *member) {
  char unread[256];
  while (recv(member->fd, unread, sizeof unread, MSG_DONTWAIT) > 0) continue;
  base_socket_close(member->fd);
  member->fd = -1;
  server->open_count--;
}

static bool has_to_send(const rendezvous_server_t *server, int rank) {
  const rendezvous_member_t *member = &server->members[rank];
  if (member->records_sent < server->records_bytes) return true;
  /* The server may run in rank 0's process, which may exit once it has the verdict. */
  return server->decided && (rank > 0 || (server->open_count == 1 && !server->holds_rank0));
}

static void send_to_member(rendezvous_server_t *server, int rank) {
  rendezvous_member_t *member = &server->members[rank];
  bool open =
      wire_send_some(member->fd, server->records, server->records_bytes, &member->records_sent);
  if (open && member->records_sent < server->records_bytes) return;
  if (open && !server->decided) return;
  if (open && has_to_send(server, rank)) {
    open =
        wire_send_some(member->fd, &server->verdict, sizeof server->verdict, &member->verdict_sent);
  }
  if (open && member->verdict_sent < sizeof server->verdict) return;
  if (!open && !server->decided) rendezvous_server_fail_died(server, rank, (int)member->pid);
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

static void take_report(rendezvous_server_t *server, int rank, rendezvous_member_t *member) {
  wire_report_t *report = &member->report;
  report->text[sizeof report->text - 1] = '\0';
  switch (report->status) {
    case COLL_OK:
      if (!member->reported) server->reported_count++;
      member->reported = true;
      if (server->reported_count == server->size) server->decided = true;
      break;
    case COLL_ERROR_TIMEOUT:
    case COLL_ERROR_RANK_LOST: /* both name the rank that is to blame, which is not the reporter */
      rendezvous_server_fail(server, (coll_status_t)report->status, -1, "%s", report->text);
      break;
    default:
      rendezvous_server_fail(server, COLL_ERROR_RANK_LOST, rank,
                             "rank %d (pid %d) could not make the communicator: %s", rank,
                             (int)member->pid, report->text);
  }
}

/* A member sends nothing but its report; and a second one if it is cancelled after success. */
static void receive_from_member(rendezvous_server_t *server, int rank) {
  rendezvous_member_t *member = &server->members[rank];
  bool open =
      wire_recv_some(member->fd, &member->report, sizeof member->report, &member->report_received);
  if (!open) {
    rendezvous_server_fail_died(server, rank, (int)member->pid);
    member->informed = member->pid;
    close_member(server, member);
  } else if (member->report_received == sizeof member->report) {
    member->report_received = 0;
    take_report(server, rank, member);
  }
}

/* From both ends in turn: launchers bind neighbours to the same core, and of many ranks, those on
 * all cores should go on while others are sent their records. */
static void serve_members(rendezvous_server_t *server, int count, const struct pollfd polls[]) {
  for (int turn = 0; turn < count; turn++) {
    int i = turn % 2 == 0 ? turn / 2 : count - 1 - turn / 2;
    int rank = server->polled[i];
    rendezvous_member_t *member = &server->members[rank];
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

/* Members, then callers, then strangers. Lowers *due_ns to when to serve strangers in any case. */
static coll_status_t fill_polls(rendezvous_server_t *server, poll_counts_t *counts,
                                uint64_t *due_ns) {
  size_t most = (size_t)server->open_count + RENDEZVOUS_CALLERS_MAX + 1;
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
  next += base_strangers_poll(&server->strangers, counts->callers, next, due_ns);
  counts->all = (int)(next - server->polls);
  return COLL_OK;
}

/* Waits for events and serves them. False: there were none before the deadline, or polling failed.
 */
static bool serve_once(rendezvous_server_t *server, uint64_t deadline_ns) {
  poll_counts_t counts;
  uint64_t due_ns = deadline_ns;
  if (fill_polls(server, &counts, &due_ns) != COLL_OK) {
    rendezvous_server_fail(server, COLL_ERROR_MEMORY, -1,
                           "the rendezvous server ran out of memory");
    return false;
  }
  const struct pollfd *polls = server->polls;
  bool found = base_deadline_poll_any(server->polls, (nfds_t)counts.all, due_ns);
  bool is_broken = !found && base_deadline_left_ns(due_ns) > 0;
  if (is_broken) {
    rendezvous_server_fail(server, COLL_ERROR_SYSTEM, -1, "the rendezvous server cannot poll: %s",
                           strerror(errno));
  }
  if (is_broken || (!found && due_ns == deadline_ns)) return false;
  serve_members(server, counts.members, polls);
  rendezvous_callers_serve(server, polls + counts.members);
  base_strangers_serve(&server->strangers, polls + counts.members + counts.callers);
  return true;
}

static void fail_missing(rendezvous_server_t *server) {
  int error = server->strangers.error;
  bool is_starved = error == EMFILE || error == ENFILE;
  char list[200] = "";
  size_t used = 0;
  for (int rank = 0; rank < server->size && used < sizeof list - 16; rank++) {
    if (server->members[rank].fd >= 0) continue;
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%d", used > 0 ? ", " : "", rank);
  }
  rendezvous_server_fail(
      server, COLL_ERROR_TIMEOUT, -1, "%d of %d ranks did not join in time (missing: %s): %s",
      server->size - server->joined_count, server->size, list,
      is_starved ? "may rank 0's process open more files (ulimit -n)?" : "were they all started?");
}

static void await_joins(rendezvous_server_t *server) {
  while (!server->decided && (server->size == 0 || server->joined_count < server->size)) {
    bool served = serve_once(server, server->deadline_ns);
    if (!served && server->size == 0) return;
    bool late = !served || base_clock_now_ns() >= server->deadline_ns;
    if (late && server->joined_count < server->size) fail_missing(server);
  }
}

static void fail_unreported(rendezvous_server_t *server) {
  for (int rank = 0; rank < server->size; rank++) {
    if (server->members[rank].reported) continue;
    rendezvous_server_fail(
        server, COLL_ERROR_TIMEOUT, rank,
        "rank %d (pid %d) joined, but did not make the communicator in time: is it stopped?", rank,
        (int)server->members[rank].pid);
  }
}

static void await_reports(rendezvous_server_t *server) {
  wire_answer_t answer = {
      .session = server->verdict.session, .server_rank = server_rank_of(server), .status = COLL_OK};
  rendezvous_callers_drop_all(server);
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
    const rendezvous_member_t *member = &server->members[rank];
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
    rendezvous_member_t *member = &server->members[rank];
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
  if (server->strangers.listener >= 0) linger(server);
  send_verdict(server);
}

coll_status_t rendezvous_server_create(int listener, const rendezvous_address_t *address,
                                       bool own_port, rendezvous_server_t **server) {
  rendezvous_server_t *made = NULL;
  coll_status_t status = COLL_OK;
  COLL_TRY(base_alloc(1, sizeof *made, "a rendezvous server", (void **)&made));
  made->secret = address->secret;
  rendezvous_purpose(address, made->purpose);
  made->own_port = own_port;
  made->deadline_ns = base_clock_now_ns() + UNUSED_NS;
  if (getrandom(&made->verdict.session, sizeof(uint64_t), 0) != (ssize_t)sizeof(uint64_t)) {
    status = base_fail_errno(COLL_ERROR_SYSTEM, "no random number for a rendezvous");
  }
  if (status == COLL_OK) status = rendezvous_callers_listen(made, listener);
  if (status == COLL_OK) {
    *server = made;
  } else {
    free(made);
  }
  return status;
}

void rendezvous_server_destroy(rendezvous_server_t *server) {
  rendezvous_callers_drop_all(server);
  for (int rank = 0; rank < server->size; rank++) {
    if (server->members[rank].fd >= 0) base_socket_close(server->members[rank].fd);
  }
  base_secret_wipe(&server->secret);
  free(server->members);
  free(server->records);
  free(server->polls);
  free(server->polled);
  free(server);
}

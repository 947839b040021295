/*
 * Nothing that a caller sends is looked at before the handshake. A hello is received before its
 * record, whose size it states. Ranks send the handshake as soon as they are connected and answer
 * at once; so when there is no room, those that have sent nothing are the first to go.
 */
#include "bootstrap/rendezvous/callers.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "base/net/socket.h"
#include "plan/plan.h"

#define SILENT_NS 20000000u     /* without a word, after which a caller may be hung up on */
#define UNPROVEN_NS 1000000000u /* the same without a proof that it knows the secret */
#define NO_ROOM_NS 10000000u    /* pause when the process has no descriptor left */

static bool is_valid(const wire_hello_t *hello) {
  return (hello->magic == WIRE_MAGIC || hello->magic == WIRE_GIVES_UP) && hello->size >= 1 &&
         hello->size <= PLAN_RANKS_MAX && hello->rank >= 0 && hello->rank < hello->size &&
         hello->timeout_ms > 0 && hello->record_bytes <= RENDEZVOUS_RECORD_MAX;
}

static bool allocate_members(rendezvous_server_t *server, const wire_hello_t *hello) {
  size_t size = (size_t)hello->size;
  size_t bytes = sizeof(wire_answer_t) + size * hello->record_bytes;
  if (base_alloc(size, sizeof *server->members, "ranks", (void **)&server->members) != COLL_OK ||
      base_alloc(bytes, 1, "records", (void **)&server->records) != COLL_OK) {
    free(server->members); /* size stays 0: the next caller allocates again */
    server->members = NULL;
    rendezvous_server_fail(server, COLL_ERROR_MEMORY, -1,
                           "the rendezvous server ran out of memory");
    return false;
  }
  for (size_t rank = 0; rank < size; rank++) server->members[rank].fd = -1;
  server->size = hello->size;
  server->record_bytes = hello->record_bytes;
  server->deadline_ns = base_clock_now_ns() + (uint64_t)hello->timeout_ms * 1000000u;
  base_descriptors_make_room(size + RENDEZVOUS_CALLERS_MAX);
  return true;
}

/* Makes the caller a member. False: it is the reason why the rendezvous fails. */
static bool join(rendezvous_server_t *server, const rendezvous_caller_t *caller) {
  const wire_hello_t *hello = &caller->message.hello;
  if (server->size == 0 && !allocate_members(server, hello)) return false;
  if (hello->record_bytes != server->record_bytes) {
    rendezvous_server_fail(
        server, COLL_ERROR_INVALID, -1,
        "process %d and others were built with different versions of the library", (int)hello->pid);
    return false;
  }
  if (hello->size != server->size) {
    rendezvous_server_fail(server, COLL_ERROR_INVALID, -1,
                           "the ranks disagree: process %d says there are %d, others say %d",
                           (int)hello->pid, (int)hello->size, server->size);
    return false;
  }
  rendezvous_member_t *member = &server->members[hello->rank];
  if (member->fd >= 0) {
    rendezvous_server_fail(
        server, COLL_ERROR_INVALID, -1,
        "two processes, %d and %d, both call themselves rank %d: give each its own",
        (int)member->pid, (int)hello->pid, (int)hello->rank);
    return false;
  }
  uint64_t deadline_ns = base_clock_now_ns() + (uint64_t)hello->timeout_ms * 1000000u;
  if (deadline_ns < server->deadline_ns) server->deadline_ns = deadline_ns;
  if (hello->timeout_ms > server->timeout_ms) server->timeout_ms = hello->timeout_ms;
  *member = (rendezvous_member_t){.fd = caller->fd, .pid = hello->pid};
  memcpy(server->records + sizeof(wire_answer_t) + (size_t)hello->rank * server->record_bytes,
         caller->message.record, server->record_bytes);
  server->open_count++;
  server->joined_count += hello->magic == WIRE_MAGIC;
  return true;
}

/* Sends what the buffer of a new connection has room for. */
static bool send_at_once(int fd, const void *data, size_t bytes) {
  size_t sent = 0;
  return wire_send_some(fd, data, bytes, &sent) && sent == bytes;
}

static void hang_up_for_retry(const rendezvous_caller_t *caller) {
  static const wire_greeting_t retry = {.magic = WIRE_RETRY};
  base_handshake_decline(&caller->handshake, caller->fd);
  if (caller->handshake.has_answered)
    (void)send_at_once(caller->fd, &retry, sizeof retry); /* else the caller retries all the same */
  base_socket_close(caller->fd);
}

static bool is_rank_of(const rendezvous_server_t *server, const wire_hello_t *hello) {
  return hello->rank < server->size && hello->size == server->size;
}

static void send_failure_to(rendezvous_server_t *server, const rendezvous_caller_t *caller) {
  const wire_hello_t *hello = &caller->message.hello;
  bool sent = send_at_once(caller->fd, &server->verdict, sizeof server->verdict);
  base_socket_close(caller->fd);
  if (sent && is_rank_of(server, hello)) server->members[hello->rank].informed = hello->pid;
}

static void answer_hello(rendezvous_server_t *server, const rendezvous_caller_t *caller) {
  const wire_greeting_t greeting = {.magic = WIRE_MAGIC, .pid = (int64_t)getpid()};
  const wire_hello_t *hello = &caller->message.hello;
  /* A rank that knows of the failure and calls again means the next rendezvous on this port. */
  if (is_rank_of(server, hello) && server->members[hello->rank].informed == hello->pid) {
    hang_up_for_retry(caller);
  } else if (!send_at_once(caller->fd, &greeting, sizeof greeting)) {
    base_socket_close(caller->fd);
  } else if ((server->decided && hello->rank > 0) || !join(server, caller)) {
    /* rank 0 joins also after a failure: it is to get the verdict last (has_to_send) */
    send_failure_to(server, caller);
  }
}

/* The connection ended before the record was complete. Without a complete hello it may have been
 * anyone's; with one it was a rank's. */
static void lose_caller(rendezvous_server_t *server, const rendezvous_caller_t *caller) {
  const wire_hello_t *hello = &caller->message.hello;
  bool is_rank = caller->received >= sizeof *hello && is_valid(hello);
  if (is_rank && (server->size > 0 || allocate_members(server, hello))) {
    rendezvous_server_fail_died(server, hello->rank, (int)hello->pid);
    if (is_rank_of(server, hello)) server->members[hello->rank].informed = hello->pid;
  }
  base_socket_close(caller->fd);
}

/* True: the handshake is under way. */
static bool continue_handshake(rendezvous_caller_t *caller) {
  base_handshake_state_t state = base_handshake_continue(&caller->handshake, caller->fd);
  caller->is_known = state == BASE_HANDSHAKE_DONE;
  if (state == BASE_HANDSHAKE_UNDER_WAY || caller->is_known) return !caller->is_known;
  base_socket_close(caller->fd);
  caller->fd = -1;
  return false;
}

/* True: the hello or the record is still incomplete. */
static bool receive_hello(rendezvous_server_t *server, rendezvous_caller_t *caller) {
  const wire_hello_t *hello = &caller->message.hello;
  for (;;) {
    size_t wanted = sizeof *hello;
    if (caller->received >= wanted) wanted += hello->record_bytes;
    if (!wire_recv_some(caller->fd, &caller->message, wanted, &caller->received)) {
      lose_caller(server, caller);
      return false;
    }
    if (caller->received < wanted) return true;
    if (!is_valid(hello)) {
      base_socket_close(caller->fd);
      return false;
    }
    if (caller->received < sizeof *hello + hello->record_bytes) continue;
    answer_hello(server, caller);
    return false;
  }
}

/* True: more is to arrive. */
static bool receive(rendezvous_server_t *server, rendezvous_caller_t *caller) {
  if (!caller->is_known && continue_handshake(caller)) return true;
  return caller->fd >= 0 && receive_hello(server, caller);
}

void rendezvous_callers_serve(rendezvous_server_t *server, const struct pollfd polls[]) {
  int count = server->caller_count;
  server->caller_count = 0;
  for (int i = 0; i < count; i++) {
    rendezvous_caller_t *caller = &server->callers[i];
    if (polls[i].revents != 0 && !receive(server, caller)) continue;
    int index = server->caller_count++;
    if (index != i) server->callers[index] = *caller;
  }
}

void rendezvous_callers_drop_all(rendezvous_server_t *server) {
  for (int i = 0; i < server->caller_count; i++) hang_up_for_retry(&server->callers[i]);
  server->caller_count = 0;
}

static void drop(rendezvous_server_t *server, int index) {
  rendezvous_caller_t *caller = &server->callers[index];
  hang_up_for_retry(caller);
  server->caller_count--;
  memmove(caller, caller + 1, (size_t)(server->caller_count - index) * sizeof *caller);
}

/* The first that may be hung up on; -1: none. */
static int find_stranger(const rendezvous_server_t *server) {
  uint64_t now_ns = base_clock_now_ns();
  for (int i = 0; i < server->caller_count; i++) {
    const rendezvous_caller_t *caller = &server->callers[i];
    uint64_t allowed_ns = caller->handshake.has_answered ? UNPROVEN_NS : SILENT_NS;
    if (!caller->is_known && now_ns > caller->since_ns + allowed_ns) return i;
  }
  return -1;
}

bool rendezvous_callers_have_room(const rendezvous_server_t *server) {
  return server->caller_count < RENDEZVOUS_CALLERS_MAX || find_stranger(server) >= 0;
}

void rendezvous_callers_accept(rendezvous_server_t *server) {
  int on = 1;
  if (server->caller_count == RENDEZVOUS_CALLERS_MAX) {
    int stranger = find_stranger(server);
    if (stranger < 0) return;
    drop(server, stranger);
  }
  int fd = base_socket_accept(server->listener);
  server->starved = fd < 0 && (errno == EMFILE || errno == ENFILE);
  if (fd >= 0) {
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    rendezvous_caller_t *caller = &server->callers[server->caller_count++];
    *caller = (rendezvous_caller_t){.fd = fd, .since_ns = base_clock_now_ns()};
    base_handshake_begin_listener(&caller->handshake, &server->secret, server->purpose);
  } else if (server->starved && server->caller_count > 0) {
    drop(server, 0);
  } else if (errno != EAGAIN) {
    base_clock_sleep_ns(NO_ROOM_NS);
  }
}

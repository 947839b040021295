/* A hello is received before its record, whose size it states. */
#include "bootstrap/rendezvous/server_state.h"

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

static const wire_greeting_t retry = {.magic = WIRE_RETRY};

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
  (void)send_at_once(caller->fd, &retry, sizeof retry); /* else it calls again all the same */
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

void rendezvous_callers_serve(rendezvous_server_t *server, const struct pollfd polls[]) {
  int count = server->caller_count;
  server->caller_count = 0;
  for (int i = 0; i < count; i++) {
    rendezvous_caller_t *caller = &server->callers[i];
    if (polls[i].revents != 0 && !receive_hello(server, caller)) continue;
    int index = server->caller_count++;
    if (index != i) server->callers[index] = *caller;
  }
}

/* There is room: strangers.max. */
static void admit(void *owner, int fd) {
  rendezvous_server_t *server = owner;
  rendezvous_caller_t *caller = &server->callers[server->caller_count];
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  caller->fd = fd;
  caller->received = 0;
  if (receive_hello(server, caller)) server->caller_count++;
}

coll_status_t rendezvous_callers_listen(rendezvous_server_t *server, int listener) {
  server->strangers = (base_strangers_t){.listener = listener,
                                         .secret = &server->secret,
                                         .purpose = server->purpose,
                                         .retry = &retry,
                                         .retry_bytes = sizeof retry,
                                         .limit_ns = UINT64_MAX,
                                         .max = RENDEZVOUS_CALLERS_MAX,
                                         .admit = admit,
                                         .owner = server};
  return base_strangers_init(&server->strangers);
}

void rendezvous_callers_drop_all(rendezvous_server_t *server) {
  base_strangers_close(&server->strangers);
  for (int i = 0; i < server->caller_count; i++) hang_up_for_retry(&server->callers[i]);
  server->caller_count = 0;
}

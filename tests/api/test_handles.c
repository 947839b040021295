/*
 * Handles that are none: every function that takes one refuses NULL, a destroyed one, one of
 * another kind and a random one with a sentence, and reads nothing where there may be no memory.
 */
#include <coll.h>
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "verify/random.h"

/* Live ones of all kinds, and destroyed ones. */
typedef struct handles {
  coll_comm_t comm, ended_comm;
  coll_stream_t stream, ended_stream;
  coll_registration_t registration, ended_registration;
  coll_window_t window, ended_window, orphan; /* orphan: of a destroyed communicator */
} handles_t;

#define OK(call) cr_assert_eq(call, COLL_OK, "%s: %s", #call, coll_last_error(NULL))

static char memory[4096];

static handles_t make_handles(void) {
  handles_t h;
  OK(coll_comm_create_local(1, NULL, &h.comm));
  OK(coll_comm_create_local(1, NULL, &h.ended_comm));
  OK(coll_window_create(h.ended_comm, memory, sizeof memory, &h.orphan));
  OK(coll_comm_destroy(h.ended_comm));
  OK(coll_stream_create(&h.stream));
  OK(coll_stream_create(&h.ended_stream));
  OK(coll_stream_destroy(h.ended_stream));
  OK(coll_mem_register(h.comm, memory, sizeof memory, &h.registration));
  OK(coll_mem_register(h.comm, memory, sizeof memory, &h.ended_registration));
  OK(coll_mem_deregister(h.ended_registration));
  OK(coll_window_create(h.comm, memory, sizeof memory, &h.window));
  OK(coll_window_create(h.comm, memory, sizeof memory, &h.ended_window));
  OK(coll_window_destroy(h.ended_window));
  return h;
}

static void destroy_handles(const handles_t *h) {
  float number = 1;
  OK(coll_allreduce(&number, &number, 1, COLL_FLOAT32, COLL_SUM, h->comm, h->stream));
  OK(coll_stream_destroy(h->stream));
  OK(coll_mem_deregister(h->registration));
  OK(coll_window_destroy(h->window));
  OK(coll_comm_destroy(h->comm));
}

/* ---- functions --------------------------------------------------------------------------------*/

typedef coll_status_t (*user_t)(void *handle);

static float number[4];
static int count;

#define COLLECTIVE(name, ...)                                 \
  static coll_status_t name(void *comm) {                     \
    return coll_##name(__VA_ARGS__, (coll_comm_t)comm, NULL); \
  }

COLLECTIVE(allreduce, number, number, 1, COLL_FLOAT32, COLL_SUM)
COLLECTIVE(reduce, number, number, 1, COLL_FLOAT32, COLL_SUM, 0)
COLLECTIVE(reduce_scatter, number, number, 1, COLL_FLOAT32, COLL_SUM)
COLLECTIVE(allgather, number, number, 1, COLL_FLOAT32)
COLLECTIVE(broadcast, number, number, 1, COLL_FLOAT32, 0)
COLLECTIVE(gather, number, number, 1, COLL_FLOAT32, 0)
COLLECTIVE(scatter, number, number, 1, COLL_FLOAT32, 0)
COLLECTIVE(alltoall, number, number + 1, 1, COLL_FLOAT32)
COLLECTIVE(send, number, 1, COLL_FLOAT32, 0)
COLLECTIVE(recv, number, 1, COLL_FLOAT32, 0)

static coll_status_t barrier(void *comm) {
  return coll_barrier(comm, NULL);
}
static coll_status_t rank_of(void *comm) {
  return coll_comm_rank(comm, &count);
}
static coll_status_t size_of(void *comm) {
  return coll_comm_size(comm, &count);
}
static coll_status_t route_of(void *comm) {
  const char *route;
  return coll_comm_route(comm, 0, &route);
}
static coll_status_t error_of(void *comm) {
  return coll_comm_error(comm);
}
static coll_status_t failed_rank_of(void *comm) {
  return coll_comm_failed_rank(comm, &count);
}
static coll_status_t abort_comm(void *comm) {
  return coll_comm_abort(comm);
}
static coll_status_t dump(void *comm) {
  return coll_comm_dump(comm, "/nonexistent/dump");
}
static coll_status_t set_progress(void *comm) {
  return coll_comm_set_progress(comm, NULL, NULL);
}
static coll_status_t finalize(void *comm) {
  return coll_comm_finalize(comm);
}
static coll_status_t destroy_comm(void *comm) {
  return comm == NULL ? COLL_ERROR_INVALID : coll_comm_destroy(comm); /* as free(NULL) */
}
static coll_status_t split(void *comm) {
  coll_comm_t child;
  return coll_comm_split(comm, 0, 0, NULL, &child);
}
static coll_status_t set_algo(void *comm) {
  return coll_comm_algo_set(comm, COLL_ALLREDUCE, NULL);
}
static coll_status_t create_premul(void *comm) {
  coll_op_t op;
  return coll_op_create_premul_sum(number, COLL_FLOAT32, COLL_SCALAR_HOST_IMMEDIATE, comm, &op);
}
static coll_status_t destroy_op(void *comm) {
  return coll_op_destroy(COLL_OP_CREATED_MIN, comm);
}
static coll_status_t register_memory(void *comm) {
  coll_registration_t made;
  return coll_mem_register(comm, memory, sizeof memory, &made);
}
static coll_status_t create_window(void *comm) {
  coll_window_t made;
  return coll_window_create(comm, memory, sizeof memory, &made);
}

static const user_t of_comms[] = {
    allreduce,    reduce,          reduce_scatter, allgather,  broadcast,      gather,
    scatter,      alltoall,        send,           recv,       barrier,        rank_of,
    size_of,      route_of,        error_of,       abort_comm, failed_rank_of, dump,
    set_progress, finalize,        destroy_comm,   split,      create_premul,  set_algo,
    destroy_op,   register_memory, create_window};

static coll_comm_t live_comm;

static coll_status_t call_on_stream(void *stream) {
  if (stream == NULL) return COLL_ERROR_INVALID; /* the call then waits */
  return coll_allreduce(number, number, 1, COLL_FLOAT32, COLL_SUM, live_comm, stream);
}
static coll_status_t sync_stream(void *stream) {
  return coll_stream_sync(stream);
}
static coll_status_t query_stream(void *stream) {
  return stream == NULL ? COLL_ERROR_INVALID : coll_stream_query(stream); /* nothing is queued */
}
static coll_status_t destroy_stream(void *stream) {
  return stream == NULL ? COLL_ERROR_INVALID : coll_stream_destroy(stream);
}
static const user_t of_streams[] = {call_on_stream, sync_stream, query_stream, destroy_stream};

static coll_status_t deregister(void *registration) {
  return registration == NULL ? COLL_ERROR_INVALID : coll_mem_deregister(registration);
}
static const user_t of_registrations[] = {deregister};

static coll_status_t destroy_window(void *window) {
  return window == NULL ? COLL_ERROR_INVALID : coll_window_destroy(window);
}
static const user_t of_windows[] = {destroy_window};

/* ---- what is no handle ------------------------------------------------------------------------*/

static void refuse(const user_t users[], size_t user_count, void *handle, const char *what) {
  for (size_t i = 0; i < user_count; i++) {
    coll_status_t status = users[i](handle);
    cr_assert_eq(status, COLL_ERROR_INVALID, "function %zu takes %s, %p: %s", i, what, handle,
                 coll_status_string(status));
    cr_assert(handle == NULL || strlen(coll_last_error(NULL)) > 20, "function %zu, %s: '%s'", i,
              what, coll_last_error(NULL));
  }
}

#define REFUSE(users, handle, what) \
  refuse(users, sizeof users / sizeof users[0], (void *)(handle), what)

Test(handles, of_other_kinds_and_destroyed_ones_are_refused) {
  handles_t h = make_handles();
  live_comm = h.comm;
  for (int i = 0; i < 2; i++) {
    REFUSE(of_comms, NULL, "NULL");
    REFUSE(of_comms, h.ended_comm, "a destroyed communicator");
    REFUSE(of_comms, h.stream, "a stream");
    REFUSE(of_comms, h.window, "a window");
    REFUSE(of_comms, h.registration, "a registration");
    REFUSE(of_streams, NULL, "NULL");
    REFUSE(of_streams, h.ended_stream, "a destroyed stream");
    REFUSE(of_streams, h.comm, "a communicator");
    REFUSE(of_registrations, h.ended_registration, "what was deregistered");
    REFUSE(of_registrations, memory, "a buffer");
    REFUSE(of_registrations, h.window, "a window");
    REFUSE(of_windows, h.ended_window, "a destroyed window");
    REFUSE(of_windows, h.orphan, "a window of a destroyed communicator");
    REFUSE(of_windows, h.registration, "a registration");
  }
  destroy_handles(&h);
}

/* Random bits; addresses of the stack, of code, and in the middle of live and destroyed objects. */
static void *some_address(uint64_t *random, const handles_t *h) {
  void *const near[] = {h->comm,         h->ended_comm,   h->stream,
                        h->ended_stream, h->registration, h->window,
                        memory,          random,          (void *)(uintptr_t)some_address};
  uint64_t bits = random_next(random);
  uintptr_t base = (uintptr_t)near[random_below(random, sizeof near / sizeof near[0])];
  switch (random_below(random, 4)) {
    case 0: return (void *)(uintptr_t)bits;
    case 1: return (void *)(uintptr_t)(bits >> (17 + random_below(random, 46)));
    case 2: return (void *)(base + 1 + bits % 100);
    default: return (void *)(base + 4096 * (1 + bits % 100000));
  }
}

Test(handles, that_are_random_are_refused) {
  handles_t h = make_handles();
  uint64_t random = 5;
  live_comm = h.comm;
  for (int i = 0; i < 3000; i++) {
    void *address = some_address(&random, &h);
    if (address == NULL) continue;
    REFUSE(of_comms, address, "a random address");
    REFUSE(of_streams, address, "a random address");
    REFUSE(of_registrations, address, "a random address");
    REFUSE(of_windows, address, "a random address");
  }
  destroy_handles(&h);
}

/* Of the n-th handle and of the 1,000 after it. */
Test(handles, are_not_used_again_for_1000_others) {
  enum { COUNT = 2500, APART = 1000 };
  static coll_registration_t made[COUNT];
  coll_comm_t comm;
  OK(coll_comm_create_local(1, NULL, &comm));
  for (int i = 0; i < COUNT; i++) {
    OK(coll_mem_register(comm, memory, sizeof memory, &made[i]));
    for (int k = i > APART ? i - APART : 0; k < i; k++) {
      cr_assert_neq(made[k], made[i], "handle %d is handle %d again", i, k);
    }
    OK(coll_mem_deregister(made[i]));
  }
  coll_comm_t former = comm;
  OK(coll_comm_destroy(comm));
  for (int i = 0; i < 20; i++) {
    OK(coll_comm_create_local(1, NULL, &comm));
    cr_assert_neq(comm, former);
    OK(coll_comm_destroy(comm));
  }
}

/* ---- by several threads -----------------------------------------------------------------------*/

enum {
  MAKERS = 3,
  ROUNDS = 150
}; /* no address is used again: fewer than 1,000 handles of a kind */

typedef enum kind { COMM, STREAM, REGISTRATION, WINDOW, KINDS } kind_t;

/* Handles that makers have, and had. */
static _Atomic(void *) live[KINDS], ended[KINDS];
static atomic_int makers_left;

#define DO(call) \
  if ((call) != COLL_OK) return #call

static const char *make_and_destroy(void) {
  float value = 1;
  coll_comm_t comm;
  coll_stream_t stream;
  coll_registration_t registration;
  coll_window_t window;
  DO(coll_comm_create_local(1, NULL, &comm));
  atomic_store(&live[COMM], comm);
  DO(coll_stream_create(&stream));
  atomic_store(&live[STREAM], stream);
  DO(coll_mem_register(comm, memory, sizeof memory, &registration));
  atomic_store(&live[REGISTRATION], registration);
  DO(coll_window_create(comm, memory, sizeof memory, &window));
  atomic_store(&live[WINDOW], window);
  DO(coll_allreduce(&value, &value, 1, COLL_FLOAT32, COLL_SUM, comm, stream));
  DO(coll_stream_sync(stream));
  DO(coll_window_destroy(window));
  atomic_store(&ended[WINDOW], window);
  DO(coll_mem_deregister(registration));
  atomic_store(&ended[REGISTRATION], registration);
  DO(coll_stream_destroy(stream));
  atomic_store(&ended[STREAM], stream);
  DO(coll_comm_destroy(comm));
  atomic_store(&ended[COMM], comm);
  return NULL;
}

static void *make_many(void *failure) {
  for (int i = 0; i < ROUNDS && *(const char **)failure == NULL; i++) {
    *(const char **)failure = make_and_destroy();
  }
  atomic_fetch_sub(&makers_left, 1);
  return NULL;
}

static const struct {
  const user_t *users;
  size_t count;
} users_of[KINDS] = {
    [COMM] = {of_comms, sizeof of_comms / sizeof of_comms[0]},
    [STREAM] = {of_streams, sizeof of_streams / sizeof of_streams[0]},
    [REGISTRATION] = {of_registrations, sizeof of_registrations / sizeof of_registrations[0]},
    [WINDOW] = {of_windows, sizeof of_windows / sizeof of_windows[0]},
};

static void refuse_as(kind_t kind, void *handle, const char *what) {
  if (handle == NULL) return; /* no maker has got so far */
  refuse(users_of[kind].users, users_of[kind].count, handle, what);
}

/* No handle that a maker may have, or destroy, is passed as one of its own kind. */
static void refuse_those_of_makers(uint64_t *random) {
  for (kind_t kind = 0; kind < KINDS; kind++) {
    refuse_as(kind, atomic_load(&ended[kind]), "one that another thread destroyed");
    for (kind_t other = 0; other < KINDS; other++) {
      char *handle = atomic_load(&live[other]);
      if (handle == NULL) continue;
      if (other != kind) refuse_as(kind, handle, "one of another thread, of another kind");
      refuse_as(kind, handle + 8 * (1 + random_below(random, 7)), "the middle of another one");
    }
  }
}

/* One thread passes what are no handles while others make, use and destroy theirs. */
Test(handles, of_several_threads_are_told_from_what_is_none) {
  pthread_t threads[MAKERS];
  const char *failures[MAKERS] = {NULL};
  uint64_t random = 11;
  OK(coll_comm_create_local(1, NULL, &live_comm));
  atomic_store(&makers_left, MAKERS);
  for (int i = 0; i < MAKERS; i++) {
    cr_assert_eq(pthread_create(&threads[i], NULL, make_many, &failures[i]), 0);
  }
  while (atomic_load(&makers_left) > 0) refuse_those_of_makers(&random);
  for (int i = 0; i < MAKERS; i++) {
    pthread_join(threads[i], NULL);
    cr_expect_null(failures[i], "thread %d: %s", i, failures[i]);
  }
  refuse_those_of_makers(&random);
  OK(coll_comm_destroy(live_comm));
}

/*
 * A rank that dies while a communicator is created by coll_comm_create, coll_comm_create_env or
 * coll_comm_split. It is killed before and after each of its system calls, in one run for each
 * (a sample of them under a sanitizer).
 * Every survivor must fail, naming the dead rank with its pid and no other rank; within two seconds
 * of the death, as timing_creation_death requires. The functions defined here override the C
 * library's at link time.
 */
#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/net/handshake.h"
#include "bootstrap/rendezvous/server.h"
#include "bootstrap/rendezvous/wire.h"
#include "flight/process.h"
#include "harness/party.h"
#include "harness/sample.h"
#include "harness/virtual_time.h"

#define MS UINT64_C(1000000)
#define LOOK_NS 200000u
#define PROMISE_MS 2000

enum { STEPS_TO_HELLO = 29, SENDS_TO_HELLO = 3 };

/* Of a server's answer in the handshake: a mark, a number and a proof (base/net/handshake.h). */
#define ANSWER_BYTES (8 + BASE_HANDSHAKE_NONCE_BYTES + BASE_SECRET_BYTES)

/* ---- counting system calls ------------------------------------------------------------------*/

/* On the harness's board, behind the unique id. */
typedef struct record {
  _Atomic uint64_t died_ns; /* time at which the victim was last alive */
  _Atomic int pid;          /* of the victim */
  _Atomic int introduced;   /* the victim has sent its hello, or runs the server */
  _Atomic int attempts[8];  /* connections that each rank has tried to make */
  _Atomic int answered[8];  /* whether the server has proved to each rank that it is the job's; */
  _Atomic int greeted[8];   /* whether the server has greeted it: it has joined; */
  _Atomic int ended[8];     /* and whether its call has ended */
} record_t;

static record_t *record_of_run(void) {
  return (record_t *)(void *)((char *)harness_board() + 1024);
}

static _Atomic int steps_left = -1; /* steps until the process kills itself; -1: never */
static _Atomic int sends;
static _Thread_local int own_rank = -1;

static void step(void) {
  if (atomic_load(&steps_left) < 0) return;
  atomic_store(&record_of_run()->died_ns, base_clock_now_ns());
  if (atomic_fetch_sub(&steps_left, 1) > 0) return;
  raise(SIGKILL);
}

#define COUNTED(type, name, parameters, arguments) \
  type __real_##name parameters;                   \
  type __wrap_##name parameters;                   \
  type __wrap_##name parameters {                  \
    step();                                        \
    type result = __real_##name arguments;         \
    step();                                        \
    return result;                                 \
  }

COUNTED(int, socket, (int domain, int type, int protocol), (domain, type, protocol))
COUNTED(int, listen, (int fd, int backlog), (fd, backlog))
COUNTED(int, accept4, (int fd, struct sockaddr *from, socklen_t *bytes, int flags),
        (fd, from, bytes, flags))
COUNTED(int, poll, (struct pollfd * polls, nfds_t count, int ms), (polls, count, ms))
COUNTED(int, close, (int fd), (fd))
COUNTED(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
COUNTED(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
COUNTED(void *, mmap, (void *at, size_t bytes, int access, int flags, int fd, off_t offset),
        (at, bytes, access, flags, fd, offset))

ssize_t __real_recv(int fd, void *data, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags);
ssize_t __real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);
int __real_connect(int fd, const struct sockaddr *address, socklen_t bytes);
ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags) {
  wire_greeting_t greeting = {0};
  step();
  ssize_t result = __real_recv(fd, data, bytes, flags);
  if (result == ANSWER_BYTES && own_rank >= 0) {
    atomic_store(&record_of_run()->answered[own_rank], 1);
  }
  if (result == sizeof greeting) memcpy(&greeting, data, sizeof greeting);
  if (greeting.magic == WIRE_MAGIC && own_rank >= 0) {
    atomic_store(&record_of_run()->greeted[own_rank], 1);
  }
  step();
  return result;
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t bytes);

/* The handshake is two messages; the next one is the hello. */
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags) {
  step();
  ssize_t result = __real_send(fd, data, bytes, flags);
  if (atomic_load(&steps_left) >= 0 && result > 0 && ++sends >= SENDS_TO_HELLO) {
    atomic_store(&record_of_run()->introduced, 1);
  }
  step();
  return result;
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t bytes) {
  if (own_rank >= 0) atomic_fetch_add(&record_of_run()->attempts[own_rank], 1);
  step();
  int result = __real_connect(fd, address, bytes);
  step();
  return result;
}

/* ---- what survivors must find ---------------------------------------------------------------*/

typedef struct death {
  int victim;
  int steps; /* number of steps it survives; each system call has one before and one after it */
  enum { CREATE, CREATE_ENV, SPLIT, SPLIT_IN_TWO } way;
  bool in_background; /* of CREATE: the survivors do not block */
  bool is_timed;
  int port; /* of CREATE_ENV */
  int timeout_ms;
} death_t;

/* The error text must begin with `own` and name the victim and no other rank. pid 0: any pid. */
static int check_names(const char *sentence, int own, int size, int victim, int pid) {
  char prefix[24], pid_text[24];
  snprintf(prefix, sizeof prefix, "rank %d: ", own);
  snprintf(pid_text, sizeof pid_text, " %d", pid);
  PARTY_REQUIRE(strncmp(sentence, prefix, strlen(prefix)) == 0, "not mine: %s", sentence);
  for (int rank = 0; rank < size; rank++) {
    char name[24];
    snprintf(name, sizeof name, "rank %d", rank);
    bool named = strstr(sentence + strlen(prefix), name) != NULL;
    PARTY_REQUIRE(named == (rank == victim), "rank %d died: %s", victim, sentence);
  }
  PARTY_REQUIRE(pid == 0 || strstr(sentence, pid_text) != NULL, "no pid %d: %s", pid, sentence);
  return 0;
}

/* If a rank dies before its hello, its peers cannot tell it from one that was never started: they
 * wait until the timeout, and then name it as missing. If rank 0 of a launched job dies before it
 * has answered a connection, that may have been anyone's, and rank 0 may still come. */
static int check_missing(const char *sentence, const death_t *death, int rank) {
  const record_t *record = record_of_run();
  char missing[24];
  snprintf(missing, sizeof missing, "(missing: %d)", death->victim);
  if (death->victim == 0) {
    PARTY_REQUIRE(!record->answered[rank], "the server was known: %s", sentence);
    snprintf(missing, sizeof missing, "is rank 0 running");
  } else {
    PARTY_REQUIRE(!record->introduced, "the hello was sent: %s", sentence);
  }
  PARTY_REQUIRE(strstr(sentence, missing) != NULL, "no '%s': %s", missing, sentence);
  return 0;
}

/* Rank 0's server has died, and the kernel has given its port to another test's. */
static bool has_reached_another_job(const death_t *death, coll_status_t status,
                                    const char *sentence) {
  return death->victim == 0 && death->way == CREATE && status == COLL_ERROR_INVALID &&
         strstr(sentence, "does not know this job's secret") != NULL;
}

static int check_time(uint64_t died_ns, const char *sentence) {
  int ms = (int)((int64_t)(base_clock_now_ns() - died_ns) / (int64_t)MS);
  printf("a death during creation is reported within %d ms / %d ms\n", ms, PROMISE_MS);
  PARTY_REQUIRE(ms < PROMISE_MS, "after %d ms: %s", ms, sentence);
  return 0;
}

static int check_survivor(const death_t *death, int rank, int size, coll_status_t status,
                          coll_comm_t comm) {
  const record_t *record = record_of_run();
  const char *sentence = coll_last_error(comm);
  if (status == COLL_ERROR_TIMEOUT) return check_missing(sentence, death, rank);
  if (has_reached_another_job(death, status, sentence)) return 0;
  PARTY_REQUIRE(status == COLL_ERROR_RANK_LOST, "%s: %s", coll_status_string(status), sentence);
  if (death->is_timed) PARTY_TRY(check_time(record->died_ns, sentence));
  /* In a launched job, a rank that got no greeting does not know the server's pid. */
  int pid = death->way == CREATE_ENV ? 0 : record->pid;
  return check_names(sentence, rank, size, death->victim, pid);
}

/* ---- ranks ----------------------------------------------------------------------------------*/

static void set(const char *name, int value) {
  char text[16];
  snprintf(text, sizeof text, "%d", value);
  setenv(name, text, 1);
}

/* Before its hello, a rank is missing until the timeout. */
static bool is_missed(const death_t *death) {
  return death->way == CREATE && death->victim > 0 && death->steps < STEPS_TO_HELLO;
}

/* What limits of time end does so when a test passes them. */
static bool has_own_time(const death_t *death) {
  return death->way == CREATE_ENV || is_missed(death);
}

static coll_status_t create(const death_t *death, int rank, int size, coll_comm_t *comm) {
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  config.create_timeout_ms = death->timeout_ms;
  config.blocking = !death->in_background || rank == death->victim;
  coll_status_t status = coll_comm_create(harness_board(), rank, size, &config, comm);
  while (status == COLL_IN_PROGRESS) {
    base_clock_sleep_ns(LOOK_NS);
    status = coll_comm_error(*comm);
  }
  return status;
}

static coll_status_t make(const death_t *death, int rank, int size, coll_comm_t parent,
                          coll_comm_t *comm) {
  switch (death->way) {
    case CREATE: return create(death, rank, size, comm);
    case CREATE_ENV: return coll_comm_create_env(NULL, comm);
    case SPLIT: return coll_comm_split(parent, 0, 0, NULL, comm);
    default: return coll_comm_split(parent, rank % 2, 0, NULL, comm);
  }
}

/* Its server listens at one address: STEPS_TO_HELLO is for a rank that dials no other. */
static int make_id(void) {
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  config.interfaces = "=lo";
  PARTY_OK(coll_unique_id_create(&config, harness_board()));
  return 0;
}

static int prepare(const death_t *death, int rank, int size, coll_comm_t *parent) {
  setenv("COLL_TUNE", "builtin", 1);
  set("COLL_TIMEOUT_MS", death->timeout_ms);
  set("RANK", rank);
  set("WORLD_SIZE", size);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  set("MASTER_PORT", death->port);
  if (has_own_time(death)) virtual_time_freeze();
  if (death->way != CREATE_ENV && rank == 0) PARTY_TRY(make_id());
  harness_barrier();
  if (death->way == SPLIT || death->way == SPLIT_IN_TWO) {
    PARTY_OK(coll_comm_create(harness_board(), rank, size, NULL, parent));
    PARTY_OK(coll_barrier(*parent, NULL));
  }
  harness_barrier();
  return 0;
}

/* A rank that got its communicator before the death detects it in its next call. A child of
 * SPLIT_IN_TWO may not contain the victim; the parent does. */
static coll_status_t call_until_failure(coll_comm_t comm) {
  coll_status_t status = COLL_OK;
  while (status == COLL_OK) status = coll_barrier(comm, NULL);
  return status;
}

static void await_all(const _Atomic int flags[], int first, int size, int victim) {
  for (int rank = first; rank < size; rank++) {
    while (rank != victim && !atomic_load(&flags[rank])) base_clock_sleep_ns(LOOK_NS);
  }
}

/* A late rank is told of the failure by the server, which ends with rank 0's process. */
static void keep_server(const death_t *death, int rank, int size) {
  const record_t *record = record_of_run();
  if (rank == 0 && death->way == CREATE) await_all(record->ended, 1, size, death->victim);
}

/* Of a launched job: time passes while the others try to connect, each once in every step of it,
 * and goes on for the next calls of those that have ended. */
static _Noreturn void pass_attempts(const death_t *death, int size) {
  const record_t *record = record_of_run();
  for (;;) {
    int before[8];
    for (int rank = 0; rank < size; rank++) before[rank] = atomic_load(&record->attempts[rank]);
    virtual_time_advance(10 * MS);
    for (int rank = 0; rank < size; rank++) {
      while (rank != death->victim && !atomic_load(&record->ended[rank]) &&
             atomic_load(&record->attempts[rank]) == before[rank]) {
        base_clock_sleep_ns(LOOK_NS);
      }
    }
    base_clock_sleep_ns(MS);
  }
}

/* The timeout passes once the victim is dead and all others have joined, and never if the victim
 * has sent its hello. Then passes the time for which rank 0's server waits for late ranks. */
static _Noreturn void pass_timeout(const death_t *death, int size) {
  const record_t *record = record_of_run();
  int pid;
  while ((pid = atomic_load(&record->pid)) == 0) base_clock_sleep_ns(LOOK_NS);
  while (flight_process_of(pid, flight_pid_space()) != FLIGHT_PROCESS_EXITED) {
    base_clock_sleep_ns(LOOK_NS);
  }
  if (death->way == CREATE_ENV) pass_attempts(death, size);
  await_all(record->greeted, 0, size, death->victim);
  if (atomic_load(&record->introduced)) _exit(0);
  virtual_time_advance((uint64_t)death->timeout_ms * MS);
  await_all(record->ended, 1, size, death->victim);
  virtual_time_advance(RENDEZVOUS_LINGER_NS);
  _exit(0);
}

/* By a rank without threads. */
static void watch_victim(const death_t *death, int rank, int size) {
  int watcher = death->victim == 1 ? 2 : 1;
  if (!has_own_time(death) || rank != watcher) return;
  if (fork() == 0) pass_timeout(death, size);
}

static int run_rank(int rank, int size, void *context) {
  const death_t *death = context;
  record_t *record = record_of_run();
  coll_comm_t parent = NULL, comm = NULL;
  PARTY_TRY(prepare(death, rank, size, &parent));
  watch_victim(death, rank, size);
  own_rank = rank;
  if (rank == death->victim) {
    atomic_store(&record->pid, (int)getpid());
    atomic_store(&steps_left, death->steps);
  }
  coll_status_t status = make(death, rank, size, parent, &comm);
  atomic_store(&record->ended[rank], 1);
  if (rank == death->victim) {
    bool came_through = atomic_exchange(&steps_left, -1) >= 0;
    PARTY_REQUIRE(status == COLL_OK && came_through, "the victim: %s", coll_last_error(NULL));
    atomic_store(&record->died_ns, base_clock_now_ns());
    _exit(0);
  }
  coll_comm_t failed = comm != NULL ? comm : parent;
  if (status == COLL_OK) {
    failed = death->way == SPLIT_IN_TWO ? parent : comm;
    status = call_until_failure(failed);
  }
  int value = check_survivor(death, rank, size, status, failed);
  keep_server(death, rank, size);
  return value;
}

/* Kills the victim at step `first` and every `stride`-th step after it (fewer of them under a
 * sanitizer), until it
 * survives all of its steps: then it exits after its communicator is created. */
static void die_at_steps(int size, death_t death, int first, int stride) {
  enum { STEPS_MAX = 2000 };
  bool came_through = false;
  for (death.steps = first; !came_through && death.steps < STEPS_MAX;
       death.steps += stride * (int)harness_stride(HARNESS_MOMENTS)) {
    harness_result_t result;
    if (death.way != CREATE_ENV) death.timeout_ms = 20000 * HARNESS_PATIENCE;
    if (has_own_time(&death)) {
      virtual_time_begin();
    } else {
      virtual_time_end();
    }
    harness_run(size, 15000, run_rank, &death, &result);
    for (int rank = 0; rank < size; rank++) {
      const harness_rank_t *end = &result.ranks[rank];
      if (rank == death.victim) continue;
      cr_assert(end->end == HARNESS_RETURNED && end->value == 0,
                "of %d, victim %d after %d steps: %s", size, death.victim, death.steps,
                result.text);
    }
    came_through = result.ranks[death.victim].end == HARNESS_RETURNED;
  }
  cr_assert(came_through && death.steps > first + 15, "%d steps", death.steps);
}

static void die_while_creating(int size, int first, int stride) {
  for (int victim = 0; victim < size; victim++) {
    die_at_steps(size, (death_t){.victim = victim, .way = CREATE}, first, stride);
  }
}

Test(creation_death, at_every_step_of_three_ranks) {
  die_while_creating(3, 0, 1);
}

Test(creation_death, at_steps_of_four_ranks) {
  die_while_creating(4, STEPS_TO_HELLO, 3);
}

/* Rank 0 runs the server, at an address that the other ranks know before it listens. */
Test(creation_death, of_rank_0_of_a_launched_job) {
  death_t death = {.victim = 0, .way = CREATE_ENV, .port = harness_free_port(), .timeout_ms = 1300};
  die_at_steps(3, death, 0, 10);
}

Test(creation_death, is_told_to_ranks_that_do_not_block) {
  die_at_steps(3, (death_t){.victim = 1, .way = CREATE, .in_background = true}, STEPS_TO_HELLO, 4);
}

Test(creation_death, at_every_step_of_a_split) {
  for (int victim = 0; victim < 3; victim++) {
    die_at_steps(3, (death_t){.victim = victim, .way = SPLIT}, 0, 1);
  }
}

Test(creation_death, at_steps_of_a_split_in_two) {
  for (int victim = 0; victim < 4; victim++) {
    die_at_steps(4, (death_t){.victim = victim, .way = SPLIT_IN_TWO}, 0, 2);
  }
}

Test(timing_creation_death, is_reported_in_time) {
  for (int victim = 0; victim < 3; victim++) {
    die_at_steps(3, (death_t){.victim = victim, .way = CREATE, .is_timed = true}, STEPS_TO_HELLO,
                 3);
    die_at_steps(3, (death_t){.victim = victim, .way = SPLIT, .is_timed = true}, 0, 3);
  }
}

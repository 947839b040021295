/*
 * The client of PyTorch's TCPStore against a server in another process, which knows one key. What
 * the server does not answer makes the client's time limit pass; else no time passes. The real
 * store is in torchrun.sh, where PyTorch is installed.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/launch/launch.h"
#include "harness/virtual_time.h"

#define LIMIT_NS UINT64_C(60000000000)

typedef enum behavior { HONEST, OLD, SILENT, HANGS_UP, TOO_LONG, UNKNOWN_ANSWER } behavior_t;

typedef struct store {
  int listener, told[2]; /* a pipe to which the server writes what is set */
  behavior_t behavior;
  void (*before)(void);                    /* what the server does first; NULL: nothing */
  char key[512], value[LAUNCH_TEXT_BYTES]; /* as set by a client, or by the test */
} store_t;

static store_t store;

static void take(int fd, void *bytes, size_t count) {
  if (recv(fd, bytes, count, MSG_WAITALL) != (ssize_t)count) _exit(0);
}

static void take_text(int fd, char *text, size_t bytes) {
  uint64_t length;
  take(fd, &length, sizeof length);
  if (length >= bytes) _exit(1);
  if (length > 0) take(fd, text, length);
  text[length] = '\0';
}

static void give(int fd, const void *bytes, size_t count) {
  if (send(fd, bytes, count, MSG_NOSIGNAL) != (ssize_t)count) _exit(0);
}

static void answer(int fd, uint8_t request) {
  char key[512];
  uint64_t count;
  if (request == 1) {
    take_text(fd, store.key, sizeof store.key);
    take_text(fd, store.value, sizeof store.value);
    if (write(store.told[1], &store, sizeof store) != (ssize_t)sizeof store) _exit(1);
  } else if (request == 6) {
    const uint8_t stop_waiting = store.behavior == UNKNOWN_ANSWER ? 9 : 0;
    take(fd, &count, sizeof count);
    take_text(fd, key, sizeof key);
    bool is_answered = count == 1 && store.behavior != SILENT && strcmp(key, store.key) == 0;
    if (is_answered) give(fd, &stop_waiting, 1);
    if (!is_answered) virtual_time_advance(LIMIT_NS);
  } else if (request == 3) {
    take_text(fd, key, sizeof key);
    count = store.behavior == TOO_LONG ? LAUNCH_TEXT_BYTES : strlen(store.value);
    give(fd, &count, sizeof count);
    give(fd, store.value, strlen(store.value));
  } else if (request == 7) {
    count = 1;
    if (store.behavior == OLD) virtual_time_advance(LIMIT_NS);
    if (store.behavior != OLD) give(fd, &count, sizeof count);
  } else {
    _exit(1);
  }
}

static void serve(void) {
  uint8_t request;
  uint32_t number;
  if (store.before != NULL) store.before();
  int fd = accept(store.listener, NULL, NULL);
  take(fd, &request, 1);
  take(fd, &number, sizeof number);
  if (request != 0 || number != 0x3C85F7CE || store.behavior == HANGS_UP) {
    close(fd);                      /* first: a store that says nothing in time is an older one */
    virtual_time_advance(LIMIT_NS); /* or the client tries again */
    pause();                        /* who tries meanwhile is not refused */
  }
  for (;;) {
    take(fd, &request, 1);
    answer(fd, request);
  }
}

/* The server ends with this process, at the latest. */
static void begin(behavior_t behavior, const char *rank) {
  char port[8];
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t bytes = sizeof at;
  store.behavior = behavior;
  store.listener = socket(AF_INET, SOCK_STREAM, 0);
  cr_assert_eq(pipe(store.told), 0);
  cr_assert_eq(bind(store.listener, (struct sockaddr *)&at, bytes), 0);
  cr_assert_eq(getsockname(store.listener, (struct sockaddr *)&at, &bytes), 0);
  cr_assert_eq(listen(store.listener, 1), 0);
  virtual_time_begin();
  virtual_time_freeze();
  pid_t server = fork();
  if (server == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    serve();
    _exit(0);
  }
  cr_assert(server > 0);
  close(store.listener);
  snprintf(port, sizeof port, "%d", ntohs(at.sin_port));
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", port, 1);
  setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
  setenv("TORCHELASTIC_RUN_ID", "run", 1);
  setenv("TORCHELASTIC_RESTART_COUNT", "3", 1);
  setenv("RANK", rank, 1);
  setenv("WORLD_SIZE", "2", 1);
}

static uint64_t limit(void) {
  return base_clock_now_ns() + LIMIT_NS;
}

#define KEY "libcoll/run/3/2/coll-0"

Test(torch_store, rank_0_publishes) {
  char text[LAUNCH_TEXT_BYTES] = "text/1";
  launch_t launch;
  begin(HONEST, "0");
  cr_assert_eq(launch_find(limit(), &launch), COLL_OK, "%s", base_last_error());
  cr_assert(launch.rank == 0 && launch.size == 2 && launch.kind->store == &launch_store_torch);
  cr_assert_eq(launch_share(&launch, limit(), text), COLL_OK, "%s", base_last_error());
  cr_assert_eq(read(store.told[0], &store, sizeof store), (ssize_t)sizeof store);
  cr_assert_str_eq(store.key, KEY);
  cr_assert_str_eq(store.value, "text/1");
}

/* What rank 1 reads, or what its failure says. */
static void expect(behavior_t behavior, const char *key, coll_status_t expected, const char *part) {
  char text[LAUNCH_TEXT_BYTES] = "";
  launch_t launch;
  snprintf(store.key, sizeof store.key, "%s", key);
  snprintf(store.value, sizeof store.value, "text/1");
  begin(behavior, "1");
  coll_status_t status = launch_find(limit(), &launch);
  if (status == COLL_OK) status = launch_share(&launch, limit(), text);
  cr_assert_eq(status, expected, "%d: %s", (int)status, base_last_error());
  const char *found = status == COLL_OK ? text : base_last_error();
  cr_assert_not_null(strstr(found, part), "%s", found);
}

Test(torch_store, others_read) {
  expect(HONEST, KEY, COLL_OK, "text/1");
}

Test(torch_store, keys_of_an_earlier_restart_are_not_read) {
  expect(HONEST, "libcoll/run/2/2/coll-0", COLL_ERROR_TIMEOUT, "rank 0 is missing");
}

Test(torch_store, that_says_nothing) {
  expect(SILENT, KEY, COLL_ERROR_TIMEOUT, "rank 0 is missing");
}

Test(torch_store, that_hangs_up) {
  expect(HANGS_UP, KEY, COLL_ERROR_SYSTEM, "hung up");
}

/* As a service in front of it does until it is there. Late: longer than a store of an older version
 * is waited for. */
static void come_late(void) {
  for (int i = 0; i < 3; i++) {
    close(accept(store.listener, NULL, NULL));
    virtual_time_advance(LIMIT_NS / 10);
  }
}

Test(torch_store, that_hangs_up_at_first) {
  store.before = come_late;
  expect(HONEST, KEY, COLL_OK, "text/1");
}

Test(torch_store, value_that_is_too_long) {
  expect(TOO_LONG, KEY, COLL_ERROR_SYSTEM, "too long a value");
}

Test(torch_store, unknown_answer) {
  expect(UNKNOWN_ANSWER, KEY, COLL_ERROR_SYSTEM, "unknown answer");
}

/* The library then meets next to the store's port. */
Test(torch_store, of_an_older_version) {
  launch_t launch;
  rendezvous_address_t address;
  begin(OLD, "1");
  cr_assert_eq(launch_find(limit(), &launch), COLL_OK, "%s", base_last_error());
  cr_assert(launch.kind->store == NULL && launch.rank == 1 && launch.size == 2);
  cr_assert_not_null(strstr(launch.no_store, "PyTorch 2.1"), "%s", launch.no_store);
  cr_assert_eq(launch_variables_address(&launch, &address), COLL_OK, "%s", base_last_error());
  char port[8], below[8];
  snprintf(port, sizeof port, "%d", address.port - 1);
  snprintf(below, sizeof below, "%d", address.port + 1);
  cr_assert(strcmp(getenv("MASTER_PORT"), port) == 0 || strcmp(getenv("MASTER_PORT"), below) == 0);
}

Test(torch_store, that_is_not_there) {
  begin(HONEST, "1");
  virtual_time_end();
  setenv("MASTER_PORT", "1", 1);
  launch_t launch;
  uint64_t soon_ns = base_clock_now_ns() + UINT64_C(200000000);
  cr_assert_eq(launch_find(soon_ns, &launch), COLL_ERROR_SYSTEM);
  cr_assert_not_null(strstr(base_last_error(), "127.0.0.1 port 1 cannot be reached"), "%s",
                     base_last_error());
}

/*
 * Callers of a listener with room for two, on a clock that stands still. They call over UNIX
 * sockets, where a call and a message have arrived when the function that sends them returns.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/net/dial.h"
#include "base/net/listen.h"
#include "base/net/socket.h"
#include "base/net/strangers.h"
#include "harness/virtual_time.h"

#define MS UINT64_C(1000000)
#define PURPOSE "a test"
#define RETRY "again"

enum { ROOM = 2 };

static const base_secret_t secret = {{1}}, other_secret = {{2}};
static base_address_t address;
static base_strangers_t strangers;
static int admitted[8], admitted_count;
static uint64_t due_ns;

static void admit(void *owner, int fd) {
  cr_assert_eq(owner, &strangers);
  admitted[admitted_count++] = fd;
}

static void begin(void) {
  address = (base_address_t){.bytes = sizeof(sa_family_t), .local = {.sun_family = AF_UNIX}};
  strangers = (base_strangers_t){.listener = base_listen(SOCK_STREAM, &address, 0),
                                 .secret = &secret,
                                 .purpose = PURPOSE,
                                 .retry = RETRY,
                                 .retry_bytes = sizeof RETRY,
                                 .limit_ns = UINT64_MAX,
                                 .max = ROOM,
                                 .admit = admit,
                                 .owner = &strangers};
  cr_assert_geq(strangers.listener, 0, "%s", strerror(errno));
  cr_assert_eq(base_strangers_init(&strangers), COLL_OK);
  virtual_time_begin();
  virtual_time_freeze();
}

/* Serves all that has arrived; `others`: connections of the owner. Returns how many have called
 * and are strangers yet. */
static int serve(int others) {
  struct pollfd polled[1 + ROOM];
  for (int turn = 0; turn < 4; turn++) {
    due_ns = UINT64_MAX;
    int count = base_strangers_poll(&strangers, others, polled, &due_ns);
    cr_assert_leq(count, 1 + ROOM);
    (void)poll(polled, (nfds_t)count, 0);
    base_strangers_serve(&strangers, polled);
  }
  return strangers.count;
}

static int call(void) {
  int fd = base_dial_begin_one(SOCK_STREAM, &address);
  cr_assert_geq(fd, 0, "%s", strerror(errno));
  return fd;
}

/* A caller that has sent its hello and may be asked what has become of it. */
static base_handshake_t say_hello(int fd, const base_secret_t *known) {
  base_handshake_t handshake;
  cr_assert_eq(base_handshake_begin_caller(&handshake, fd, known, PURPOSE),
               BASE_HANDSHAKE_UNDER_WAY);
  return handshake;
}

static bool is_open(int fd) {
  char byte;
  return recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
}

TestSuite(strangers, .init = begin);

Test(strangers, are_admitted_once_they_prove_that_they_know_the_secret) {
  int good = call(), bad = call();
  base_handshake_t handshakes[] = {say_hello(good, &secret), say_hello(bad, &other_secret)};
  cr_assert_eq(serve(0), 2);
  cr_assert_eq(base_handshake_continue(&handshakes[0], good), BASE_HANDSHAKE_DONE);
  cr_assert_eq(base_handshake_continue(&handshakes[1], bad), BASE_HANDSHAKE_REFUSED);
  cr_assert_eq(send(bad, handshakes[0].own, BASE_SECRET_BYTES, 0), BASE_SECRET_BYTES);
  cr_assert_eq(send(good, "x", 1, 0), 1); /* behind the handshake: the owner's */
  cr_assert_eq(serve(0), 0);
  cr_assert_eq(admitted_count, 1);
  char got = 0;
  cr_assert(recv(admitted[0], &got, 1, 0) == 1 && got == 'x');
  cr_assert_not(is_open(bad));
}

/* A third caller waits until the oldest one has had time to send something. */
Test(strangers, of_whom_the_oldest_silent_one_is_hung_up_on_for_another) {
  int first = call();
  cr_assert_eq(serve(0), 1);
  virtual_time_advance(1 * MS);
  int second = call(), third = call();
  base_handshake_t handshake = say_hello(third, &secret);
  cr_assert_eq(serve(0), 2);
  cr_assert(is_open(first) && is_open(second) && is_open(third));
  cr_assert_neq(due_ns, UINT64_MAX, "nobody would look for room");
  virtual_time_advance(30 * MS);
  cr_assert_eq(serve(0), 2);
  base_handshake_t late = say_hello(second, &secret);
  cr_assert_eq(serve(0), 2);
  cr_assert_eq(base_handshake_continue(&late, second), BASE_HANDSHAKE_DONE, "the younger stays");
  cr_assert_eq(base_handshake_continue(&handshake, third), BASE_HANDSHAKE_DONE);
  char text[8] = "";
  cr_assert_gt(recv(first, text, sizeof text, MSG_DONTWAIT), 0);
  cr_assert_eq(memcmp(text, "collwait", sizeof text), 0, "it is told to call again");
}

/* Who has been answered has a second for its proof, and is told by the owner to call again. */
Test(strangers, who_have_been_answered_are_given_longer) {
  char text[sizeof((base_handshake_t *)NULL)->input + sizeof RETRY];
  int callers[] = {call(), call()};
  base_handshake_t handshakes[] = {say_hello(callers[0], &secret), say_hello(callers[1], &secret)};
  cr_assert_eq(serve(0), 2);
  cr_assert_eq(base_handshake_continue(&handshakes[0], callers[0]), BASE_HANDSHAKE_DONE);
  cr_assert_eq(serve(1), 1, "it has proved itself");
  cr_assert_eq(admitted_count, 1);
  int third = call();
  (void)say_hello(third, &secret);
  virtual_time_advance(1000 * MS);
  cr_assert_eq(serve(1), 1);
  cr_assert(is_open(third), "it has been answered");
  virtual_time_advance(1);
  cr_assert_eq(serve(1), 1);
  const size_t answer = sizeof handshakes[1].input;
  cr_assert_eq(recv(callers[1], text, sizeof text, MSG_DONTWAIT), (ssize_t)sizeof text);
  cr_assert_str_eq(text + answer, RETRY);
  cr_assert_gt(recv(third, text, sizeof text, MSG_DONTWAIT), 0);
}

/* Connections that the owner has got count as well; those it has are never hung up on. */
Test(strangers, leave_room_for_the_owner) {
  int first = call();
  cr_assert_eq(serve(ROOM), 0);
  cr_assert_neq(due_ns, UINT64_MAX);
  virtual_time_advance(100 * MS);
  cr_assert_eq(serve(ROOM), 0);
  cr_assert_eq(serve(ROOM - 1), 1);
  cr_assert(is_open(first));
}

Test(strangers, have_a_limited_time_if_the_owner_says_so) {
  strangers.limit_ns = 3000 * MS;
  int first = call();
  cr_assert_eq(serve(0), 1);
  cr_assert_eq(due_ns, base_clock_now_ns() + 3000 * MS);
  virtual_time_advance(3000 * MS - 1);
  cr_assert_eq(serve(0), 1);
  cr_assert(is_open(first));
  virtual_time_advance(1);
  cr_assert_eq(serve(0), 0);
  cr_assert_not(is_open(first));
}

/* What has arrived while this process was stopped is not late. */
Test(strangers, who_have_answered_in_time_are_not_late) {
  strangers.limit_ns = 3000 * MS;
  int first = call();
  base_handshake_t handshake = say_hello(first, &secret);
  cr_assert_eq(serve(0), 1);
  cr_assert_eq(base_handshake_continue(&handshake, first), BASE_HANDSHAKE_DONE);
  struct pollfd nothing_polled[1 + ROOM] = {{.fd = -1}};
  virtual_time_advance(10000 * MS);
  base_strangers_serve(&strangers, nothing_polled);
  cr_assert_eq(admitted_count, 1);
}

/* A stranger that may be hung up on makes room for the next; else calls wait in the system. */
Test(strangers, give_their_descriptors_back) {
  int first = call();
  cr_assert_eq(serve(0), 1);
  int second = call();
  struct rlimit before;
  cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
  const struct rlimit limit = {.rlim_cur = (rlim_t)second + 1, .rlim_max = before.rlim_max};
  cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
  cr_assert_eq(serve(0), 1);
  cr_assert_eq(strangers.error, EMFILE);
  cr_assert_eq(due_ns, base_clock_now_ns() + 20 * MS);
  virtual_time_advance(20 * MS + 1);
  cr_assert_eq(serve(0), 1);
  cr_assert_eq(strangers.error, 0);
  cr_assert(!is_open(first) && is_open(second));
  cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0); /* for LeakSanitizer */
}

Test(strangers, are_all_told_to_call_again_at_the_end) {
  char text[64] = "";
  int silent = call(), answered = call();
  base_handshake_t handshake = say_hello(answered, &secret);
  cr_assert_eq(serve(0), 2);
  cr_assert_eq(base_handshake_continue(&handshake, answered), BASE_HANDSHAKE_DONE);
  base_strangers_close(&strangers);
  cr_assert_gt(recv(silent, text, sizeof text, MSG_DONTWAIT), 0);
  cr_assert_eq(memcmp(text, "collwait", 8), 0);
  cr_assert_eq(recv(answered, text, sizeof text, MSG_DONTWAIT), (ssize_t)sizeof RETRY);
  cr_assert_str_eq(text, RETRY);
  cr_assert(strangers.listener < 0 && serve(0) == 0);
}

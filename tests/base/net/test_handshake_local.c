/* The handshake of builds without libsodium, which other sockets than UNIX ones of the same user do
 * not get. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/net/handshake.h"

#define PURPOSE "test"
#define LATER_NS (base_clock_now_ns() + 20000000000u)

enum { CALLER, LISTENER };

static const base_secret_t ours = {.bytes = {1, 2, 3}}, other = {.bytes = {1, 2, 4}}, none;

typedef struct outcome {
  base_handshake_state_t caller, listener;
} outcome_t;

static outcome_t shake(const int ends[2], const base_secret_t *of_caller, const char *purpose) {
  base_handshake_t caller, listener;
  outcome_t outcome;
  base_handshake_begin_listener(&listener, &ours, PURPOSE);
  outcome.caller = base_handshake_begin_caller(&caller, ends[CALLER], of_caller, purpose);
  outcome.listener = base_handshake_continue(&listener, ends[LISTENER]);
  if (outcome.caller != BASE_HANDSHAKE_UNDER_WAY) return outcome;
  outcome.caller = base_handshake_continue(&caller, ends[CALLER]);
  if (outcome.caller == BASE_HANDSHAKE_REFUSED) shutdown(ends[CALLER], SHUT_WR);
  outcome.listener = base_handshake_continue(&listener, ends[LISTENER]);
  return outcome;
}

static outcome_t shake_pair(const base_secret_t *of_caller, const char *purpose) {
  int ends[2];
  cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  outcome_t outcome = shake(ends, of_caller, purpose);
  close(ends[0]);
  close(ends[1]);
  return outcome;
}

Test(handshake_local, lets_in_who_knows_the_secret) {
  outcome_t outcome = shake_pair(&ours, PURPOSE);
  cr_assert_eq(outcome.caller, BASE_HANDSHAKE_DONE);
  cr_assert_eq(outcome.listener, BASE_HANDSHAKE_DONE);
}

Test(handshake_local, refuses_another_secret_or_purpose) {
  const base_secret_t *secrets[] = {&other, &none, &ours, &none};
  const char *purposes[] = {PURPOSE, PURPOSE, "another", "tes"};
  for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++) {
    outcome_t outcome = shake_pair(secrets[i], purposes[i]);
    cr_assert_eq(outcome.caller, BASE_HANDSHAKE_REFUSED, "%zu", i);
    cr_assert_eq(outcome.listener, BASE_HANDSHAKE_CLOSED, "%zu", i);
  }
}

/* A caller that goes on although it should refuse has no proof either. */
Test(handshake_local, refuses_a_caller_that_answers_with_what_it_received) {
  int ends[2];
  uint8_t answer[8 + BASE_HANDSHAKE_NONCE_BYTES + BASE_SECRET_BYTES];
  base_handshake_t caller, listener;
  cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  base_handshake_begin_listener(&listener, &ours, PURPOSE);
  base_handshake_begin_caller(&caller, ends[CALLER], &other, "another");
  cr_assert_eq(base_handshake_continue(&listener, ends[LISTENER]), BASE_HANDSHAKE_UNDER_WAY);
  cr_assert_eq(read(ends[CALLER], answer, sizeof answer), (ssize_t)sizeof answer);
  cr_assert_eq(memmem(answer, sizeof answer, ours.bytes, 3), NULL, "it has told the secret");
  cr_assert_eq(write(ends[CALLER], ours.bytes, BASE_SECRET_BYTES), BASE_SECRET_BYTES);
  cr_assert_eq(base_handshake_continue(&listener, ends[LISTENER]), BASE_HANDSHAKE_REFUSED);
}

/* ---- sockets that it is not for -------------------------------------------------------------*/

static void connect_by_tcp(int ends[2]) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t bytes = sizeof at;
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  cr_assert_eq(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
  cr_assert_eq(listen(listener, 1), 0);
  cr_assert_eq(getsockname(listener, (struct sockaddr *)&at, &bytes), 0);
  ends[CALLER] = socket(AF_INET, SOCK_STREAM, 0);
  cr_assert_eq(connect(ends[CALLER], (struct sockaddr *)&at, sizeof at), 0);
  ends[LISTENER] = accept(listener, NULL, NULL);
  close(listener);
}

Test(handshake_local, is_for_unix_sockets_only) {
  int ends[2];
  char sent[64];
  base_handshake_t caller, listener;
  connect_by_tcp(ends);
  cr_assert_eq(base_handshake_begin_caller(&caller, ends[CALLER], &ours, PURPOSE),
               BASE_HANDSHAKE_REFUSED);
  cr_assert_eq(recv(ends[LISTENER], sent, sizeof sent, MSG_DONTWAIT), -1, "it has sent something");
  memset(sent, 0, sizeof sent);
  memcpy(sent, "colla002", 8);
  cr_assert_eq(write(ends[CALLER], sent, 8 + BASE_HANDSHAKE_NONCE_BYTES),
               8 + BASE_HANDSHAKE_NONCE_BYTES);
  base_handshake_begin_listener(&listener, &ours, PURPOSE);
  cr_assert_eq(base_handshake_finish(&listener, ends[LISTENER], LATER_NS), BASE_HANDSHAKE_REFUSED);
  cr_assert_eq(recv(ends[CALLER], sent, sizeof sent, MSG_DONTWAIT), -1, "it has answered");
}

/* In a process of another user: it connects, and reports whether it is let in. */
static _Noreturn void call_as_nobody(const struct sockaddr_un *to, socklen_t bytes) {
  uint8_t hello[8 + BASE_HANDSHAKE_NONCE_BYTES] = "colla002" PURPOSE;
  char answer;
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (setgid(65534) != 0 || setuid(65534) != 0) _exit(2);
  if (connect(fd, (const struct sockaddr *)to, bytes) != 0) _exit(3);
  if (send(fd, hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t)sizeof hello) _exit(0);
  _exit(recv(fd, &answer, 1, 0) > 0 ? 1 : 0);
}

Test(handshake_local, refuses_another_user) {
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  socklen_t bytes = sizeof at;
  base_handshake_t handshake;
  int end, listener = socket(AF_UNIX, SOCK_STREAM, 0);
  if (geteuid() != 0) cr_skip_test("another user's process can be made by root only");
  cr_assert_eq(bind(listener, (struct sockaddr *)&at, sizeof(sa_family_t)), 0);
  cr_assert_eq(listen(listener, 1), 0);
  cr_assert_eq(getsockname(listener, (struct sockaddr *)&at, &bytes), 0);
  pid_t child = fork();
  if (child == 0) call_as_nobody(&at, bytes);
  int fd = accept(listener, NULL, NULL);
  base_handshake_begin_listener(&handshake, &ours, PURPOSE);
  cr_assert_eq(base_handshake_finish(&handshake, fd, LATER_NS), BASE_HANDSHAKE_REFUSED);
  close(fd);
  waitpid(child, &end, 0);
  cr_assert(WIFEXITED(end) && WEXITSTATUS(end) == 0, "code %d", end);
}

/* ---- what there is not ----------------------------------------------------------------------*/

Test(handshake_local, says_what_is_missing) {
  base_secret_t secret = ours;
  cr_assert_eq(base_handshake_check_hosts(), COLL_ERROR_UNSUPPORTED);
  cr_assert_neq(strstr(base_last_error(), "built without libsodium"), NULL);
  cr_assert_eq(base_secret_of_text("x", 1, &secret), COLL_ERROR_UNSUPPORTED);
}

Test(handshake_local, keeps_a_secret_that_is_derived) {
  base_secret_t derived = base_secret_derive(&ours, "a", "x", 1);
  cr_assert_eq(memcmp(&derived, &ours, sizeof ours), 0);
  derived = base_secret_derive(&none, "a", "x", 1);
  cr_assert(base_secret_is_none(&derived));
}

Test(handshake_local, reads_a_secret_from_its_digits) {
  char text[BASE_SECRET_HEX_BYTES + 1];
  base_secret_t back;
  base_secret_to_hex(&ours, text);
  cr_assert_eq(strlen(text), BASE_SECRET_HEX_BYTES);
  cr_assert(base_secret_from_hex(text, &back));
  cr_assert_eq(memcmp(&back, &ours, sizeof ours), 0);
  for (int i = 0; i < BASE_SECRET_HEX_BYTES; i += 7) {
    char kept = text[i];
    text[i] = i % 2 == 0 ? '\0' : 'g';
    cr_assert_not(base_secret_from_hex(text, &back));
    text[i] = kept;
  }
}

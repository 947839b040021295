/* Secrets, and the handshake over a pair of sockets. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/net/handshake.h"

#define PURPOSE "test"

enum { CALLER, LISTENER };

static const base_secret_t ours = {.bytes = {1, 2, 3}}, other = {.bytes = {1, 2, 4}}, none;

/* ---- secrets --------------------------------------------------------------------------------*/

/* Computed with another implementation of HKDF. */
Test(secret, derives_as_hkdf_does) {
  static const uint8_t expected[BASE_SECRET_BYTES] = {
      0xfc, 0x88, 0x21, 0x13, 0xcc, 0x76, 0x74, 0x72, 0x45, 0x6f, 0xb6,
      0x52, 0xeb, 0x34, 0xda, 0x1c, 0xd2, 0x51, 0x18, 0xca, 0x71, 0xdd,
      0x29, 0xa1, 0x21, 0x9c, 0x6e, 0x67, 0xa5, 0xd0, 0x62, 0x3f};
  base_secret_t made = base_secret_derive(&ours, "a purpose", "info", 4);
  cr_assert_eq(memcmp(made.bytes, expected, sizeof expected), 0);
}

Test(secret, differs_by_purpose_info_and_origin) {
  base_secret_t of_text;
  cr_assert_eq(base_secret_of_text("x", 1, &of_text), COLL_OK);
  base_secret_t made[] = {ours,
                          base_secret_derive(&ours, "a", "x", 1),
                          base_secret_derive(&ours, "a", "y", 1),
                          base_secret_derive(&ours, "b", "x", 1),
                          base_secret_derive(&other, "a", "x", 1),
                          of_text};
  for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
    for (size_t k = 0; k < i; k++) {
      cr_assert_neq(memcmp(&made[i], &made[k], sizeof *made), 0, "%zu equals %zu", i, k);
    }
  }
}

Test(secret, of_none_is_none) {
  base_secret_t derived = base_secret_derive(&none, "a", "x", 1), drawn;
  cr_assert(base_secret_is_none(&derived));
  cr_assert_eq(base_secret_create(&drawn), COLL_OK);
  cr_assert_not(base_secret_is_none(&drawn));
  base_secret_wipe(&drawn);
  cr_assert(base_secret_is_none(&drawn));
}

/* ---- the handshake --------------------------------------------------------------------------*/

typedef struct outcome {
  base_handshake_state_t caller, listener;
} outcome_t;

static void open_pair(int ends[2]) {
  cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
}

static outcome_t shake(const int ends[2], const base_secret_t *of_caller, const char *purpose) {
  base_handshake_t caller, listener;
  outcome_t outcome;
  base_handshake_begin_listener(&listener, &ours, PURPOSE);
  outcome.caller = base_handshake_begin_caller(&caller, ends[CALLER], of_caller, purpose);
  outcome.listener = base_handshake_continue(&listener, ends[LISTENER]);
  if (outcome.caller == BASE_HANDSHAKE_UNDER_WAY) {
    outcome.caller = base_handshake_continue(&caller, ends[CALLER]);
  }
  if (outcome.caller == BASE_HANDSHAKE_REFUSED) shutdown(ends[CALLER], SHUT_WR);
  if (outcome.listener == BASE_HANDSHAKE_UNDER_WAY) {
    outcome.listener = base_handshake_continue(&listener, ends[LISTENER]);
  }
  return outcome;
}

Test(handshake, lets_in_who_knows_the_secret) {
  int ends[2];
  char text[8] = "";
  open_pair(ends);
  outcome_t outcome = shake(ends, &ours, PURPOSE);
  cr_assert_eq(outcome.caller, BASE_HANDSHAKE_DONE);
  cr_assert_eq(outcome.listener, BASE_HANDSHAKE_DONE);
  cr_assert_eq(write(ends[CALLER], "hello", 5), 5);
  cr_assert_eq(read(ends[LISTENER], text, sizeof text), 5, "it has read what follows");
}

Test(handshake, refuses_another_secret_or_purpose) {
  int ends[2];
  open_pair(ends);
  outcome_t outcome = shake(ends, &other, PURPOSE);
  cr_assert_eq(outcome.caller, BASE_HANDSHAKE_REFUSED);
  cr_assert_eq(outcome.listener, BASE_HANDSHAKE_CLOSED, "the caller has told nothing");
  open_pair(ends);
  outcome = shake(ends, &ours, "another");
  cr_assert_eq(outcome.caller, BASE_HANDSHAKE_REFUSED);
}

/* Someone who has recorded both directions of one that was let in sends the same again. */
Test(handshake, refuses_what_was_recorded) {
  int ends[2], again[2];
  uint8_t hello[40], proof[32], answer[72];
  base_handshake_t caller, listener;
  open_pair(ends);
  base_handshake_begin_listener(&listener, &ours, PURPOSE);
  base_handshake_begin_caller(&caller, ends[CALLER], &ours, PURPOSE);
  cr_assert_eq(recv(ends[LISTENER], hello, sizeof hello, MSG_PEEK), (ssize_t)sizeof hello);
  cr_assert_eq(base_handshake_continue(&listener, ends[LISTENER]), BASE_HANDSHAKE_UNDER_WAY);
  cr_assert_eq(base_handshake_continue(&caller, ends[CALLER]), BASE_HANDSHAKE_DONE);
  cr_assert_eq(recv(ends[LISTENER], proof, sizeof proof, MSG_PEEK), (ssize_t)sizeof proof);
  cr_assert_eq(base_handshake_continue(&listener, ends[LISTENER]), BASE_HANDSHAKE_DONE);
  open_pair(again);
  base_handshake_begin_listener(&listener, &ours, PURPOSE);
  cr_assert_eq(write(again[CALLER], hello, sizeof hello), (ssize_t)sizeof hello);
  cr_assert_eq(base_handshake_continue(&listener, again[LISTENER]), BASE_HANDSHAKE_UNDER_WAY);
  cr_assert_eq(read(again[CALLER], answer, sizeof answer), (ssize_t)sizeof answer);
  cr_assert_eq(write(again[CALLER], proof, sizeof proof), (ssize_t)sizeof proof);
  cr_assert_eq(base_handshake_continue(&listener, again[LISTENER]), BASE_HANDSHAKE_REFUSED);
}

/* The listener's own proof is no proof of a caller. */
Test(handshake, refuses_a_proof_that_is_sent_back) {
  int ends[2];
  uint8_t answer[72];
  base_handshake_t caller, listener;
  open_pair(ends);
  base_handshake_begin_listener(&listener, &ours, PURPOSE);
  base_handshake_begin_caller(&caller, ends[CALLER], &other, PURPOSE);
  cr_assert_eq(base_handshake_continue(&listener, ends[LISTENER]), BASE_HANDSHAKE_UNDER_WAY);
  cr_assert_eq(read(ends[CALLER], answer, sizeof answer), (ssize_t)sizeof answer);
  cr_assert_eq(write(ends[CALLER], answer + 40, 32), 32);
  cr_assert_eq(base_handshake_continue(&listener, ends[LISTENER]), BASE_HANDSHAKE_REFUSED);
}

Test(handshake, refuses_other_bytes_and_names_other_versions) {
  static const struct {
    char text[41];
    base_handshake_state_t state;
  } cases[] = {{"GET / HTTP/1.1.........................", BASE_HANDSHAKE_REFUSED},
               {"colla999...............................", BASE_HANDSHAKE_VERSION}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int ends[2];
    base_handshake_t listener;
    open_pair(ends);
    base_handshake_begin_listener(&listener, &ours, PURPOSE);
    cr_assert_eq(write(ends[CALLER], cases[i].text, 40), 40);
    cr_assert_eq(base_handshake_continue(&listener, ends[LISTENER]), cases[i].state);
  }
}

Test(handshake, a_caller_may_be_told_to_call_again) {
  int ends[2];
  base_handshake_t caller, listener;
  open_pair(ends);
  base_handshake_begin_listener(&listener, &ours, PURPOSE);
  base_handshake_begin_caller(&caller, ends[CALLER], &ours, PURPOSE);
  base_handshake_decline(&listener, ends[LISTENER]);
  cr_assert_eq(base_handshake_continue(&caller, ends[CALLER]), BASE_HANDSHAKE_RETRY);
}

/* A listener that ends at once was there: its proof counts. */
Test(handshake, a_caller_knows_whom_it_lost) {
  int ends[2];
  base_handshake_t caller, listener;
  open_pair(ends);
  base_handshake_begin_listener(&listener, &ours, PURPOSE);
  base_handshake_begin_caller(&caller, ends[CALLER], &ours, PURPOSE);
  cr_assert_not(caller.is_proven);
  cr_assert_eq(base_handshake_continue(&listener, ends[LISTENER]), BASE_HANDSHAKE_UNDER_WAY);
  close(ends[LISTENER]);
  cr_assert_eq(base_handshake_continue(&caller, ends[CALLER]), BASE_HANDSHAKE_CLOSED);
  cr_assert(caller.is_proven);
}

/* Byte by byte. */
Test(handshake, waits_for_what_comes_in_parts) {
  int ends[2];
  uint8_t hello[40];
  base_handshake_t caller, listener;
  open_pair(ends);
  base_handshake_begin_caller(&caller, ends[CALLER], &ours, PURPOSE);
  cr_assert_eq(read(ends[LISTENER], hello, sizeof hello), (ssize_t)sizeof hello);
  base_handshake_begin_listener(&listener, &ours, PURPOSE);
  for (size_t i = 0; i < sizeof hello; i++) {
    cr_assert_eq(base_handshake_continue(&listener, ends[LISTENER]), BASE_HANDSHAKE_UNDER_WAY);
    cr_assert_not(listener.has_answered);
    cr_assert_eq(write(ends[CALLER], &hello[i], 1), 1);
  }
  cr_assert_eq(base_handshake_continue(&listener, ends[LISTENER]), BASE_HANDSHAKE_UNDER_WAY);
  cr_assert_eq(base_handshake_continue(&caller, ends[CALLER]), BASE_HANDSHAKE_DONE);
  uint64_t deadline_ns = base_clock_now_ns() + 1000000000u;
  cr_assert_eq(base_handshake_finish(&listener, ends[LISTENER], deadline_ns), BASE_HANDSHAKE_DONE);
}

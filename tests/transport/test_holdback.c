/* When a receiver slips behind its sender; both ends in one thread. */
#include <criterion/criterion.h>

#include "base/status.h"
#include "transport/ops.h"
#include "transport/shm/holdback.h"
#include "transport/shm/shm.h"
#include "transport/wire.h"

enum { BYTES_MAX = 4096, LETTERS = 64 };

typedef struct ends {
  transport_t *sender, *receiver;
  uint64_t sent, received;
} ends_t;

static ends_t make_ends(bool own_cores) {
  transport_t *made[2];
  cr_assert_eq(transport_shm_create_local(2, made), COLL_OK, "%s", base_last_error());
  made[0]->own_cores = made[1]->own_cores = own_cores;
  return (ends_t){.sender = made[0], .receiver = made[1]};
}

static void free_ends(ends_t *ends) {
  ends->sender->ops->destroy(ends->sender);
  ends->receiver->ops->destroy(ends->receiver);
}

static void send_on(ends_t *ends, int channel, size_t bytes) {
  static char data[BYTES_MAX];
  const transport_ops_t *ops = ends->sender->ops;
  transport_head_t head = {.call = wire_id(ends->sent++), .bytes = bytes};
  bool done = false;
  cr_assert_eq(ops->send(ops->port(ends->sender, 1, channel), data, &head, &done), COLL_OK);
  cr_assert(done);
}

static bool recv_on(ends_t *ends, int channel) {
  char data[BYTES_MAX];
  const transport_ops_t *ops = ends->receiver->ops;
  transport_head_t head;
  bool done = false;
  transport_port_t *port = ops->port(ends->receiver, 0, channel);
  cr_assert_eq(ops->recv(port, data, sizeof data, &head, &done), COLL_OK);
  if (done) cr_assert(flight_call_is(head.call, wire_id(ends->received++)));
  return done;
}

/* So many messages, each taken at once; then the receiver looks for one more. */
static void flow(ends_t *ends, int channel, int messages, size_t bytes) {
  for (int i = 0; i < messages; i++) {
    send_on(ends, channel, bytes);
    cr_assert(recv_on(ends, channel));
  }
  cr_assert_not(recv_on(ends, channel));
}

/* Looks until the message that is there is handed over. */
static int looks_for_one(ends_t *ends, int channel) {
  int looks = 1;
  while (!recv_on(ends, channel)) {
    cr_assert_leq(++looks, SHM_HOLDBACK_POLLS, "it never comes");
  }
  return looks;
}

Test(slip, holds_back_what_comes_alone_behind_a_flow) {
  ends_t ends = make_ends(true);
  flow(&ends, 0, SHM_HOLDBACK_AFTER, 4);
  send_on(&ends, 0, 4);
  cr_expect_eq(looks_for_one(&ends, 0), SHM_HOLDBACK_POLLS);
  free_ends(&ends);
}

Test(slip, is_over_when_half_of_the_letters_are_there) {
  ends_t ends = make_ends(true);
  flow(&ends, 0, SHM_HOLDBACK_AFTER, SHM_HOLDBACK_BELOW_BYTES - 1);
  for (int i = 0; i < LETTERS / 2; i++) send_on(&ends, 0, SHM_HOLDBACK_BELOW_BYTES - 1);
  cr_expect_not(recv_on(&ends, 0));
  send_on(&ends, 0, SHM_HOLDBACK_BELOW_BYTES - 1);
  for (int i = 0; i <= LETTERS / 2; i++) cr_expect(recv_on(&ends, 0), "message %d", i);
  free_ends(&ends);
}

Test(slip, is_not_for_the_first_messages) {
  ends_t ends = make_ends(true);
  flow(&ends, 0, SHM_HOLDBACK_AFTER - 1, 4);
  send_on(&ends, 0, 4);
  cr_expect(recv_on(&ends, 0));
  free_ends(&ends);
}

static void answer(ends_t *ends, size_t bytes) {
  static char data[BYTES_MAX];
  const transport_ops_t *ops = ends->receiver->ops;
  transport_head_t head = {.bytes = bytes};
  bool done = false;
  cr_assert_eq(ops->send(ops->port(ends->receiver, 0, 0), data, &head, &done), COLL_OK);
  cr_assert(done);
}

/* As in an allreduce, where the sender waits for the receiver in turn. */
Test(slip, is_not_for_those_who_are_answered) {
  for (size_t bytes = 4; bytes <= 1024; bytes += 1020) {
    ends_t ends = make_ends(true);
    flow(&ends, 0, SHM_HOLDBACK_AFTER - 1, 4);
    answer(&ends, bytes);
    flow(&ends, 0, 1, 4); /* one too many, but for the answer */
    send_on(&ends, 0, 4);
    cr_expect(recv_on(&ends, 0), "an answer of %d bytes", (int)bytes);
    free_ends(&ends);
  }
}

Test(slip, is_not_where_others_need_the_core) {
  ends_t ends = make_ends(false);
  flow(&ends, 0, 2 * SHM_HOLDBACK_AFTER, 4);
  send_on(&ends, 0, 4);
  cr_expect(recv_on(&ends, 0));
  free_ends(&ends);
}

Test(slip, is_not_for_long_messages_nor_for_pairs) {
  ends_t ends = make_ends(true);
  flow(&ends, 0, SHM_HOLDBACK_AFTER, SHM_HOLDBACK_BELOW_BYTES);
  send_on(&ends, 0, 4);
  cr_expect(recv_on(&ends, 0), "behind a long message");
  flow(&ends, TRANSPORT_CHANNEL_P2P, SHM_HOLDBACK_AFTER, 4);
  send_on(&ends, TRANSPORT_CHANNEL_P2P, 4);
  cr_expect(recv_on(&ends, TRANSPORT_CHANNEL_P2P), "of a pair");
  free_ends(&ends);
}

/* With a message that is held back. */
static ends_t make_held(void) {
  ends_t ends = make_ends(true);
  flow(&ends, 0, SHM_HOLDBACK_AFTER, 4);
  send_on(&ends, 0, 4);
  cr_assert_not(recv_on(&ends, 0));
  return ends;
}

/* Else it would sleep over a message that is there, and that nobody wakes it for. */
Test(slip, is_given_up_by_who_is_about_to_sleep) {
  ends_t ends = make_held();
  ends.receiver->ops->arm(ends.receiver);
  cr_expect(recv_on(&ends, 0));
  ends.receiver->ops->disarm(ends.receiver);
  free_ends(&ends);
}

/* What is held back has been waited for in vain where the call went on without it. */
Test(slip, is_given_up_with_the_call) {
  ends_t ends = make_held();
  flight_complete(ends.receiver->flight, 1);
  cr_expect(recv_on(&ends, 0));
  free_ends(&ends);
}

/* How many times the receiver catches up until a message is held back, that one included. */
static int times_until_held(ends_t *ends) {
  for (int times = 1;; times++) {
    cr_assert_leq(times, SHM_HOLDBACK_INTERVAL_MAX, "it is never tried again");
    send_on(ends, 0, 4);
    bool held = !recv_on(ends, 0);
    if (held) looks_for_one(ends, 0);
    cr_assert_not(recv_on(ends, 0));
    if (held) return times;
  }
}

Test(slip, is_tried_seldomer_the_more_often_in_vain) {
  ends_t ends = make_ends(true);
  flow(&ends, 0, SHM_HOLDBACK_AFTER, 4);
  cr_assert_eq(times_until_held(&ends), 1);
  for (int period = 2; period <= SHM_HOLDBACK_INTERVAL_MAX; period *= 2) {
    cr_expect_eq(times_until_held(&ends), period);
  }
  cr_expect_eq(times_until_held(&ends), SHM_HOLDBACK_INTERVAL_MAX);
  free_ends(&ends);
}

Test(slip, is_tried_each_time_where_the_sender_gets_ahead) {
  ends_t ends = make_ends(true);
  flow(&ends, 0, SHM_HOLDBACK_AFTER, 4);
  cr_assert_eq(times_until_held(&ends), 1);
  for (int round = 0; round < 3; round++) {
    for (int sent = 0; sent <= LETTERS / 2; sent++) send_on(&ends, 0, 4);
    while (ends.received < ends.sent) recv_on(&ends, 0);
    cr_assert_not(recv_on(&ends, 0));
  }
  send_on(&ends, 0, 4);
  cr_expect_not(recv_on(&ends, 0));
  free_ends(&ends);
}

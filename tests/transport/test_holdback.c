/* When a receiver holds messages back; both ends in one thread. */
#include <criterion/criterion.h>

#include "base/status.h"
#include "transport/ops.h"
#include "transport/shm/holdback.h"
#include "transport/shm/shm.h"
#include "transport/wire.h"

enum { BYTES_MAX = 4096, DESCRIPTORS = 64 };

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

/* Sends messages, each received at once; then the receiver polls once more. */
static void stream(ends_t *ends, int channel, int messages, size_t bytes) {
  for (int i = 0; i < messages; i++) {
    send_on(ends, channel, bytes);
    cr_assert(recv_on(ends, channel));
  }
  cr_assert_not(recv_on(ends, channel));
}

/* Polls until the waiting message is delivered; returns the number of polls. */
static int polls_for_one(ends_t *ends, int channel) {
  int polls = 1;
  while (!recv_on(ends, channel)) {
    cr_assert_leq(++polls, SHM_HOLDBACK_POLLS, "it is never delivered");
  }
  return polls;
}

Test(holdback, delays_a_single_message_after_a_stream) {
  ends_t ends = make_ends(true);
  stream(&ends, 0, SHM_HOLDBACK_AFTER, 4);
  send_on(&ends, 0, 4);
  cr_expect_eq(polls_for_one(&ends, 0), SHM_HOLDBACK_POLLS);
  free_ends(&ends);
}

Test(holdback, ends_when_half_of_the_descriptors_are_filled) {
  ends_t ends = make_ends(true);
  stream(&ends, 0, SHM_HOLDBACK_AFTER, SHM_HOLDBACK_BELOW_BYTES - 1);
  for (int i = 0; i < DESCRIPTORS / 2; i++) send_on(&ends, 0, SHM_HOLDBACK_BELOW_BYTES - 1);
  cr_expect_not(recv_on(&ends, 0));
  send_on(&ends, 0, SHM_HOLDBACK_BELOW_BYTES - 1);
  for (int i = 0; i <= DESCRIPTORS / 2; i++) cr_expect(recv_on(&ends, 0), "message %d", i);
  free_ends(&ends);
}

Test(holdback, does_not_apply_to_the_first_messages) {
  ends_t ends = make_ends(true);
  stream(&ends, 0, SHM_HOLDBACK_AFTER - 1, 4);
  send_on(&ends, 0, 4);
  cr_expect(recv_on(&ends, 0));
  free_ends(&ends);
}

static void reply(ends_t *ends, size_t bytes) {
  static char data[BYTES_MAX];
  const transport_ops_t *ops = ends->receiver->ops;
  transport_head_t head = {.bytes = bytes};
  bool done = false;
  cr_assert_eq(ops->send(ops->port(ends->receiver, 0, 0), data, &head, &done), COLL_OK);
  cr_assert(done);
}

/* As in an allreduce, where the sender also waits for the receiver. */
Test(holdback, does_not_apply_with_replies) {
  for (size_t bytes = 4; bytes <= 1024; bytes += 1020) {
    ends_t ends = make_ends(true);
    stream(&ends, 0, SHM_HOLDBACK_AFTER - 1, 4);
    reply(&ends, bytes);
    stream(&ends, 0, 1, 4); /* the stream would be long enough, but for the reply */
    send_on(&ends, 0, 4);
    cr_expect(recv_on(&ends, 0), "a reply of %d bytes", (int)bytes);
    free_ends(&ends);
  }
}

Test(holdback, does_not_apply_to_shared_cores) {
  ends_t ends = make_ends(false);
  stream(&ends, 0, 2 * SHM_HOLDBACK_AFTER, 4);
  send_on(&ends, 0, 4);
  cr_expect(recv_on(&ends, 0));
  free_ends(&ends);
}

Test(holdback, does_not_apply_to_long_or_p2p_messages) {
  ends_t ends = make_ends(true);
  stream(&ends, 0, SHM_HOLDBACK_AFTER, SHM_HOLDBACK_BELOW_BYTES);
  send_on(&ends, 0, 4);
  cr_expect(recv_on(&ends, 0), "after a long message");
  stream(&ends, TRANSPORT_CHANNEL_P2P, SHM_HOLDBACK_AFTER, 4);
  send_on(&ends, TRANSPORT_CHANNEL_P2P, 4);
  cr_expect(recv_on(&ends, TRANSPORT_CHANNEL_P2P), "on the P2P channel");
  free_ends(&ends);
}

/* Returns ends with a message that is held back. */
static ends_t make_held_back(void) {
  ends_t ends = make_ends(true);
  stream(&ends, 0, SHM_HOLDBACK_AFTER, 4);
  send_on(&ends, 0, 4);
  cr_assert_not(recv_on(&ends, 0));
  return ends;
}

/* Otherwise it would sleep although a message is there, and nothing would wake it. */
Test(holdback, ends_before_a_sleep) {
  ends_t ends = make_held_back();
  ends.receiver->ops->arm(ends.receiver);
  cr_expect(recv_on(&ends, 0));
  ends.receiver->ops->disarm(ends.receiver);
  free_ends(&ends);
}

/* The call completed without the message that is held back. */
Test(holdback, ends_with_the_call) {
  ends_t ends = make_held_back();
  flight_complete(ends.receiver->flight, 1);
  cr_expect(recv_on(&ends, 0));
  free_ends(&ends);
}

/* Number of times that the receiver catches up until a message is held back, that one included. */
static int times_until_held(ends_t *ends) {
  for (int times = 1;; times++) {
    cr_assert_leq(times, SHM_HOLDBACK_INTERVAL_MAX, "it is never held back again");
    send_on(ends, 0, 4);
    bool held = !recv_on(ends, 0);
    if (held) polls_for_one(ends, 0);
    cr_assert_not(recv_on(ends, 0));
    if (held) return times;
  }
}

Test(holdback, doubles_the_interval_after_failed_attempts) {
  ends_t ends = make_ends(true);
  stream(&ends, 0, SHM_HOLDBACK_AFTER, 4);
  cr_assert_eq(times_until_held(&ends), 1);
  for (int interval = 2; interval <= SHM_HOLDBACK_INTERVAL_MAX; interval *= 2) {
    cr_expect_eq(times_until_held(&ends), interval);
  }
  cr_expect_eq(times_until_held(&ends), SHM_HOLDBACK_INTERVAL_MAX);
  free_ends(&ends);
}

Test(holdback, repeats_while_the_sender_gets_ahead) {
  ends_t ends = make_ends(true);
  stream(&ends, 0, SHM_HOLDBACK_AFTER, 4);
  cr_assert_eq(times_until_held(&ends), 1);
  for (int round = 0; round < 3; round++) {
    for (int sent = 0; sent <= DESCRIPTORS / 2; sent++) send_on(&ends, 0, 4);
    while (ends.received < ends.sent) recv_on(&ends, 0);
    cr_assert_not(recv_on(&ends, 0));
  }
  send_on(&ends, 0, 4);
  cr_expect_not(recv_on(&ends, 0));
  free_ends(&ends);
}

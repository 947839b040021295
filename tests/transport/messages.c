/*
 * Cases about FIFOs. If two ranks have different roles, rank 0 sends and the last rank receives.
 * With the self transport they are the same rank, and the roles run one after the other.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "transport/kit.h"
#include "transport/kit_steps.h"

static size_t size_of(uint64_t number) {
  static const size_t sizes[] = {0, 1, 8, 40, 41, 64, 200, 1024, 4096};
  return sizes[number % (sizeof sizes / sizeof sizes[0])];
}

/* Sends around a ring of ranks on all channels at once, without blocking on any. */
int transport_case_order(const transport_fixture_t *fixture, transport_t **end) {
  enum { MESSAGES = 300 };
  (void)fixture;
  transport_t *t = *end;
  int next = (t->rank + 1) % t->size, previous = (t->rank + t->size - 1) % t->size;
  uint64_t sent[TRANSPORT_CHANNELS] = {0}, received[TRANSPORT_CHANNELS] = {0};
  uint64_t deadline = kit_deadline_ns(), had = 0;
  int left = TRANSPORT_CHANNELS;
  while (left > 0) {
    uint64_t has = 0;
    left = 0;
    for (int c = 0; c < TRANSPORT_CHANNELS; c++) {
      uint64_t out = sent[c] * TRANSPORT_CHANNELS + (uint64_t)c;
      uint64_t in = received[c] * TRANSPORT_CHANNELS + (uint64_t)c;
      bool done = false;
      if (sent[c] < MESSAGES) KIT_TRY(kit_send_try(t, next, c, out, size_of(out), &done));
      sent[c] += done;
      done = false;
      if (received[c] < MESSAGES) {
        KIT_TRY(kit_expect_try(t, previous, c, in, size_of(in), &done));
      }
      received[c] += done;
      left += sent[c] < MESSAGES || received[c] < MESSAGES;
      has += sent[c] + received[c];
    }
    KIT_TRY(kit_require_progress(t, has, &had, &deadline));
    if (t->size > 1) kit_pause();
  }
  for (int c = 0; c < TRANSPORT_CHANNELS; c++) KIT_TRY(kit_expect_nothing(t, previous, c));
  return 0;
}

/* Fills the FIFO and empties it, repeatedly: a message that was refused is not delivered. */
int transport_case_full(const transport_fixture_t *fixture, transport_t **end) {
  enum { ROUNDS = 3, ENOUGH = 1000 };
  (void)fixture;
  transport_t *t = *end;
  int sender = 0, receiver = t->size - 1, channel = TRANSPORT_CHANNEL_P2P;
  uint64_t *held = harness_board();
  for (int round = 0; round < ROUNDS; round++) {
    if (t->rank == sender) {
      bool done = true;
      uint64_t count = 0;
      while (done && count < ENOUGH) {
        KIT_TRY(kit_send_try(t, receiver, channel, count, 100, &done));
        count += done;
      }
      KIT_REQUIRE(count >= TRANSPORT_DEPTH, "holds only %d messages", (int)count);
      *held = count;
    }
    kit_barrier(t);
    if (t->rank == receiver) {
      for (uint64_t i = 0; i < *held; i++) KIT_TRY(kit_expect(t, sender, channel, i, 100));
      KIT_TRY(kit_expect_nothing(t, sender, channel));
    }
    kit_barrier(t);
  }
  return 0;
}

/* Transfers one long message; its size and content follow from its number. */
static int transfer_long(transport_t *t, bool sends, int peer, uint64_t count) {
  size_t bytes = t->slot_bytes - count % 67;
  unsigned char *data = malloc(bytes);
  transport_head_t head = {.call = kit_id(count), .bytes = bytes};
  bool done = false;
  KIT_REQUIRE(data != NULL, "out of memory");
  if (sends) kit_fill(data, count, bytes);
  for (uint64_t deadline = kit_deadline_ns(); !done && base_clock_now_ns() < deadline;) {
    if (sends)
      t->ops->send(t->ops->port(t, peer, 0), data, &head, &done);
    else
      t->ops->recv(t->ops->port(t, peer, 0), data, bytes, &head, &done);
    if (!done) kit_pause();
  }
  bool same =
      flight_call_is(head.call, kit_id(count)) && head.bytes == bytes && kit_is(data, count, bytes);
  free(data);
  KIT_REQUIRE(done, "message %d of %zu bytes has no %s", (int)count, bytes,
              sends ? "room" : "message");
  KIT_REQUIRE(same, "message %d changed", (int)count);
  return 0;
}

/* A receiver takes all but a few messages and then does something else: with those few, the FIFO
 * still has room for TRANSPORT_DEPTH in total. */
int transport_case_depth(const transport_fixture_t *fixture, transport_t **end) {
  enum { ROUNDS = 40 };
  (void)fixture;
  transport_t *t = *end;
  int sender = 0, receiver = t->size - 1;
  uint64_t sent = 0, received = 0;
  for (uint64_t round = 0; round < ROUNDS; round++) {
    while (sent - received < TRANSPORT_DEPTH) {
      if (t->rank == sender) KIT_TRY(transfer_long(t, true, receiver, sent));
      sent++;
    }
    kit_barrier(t);
    uint64_t left = round * round / 3 % TRANSPORT_DEPTH;
    while (sent - received > left) {
      if (t->rank == receiver) KIT_TRY(transfer_long(t, false, sender, received));
      received++;
    }
    kit_barrier(t);
  }
  return 0;
}

/* Sends as many messages as there is always room for, then makes no call but `drained`, and none
 * once it was true: the receiver gets all of them. */
static int send_and_drain(transport_t *t, int receiver, _Atomic uint64_t *sent) {
  enum { ENOUGH = TRANSPORT_DEPTH };
  unsigned char *data = calloc(1, t->slot_bytes);
  uint64_t count = 0, deadline = kit_deadline_ns();
  bool done = true;
  KIT_REQUIRE(data != NULL, "out of memory");
  while (done && count < ENOUGH) {
    const transport_head_t head = {.call = kit_id(count), .bytes = t->slot_bytes};
    done = false;
    t->ops->send(t->ops->port(t, receiver, 0), data, &head, &done);
    count += done;
  }
  free(data);
  atomic_store(sent, count);
  while (!t->ops->drained(t->ops->port(t, receiver, 0))) {
    KIT_REQUIRE(base_clock_now_ns() < deadline, "%d messages do not leave", (int)count);
    kit_pause();
  }
  return 0;
}

static int receive_all(transport_t *t, int sender, uint64_t count) {
  for (uint64_t received = 0, deadline = kit_deadline_ns(); received < count;) {
    transport_head_t head;
    bool done = false;
    t->ops->recv(t->ops->port(t, sender, 0), NULL, 0, &head, &done);
    KIT_REQUIRE(done || base_clock_now_ns() < deadline, "message %d of %d does not come",
                (int)received, (int)count);
    received += done;
    if (!done) kit_pause();
  }
  return 0;
}

static int receive_what_was_sent(transport_t *t, int sender, const _Atomic uint64_t *sent) {
  while (atomic_load(sent) == 0) kit_pause();
  return receive_all(t, sender, atomic_load(sent));
}

/* A rank and its peer have filled the way to each other, and each only asks whether that is drained
 * before it receives. */
int transport_case_drained_both(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  _Atomic uint64_t *sent = harness_board();
  int first = 0, last = t->size - 1;
  if (t->rank == first) KIT_TRY(send_and_drain(t, last, &sent[0]));
  if (t->rank == last) KIT_TRY(send_and_drain(t, first, &sent[1]));
  if (t->rank == first) KIT_TRY(receive_what_was_sent(t, last, &sent[1]));
  if (t->rank == last) KIT_TRY(receive_what_was_sent(t, first, &sent[0]));
  harness_barrier();
  return 0;
}

int transport_case_drained(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  _Atomic uint64_t *sent = harness_board();
  int sender = 0, receiver = t->size - 1;
  if (t->rank == sender) KIT_TRY(send_and_drain(t, receiver, sent));
  if (t->rank == receiver) KIT_TRY(receive_what_was_sent(t, sender, sent));
  harness_barrier();
  return 0;
}

static int transfer(transport_t *t, size_t bytes, flight_call_t call) {
  int sender = 0, receiver = t->size - 1;
  unsigned char *data = malloc(bytes + 1);
  KIT_REQUIRE(data != NULL, "out of memory");
  uint64_t deadline = kit_deadline_ns();
  bool done = t->rank != sender;
  transport_head_t head = {.call = call, .bytes = bytes};
  kit_fill(data, bytes, bytes);
  while (!done && base_clock_now_ns() < deadline) {
    if (t->ops->send(t->ops->port(t, receiver, 0), bytes > 0 ? data : NULL, &head, &done) !=
        COLL_OK)
      break;
    if (!done) kit_pause();
  }
  KIT_REQUIRE(done, "cannot send %zu bytes", bytes);
  done = t->rank != receiver;
  memset(data, 0, bytes + 1);
  while (!done && base_clock_now_ns() < deadline) {
    head = (transport_head_t){0};
    if (t->ops->recv(t->ops->port(t, sender, 0), bytes > 0 ? data : NULL, bytes, &head, &done) !=
        COLL_OK)
      break;
    if (!done) kit_pause();
  }
  KIT_REQUIRE(done, "cannot receive %zu bytes", bytes);
  if (t->rank == receiver) {
    KIT_REQUIRE(head.bytes == bytes && flight_call_is(head.call, call),
                "the header of a message of %zu bytes changed", bytes);
    KIT_REQUIRE(kit_is(data, bytes, bytes), "some of %zu bytes changed", bytes);
    KIT_REQUIRE(data[bytes] == 0, "wrote past %zu bytes", bytes);
  }
  free(data);
  return 0;
}

int transport_case_sizes(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  const size_t sizes[] = {0,
                          1,
                          7,
                          31,
                          32,
                          33,
                          39,
                          40,
                          41,
                          63,
                          64,
                          65,
                          4095,
                          4096,
                          t->slot_bytes / 2,
                          t->slot_bytes - 1,
                          t->slot_bytes};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    flight_call_t call = {.what = i % 2 == 0 ? 0 : UINT64_MAX - i,
                          .count = i % 3 == 0 ? 0 : UINT64_MAX - i};
    if (sizes[i] <= t->slot_bytes) KIT_TRY(transfer(t, sizes[i], call));
  }
  return 0;
}

/* Receives by recv or recv_post, with at most `polls` looks. */
static int look(transport_t *t, bool posts, int peer, void *data, int polls, transport_head_t *head,
                bool *done) {
  uint64_t deadline = kit_deadline_ns();
  transport_port_t *port = t->ops->port(t, peer, 0);
  *done = false;
  for (int i = 0; !*done && i < polls && base_clock_now_ns() < deadline; i++) {
    coll_status_t status =
        (posts ? t->ops->recv_post : t->ops->recv)(port, data, t->slot_bytes, head, done);
    KIT_REQUIRE(status == COLL_OK, "cannot receive: %s", base_last_error());
    if (!*done) kit_pause();
  }
  return 0;
}

/* A message of which a part may have arrived where its receive was posted is cancelled after some
 * looks, and received elsewhere. */
static int receive_cancelled(transport_t *t, int peer, uint64_t number, int polls, char *posted,
                             char *other) {
  transport_head_t head = {0};
  bool done;
  KIT_TRY(look(t, true, peer, posted, polls, &head, &done));
  const char *found = done ? posted : other;
  if (!done) {
    t->ops->cancel(t);
    memset(posted, 0xee, t->slot_bytes);
    KIT_TRY(look(t, false, peer, other, INT_MAX, &head, &done));
    KIT_REQUIRE(kit_is_all(posted, 0xee, t->slot_bytes), "wrote to memory of a cancelled receive");
  }
  KIT_REQUIRE(done, "message %d is missing", (int)number);
  KIT_REQUIRE(head.bytes == t->slot_bytes && flight_call_is(head.call, kit_id(number)) &&
                  kit_is(found, number, t->slot_bytes),
              "message %d has changed", (int)number);
  return 0;
}

/* A message that arrives where its receive was posted while another channel is polled is not lost
 * when another call ends its loans. */
static int receive_beside(transport_t *t, int peer, uint64_t number, char *posted) {
  transport_port_t *port = t->ops->port(t, peer, 0);
  transport_head_t head = {0};
  bool done;
  KIT_REQUIRE(t->ops->recv_post(port, posted, t->slot_bytes, &head, &done) == COLL_OK,
              "cannot receive: %s", base_last_error());
  KIT_TRY(kit_expect(t, peer, 1, number, 8));
  t->ops->release(t);
  if (!done) KIT_TRY(look(t, true, peer, posted, INT_MAX, &head, &done));
  KIT_REQUIRE(
      done && flight_call_is(head.call, kit_id(number)) && kit_is(posted, number, t->slot_bytes),
      "message %d has changed", (int)number);
  return 0;
}

/* Lends the message from `data` while it sends it; afterwards the memory is another's. */
static int lend_slot(transport_t *t, int peer, uint64_t number, char *data) {
  const transport_head_t head = {.call = kit_id(number), .bytes = t->slot_bytes};
  uint64_t deadline = kit_deadline_ns();
  bool done = false;
  kit_fill(data, number, t->slot_bytes);
  while (!done && base_clock_now_ns() < deadline) {
    KIT_REQUIRE(t->ops->send_lent(t->ops->port(t, peer, 0), data, &head, &done) == COLL_OK,
                "cannot send: %s", base_last_error());
    if (!done) kit_pause();
  }
  KIT_REQUIRE(done, "no room for message %d", (int)number);
  t->ops->release(t);
  memset(data, 0xdd, t->slot_bytes);
  return 0;
}

int transport_case_loans(const transport_fixture_t *fixture, transport_t **end) {
  enum { ROUNDS = 90 };
  (void)fixture;
  transport_t *t = *end;
  int sender = 0, receiver = t->size - 1, failed = 0;
  char *posted = malloc(t->slot_bytes), *other = malloc(t->slot_bytes);
  KIT_REQUIRE(posted != NULL && other != NULL, "out of memory");
  for (uint64_t round = 0; round < ROUNDS && !failed; round++) {
    int polls = round % 3 == 0 ? INT_MAX : (int)(round / 3);
    if (t->rank == sender) failed = lend_slot(t, receiver, round, other);
    if (t->rank != receiver || failed) continue;
    failed = receive_cancelled(t, sender, round, polls, posted, other);
  }
  for (uint64_t number = ROUNDS; number < 2 * ROUNDS && !failed; number++) {
    if (t->rank == sender) failed = lend_slot(t, receiver, number, other);
    if (t->rank == sender && !failed) failed = kit_send(t, receiver, 1, number, 8);
    if (t->rank == receiver && !failed) failed = receive_beside(t, sender, number, posted);
  }
  free(posted);
  free(other);
  if (failed) return failed;
  /* what a sender has stored moves while it waits */
  if (t->rank == receiver) KIT_TRY(kit_signal(t, sender, 0, 0));
  return t->rank == sender ? kit_wait(t, receiver, 0, 0) : 0;
}

/* A receiver with a smaller buffer gets the beginning of a message, and the next message complete.
 * */
int transport_case_truncation(const transport_fixture_t *fixture, transport_t **end) {
  enum { ROOM = 10, LONG = 1000 };
  (void)fixture;
  transport_t *t = *end;
  int sender = 0, receiver = t->size - 1;
  if (t->rank == sender) {
    for (uint64_t i = 0; i < 3; i++) KIT_TRY(kit_send(t, receiver, 0, i, LONG));
  }
  if (t->rank != receiver) return 0;
  const size_t rooms[] = {ROOM, 0};
  for (uint64_t i = 0; i < 2; i++) {
    unsigned char data[ROOM + 1];
    data[rooms[i]] = 0xee;
    transport_head_t head = {0};
    bool done = false;
    uint64_t deadline = kit_deadline_ns();
    while (!done && base_clock_now_ns() < deadline) {
      void *into = rooms[i] > 0 ? data : NULL;
      if (t->ops->recv(t->ops->port(t, sender, 0), into, rooms[i], &head, &done) != COLL_OK) break;
      if (!done) kit_pause();
    }
    KIT_REQUIRE(done, "message %d is missing", (int)i);
    KIT_REQUIRE(head.bytes == LONG, "says %zu bytes were sent, not %d", head.bytes, LONG);
    KIT_REQUIRE(kit_is(data, i, rooms[i]), "message %d has wrong bytes", (int)i);
    KIT_REQUIRE(data[rooms[i]] == 0xee, "wrote past the buffer of %zu bytes", rooms[i]);
  }
  return kit_expect(t, sender, 0, 2, LONG);
}

/* Each channel has one port, the same in every call. */
static int check_ports(transport_t *t, int peer) {
  transport_port_t *ports[TRANSPORT_CHANNELS];
  for (int c = 0; c < TRANSPORT_CHANNELS; c++) {
    ports[c] = t->ops->port(t, peer, c);
    for (int other = 0; other < c; other++) {
      KIT_REQUIRE(ports[other] != ports[c], "channels %d and %d share a port", other, c);
    }
  }
  for (int c = 0; c < TRANSPORT_CHANNELS; c++) {
    KIT_REQUIRE(t->ops->port(t, peer, c) == ports[c], "channel %d has two ports", c);
    KIT_REQUIRE(ports[c]->transport == ports[0]->transport,
                "the port of channel %d belongs to another transport", c);
  }
  return 0;
}

/* With one FIFO full, the others still deliver. */
int transport_case_channels(const transport_fixture_t *fixture, transport_t **end) {
  enum { ENOUGH = 1000, PASSED = 50 };
  (void)fixture;
  transport_t *t = *end;
  int peer = t->size - 1 - t->rank; /* both directions at once */
  uint64_t filled = 0;
  bool done = true;
  KIT_TRY(check_ports(t, peer));
  while (done && filled < ENOUGH) {
    KIT_TRY(kit_send_try(t, peer, 0, filled, 64, &done));
    filled += done;
  }
  for (int c = 1; c < TRANSPORT_CHANNELS; c++) {
    for (uint64_t i = 0; i < PASSED; i++) {
      uint64_t number = 1000 * (uint64_t)c + i;
      KIT_TRY(kit_send(t, peer, c, number, 64));
      KIT_TRY(kit_expect(t, peer, c, number, 64));
    }
  }
  kit_barrier(t);
  for (uint64_t i = 0; i < filled; i++) KIT_TRY(kit_expect(t, peer, 0, i, 64));
  for (int c = 0; c < TRANSPORT_CHANNELS; c++) KIT_TRY(kit_expect_nothing(t, peer, c));
  return 0;
}

/* Every rank sends to every other at the same time, with random delays. */
int transport_case_all_pairs(const transport_fixture_t *fixture, transport_t **end) {
  enum { MESSAGES = 100 };
  (void)fixture;
  transport_t *t = *end;
  uint64_t sent[HARNESS_RANKS_MAX] = {0}, received[HARNESS_RANKS_MAX] = {0};
  unsigned seed = 17u * (unsigned)t->rank + 1;
  uint64_t deadline = kit_deadline_ns(), had = 0;
  const int all = 2 * (t->size - 1) * MESSAGES;
  int left = all;
  while (left > 0) {
    for (int peer = 0; peer < t->size; peer++) {
      if (peer == t->rank) continue;
      bool done = false;
      uint64_t out = sent[peer] + 1000 * (uint64_t)t->rank;
      if (sent[peer] < MESSAGES) KIT_TRY(kit_send_try(t, peer, 1, out, size_of(out), &done));
      sent[peer] += done;
      left -= done;
      done = false;
      uint64_t in = received[peer] + 1000 * (uint64_t)peer;
      if (received[peer] < MESSAGES) KIT_TRY(kit_expect_try(t, peer, 1, in, size_of(in), &done));
      received[peer] += done;
      left -= done;
    }
    int chance = rand_r(&seed) % 16;
    if (chance == 0) base_clock_sleep_ns((uint64_t)(rand_r(&seed) % 300000));
    if (chance < 8) kit_pause();
    KIT_TRY(kit_require_progress(t, (uint64_t)(all - left), &had, &deadline));
  }
  return 0;
}

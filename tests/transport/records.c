/* Cases about flight recorders, and about messages that a rank has not taken when it leaves. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/ranks.h"
#include "transport/kit.h"
#include "transport/kit_steps.h"

/* ---- recorders ------------------------------------------------------------------------------*/

/* Returns a peer's recorder, once it is available. */
static int find_recorder(transport_t *t, int peer, const flight_recorder_t **recorder) {
  uint64_t deadline = kit_deadline_ns();
  while ((*recorder = t->ops->recorder(t, peer)) == NULL && base_clock_now_ns() < deadline) {
    kit_pause();
  }
  KIT_REQUIRE(*recorder != NULL, "rank %d: no recorder of rank %d", t->rank, peer);
  return 0;
}

static flight_standstill_t wait_of(int rank, const uint64_t *peers) {
  uint64_t number = (uint64_t)rank;
  return (flight_standstill_t){.begin_ns = 1000 + number,
                               .collectives = 2000 + number,
                               .history = 3000 + number,
                               .number = 4000 + number,
                               .call = {5000 + number, 6000 + number},
                               .peers = peers,
                               .words = 1};
}

/* Expects that the rank waits for the ranks of wait_of: itself and the next one. */
static int expect_wait(transport_t *t, int peer, bool waits) {
  const flight_recorder_t *recorder;
  flight_standstill_t seen, expected = wait_of(peer, NULL);
  uint64_t deadline = kit_deadline_ns();
  do {
    KIT_TRY(find_recorder(t, peer, &recorder));
    if (flight_wait_read(recorder, &seen) == waits) break;
    kit_pause();
  } while (base_clock_now_ns() < deadline);
  KIT_REQUIRE(flight_wait_read(recorder, &seen) == waits, "rank %d: rank %d %s", t->rank, peer,
              waits ? "does not wait" : "still waits");
  if (!waits) return 0;
  KIT_REQUIRE(seen.begin_ns == expected.begin_ns && seen.collectives == expected.collectives &&
                  seen.history == expected.history && seen.number == expected.number &&
                  flight_call_is(seen.call, expected.call),
              "rank %d: rank %d reports a wait in call %d", t->rank, peer, (int)seen.number);
  for (int rank = 0; rank < t->size; rank++) {
    bool waited = rank == peer || rank == (peer + 1) % t->size;
    KIT_REQUIRE(flight_waits_for(recorder, rank) == waited, "rank %d waits for %d: %d", peer, rank,
                !waited);
  }
  KIT_REQUIRE(flight_wait_is(recorder, seen.changes), "rank %d: its wait has changed meanwhile",
              peer);
  return 0;
}

/* Connects all pairs. */
static int signal_all(transport_t *t) {
  for (int peer = 0; peer < t->size; peer++) {
    if (peer != t->rank) KIT_TRY(kit_signal(t, peer, 0, 1));
  }
  for (int peer = 0; peer < t->size; peer++) {
    if (peer != t->rank) KIT_TRY(kit_wait(t, peer, 0, 1));
  }
  return 0;
}

/* All ranks can read what each rank writes to its recorder, up to the end of a wait. */
int transport_case_records(const transport_fixture_t *fixture, transport_t **end) {
  transport_t *t = *end;
  uint64_t word = 0, number = (uint64_t)t->rank;
  base_ranks_t peers = {.size = t->size, .words = &word};
  const flight_recorder_t *recorder;
  KIT_REQUIRE(t->flight != NULL && t->ops->recorder(t, t->rank) == t->flight,
              "the rank has no recorder");
  if (fixture->connects_late) KIT_TRY(signal_all(t));
  for (int peer = 0; peer < t->size; peer++) KIT_TRY(expect_wait(t, peer, false));
  harness_barrier();
  flight_record(t->flight, 100 + number, 200 + number, 300 + number);
  flight_complete(t->flight, 100 + number);
  base_ranks_add(&peers, t->rank);
  base_ranks_add(&peers, (t->rank + 1) % t->size);
  flight_standstill_t wait = wait_of(t->rank, peers.words);
  flight_wait_publish(t->flight, &wait);
  t->ops->publish(t);
  for (int peer = 0; peer < t->size; peer++) {
    uint64_t expected = (uint64_t)peer;
    flight_past_t past = {0};
    KIT_TRY(expect_wait(t, peer, true));
    KIT_TRY(find_recorder(t, peer, &recorder));
    KIT_REQUIRE(flight_completed(recorder) == 100 + expected, "rank %d completed %d", peer,
                (int)flight_completed(recorder));
    KIT_REQUIRE(atomic_load(&recorder->rank) == peer && atomic_load(&recorder->pid) > 0,
                "rank %d's recorder is of rank %d, pid %d", peer, (int)recorder->rank,
                (int)recorder->pid);
    KIT_REQUIRE(flight_read(recorder, 0, &past) && past.number == 100 + expected &&
                    past.call.what == 200 + expected && past.call.count == 300 + expected,
                "rank %d's first call is %d", peer, (int)past.number);
  }
  harness_barrier();
  flight_wait_end(t->flight);
  t->ops->publish(t);
  for (int peer = 0; peer < t->size; peer++) KIT_TRY(expect_wait(t, peer, false));
  return 0;
}

/* ---- what was not taken ---------------------------------------------------------------------*/

static bool is_pending(transport_t *t, bool in, transport_port_t *port, flight_call_t *call) {
  return in ? t->ops->pending_in(port, call) : t->ops->pending_out(port, call);
}

/* A number below 0: nothing. */
static int expect_pending(transport_t *t, bool in, int peer, int channel, int number) {
  transport_port_t *port = t->ops->port(t, peer, channel);
  flight_call_t call = {0};
  uint64_t deadline = kit_deadline_ns();
  bool found = is_pending(t, in, port, &call);
  while (!found && number >= 0 && base_clock_now_ns() < deadline) {
    kit_pause();
    found = is_pending(t, in, port, &call);
  }
  const char *side = in ? "from" : "to";
  if (number < 0) {
    KIT_REQUIRE(!found, "rank %d, channel %d: something is pending %s rank %d", t->rank, channel,
                side, peer);
    return 0;
  }
  KIT_REQUIRE(found, "rank %d, channel %d: nothing is pending %s rank %d", t->rank, channel, side,
              peer);
  KIT_REQUIRE(flight_call_is(call, kit_id((uint64_t)number)),
              "rank %d, channel %d: call %d is not pending %s rank %d", t->rank, channel, number,
              side, peer);
  return 0;
}

/* Expects nothing pending on any channel with any rank. */
static int expect_none_pending(transport_t *t) {
  for (int peer = 0; peer < t->size; peer++) {
    for (int channel = 0; peer != t->rank && channel < TRANSPORT_CHANNELS; channel++) {
      KIT_TRY(expect_pending(t, true, peer, channel, -1));
      KIT_TRY(expect_pending(t, false, peer, channel, -1));
    }
  }
  return 0;
}

/* Sends one message, in several slots if it is longer than a slot. */
static int send_in_slots(transport_t *t, int peer, int channel, uint64_t number, size_t bytes) {
  unsigned char *data = calloc(1, t->slot_bytes);
  int code = data == NULL ? harness_fail("out of memory") : 0;
  for (size_t left = bytes; code == 0;) {
    size_t slot = left < t->slot_bytes ? left : t->slot_bytes;
    transport_head_t head = {.call = kit_id(number), .bytes = slot};
    bool done = false;
    if (t->ops->send(t->ops->port(t, peer, channel), data, &head, &done) != COLL_OK || !done) {
      code = harness_fail("rank %d: no room for message %d", t->rank, (int)number);
    }
    left -= slot;
    if (left == 0) break;
  }
  free(data);
  return code;
}

/* Messages of every size and a signal are reported as pending until they are taken, the oldest
 * first; a message of several slots until its last slot is taken. */
int transport_case_pending_in(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  int sender = 0, receiver = t->size - 1;
  const size_t sizes[] = {0, 40, 41, t->slot_bytes, 2 * t->slot_bytes + 5};
  const int slots[] = {1, 1, 1, 1, 3};
  if (t->rank == receiver && t->size > 1) KIT_TRY(expect_none_pending(t));
  for (int channel = 0; channel < TRANSPORT_CHANNELS; channel++) {
    for (int i = 0; i < (int)(sizeof sizes / sizeof sizes[0]); i++) {
      kit_barrier(t);
      if (t->rank == sender) {
        KIT_TRY(send_in_slots(t, receiver, channel, (uint64_t)i, sizes[i]));
        if (i == 1) KIT_TRY(kit_signal(t, receiver, channel, 90));
      }
      kit_barrier(t);
      for (int slot = 0; t->rank == receiver && slot < slots[i]; slot++) {
        transport_head_t head;
        bool done;
        KIT_TRY(expect_pending(t, true, sender, channel, i));
        KIT_REQUIRE(
            t->ops->recv(t->ops->port(t, sender, channel), NULL, 0, &head, &done) == COLL_OK &&
                done,
            "message %d is missing", i);
      }
      if (t->rank == receiver && i == 1) {
        KIT_TRY(expect_pending(t, true, sender, channel, 90));
        KIT_TRY(kit_wait(t, sender, channel, 90));
      }
      if (t->rank == receiver) KIT_TRY(expect_pending(t, true, sender, channel, -1));
    }
  }
  return 0;
}

/* Number of messages sent on each channel and number of those taken; message n has number n. */
enum { SENT_MAX = 40 };
static const int sent_on[] = {TRANSPORT_DEPTH, TRANSPORT_DEPTH, SENT_MAX};
static const int taken_on[] = {TRANSPORT_DEPTH, 1, 17};

_Static_assert(sizeof sent_on / sizeof sent_on[0] == TRANSPORT_CHANNELS, "one each");

static int leave_rank_1(transport_t *t) {
  for (int channel = 0; channel < TRANSPORT_CHANNELS; channel++) {
    for (int i = 0; i < taken_on[channel]; i++) {
      KIT_TRY(kit_expect(t, 0, channel, (uint64_t)i, 100));
    }
    int left = taken_on[channel] < sent_on[channel] ? taken_on[channel] : -1;
    KIT_TRY(expect_pending(t, true, 0, channel, left));
    KIT_TRY(expect_pending(t, false, 0, channel, -1));
  }
  return 0;
}

/* Rank 1 leaves before it has taken all messages; messages that rank 0 sends afterwards are not
 * taken either. */
int transport_case_pending_out(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  int rank = t->rank;
  KIT_TRY(expect_none_pending(t));
  harness_barrier();
  for (int channel = 0; t->rank == 0 && channel < TRANSPORT_CHANNELS; channel++) {
    for (int i = 0; i < sent_on[channel]; i++) {
      KIT_TRY(kit_send(t, 1, channel, (uint64_t)i, 100));
    }
    KIT_TRY(expect_pending(t, false, 1, channel, -1)); /* rank 1 may still take them */
  }
  harness_barrier();
  if (rank == 1) {
    KIT_TRY(leave_rank_1(t));
    t->ops->destroy(t);
    *end = NULL;
  }
  harness_barrier();
  if (rank == 0) {
    KIT_TRY(expect_pending(t, false, 1, 0, -1));
    KIT_TRY(expect_pending(t, false, 1, 1, taken_on[1]));
    KIT_TRY(expect_pending(t, false, 1, TRANSPORT_CHANNEL_P2P, taken_on[TRANSPORT_CHANNEL_P2P]));
    KIT_TRY(kit_send(t, 1, 0, 7, 4));
    KIT_TRY(expect_pending(t, false, 1, 0, 7));
    KIT_TRY(expect_pending(t, false, 2, 0, -1));
  }
  if (rank == 2) KIT_TRY(expect_none_pending(t));
  if (*end == NULL) harness_barrier(); /* the runner's, for a rank that has left */
  return 0;
}

/* Cases for transports with multicast. */
#include "base/clock.h"
#include "transport/kit.h"
#include "transport/kit_steps.h"

#define POST_BYTES_MAX KIT_BYTES_MAX

static int mcast_send_try(transport_t *t, uint64_t number, size_t bytes, bool *done) {
  unsigned char data[POST_BYTES_MAX];
  transport_head_t head = {.call = kit_id(number), .bytes = bytes};
  kit_fill(data, number, bytes);
  KIT_REQUIRE(t->ops->mcast_send(t, data, &head, done) == COLL_OK, "mcast_send: %s",
              base_last_error());
  return 0;
}

static int mcast_recv_try(transport_t *t, int peer, uint64_t number, size_t bytes, bool *done) {
  transport_head_t head;
  const void *data;
  KIT_REQUIRE(t->ops->mcast_peek(t, peer, &data, &head, done) == COLL_OK, "mcast_peek: %s",
              base_last_error());
  if (!*done) return 0;
  KIT_REQUIRE(flight_call_is(head.call, kit_id(number)) && head.bytes == bytes &&
                  kit_is(data, number, bytes),
              "rank %d: expected multicast message %d of rank %d, got one of %d bytes", t->rank,
              (int)number, peer, (int)head.bytes);
  KIT_REQUIRE(t->ops->mcast_take(t, peer) == COLL_OK, "mcast_take: %s", base_last_error());
  return 0;
}

static size_t size_of(int rank, uint64_t number) {
  static const size_t sizes[] = {0, 4, 40, 41, 64, 1000, 4096};
  return sizes[((uint64_t)rank + number) % (sizeof sizes / sizeof sizes[0])];
}

static uint64_t number_of(int rank, uint64_t count) {
  return (uint64_t)rank * 100000 + count;
}

/* All ranks multicast to all at their own speed; no message is lost, repeated or changed. */
int transport_case_mcast(const transport_fixture_t *fixture, transport_t **end) {
  enum { MESSAGES = 500 };
  (void)fixture;
  transport_t *t = *end;
  uint64_t sent = 0, read[HARNESS_RANKS_MAX] = {0}, deadline = kit_deadline_ns(), had = 0;
  for (int left = 1; left > 0;) {
    bool done = false;
    if (sent < MESSAGES) {
      KIT_TRY(mcast_send_try(t, number_of(t->rank, sent), size_of(t->rank, sent), &done));
    }
    sent += done;
    left = sent < MESSAGES;
    uint64_t has = sent;
    for (int peer = 0; peer < t->size; peer++) {
      has += read[peer];
      if (peer == t->rank || read[peer] == MESSAGES) continue;
      uint64_t count = read[peer];
      KIT_TRY(mcast_recv_try(t, peer, number_of(peer, count), size_of(peer, count), &done));
      read[peer] += done;
      left += read[peer] < MESSAGES;
    }
    KIT_TRY(kit_require_progress(t, has, &had, &deadline));
    kit_pause();
  }
  return 0;
}

/* Rank 0 multicasts until there is no room; while one peer has taken no message, room is not
 * reused. */
int transport_case_mcast_full(const transport_fixture_t *fixture, transport_t **end) {
  enum { ENOUGH = 1000, BYTES = 100 };
  (void)fixture;
  transport_t *t = *end;
  int slowest = t->size - 1;
  uint64_t *capacity = harness_board();
  for (int phase = 0; phase < 3; phase++) {
    if (t->rank == 0) {
      bool done = true;
      uint64_t count = 0;
      while (done && count < ENOUGH) {
        KIT_TRY(mcast_send_try(t, number_of(phase == 1, count), BYTES, &done));
        count += done;
      }
      if (phase == 1) KIT_REQUIRE(count == 0, "it overwrote messages that were not taken");
      if (phase == 0) KIT_REQUIRE(count >= TRANSPORT_DEPTH, "holds only %d messages", (int)count);
      if (phase == 2)
        KIT_REQUIRE(count == *capacity, "has room for %d messages, not as many as before",
                    (int)count);
      *capacity = phase == 1 ? *capacity : count;
    }
    harness_barrier();
    bool reads = t->rank != 0 && (phase == 2 || (phase == 0) == (t->rank != slowest));
    for (uint64_t i = 0; reads && i < *capacity; i++) {
      bool done;
      KIT_TRY(mcast_recv_try(t, 0, i, BYTES, &done));
      KIT_REQUIRE(done, "rank %d: multicast message %d is missing", t->rank, (int)i);
    }
    harness_barrier();
  }
  return 0;
}

/* Cases about mapped memory, and about peers that leave, die or abort. */
#include <string.h>

#include "base/clock.h"
#include "transport/kit.h"
#include "transport/wire.h"

#define SECOND_NS (UINT64_C(1000000000) * HARNESS_PATIENCE)

int transport_case_slots(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  const transport_ops_t *ops = (*end)->ops;
  WIRE_REQUIRE(ops->name != NULL && ops->name[0] != '\0', "it has no name");
  bool all = ops->port && ops->send && ops->recv && ops->peek && ops->take && ops->post &&
             ops->peek_post && ops->take_post && ops->signal && ops->wait && ops->signaled &&
             ops->address && ops->map && ops->scratch && ops->arm && ops->sleep && ops->disarm &&
             ops->outlook && ops->yield && ops->peer_state && ops->peer_completed && ops->enter &&
             ops->peer_entered && ops->abort && ops->aborted && ops->destroy;
  WIRE_REQUIRE(all, "a slot of %s is NULL", ops->name);
  return 0;
}

static int send_address(transport_t *t, int peer, const transport_address_t *address) {
  transport_head_t head = {.bytes = sizeof *address};
  bool done = false;
  coll_status_t status = t->ops->send(t->ops->port(t, peer, 0), address, &head, &done);
  WIRE_REQUIRE(status == COLL_OK && done, "cannot send an address: %s", base_last_error());
  return 0;
}

static int recv_address(transport_t *t, int peer, transport_address_t *address) {
  transport_head_t head = {0};
  uint64_t deadline = wire_deadline_ns();
  bool done = false;
  while (!done && base_clock_now_ns() < deadline) {
    if (t->ops->recv(t->ops->port(t, peer, 0), address, sizeof *address, &head, &done) != COLL_OK)
      break;
    if (!done) wire_pause();
  }
  WIRE_REQUIRE(done && head.bytes == sizeof *address, "no address from %d", peer);
  return 0;
}

/* Rank 0 describes the middle of a buffer, the last rank writes there, rank 0 sees it. */
static int write_through(const transport_fixture_t *fixture, transport_t *t, size_t bytes) {
  enum { OFFSET = 4096 + 64, LENGTH = 1000 };
  int owner = 0, writer = t->size - 1;
  transport_address_t address = {0, 0}, again = {0, 0};
  void *memory = NULL;
  uint64_t tag;
  if (t->rank == owner) {
    WIRE_REQUIRE(fixture->alloc(bytes, &memory) == COLL_OK, "%s", base_last_error());
    char *part = (char *)memory + OFFSET;
    WIRE_REQUIRE(t->ops->address(t, part, LENGTH, &address) == COLL_OK &&
                     t->ops->address(t, part, LENGTH, &again) == COLL_OK,
                 "%s", base_last_error());
    WIRE_REQUIRE(address.segment != 0, "memory that can be mapped has no address");
    WIRE_REQUIRE(address.segment == again.segment && address.offset == again.offset,
                 "the same memory has two addresses");
    WIRE_TRY(send_address(t, writer, &address));
  }
  if (t->rank == writer) {
    void *mapped = NULL;
    WIRE_TRY(recv_address(t, owner, &address));
    WIRE_REQUIRE(t->ops->map(t, owner, &address, &mapped) == COLL_OK, "%s", base_last_error());
    WIRE_REQUIRE(mapped != NULL, "rank %d's memory cannot be mapped", owner);
    wire_fill(mapped, bytes, LENGTH);
    WIRE_TRY(wire_signal(t, owner, 0, 1));
  }
  if (t->rank == owner) {
    WIRE_TRY(wire_wait(t, writer, 0, &tag));
    WIRE_REQUIRE(wire_is((char *)memory + OFFSET, bytes, LENGTH), "what was written is not here");
    WIRE_REQUIRE(((char *)memory)[OFFSET - 1] == 0 && ((char *)memory)[OFFSET + LENGTH] == 0,
                 "more than that was written");
    WIRE_REQUIRE(fixture->release(memory) == COLL_OK, "%s", base_last_error());
  }
  return 0;
}

int transport_case_memory(const transport_fixture_t *fixture, transport_t **end) {
  transport_t *t = *end;
  if (!fixture->maps) {
    transport_address_t address = {1, 1};
    WIRE_REQUIRE(t->ops->address(t, &address, sizeof address, &address) == COLL_OK, "%s",
                 base_last_error());
    WIRE_REQUIRE(address.segment == 0, "an address for memory that cannot be mapped");
    return 0;
  }
  WIRE_TRY(write_through(fixture, t, 16384));
  harness_meet();
  return write_through(fixture, t, 1 << 20); /* once more: the first was freed */
}

/* Everybody writes into everybody's scratch, each at a place of its own. */
int transport_case_scratch(const transport_fixture_t *fixture, transport_t **end) {
  transport_t *t = *end;
  void *first = NULL;
  size_t bytes = 0;
  t->ops->scratch(t, t->rank, &first, &bytes);
  if (!fixture->has_scratch) {
    WIRE_REQUIRE(first == NULL && bytes == 0, "scratch that peers cannot see");
    return 0;
  }
  WIRE_REQUIRE(first != NULL && bytes >= 4096, "no scratch");
  harness_meet();
  for (int r = 0; r < t->size; r++) {
    void *scratch = NULL;
    size_t size = 0;
    t->ops->scratch(t, r, &scratch, &size);
    WIRE_REQUIRE(scratch != NULL && size == bytes, "rank %d has %zu bytes of scratch, not %zu", r,
                 size, bytes);
    ((unsigned char *)scratch)[t->rank] = (unsigned char)(10 * r + t->rank + 1);
    ((unsigned char *)scratch)[bytes - 1 - (size_t)t->rank] = (unsigned char)(t->rank + 1);
  }
  harness_meet();
  for (int r = 0; r < t->size; r++) {
    const unsigned char *own = first;
    WIRE_REQUIRE(own[r] == 10 * t->rank + r + 1, "what rank %d wrote first is not there", r);
    WIRE_REQUIRE(own[bytes - 1 - (size_t)r] == r + 1, "what rank %d wrote last is not there", r);
  }
  return 0;
}

/* Waits until the peer is seen in that state. */
static int see(transport_t *t, int peer, transport_peer_state_t state) {
  uint64_t begin = base_clock_now_ns();
  while (t->ops->peer_state(t, peer) != state) {
    WIRE_REQUIRE(base_clock_now_ns() - begin < 2 * SECOND_NS, "rank %d sees rank %d in state %d",
                 t->rank, peer, (int)t->ops->peer_state(t, peer));
    base_clock_sleep_ns(1000000);
  }
  return 0;
}

static int see_rank_0_go(transport_t *t, transport_peer_state_t state) {
  int other = 3 - t->rank;
  WIRE_TRY(see(t, 0, state));
  WIRE_REQUIRE(t->ops->peer_state(t, other) == TRANSPORT_PEER_HERE, "the wrong rank is gone");
  for (uint64_t i = 0; i < 3; i++) WIRE_TRY(wire_expect(t, 0, 0, i, 500));
  return wire_expect_nothing(t, 0, 0);
}

/* Rank 0 sends and goes; the others see it gone, and still get what it sent. */
int transport_case_leaves(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  WIRE_REQUIRE(t->rank == 0 || t->ops->peer_state(t, 0) == TRANSPORT_PEER_HERE, "gone too soon");
  harness_meet();
  if (t->rank > 0) {
    WIRE_TRY(see_rank_0_go(t, TRANSPORT_PEER_LEFT));
  } else {
    for (int peer = 1; peer < t->size; peer++) {
      for (uint64_t i = 0; i < 3; i++) WIRE_TRY(wire_send(t, peer, 0, i, 500));
    }
    t->ops->destroy(t);
    *end = NULL;
    harness_meet(); /* the runner's, for a rank that has left */
  }
  return 0;
}

int transport_case_dies(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  harness_meet();
  if (t->rank == 0) {
    for (int peer = 1; peer < t->size; peer++) {
      for (uint64_t i = 0; i < 3; i++) WIRE_TRY(wire_send(t, peer, 0, i, 500));
    }
    harness_kill(0);
  }
  WIRE_TRY(see_rank_0_go(t, TRANSPORT_PEER_LOST));
  uint64_t tag;
  int other = 3 - t->rank; /* the survivors go on, and wait for each other before they leave */
  WIRE_TRY(wire_signal(t, other, 0, 1));
  WIRE_TRY(wire_wait(t, other, 0, &tag));
  t->ops->destroy(t);
  *end = NULL; /* no meeting with the dead */
  return 0;
}

/* What collectives the ranks completed, and which they say they are in. */
int transport_case_tells(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  uint64_t own = (uint64_t)t->rank, tag = 0;
  for (int peer = 0; peer < t->size; peer++) {
    WIRE_REQUIRE(!t->ops->peer_entered(t, peer, 0, &tag), "rank %d is in a call already", peer);
    WIRE_REQUIRE(t->completed != NULL, "nowhere to tell what is completed");
  }
  harness_meet();
  transport_complete(t, 100 + own);
  t->ops->enter(t, 100 + own, 7000 + own);
  harness_meet();
  for (int peer = 0; peer < t->size; peer++) {
    if (peer == t->rank) continue;
    uint64_t number = 100 + (uint64_t)peer;
    WIRE_REQUIRE(t->ops->peer_completed(t, peer) == number, "rank %d completed %d", peer,
                 (int)t->ops->peer_completed(t, peer));
    WIRE_REQUIRE(!t->ops->peer_entered(t, peer, number + 1, &tag), "rank %d is not there", peer);
    WIRE_REQUIRE(t->ops->peer_entered(t, peer, number, &tag) && tag == 7000 + (uint64_t)peer,
                 "rank %d says it is in %d", peer, (int)tag);
  }
  return 0;
}

/* The first culprit named is the one everybody hears of. */
int transport_case_aborts(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  int culprit = -1;
  WIRE_REQUIRE(!t->ops->aborted(t, &culprit), "aborted from the start");
  WIRE_REQUIRE(t->abort_word != NULL && atomic_load(t->abort_word) == 0, "its word says otherwise");
  harness_meet();
  if (t->rank == t->size - 1) t->ops->abort(t, 1);
  uint64_t begin = base_clock_now_ns();
  while (!t->ops->aborted(t, &culprit)) {
    WIRE_REQUIRE(base_clock_now_ns() - begin < SECOND_NS, "rank %d heard of no abort", t->rank);
    wire_pause();
  }
  WIRE_REQUIRE(culprit == 1, "rank %d heard that it was rank %d", t->rank, culprit);
  WIRE_REQUIRE(atomic_load(t->abort_word) != 0, "rank %d finds nothing in its word", t->rank);
  harness_meet();
  if (t->rank == 0) t->ops->abort(t, 2);
  harness_meet();
  culprit = -1;
  WIRE_REQUIRE(t->ops->aborted(t, &culprit) && culprit == 1, "rank %d now hears of rank %d",
               t->rank, culprit);
  return 0;
}

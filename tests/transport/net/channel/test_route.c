/*
 * The TCP transport with a wire in place of its sockets: the kit, and what happens when a pair
 * switches from one to the other. The wire is the tests' own, so that every machine has it.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "transport/net/ranks.h"
#include "transport/net/wire/packet_wire.h"

#define DELAY_US 100

/* ---- fixtures -------------------------------------------------------------------------------*/

static coll_status_t make(int size, transport_t *ends[]) {
  wire_t *wires[HARNESS_RANKS_MAX];
  for (int rank = 0; rank < size; rank++) COLL_TRY(packet_wire_open(DELAY_US, &wires[rank]));
  return transport_net_create_local(size, wires, ends);
}

/* without: a rank that has no wire; -1: all have it. */
static coll_status_t join_as(int rank, int size, void *board, unsigned delay_us, int without,
                             bool is_tree, transport_t **end) {
  bool has_wire[HARNESS_RANKS_MAX];
  ranks_net_t net = {.is_tree = is_tree, .has_wire = has_wire};
  for (int peer = 0; peer < size; peer++) has_wire[peer] = peer != without;
  if (rank != without) COLL_TRY(packet_wire_open(delay_us, &net.wire));
  return ranks_join(rank, size, board, &net, end);
}

static coll_status_t join(int rank, int size, void *board, unsigned delay_us, int without,
                          transport_t **end) {
  return join_as(rank, size, board, delay_us, without, false, end);
}

/* Most sockets are connected when the pair first uses them. */
static coll_status_t join_tree(int rank, int size, void *board, transport_t **end) {
  return join_as(rank, size, board, DELAY_US, -1, true, end);
}

static coll_status_t join_all(int rank, int size, void *board, transport_t **end) {
  return join(rank, size, board, DELAY_US, -1, end);
}

static coll_status_t join_at_once(int rank, int size, void *board, transport_t **end) {
  return join(rank, size, board, 0, -1, end);
}

static coll_status_t join_without_1(int rank, int size, void *board, transport_t **end) {
  return join(rank, size, board, DELAY_US, 1, end);
}

static coll_status_t join_failing(int rank, int size, void *board, transport_t **end) {
  return join(rank, size, board, PACKET_WIRE_FAILS, -1, end);
}

static coll_status_t join_narrow(int rank, int size, void *board, transport_t **end) {
  return join(rank, size, board, PACKET_WIRE_NARROW, -1, end);
}

static const transport_fixture_t all =
    RANKS_FIXTURE(.make = make, .join = join_all, .has_threads = true);
static const transport_fixture_t at_once = RANKS_FIXTURE(.make = make, .join = join_at_once);
static const transport_fixture_t failing = RANKS_FIXTURE(.make = make, .join = join_failing);
static const transport_fixture_t tree =
    RANKS_FIXTURE(.make = make, .join = join_tree, .connects_late = true);
static const transport_fixture_t narrow = RANKS_FIXTURE(.make = make, .join = join_narrow);
static const transport_fixture_t without_1 = RANKS_FIXTURE(.make = make, .join = join_without_1);

TRANSPORT_KIT_ANY(wire_threads, all, transport_kit_threads, 2)
TRANSPORT_KIT_PEERS(wire_threads, all, transport_kit_threads)
TRANSPORT_KIT_ANY(wire_processes, all, transport_kit_processes, 2)
TRANSPORT_KIT_PEERS(wire_processes, all, transport_kit_processes)
TRANSPORT_KIT_ANY(wire_at_once, at_once, transport_kit_processes, 2)
TRANSPORT_KIT_PEERS(wire_at_once, at_once, transport_kit_processes)
TRANSPORT_KIT_ANY(wire_tree, tree, transport_kit_processes, 4)
TRANSPORT_KIT_PEERS(wire_tree, tree, transport_kit_processes)
TRANSPORT_KIT_PEERS(wire_of_some, without_1, transport_kit_processes)
TRANSPORT_KIT_TIMES(wire_processes, all, transport_kit_processes)

TRANSPORT_KIT_FETCHES(wire_threads, all, transport_kit_threads)
TRANSPORT_KIT_FETCHES(wire_processes, all, transport_kit_processes)
TRANSPORT_KIT_FETCHES(wire_tree, tree, transport_kit_processes)

TRANSPORT_KIT_DEATH(wire_processes, all)

/* ---- switching ------------------------------------------------------------------------------*/

enum { ROUNDS = 40, IN_A_ROUND = 8, CHANNEL = 2 };

/* Every rank sends to and receives from every other. Numbers of messages say their round. */
static int run_rounds(transport_t *t, int rounds) {
  unsigned seed = (unsigned)t->rank;
  for (int round = 0; round < rounds; round++) {
    uint64_t first = (uint64_t)round * IN_A_ROUND;
    for (int peer = 0; peer < t->size; peer++) {
      for (uint64_t i = 0; peer != t->rank && i < IN_A_ROUND; i++) {
        KIT_TRY(kit_send(t, peer, CHANNEL, first + i, (first + i) * 997 % KIT_BYTES_MAX));
      }
    }
    if (rand_r(&seed) % 4 == 0) base_clock_sleep_ns(100000);
    for (int peer = 0; peer < t->size; peer++) {
      for (uint64_t i = 0; peer != t->rank && i < IN_A_ROUND; i++) {
        KIT_TRY(kit_expect(t, peer, CHANNEL, first + i, (first + i) * 997 % KIT_BYTES_MAX));
      }
    }
  }
  return 0;
}

static int case_switches(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  uint64_t before = packet_wire_frames();
  KIT_TRY(run_rounds(*end, ROUNDS));
  uint64_t passed = packet_wire_frames() - before;
  KIT_REQUIRE(passed > ROUNDS * IN_A_ROUND / 2, "only %d frames by the wire", (int)passed);
  return 0;
}

Test(wire_switch, keeps_the_order_between_threads) {
  transport_kit_threads(&all, 4, case_switches);
}
Test(wire_switch, keeps_the_order_between_processes) {
  transport_kit_processes(&all, 4, case_switches);
}

static int case_drains(const transport_fixture_t *fixture, transport_t **end) {
  KIT_TRY(run_rounds(*end, ROUNDS));
  return transport_case_drained_both(fixture, end);
}

Test(wire_switch, drains_what_the_wire_holds) {
  transport_kit_processes(&narrow, 2, case_drains);
}

/* Rank 0 goes right after it has sent as much as the peers must store. They first see that it is
 * gone, and then receive. */
static int send_last(transport_t *t) {
  for (int peer = 1; peer < t->size; peer++) {
    for (uint64_t i = 0; i < TRANSPORT_P2P_MESSAGES; i++) {
      KIT_TRY(kit_send(t, peer, TRANSPORT_CHANNEL_P2P, i, i * 61 % KIT_BYTES_MAX));
    }
  }
  return 0;
}

static int receive_last(transport_t *t, transport_peer_state_t state) {
  uint64_t deadline_ns = kit_deadline_ns();
  while (t->ops->peer_state(t, 0) == TRANSPORT_PEER_HERE && base_clock_now_ns() < deadline_ns) {
    kit_pause();
  }
  KIT_REQUIRE(t->ops->peer_state(t, 0) == state, "rank 0 is in state %d",
              (int)t->ops->peer_state(t, 0));
  for (uint64_t i = 0; i < TRANSPORT_P2P_MESSAGES; i++) {
    KIT_TRY(kit_expect(t, 0, TRANSPORT_CHANNEL_P2P, i, i * 61 % KIT_BYTES_MAX));
  }
  return kit_expect_nothing(t, 0, TRANSPORT_CHANNEL_P2P);
}

static int case_leaves(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  KIT_TRY(run_rounds(t, ROUNDS));
  if (t->rank > 0) return receive_last(t, TRANSPORT_PEER_LEFT);
  KIT_TRY(send_last(t));
  t->ops->destroy(t);
  *end = NULL;
  harness_barrier(); /* the runner's, for a rank that has left */
  return 0;
}

Test(wire_switch, delivers_all_of_a_thread_that_leaves) {
  transport_kit_threads(&all, 3, case_leaves);
}
Test(wire_switch, delivers_all_of_a_process_that_leaves) {
  transport_kit_processes(&all, 3, case_leaves);
}
Test(wire_switch, delivers_all_of_a_process_that_leaves_at_once) {
  transport_kit_processes(&at_once, 3, case_leaves);
}

static int case_dies(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  KIT_TRY(run_rounds(t, ROUNDS));
  if (t->rank == 0) {
    KIT_TRY(send_last(t));
    harness_kill(0);
  }
  KIT_TRY(receive_last(t, TRANSPORT_PEER_LOST));
  int other = 3 - t->rank; /* the survivors wait for each other before they leave */
  KIT_TRY(kit_signal(t, other, 0, 1));
  KIT_TRY(kit_wait(t, other, 0, 1));
  t->ops->destroy(t);
  *end = NULL; /* skips the runner's barrier, which rank 0 cannot reach */
  return 0;
}

Test(wire_switch, delivers_what_had_arrived_of_a_process_that_died) {
  transport_kit_with_death(&at_once, 3, case_dies);
}

/* Rank 1 aborts at a random time after the first messages, which begin to switch. */
static int case_aborts(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  transport_reason_t reason = {.failed_rank = 2, .status = COLL_ERROR_MISMATCH, .text = "why"};
  uint64_t deadline_ns = kit_deadline_ns();
  KIT_TRY(run_rounds(t, 1));
  if (t->rank == 1) {
    base_clock_sleep_ns(base_clock_now_ns() % (DELAY_US * 2000));
    t->ops->abort(t, &reason);
  }
  memset(&reason, 0, sizeof reason);
  while (!t->ops->aborted(t, &reason)) {
    KIT_REQUIRE(base_clock_now_ns() < deadline_ns, "the abort has not come");
    bool done;
    KIT_TRY(kit_send_try(t, (t->rank + 1) % t->size, 1, 0, 100, &done));
    kit_pause();
  }
  KIT_REQUIRE(reason.failed_rank == 2 && strcmp(reason.text, "why") == 0, "another reason: %s",
              reason.text);
  return 0;
}

Test(wire_switch, aborts_while_it_switches) {
  for (int i = 0; i < 10; i++) transport_kit_threads(&all, 4, case_aborts);
}

/* Behind the first note of rank 0, which ends the connection, follow messages, the last in part. */
static int case_fails(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  uint64_t deadline_ns = kit_deadline_ns();
  for (uint64_t i = 0; t->rank == 0 && i < 3; i++) {
    KIT_TRY(kit_send(t, 1, CHANNEL, i, KIT_BYTES_MAX - 7));
  }
  harness_barrier();
  while (t->ops->peer_state(t, 1 - t->rank) != TRANSPORT_PEER_LOST) {
    KIT_REQUIRE(base_clock_now_ns() < deadline_ns, "rank %d does not lose its peer", t->rank);
    kit_pause();
  }
  return 0;
}

Test(wire_switch, drops_what_follows_a_failure) {
  transport_kit_processes(&failing, 2, case_fails);
}

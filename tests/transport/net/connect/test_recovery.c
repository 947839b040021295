/*
 * Connections that are reset at random while messages are under way, on one rail and on two: every
 * message arrives once, unchanged and in order, or the peer is lost because it has died. A rank
 * that was given up is told so when it connects again. The rails are two addresses of the loopback
 * interface.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "transport/net/ranks.h"
#include "transport/net/state.h"

#define MS_NS UINT64_C(1000000)

/* ---- fixtures -------------------------------------------------------------------------------*/

static coll_status_t join_one(int rank, int size, void *board, transport_t **end) {
  return ranks_join(rank, size, board, &(ranks_net_t){.rails = 1}, end);
}

static coll_status_t join_two(int rank, int size, void *board, transport_t **end) {
  return ranks_join(rank, size, board, &(ranks_net_t){.rails = 2}, end);
}

static coll_status_t join_tree(int rank, int size, void *board, transport_t **end) {
  return ranks_join(rank, size, board, &(ranks_net_t){.is_tree = true, .rails = 2}, end);
}

/* Rank 1 has one interface, the others two. */
static coll_status_t join_unequal(int rank, int size, void *board, transport_t **end) {
  return ranks_join(rank, size, board, &(ranks_net_t){.rails = rank == 1 ? 1 : 2}, end);
}

static const transport_fixture_t one = RANKS_FIXTURE(.join = join_one);
static const transport_fixture_t two = RANKS_FIXTURE(.join = join_two);
static const transport_fixture_t tree = RANKS_FIXTURE(.join = join_tree, .connects_late = true);
static const transport_fixture_t unequal = RANKS_FIXTURE(.join = join_unequal);

TRANSPORT_KIT_ANY(recovery_one_rail, one, transport_kit_processes, 2)
TRANSPORT_KIT_PEERS(recovery_one_rail, one, transport_kit_processes)
TRANSPORT_KIT_ANY(recovery_two_rails, two, transport_kit_processes, 2)
TRANSPORT_KIT_PEERS(recovery_two_rails, two, transport_kit_processes)
TRANSPORT_KIT_ANY(recovery_tree, tree, transport_kit_processes, 4)
TRANSPORT_KIT_PEERS(recovery_tree, tree, transport_kit_processes)
TRANSPORT_KIT_PEERS(recovery_unequal, unequal, transport_kit_processes)

TRANSPORT_KIT_DEATH(recovery_one_rail, one)
TRANSPORT_KIT_DEATH(recovery_two_rails, two)

/* ---- resets ---------------------------------------------------------------------------------*/

/* As a firewall on the way does it: what is under way is lost at both ends (tcp(7): AF_UNSPEC
 * dissolves the association). */
static bool reset_link(const net_t *end, int link) {
  const struct sockaddr none = {.sa_family = AF_UNSPEC};
  int fd = socket_wire_fd(end->sockets, link);
  return fd >= 0 && connect(fd, &none, sizeof none) == 0;
}

static void reset_all(transport_t *t) {
  net_t *end = net_of(t);
  pthread_mutex_lock(&end->lock);
  for (int link = 0; link < end->sockets->size; link++) reset_link(end, link);
  pthread_mutex_unlock(&end->lock);
}

typedef struct saboteur {
  net_t *end;
  pthread_t thread;
  unsigned seed;
  _Atomic int resets, is_ending;
} saboteur_t;

static void *sabotage(void *context) {
  saboteur_t *self = context;
  net_t *end = self->end;
  while (!self->is_ending) {
    base_clock_sleep_ns((uint64_t)(rand_r(&self->seed) % 8) * MS_NS / 2);
    int link = rand_r(&self->seed) % end->sockets->size;
    pthread_mutex_lock(&end->lock);
    self->resets += reset_link(end, link);
    pthread_mutex_unlock(&end->lock);
  }
  return NULL;
}

static int begin_sabotage(saboteur_t *self, transport_t *t) {
  *self = (saboteur_t){.end = net_of(t), .seed = (unsigned)t->rank + 1};
  int error = pthread_create(&self->thread, NULL, sabotage, self);
  KIT_REQUIRE(error == 0, "no thread: %s", strerror(error));
  uint64_t deadline_ns = kit_deadline_ns();
  while (self->resets == 0 && base_clock_now_ns() < deadline_ns) kit_pause();
  KIT_REQUIRE(self->resets > 0, "no connection was reset");
  return 0;
}

static void end_sabotage(saboteur_t *self) {
  self->is_ending = 1;
  pthread_join(self->thread, NULL);
}

enum { ROUNDS = 300, IN_A_ROUND = 6, CHANNEL = 2 };

static size_t bytes_of(uint64_t number) {
  return number * 997 % KIT_BYTES_MAX;
}

/* Every rank sends to and receives from every other. */
static int run_rounds(transport_t *t) {
  for (uint64_t round = 0; round < ROUNDS; round++) {
    uint64_t first = round * IN_A_ROUND;
    for (int peer = 0; peer < t->size; peer++) {
      for (uint64_t i = first; peer != t->rank && i < first + IN_A_ROUND; i++) {
        KIT_TRY(kit_send(t, peer, CHANNEL, i, bytes_of(i)));
      }
      if (peer != t->rank) KIT_TRY(kit_signal(t, peer, CHANNEL, round));
    }
    for (int peer = 0; peer < t->size; peer++) {
      for (uint64_t i = first; peer != t->rank && i < first + IN_A_ROUND; i++) {
        KIT_TRY(kit_expect(t, peer, CHANNEL, i, bytes_of(i)));
      }
      if (peer != t->rank) KIT_TRY(kit_wait(t, peer, CHANNEL, round));
    }
  }
  return 0;
}

static int case_resets(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  saboteur_t saboteur;
  KIT_TRY(begin_sabotage(&saboteur, *end));
  int failed = run_rounds(*end);
  end_sabotage(&saboteur);
  return failed;
}

Test(recovery_one_rail, delivers_all_although_connections_are_reset) {
  transport_kit_processes(&one, 3, case_resets);
}
Test(recovery_two_rails, delivers_all_although_connections_are_reset) {
  transport_kit_processes(&two, 3, case_resets);
}
Test(recovery_tree, delivers_all_although_connections_are_reset) {
  transport_kit_processes(&tree, 5, case_resets);
}
Test(recovery_unequal, delivers_all_although_connections_are_reset) {
  transport_kit_processes(&unequal, 4, case_resets);
}

/* ---- a rank that leaves or dies while connections are reset ----------------------------------*/

static int send_last(transport_t *t) {
  for (int peer = 1; peer < t->size; peer++) {
    for (uint64_t i = 0; i < TRANSPORT_P2P_MESSAGES; i++) {
      KIT_TRY(kit_send(t, peer, TRANSPORT_CHANNEL_P2P, i, bytes_of(i)));
    }
  }
  return 0;
}

/* Rank 0 leaves while its last messages are under way, and its connections are reset. */
static int case_leaves(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  if (t->rank == 0) {
    KIT_TRY(send_last(t));
    reset_all(t);
    t->ops->destroy(t);
    *end = NULL;
    harness_barrier(); /* the runner's, for a rank that has left */
    return 0;
  }
  for (uint64_t i = 0; i < TRANSPORT_P2P_MESSAGES; i++) {
    KIT_TRY(kit_expect(t, 0, TRANSPORT_CHANNEL_P2P, i, bytes_of(i)));
  }
  uint64_t deadline_ns = kit_deadline_ns();
  while (t->ops->peer_state(t, 0) == TRANSPORT_PEER_HERE && base_clock_now_ns() < deadline_ns) {
    kit_pause();
  }
  KIT_REQUIRE(t->ops->peer_state(t, 0) == TRANSPORT_PEER_LEFT, "rank 0 is in state %d",
              (int)t->ops->peer_state(t, 0));
  return 0;
}

Test(recovery_one_rail, delivers_all_of_a_rank_that_leaves) {
  for (int i = 0; i < 10; i++) transport_kit_processes(&one, 3, case_leaves);
}
Test(recovery_two_rails, delivers_all_of_a_rank_that_leaves) {
  for (int i = 0; i < 10; i++) transport_kit_processes(&two, 3, case_leaves);
}

/* What rank 0 sends, and its peer must get before it is drained, meets a reset first. */
static int case_drains(const transport_fixture_t *fixture, transport_t **end) {
  if ((*end)->rank == 0) reset_all(*end);
  return transport_case_drained(fixture, end);
}

Test(recovery_one_rail, drains_behind_a_reset) {
  for (int i = 0; i < 10; i++) transport_kit_processes(&one, 2, case_drains);
}
Test(recovery_two_rails, drains_behind_a_reset) {
  for (int i = 0; i < 10; i++) transport_kit_processes(&two, 2, case_drains);
}

enum { UNTOLD = 80, UNTOLD_BYTES = UNTOLD * KIT_BYTES_MAX };

_Static_assert(UNTOLD_BYTES > NET_UNTOLD_BYTES && UNTOLD <= NET_P2P_MESSAGES,
               "the sender waits for an acknowledgement, and for nothing else");

/* Until the sockets have accepted all. */
static int flush_all(transport_t *t, int peer) {
  net_t *end = net_of(t);
  uint64_t deadline_ns = kit_deadline_ns();
  for (bool holds = true; holds;) {
    KIT_REQUIRE(base_clock_now_ns() < deadline_ns, "a socket does not accept %d bytes",
                (int)UNTOLD_BYTES);
    pthread_mutex_lock(&end->lock);
    end->sockets->ops->flush(end->sockets, -1);
    holds = net_pair_holds(&end->pairs.pairs[peer], -1);
    pthread_mutex_unlock(&end->lock);
    kit_pause();
  }
  return 0;
}

/* Receives all, but takes nothing, by a connection on which no answer passes. */
static int receive_mutely(transport_t *t, int peer) {
  net_t *end = net_of(t);
  uint64_t deadline_ns = kit_deadline_ns();
  pthread_mutex_lock(&end->lock);
  shutdown(socket_wire_fd(end->sockets, end->pairs.pairs[peer].rails[0].link), SHUT_WR);
  pthread_mutex_unlock(&end->lock);
  for (uint32_t received = 0; received < UNTOLD;) {
    KIT_REQUIRE(base_clock_now_ns() < deadline_ns, "%u frames have arrived", received);
    (void)t->ops->peer_state(t, peer);
    pthread_mutex_lock(&end->lock);
    received = end->channels.peers[peer].received;
    pthread_mutex_unlock(&end->lock);
  }
  return 0;
}

/* The acknowledgement of what rank 0 has sent is lost, and rank 1 sends nothing else: rank 0 gets
 * it by the next connection. */
static int case_tells_again(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  uint64_t deadline_ns = kit_deadline_ns();
  for (uint64_t i = 0; t->rank == 0 && i < UNTOLD; i++) {
    KIT_TRY(kit_send(t, 1, TRANSPORT_CHANNEL_P2P, i, KIT_BYTES_MAX));
  }
  if (t->rank == 0) KIT_TRY(flush_all(t, 1));
  harness_barrier();
  if (t->rank == 1) KIT_TRY(receive_mutely(t, 0));
  harness_barrier();
  while (t->rank == 0 && !t->ops->drained(t->ops->port(t, 1, TRANSPORT_CHANNEL_P2P))) {
    KIT_REQUIRE(base_clock_now_ns() < deadline_ns, "what has arrived is not acknowledged");
    kit_pause();
  }
  harness_barrier();
  for (uint64_t i = 0; t->rank == 1 && i < UNTOLD; i++) {
    KIT_TRY(kit_expect(t, 0, TRANSPORT_CHANNEL_P2P, i, KIT_BYTES_MAX));
  }
  harness_barrier();
  return 0;
}

Test(recovery_one_rail, acknowledges_again_by_the_next_connection) {
  transport_kit_processes(&one, 2, case_tells_again);
}

/* Rank 0 dies while connections are reset: it is found lost in time, as a process that has ended.
 */
static int case_dies(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  saboteur_t saboteur;
  transport_t *t = *end;
  char why[TRANSPORT_WHY_BYTES] = "?";
  KIT_TRY(begin_sabotage(&saboteur, t));
  KIT_TRY(run_rounds(t));
  harness_barrier(); /* what a rank that dies has sent may be lost */
  if (t->rank == 0) harness_kill(0);
  uint64_t deadline_ns = kit_deadline_ns();
  while (t->ops->peer_state(t, 0) == TRANSPORT_PEER_HERE) {
    KIT_REQUIRE(base_clock_now_ns() < deadline_ns, "rank %d: rank 0 is not lost", t->rank);
    kit_pause();
  }
  t->ops->why_lost(t, 0, why);
  KIT_REQUIRE(t->ops->peer_state(t, 0) == TRANSPORT_PEER_LOST && why[0] == '\0',
              "rank %d: rank 0 is in state %d: %s", t->rank, (int)t->ops->peer_state(t, 0), why);
  end_sabotage(&saboteur);
  int other = 3 - t->rank; /* the survivors wait for each other before they leave */
  KIT_TRY(kit_signal(t, other, 0, 1));
  KIT_TRY(kit_wait(t, other, 0, 1));
  t->ops->destroy(t);
  *end = NULL; /* skips the runner's barrier, which rank 0 cannot reach */
  return 0;
}

Test(recovery_one_rail, finds_a_death_among_resets) {
  transport_kit_with_death(&one, 3, case_dies);
}
Test(recovery_two_rails, finds_a_death_among_resets) {
  transport_kit_with_death(&two, 3, case_dies);
}

/* ---- a rank that was given up ----------------------------------------------------------------*/

static net_pair_t *pair_of(transport_t *t, int peer) {
  return &net_of(t)->pairs.pairs[peer];
}

/* This rank finds that the connection was reset. */
static void lose_rail(transport_t *t, int peer, int rail) {
  net_t *end = net_of(t);
  pthread_mutex_lock(&end->lock);
  net_rail_failed(&pair_of(t, peer)->rails[rail], ECONNRESET);
  pthread_mutex_unlock(&end->lock);
}

/* This rank has lost the peer, which lives. */
static void give_up(transport_t *t, int peer) {
  net_t *end = net_of(t);
  pthread_mutex_lock(&end->lock);
  pair_of(t, peer)->loss = NET_LOSS_SILENT;
  net_pair_give_up(pair_of(t, peer));
  pthread_mutex_unlock(&end->lock);
}

/* Waits until rank 0 is lost because it has given up rank 1. */
static int expect_refusal(transport_t *t) {
  char why[TRANSPORT_WHY_BYTES] = "";
  uint64_t deadline_ns = kit_deadline_ns();
  while (t->ops->peer_state(t, 0) == TRANSPORT_PEER_HERE) {
    KIT_REQUIRE(base_clock_now_ns() < deadline_ns, "rank 0 is not lost after %u connections",
                pair_of(t, 0)->rails[0].made);
    kit_pause();
  }
  t->ops->why_lost(t, 0, why);
  KIT_REQUIRE(strstr(why, " answers that rank 0 has given up rank 1, whose host did not ") != NULL,
              "rank 0 is lost: %s", why);
  return 0;
}

static int case_refuses(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  if (t->rank == 0) give_up(t, 1);
  if (t->rank == 1) KIT_TRY(expect_refusal(t));
  for (int peer = 0; t->rank == 2 && peer < 2; peer++) KIT_TRY(kit_signal(t, peer, 0, 1));
  if (t->rank < 2) KIT_TRY(kit_wait(t, 2, 0, 1));
  harness_barrier();
  return 0;
}

Test(recovery_one_rail, refuses_a_rank_that_was_given_up) {
  transport_kit_processes(&one, 3, case_refuses);
}
Test(recovery_two_rails, refuses_a_rank_that_was_given_up) {
  transport_kit_processes(&two, 3, case_refuses);
}

/* Waits until the pair is refused, or has so many connections. */
static int expect_pair(transport_t *t, int peer, bool is_given_up, int open_count) {
  uint64_t deadline_ns = kit_deadline_ns();
  for (bool is_so = false; !is_so;) {
    const net_pair_t *pair = pair_of(t, peer);
    KIT_REQUIRE(base_clock_now_ns() < deadline_ns, "rank %d has %d connections", t->rank,
                pair->open_count);
    kit_pause();
    pthread_mutex_lock(&net_of(t)->lock);
    is_so = pair->is_given_up == is_given_up && pair->open_count == open_count;
    pthread_mutex_unlock(&net_of(t)->lock);
  }
  return 0;
}

/* Rank 0 sends by its first rail and gives up; rank 1, which has not read that yet, is refused when
 * it makes the other rail again: it receives what was sent. */
static int case_refuses_one_rail(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  KIT_TRY(expect_pair(t, 1 - t->rank, false, 2));
  harness_barrier();
  if (t->rank == 0) {
    for (uint64_t i = 0; i < 3; i++) KIT_TRY(kit_send(t, 1, 0, i, 500));
    give_up(t, 1);
  }
  harness_barrier();
  if (t->rank == 1) {
    lose_rail(t, 0, 1);
    KIT_TRY(expect_pair(t, 0, true, 1));
    for (uint64_t i = 0; i < 3; i++) KIT_TRY(kit_expect(t, 0, 0, i, 500));
    KIT_TRY(expect_refusal(t));
  }
  harness_barrier();
  return 0;
}

Test(recovery_two_rails, receives_what_came_before_a_refusal) {
  transport_kit_processes(&two, 2, case_refuses_one_rail);
}

/* Both give up at once, and each may be calling the other: both can leave. */
static int case_refuses_both(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  int peer = 1 - t->rank;
  reset_all(t);
  (void)t->ops->peer_state(t, peer); /* finds it, and calls */
  give_up(t, peer);
  KIT_REQUIRE(t->ops->peer_state(t, peer) == TRANSPORT_PEER_LOST, "rank %d is not lost", peer);
  harness_barrier();
  return 0;
}

Test(recovery_two_rails, refuses_on_both_sides) {
  for (int i = 0; i < 10; i++) transport_kit_processes(&two, 2, case_refuses_both);
}

/* Rank 0 leaves, which rank 1 has heard when it finds the connection reset; rank 0 calls again. */
static int case_refuses_one_that_leaves(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  net_t *own = net_of(*end);
  uint64_t deadline_ns = kit_deadline_ns();
  transport_peer_state_t awaited = t->rank == 0 ? TRANSPORT_PEER_LOST : TRANSPORT_PEER_LEFT;
  if (t->rank == 0) {
    pthread_mutex_lock(&own->lock);
    net_peer_say_leave(&own->channels.peers[1]);
    pthread_mutex_unlock(&own->lock);
  }
  while (t->ops->peer_state(t, 1 - t->rank) != awaited) {
    KIT_REQUIRE(base_clock_now_ns() < deadline_ns, "rank %d goes on calling", t->rank);
    kit_pause();
  }
  if (t->rank == 1) lose_rail(t, 0, 0);
  KIT_REQUIRE(t->ops->peer_state(t, 1 - t->rank) == awaited, "the peer's state changes");
  harness_barrier();
  return 0;
}

Test(recovery_one_rail, refuses_one_that_leaves_and_calls_again) {
  transport_kit_processes(&one, 2, case_refuses_one_that_leaves);
}

/* A rank that has aborted lets its peers connect again, to say why. */
static int case_aborts_unconnected(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  transport_reason_t reason = {.failed_rank = 0, .status = COLL_ERROR_SYSTEM, .text = "why"};
  uint64_t deadline_ns = kit_deadline_ns();
  if (t->rank == 0) {
    reset_all(t);
    t->ops->abort(t, &reason);
  }
  memset(&reason, 0, sizeof reason);
  while (!t->ops->aborted(t, &reason)) {
    KIT_REQUIRE(base_clock_now_ns() < deadline_ns, "rank %d hears of no abort", t->rank);
    kit_pause();
  }
  KIT_REQUIRE(strcmp(reason.text, "why") == 0, "rank %d heard %s", t->rank, reason.text);
  harness_barrier();
  return 0;
}

Test(recovery_one_rail, hears_of_an_abort_by_a_connection_made_anew) {
  for (int i = 0; i < 10; i++) transport_kit_processes(&one, 2, case_aborts_unconnected);
}

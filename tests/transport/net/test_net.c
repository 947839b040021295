/* The kit on the TCP transport, over the loopback interface. */
#include <criterion/criterion.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/net/ranks.h"
#include "transport/net/state.h"

static coll_status_t join_all(int rank, int size, void *board, transport_t **end) {
  return ranks_join(rank, size, board, &(ranks_net_t){0}, end);
}

/* Rank 2, which is no neighbour of rank 3 in the tree, does not reach it: RFC 5737. */
static coll_status_t join_severed(int rank, int size, void *board, transport_t **end) {
  static const net_name_t nowhere = {
      .port = 4711, .count = 1, .rails = 1, .addresses = {{.bytes = {192, 0, 2, 1}}}};
  const ranks_net_t net = {.is_tree = true, .of_3 = rank == 2 ? &nowhere : NULL};
  return ranks_join(rank, size, board, &net, end);
}

/* A service that hangs up on whoever calls. */
static void *hang_up(void *context) {
  int fd, listener = *(int *)context;
  while ((fd = accept(listener, NULL, NULL)) >= 0) close(fd);
  return NULL;
}

static uint16_t open_service(void) {
  static int listener;
  pthread_t thread;
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof at;
  listener = socket(AF_INET, SOCK_STREAM, 0);
  cr_assert_eq(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
  cr_assert_eq(listen(listener, 8), 0);
  cr_assert_eq(getsockname(listener, (struct sockaddr *)&at, &length), 0);
  cr_assert_eq(pthread_create(&thread, NULL, hang_up, &listener), 0);
  pthread_detach(thread);
  return ntohs(at.sin_port);
}

/* Most connections are made when they are first used. */
static coll_status_t join_tree(int rank, int size, void *board, transport_t **end) {
  return ranks_join(rank, size, board, &(ranks_net_t){.is_tree = true}, end);
}

/* Rank 2 finds another service at the port of rank 3. */
static coll_status_t join_replaced(int rank, int size, void *board, transport_t **end) {
  if (rank != 2) return join_tree(rank, size, board, end);
  const net_name_t service = {
      .port = open_service(), .count = 1, .rails = 1, .addresses = {{.bytes = {127, 0, 0, 1}}}};
  return ranks_join(rank, size, board, &(ranks_net_t){.is_tree = true, .of_3 = &service}, end);
}

static coll_status_t make(int size, transport_t *ends[]) {
  return transport_net_create_local(size, NULL, ends);
}

static const transport_fixture_t all =
    RANKS_FIXTURE(.make = make, .join = join_all, .has_threads = true);
static const transport_fixture_t tree =
    RANKS_FIXTURE(.make = make, .join = join_tree, .connects_late = true);
static const transport_fixture_t severed =
    RANKS_FIXTURE(.make = make, .join = join_severed, .connects_late = true);
static const transport_fixture_t replaced =
    RANKS_FIXTURE(.make = make, .join = join_replaced, .connects_late = true);

TRANSPORT_KIT_ANY(tcp_threads, all, transport_kit_threads, 2)
TRANSPORT_KIT_PEERS(tcp_threads, all, transport_kit_threads)
TRANSPORT_KIT_ANY(tcp_processes, all, transport_kit_processes, 2)
TRANSPORT_KIT_PEERS(tcp_processes, all, transport_kit_processes)
TRANSPORT_KIT_ANY(tcp_tree, tree, transport_kit_processes, 4)
TRANSPORT_KIT_PEERS(tcp_tree, tree, transport_kit_processes)
TRANSPORT_KIT_TIMES(tcp_processes, all, transport_kit_processes)

TRANSPORT_KIT_DEATH(tcp_processes, all)

TRANSPORT_KIT_DEATH(tcp_tree, tree)

/* ---- peers to which there is no connection yet ----------------------------------------------*/

/* Expects that the peer is found lost while this rank waits for it, for a reason with that text. */
static int expect_lost(transport_t *t, int peer, const char *text) {
  char why[TRANSPORT_WHY_BYTES] = "";
  uint64_t deadline_ns = kit_deadline_ns();
  while (t->ops->peer_state(t, peer) == TRANSPORT_PEER_HERE) {
    KIT_REQUIRE(base_clock_now_ns() < deadline_ns, "rank %d: rank %d is not lost", t->rank, peer);
    t->ops->waits_for(t, peer);
    kit_pause();
  }
  KIT_REQUIRE(t->ops->peer_state(t, peer) == TRANSPORT_PEER_LOST, "the peer left");
  t->ops->why_lost(t, peer, why);
  KIT_REQUIRE(strstr(why, text) != NULL, "rank %d: rank %d is lost: %s", t->rank, peer, why);
  return 0;
}

/* Rank 3 is no neighbour of rank 0 in the tree. */
static int wait_for_a_dead_stranger(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  harness_barrier();
  if (t->rank == 0) harness_kill(0);
  if (t->rank == 3) KIT_TRY(expect_lost(t, 0, " refuses a connection to it"));
  t->ops->destroy(t);
  *end = NULL;
  return 0;
}

Test(tcp_tree, a_rank_that_died_unconnected_is_lost) {
  transport_kit_with_death(&tree, 4, wait_for_a_dead_stranger);
}

static int wait_for_a_silent_host(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  if (t->rank == 2) KIT_TRY(expect_lost(t, 3, "192.0.2.1 has not answered for some seconds"));
  harness_barrier();
  return 0;
}

/* In a network without a way to other hosts. */
Test(tcp_tree, a_host_that_does_not_answer_is_lost) {
  if (unshare(CLONE_NEWNET) != 0) cr_skip_test("this system makes no network namespaces");
  struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  cr_assert_eq(ioctl(fd, SIOCSIFFLAGS, &request), 0);
  close(fd);
  transport_kit_processes(&severed, 4, wait_for_a_silent_host);
}

static int wait_for_a_service(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  if (t->rank == 2) KIT_TRY(expect_lost(t, 3, " refuses a connection to it"));
  harness_barrier();
  return 0;
}

Test(tcp_tree, a_rank_whose_port_belongs_to_another_service_is_lost) {
  transport_kit_processes(&replaced, 4, wait_for_a_service);
}

/* A rank that sends and leaves waits until its peer, which computes, has been connected. */
static int send_and_leave(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  if (t->rank == 3) {
    for (uint64_t i = 0; i < 3; i++) KIT_TRY(kit_send(t, 2, 0, i, 500));
    t->ops->destroy(t);
    *end = NULL;
    harness_barrier();
    harness_barrier(); /* the runner's, for a rank that has left */
    return 0;
  }
  harness_barrier();
  if (t->rank == 2) {
    for (uint64_t i = 0; i < 3; i++) KIT_TRY(kit_expect(t, 3, 0, i, 500));
    KIT_REQUIRE(t->ops->peer_state(t, 3) == TRANSPORT_PEER_LEFT, "rank 3 has not left");
  }
  return 0;
}

Test(tcp_tree, what_a_rank_sends_first_arrives_although_it_leaves) {
  transport_kit_processes(&tree, 4, send_and_leave);
}

/* The last of many ranks aborts after all others have left, most of which it was not connected
 * with. */
static int abort_alone(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  if (t->rank != t->size - 1) {
    t->ops->destroy(t);
    *end = NULL;
    harness_barrier();
    harness_barrier(); /* the runner's, for a rank that has left */
    return 0;
  }
  harness_barrier();
  transport_reason_t reason = {.failed_rank = t->rank, .status = COLL_ERROR_SYSTEM, .text = "why"};
  uint64_t began_ns = base_clock_now_ns();
  t->ops->abort(t, &reason);
  KIT_REQUIRE(t->ops->aborted(t, &reason), "not aborted");
  uint64_t took_ns = base_clock_now_ns() - began_ns;
  KIT_REQUIRE(took_ns < kit_wake_ns, "it took %d ms", (int)(took_ns / 1000000));
  kit_print("the last rank decides alone", took_ns);
  return 0;
}

Test(tcp_tree, the_last_rank_decides_alone) {
  transport_kit_processes(&tree, 16, abort_alone);
}

Test(timing_tcp_tree, the_last_rank_decides_in_time) {
  kit_measure(3000);
  transport_kit_processes(&tree, 16, abort_alone);
}

/* Nobody waits for a peer that has left; a call that sends to one that is lost is to fail. */
Test(tcp, a_lost_peer_is_not_drained) {
  for (int is_lost = 0; is_lost < 2; is_lost++) {
    transport_t *ends[2];
    cr_assert_eq(transport_net_create_local(2, NULL, ends), COLL_OK, "%s", base_last_error());
    transport_port_t *port = ends[0]->ops->port(ends[0], 1, 0);
    cr_expect(ends[0]->ops->drained(port));
    net_pair_close(&net_of(ends[0])->pairs.pairs[1],
                   is_lost ? TRANSPORT_PEER_LOST : TRANSPORT_PEER_LEFT);
    cr_expect_eq(ends[0]->ops->drained(port), !is_lost);
    for (int rank = 0; rank < 2; rank++) ends[rank]->ops->destroy(ends[rank]);
  }
}

/*
 * When a peer of the TCP transport is lost, and when not, by the kernel's own timers. The
 * connections are in a network namespace of the test, whose loopback interface is taken down and
 * up. test_liveness.c tests the decision for any times.
 */
#include <criterion/criterion.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/net/net.h"
#include "transport/net/state.h"

#define MS_NS UINT64_C(1000000)
#define IDLE_NS (20000 * MS_NS) /* longer than all limits of health.c */

static void set_link(bool up) {
  struct ifreq request = {.ifr_name = "lo", .ifr_flags = (short)(up ? IFF_UP | IFF_RUNNING : 0)};
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  cr_assert_eq(ioctl(fd, SIOCSIFFLAGS, &request), 0);
  close(fd);
}

static void make_pair(transport_t *ends[2]) {
  if (unshare(CLONE_NEWNET) != 0) cr_skip_test("this system makes no network namespaces");
  set_link(true);
  cr_assert_eq(transport_net_create_local(2, NULL, ends), COLL_OK, "%s", base_last_error());
}

/* Of rank 1 first: rank 0 may have sent what it does not receive. */
static void destroy_pair(transport_t *ends[2]) {
  for (int rank = 1; rank >= 0; rank--) ends[rank]->ops->destroy(ends[rank]);
}

static transport_peer_state_t state_of_peer(transport_t *end) {
  return end->ops->peer_state(end, 1 - end->rank);
}

/* Looks at the peer, as a rank that waits for it, until it is no longer there. */
static transport_peer_state_t watch_peer(transport_t *end, unsigned ms) {
  transport_peer_state_t state = TRANSPORT_PEER_HERE;
  uint64_t until_ns = base_clock_now_ns() + ms * MS_NS;
  while (state == TRANSPORT_PEER_HERE && base_clock_now_ns() < until_ns) {
    state = state_of_peer(end);
    base_clock_sleep_ns(10 * MS_NS);
  }
  return state;
}

static bool send_one(transport_t *end, int channel) {
  static char data[NET_SLOT_BYTES];
  const transport_head_t head = {.bytes = sizeof data};
  bool done = false;
  transport_port_t *port = end->ops->port(end, 1 - end->rank, channel);
  cr_assert_eq(end->ops->send(port, data, &head, &done), COLL_OK);
  return done;
}

/* More than sockets hold, as to a process that is stopped. */
static void fill(transport_t *end) {
  for (int channel = 0; channel < TRANSPORT_CHANNELS; channel++) {
    while (send_one(end, channel)) continue;
  }
}

/* Whoever has no descriptor cannot ask the host of a peer that is stopped. */
Test(timing_health, a_stopped_peer_is_not_lost_for_want_of_descriptors, .timeout = 60) {
  transport_t *ends[2];
  struct rlimit limit;
  make_pair(ends);
  fill(ends[0]);
  int next = dup(STDIN_FILENO);
  cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = (rlim_t)next;
  close(next);
  cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
  cr_assert_eq(watch_peer(ends[0], 5000), TRANSPORT_PEER_HERE);
  destroy_pair(ends);
}

/* After a long time without calls, what is sent first is lost on its way and sent again. */
Test(timing_health, a_retransmission_after_a_long_time_is_no_loss, .timeout = 60) {
  transport_t *ends[2];
  make_pair(ends);
  net_pair_t *pair = &net_of(ends[0])->pairs.pairs[1];
  cr_assert_eq(watch_peer(ends[0], 500), TRANSPORT_PEER_HERE);
  pair->rails->acks.checked_ns -= IDLE_NS; /* as if it were long ago */
  pair->rails->acks.acked_ns -= IDLE_NS;
  set_link(false);
  cr_assert(send_one(ends[0], 0));
  base_clock_sleep_ns(600 * MS_NS);
  cr_assert_eq(watch_peer(ends[0], 300), TRANSPORT_PEER_HERE);
  set_link(true);
  cr_assert_eq(watch_peer(ends[0], 2000), TRANSPORT_PEER_HERE);
  destroy_pair(ends);
}

static void require_silence(transport_t *end) {
  char why[TRANSPORT_WHY_BYTES];
  end->ops->why_lost(end, 1 - end->rank, why);
  cr_assert_str_eq(why, "127.0.0.1 has not answered for some seconds");
}

Test(timing_health, a_host_that_does_not_answer_is_lost, .timeout = 60) {
  transport_t *ends[2];
  make_pair(ends);
  set_link(false);
  cr_assert(send_one(ends[0], 0));
  uint64_t began_ns = base_clock_now_ns();
  cr_assert_eq(watch_peer(ends[0], 10000), TRANSPORT_PEER_LOST);
  uint64_t took_ms = (base_clock_now_ns() - began_ns) / MS_NS;
  printf("# a silent host is lost after %d of 3500 ms\n", (int)took_ms);
  cr_assert_lt(took_ms, 3500);
  require_silence(ends[0]);
  destroy_pair(ends);
}

/* The kernel has given up the connection, which a send finds out first. */
Test(timing_health, a_send_that_fails_does_not_hide_why, .timeout = 60) {
  transport_t *ends[2];
  make_pair(ends);
  set_link(false);
  base_clock_sleep_ns(5000 * MS_NS);
  cr_assert(send_one(ends[0], 0));
  cr_assert_eq(state_of_peer(ends[0]), TRANSPORT_PEER_LOST);
  require_silence(ends[0]);
  destroy_pair(ends);
}

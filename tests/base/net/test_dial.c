/*
 * Addresses of which some do not answer, on a clock that stands still: what is tried when depends
 * on what the test has let happen. They are of the loopback interface, on one port.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/net/dial.h"
#include "base/net/listen.h"
#include "base/net/socket.h"
#include "harness/virtual_time.h"

#define NEXT_NS 100
#define LAST_NS 1000

static base_address_t address_of(const char *host, uint16_t port) {
  struct in_addr ip;
  cr_assert_eq(inet_pton(AF_INET, host, &ip), 1);
  return base_address_of_ip(false, &ip, port);
}

static int listen_at(const char *host, uint16_t *port) {
  base_address_t address = address_of(host, *port);
  int fd = base_listen(SOCK_STREAM, &address, 0);
  cr_assert_geq(fd, 0, "%s", strerror(errno));
  *port = base_address_port(&address);
  return fd;
}

/* Nothing answers there: the kernel drops what is sent to a listener whose queue is full. */
static void listen_silently(const char *host, uint16_t port) {
  const base_address_t address = address_of(host, port);
  cr_assert_eq(listen(listen_at(host, &port), 0), 0);
  for (int i = 0; i < 4; i++) {
    cr_assert_geq(base_dial_begin_one(SOCK_STREAM, &address), 0, "%s", strerror(errno));
  }
}

/* Waits for the kernel, not for the clock of the test. */
static int await_one(base_dial_t *dial) {
  cr_assert_gt(poll(dial->polled, (nfds_t)dial->to->count, -1), 0);
  return base_dial_continue(dial);
}

static bool is_under_way(const base_dial_t *dial, int index) {
  return dial->polled[index].fd >= 0;
}

TestSuite(net_dial, .init = virtual_time_begin);

Test(net_dial, passes_over_a_refusal_at_once_and_silence_in_time) {
  uint16_t port = 0;
  listen_at("127.0.0.3", &port);
  listen_silently("127.0.0.2", port);
  const base_addresses_t to = {3,
                               {address_of("127.0.0.1", port), address_of("127.0.0.2", port),
                                address_of("127.0.0.3", port)}};
  base_dial_t dial;
  virtual_time_freeze();
  base_dial_init(&dial, &to, 0, 0, NEXT_NS, LAST_NS);
  cr_assert_lt(base_dial_continue(&dial), 0);
  if (is_under_way(&dial, 0)) cr_assert_lt(await_one(&dial), 0);
  cr_assert_eq(dial.errors[0], ECONNREFUSED, "%s", strerror(dial.errors[0]));
  cr_assert(is_under_way(&dial, 1) && dial.begun == 2, "the silent one is tried next");
  virtual_time_advance(NEXT_NS - 1);
  cr_assert_lt(base_dial_continue(&dial), 0);
  cr_assert_eq(dial.begun, 2);
  virtual_time_advance(1);
  cr_assert_lt(base_dial_continue(&dial), 0);
  cr_assert(is_under_way(&dial, 1) && is_under_way(&dial, 2), "beside it, the third one");
  int fd = await_one(&dial);
  cr_assert_geq(fd, 0);
  base_address_t peer = {.bytes = sizeof peer.room};
  cr_assert_eq(getpeername(fd, &peer.any, &peer.bytes), 0);
  cr_assert_eq(memcmp(&peer.ipv4, &to.at[2].ipv4, sizeof peer.ipv4), 0);
  cr_assert(is_under_way(&dial, 1) && !base_dial_is_over(&dial), "the silent one may yet answer");
  base_dial_end(&dial);
  cr_assert(base_dial_is_over(&dial));
}

Test(net_dial, gives_all_up_that_do_not_answer_and_says_the_best_reason) {
  uint16_t port = 0;
  base_socket_close(listen_at("127.0.0.1", &port));
  listen_silently("127.0.0.2", port);
  const base_addresses_t to = {2, {address_of("127.0.0.2", port), address_of("127.0.0.1", port)}};
  base_dial_t dial;
  virtual_time_freeze();
  base_dial_init(&dial, &to, 0, 0, NEXT_NS, LAST_NS);
  cr_assert_lt(base_dial_continue(&dial), 0);
  virtual_time_advance(NEXT_NS);
  cr_assert_lt(base_dial_continue(&dial), 0);
  if (is_under_way(&dial, 1)) cr_assert_lt(await_one(&dial), 0);
  virtual_time_advance(LAST_NS - 1);
  cr_assert_lt(base_dial_continue(&dial), 0);
  cr_assert(is_under_way(&dial, 0));
  virtual_time_advance(1);
  cr_assert_lt(base_dial_continue(&dial), 0);
  cr_assert(base_dial_is_over(&dial));
  cr_assert_eq(dial.errors[0], ETIMEDOUT);
  cr_assert_eq(base_dial_error(&dial), ECONNREFUSED);
}

/* A process that is stopped does not poll, and what answers meanwhile has answered in time. */
Test(net_dial, looks_again_before_it_gives_up) {
  uint16_t port = 0;
  listen_at("127.0.0.1", &port);
  const base_addresses_t to = {1, {address_of("127.0.0.1", port)}};
  base_dial_t dial;
  virtual_time_freeze();
  base_dial_init(&dial, &to, 0, 0, NEXT_NS, LAST_NS);
  cr_assert_lt(base_dial_continue(&dial), 0);
  struct pollfd polled = dial.polled[0];
  cr_assert_eq(poll(&polled, 1, -1), 1);
  virtual_time_advance(10 * LAST_NS);
  cr_assert_geq(base_dial_continue(&dial), 0);
}

/* A connection over the loopback interface is made within the call that begins it. */
Test(net_dial, takes_what_is_connected_when_the_time_is_over) {
  uint16_t port = 0;
  virtual_time_freeze();
  cr_assert_eq(listen(listen_at("127.0.0.1", &port), 4), 0);
  const base_addresses_t to = {1, {address_of("127.0.0.1", port)}};
  cr_assert_geq(base_dial_connect(&to, 0, base_clock_now_ns()), 0, "%s", strerror(errno));
}

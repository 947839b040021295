/*
 * Servers with several addresses, of which some are wrong: nobody listens there, nothing answers,
 * or another program does. The addresses are of the loopback interface, on one port.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/net/dial.h"
#include "bootstrap/rendezvous/dialer.h"
#include "rendezvous_scenario.h"

static int listen_at(const char *host, uint16_t port, int backlog) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  inet_pton(AF_INET, host, &at.sin_addr);
  cr_assert_eq(bind(fd, (struct sockaddr *)&at, sizeof at), 0, "%s", strerror(errno));
  cr_assert_eq(listen(fd, backlog), 0);
  return fd;
}

static uint16_t port_of(int fd) {
  struct sockaddr_in at;
  socklen_t bytes = sizeof at;
  cr_assert_eq(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
  return ntohs(at.sin_port);
}

/* The kernel drops what else is sent to a listener whose queue is full. */
static void fill(const char *host, uint16_t port) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
  inet_pton(AF_INET, host, &at.sin_addr);
  for (int i = 0; i < 4; i++) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    (void)connect(fd, (struct sockaddr *)&at, sizeof at);
  }
}

static rendezvous_address_t address_of(const char *hosts, uint16_t port) {
  rendezvous_address_t address = {.port = port};
  snprintf(address.host, sizeof address.host, "%s", hosts);
  return address;
}

/* The address that is connected to within 1 s; "": none, with errno. */
static const char *dial(const char *hosts, uint16_t port, int first) {
  static char text[INET_ADDRSTRLEN];
  base_addresses_t targets;
  struct sockaddr_in peer;
  socklen_t bytes = sizeof peer;
  const rendezvous_address_t address = address_of(hosts, port);
  cr_assert_eq(dialer_resolve(&address, &targets), COLL_OK, "%s", base_last_error());
  int fd = base_dial_connect(&targets, first, base_clock_now_ns() + 1000000000u);
  if (fd < 0) return "";
  cr_assert_eq(getpeername(fd, (struct sockaddr *)&peer, &bytes), 0);
  close(fd);
  return inet_ntop(AF_INET, &peer.sin_addr, text, sizeof text);
}

Test(dial, skips_an_address_that_refuses) {
  uint16_t port = port_of(listen_at("127.0.0.3", 0, 16));
  cr_assert_str_eq(dial("127.0.0.1,127.0.0.2,127.0.0.3", port, 0), "127.0.0.3");
  cr_assert_str_eq(dial("127.0.0.1,127.0.0.2,127.0.0.3", port, 1), "127.0.0.3");
}

Test(dial, begins_with_the_one_that_is_asked_for) {
  uint16_t port = port_of(listen_at("127.0.0.3", 0, 16));
  listen_at("127.0.0.2", port, 16);
  cr_assert_str_eq(dial("127.0.0.2,127.0.0.3", port, 0), "127.0.0.2");
  cr_assert_str_eq(dial("127.0.0.2,127.0.0.3", port, 3), "127.0.0.3");
}

Test(dial, does_not_wait_long_for_an_address_that_does_not_answer) {
  uint16_t port = port_of(listen_at("127.0.0.3", 0, 16));
  listen_at("127.0.0.2", port, 0);
  fill("127.0.0.2", port);
  cr_assert_str_eq(dial("127.0.0.2,127.0.0.3", port, 0), "127.0.0.3");
}

Test(dial, reports_a_refusal_rather_than_silence) {
  int fd = listen_at("127.0.0.2", 0, 0);
  uint16_t port = port_of(fd);
  fill("127.0.0.2", port);
  cr_assert_str_eq(dial("127.0.0.2,127.0.0.3", port, 0), "");
  cr_assert_eq(errno, ECONNREFUSED, "%s", strerror(errno));
}

Test(dial, names_that_are_unknown_count_only_if_all_are) {
  base_addresses_t targets;
  rendezvous_address_t address = address_of("no.such.host.invalid,127.0.0.1", 1);
  cr_assert_eq(dialer_resolve(&address, &targets), COLL_OK);
  cr_assert_eq(targets.count, 1);
  address = address_of("no.such.host.invalid", 1);
  cr_assert_eq(dialer_resolve(&address, &targets), COLL_ERROR_SYSTEM);
  cr_assert_not_null(strstr(base_last_error(), "no.such.host.invalid"), "%s", base_last_error());
  address = address_of("no.such.host.invalid,,", 1);
  cr_assert_eq(dialer_resolve(&address, &targets), COLL_ERROR_INVALID, "\"\" is no name");
}

/* A refusal is said rather than that a host has no such addresses, which ends a wait only if there
 * is nothing else. */
Test(dial, waits_if_any_address_may_answer) {
  base_addresses_t targets = {.count = 2,
                              .at = {{.bytes = 0}, {.bytes = sizeof(struct sockaddr_in)}}};
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(1)};
  inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
  targets.at[1].ipv4 = at;
  targets.at[0].any.sa_family = AF_INET; /* of no bytes: EINVAL */
  cr_assert_lt(base_dial_connect(&targets, 0, base_clock_now_ns() + 1000000000u), 0);
  cr_assert(errno == ECONNREFUSED && base_dial_may_heal(errno), "%s", strerror(errno));
  targets.count = 1;
  cr_assert_lt(base_dial_connect(&targets, 0, base_clock_now_ns() + 1000000000u), 0);
  cr_assert(!base_dial_may_heal(errno), "%s", strerror(errno));
}

/* The first address is another program's, which hangs up. */
Test(dial, rendezvous_goes_on_to_the_right_server) {
  rendezvous_address_t server = rendezvous_scenario(1).address;
  char record = 'r', records = 0;
  uint64_t session;
  rendezvous_link_t link;
  int failed_rank;
  const rendezvous_rank_t own = {.rank = 0, .size = 1, .record = &record, .record_bytes = 1};
  snprintf(server.host, sizeof server.host, "127.0.0.1");
  cr_assert_eq(rendezvous_server_start(&server), COLL_OK, "%s", base_last_error());
  int other = listen_at("127.0.0.2", server.port, 16);
  snprintf(server.host, sizeof server.host, "127.0.0.2,127.0.0.1");
  pid_t hangs_up = fork();
  if (hangs_up == 0) {
    for (;;) close(accept(other, NULL, NULL));
  }
  coll_status_t status = rendezvous_join(&server, &own, 5000, &records, &session, &link);
  cr_assert_eq(status, COLL_OK, "%s", base_last_error());
  cr_assert_eq(records, 'r');
  uint64_t deadline_ns = base_clock_now_ns() + 5000000000u;
  cr_assert_eq(rendezvous_finish(&link, COLL_OK, deadline_ns, &failed_rank), COLL_OK);
  kill(hangs_up, SIGKILL);
}

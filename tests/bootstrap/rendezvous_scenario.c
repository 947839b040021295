/*
 * Servers listen on the loopback interface, on a port that the kernel chooses.
 */
#include "rendezvous_scenario.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/net/dial.h"
#include "base/net/handshake.h"
#include "bootstrap/rendezvous/dialer.h"
#include "bootstrap/rendezvous/wire.h"
#include "harness/harness.h"

#define LIMIT_NS UINT64_C(60000000000)

rendezvous_scenario_t rendezvous_scenario(int size) {
  rendezvous_scenario_t scenario = {.timeout_ms = 120000, .late = -1, .dies = -1};
  snprintf(scenario.address.host, sizeof scenario.address.host, "127.0.0.1");
  scenario.address.job = RENDEZVOUS_JOB;
  scenario.address.secret = (base_secret_t){.bytes = {8, 15}};
  for (int i = 0; i < size; i++) {
    scenario.ranks[i] = i;
    scenario.sizes[i] = size;
  }
  return scenario;
}

bool rendezvous_shake_hands(int fd, const rendezvous_address_t *address) {
  char purpose[RENDEZVOUS_PURPOSE_BYTES];
  base_handshake_t handshake;
  uint64_t deadline_ns = base_clock_now_ns() + LIMIT_NS;
  rendezvous_purpose(address, purpose);
  return base_handshake_begin_caller(&handshake, fd, &address->secret, purpose) ==
             BASE_HANDSHAKE_UNDER_WAY &&
         base_handshake_finish(&handshake, fd, deadline_ns) == BASE_HANDSHAKE_DONE;
}

int rendezvous_dial(const rendezvous_address_t *address) {
  base_addresses_t targets;
  int on = 1;
  uint64_t deadline_ns = base_clock_now_ns() + LIMIT_NS;
  if (dialer_resolve(address, &targets) != COLL_OK) return -1;
  int fd = base_dial_connect(&targets, 0, deadline_ns);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

int rendezvous_join_until_greeted(const rendezvous_address_t *address, int rank, int size,
                                  int timeout_ms, size_t record_bytes) {
  struct {
    wire_hello_t hello;
    char record[RENDEZVOUS_RECORD_MAX];
  } message = {.hello = {.magic = WIRE_MAGIC,
                         .rank = rank,
                         .size = size,
                         .timeout_ms = timeout_ms,
                         .pid = (int32_t)getpid(),
                         .record_bytes = (uint32_t)record_bytes}};
  wire_greeting_t greeting;
  uint64_t deadline_ns = base_clock_now_ns() + LIMIT_NS;
  int fd = rendezvous_dial(address);
  if (fd < 0 || !rendezvous_shake_hands(fd, address)) return -1;
  if (!wire_send(fd, &message, sizeof message.hello + record_bytes, deadline_ns)) return -1;
  return wire_recv(fd, &greeting, sizeof greeting, deadline_ns) ? fd : -1;
}

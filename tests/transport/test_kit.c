/*
 * Runs the kit on transports with one fault each, to show that its cases can fail. The fault is a
 * decorator of the self transport.
 */
#include <criterion/criterion.h>

#include "harness/harness.h"
#include "transport/kit.h"
#include "transport/kit_steps.h"
#include "transport/self/self.h"

typedef enum fault {
  FAULT_NONE,
  FAULT_LOSES_A_MESSAGE,
  FAULT_CHANGES_AN_IDENTITY,
  FAULT_CHANGES_A_BYTE,
  FAULT_HIDES_TRUNCATION,
  FAULT_SENDS_WHEN_FULL,
  FAULT_HAS_ONE_CHANNEL,
  FAULT_LOSES_A_SIGNAL,
  FAULT_REPEATS_A_SIGNAL,
  FAULT_CHANGES_A_SIGNAL,
  FAULT_WRONG_MAPPING,
  FAULT_KEEPS_A_POST,
  FAULT_NULL_SLOT
} fault_t;

static const transport_ops_t *real;
static fault_t fault;
static char *posted; /* by FAULT_KEEPS_A_POST */
static int calls;    /* number of calls of the faulty slot; the third one fails */

static bool fault_hits(fault_t which) {
  return fault == which && ++calls == 3;
}

static transport_port_t *faulty_port(transport_t *t, int peer, int channel) {
  return real->port(t, peer, fault == FAULT_HAS_ONE_CHANNEL ? 0 : channel);
}

static coll_status_t faulty_send(transport_port_t *port, const void *data,
                                 const transport_head_t *head, bool *done) {
  *done = true;
  if (fault_hits(FAULT_LOSES_A_MESSAGE)) return COLL_OK;
  coll_status_t status = real->send(port, data, head, done);
  if (fault_hits(FAULT_SENDS_WHEN_FULL)) *done = false;
  return status;
}

static coll_status_t faulty_recv(transport_port_t *port, void *data, size_t capacity,
                                 transport_head_t *head, bool *done) {
  coll_status_t status = real->recv(port, data, capacity, head, done);
  if (!*done) return status;
  if (posted != NULL) posted[0] ^= 1;
  if (fault_hits(FAULT_CHANGES_AN_IDENTITY)) head->call.count ^= UINT64_C(1) << 63;
  if (fault == FAULT_CHANGES_A_BYTE && head->bytes > 0 && capacity >= head->bytes) {
    ((char *)data)[head->bytes - 1] ^= 1;
  }
  if (fault == FAULT_HIDES_TRUNCATION && head->bytes > capacity) head->bytes = capacity;
  return status;
}

static coll_status_t faulty_recv_post(transport_port_t *port, void *data, size_t capacity,
                                      transport_head_t *head, bool *done) {
  if (fault == FAULT_KEEPS_A_POST) posted = data;
  return real->recv_post(port, data, capacity, head, done);
}

static coll_status_t faulty_signal(transport_port_t *port, const flight_call_t *call, bool *done) {
  *done = true;
  if (fault_hits(FAULT_LOSES_A_SIGNAL)) return COLL_OK;
  if (fault_hits(FAULT_REPEATS_A_SIGNAL)) COLL_TRY(real->signal(port, call, done));
  return real->signal(port, call, done);
}

static coll_status_t faulty_wait(transport_port_t *port, flight_call_t *call, bool *arrived) {
  coll_status_t status = real->wait(port, call, arrived);
  if (*arrived && fault_hits(FAULT_CHANGES_A_SIGNAL)) call->what ^= 1;
  return status;
}

static coll_status_t faulty_map(transport_t *t, int peer, const transport_address_t *address,
                                void **ptr) {
  COLL_TRY(real->map(t, peer, address, ptr));
  if (fault == FAULT_WRONG_MAPPING) *ptr = (char *)*ptr + 64;
  return COLL_OK;
}

/* Runs the case on a transport with that fault. */
static int run_case(int rank, int size, void *context) {
  (void)rank, (void)size;
  static const transport_fixture_t fixture = {.size_max = 1,
                                              .maps = true,
                                              .alloc = transport_kit_private_alloc,
                                              .release = transport_kit_private_release};
  transport_t *t;
  if (transport_self_create(0, 1, 8192, &t) != COLL_OK) return 1;
  real = t->ops;
  transport_ops_t faulty = *real;
  faulty.port = faulty_port;
  faulty.send = faulty_send;
  faulty.recv = faulty_recv;
  faulty.recv_post = faulty_recv_post;
  faulty.signal = faulty_signal;
  faulty.wait = faulty_wait;
  faulty.map = faulty_map;
  if (fault == FAULT_NULL_SLOT) faulty.peer_state = NULL;
  t->ops = &faulty;
  if (fault != FAULT_NONE) harness_may_leak(true);
  int code = (*(transport_case_t *)context)(&fixture, &t);
  if (fault != FAULT_NONE) harness_may_leak(false);
  t->ops = real;
  real->destroy(t);
  return code;
}

static bool passes(transport_case_t body, fault_t which) {
  harness_result_t result;
  kit_limit_ns = UINT64_C(1000000000) * (which == FAULT_NONE ? 30 : 1); /* what is lost is missed */
  fault = which;
  calls = 0;
  posted = NULL;
  return harness_run_threads(1, 20000, run_case, &body, &result);
}

Test(kit, detects_every_fault) {
  static const struct {
    const char *name;
    transport_case_t body;
    fault_t fault;
  } faults[] = {
      {"a lost message", transport_case_full, FAULT_LOSES_A_MESSAGE},
      {"a lost message in a ring", transport_case_order, FAULT_LOSES_A_MESSAGE},
      {"a changed identity", transport_case_order, FAULT_CHANGES_AN_IDENTITY},
      {"a changed identity of some size", transport_case_sizes, FAULT_CHANGES_AN_IDENTITY},
      {"a changed byte", transport_case_sizes, FAULT_CHANGES_A_BYTE},
      {"hidden truncation", transport_case_truncation, FAULT_HIDES_TRUNCATION},
      {"a message sent although refused", transport_case_full, FAULT_SENDS_WHEN_FULL},
      {"a cancelled receive that is written to", transport_case_loans, FAULT_KEEPS_A_POST},
      {"all channels are one", transport_case_channels, FAULT_HAS_ONE_CHANNEL},
      {"a lost signal", transport_case_counts, FAULT_LOSES_A_SIGNAL},
      {"a repeated signal", transport_case_counts, FAULT_REPEATS_A_SIGNAL},
      {"a changed signal", transport_case_counts, FAULT_CHANGES_A_SIGNAL},
      {"a wrong mapping", transport_case_memory, FAULT_WRONG_MAPPING},
      {"a missing slot", transport_case_slots, FAULT_NULL_SLOT},
  };
  for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
    cr_assert(passes(faults[i].body, FAULT_NONE), "fails without %s", faults[i].name);
    cr_assert_not(passes(faults[i].body, faults[i].fault), "%s is not detected", faults[i].name);
  }
}

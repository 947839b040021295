/*
 * The kit on UCX in place of sockets, with messages that UCX sends at once and with such that the
 * receiver fetches; and that loading UCX does not disturb the program. Skipped where there is no
 * UCX, and under ThreadSanitizer, which cannot see how UCX's own threads synchronize.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "transport/net/ranks.h"
#include "transport/net/wire/kit.h"
#include "transport/net/wire/ucx/ucx.h"

static void need_ucx(void) {
  wire_t *wire;
#ifdef __SANITIZE_THREAD__
  cr_skip_test("ThreadSanitizer does not see UCX");
#endif
  if (ucx_wire_open(&wire) != COLL_OK) cr_skip_test("%s", base_last_error());
  wire->ops->destroy(wire);
}

static coll_status_t make(int size, transport_t *ends[]) {
  wire_t *wires[HARNESS_RANKS_MAX];
  for (int rank = 0; rank < size; rank++) COLL_TRY(ucx_wire_open(&wires[rank]));
  return transport_net_create_local(size, wires, ends);
}

static coll_status_t join(int rank, int size, void *board, transport_t **end) {
  ranks_net_t net = {0};
  COLL_TRY(ucx_wire_open(&net.wire));
  return ranks_join(rank, size, board, &net, end);
}

static const transport_fixture_t fixture =
    RANKS_FIXTURE(.make = make, .join = join, .has_threads = true);

TestSuite(ucx_threads, .init = need_ucx);
TRANSPORT_KIT_ANY(ucx_threads, fixture, transport_kit_threads, 2)
TRANSPORT_KIT_PEERS(ucx_threads, fixture, transport_kit_threads)

TestSuite(ucx_processes, .init = need_ucx);
TestSuite(timing_ucx_processes, .init = need_ucx);
TRANSPORT_KIT_ANY(ucx_processes, fixture, transport_kit_processes, 2)
TRANSPORT_KIT_PEERS(ucx_processes, fixture, transport_kit_processes)
TRANSPORT_KIT_TIMES(ucx_processes, fixture, transport_kit_processes)

TRANSPORT_KIT_DEATH(ucx_processes, fixture)

/* ---- the kit of wires -----------------------------------------------------------------------*/

static const wire_fixture_t wire_fixture = {.open = ucx_wire_open, .bytes_max = WIRE_SLOT_BYTES};

TestSuite(ucx_wire, .init = need_ucx);
WIRE_KIT(ucx_wire, wire_fixture)

/* ---- order ----------------------------------------------------------------------------------*/

/* Every rank sends short and long messages to every other, and receives theirs. It then makes
 * progress until all peers have them, without which none can be fetched. */
static int case_order(const transport_fixture_t *fixture_of, transport_t **end) {
  enum { ROUNDS = 100, IN_A_ROUND = 12, CHANNEL = 2 };
  (void)fixture_of;
  transport_t *t = *end;
  for (uint64_t n = 0; n < ROUNDS * IN_A_ROUND; n += IN_A_ROUND) {
    for (int peer = 0; peer < t->size; peer++) {
      for (uint64_t i = n; peer != t->rank && i < n + IN_A_ROUND; i++) {
        KIT_TRY(kit_send(t, peer, CHANNEL, i, i * 997 % KIT_BYTES_MAX));
      }
    }
    for (int peer = 0; peer < t->size; peer++) {
      for (uint64_t i = n; peer != t->rank && i < n + IN_A_ROUND; i++) {
        KIT_TRY(kit_expect(t, peer, CHANNEL, i, i * 997 % KIT_BYTES_MAX));
      }
    }
  }
  for (int peer = 0; peer < t->size; peer++) {
    if (peer != t->rank) KIT_TRY(kit_signal(t, peer, CHANNEL, 1));
  }
  for (int peer = 0; peer < t->size; peer++) {
    if (peer != t->rank) KIT_TRY(kit_wait(t, peer, CHANNEL, 1));
  }
  return 0;
}

TestSuite(ucx_order, .init = need_ucx);
Test(ucx_order, holds_between_processes) {
  transport_kit_processes(&fixture, 3, case_order);
}
Test(ucx_order, holds_between_long_messages_that_are_fetched_and_short_ones) {
  setenv("UCX_RNDV_THRESH", "1500", 1);
  transport_kit_processes(&fixture, 3, case_order);
}
Test(ucx_order, holds_over_shared_memory) {
  setenv("UCX_TLS", "sm,tcp", 1);
  transport_kit_processes(&fixture, 3, case_order);
}
Test(ucx_order, holds_while_payloads_are_fetched_by_a_rank_whose_peer_leaves) {
  setenv("UCX_RNDV_THRESH", "100", 1);
  transport_kit_processes(&fixture, 3, transport_case_leave);
}

/* ---- the program ----------------------------------------------------------------------------*/

static void on_fault(int number) {
  (void)number;
}

Test(ucx_program, is_not_disturbed) {
  static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM, SIGIO};
  struct sigaction before[sizeof signals / sizeof signals[0]], after;
  unsigned char code[3][32];
  const void *functions[] = {(void *)(uintptr_t)mmap, (void *)(uintptr_t)munmap,
                             (void *)(uintptr_t)madvise};
  wire_t *wire;
  signal(SIGFPE, on_fault);
  for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
    sigaction(signals[i], NULL, &before[i]);
  }
  for (int i = 0; i < 3; i++) memcpy(code[i], functions[i], sizeof code[i]);
  if (ucx_wire_open(&wire) != COLL_OK) cr_skip_test("%s", base_last_error());
  for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
    sigaction(signals[i], NULL, &after);
    cr_expect(after.sa_handler == before[i].sa_handler, "signal %d has another handler",
              signals[i]);
  }
  for (int i = 0; i < 3; i++) {
    cr_expect(memcmp(code[i], functions[i], sizeof code[i]) == 0, "function %d was patched", i);
  }
  wire->ops->destroy(wire);
}

Test(ucx_program, starts_without_the_library) {
  wire_t *wire;
  setenv("COLL_UCX_LIBRARY", "/nonexistent/libucp.so", 1);
  cr_assert(ucx_wire_open(&wire) == COLL_ERROR_UNSUPPORTED);
  if (ucx_wire_knob(0) == NULL) return; /* it was built without */
  cr_expect(strstr(base_last_error(), "/nonexistent/libucp.so") != NULL, "%s", base_last_error());
  cr_expect(strstr(base_last_error(), "COLL_UCX_LIBRARY") != NULL, "%s", base_last_error());
}

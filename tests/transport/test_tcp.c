/* The kit on the TCP transport, over the loopback interface. */
#include <criterion/criterion.h>

#include "base/clock.h"
#include "transport/kit.h"
#include "transport/tcp/tcp.h"

static coll_status_t join(int rank, int size, void *board, uint32_t mesh_ranks, transport_t **end) {
  tcp_name_t *names = board;
  tcp_listener_t listener;
  uint64_t deadline_ns = base_clock_now_ns() + UINT64_C(10000000000) * HARNESS_PATIENCE;
  COLL_TRY(tcp_listen(&listener, "", &names[rank]));
  names[rank].mesh_ranks = mesh_ranks;
  harness_barrier();
  const base_secret_t secret = {.bytes = {47, 11}};
  const tcp_group_t group = {.rank = rank,
                             .size = size,
                             .names = names,
                             .session = 4711,
                             .secret = &secret,
                             .deadline_ns = deadline_ns};
  return transport_tcp_create(&listener, &group, end);
}

static coll_status_t join_all(int rank, int size, void *board, transport_t **end) {
  return join(rank, size, board, TCP_MESH_RANKS, end);
}

/* Most connections are made when they are first used. */
static coll_status_t join_tree(int rank, int size, void *board, transport_t **end) {
  return join(rank, size, board, 0, end);
}

static coll_status_t make(int size, transport_t *ends[]) {
  return transport_tcp_create_local(size, NULL, ends);
}

#define FIXTURE(how, ...)                                                                       \
  {                                                                                             \
    .size_max = HARNESS_RANKS_MAX, .make = make, .join = (how),                                 \
    .alloc = transport_kit_private_alloc, .release = transport_kit_private_release, __VA_ARGS__ \
  }

static const transport_fixture_t fixture = FIXTURE(join_all);
static const transport_fixture_t tree = FIXTURE(join_tree, .connects_late = true);

TRANSPORT_KIT_ANY(tcp_threads, fixture, transport_kit_threads, 2)
TRANSPORT_KIT_PEERS(tcp_threads, fixture, transport_kit_threads)
TRANSPORT_KIT_ANY(tcp_processes, fixture, transport_kit_processes, 2)
TRANSPORT_KIT_PEERS(tcp_processes, fixture, transport_kit_processes)
TRANSPORT_KIT_ANY(tcp_tree, tree, transport_kit_processes, 4)
TRANSPORT_KIT_PEERS(tcp_tree, tree, transport_kit_processes)

Test(tcp_processes, detects_a_death) {
  transport_kit_with_death(&fixture, 3, transport_case_death);
}

Test(tcp_tree, detects_a_death) {
  transport_kit_with_death(&tree, 3, transport_case_death);
}

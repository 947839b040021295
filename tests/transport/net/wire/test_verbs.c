/* The kit on RDMA devices, where this machine has one, and the choice among devices anywhere. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "transport/net/ranks.h"
#include "transport/net/wire/kit.h"
#include "transport/net/wire/verbs/choose.h"
#include "transport/net/wire/verbs/state.h"
#include "transport/net/wire/verbs/verbs.h"

static wire_t *joined; /* of this process */

/* ---- the kit --------------------------------------------------------------------------------*/

static coll_status_t join(int rank, int size, void *board, transport_t **end) {
  ranks_net_t net = {0};
  COLL_TRY(verbs_wire_open(&net.wire));
  joined = net.wire;
  return ranks_join(rank, size, board, &net, end);
}

static coll_status_t make(int size, transport_t *ends[]) {
  wire_t *wires[HARNESS_RANKS_MAX];
  for (int rank = 0; rank < size; rank++) COLL_TRY(verbs_wire_open(&wires[rank]));
  return transport_net_create_local(size, wires, ends);
}

static const transport_fixture_t fixture =
    RANKS_FIXTURE(.make = make, .join = join, .has_threads = true);

static void skip_without_device(void) {
  wire_t *wire;
  setenv("COLL_IB_FETCH_MIN", "0", 1);
  if (verbs_wire_open(&wire) != COLL_OK) cr_skip_test("%s", base_last_error());
  wire->ops->destroy(wire);
}

TestSuite(verbs_threads, .init = skip_without_device);
TestSuite(verbs_processes, .init = skip_without_device);
TestSuite(timing_verbs_processes, .init = skip_without_device);

TRANSPORT_KIT_ANY(verbs_threads, fixture, transport_kit_threads, 2)
TRANSPORT_KIT_PEERS(verbs_threads, fixture, transport_kit_threads)
TRANSPORT_KIT_ANY(verbs_processes, fixture, transport_kit_processes, 2)
TRANSPORT_KIT_PEERS(verbs_processes, fixture, transport_kit_processes)
TRANSPORT_KIT_TIMES(verbs_processes, fixture, transport_kit_processes)

TRANSPORT_KIT_FETCHES(verbs_threads, fixture, transport_kit_threads)
TRANSPORT_KIT_FETCHES(verbs_processes, fixture, transport_kit_processes)

/* Parts alternate between queue pairs, of which the ranks want different numbers. */
static coll_status_t join_several(int rank, int size, void *board, transport_t **end) {
  setenv("COLL_IB_QPS", rank == 1 ? "2" : "4", 1);
  return join(rank, size, board, end);
}

static const transport_fixture_t several = RANKS_FIXTURE(.make = make, .join = join_several);

TestSuite(verbs_several_qps, .init = skip_without_device);
TRANSPORT_KIT_FETCHES(verbs_several_qps, several, transport_kit_processes)

/* The same by two rails, if there are two devices. */
static coll_status_t join_by_rails(int rank, int size, void *board, transport_t **end) {
  setenv("COLL_IB_RAILS", "2", 1);
  return join_several(rank, size, board, end);
}

static const transport_fixture_t rails = RANKS_FIXTURE(.make = make, .join = join_by_rails);

TestSuite(verbs_rails, .init = skip_without_device);
TRANSPORT_KIT_FETCHES(verbs_rails, rails, transport_kit_processes)

/* As an error of the device would do while parts are under way by the second queue pair. It reads
 * what the rank's thread writes, to find the moment. */
static void *fail_second_queue_pair(void *wire) {
  verbs_t *verbs = wire;
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
  uint64_t deadline_ns = base_clock_now_ns() + UINT64_C(60000000000);
  int peer = 1 - verbs->wire.rank;
  while (verbs->pairs == NULL || verbs->pairs[peer].qps[1].parts == 0) {
    if (base_clock_now_ns() > deadline_ns) abort();
    base_clock_sleep_ns(500000);
  }
  (void)verbs->lib->ibv_modify_qp(verbs->pairs[peer].qps[1].qp, &attr, IBV_QP_STATE);
  return NULL;
}

static coll_status_t join_and_fail(int rank, int size, void *board, transport_t **end) {
  pthread_t thread;
  COLL_TRY(join_by_rails(rank, size, board, end));
  if (pthread_create(&thread, NULL, fail_second_queue_pair, joined) != 0) return COLL_ERROR_SYSTEM;
  pthread_detach(thread);
  return COLL_OK;
}

static const transport_fixture_t failing_rails = RANKS_FIXTURE(.make = make, .join = join_and_fail);

Test(verbs_rails, others_carry_what_a_queue_pair_fails_to) {
  transport_kit_processes(&failing_rails, 2, transport_case_fetches);
}

TRANSPORT_KIT_DEATH(verbs_processes, fixture)

/* Soft-RoCE of Linux 6.1 completes no send to a queue pair that is gone, not even as failed. */
static const wire_fixture_t wire_fixture = {
    .open = verbs_wire_open, .bytes_max = WIRE_SLOT_BYTES, .keeps_gone_peers = true};

TestSuite(verbs_wire, .init = skip_without_device);
WIRE_KIT(verbs_wire, wire_fixture)

/* ---- the choice of a device -----------------------------------------------------------------*/

Test(verbs_hca, an_empty_list_allows_all) {
  cr_assert(verbs_hca_allows("", "mlx5_0", 1));
}

Test(verbs_hca, names_are_prefixes) {
  cr_assert(verbs_hca_allows("mlx5", "mlx5_0", 1));
  cr_assert(verbs_hca_allows("mlx5_1", "mlx5_10", 2));
  cr_assert_not(verbs_hca_allows("mlx5_1", "mlx5_0", 1));
  cr_assert(verbs_hca_allows("mlx4_0,mlx5_1", "mlx5_1", 1));
}

Test(verbs_hca, equals_asks_for_the_whole_name) {
  cr_assert_not(verbs_hca_allows("=mlx5_1", "mlx5_10", 1));
  cr_assert(verbs_hca_allows("=mlx5_1", "mlx5_1", 1));
  cr_assert_not(verbs_hca_allows("=mlx5_0,mlx5_1", "mlx5_10", 1), "for all elements");
  cr_assert(verbs_hca_allows("mlx5_0,=mlx5_1", "mlx5_00", 1), "for that element");
}

Test(verbs_hca, ports) {
  cr_assert(verbs_hca_allows("mlx5_0:2", "mlx5_0", 2));
  cr_assert_not(verbs_hca_allows("mlx5_0:2", "mlx5_0", 1));
  cr_assert_not(verbs_hca_allows("^mlx5_0:2", "mlx5_0", 2));
  cr_assert(verbs_hca_allows("^mlx5_0:2", "mlx5_0", 1));
}

Test(verbs_hca, a_caret_excludes) {
  cr_assert_not(verbs_hca_allows("^mlx5_1,mlx5_2", "mlx5_2", 1), "all elements");
  cr_assert(verbs_hca_allows("^mlx5_1,mlx5_2", "mlx5_3", 1));
  cr_assert_not(verbs_hca_allows("^=mlx5_1", "mlx5_1", 1));
  cr_assert(verbs_hca_allows("^=mlx5_1", "mlx5_10", 1));
  cr_assert(verbs_hca_allows("mlx5_0:1,^mlx5_1", "mlx5_0", 1), "that element");
  cr_assert_not(verbs_hca_allows("mlx5_0:1,^mlx5_1", "mlx5_1", 1));
  cr_assert_not(verbs_hca_allows("mlx5,^mlx5_1", "mlx5_1", 1));
  cr_assert_not(verbs_hca_allows("mlx5_0,^mlx5_1", "mlx5_2", 1), "it is not asked for");
}

Test(verbs_hca, what_is_a_list) {
  static const char *const lists[] = {"", "mlx5_0", "^mlx5_0:1,=mlx5_1", "^=rxe0:255"};
  static const char *const others[] = {",", "mlx5_0,",    "mlx5_0:", "mlx5_0:0", "mlx5_0:x", "^",
                                       "=", "mlx5_0:256", ":1",      "a,,b",     "a:1:2"};
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
    cr_assert(verbs_hca_is_list(lists[i]), "\"%s\"", lists[i]);
  }
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    cr_assert_not(verbs_hca_is_list(others[i]), "\"%s\"", others[i]);
  }
}

Test(verbs_hca, a_wrong_list_is_refused) {
  wire_t *wire;
  setenv("COLL_IB_HCA", "mlx5_0:port", 1);
  cr_assert_eq(verbs_wire_open(&wire), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "COLL_IB_HCA is \"mlx5_0:port\""), "%s", base_last_error());
}

/* ---- the choice of an address ---------------------------------------------------------------*/

static const uint8_t link_local[16] = {0xfe, 0x80, [15] = 1};
static const uint8_t global[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 1};
static const uint8_t ipv4[16] = {[10] = 0xff, 0xff, 10, 9, 0, 1};
static const uint8_t nothing[16] = {0};

static verbs_gid_t gid_of(const uint8_t bytes[16], bool is_v2) {
  verbs_gid_t gid = {.is_v2 = is_v2};
  memcpy(gid.bytes, bytes, sizeof gid.bytes);
  return gid;
}

Test(verbs_gid, version_2_and_ipv4_come_first) {
  const verbs_gid_t gids[] = {gid_of(link_local, false), gid_of(link_local, true),
                              gid_of(global, true),      gid_of(ipv4, false),
                              gid_of(ipv4, true),        gid_of(ipv4, true)};
  cr_assert_eq(verbs_gid_choose(gids, 6), 4);
  cr_assert_eq(verbs_gid_choose(gids, 4), 2, "then other addresses of version 2");
  cr_assert_eq(verbs_gid_choose(gids, 2), 1, "link-local ones last");
  cr_assert_eq(verbs_gid_choose(gids, 1), 0, "then version 1");
}

Test(verbs_gid, an_empty_entry_is_no_address) {
  const verbs_gid_t gids[] = {gid_of(nothing, true), gid_of(link_local, false)};
  cr_assert_eq(verbs_gid_choose(gids, 2), 1);
  cr_assert_eq(verbs_gid_choose(gids, 1), -1);
  cr_assert_eq(verbs_gid_choose(gids, 0), -1);
}

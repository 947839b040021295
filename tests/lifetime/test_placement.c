/* COLL_TOPO_FILE: the ranks behave as if they were on the hosts of the file. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/comm.h"
#include "harness/party.h"
#include "lifetime/create.h"
#include "lifetime/placement.h"
#include "topo/fabric.h"

static char file_name[] = "/tmp/test_placement_XXXXXX";

/* Writes a file of `hosts` hosts that contain nothing, and sets COLL_TOPO_FILE. latency_us: of the
 * links to a switch; 0: none. */
static void use_file(int hosts, double latency_us) {
  int fd = mkstemp(file_name);
  cr_assert_geq(fd, 0);
  FILE *out = fdopen(fd, "w");
  fprintf(out, "{\"nodes\": [");
  for (int i = 0; i < hosts; i++) {
    fprintf(out, "%s\n{\"name\": \"host%d\", \"kind\": \"host\"}", i > 0 ? "," : "", i);
  }
  if (latency_us > 0) fprintf(out, ",\n{\"name\": \"hub\", \"kind\": \"switch\"}");
  fprintf(out, "], \"links\": [");
  for (int i = 0; i < hosts && latency_us > 0; i++) {
    fprintf(out,
            "%s\n{\"a\": \"host%d\", \"b\": \"hub\", \"class\": \"ethernet\", \"count\": 1, "
            "\"gigabytes_per_s\": 1.0, \"latency_us\": %.1f}",
            i > 0 ? "," : "", i, latency_us);
  }
  fprintf(out, "]}\n");
  cr_assert_eq(fclose(out), 0);
  setenv("COLL_TOPO_FILE", file_name, 1);
}

static void use_hosts(int hosts) {
  use_file(hosts, 0);
}

static void remove_file(void) {
  unlink(file_name);
  unsetenv("COLL_TOPO_PACED");
  unsetenv("COLL_TOPO_MAP");
}

TestSuite(placement, .fini = remove_file);

/* Five ranks on two hosts: 3 + 2. Whatever algorithm is asked for, results are right, and what runs
 * keeps to its host's memory. */
static int ask_all(party_rank_t *self) {
  const topo_layout_t *layout = self->comm->layout;
  PARTY_REQUIRE(layout != NULL && layout->level[0].groups == 2, "there are not two hosts");
  for (int rank = 0; rank < self->size; rank++) {
    PARTY_REQUIRE(layout->domain_of[rank] == (rank < 3 ? 0 : 1), "rank %d is elsewhere", rank);
  }
  int composed = 0;
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    const char *name;
    for (int i = 0; (name = coll_algo_name((coll_collective_t)c, i)) != NULL; i++) {
      const question_t q = {.collective = (coll_collective_t)c,
                            .size = self->size,
                            .root = c % self->size,
                            .count = 1001,
                            .dtype = COLL_FLOAT32,
                            .op = COLL_SUM,
                            .seed = 1};
      PARTY_OK(coll_comm_algo_set(self->comm, q.collective, name));
      PARTY_TRY(party_ask(self, &q, &(party_style_t){.coll_memory = i % 2 == 0}));
      const char *used = coll_comm_algo_used(self->comm, q.collective);
      composed += strcmp(used, "hierarchical") == 0;
      PARTY_REQUIRE(strstr(used, "mapped") == NULL && strstr(used, "staged") == NULL &&
                        strstr(used, "twophase") == NULL,
                    "%s ran", used);
    }
  }
  PARTY_REQUIRE(composed >= 9, "hierarchical ran %d times", composed);
  return 0;
}

Test(placement, every_algorithm_keeps_to_its_host) {
  use_hosts(2);
  PARTY_RUN(5, 60000, ask_all, NULL);
}

/* The same over links, whose times are kept. A barrier takes a path of two links or more; a rank
 * that is late for the first may find it complete. */
static int ask_all_paced(party_rank_t *self) {
  PARTY_REQUIRE(self->comm->paced, "links are not paced");
  uint64_t start_ns = base_clock_now_ns();
  for (int i = 0; i < 5; i++) PARTY_OK(coll_barrier(self->comm, NULL));
  uint64_t took_ns = base_clock_now_ns() - start_ns;
  PARTY_REQUIRE(took_ns >= 4 * 40000, "five barriers take %d ns only", (int)took_ns);
  return ask_all(self);
}

Test(placement, every_algorithm_is_right_over_paced_links) {
  use_file(2, 20);
  setenv("COLL_TOPO_PACED", "1", 1);
  PARTY_RUN(5, 60000, ask_all_paced, NULL);
}

/* A message takes longer than ranks sleep before they search for deadlocks. */
static int synchronize(party_rank_t *self) {
  for (int i = 0; i < 3; i++) PARTY_OK(coll_barrier(self->comm, NULL));
  return 0;
}

Test(placement, ranks_wait_for_slow_links) {
  use_file(2, 50000);
  setenv("COLL_TOPO_PACED", "1", 1);
  PARTY_RUN(2, 60000, synchronize, NULL);
}

/* The odd ranks of 3 + 2: ranks 1 and 3, each alone on its host. */
static int split_by_parity(party_rank_t *self) {
  coll_comm_t child;
  int32_t one = 1, sum = 0;
  PARTY_OK(coll_comm_split(self->comm, self->rank % 2, 0, NULL, &child));
  const topo_layout_t *layout = child->layout;
  PARTY_REQUIRE(layout != NULL && layout->size == child->size, "the child has no layout");
  PARTY_REQUIRE(layout->level[0].groups == 2, "it has %d hosts", (int)layout->level[0].groups);
  PARTY_REQUIRE(layout->domain_of[child->size - 1] == 1, "all are on one host");
  PARTY_OK(coll_allreduce(&one, &sum, 1, COLL_INT32, COLL_SUM, child, NULL));
  PARTY_REQUIRE(sum == child->size, "the sum is %d", (int)sum);
  PARTY_OK(coll_comm_destroy(child));
  return 0;
}

Test(placement, a_split_keeps_it) {
  use_hosts(2);
  PARTY_RUN(5, 20000, split_by_parity, NULL);
}

static int never_runs(party_rank_t *self) {
  return harness_fail("rank %d has a communicator", self->rank);
}

/* The ranks are on two GPUs of a host. */
static int ask_nccl(party_rank_t *self) {
  const topo_layout_t *layout = self->comm->layout;
  PARTY_REQUIRE(layout != NULL && layout->fabric != NULL, "the file's links are unknown");
  return 0;
}

/* A file of NCCL, as an image of a cloud has it. */
Test(placement, a_file_of_nccl_is_taken) {
  harness_result_t result;
  int fd = mkstemp(file_name);
  FILE *out = fdopen(fd, "w");
  fprintf(out, "<system version=\"1\"><cpu numaid=\"0\">\n");
  for (int i = 0; i < 2; i++) {
    fprintf(out,
            "<pci busid=\"000%d:00:00.0\"><gpu dev=\"%d\" sm=\"80\">"
            "<nvlink target=\"000%d:00:00.0\" count=\"12\"/></gpu></pci>\n",
            i, i, i);
  }
  fprintf(out, "</cpu></system>\n");
  cr_assert_eq(fclose(out), 0);
  setenv("COLL_TOPO_FILE", file_name, 1);
  cr_assert(party_processes(2, 10000, ask_nccl, NULL, &result), "%s", result.text);
}

Test(placement, a_wrong_file_is_refused) {
  harness_result_t result;
  use_hosts(0);
  cr_assert(!party_processes(2, 10000, never_runs, NULL, &result));
  cr_assert(strstr(result.text, file_name) != NULL, "%s", result.text);
  setenv("COLL_TOPO_FILE", "/nowhere/file.json", 1);
  cr_assert(!party_processes(2, 10000, never_runs, NULL, &result));
  cr_assert(strstr(result.text, "/nowhere/file.json") != NULL, "%s", result.text);
}

Test(placement, pacing_needs_links) {
  harness_result_t result;
  use_hosts(2);
  setenv("COLL_TOPO_PACED", "1", 1);
  cr_assert(!party_processes(2, 10000, never_runs, NULL, &result));
  cr_assert(strstr(result.text, "there are no links to pace") != NULL, "%s", result.text);
}

/* context: the map of rank 1; NULL: it reads no file. */
static int placements_differ(int rank, int size, void *context) {
  coll_unique_id_t *id = harness_board();
  coll_comm_t comm;
  if (rank == 1 && context == NULL) unsetenv("COLL_TOPO_FILE");
  if (rank == 1 && context != NULL) setenv("COLL_TOPO_MAP", context, 1);
  if (rank == 0) PARTY_OK(coll_unique_id_create(NULL, id));
  harness_barrier();
  coll_status_t status = coll_comm_create(id, rank, size, NULL, &comm);
  PARTY_REQUIRE(status == COLL_ERROR_MISMATCH, "%s", coll_status_string(status));
  PARTY_REQUIRE(strstr(coll_last_error(NULL),
                       "COLL_TOPO_FILE places the ranks of rank 0 and of "
                       "rank 1 differently") != NULL,
                "%s", coll_last_error(NULL));
  return 0;
}

Test(placement, different_files_of_ranks_are_refused) {
  harness_result_t result;
  use_hosts(2);
  cr_assert(harness_run(3, 20000, placements_differ, NULL, &result), "%s", result.text);
}

Test(placement, different_maps_of_ranks_are_refused) {
  harness_result_t result;
  use_hosts(2);
  cr_assert(harness_run(3, 20000, placements_differ, "by-rail", &result), "%s", result.text);
}

/* Host 0 has the ranks 0, 2 and 4. */
static int ask_by_rail(party_rank_t *self) {
  const topo_layout_t *layout = self->comm->layout;
  for (int rank = 0; rank < self->size; rank++) {
    PARTY_REQUIRE(layout->domain_of[rank] == rank % 2, "rank %d is elsewhere", rank);
  }
  return 0;
}

Test(placement, ranks_are_on_hosts_in_turn) {
  harness_result_t result;
  use_hosts(2);
  setenv("COLL_TOPO_MAP", "by-rail", 1);
  cr_assert(party_processes(5, 20000, ask_by_rail, NULL, &result), "%s", result.text);
}

/* Homes of ranks that are bound to two NUMA nodes, as their records have them. */
Test(placement, bound_ranks_are_grouped_by_numa_node) {
  static lifetime_record_t records[4];
  topo_layout_t *layout = NULL, *same;
  for (int rank = 0; rank < 4; rank++) {
    records[rank].home = (topo_home_t){0, (int16_t)(rank / 2)};
    records[rank].name.shm.length = 1;
  }
  cr_assert_eq(lifetime_placement_of_records(4, records, &layout), COLL_OK, "%s",
               base_last_error());
  cr_assert(layout != NULL && layout->levels == 1 && layout->level[0].kind == TOPO_NUMA);
  cr_assert_eq(layout->level[0].group_of[2], 1);
  same = layout;
  cr_assert_eq(lifetime_placement_of_records(4, records, &layout), COLL_OK);
  cr_assert_eq(layout, same, "a layout of a file is kept");
  topo_layout_free(layout);
  layout = NULL;
  records[3].home.numa = TOPO_HOME_NONE;
  cr_assert_eq(lifetime_placement_of_records(4, records, &layout), COLL_OK);
  cr_assert_null(layout, "a rank that is not bound");
}

/* Two links between ranks of two hosts, of which the first is as fast as rank 0 says. */
static void expect_links(const topo_layout_t *layout) {
  const int32_t *wires;
  int32_t count;
  cr_assert_not_null(layout->fabric);
  cr_assert_eq(topo_fabric_path(layout->fabric, 0, 1, &wires, &count), COLL_OK);
  cr_assert_eq(count, 2);
  const topo_wire_t first = topo_fabric_wire(layout->fabric, wires[0]);
  const topo_wire_t second = topo_fabric_wire(layout->fabric, wires[1]);
  cr_expect_eq(first.kib_ps, 10 * second.kib_ps, "%d, %d", (int)first.kib_ps, (int)second.kib_ps);
  cr_assert_eq(topo_fabric_path(layout->fabric, 0, 2, &wires, &count), COLL_OK);
  cr_assert_eq(count, 0, "ranks of one host have links");
}

Test(placement, ranks_of_several_hosts_are_grouped_by_host) {
  static lifetime_record_t records[5];
  static const char *const hosts[] = {"b", "a", "b", "c", "a"};
  static const int32_t groups[] = {0, 1, 0, 2, 1};
  static const int32_t domains[] = {0, 1, 0, 2, 3}; /* rank 4 does not use shared memory */
  topo_layout_t *layout = NULL;
  for (int rank = 0; rank < 5; rank++) {
    snprintf(records[rank].name.host, sizeof records[rank].name.host, "%s", hosts[rank]);
    records[rank].name.shm.length = rank == 4 ? 0 : 1;
    records[rank].name.tcp.megabits = rank % 2 == 0 ? 1000 : 0; /* 0: taken as 10000 */
  }
  cr_assert_eq(lifetime_placement_of_records(5, records, &layout), COLL_OK, "%s",
               base_last_error());
  cr_assert(layout != NULL && layout->levels == 1 && layout->level[0].kind == TOPO_HOST);
  for (int rank = 0; rank < 5; rank++) {
    cr_expect_eq(layout->level[0].group_of[rank], groups[rank]);
    cr_expect_eq(layout->domain_of[rank], domains[rank]);
  }
  expect_links(layout);
  topo_layout_free(layout);
}

Test(placement, a_file_replaces_the_homes_of_ranks) {
  topo_home_t home = lifetime_placement_home("file.json");
  cr_assert(home.package == TOPO_HOME_NONE && home.numa == TOPO_HOME_NONE);
}

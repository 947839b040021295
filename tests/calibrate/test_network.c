/*
 * The costs of the network: which pairs of hosts are measured, with how many bytes, when what the
 * cache has still holds, and that all ranks get the same. The ranks share memory, but are told that
 * they are on several hosts. The time of a hop, whether long messages were disturbed, and the clock
 * and the messages' time of a thread that measures are the test's: the functions defined here
 * override the library's at link time.
 */
#include <criterion/criterion.h>
#include <ftw.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "calibrate/network.h"
#include "comm/comm.h"
#include "harness/party.h"

enum { HOP_PS = 5000000, HOUR_S = 3600, CACHED_PS = 77 };

static uint64_t hop_ps = HOP_PS; /* as it is now; 0: the ends are busy */

static bool disturbed; /* long messages are */
static bool is_huge;   /* the first of them, as the follower is told */

enum { STEP_NS = 1000 }; /* of the clock of a thread that measures, each time it is read */

/* A network, by which messages of a thread that measures take longer. */
typedef struct slow {
  uint64_t trip_ns, byte_ps;
  int stalled; /* the long exchange, counted from 1, that takes STALL_NS more; 0: none */
} slow_t;

#define STALL_NS UINT64_C(200000000)

static slow_t slow;
static bool hop_is_real; /* it is computed from the trips */

static _Thread_local uint64_t clock_ns;       /* 0: the thread has the real one */
static _Thread_local int exchanges;           /* long ones of this thread */
static _Thread_local party_rank_t *meanwhile; /* measures once more, before a hop is known */

static int measure_pair(party_rank_t *self, uint64_t kernel, comm_network_cost_t *cost);
static int measure_none(party_rank_t *self);

uint64_t __real_calibrate_network_hop_ps(uint64_t trips_ns[], int count);
uint64_t __wrap_calibrate_network_hop_ps(uint64_t trips_ns[], int count);
uint64_t __wrap_calibrate_network_hop_ps(uint64_t trips_ns[], int count) {
  party_rank_t *self = meanwhile;
  meanwhile = NULL;
  if (self != NULL && measure_none(self) != 0) return 0;
  if (hop_is_real && count < 3) return 0;
  return hop_is_real ? __real_calibrate_network_hop_ps(trips_ns, count) : hop_ps;
}

bool __real_calibrate_network_is_plausible(const comm_network_cost_t *cost);
bool __wrap_calibrate_network_is_plausible(const comm_network_cost_t *cost);
bool __wrap_calibrate_network_is_plausible(const comm_network_cost_t *cost) {
  bool is_cached = cost->one_way_ps == CACHED_PS;
  return cost->one_way_ps > 0 && cost->both_ways_ps > 0 && (is_cached || !disturbed);
}

uint64_t __real_base_clock_now_ns(void);
uint64_t __wrap_base_clock_now_ns(void);
uint64_t __wrap_base_clock_now_ns(void) {
  if (clock_ns == 0) return __real_base_clock_now_ns();
  return clock_ns += STEP_NS;
}

/* of an order (calibrate/network_pair.c) */
static void ask_for_more(void *order, size_t order_bytes) {
  int32_t kind;
  const uint64_t bytes = 1 << 20;
  memcpy(&kind, order, sizeof kind);
  if (kind == 2 && order_bytes < 1024) memcpy((char *)order + 8, &bytes, sizeof bytes);
}

coll_status_t __real_calibrate_link_exchange(const network_link_t *link, const void *out,
                                             size_t out_bytes, void *in, size_t in_bytes);
coll_status_t __wrap_calibrate_link_exchange(const network_link_t *link, const void *out,
                                             size_t out_bytes, void *in, size_t in_bytes);
coll_status_t __wrap_calibrate_link_exchange(const network_link_t *link, const void *out,
                                             size_t out_bytes, void *in, size_t in_bytes) {
  if (clock_ns > 0) clock_ns += out_bytes / 1024 * 1024 * slow.byte_ps / 1000;
  if (clock_ns > 0 && out_bytes == 0) clock_ns += slow.trip_ns;
  bool is_long = out_bytes >= 1024 && in_bytes >= 1024;
  if (clock_ns > 0 && is_long && ++exchanges == slow.stalled) clock_ns += STALL_NS;
  coll_status_t status = __real_calibrate_link_exchange(link, out, out_bytes, in, in_bytes);
  if (is_huge && status == COLL_OK && out_bytes == 0) ask_for_more(in, in_bytes);
  return status;
}

static const comm_network_host_t machines[2] = {{.rank = 0, .kernel = 7, .containers = 1},
                                                {.rank = 1, .kernel = 9, .containers = 1}};

#define LIMIT_NS UINT64_C(600000000000) /* of the test's clock, which goes fast */

static coll_status_t measure_all_hosts(coll_comm_t comm, const comm_network_host_t hosts[],
                                       int count, comm_network_cost_t costs[]) {
  uint64_t former_ns = clock_ns;
  clock_ns = __real_base_clock_now_ns();
  coll_status_t status = calibrate_network_measure(comm, hosts, count, LIMIT_NS, costs);
  clock_ns = former_ns;
  return status;
}

static char folder[] = "/tmp/libcoll-network-XXXXXX";

static void make_folder(void) {
  cr_assert_not_null(mkdtemp(folder));
  setenv("XDG_CACHE_HOME", folder, 1);
  setenv("COLL_TUNE", "builtin", 1); /* what a core needs is not measured, which takes seconds */
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *info) {
  (void)status, (void)kind, (void)info;
  return remove(path);
}

static void remove_folder(void) {
  nftw(folder, remove_one, 4, FTW_DEPTH | FTW_PHYS);
}

TestSuite(network, .init = make_folder, .fini = remove_folder);

/* ---- the file -------------------------------------------------------------------------------*/

/* More pairs than the file has room for: the last ones are kept. */
Test(network, the_file_has_the_pairs_that_were_saved_last) {
  comm_network_cost_t found;
  for (uint64_t key = 0; key < 100; key++) {
    const comm_network_cost_t cost = {
        .hop_ps = HOP_PS + key, .send_ps = 5, .one_way_ps = 2, .both_ways_ps = 3, .measured_s = 4};
    calibrate_network_save(key, &cost);
  }
  cr_expect_not(calibrate_network_load(0, &found), "a pair without a key was saved");
  cr_expect_not(calibrate_network_load(1, &found));
  for (uint64_t key = 90; key < 100; key++) {
    cr_assert(calibrate_network_load(key, &found));
    cr_expect(found.hop_ps == HOP_PS + key && found.send_ps == 5 && found.one_way_ps == 2 &&
              found.both_ways_ps == 3 && found.measured_s == 4);
  }
}

Test(network, the_file_gives_nothing_that_cannot_be) {
  const comm_network_cost_t cost = {
      .hop_ps = HOP_PS, .one_way_ps = 1, .both_ways_ps = 9, .measured_s = 4};
  const comm_network_cost_t slow_call = {
      .hop_ps = HOP_PS, .send_ps = HOP_PS + 1, .one_way_ps = 1, .both_ways_ps = 1, .measured_s = 4};
  comm_network_cost_t found = {.hop_ps = 1};
  disturbed = true;
  calibrate_network_save(5, &cost);
  cr_expect_not(calibrate_network_load(5, &found));
  disturbed = false;
  calibrate_network_save(6, &slow_call);
  cr_expect_not(calibrate_network_load(6, &found));
  cr_expect_eq(found.hop_ps, 1);
}

/* ---- among ranks ----------------------------------------------------------------------------*/

enum { RANKS_MAX = 7 };

/* Every second rank is the first of a host. */
static int measure_all(party_rank_t *self) {
  comm_network_host_t hosts[RANKS_MAX] = {{0}};
  comm_network_cost_t costs[RANKS_MAX], all[RANKS_MAX][RANKS_MAX];
  int count = (self->size + 1) / 2;
  memset(costs, 0, sizeof costs);
  for (int i = 0; i < count; i++) hosts[i].rank = 2 * i;
  PARTY_OK(measure_all_hosts(self->comm, hosts, count, costs));
  PARTY_OK(coll_allgather(costs, all, sizeof costs, COLL_UINT8, self->comm, NULL));
  for (int rank = 0; rank < self->size; rank++) {
    PARTY_REQUIRE(memcmp(all[rank], costs, sizeof costs) == 0, "rank %d has other costs", rank);
  }
  for (int i = 0; i < count; i++) {
    PARTY_REQUIRE(costs[i].hop_ps == hop_ps, "host %d: a hop of %llu ps", i,
                  (unsigned long long)costs[i].hop_ps);
    bool is_timed = costs[i].one_way_ps > 0 && costs[i].both_ways_ps > 0;
    PARTY_REQUIRE(is_timed == (hop_ps > 0), "host %d: long messages", i);
  }
  return 0;
}

Test(network, all_ranks_have_the_costs_of_all_hosts) {
  for (int size = 3; size <= RANKS_MAX; size += 2) PARTY_RUN(size, 20000, measure_all, NULL);
}

Test(network, nothing_is_known_of_hosts_that_are_busy) {
  hop_ps = 0;
  PARTY_RUN(5, 20000, measure_all, NULL);
}

static int measure_nothing(party_rank_t *self) {
  comm_network_cost_t cost;
  PARTY_TRY(measure_pair(self, 7, &cost));
  PARTY_REQUIRE(cost.hop_ps == 0, "a hop of %llu ps", (unsigned long long)cost.hop_ps);
  return 0;
}

Test(network, nothing_is_known_if_long_messages_are_disturbed) {
  disturbed = true;
  PARTY_RUN(2, 20000, measure_nothing, NULL);
}

/* ---- networks that are slow or far ----------------------------------------------------------*/

typedef struct shape {
  slow_t slow;
  uint32_t megabits; /* as the interfaces state them */
  uint64_t kib_ps;   /* wanted, about; 0: any */
} shape_t;

enum { LEADER, FOLLOWER };

/* Of rank 0: whether it is what the shape says, in the cache too, for few bytes and in a short
 * time.
 */
static int check_shape(const party_rank_t *self, const shape_t *shape,
                       const comm_network_host_t hosts[2], const comm_network_cost_t *cost,
                       uint64_t took_ns) {
  comm_network_cost_t saved;
  const char *route = self->comm->local->ops->route(self->comm->local, FOLLOWER);
  uint64_t kib_ps = cost->both_ways_ps, trip_ps = shape->slow.trip_ns * 1000;
  uint64_t most_ns = 7 * shape->slow.trip_ns + 4 * (shape->slow.byte_ps * 4096 / 1000);
  if (most_ns < 80000000) most_ns = 80000000; /* 10 ms of these for a wire to connect */
  if (shape->slow.stalled > 0) most_ns += STALL_NS;
  PARTY_REQUIRE(2 * cost->hop_ps >= trip_ps && cost->hop_ps <= trip_ps, "a hop of %llu ps",
                (unsigned long long)cost->hop_ps);
  PARTY_REQUIRE(shape->kib_ps == 0 || (kib_ps < 2 * shape->kib_ps && shape->kib_ps < 2 * kib_ps),
                "%llu ps per KiB", (unsigned long long)kib_ps);
  PARTY_REQUIRE(took_ns < most_ns, "it took %llu ns", (unsigned long long)took_ns);
  PARTY_REQUIRE(calibrate_network_load(calibrate_network_key(&hosts[0], &hosts[1], route), &saved),
                "it is not in the cache");
  return 0;
}

static int measure_shape(party_rank_t *self) {
  const shape_t *shape = self->context;
  comm_network_host_t hosts[2] = {{.rank = LEADER, .kernel = 7}, {.rank = FOLLOWER, .kernel = 9}};
  comm_network_cost_t cost;
  const network_link_t link = calibrate_link_to(self->comm, 1 - self->rank, UINT64_MAX);
  hosts[0].megabits = hosts[1].megabits = shape->megabits;
  hop_is_real = true;
  slow = shape->slow;
  clock_ns = __real_base_clock_now_ns();
  uint64_t begin_ns = clock_ns;
  PARTY_OK(calibrate_network_pair(&link, &hosts[self->rank], &hosts[1 - self->rank], &cost));
  uint64_t took_ns = clock_ns - begin_ns;
  clock_ns = 0;
  if (self->rank == LEADER) PARTY_TRY(check_shape(self, shape, hosts, &cost, took_ns));
  return 0;
}

static void measure_shapes(shape_t shapes[], size_t count) {
  for (size_t i = 0; i < count; i++) {
    harness_result_t result;
    remove_folder();
    cr_assert_eq(mkdir(folder, 0700), 0);
    cr_assert(party_processes(2, 20000, measure_shape, &shapes[i], &result), "row %zu: %s", i,
              result.text);
  }
}

/* Trips and times of a byte: of a fast link, of 10 Gb/s, of 100 Mb/s, 10 Mb/s, 1 Mb/s and 50 kb/s,
 * of hosts that are 3 ms apart, and of distant ones, whose interfaces say 10 Gb/s. */
Test(network, slow_and_distant_networks_are_measured_with_few_bytes) {
  static shape_t shapes[] = {{{20000, 300, 0}, 0, 307200},
                             {{100000, 800, 0}, 0, 819200},
                             {{200000, 80000, 0}, 10000, 81920000},
                             {{300000, 800000, 0}, 10000, 819200000},
                             {{300000, 8000000, 0}, 10000, 8192000000},
                             {{300000, 160000000, 0}, 10000, 163840000000},
                             {{3000000, 800000, 0}, 10000, 819200000},
                             {{3000000, 800, 0}, 10000, 819200},
                             {{120000000, 800, 0}, 10000, 819200},
                             {{120000000, 800, 0}, 0, 0}};
  measure_shapes(shapes, sizeof shapes / sizeof *shapes);
}

/* As where a packet is lost, or an end is stopped: the first long message, the first of the next
 * size, and the first of a slow network. */
Test(network, a_stalled_message_is_not_believed) {
  static shape_t shapes[] = {{{20000, 300, 1}, 0, 307200},
                             {{100000, 800, 1}, 0, 819200},
                             {{100000, 800, 4}, 0, 819200},
                             {{300000, 800000, 1}, 0, 819200000},
                             {{300000, 800000, 3}, 0, 819200000}};
  measure_shapes(shapes, sizeof shapes / sizeof *shapes);
}

/* ---- beside the calls of the program --------------------------------------------------------*/

/* Rank 1 does not take part. */
static int wait_in_vain(party_rank_t *self) {
  const comm_network_host_t hosts[2] = {{.rank = 0}, {.rank = 1}};
  comm_network_cost_t costs[2];
  coll_status_t status;
  if (self->rank == 0) {
    status = calibrate_network_measure(self->comm, hosts, 2, 4000000, costs);
  } else {
    while ((status = comm_poll_failure(self->comm)) == COLL_OK) sched_yield();
  }
  const char *text = coll_last_error(NULL);
  PARTY_REQUIRE(status == COLL_ERROR_TIMEOUT && strstr(text, "rank 1 (pid ") == text &&
                    strstr(text, "in coll_comm_create") != NULL,
                "it says '%s'", text);
  return 0;
}

Test(network, a_rank_that_is_stopped_is_named) {
  PARTY_RUN(2, 20000, wait_in_vain, NULL);
}

/* Rank 0 leads. */
static int ask_too_much(party_rank_t *self) {
  comm_network_cost_t costs[2];
  is_huge = true;
  coll_status_t status = measure_all_hosts(self->comm, machines, 2, costs);
  const char *text = coll_last_error(NULL);
  PARTY_REQUIRE(status != COLL_OK && strstr(text, "rank 0 sends 1048576 bytes") != NULL,
                "it says '%s'", text);
  return 0;
}

Test(network, more_bytes_than_there_is_memory_for_are_refused) {
  PARTY_RUN(2, 20000, ask_too_much, NULL);
}

/* Calls are numbered from 0 afterwards, and any thread may be the first to make some. */
static int send_first(party_rank_t *self) {
  const comm_network_host_t hosts[2] = {{.rank = 0}, {.rank = 1}};
  comm_network_cost_t costs[2];
  uint64_t bytes;
  int value = self->rank;
  PARTY_OK(measure_all_hosts(self->comm, hosts, 2, costs));
  PARTY_REQUIRE(atomic_load(&self->comm->combine.thread) == NULL, "a thread has sent");
  PARTY_OK(coll_comm_bytes_sent(self->comm, &bytes));
  PARTY_REQUIRE(bytes == 0, "%llu bytes", (unsigned long long)bytes);
  PARTY_REQUIRE(self->comm->sequence == 0 && self->comm->history == 0, "collectives");
  PARTY_REQUIRE(self->comm->pairs[0] == NULL && self->comm->pairs[3] == NULL, "sends or receives");
  flight_past_t latest;
  PARTY_REQUIRE(!flight_latest(self->comm->local->flight, &latest), "call %llu was recorded",
                (unsigned long long)latest.number);
  PARTY_OK(self->rank == 0 ? coll_send(&value, 1, COLL_INT32, 1, self->comm, NULL)
                           : coll_recv(&value, 1, COLL_INT32, 0, self->comm, NULL));
  PARTY_REQUIRE(value == 0, "received %d", value);
  return 0;
}

Test(network, leaves_no_trace_in_the_calls_of_the_program) {
  PARTY_RUN(2, 20000, send_first, NULL);
}

/* ---- what the cache has ---------------------------------------------------------------------*/

typedef struct later {
  int64_t seconds; /* since the costs in the cache were measured */
  uint64_t hop_ps; /* now */
  bool measured;   /* they are again */
} later_t;

static uint64_t key_of_machines(coll_comm_t comm) {
  const char *route = comm->local->ops->route(comm->local, 1 - comm->rank);
  return calibrate_network_key(&machines[0], &machines[1], route);
}

static int find_later(party_rank_t *self) {
  const later_t *later = self->context;
  const comm_network_cost_t cached = {.hop_ps = HOP_PS,
                                      .one_way_ps = CACHED_PS,
                                      .both_ways_ps = CACHED_PS,
                                      .measured_s = (int64_t)time(NULL) - later->seconds};
  comm_network_cost_t costs[2], saved;
  uint64_t key = key_of_machines(self->comm);
  hop_ps = later->hop_ps;
  if (self->rank == 0) calibrate_network_save(key, &cached);
  PARTY_OK(measure_all_hosts(self->comm, machines, 2, costs));
  for (int i = 0; i < 2; i++) {
    PARTY_REQUIRE((costs[i].measured_s - cached.measured_s < 30) == !later->measured,
                  "measured %d s later", (int)(costs[i].measured_s - cached.measured_s));
    PARTY_REQUIRE(costs[i].hop_ps == (later->measured ? later->hop_ps : HOP_PS), "hop");
    PARTY_REQUIRE(later->measured || costs[i].one_way_ps == CACHED_PS, "a way of %llu",
                  (unsigned long long)costs[i].one_way_ps);
  }
  if (self->rank > 0) return 0;
  PARTY_REQUIRE(calibrate_network_load(key, &saved), "the cache has nothing");
  PARTY_REQUIRE(memcmp(&saved, &costs[0], sizeof saved) == 0, "the cache has something else");
  return 0;
}

Test(network, is_measured_again_after_an_hour_or_if_a_hop_takes_another_time) {
  static later_t table[] = {
      {60, HOP_PS, false},     {60, 2 * HOP_PS - 1, false}, {HOUR_S + 60, HOP_PS, true},
      {60, 2 * HOP_PS, true},  {60, HOP_PS / 2, true},      {60, 0, false},
      {HOUR_S + 60, 0, false}, /* old ones are better than none */
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    harness_result_t result;
    cr_assert(party_processes(2, 20000, find_later, &table[i], &result), "row %zu: %s", i,
              result.text);
  }
}

/* While long messages are disturbed: what the cache has is kept only if it is of this network. */
static int find_earlier(party_rank_t *self) {
  const comm_network_cost_t cached = {
      .hop_ps = HOP_PS, .one_way_ps = CACHED_PS, .both_ways_ps = CACHED_PS, .measured_s = 4};
  comm_network_cost_t costs[2];
  disturbed = true;
  if (self->rank == 0) calibrate_network_save(key_of_machines(self->comm), &cached);
  PARTY_OK(measure_all_hosts(self->comm, machines, 2, costs));
  PARTY_REQUIRE(costs[0].hop_ps == HOP_PS, "old costs are not used");
  hop_ps = 2 * HOP_PS;
  PARTY_OK(measure_all_hosts(self->comm, machines, 2, costs));
  PARTY_REQUIRE(costs[0].hop_ps == 0, "those of another network are");
  return 0;
}

Test(network, what_was_measured_of_another_network_is_not_used) {
  harness_result_t result;
  cr_assert(party_processes(2, 20000, find_earlier, NULL, &result), "%s", result.text);
}

/* Two containers on each of two machines: what the cache has is of the network between these. */
static int measure_machines(party_rank_t *self) {
  const char *route = self->comm->local->ops->route(self->comm->local, self->rank ^ 1);
  comm_network_host_t hosts[4];
  comm_network_cost_t costs[4], found;
  for (int i = 0; i < 4; i++) {
    hosts[i] = (comm_network_host_t){.rank = i, .kernel = i < 2 ? 7 : 9, .containers = 2};
  }
  PARTY_OK(measure_all_hosts(self->comm, hosts, 4, costs));
  for (int i = 0; i < 4; i++) PARTY_REQUIRE(costs[i].hop_ps == HOP_PS, "host %d", i);
  bool has_inside =
      calibrate_network_load(calibrate_network_key(&hosts[0], &hosts[1], route), &found) ||
      calibrate_network_load(calibrate_network_key(&hosts[2], &hosts[3], route), &found);
  PARTY_REQUIRE(!has_inside, "a machine was measured");
  PARTY_REQUIRE(calibrate_network_load(calibrate_network_key(&hosts[0], &hosts[2], route), &found),
                "the network was not");
  return 0;
}

Test(network, what_is_between_machines_is_measured_not_what_is_inside) {
  PARTY_RUN(4, 20000, measure_machines, NULL);
}

/* ---- several at once ------------------------------------------------------------------------*/

static void name_pair(uint64_t kernel, comm_network_host_t hosts[2]) {
  for (int i = 0; i < 2; i++) {
    hosts[i] = (comm_network_host_t){.rank = i, .kernel = kernel, .containers = 2};
  }
}

static int measure_pair(party_rank_t *self, uint64_t kernel, comm_network_cost_t *cost) {
  comm_network_host_t hosts[2];
  comm_network_cost_t costs[2];
  name_pair(kernel, hosts);
  PARTY_OK(measure_all_hosts(self->comm, hosts, 2, costs));
  *cost = costs[0];
  return 0;
}

static bool is_saved(coll_comm_t comm, uint64_t kernel) {
  comm_network_host_t hosts[2];
  comm_network_cost_t found;
  name_pair(kernel, hosts);
  const char *route = comm->local->ops->route(comm->local, 1 - comm->rank);
  return calibrate_network_load(calibrate_network_key(&hosts[0], &hosts[1], route), &found);
}

/* Of the second one. */
static int measure_none(party_rank_t *self) {
  comm_network_cost_t cost;
  PARTY_TRY(measure_pair(self, 8, &cost));
  PARTY_REQUIRE(cost.hop_ps == 0, "the second one is used");
  return 0;
}

static void *measure_inner(void *argument) {
  return measure_none(argument) == 0 ? NULL : argument;
}

/* Rank 0 leads. Its second measurement begins and ends within the first, rank 1 has a thread for
 * it. */
static int measure_two(party_rank_t *self) {
  party_rank_t inner = *self;
  comm_network_cost_t cost;
  pthread_t thread;
  void *failed = NULL;
  PARTY_OK(coll_comm_split(self->comm, 0, self->rank, NULL, &inner.comm));
  if (self->rank == 0) {
    meanwhile = &inner;
    PARTY_TRY(measure_pair(self, 7, &cost));
    PARTY_REQUIRE(meanwhile == NULL, "there was no second one");
  } else {
    PARTY_REQUIRE(pthread_create(&thread, NULL, measure_inner, &inner) == 0, "a thread");
    PARTY_TRY(measure_pair(self, 7, &cost));
    PARTY_REQUIRE(pthread_join(thread, &failed) == 0 && failed == NULL, "the second one failed");
  }
  PARTY_REQUIRE(cost.hop_ps == 0, "it is used");
  PARTY_REQUIRE(!is_saved(self->comm, 7) && !is_saved(self->comm, 8), "it is saved");
  PARTY_OK(coll_comm_destroy(inner.comm));
  PARTY_TRY(measure_pair(self, 7, &cost));
  PARTY_REQUIRE(self->rank > 0 || is_saved(self->comm, 7), "one alone is not saved");
  return 0;
}

Test(network, what_is_measured_at_once_is_neither_saved_nor_used) {
  harness_result_t result;
  cr_assert(party_processes(2, 20000, measure_two, NULL, &result), "%s", result.text);
}

/* File descriptors that ranks pass to each other as a step of a call. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/lock.h"
#include "harness/party.h"
#include "offload/descriptors.h"

enum { RANKS_MAX = 4 };

static int make_file(uint64_t number, int *descriptor) {
  *descriptor = memfd_create("test", MFD_CLOEXEC);
  PARTY_REQUIRE(*descriptor >= 0, "no file");
  PARTY_REQUIRE(pwrite(*descriptor, &number, sizeof number, 0) == (ssize_t)sizeof number,
                "no room");
  return 0;
}

/* Closes them. */
static int require_numbers(const struct coll_comm *comm, const bool from[], const int descriptors[],
                           uint64_t base) {
  for (int peer = 0; peer < comm->size; peer++) {
    uint64_t number = 0;
    PARTY_REQUIRE((descriptors[peer] >= 0) == from[peer], "rank %d: %d", peer, descriptors[peer]);
    if (!from[peer]) continue;
    PARTY_REQUIRE(pread(descriptors[peer], &number, sizeof number, 0) == (ssize_t)sizeof number,
                  "no number");
    PARTY_REQUIRE(number == base + (uint64_t)peer, "rank %d passed %llu", peer,
                  (unsigned long long)number);
    close(descriptors[peer]);
  }
  return 0;
}

static void choose_all(const struct coll_comm *comm, bool peers[]) {
  for (int peer = 0; peer < comm->size; peer++) peers[peer] = offload_descriptors_reach(comm, peer);
}

static int exchange_once(struct coll_comm *comm, uint64_t round) {
  bool peers[RANKS_MAX];
  int own, descriptors[RANKS_MAX];
  choose_all(comm, peers);
  PARTY_TRY(make_file(100 * round + (uint64_t)comm->rank, &own));
  PARTY_OK(offload_descriptors_exchange(comm, peers, peers, round, own, descriptors));
  close(own);
  return require_numbers(comm, peers, descriptors, 100 * round);
}

static int all_to_all(party_rank_t *self) {
  for (int peer = 0; peer < self->size; peer++) {
    PARTY_REQUIRE(offload_descriptors_reach(self->comm, peer) == (peer != self->rank), "rank %d",
                  peer);
  }
  for (uint64_t round = 1; round <= 20; round++) {
    if (self->rank == (int)round % self->size) base_clock_sleep_ns(2000000u);
    PARTY_TRY(exchange_once(self->comm, round));
  }
  return 0;
}

Test(descriptors, go_from_all_to_all) {
  for (int size = 1; size <= RANKS_MAX; size++) PARTY_RUN(size, 10000, all_to_all, NULL);
}

/* Rank 0 passes to the odd ranks, and these to nobody. */
static int some_to_some(party_rank_t *self) {
  bool to[RANKS_MAX] = {false}, from[RANKS_MAX] = {false};
  int own = -1, descriptors[RANKS_MAX];
  for (int peer = 1; self->rank == 0 && peer < self->size; peer += 2) to[peer] = true;
  from[0] = self->rank % 2 == 1;
  if (self->rank == 0) PARTY_TRY(make_file(50, &own));
  PARTY_OK(offload_descriptors_exchange(self->comm, to, from, 9, own, descriptors));
  if (own >= 0) close(own);
  PARTY_TRY(require_numbers(self->comm, from, descriptors, 50));
  PARTY_OK(coll_barrier(self->comm, NULL));
  return 0;
}

Test(descriptors, go_from_some_to_some) {
  PARTY_RUN(RANKS_MAX, 10000, some_to_some, NULL);
}

static int count_files(void) {
  DIR *folder = opendir("/proc/self/fd");
  int files = 0;
  while (folder != NULL && readdir(folder) != NULL) files++;
  if (folder != NULL) closedir(folder);
  return files;
}

static int many(party_rank_t *self) {
  enum { ROUNDS = 1000 / HARNESS_BUILD_PATIENCE };
  PARTY_TRY(exchange_once(self->comm, 1));
  int files = count_files();
  for (uint64_t round = 2; round <= ROUNDS; round++) PARTY_TRY(exchange_once(self->comm, round));
  PARTY_OK(coll_barrier(self->comm, NULL));
  PARTY_REQUIRE(count_files() <= files + 2, "%d open files became %d", files, count_files());
  return 0;
}

Test(descriptors, do_not_accumulate, .timeout = 120) {
  harness_result_t result;
  cr_assert(party_processes(3, 30000, many, NULL, &result), "%s", result.text);
}

/* Each process has a rank in two communicators, whose ranks are in reverse order in the second. A
 * thread that receives for one before it has passed for the other would wait for ever. */
static int two_at_once(party_rank_t *self) {
  coll_comm_t other, comms[2];
  bool peers[2][RANKS_MAX];
  int own[2], descriptors[RANKS_MAX];
  PARTY_OK(coll_comm_split(self->comm, 0, -self->rank, NULL, &other));
  comms[0] = self->rank % 2 == 0 ? self->comm : other;
  comms[1] = self->rank % 2 == 0 ? other : self->comm;
  for (int i = 0; i < 2; i++) {
    choose_all(comms[i], peers[i]);
    PARTY_TRY(make_file(10 + (uint64_t)comms[i]->rank, &own[i]));
    comm_lock_take(comms[i], comm_lock_ticket(comms[i]));
    PARTY_OK(offload_descriptors_pass(comms[i], peers[i], 3, own[i]));
    close(own[i]);
  }
  for (int i = 0; i < 2; i++) {
    PARTY_OK(offload_descriptors_receive(comms[i], peers[i], 3, descriptors));
    PARTY_TRY(require_numbers(comms[i], peers[i], descriptors, 10));
    comm_lock_release(comms[i]);
  }
  PARTY_OK(coll_comm_destroy(other));
  return 0;
}

Test(descriptors, of_several_ranks_are_passed_before_any_is_received) {
  PARTY_RUN(3, 10000, two_at_once, NULL);
}

/* Rank 1 dies instead of passing its own, or after. */
static int one_dies(party_rank_t *self) {
  const bool *passes = self->context;
  bool peers[RANKS_MAX];
  int own, descriptors[RANKS_MAX];
  choose_all(self->comm, peers);
  PARTY_TRY(make_file(10 + (uint64_t)self->rank, &own));
  PARTY_OK(coll_barrier(self->comm, NULL));
  if (self->rank == 1) {
    comm_lock_take(self->comm, comm_lock_ticket(self->comm));
    if (*passes) PARTY_OK(offload_descriptors_pass(self->comm, peers, 4, own));
    raise(SIGKILL);
  }
  if (*passes) {
    bool from[RANKS_MAX] = {false}, to[RANKS_MAX] = {false};
    from[1] = true;
    PARTY_OK(offload_descriptors_exchange(self->comm, to, from, 4, -1, descriptors));
    return require_numbers(self->comm, from, descriptors, 10);
  }
  coll_status_t status =
      offload_descriptors_exchange(self->comm, peers, peers, 4, own, descriptors);
  PARTY_REQUIRE(status == COLL_ERROR_RANK_LOST, "%s", coll_status_string(status));
  PARTY_REQUIRE(strstr(coll_last_error(NULL) + strlen("rank 0: "), "rank 1 (pid ") != NULL, "%s",
                coll_last_error(NULL));
  for (int peer = 0; peer < self->size; peer++) PARTY_REQUIRE(descriptors[peer] == -1, "left");
  PARTY_REQUIRE(coll_barrier(self->comm, NULL) == COLL_ERROR_RANK_LOST, "the communicator works");
  return 0;
}

static void run_death(bool passes) {
  harness_result_t result;
  cr_assert_not(party_processes(3, 20000, one_dies, &passes, &result));
  cr_assert_str_eq(result.text, "rank 1 was killed by signal 9");
}

Test(descriptors, of_a_rank_that_dies_are_not_waited_for) {
  run_death(false);
}

Test(descriptors, of_a_rank_that_died_after_passing_arrive) {
  run_death(true);
}

/* Rank 1 passes nothing for longer than a call may take. */
static int one_is_late(party_rank_t *self) {
  bool peers[RANKS_MAX];
  int own, descriptors[RANKS_MAX];
  coll_comm_t limited;
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  config.call_timeout_ms = 300;
  PARTY_OK(coll_comm_split(self->comm, 0, 0, &config, &limited));
  choose_all(limited, peers);
  PARTY_TRY(make_file(1, &own));
  if (self->rank == 0) {
    coll_status_t status = offload_descriptors_exchange(limited, peers, peers, 5, own, descriptors);
    PARTY_REQUIRE(status == COLL_ERROR_TIMEOUT, "%s", coll_status_string(status));
    PARTY_REQUIRE(strstr(coll_last_error(NULL), "rank 1 (pid ") != NULL, "%s",
                  coll_last_error(NULL));
  }
  close(own);
  PARTY_OK(coll_barrier(self->comm, NULL));
  PARTY_REQUIRE(coll_comm_error(limited) == COLL_ERROR_TIMEOUT, "the communicator works");
  PARTY_OK(coll_comm_destroy(limited));
  return 0;
}

Test(descriptors, are_waited_for_until_a_limit) {
  PARTY_RUN(2, 20000, one_is_late, NULL);
}

/*
 * Communicators made by a split: their ranks and order, and that all of them work.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "comm/comm.h"
#include "harness/party.h"
#include "topo/cpus.h"

static int sum_over(coll_comm_t comm, int value, int *sum) {
  int32_t in = value, out = 0;
  PARTY_OK(coll_allreduce(&in, &out, 1, COLL_INT32, COLL_SUM, comm, NULL));
  *sum = out;
  return 0;
}

/* Odd and even ranks, in reverse order. */
static int by_color(party_rank_t *self) {
  coll_comm_t child;
  int rank, size, sum = 0, color = self->rank % 2;
  int members = (self->size + 1 - color) / 2, before = self->rank / 2;
  PARTY_OK(coll_comm_split(self->comm, color, -self->rank, NULL, &child));
  PARTY_OK(coll_comm_rank(child, &rank));
  PARTY_OK(coll_comm_size(child, &size));
  PARTY_REQUIRE(size == members && rank == members - 1 - before, "rank %d of %d", rank, size);
  for (int round = 0; round < 20; round++) { /* parent and child alternately */
    PARTY_TRY(sum_over(child, 1, &sum));
    PARTY_REQUIRE(sum == members, "the child's sum is %d", sum);
    PARTY_TRY(sum_over(self->comm, 1, &sum));
    PARTY_REQUIRE(sum == self->size, "the parent's sum is %d", sum);
  }
  PARTY_OK(coll_comm_destroy(child));
  return 0;
}

Test(split, by_color_and_key) {
  for (int size = 1; size <= 5; size++) PARTY_RUN(size, 10000, by_color, NULL);
}

/* Equal keys preserve the order of the parent; a rank with a negative color is in no child. */
static int some_stay_out(party_rank_t *self) {
  coll_comm_t child = (coll_comm_t)(void *)&child;
  int rank, size;
  bool out = self->rank == 1;
  PARTY_OK(coll_comm_split(self->comm, out ? -1 : 7, 0, NULL, &child));
  if (out) {
    PARTY_REQUIRE(child == NULL, "a communicator for one who stays out");
  } else {
    PARTY_OK(coll_comm_rank(child, &rank));
    PARTY_OK(coll_comm_size(child, &size));
    PARTY_REQUIRE(size == self->size - 1 && rank == (self->rank > 1 ? self->rank - 1 : 0),
                  "rank %d of %d", rank, size);
    PARTY_OK(coll_barrier(child, NULL));
    PARTY_OK(coll_comm_destroy(child));
  }
  PARTY_OK(coll_barrier(self->comm, NULL));
  return 0;
}

Test(split, leaves_out_negative_colors) {
  PARTY_RUN(2, 10000, some_stay_out, NULL);
  PARTY_RUN(4, 10000, some_stay_out, NULL);
}

/* A child of a child, with its parents destroyed before it is used. */
static int nested(party_rank_t *self) {
  coll_comm_t pair, alone, half;
  int sum = 0;
  PARTY_OK(coll_comm_split(self->comm, self->rank / 2, 0, NULL, &pair));
  PARTY_OK(coll_comm_split(pair, self->rank % 2, 0, NULL, &alone));
  PARTY_OK(coll_comm_split(self->comm, self->rank < 4, self->rank, NULL, &half));
  PARTY_OK(coll_comm_destroy(pair));
  PARTY_OK(coll_comm_destroy(self->comm));
  self->comm = NULL;
  PARTY_TRY(sum_over(alone, self->rank, &sum));
  PARTY_REQUIRE(sum == self->rank, "alone: %d", sum);
  PARTY_TRY(sum_over(half, 1, &sum));
  PARTY_REQUIRE(sum == (self->rank < 4 ? 4 : self->size - 4), "half: %d", sum);
  PARTY_OK(coll_comm_destroy(alone));
  PARTY_OK(coll_comm_destroy(half));
  return 0;
}

Test(split, nests_and_outlives_its_parents) {
  PARTY_RUN(6, 10000, nested, NULL);
}

/* Parent and children have calls under way at the same time, on streams. */
static int at_once(party_rank_t *self) {
  enum { COUNT = 30000, CALLS = 10 };
  static _Thread_local float data[2][COUNT];
  coll_comm_t child;
  coll_stream_t streams[2];
  PARTY_OK(coll_comm_split(self->comm, self->rank % 2, 0, NULL, &child));
  for (int s = 0; s < 2; s++) {
    PARTY_OK(coll_stream_create(&streams[s]));
    for (int i = 0; i < COUNT; i++) data[s][i] = 1;
  }
  for (int call = 0; call < CALLS; call++) {
    PARTY_OK(coll_allreduce(data[0], data[0], COUNT, COLL_FLOAT32, COLL_AVG, child, streams[0]));
    PARTY_OK(
        coll_allreduce(data[1], data[1], COUNT, COLL_FLOAT32, COLL_AVG, self->comm, streams[1]));
  }
  for (int s = 0; s < 2; s++) {
    PARTY_OK(coll_stream_destroy(streams[s]));
    for (int i = 0; i < COUNT; i++) PARTY_REQUIRE(data[s][i] == 1, "stream %d, element %d", s, i);
  }
  PARTY_OK(coll_comm_destroy(child));
  return 0;
}

Test(split, runs_beside_its_parent) {
  harness_result_t result;
  cr_assert(party_processes(4, 20000, at_once, NULL, &result), "%s", result.text);
#ifndef __SANITIZE_THREAD__
  /* Threads that split map the child's memory separately. ThreadSanitizer, which compares
   * addresses, does not see what orders their accesses. */
  cr_assert(party_threads(4, 20000, at_once, NULL, &result), "%s", result.text);
#endif
}

static int beside_calls(party_rank_t *self) {
  coll_comm_t child;
  coll_group_start();
  coll_barrier(self->comm, NULL);
  coll_status_t status = coll_comm_split(self->comm, 0, 0, NULL, &child);
  PARTY_REQUIRE(coll_group_end() == status, "the group's end returned another status");
  PARTY_REQUIRE(status == COLL_ERROR_INVALID, "split beside a barrier: %s",
                coll_status_string(status));
  PARTY_OK(coll_barrier(self->comm, NULL));
  return 0;
}

Test(split, is_refused_in_a_group_of_calls) {
  PARTY_RUN(2, 10000, beside_calls, NULL);
}

/* Every rank binds itself to one of the hardware threads it may use, round-robin. */
static int bound_apart(party_rank_t *self) {
  topo_cpus_t own = topo_cpus_own(), one = {0};
  int usable = topo_cpus_count(&own), wanted = self->rank % usable, seen = 0;
  coll_comm_t child;
  cpu_set_t before, set;
  sched_getaffinity(0, sizeof before, &before);
  CPU_ZERO(&set);
  for (int cpu = 0; cpu < TOPO_CPUS_MAX; cpu++) {
    if ((own.words[cpu / 64] >> cpu % 64 & 1) != 0 && seen++ == wanted) CPU_SET(cpu, &set);
  }
  PARTY_REQUIRE(sched_setaffinity(0, sizeof set, &set) == 0, "cannot bind");
  one = topo_cpus_own();
  PARTY_REQUIRE(topo_cpus_count(&one) == 1, "bound to %d", topo_cpus_count(&one));
  PARTY_OK(coll_comm_split(self->comm, 0, 0, NULL, &child));
  sched_setaffinity(0, sizeof before, &before);
  int cores = self->size < usable ? self->size : usable;
  PARTY_REQUIRE(child->cores == cores, "%d cores, not %d", child->cores, cores);
  PARTY_REQUIRE((child->spin_limit > 0) == (self->size <= cores), "polls %d times",
                child->spin_limit);
  PARTY_OK(coll_comm_destroy(child));
  return 0;
}

Test(split, counts_the_cores_of_bound_ranks) {
  for (int size = 2; size <= 5; size++) PARTY_RUN(size, 10000, bound_apart, NULL);
}

/* Rank 1 may open so many files more. */
static int with_few_files(party_rank_t *self) {
  int left = *(int *)self->context, lowest = open("/dev/null", O_RDONLY | O_CLOEXEC);
  coll_comm_t child = NULL;
  close(lowest);
  const struct rlimit limit = {(rlim_t)(lowest + left), (rlim_t)(lowest + left)};
  PARTY_OK(coll_barrier(self->comm, NULL));
  if (self->rank == 1) PARTY_REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0, "no limit");
  coll_status_t status = coll_comm_split(self->comm, 0, 0, NULL, &child);
  const char *text = coll_last_error(NULL);
  harness_barrier(); /* a rank that exits might be taken for the cause */
  PARTY_REQUIRE(status == COLL_OK || strstr(text, "host") == NULL, "%s", text);
  /* rank 0 may be the first to fail, when rank 1 drops its connection to make room for another */
  bool is_told = strstr(text, "ulimit -n") != NULL || strstr(text, "cannot connect") != NULL;
  PARTY_REQUIRE(status == COLL_OK || self->rank == 0 || is_told, "%s", text);
  if (status != COLL_OK) _exit(7);
  PARTY_OK(coll_barrier(child, NULL));
  PARTY_OK(coll_comm_destroy(child));
  return 0;
}

/* The ranks are on one host: none needs to listen for others, or is said to. */
Test(split, says_that_there_are_few_files) {
  bool has_failed = false, has_succeeded = false;
  for (int left = 0; left < 40 && !has_succeeded; left++) {
    harness_result_t result;
    has_succeeded = party_processes(2, 20000, with_few_files, &left, &result);
    for (int rank = 0; rank < 2 && !has_succeeded; rank++) {
      has_failed = true;
      cr_assert(result.ranks[rank].end == HARNESS_RETURNED && result.ranks[rank].value == 7,
                "%d files: %s", left, result.text);
    }
  }
  cr_assert(has_failed && has_succeeded);
}

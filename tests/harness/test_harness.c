/*
 * The harness must detect every way in which a rank can end; otherwise the tests that use it would
 * miss failures.
 */
#include "harness/harness.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

static int good(int rank, int size, void *context) {
  (void)rank, (void)size, (void)context;
  return 0;
}

Test(harness, reports_success) {
  harness_result_t result;
  cr_assert(harness_run(4, 5000, good, NULL, &result), "%s", result.text);
  cr_assert(harness_run_threads(4, 5000, good, NULL, &result), "%s", result.text);
  cr_assert_str_eq(result.text, "all ranks returned 0");
}

static int odd_ranks_fail(int rank, int size, void *context) {
  (void)size, (void)context;
  return rank % 2 == 0 ? 0 : harness_fail("no luck at %d", rank);
}

Test(harness, reports_codes_and_sentences) {
  harness_result_t result;
  cr_assert_not(harness_run(3, 5000, odd_ranks_fail, NULL, &result));
  cr_assert_str_eq(result.text, "rank 1 returned 1: no luck at 1");
  cr_assert_not(harness_run_threads(3, 5000, odd_ranks_fail, NULL, &result));
  cr_assert_str_eq(result.text, "rank 1 returned 1: no luck at 1");
}

static int last_rank_hangs(int rank, int size, void *context) {
  (void)context;
  while (rank == size - 1) base_clock_sleep_ns(1000000);
  return 0;
}

Test(harness, reports_and_kills_what_hangs) {
  harness_result_t result;
  uint64_t begin = base_clock_now_ns();
  cr_assert_not(harness_run(3, 3000 / HARNESS_PATIENCE, last_rank_hangs, NULL, &result));
  cr_assert_lt(base_clock_now_ns() - begin, UINT64_C(30000000000) * HARNESS_PATIENCE);
  cr_assert_str_eq(result.text, "rank 2 hung");
}

/* Rank 0 makes progress for twice the limit, then all ranks stop. */
static int stalls_at_last(int rank, int size, void *context) {
  (void)size, (void)context;
  for (int i = 0; rank == 0 && i < 20; i++) {
    base_clock_sleep_ns(100000000);
    harness_progress();
  }
  if (rank == 0) harness_fail("went on");
  while (rank < 2) pause();
  return 0;
}

Test(harness, watches_for_progress) {
  harness_result_t result;
  uint64_t begin = base_clock_now_ns();
  cr_assert_not(harness_run_watched(3, 1000 / HARNESS_PATIENCE, stalls_at_last, NULL, &result));
  cr_assert_lt(base_clock_now_ns() - begin, UINT64_C(30000000000) * HARNESS_PATIENCE);
  cr_assert_str_eq(result.text, "rank 0 hung: went on; rank 1 hung");
}

static int fails_while_others_wait(int rank, int size, void *context) {
  (void)context;
  while (rank < size - 1) pause();
  return harness_fail("gave up");
}

Test(harness, ends_a_watched_run_with_its_first_failure) {
  harness_result_t result;
  uint64_t begin = base_clock_now_ns();
  cr_assert_not(harness_run_watched(2, 60000, fails_while_others_wait, NULL, &result));
  cr_assert_lt(base_clock_now_ns() - begin, UINT64_C(30000000000));
  cr_assert_str_eq(result.text, "rank 0 hung; rank 1 returned 1: gave up");
}

static int victim(int rank, int size, void *context) {
  (void)context;
  harness_barrier();
  if (rank == 0) harness_kill(size - 1);
  while (rank == size - 1) pause();
  return 0;
}

Test(harness, reports_a_killed_rank) {
  harness_result_t result;
  cr_assert_not(harness_run(3, 5000, victim, NULL, &result));
  cr_assert_eq(result.ranks[2].end, HARNESS_KILLED);
  cr_assert_eq(result.ranks[2].value, SIGKILL);
  cr_assert_str_eq(result.text, "rank 2 was killed by signal 9");
}

/* Counts on the board between two barriers: no rank may see a partial count. */
static int barriers(int rank, int size, void *context) {
  (void)rank, (void)context;
  _Atomic int *count = harness_board();
  for (int round = 1; round <= 20; round++) {
    atomic_fetch_add(count, 1);
    harness_barrier();
    if (atomic_load(count) != round * size) return harness_fail("left barrier %d early", round);
    harness_barrier();
  }
  return 0;
}

Test(harness, has_a_barrier) {
  harness_result_t result;
  cr_assert(harness_run(5, 5000, barriers, NULL, &result), "%s", result.text);
  cr_assert(harness_run_threads(5, 5000, barriers, NULL, &result), "%s", result.text);
}

/* A child that outlives its rank would hold resources that the test needs released: here, a pipe.
 */
static int leaves_a_child(int rank, int size, void *context) {
  (void)rank, (void)size, (void)context;
  if (fork() == 0) {
    for (;;) pause();
  }
  return 0;
}

Test(harness, kills_what_a_rank_started) {
  int ends[2];
  cr_assert_eq(pipe(ends), 0);
  harness_result_t result;
  cr_assert(harness_run(2, 5000, leaves_a_child, NULL, &result), "%s", result.text);
  close(ends[1]);
  struct pollfd reader = {.fd = ends[0], .events = POLLIN};
  cr_assert_eq(poll(&reader, 1, 5000), 1, "somebody still holds the pipe open");
  cr_assert(reader.revents & POLLHUP);
}

/* Another socket may be bound to it, and is given a different one otherwise. */
Test(harness, finds_a_free_port) {
  int port = harness_free_port(), own = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  address.sin_port = htons((uint16_t)port);
  cr_assert(port > 0);
  cr_assert_eq(bind(own, (struct sockaddr *)&address, sizeof address), 0);
  int other = harness_free_port();
  cr_assert(other > 0 && other != port, "%d and %d", port, other);
  close(own);
}

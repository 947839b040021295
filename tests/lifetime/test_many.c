/*
 * Many more ranks on one host than cores: a communicator is created, a sum over all ranks is exact,
 * no rank holds descriptors per peer, and when one rank is killed all others name it.
 */
#include <coll.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness/harness.h"

/* Sanitizers take much memory in every rank. */
enum {
  FEW = HARNESS_BUILD_PATIENCE == 1 ? 200 : 40,
  MANY = 1000,
  DESCRIPTORS_MAX = 32,
  TEXT_BYTES = 400
};

/* Shared by the test and its ranks. */
typedef struct board {
  _Atomic int created, summed;
  _Atomic int failed;    /* 1 + the first rank that found something wrong */
  char text[TEXT_BYTES]; /* by that rank */
} board_t;

static board_t *board;

static void fail(int rank, const char *what) {
  int none = 0;
  if (atomic_compare_exchange_strong(&board->failed, &none, rank + 1)) {
    snprintf(board->text, sizeof board->text, "%s", what);
  }
}

static int count_descriptors(void) {
  int count = 0;
  DIR *files = opendir("/proc/self/fd");
  while (files != NULL && readdir(files) != NULL) count++;
  if (files != NULL) closedir(files);
  return count;
}

static void await(const _Atomic int *count, int value) {
  while (atomic_load(count) < value && atomic_load(&board->failed) == 0) {
    base_clock_sleep_ns(20000000);
  }
}

static void set(const char *name, int value) {
  char text[16];
  snprintf(text, sizeof text, "%d", value);
  setenv(name, text, 1);
}

/* All ranks but the victim, which is killed after the sum. */
static void fail_by_victim(coll_comm_t comm, int rank, int victim) {
  char name[32];
  coll_status_t status = COLL_OK;
  while (status == COLL_OK) status = coll_barrier(comm, NULL);
  snprintf(name, sizeof name, "rank %d (pid ", victim);
  bool is_right = status == COLL_ERROR_RANK_LOST && strstr(coll_last_error(comm), name) != NULL;
  if (!is_right) fail(rank, coll_last_error(comm));
}

static void run_rank(int rank, int size, int victim) {
  coll_comm_t comm;
  double own = rank, sum = 0;
  set("RANK", rank);
  if (coll_comm_create_env(NULL, &comm) != COLL_OK) {
    fail(rank, coll_last_error(NULL));
    return;
  }
  atomic_fetch_add(&board->created, 1);
  await(&board->created, size);
  if (count_descriptors() > DESCRIPTORS_MAX) fail(rank, "it holds too many descriptors");
  coll_status_t status = coll_allreduce(&own, &sum, 1, COLL_FLOAT64, COLL_SUM, comm, NULL);
  if (status != COLL_OK) fail(rank, coll_last_error(comm));
  if (sum != size / 2.0 * (size - 1)) fail(rank, "the sum is wrong");
  atomic_fetch_add(&board->summed, 1);
  await(&board->summed, size);
  if (rank == victim) raise(SIGKILL);
  fail_by_victim(comm, rank, victim);
}

static void start_ranks(pid_t pids[], int size, int victim) {
  set("WORLD_SIZE", size);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  set("MASTER_PORT", harness_free_port());
  setenv("COLL_TUNE", "builtin", 1);
  set("COLL_TIMEOUT_MS", 60000 * HARNESS_PATIENCE);
  for (int rank = 0; rank < size; rank++) {
    pids[rank] = fork();
    cr_assert_geq(pids[rank], 0, "cannot start rank %d", rank);
    if (pids[rank] > 0) continue;
    run_rank(rank, size, victim);
    _exit(0);
  }
}

/* Waits for all until the time limit, then kills those that still run. Returns their number. */
static int end_ranks(const pid_t pids[], int size, uint64_t deadline_ns) {
  int late = 0;
  for (int rank = 0; rank < size; rank++) {
    while (waitpid(pids[rank], NULL, WNOHANG) == 0) {
      if (base_clock_now_ns() < deadline_ns) {
        base_clock_sleep_ns(5000000);
        continue;
      }
      late++;
      kill(pids[rank], SIGKILL);
      waitpid(pids[rank], NULL, 0);
      break;
    }
  }
  return late;
}

static void run(int size, uint64_t limit_ms) {
  static pid_t pids[MANY];
  board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  uint64_t limit_ns = limit_ms * 1000000u * (uint64_t)HARNESS_PATIENCE;
  start_ranks(pids, size, size / 2);
  int late = end_ranks(pids, size, base_clock_now_ns() + limit_ns);
  cr_assert_eq(atomic_load(&board->failed), 0, "rank %d: %s", board->failed - 1, board->text);
  cr_assert_eq(atomic_load(&board->summed), size);
  cr_assert_eq(late, 0, "%d ranks did not end", late);
  munmap(board, sizeof *board);
}

Test(many, few_hundred_ranks) {
  run(FEW, 100000);
}

Test(many, a_thousand_ranks) {
  if (!harness_full() || HARNESS_BUILD_PATIENCE > 1)
    cr_skip_test("1000 ranks; COLL_TEST_FULL=1 runs them");
  run(MANY, 400000);
}

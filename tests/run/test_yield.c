/*
 * Ranks bound to the same core, though others are free, and ranks that share cores with other
 * programs that compute all the time. What the decision follows from is tested without a clock by
 * transport/test_sched_hint.c.
 */
#include <criterion/criterion.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness/party.h"

enum { STRANGERS = 2, CALLS_BESIDE_STRANGERS = 5000, CALLS_ON_ONE_CORE = 20000 };

static bool take_one_core(void) {
  cpu_set_t all, one;
  int cpu = 0;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return false;
  while (!CPU_ISSET(cpu, &all)) cpu++;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  return sched_setaffinity(0, sizeof one, &one) == 0;
}

static uint64_t clock_ms(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

static int call_often(party_rank_t *self, int calls, clockid_t clock, uint64_t most_ms) {
  int32_t one = 1, sum;
  uint64_t began_ms = clock_ms(clock);
  for (int i = 0; i < calls; i++) {
    PARTY_OK(coll_allreduce(&one, &sum, 1, COLL_INT32, COLL_SUM, self->comm, NULL));
    PARTY_REQUIRE(sum == self->size, "the sum is %d", (int)sum);
  }
  uint64_t took_ms = clock_ms(clock) - began_ms;
  if (self->rank == 0) {
    printf("%d calls of ranks that share a core: %d ms / %d ms\n", calls, (int)took_ms,
           (int)most_ms);
  }
  PARTY_REQUIRE(took_ms < most_ms, "%d calls took %d ms", calls, (int)took_ms);
  return 0;
}

/* A call that yields loses a time slice of some ms to each other program: more than 7 s in all. It
 * takes 0.1 s if ranks sleep instead. */
static int call_beside_other_programs(party_rank_t *self) {
  return call_often(self, CALLS_BESIDE_STRANGERS, CLOCK_MONOTONIC, 4000);
}

Test(timing_yield, is_avoided_beside_other_programs) {
  pid_t pids[STRANGERS];
  harness_result_t result;
  cr_assert(take_one_core());
  for (int i = 0; i < STRANGERS; i++) {
    pids[i] = fork();
    cr_assert_geq(pids[i], 0, "cannot fork");
    if (pids[i] == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (volatile unsigned turns = 0;; turns++) continue;
    }
  }
  bool good = party_processes(2, 60000, call_beside_other_programs, NULL, &result);
  for (int i = 0; i < STRANGERS; i++) {
    kill(pids[i], SIGKILL);
    waitpid(pids[i], NULL, 0);
  }
  cr_assert(good, "%s", result.text);
}

/* A call in which a rank spins as if its peer ran on another core takes some 0.2 ms, half of it
 * this rank's: 2 s in all. Processor time, as other tests may run on the same core. */
static int call_on_one_core(party_rank_t *self) {
  PARTY_REQUIRE(take_one_core(), "cannot bind");
  return call_often(self, CALLS_ON_ONE_CORE, CLOCK_PROCESS_CPUTIME_ID, 1250);
}

Test(timing_yield, is_early_where_ranks_share_a_core) {
  harness_result_t result;
  cr_assert(party_processes(2, 60000, call_on_one_core, NULL, &result), "%s", result.text);
}

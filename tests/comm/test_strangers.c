/* Ranks that share their core with programs that are no ranks and compute all the time. */
#include <criterion/criterion.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness/party.h"

enum { STRANGERS = 2, CALLS = 5000 };

/* A call that gives the core up loses a time slice to each stranger, some ms: 7 s and more in all;
 * it takes 0.1 s where ranks sleep instead. */
#define MOST_NS (UINT64_C(4000000000) * HARNESS_PATIENCE)

static void take_one_core(void) {
  cpu_set_t all, one;
  int cpu = 0;
  cr_assert_eq(sched_getaffinity(0, sizeof all, &all), 0);
  while (!CPU_ISSET(cpu, &all)) cpu++;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
}

static int call_often(party_rank_t *self) {
  int32_t one = 1, sum;
  uint64_t began_ns = base_clock_now_ns();
  for (int i = 0; i < CALLS; i++) {
    PARTY_OK(coll_allreduce(&one, &sum, 1, COLL_INT32, COLL_SUM, self->comm, NULL));
    PARTY_REQUIRE(sum == self->size, "the sum is %d", (int)sum);
  }
  uint64_t took_ns = base_clock_now_ns() - began_ns;
  PARTY_REQUIRE(took_ns < MOST_NS, "%d calls took %d ms", CALLS, (int)(took_ns / 1000000u));
  return 0;
}

Test(strangers, hold_calls_up_no_time_slice_each) {
  pid_t pids[STRANGERS];
  harness_result_t result;
  take_one_core();
  for (int i = 0; i < STRANGERS; i++) {
    pids[i] = fork();
    cr_assert_geq(pids[i], 0, "cannot fork");
    if (pids[i] == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (volatile unsigned turns = 0;; turns++) continue;
    }
  }
  bool good = party_processes(2, 60000, call_often, NULL, &result);
  for (int i = 0; i < STRANGERS; i++) {
    kill(pids[i], SIGKILL);
    waitpid(pids[i], NULL, 0);
  }
  cr_assert(good, "%s", result.text);
}

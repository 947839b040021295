/* A wait ends when the test's clock passes its deadline, neither before nor by itself. */
#include <criterion/criterion.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "harness/harness.h"
#include "harness/virtual_time.h"

#define S UINT64_C(1000000000)
#define PAUSE_NS 20000000u /* several looks of what blocks */

typedef struct note {
  _Atomic bool waits, has_ended;
  _Atomic uint64_t ended_ns;
} note_t;

/* Rank 0 waits for a minute, and notes when it has ended. */
static int wait_in_poll(note_t *note) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return harness_fail("no socket");
  uint64_t deadline_ns = base_clock_now_ns() + 60 * S;
  atomic_store(&note->waits, true);
  bool is_ready = base_deadline_poll(ends[0], POLLIN, deadline_ns);
  atomic_store(&note->ended_ns, base_clock_now_ns());
  atomic_store(&note->has_ended, true);
  return is_ready ? harness_fail("nothing was sent") : 0;
}

static int step_past(note_t *note) {
  uint64_t begin_ns = base_clock_now_ns();
  while (!atomic_load(&note->waits)) base_clock_sleep_ns(PAUSE_NS);
  base_clock_sleep_ns(PAUSE_NS);
  if (base_clock_now_ns() != begin_ns) return harness_fail("time passes by itself");
  virtual_time_advance(60 * S - 1);
  for (int i = 0; i < 50; i++) base_clock_sleep_ns(PAUSE_NS);
  if (atomic_load(&note->has_ended)) return harness_fail("it ended too early");
  virtual_time_advance(1);
  while (!atomic_load(&note->has_ended)) base_clock_sleep_ns(PAUSE_NS);
  uint64_t took_ns = atomic_load(&note->ended_ns) - begin_ns;
  return took_ns == 60 * S ? 0 : harness_fail("it ended at another time");
}

static int wait_and_step(int rank, int size, void *context) {
  (void)size, (void)context;
  note_t *note = harness_board();
  return rank == 0 ? wait_in_poll(note) : step_past(note);
}

Test(virtual_time, ends_a_wait_of_another_process) {
  harness_result_t result;
  virtual_time_begin();
  virtual_time_freeze();
  cr_assert(harness_run(2, 60000, wait_and_step, NULL, &result), "%s", result.text);
}

Test(virtual_time, ends_a_wait_of_another_thread) {
  harness_result_t result;
  virtual_time_begin();
  virtual_time_freeze();
  cr_assert(harness_run_threads(2, 60000, wait_and_step, NULL, &result), "%s", result.text);
}

Test(virtual_time, is_the_real_one_until_it_is_frozen) {
  uint64_t before_ns = base_clock_now_ns();
  virtual_time_begin();
  base_clock_sleep_ns(2000000);
  uint64_t begun_ns = base_clock_now_ns();
  cr_assert_geq(begun_ns, before_ns + 2000000);
  virtual_time_freeze();
  uint64_t frozen_ns = base_clock_now_ns();
  cr_assert_geq(frozen_ns, begun_ns);
  base_clock_sleep_ns(2000000);
  virtual_time_freeze();
  cr_assert_eq(base_clock_now_ns(), frozen_ns);
  virtual_time_advance(5);
  cr_assert_eq(base_clock_now_ns(), frozen_ns + 5);
  virtual_time_end();
  cr_assert_geq(base_clock_now_ns(), frozen_ns + 2000000);
}

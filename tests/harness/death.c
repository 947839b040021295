/* The kinds of the steps before a death are noted in a first run, in which nobody dies. */
#include "harness/death.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "harness/harness.h"
#include "harness/sample.h"

#define MS_NS 1000000u

death_record_t *death_record_create(long steps) {
  death_record_t *record =
      mmap(NULL, sizeof *record, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (record == MAP_FAILED) abort();
  record->steps = steps;
  return record;
}

void death_stamp(death_record_t *record) {
  atomic_store(&record->died_ns, base_clock_now_ns());
}

_Noreturn void death_now(death_record_t *record) {
  death_stamp(record);
  raise(SIGKILL);
  abort();
}

void death_before_step(death_record_t *record) {
  if (record->step_count == record->steps) death_now(record);
}

void death_after_step(death_record_t *record, death_step_t kind) {
  if (record->step_count < DEATH_STEPS_MAX) record->kinds[record->step_count] = kind;
  record->step_count++;
}

void death_note_failure(death_record_t *record, uint64_t called_ns, uint64_t failed_ns) {
  uint64_t died_ns = atomic_load(&record->died_ns), late_ns = 0;
  uint64_t begin_ns = called_ns > died_ns ? called_ns : died_ns;
  if (died_ns > 0 && failed_ns > begin_ns) late_ns = failed_ns - begin_ns;
  uint64_t longest_ns = atomic_load(&record->late_ns);
  while (longest_ns < late_ns &&
         !atomic_compare_exchange_weak(&record->late_ns, &longest_ns, late_ns)) {
  }
}

static bool is_first_or_last(const death_record_t *all, long step) {
  long before = step - 1, after = step + 1;
  while (before >= 0 && all->kinds[before] != all->kinds[step]) before--;
  while (after < all->step_count && all->kinds[after] != all->kinds[step]) after++;
  return before < 0 || after == all->step_count;
}

bool death_takes(const death_record_t *all, long step, unsigned *number) {
  bool is_candidate = harness_full() || is_first_or_last(all, step);
  return is_candidate && harness_takes(HARNESS_MOMENTS, ++*number);
}

static int compare(const void *a, const void *b) {
  const uint64_t *left = a, *right = b;
  return (*left > *right) - (*left < *right);
}

bool death_check_times(const char *what, uint64_t late_ns[], int count) {
  qsort(late_ns, (size_t)count, sizeof *late_ns, compare);
  unsigned most_ms = (unsigned)(late_ns[(count * 99 - 1) / 100] / MS_NS);
  unsigned all_ms = (unsigned)(late_ns[count - 1] / MS_NS);
  printf("%s: 99 %% of %d deaths named within %u ms / %u ms, all within %u ms / %u ms\n", what,
         count, most_ms, DEATH_MOST_MS, all_ms, DEATH_ALL_MS);
  fflush(stdout);
  return most_ms < DEATH_MOST_MS && all_ms < DEATH_ALL_MS;
}

/*
 * Recorded calls: which of them are available, and that a concurrent reader reads consistent
 * entries.
 */
#include <criterion/criterion.h>

#include <pthread.h>
#include <sched.h>

#include "base/clock.h"
#include "flight/recorder.h"

/* Fields of call `index` that follow from its number, so that a mixture of two calls is detected.
 */
static uint64_t number_of(uint64_t index) {
  return index * 3;
}

static flight_call_t call_of(uint64_t index) {
  return (flight_call_t){index * UINT64_C(0x9e3779b97f4a7c15) + 1,
                         ~(index * UINT64_C(0xbf58476d1ce4e5b9))};
}

static void record(flight_recorder_t *own, uint64_t index) {
  flight_call_t call = call_of(index);
  flight_record(own, number_of(index), call.what, call.count);
}

static bool is_whole(const flight_past_t *past, uint64_t index) {
  return past->number == number_of(index) && flight_call_is(past->call, call_of(index));
}

static flight_recorder_t recorder, second;

Test(recorder, keeps_the_latest) {
  enum { CALLS = 3 * FLIGHT_ENTRIES + 5 };
  flight_past_t past;
  cr_assert_not(flight_read(&recorder, 0, &past), "nothing was recorded");
  for (uint64_t index = 0; index < CALLS; index++) {
    record(&recorder, index);
    uint64_t first = index < FLIGHT_ENTRIES ? 0 : index + 1 - FLIGHT_ENTRIES;
    for (uint64_t i = 0; i <= index + 2; i++) {
      bool available = i >= first && i <= index;
      cr_assert_eq(flight_read(&recorder, i, &past), available, "call %d after %d", (int)i,
                   (int)index);
      if (available) cr_assert(is_whole(&past, i), "call %d after %d", (int)i, (int)index);
    }
  }
  cr_assert_eq(atomic_load(&recorder.recorded), CALLS);
}

Test(recorder, counts_completed_calls) {
  cr_assert_eq(flight_completed(&recorder), 0);
  flight_complete(&recorder, UINT64_C(1) << 40);
  cr_assert_eq(flight_completed(&recorder), UINT64_C(1) << 40);
}

/* ---- with a writer beside the reader --------------------------------------------------------*/

enum { READS = 100000 };

static _Atomic bool over;

static void *write_on(void *context) {
  flight_recorder_t *own = context;
  for (uint64_t index = 0; !atomic_load(&over); index++) {
    record(own, index);
    if (index % 64 == 0) sched_yield();
  }
  return NULL;
}

/* Reads the entries that are about to be overwritten, and the latest one. */
static void read_ends(uint64_t *whole, uint64_t *torn) {
  uint64_t recorded = atomic_load_explicit(&recorder.recorded, memory_order_acquire);
  for (uint64_t back = 1; back <= recorded && back <= FLIGHT_ENTRIES + 1; back++) {
    flight_past_t past;
    if (back == 4) back = FLIGHT_ENTRIES - 4;
    if (back > recorded || !flight_read(&recorder, recorded - back, &past)) continue;
    *whole += is_whole(&past, recorded - back);
    *torn += !is_whole(&past, recorded - back);
  }
}

Test(recorder, is_read_consistently) {
  pthread_t writer;
  uint64_t whole = 0, torn = 0, begin_ns = base_clock_now_ns();
  cr_assert_eq(pthread_create(&writer, NULL, write_on, &recorder), 0);
  while (whole < READS && base_clock_now_ns() - begin_ns < UINT64_C(20000000000)) {
    read_ends(&whole, &torn);
  }
  atomic_store(&over, true);
  pthread_join(writer, NULL);
  cr_assert_eq(torn, 0, "%d calls with parts of another", (int)torn);
  cr_assert_geq(whole, READS);
}

/* ---- finding --------------------------------------------------------------------------------*/

static void record_verb(flight_recorder_t *own, int verb, uint64_t number, size_t count) {
  const flight_words_t words = {.verb = verb, .op = FLIGHT_OP_NONE, .count = count};
  flight_call_t call = flight_call_make(&words);
  flight_record(own, number, call.what, call.count);
}

Test(find, skips_sends_and_receives) {
  flight_past_t past;
  record_verb(&recorder, COLL_ALLREDUCE, 7, 100);
  record_verb(&recorder, FLIGHT_SEND, 7, 200);
  record_verb(&recorder, FLIGHT_RECV, 7, 300);
  cr_assert(flight_find(&recorder, 7, &past));
  cr_assert_eq(past.call.count, 100);
  cr_assert_not(flight_find(&recorder, 8, &past));
  record_verb(&recorder, FLIGHT_SPLIT, 8, 0);
  cr_assert(flight_find(&recorder, 8, &past), "a split is a collective");
}

Test(find, ends_where_calls_are_overwritten) {
  flight_past_t past;
  for (uint64_t number = 0; number < 2 * FLIGHT_ENTRIES; number++) {
    record_verb(&recorder, COLL_BARRIER, number, 0);
  }
  cr_assert_not(flight_find(&recorder, FLIGHT_ENTRIES - 1, &past));
  for (uint64_t number = FLIGHT_ENTRIES; number < 2 * FLIGHT_ENTRIES; number++) {
    cr_assert(flight_find(&recorder, number, &past) && past.number == number);
  }
}

/* Records the same calls on both, except for those with the given numbers (none: UINT64_MAX). */
static void record_both(uint64_t calls, uint64_t other, uint64_t another) {
  for (uint64_t number = 0; number < calls; number++) {
    size_t differs = number == other || number == another;
    record_verb(&recorder, COLL_ALLREDUCE, number, 5);
    if (number % 3 == 0) record_verb(&second, FLIGHT_SEND, number, number);
    record_verb(&second, COLL_ALLREDUCE, number, 5 + differs);
  }
}

Test(difference, is_the_first_one) {
  flight_past_t own, found;
  record_both(20, 12, 15);
  cr_assert(flight_first_difference(&recorder, &second, 20, &own, &found));
  cr_assert(own.number == 12 && found.number == 12);
  cr_assert(own.call.count == 5 && found.call.count == 6);
  cr_assert(flight_first_difference(&second, &recorder, 20, &own, &found) && own.number == 12);
}

Test(difference, is_below_the_limit) {
  flight_past_t own, found;
  record_both(20, 12, UINT64_MAX);
  cr_assert(flight_first_difference(&recorder, &second, 13, &own, &found));
  cr_assert_not(flight_first_difference(&recorder, &second, 12, &own, &found));
}

Test(difference, is_none_between_equal_calls) {
  flight_past_t own, found;
  cr_assert_not(flight_first_difference(&recorder, &second, 100, &own, &found));
  record_both(3 * FLIGHT_ENTRIES, UINT64_MAX, UINT64_MAX);
  cr_assert_not(flight_first_difference(&recorder, &second, UINT64_MAX, &own, &found));
  cr_assert_not(flight_first_difference(&recorder, &second, 3 * FLIGHT_ENTRIES, &own, &found));
}

/* One rank is ahead: only calls that both have recorded are compared. */
Test(difference, needs_both_records) {
  flight_past_t own, found;
  record_both(10, UINT64_MAX, UINT64_MAX);
  record_verb(&second, COLL_ALLREDUCE, 10, 77);
  cr_assert_not(flight_first_difference(&recorder, &second, 11, &own, &found));
  record_verb(&recorder, COLL_ALLREDUCE, 10, 5);
  cr_assert(flight_first_difference(&recorder, &second, 11, &own, &found) && own.number == 10);
}

/*
 * Published waits: when a new wait begins, how it changes the record of its call, and that a
 * concurrent reader never reads parts of two waits.
 */
#include <criterion/criterion.h>

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "flight/recorder.h"

enum { WORDS = FLIGHT_RANKS_MAX / 64 };

static flight_recorder_t recorder;
static uint64_t peers[WORDS];

/* A wait of which all fields follow from its number. */
static flight_standstill_t wait_of(uint64_t n) {
  for (size_t word = 0; word < WORDS; word++) peers[word] = n * (word + 1);
  return (flight_standstill_t){.begin_ns = n + 1,
                               .collectives = n + 2,
                               .history = n * UINT64_C(0x9e3779b97f4a7c15),
                               .number = n,
                               .call = {n + 3, n + 4},
                               .peers = peers,
                               .words = WORDS};
}

static void publish(flight_recorder_t *own, uint64_t n) {
  flight_standstill_t wait = wait_of(n);
  flight_wait_publish(own, &wait);
}

static bool is_wait(const flight_standstill_t *wait, uint64_t n) {
  return wait->begin_ns == n + 1 && wait->collectives == n + 2 &&
         wait->history == n * UINT64_C(0x9e3779b97f4a7c15) && wait->number == n &&
         wait->call.what == n + 3 && wait->call.count == n + 4;
}

/* Whether some of the ranks are those of the wait of that number. */
static bool has_peers(const flight_recorder_t *of, uint64_t n) {
  for (int rank = 0; rank < FLIGHT_RANKS_MAX; rank += 37) {
    uint64_t word = n * (uint64_t)(rank / 64 + 1);
    if (flight_waits_for(of, rank) != (word >> rank % 64 & 1)) return false;
  }
  return true;
}

Test(wait, is_read_as_published) {
  flight_standstill_t seen;
  cr_assert_not(flight_wait_read(&recorder, &seen));
  for (uint64_t n = 1; n < 50; n += 7) {
    publish(&recorder, n);
    cr_assert(flight_wait_read(&recorder, &seen) && is_wait(&seen, n) && has_peers(&recorder, n));
    cr_assert(flight_wait_is(&recorder, seen.changes));
  }
  flight_wait_end(&recorder);
  cr_assert_not(flight_wait_read(&recorder, &seen));
  cr_assert_not(flight_wait_is(&recorder, seen.changes));
  flight_wait_end(&recorder); /* ending it again changes nothing */
  cr_assert_not(flight_wait_read(&recorder, &seen));
}

Test(wait, counts_polls_while_it_is_the_same) {
  flight_standstill_t first, seen;
  publish(&recorder, 5);
  cr_assert(flight_wait_read(&recorder, &first));
  cr_assert_eq(first.polls, 0);
  for (uint64_t polls = 1; polls < 5; polls++) {
    publish(&recorder, 5);
    cr_assert(flight_wait_read(&recorder, &seen));
    cr_assert(seen.polls == polls && seen.changes == first.changes);
  }
  publish(&recorder, 6);
  cr_assert(flight_wait_read(&recorder, &seen));
  cr_assert(seen.polls == 0 && seen.changes != first.changes, "another wait");
}

/* Changes one field of a wait; false past the last. */
static bool change(flight_standstill_t *wait, int field) {
  switch (field) {
    case 0: wait->number++; return true;
    case 1: wait->call.what++; return true;
    case 2: peers[0] ^= 1; return true;
    case 3: peers[WORDS - 1] ^= UINT64_C(1) << 63; return true;
    default: return false;
  }
}

Test(wait, is_new_for_another_call_or_other_ranks) {
  flight_standstill_t wait = wait_of(5), before, seen;
  for (int field = 0;; field++) {
    flight_wait_publish(&recorder, &wait);
    cr_assert(flight_wait_read(&recorder, &before));
    if (!change(&wait, field)) break;
    flight_wait_publish(&recorder, &wait);
    cr_assert(flight_wait_read(&recorder, &seen));
    cr_assert_neq(seen.changes, before.changes, "field %d", field);
    cr_assert_eq(seen.polls, 0);
    cr_assert_not(flight_wait_is(&recorder, before.changes), "field %d", field);
    wait = wait_of(5);
  }
}

/* ---- the record of the call -----------------------------------------------------------------*/

/* Records the call that wait_of(n) waits in. */
static void record(uint64_t n) {
  flight_record(&recorder, n, n + 3, n + 4);
}

Test(wait, stamps_its_times_in_the_record) {
  flight_past_t past;
  record(5);
  record(9);
  cr_assert(flight_read(&recorder, 0, &past));
  cr_assert(past.wait_begin_ns == 0 && past.wait_end_ns == 0);
  publish(&recorder, 5);
  cr_assert(flight_read(&recorder, 0, &past));
  cr_assert(past.wait_begin_ns == 6 && past.wait_end_ns == 0, "it waits");
  uint64_t before_ns = base_clock_now_ns();
  flight_wait_end(&recorder);
  cr_assert(flight_read(&recorder, 0, &past));
  cr_assert(past.wait_begin_ns == 6 && past.wait_end_ns >= before_ns);
  cr_assert(flight_read(&recorder, 1, &past));
  cr_assert(past.wait_begin_ns == 0 && past.wait_end_ns == 0, "another call's");
}

/* The record has the begin of the first wait and the end of the last. */
Test(wait, keeps_the_begin_of_the_first_one_of_its_call) {
  flight_past_t past;
  record(5);
  publish(&recorder, 5);
  flight_wait_end(&recorder);
  flight_standstill_t again = wait_of(5);
  again.begin_ns = 1000;
  flight_wait_publish(&recorder, &again);
  cr_assert(flight_read(&recorder, 0, &past));
  cr_assert(past.wait_begin_ns == 6 && past.wait_end_ns == 0, "it waits again");
}

Test(wait, leaves_nothing_to_the_next_call_in_its_entry) {
  flight_past_t past;
  for (uint64_t n = 1; n <= FLIGHT_ENTRIES; n++) {
    record(n);
    publish(&recorder, n);
    flight_wait_end(&recorder);
  }
  record(1000);
  cr_assert(flight_read(&recorder, FLIGHT_ENTRIES, &past) && past.number == 1000);
  cr_assert(past.wait_begin_ns == 0 && past.wait_end_ns == 0, "it has not waited");
  publish(&recorder, 1000);
  cr_assert(flight_read(&recorder, FLIGHT_ENTRIES, &past));
  cr_assert(past.wait_begin_ns == 1001 && past.wait_end_ns == 0, "it still waits");
}

Test(wait, ignores_an_overwritten_record) {
  flight_standstill_t seen;
  for (uint64_t n = 0; n <= FLIGHT_ENTRIES; n++) record(n);
  publish(&recorder, 0);
  cr_assert(flight_wait_read(&recorder, &seen) && is_wait(&seen, 0));
  flight_wait_end(&recorder);
  flight_past_t past;
  for (uint64_t n = 1; n <= FLIGHT_ENTRIES; n++) {
    cr_assert(flight_read(&recorder, n, &past) && past.wait_begin_ns == 0);
  }
}

/* ---- with a writer beside the reader --------------------------------------------------------*/

enum { READS = 3000 };

static _Atomic bool over;

/* Some waits are longer than others. */
static void *write_on(void *context) {
  flight_recorder_t *own = context;
  for (uint64_t n = 1; !atomic_load(&over); n++) {
    publish(own, n);
    if (n % 2 == 0) publish(own, n);
    for (uint64_t i = n % 64 * 16; i > 0; i--) base_cpu_relax();
    if (n % 64 == 0) sched_yield();
    if (n % 3 == 0) flight_wait_end(own);
  }
  return NULL;
}

Test(wait, is_read_consistently) {
  pthread_t writer;
  uint64_t torn = 0, with_peers = 0, begin_ns = base_clock_now_ns();
  cr_assert_eq(pthread_create(&writer, NULL, write_on, &recorder), 0);
  while (with_peers < READS && base_clock_now_ns() - begin_ns < UINT64_C(20000000000)) {
    flight_standstill_t seen;
    if (!flight_wait_read(&recorder, &seen)) continue;
    torn += !is_wait(&seen, seen.number);
    bool has = has_peers(&recorder, seen.number);
    if (!flight_wait_is(&recorder, seen.changes)) continue;
    torn += !has;
    with_peers++;
  }
  atomic_store(&over, true);
  pthread_join(writer, NULL);
  cr_assert_eq(torn, 0, "%d waits with parts of another", (int)torn);
  cr_assert_eq(with_peers, READS);
}

/*
 * Conformance tests of transport_ops_t. Each case is a function that every rank runs on its end of
 * one communicator, with the ranks as threads, as forked processes, or both. A new transport is
 * complete when TRANSPORT_KIT passes for it.
 */
#ifndef TESTS_TRANSPORT_KIT_H
#define TESTS_TRANSPORT_KIT_H

#include <criterion/criterion.h>

#include "harness/harness.h"
#include "transport/kit_steps.h"
#include "transport/ops.h"

/* How a test creates connected transports. */
typedef struct transport_fixture {
  int size_max;             /* maximum number of ranks; 1 for the self transport */
  bool maps;                /* peers' memory can be mapped */
  bool has_scratch;         /* peers' scratch can be mapped */
  bool shares_some_scratch; /* that of some peers */
  bool connects_late;       /* nothing is known of a peer before something was sent to it */
  bool has_threads;         /* the same cases run with threads, too */

  /* Creates all ends in this process: ends[i] is rank i's. */
  coll_status_t (*make)(int size, transport_t *ends[]);

  /* A rank's own end, in a process of its own. The board is zeroed memory that the ranks share, for
   * what a bootstrap would send around; harness_barrier orders its use. NULL: only threads. */
  coll_status_t (*join)(int rank, int size, void *board, transport_t **end);

  /* Allocates memory that peers can map, freed with `release`. NULL if nothing can be mapped. */
  coll_status_t (*alloc)(size_t bytes, void **ptr);
  coll_status_t (*release)(void *ptr);
} transport_fixture_t;

/* Private memory, for fixtures of transports that cannot map other memory. */
coll_status_t transport_kit_private_alloc(size_t bytes, void **ptr);
coll_status_t transport_kit_private_release(void *ptr);

/* A case on this rank's end. Returns 0, or 1 after harness_fail. It may destroy the end and set it
 * NULL. */
typedef int (*transport_case_t)(const transport_fixture_t *fixture, transport_t **end);

/* Runs the case on all ranks and fails the running Criterion test with the ranks' messages.
 * ThreadSanitizer does not see other processes: with it, the second function has threads join, or
 * skips the case if it runs with threads anyway. */
void transport_kit_threads(const transport_fixture_t *fixture, int size, transport_case_t body);
void transport_kit_processes(const transport_fixture_t *fixture, int size, transport_case_t body);

/* The same for a case in which rank 0 is killed. */
void transport_kit_with_death(const transport_fixture_t *fixture, int size, transport_case_t body);

/* messages.c */
int transport_case_order(const transport_fixture_t *fixture, transport_t **end);
int transport_case_full(const transport_fixture_t *fixture, transport_t **end);
int transport_case_depth(const transport_fixture_t *fixture, transport_t **end);
int transport_case_drained(const transport_fixture_t *fixture, transport_t **end);
int transport_case_drained_both(const transport_fixture_t *fixture, transport_t **end);
int transport_case_sizes(const transport_fixture_t *fixture, transport_t **end);
int transport_case_loans(const transport_fixture_t *fixture, transport_t **end);
int transport_case_truncation(const transport_fixture_t *fixture, transport_t **end);
int transport_case_channels(const transport_fixture_t *fixture, transport_t **end);
int transport_case_all_pairs(const transport_fixture_t *fixture, transport_t **end);
/* channels.c */
int transport_case_further(const transport_fixture_t *fixture, transport_t **end);
int transport_case_further_pending(const transport_fixture_t *fixture, transport_t **end);
/* p2p_capacity.c */
int transport_case_p2p_capacity(const transport_fixture_t *fixture, transport_t **end);
/* mcast.c */
int transport_case_mcast(const transport_fixture_t *fixture, transport_t **end);
int transport_case_mcast_full(const transport_fixture_t *fixture, transport_t **end);
/* signals.c */
int transport_case_counts(const transport_fixture_t *fixture, transport_t **end);
int transport_case_signals_held(const transport_fixture_t *fixture, transport_t **end);
int transport_case_signals_full(const transport_fixture_t *fixture, transport_t **end);
int transport_case_publishes(const transport_fixture_t *fixture, transport_t **end);
int transport_case_wakes(const transport_fixture_t *fixture, transport_t **end);
int transport_case_no_missed_wake(const transport_fixture_t *fixture, transport_t **end);
int transport_case_wakes_for_room(const transport_fixture_t *fixture, transport_t **end);
int transport_case_wakes_for_signal_room(const transport_fixture_t *fixture, transport_t **end);
int transport_case_sleep_ends(const transport_fixture_t *fixture, transport_t **end);
/* life.c */
int transport_case_slots(const transport_fixture_t *fixture, transport_t **end);
int transport_case_memory(const transport_fixture_t *fixture, transport_t **end);
int transport_case_scratch(const transport_fixture_t *fixture, transport_t **end);
int transport_case_leave(const transport_fixture_t *fixture, transport_t **end);
int transport_case_death(const transport_fixture_t *fixture, transport_t **end);
int transport_case_aborts(const transport_fixture_t *fixture, transport_t **end);
int transport_case_aborts_at_once(const transport_fixture_t *fixture, transport_t **end);
int transport_case_abort_wakes(const transport_fixture_t *fixture, transport_t **end);
/* descriptors.c */
int transport_case_descriptors(const transport_fixture_t *fixture, transport_t **end);
int transport_case_descriptor_wakes(const transport_fixture_t *fixture, transport_t **end);
int transport_case_descriptors_left(const transport_fixture_t *fixture, transport_t **end);
/* gets.c */
int transport_case_gets(const transport_fixture_t *fixture, transport_t **end);
int transport_case_get_kinds(const transport_fixture_t *fixture, transport_t **end);
int transport_case_get_death(const transport_fixture_t *fixture, transport_t **end);
int transport_case_no_gets(const transport_fixture_t *fixture, transport_t **end);
/* fetches.c */
int transport_case_fetches(const transport_fixture_t *fixture, transport_t **end);
int transport_case_stopped_fetches(const transport_fixture_t *fixture, transport_t **end);
/* records.c */
int transport_case_records(const transport_fixture_t *fixture, transport_t **end);
int transport_case_pending_in(const transport_fixture_t *fixture, transport_t **end);
int transport_case_pending_out(const transport_fixture_t *fixture, transport_t **end);

/* Cases for any number of ranks; `run` is one of the two runners above. */
#define TRANSPORT_KIT_ANY(suite, fixture, run, size)    \
  Test(suite, has_every_slot) {                         \
    run(&(fixture), size, transport_case_slots);        \
  }                                                     \
  Test(suite, keeps_messages_in_order) {                \
    run(&(fixture), size, transport_case_order);        \
  }                                                     \
  Test(suite, reports_a_full_fifo) {                    \
    run(&(fixture), size, transport_case_full);         \
  }                                                     \
  Test(suite, holds_the_depth) {                        \
    run(&(fixture), size, transport_case_depth);        \
  }                                                     \
  Test(suite, delivers_every_size) {                    \
    run(&(fixture), size, transport_case_sizes);        \
  }                                                     \
  Test(suite, drains) {                                 \
    run(&(fixture), size, transport_case_drained);      \
    run(&(fixture), size, transport_case_drained_both); \
  }                                                     \
  Test(suite, gives_memory_back) {                      \
    run(&(fixture), size, transport_case_loans);        \
  }                                                     \
  Test(suite, truncates_long_messages) {                \
    run(&(fixture), size, transport_case_truncation);   \
  }                                                     \
  Test(suite, keeps_channels_apart) {                   \
    run(&(fixture), size, transport_case_channels);     \
  }                                                     \
  Test(suite, counts_signals) {                         \
    run(&(fixture), size, transport_case_counts);       \
  }                                                     \
  Test(suite, sleeps_at_most_the_timeout) {             \
    run(&(fixture), size, transport_case_sleep_ends);   \
  }                                                     \
  Test(suite, maps_memory) {                            \
    run(&(fixture), size, transport_case_memory);       \
  }                                                     \
  Test(suite, maps_scratch) {                           \
    run(&(fixture), size, transport_case_scratch);      \
  }                                                     \
  Test(suite, holds_signals) {                          \
    run(&(fixture), size, transport_case_signals_held); \
  }                                                     \
  Test(suite, reports_full_signals) {                   \
    run(&(fixture), size, transport_case_signals_full); \
  }                                                     \
  Test(suite, reports_pending_messages) {               \
    run(&(fixture), size, transport_case_pending_in);   \
  }

/* Cases of transports with multicast. */
#define TRANSPORT_KIT_MCAST(suite, fixture, run)   \
  Test(suite, carries_multicast) {                 \
    run(&(fixture), 4, transport_case_mcast);      \
  }                                                \
  Test(suite, reports_full_multicast) {            \
    run(&(fixture), 3, transport_case_mcast_full); \
  }

/* Cases that need a peer. */
#define TRANSPORT_KIT_PEERS(suite, fixture, run)              \
  Test(suite, carries_all_pairs_at_once) {                    \
    run(&(fixture), 4, transport_case_all_pairs);             \
  }                                                           \
  Test(suite, makes_further_channels) {                       \
    run(&(fixture), 4, transport_case_further);               \
  }                                                           \
  Test(suite, finds_messages_on_unused_channels) {            \
    run(&(fixture), 3, transport_case_further_pending);       \
  }                                                           \
  Test(suite, publishes_with_signals) {                       \
    run(&(fixture), 2, transport_case_publishes);             \
  }                                                           \
  Test(suite, wakes_a_sleeper) {                              \
    run(&(fixture), 2, transport_case_wakes);                 \
  }                                                           \
  Test(suite, misses_no_wake) {                               \
    run(&(fixture), 2, transport_case_no_missed_wake);        \
  }                                                           \
  Test(suite, wakes_a_sender_that_waits_for_room) {           \
    run(&(fixture), 2, transport_case_wakes_for_room);        \
  }                                                           \
  Test(suite, detects_peers_that_leave) {                     \
    run(&(fixture), 3, transport_case_leave);                 \
  }                                                           \
  Test(suite, reports_an_abort_to_all) {                      \
    run(&(fixture), 4, transport_case_aborts);                \
  }                                                           \
  Test(suite, wakes_a_signaller_that_waits_for_room) {        \
    run(&(fixture), 2, transport_case_wakes_for_signal_room); \
  }                                                           \
  Test(suite, holds_the_p2p_capacity) {                       \
    run(&(fixture), 2, transport_case_p2p_capacity);          \
  }                                                           \
  Test(suite, passes_descriptors) {                           \
    run(&(fixture), 4, transport_case_descriptors);           \
  }                                                           \
  Test(suite, closes_descriptors_that_nobody_takes) {         \
    run(&(fixture), 3, transport_case_descriptors_left);      \
  }                                                           \
  Test(suite, wakes_a_sleeper_for_a_descriptor) {             \
    run(&(fixture), 2, transport_case_descriptor_wakes);      \
  }                                                           \
  Test(suite, exposes_recorders) {                            \
    run(&(fixture), 3, transport_case_records);               \
  }                                                           \
  Test(suite, reports_messages_untaken_by_ranks_that_left) {  \
    run(&(fixture), 3, transport_case_pending_out);           \
  }                                                           \
  Test(suite, keeps_one_reason_of_many_aborts) {              \
    run(&(fixture), 4, transport_case_aborts_at_once);        \
  }                                                           \
  Test(suite, wakes_a_sleeper_for_an_abort) {                 \
    run(&(fixture), 2, transport_case_abort_wakes);           \
  }                                                           \
  Test(suite, wakes_a_lone_sleeper_for_an_abort) {            \
    run(&(fixture), 1, transport_case_abort_wakes);           \
  }

/* Cases of transports that read the memory of other processes, but not of threads. They are skipped
 * where the system forbids such reads. */
#define TRANSPORT_KIT_GETS(suite, fixture)                                            \
  Test(suite##_processes, gets_exact_bytes) {                                         \
    if (!harness_can_read_processes()) cr_skip_test("the system forbids such reads"); \
    transport_kit_processes(&(fixture), 3, transport_case_gets);                      \
  }                                                                                   \
  Test(suite##_processes, gets_every_kind_of_memory) {                                \
    if (!harness_can_read_processes()) cr_skip_test("the system forbids such reads"); \
    transport_kit_processes(&(fixture), 3, transport_case_get_kinds);                 \
  }                                                                                   \
  Test(suite##_processes, gets_nothing_from_the_dead) {                               \
    if (!harness_can_read_processes()) cr_skip_test("the system forbids such reads"); \
    transport_kit_with_death(&(fixture), 3, transport_case_get_death);                \
  }                                                                                   \
  Test(suite##_threads, gets_nothing_from_threads) {                                  \
    transport_kit_threads(&(fixture), 3, transport_case_no_gets);                     \
  }

/* Cases of transports between hosts that fetch. */
#define TRANSPORT_KIT_FETCHES(suite, fixture, run)      \
  Test(suite, fetches_exact_bytes) {                    \
    run(&(fixture), 3, transport_case_fetches);         \
  }                                                     \
  Test(suite, stops_fetches) {                          \
    run(&(fixture), 4, transport_case_stopped_fetches); \
  }

/* How soon sleepers are woken and deaths detected. */
#define TRANSPORT_KIT_TIMES(suite, fixture, run)              \
  Test(timing_##suite, sleepers_are_woken_in_time) {          \
    kit_measure(1000);                                        \
    run(&(fixture), 2, transport_case_wakes);                 \
    run(&(fixture), 2, transport_case_no_missed_wake);        \
    run(&(fixture), 2, transport_case_wakes_for_room);        \
    run(&(fixture), 2, transport_case_wakes_for_signal_room); \
    run(&(fixture), 2, transport_case_abort_wakes);           \
    run(&(fixture), 2, transport_case_sleep_ends);            \
  }

#define TRANSPORT_KIT_DEATH(suite, fixture)                        \
  Test(suite, detects_a_death) {                                   \
    transport_kit_with_death(&(fixture), 3, transport_case_death); \
  }                                                                \
  Test(timing_##suite, a_death_is_detected_in_time) {              \
    kit_measure(2000);                                             \
    transport_kit_with_death(&(fixture), 3, transport_case_death); \
  }

#define TRANSPORT_KIT(suite, fixture)                                       \
  TRANSPORT_KIT_ANY(suite##_threads, fixture, transport_kit_threads, 2)     \
  TRANSPORT_KIT_PEERS(suite##_threads, fixture, transport_kit_threads)      \
  TRANSPORT_KIT_MCAST(suite##_threads, fixture, transport_kit_threads)      \
  TRANSPORT_KIT_ANY(suite##_processes, fixture, transport_kit_processes, 2) \
  TRANSPORT_KIT_PEERS(suite##_processes, fixture, transport_kit_processes)  \
  TRANSPORT_KIT_MCAST(suite##_processes, fixture, transport_kit_processes)  \
  TRANSPORT_KIT_TIMES(suite##_threads, fixture, transport_kit_threads)      \
  TRANSPORT_KIT_TIMES(suite##_processes, fixture, transport_kit_processes)  \
  TRANSPORT_KIT_DEATH(suite##_processes, fixture)

#endif

/*
 * The conformance kit of transport_ops_t. Each case is a body that every rank runs on its end of
 * one communicator; the kit runs it with the ranks as threads, as forked processes, or both. A new
 * transport is done when TRANSPORT_KIT passes for it.
 */
#ifndef TESTS_TRANSPORT_KIT_H
#define TESTS_TRANSPORT_KIT_H

#include <criterion/criterion.h>

#include "transport/ops.h"

/* How a test gets hold of connected transports. */
typedef struct transport_fixture {
  int size_max;     /* ranks it can connect; 1 for a transport to oneself */
  bool maps;        /* peers' memory can be mapped */
  bool has_scratch; /* so can their scratch */

  /* All ends in this process: ends[i] is rank i's. */
  coll_status_t (*make)(int size, transport_t *ends[]);

  /* A rank's own end, in a process of its own. The board is zeroed memory that the ranks share, for
   * what a bootstrap would send around; harness_meet orders its use. NULL: only threads. */
  coll_status_t (*join)(int rank, int size, void *board, transport_t **end);

  /* Memory that peers can map, to be given to `release`. NULL where nothing can be mapped. */
  coll_status_t (*alloc)(size_t bytes, void **ptr);
  coll_status_t (*release)(void *ptr);
} transport_fixture_t;

/* Memory of this process, for fixtures of transports that map nothing else. */
coll_status_t transport_kit_private_alloc(size_t bytes, void **ptr);
coll_status_t transport_kit_private_release(void *ptr);

/* A case on this rank's end. 0, or 1 after harness_fail. It may destroy the end and set it NULL. */
typedef int (*transport_case_t)(const transport_fixture_t *fixture, transport_t **end);

/* Run the case and fail the running Criterion test with what the ranks say. */
void transport_kit_threads(const transport_fixture_t *fixture, int size, transport_case_t body);
void transport_kit_processes(const transport_fixture_t *fixture, int size, transport_case_t body);

/* The same for a case in which rank 0 is killed on the way. */
void transport_kit_bereaved(const transport_fixture_t *fixture, int size, transport_case_t body);

/* messages.c */
int transport_case_order(const transport_fixture_t *fixture, transport_t **end);
int transport_case_full(const transport_fixture_t *fixture, transport_t **end);
int transport_case_depth(const transport_fixture_t *fixture, transport_t **end);
int transport_case_sizes(const transport_fixture_t *fixture, transport_t **end);
int transport_case_cut(const transport_fixture_t *fixture, transport_t **end);
int transport_case_channels(const transport_fixture_t *fixture, transport_t **end);
int transport_case_crowd(const transport_fixture_t *fixture, transport_t **end);
/* promise.c */
int transport_case_promise(const transport_fixture_t *fixture, transport_t **end);
/* posts.c */
int transport_case_posts(const transport_fixture_t *fixture, transport_t **end);
int transport_case_posts_full(const transport_fixture_t *fixture, transport_t **end);
/* signals.c */
int transport_case_counts(const transport_fixture_t *fixture, transport_t **end);
int transport_case_signals_held(const transport_fixture_t *fixture, transport_t **end);
int transport_case_signals_full(const transport_fixture_t *fixture, transport_t **end);
int transport_case_publishes(const transport_fixture_t *fixture, transport_t **end);
int transport_case_wakes(const transport_fixture_t *fixture, transport_t **end);
int transport_case_no_missed_news(const transport_fixture_t *fixture, transport_t **end);
int transport_case_wakes_for_room(const transport_fixture_t *fixture, transport_t **end);
int transport_case_wakes_for_signal_room(const transport_fixture_t *fixture, transport_t **end);
int transport_case_sleep_ends(const transport_fixture_t *fixture, transport_t **end);
/* life.c */
int transport_case_slots(const transport_fixture_t *fixture, transport_t **end);
int transport_case_memory(const transport_fixture_t *fixture, transport_t **end);
int transport_case_scratch(const transport_fixture_t *fixture, transport_t **end);
int transport_case_leaves(const transport_fixture_t *fixture, transport_t **end);
int transport_case_dies(const transport_fixture_t *fixture, transport_t **end);
int transport_case_aborts(const transport_fixture_t *fixture, transport_t **end);
int transport_case_aborts_at_once(const transport_fixture_t *fixture, transport_t **end);
int transport_case_abort_wakes(const transport_fixture_t *fixture, transport_t **end);
/* records.c */
int transport_case_records(const transport_fixture_t *fixture, transport_t **end);
int transport_case_pending_in(const transport_fixture_t *fixture, transport_t **end);
int transport_case_pending_out(const transport_fixture_t *fixture, transport_t **end);

/* Cases that make sense for any number of ranks; `run` is one of the two runners above. */
#define TRANSPORT_KIT_ANY(suite, fixture, run, size)    \
  Test(suite, has_every_slot) {                         \
    run(&(fixture), size, transport_case_slots);        \
  }                                                     \
  Test(suite, keeps_messages_in_order) {                \
    run(&(fixture), size, transport_case_order);        \
  }                                                     \
  Test(suite, says_when_it_is_full) {                   \
    run(&(fixture), size, transport_case_full);         \
  }                                                     \
  Test(suite, holds_the_depth) {                        \
    run(&(fixture), size, transport_case_depth);        \
  }                                                     \
  Test(suite, carries_every_size) {                     \
    run(&(fixture), size, transport_case_sizes);        \
  }                                                     \
  Test(suite, cuts_long_messages) {                     \
    run(&(fixture), size, transport_case_cut);          \
  }                                                     \
  Test(suite, keeps_channels_apart) {                   \
    run(&(fixture), size, transport_case_channels);     \
  }                                                     \
  Test(suite, counts_signals) {                         \
    run(&(fixture), size, transport_case_counts);       \
  }                                                     \
  Test(suite, sleeps_no_longer_than_told) {             \
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
  Test(suite, says_when_signals_are_full) {             \
    run(&(fixture), size, transport_case_signals_full); \
  }                                                     \
  Test(suite, shows_what_was_not_taken) {               \
    run(&(fixture), size, transport_case_pending_in);   \
  }

/* Cases of transports that carry posts. */
#define TRANSPORT_KIT_POSTS(suite, fixture, run)   \
  Test(suite, carries_posts) {                     \
    run(&(fixture), 4, transport_case_posts);      \
  }                                                \
  Test(suite, says_when_posts_are_full) {          \
    run(&(fixture), 3, transport_case_posts_full); \
  }

/* Cases that need a peer. */
#define TRANSPORT_KIT_PEERS(suite, fixture, run)              \
  Test(suite, carries_a_crowd) {                              \
    run(&(fixture), 4, transport_case_crowd);                 \
  }                                                           \
  Test(suite, publishes_with_signals) {                       \
    run(&(fixture), 2, transport_case_publishes);             \
  }                                                           \
  Test(suite, wakes_a_sleeper) {                              \
    run(&(fixture), 2, transport_case_wakes);                 \
  }                                                           \
  Test(suite, misses_no_news) {                               \
    run(&(fixture), 2, transport_case_no_missed_news);        \
  }                                                           \
  Test(suite, wakes_who_wants_room) {                         \
    run(&(fixture), 2, transport_case_wakes_for_room);        \
  }                                                           \
  Test(suite, sees_peers_leave) {                             \
    run(&(fixture), 3, transport_case_leaves);                \
  }                                                           \
  Test(suite, spreads_an_abort) {                             \
    run(&(fixture), 4, transport_case_aborts);                \
  }                                                           \
  Test(suite, wakes_who_wants_to_signal) {                    \
    run(&(fixture), 2, transport_case_wakes_for_signal_room); \
  }                                                           \
  Test(suite, holds_what_pairs_are_promised) {                \
    run(&(fixture), 2, transport_case_promise);               \
  }                                                           \
  Test(suite, shows_recorders) {                              \
    run(&(fixture), 3, transport_case_records);               \
  }                                                           \
  Test(suite, shows_what_those_who_left_did_not_take) {       \
    run(&(fixture), 3, transport_case_pending_out);           \
  }                                                           \
  Test(suite, believes_one_of_many_aborts) {                  \
    run(&(fixture), 4, transport_case_aborts_at_once);        \
  }                                                           \
  Test(suite, wakes_who_sleeps_for_an_abort) {                \
    run(&(fixture), 2, transport_case_abort_wakes);           \
  }

#define TRANSPORT_KIT(suite, fixture)                                       \
  TRANSPORT_KIT_ANY(suite##_threads, fixture, transport_kit_threads, 2)     \
  TRANSPORT_KIT_PEERS(suite##_threads, fixture, transport_kit_threads)      \
  TRANSPORT_KIT_POSTS(suite##_threads, fixture, transport_kit_threads)      \
  TRANSPORT_KIT_ANY(suite##_processes, fixture, transport_kit_processes, 2) \
  TRANSPORT_KIT_PEERS(suite##_processes, fixture, transport_kit_processes)  \
  TRANSPORT_KIT_POSTS(suite##_processes, fixture, transport_kit_processes)  \
  Test(suite##_processes, notices_a_death) {                                \
    transport_kit_bereaved(&(fixture), 3, transport_case_dies);             \
  }

#endif

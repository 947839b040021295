/*
 * What a rank reports of a deadlock (watch/deadlock.h) that another rank has found, too: each has
 * looked at the waits of both, and the other ends its own before this one reports it. One thread
 * publishes the waits of two ranks, and is both.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "comm/comm.h"
#include "watch/deadlock.h"

#define POLLS 4 /* enough for a wait to count as one that nothing ends */

static struct coll_comm *ranks[2];
static bool has_ended;
static transport_ops_t ops;

/* Rank 0 asks whether rank 1 is lost when it has found the deadlock, before it reports it. */
static transport_peer_state_t end_waits_of_rank_1(transport_t *t, int peer) {
  (void)t, (void)peer;
  flight_wait_end(ranks[1]->local->flight);
  flight_standstill_end(&ranks[1]->local->flight->cross_wait);
  has_ended = true;
  return TRANSPORT_PEER_HERE;
}

static void begin(void) {
  cr_assert_eq(coll_comm_create_local(2, NULL, ranks), COLL_OK, "%s", coll_last_error(NULL));
  ops = *ranks[0]->world.routes[1]->ops;
  ops.peer_state = end_waits_of_rank_1;
  ranks[0]->world.routes[1]->ops = &ops;
}

static void end(void) {
  for (int rank = 0; rank < 2; rank++) coll_comm_destroy(ranks[rank]);
}

/* In a call of so many elements for the other rank. */
static flight_standstill_t wait_of(int rank, int count, const uint64_t *peers) {
  const flight_words_t words = {.verb = FLIGHT_RECV,
                                .dtype = COLL_INT8,
                                .op = FLIGHT_OP_NONE,
                                .root = 1 - rank,
                                .count = (size_t)count};
  return (flight_standstill_t){.begin_ns = 1,
                               .number = (uint64_t)count,
                               .call = flight_call_make(&words),
                               .peers = peers,
                               .words = 1};
}

/* On this communicator. */
static void wait_here(int rank, int count, bool may_be_ended) {
  const uint64_t peers = UINT64_C(1) << (1 - rank);
  flight_standstill_t wait = wait_of(rank, count, &peers);
  wait.may_be_ended = may_be_ended;
  flight_wait_publish(ranks[rank]->local->flight, &wait);
}

/* Of all threads of the process. */
static void wait_across(int rank, int count, uint64_t polls) {
  const uint64_t peers = UINT64_C(1) << (1 - rank);
  flight_standstill_t wait = wait_of(rank, count, &peers);
  wait.polls = polls;
  flight_standstill_publish(&ranks[rank]->local->flight->cross_wait, &wait);
}

/* Rank 0 sees the waits twice, then that both have polled since, and reports. */
static void expect_report(void (*wait)(uint64_t polls), const char *text) {
  for (int look = 0; look < 2; look++) {
    wait(0);
    cr_assert_eq(watch_deadlock_check(ranks[0]), COLL_OK, "%s", base_last_error());
  }
  cr_assert_not(has_ended);
  for (uint64_t polls = 1; polls <= POLLS; polls++) wait(polls);
  cr_assert_eq(watch_deadlock_check(ranks[0]), COLL_ERROR_MISMATCH);
  cr_assert(has_ended, "rank 1 has not ended its wait before the report");
  cr_expect_not_null(strstr(base_last_error(), text), "no '%s' in: %s", text, base_last_error());
}

static void both_here(uint64_t polls) {
  (void)polls;
  for (int rank = 0; rank < 2; rank++) wait_here(rank, 10 + rank, false);
}

Test(deadlock_report, names_calls_that_have_ended, .init = begin, .fini = end) {
  expect_report(both_here,
                "rank 0 is in call 10, recv(int8, count 10, from rank 1), and waits for rank 1; "
                "rank 1 is in call 11, recv(int8, count 11, from rank 0), and waits for rank 0");
}

/* Rank 1 has no wait on this communicator. */
static void one_elsewhere(uint64_t polls) {
  wait_here(0, 10, false);
  for (int rank = 0; rank < 2; rank++) wait_across(rank, 20 + rank, polls);
}

Test(deadlock_report, names_calls_of_another_communicator, .init = begin, .fini = end) {
  expect_report(one_elsewhere,
                "rank 0 is in call 10, recv(int8, count 10, from rank 1), and waits for rank 1; "
                "rank 1 is in call 21 of another communicator, recv(int8, count 21, from rank 0), "
                "and waits for rank 0");
}

/* Both have, too, but other threads might end them, if they did not wait as well. */
static void both_on_two(uint64_t polls) {
  for (int rank = 0; rank < 2; rank++) {
    wait_here(rank, 10 + rank, true);
    wait_across(rank, 20 + rank, polls);
  }
}

Test(deadlock_report, prefers_calls_of_its_communicator, .init = begin, .fini = end) {
  expect_report(both_on_two,
                "rank 0 is in call 10, recv(int8, count 10, from rank 1), and waits for rank 1; "
                "rank 1 is in call 11, recv(int8, count 11, from rank 0), and waits for rank 0");
}

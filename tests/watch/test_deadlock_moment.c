/*
 * A deadlock (watch/deadlock.h) is of ranks that wait at one moment. Rank 0 looks at the waits of
 * all, one after the other. After it has looked at rank 1, rank 1 polls twice; then rank 2 sends to
 * it, and waits. Rank 1 has the message once it polls again, however often the others poll before.
 * One thread publishes the waits of all ranks.
 */
#include <criterion/criterion.h>

#include "comm/comm.h"
#include "watch/deadlock.h"

#define RANKS 3
#define POLLS 4 /* enough for a wait to count as one that nothing ends */

static struct coll_comm *ranks[RANKS];
static transport_ops_t ops;
static const transport_ops_t *real_ops;
static bool across, has_sent;
static uint64_t polls[RANKS];

/* Rank 2 waits for rank 1, and the others for the next one. */
static void poll_once(int rank) {
  const uint64_t peers = UINT64_C(1) << (rank == 2 ? 1 : rank + 1);
  const flight_words_t words = {
      .verb = FLIGHT_RECV, .dtype = COLL_INT8, .op = FLIGHT_OP_NONE, .root = 0, .count = 1};
  flight_standstill_t wait = {.begin_ns = 1,
                              .number = 1,
                              .call = flight_call_make(&words),
                              .peers = &peers,
                              .words = 1,
                              .may_be_ended = across,
                              .polls = polls[rank]++};
  flight_recorder_t *own = ranks[rank]->local->flight;
  flight_wait_publish(own, &wait);
  if (across) flight_standstill_publish(&own->cross_wait, &wait);
}

static void poll_often(int rank) {
  for (int i = 0; i < POLLS; i++) poll_once(rank);
}

static const flight_recorder_t *recorder_of(transport_t *t, int rank) {
  if (rank == 2 && !has_sent) {
    has_sent = true;
    poll_often(1);
    poll_once(2);
  }
  return real_ops->recorder(t, rank);
}

static void begin(void) {
  cr_assert_eq(coll_comm_create_local(RANKS, NULL, ranks), COLL_OK, "%s", coll_last_error(NULL));
  real_ops = ranks[0]->local->ops;
  ops = *real_ops;
  ops.recorder = recorder_of;
  ranks[0]->local->ops = &ops;
}

static void end(void) {
  for (int rank = 0; rank < RANKS; rank++) coll_comm_destroy(ranks[rank]);
}

static void message_between(void) {
  poll_once(0);
  poll_once(1);
  for (int look = 0; look < 5; look++) {
    cr_assert_eq(watch_deadlock_check(ranks[0]), COLL_OK, "look %d: %s", look, base_last_error());
    cr_assert(has_sent);
    poll_often(0);
    poll_often(2);
  }
  /* There was no message after all. */
  poll_often(1);
  cr_expect_eq(watch_deadlock_check(ranks[0]), COLL_ERROR_MISMATCH);
}

Test(deadlock_moment, a_message_is_sent_after_the_first_look, .init = begin, .fini = end) {
  message_between();
}

Test(deadlock_moment, a_message_is_sent_between_communicators, .init = begin, .fini = end) {
  across = true;
  message_between();
}

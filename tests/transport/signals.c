/* Cases about signals and sleeping. */
#include "base/clock.h"
#include "transport/kit.h"
#include "transport/wire.h"

#define MILLISECOND UINT64_C(1000000)
#define WAKE_NS (100 * MILLISECOND * HARNESS_PATIENCE)   /* how soon a sleeper must be awake */
#define SLEEP_NS (2000 * MILLISECOND * HARNESS_PATIENCE) /* had nobody woken it */

/* As many arrive as were sent, on the channel they were sent on, however many that is. */
int transport_case_counts(const transport_fixture_t *fixture, transport_t **end) {
  enum { MANY = 20000 };
  (void)fixture;
  transport_t *t = *end;
  int sender = 0, receiver = t->size - 1;
  if (t->rank == sender) {
    for (uint64_t i = 1; i <= MANY; i++) WIRE_TRY(wire_signal(t, receiver, 0, i));
    WIRE_TRY(wire_signal(t, receiver, 1, 77));
  }
  harness_meet();
  if (t->rank != receiver) return 0;
  uint64_t tag = 0;
  WIRE_TRY(wire_wait(t, sender, 1, &tag));
  WIRE_REQUIRE(tag == 77, "the only signal's tag is %d, not 77", (int)tag);
  for (uint64_t i = 1; i <= MANY; i++) {
    WIRE_TRY(wire_wait(t, sender, 0, &tag));
    WIRE_REQUIRE(tag == i || tag == 0, "signal %d has tag %d", (int)i, (int)tag);
  }
  WIRE_REQUIRE(tag == MANY, "the last signal's tag is %d, not %d", (int)tag, MANY);
  for (int c = 0; c < TRANSPORT_CHANNELS; c++) WIRE_TRY(wire_expect_nothing(t, sender, c));
  return 0;
}

/* Plain memory handed to and fro: what was written before the signal is seen after the wait. */
int transport_case_publishes(const transport_fixture_t *fixture, transport_t **end) {
  enum { ROUNDS = 2000, WORDS = 64 };
  (void)fixture;
  transport_t *t = *end;
  uint64_t *words = harness_board();
  int peer = 1 - t->rank;
  for (uint64_t round = 0; round < ROUNDS; round++) {
    uint64_t tag = 0;
    if (t->rank == (int)(round % 2)) {
      for (uint64_t i = 0; i < WORDS; i++) words[i * 16] = round * WORDS + i;
      WIRE_TRY(wire_signal(t, peer, 0, round + 1));
    } else {
      WIRE_TRY(wire_wait(t, peer, 0, &tag));
      WIRE_REQUIRE(tag == round + 1, "round %d: tag %d", (int)round, (int)tag);
      for (uint64_t i = 0; i < WORDS; i++) {
        WIRE_REQUIRE(words[i * 16] == round * WORDS + i, "round %d: word %d is old", (int)round,
                     (int)i);
      }
    }
  }
  return 0;
}

typedef enum news { NEWS_MESSAGE, NEWS_SIGNAL, NEWS_KINDS } news_t;

static int give_news(transport_t *t, news_t kind, uint64_t number) {
  if (kind == NEWS_MESSAGE) return wire_send(t, 1, 0, number, 16);
  return wire_signal(t, 1, 0, number);
}

/* Whether the news is there: taken when it is. */
static int take_news(transport_t *t, news_t kind, uint64_t number, bool *taken) {
  if (kind == NEWS_MESSAGE) return wire_expect_try(t, 0, 0, number, 16, taken);
  uint64_t tag;
  coll_status_t status = t->ops->wait(t->ops->port(t, 0, 0), &tag, taken);
  WIRE_REQUIRE(status == COLL_OK, "wait: %s", base_last_error());
  return 0;
}

/* Sleeps as the contract says until the news is there. */
static int sleep_for_news(transport_t *t, news_t kind, uint64_t number) {
  uint64_t begin = base_clock_now_ns();
  bool taken = false;
  while (!taken && base_clock_now_ns() - begin < SLEEP_NS) {
    t->ops->arm(t);
    WIRE_TRY(take_news(t, kind, number, &taken));
    if (!taken) t->ops->sleep(t, SLEEP_NS);
    t->ops->disarm(t);
  }
  return 0;
}

/* Rank 1 sleeps for long; rank 0's news wakes it at once. */
int transport_case_wakes(const transport_fixture_t *fixture, transport_t **end) {
  enum { ROUNDS = 5 };
  (void)fixture;
  transport_t *t = *end;
  _Atomic uint64_t *given_ns = harness_board();
  for (int kind = 0; kind < NEWS_KINDS; kind++) {
    for (uint64_t round = 1; round <= ROUNDS; round++) {
      harness_meet();
      if (t->rank == 0) {
        base_clock_sleep_ns(30 * MILLISECOND);
        *given_ns = base_clock_now_ns();
        WIRE_TRY(give_news(t, (news_t)kind, round));
      } else {
        WIRE_TRY(sleep_for_news(t, (news_t)kind, round));
        uint64_t late = base_clock_now_ns() - *given_ns;
        WIRE_REQUIRE(late < WAKE_NS, "woken %d ms late", (int)(late / MILLISECOND));
      }
      harness_meet();
    }
  }
  return 0;
}

/* News between the last look and the sleep is not slept through. */
int transport_case_no_missed_news(const transport_fixture_t *fixture, transport_t **end) {
  enum { ROUNDS = 20 };
  (void)fixture;
  transport_t *t = *end;
  for (int kind = 0; kind < NEWS_KINDS; kind++) {
    for (uint64_t round = 1; round <= ROUNDS; round++) {
      bool taken = false;
      if (t->rank == 1) {
        t->ops->arm(t);
        WIRE_TRY(take_news(t, (news_t)kind, round, &taken));
        WIRE_REQUIRE(!taken, "round %d: news out of nowhere", (int)round);
      }
      harness_meet();
      if (t->rank == 0) WIRE_TRY(give_news(t, (news_t)kind, round));
      harness_meet();
      if (t->rank == 1) {
        uint64_t begin = base_clock_now_ns();
        t->ops->sleep(t, SLEEP_NS);
        t->ops->disarm(t);
        uint64_t slept = base_clock_now_ns() - begin;
        WIRE_REQUIRE(slept < WAKE_NS, "round %d: slept %d ms through its news", (int)round,
                     (int)(slept / MILLISECOND));
        WIRE_TRY(take_news(t, (news_t)kind, round, &taken));
        WIRE_REQUIRE(taken, "round %d: the news is not there", (int)round);
      }
    }
  }
  return 0;
}

/* Rank 0 sleeps until there is room for one message more, while rank 1 takes what there is. */
static int sleep_for_room(transport_t *t, uint64_t *sent, size_t bytes) {
  uint64_t begin = base_clock_now_ns();
  bool done = false;
  while (!done && base_clock_now_ns() - begin < SLEEP_NS) {
    t->ops->arm(t);
    WIRE_TRY(wire_send_try(t, 1, 0, *sent, bytes, &done));
    if (!done) t->ops->sleep(t, SLEEP_NS);
    t->ops->disarm(t);
  }
  uint64_t slept = base_clock_now_ns() - begin;
  WIRE_REQUIRE(slept < WAKE_NS, "slept %d ms, though there was room", (int)(slept / MILLISECOND));
  ++*sent;
  return 0;
}

int transport_case_wakes_for_room(const transport_fixture_t *fixture, transport_t **end) {
  enum { ROUNDS = 4, ENOUGH = 1000 };
  static const size_t sizes[] = {8, WIRE_BYTES_MOST};
  (void)fixture;
  transport_t *t = *end;
  uint64_t *held = harness_board(), sent = 0, received = 0;
  for (int round = 0; round < ROUNDS; round++) {
    size_t bytes = sizes[round % 2];
    if (t->rank == 0) {
      bool done = true;
      while (done && sent < ENOUGH) {
        WIRE_TRY(wire_send_try(t, 1, 0, sent, bytes, &done));
        sent += done;
      }
      *held = sent;
    }
    harness_meet();
    if (t->rank == 0) {
      WIRE_TRY(sleep_for_room(t, &sent, bytes));
    } else {
      uint64_t last = *held;
      base_clock_sleep_ns(10 * MILLISECOND);
      while (received <= last) WIRE_TRY(wire_expect(t, 0, 0, received++, bytes));
    }
    harness_meet();
  }
  return 0;
}

int transport_case_sleep_ends(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  uint64_t begin = base_clock_now_ns();
  t->ops->arm(t);
  t->ops->sleep(t, 20 * MILLISECOND);
  t->ops->disarm(t);
  uint64_t slept = base_clock_now_ns() - begin;
  WIRE_REQUIRE(slept < SLEEP_NS / 2, "slept %d ms instead of 20", (int)(slept / MILLISECOND));
  return 0;
}

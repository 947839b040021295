/* Cases about signals and sleeping. */
#include <stdlib.h>

#include "base/clock.h"
#include "transport/kit.h"
#include "transport/wire.h"

#define MILLISECOND UINT64_C(1000000)
#define WAKE_NS (100 * MILLISECOND * HARNESS_PATIENCE)   /* how soon a sleeper must be awake */
#define SLEEP_NS (2000 * MILLISECOND * HARNESS_PATIENCE) /* had nobody woken it */

/* None is lost, comes twice or with another's identity, on whichever channel it was given, while
 * both ranks go on at their own pace. */
int transport_case_counts(const transport_fixture_t *fixture, transport_t **end) {
  enum { MANY = 20000, OTHER = 77 };
  (void)fixture;
  transport_t *t = *end;
  int sender = 0, receiver = t->size - 1;
  uint64_t given = t->rank == sender ? 0 : MANY, waited = t->rank == receiver ? 0 : MANY;
  uint64_t deadline = wire_deadline_ns();
  unsigned seed = (unsigned)t->rank + 5;
  if (t->rank == sender) WIRE_TRY(wire_signal(t, receiver, 1, OTHER));
  while (given < MANY || waited < MANY) {
    bool done = given < MANY;
    for (int burst = rand_r(&seed) % 40; done && burst > 0 && given < MANY; burst--) {
      WIRE_TRY(wire_signal_try(t, receiver, 0, given, &done));
      given += done;
    }
    done = waited < MANY;
    for (int burst = rand_r(&seed) % 40; done && burst > 0 && waited < MANY; burst--) {
      WIRE_TRY(wire_wait_try(t, sender, 0, waited, &done));
      waited += done;
    }
    WIRE_REQUIRE(base_clock_now_ns() < deadline, "rank %d is stuck", t->rank);
    if (t->size > 1) wire_pause();
  }
  if (t->rank != receiver) return 0;
  WIRE_TRY(wire_wait(t, sender, 1, OTHER));
  for (int c = 0; c < TRANSPORT_CHANNELS; c++) WIRE_TRY(wire_expect_nothing(t, sender, c));
  return 0;
}

/* Whatever was given and waited for before, there is room for PLAN_SIGNALS_MAX. */
int transport_case_signals_held(const transport_fixture_t *fixture, transport_t **end) {
  enum { ROUNDS = 60 };
  (void)fixture;
  transport_t *t = *end;
  int sender = 0, receiver = t->size - 1;
  uint64_t given = 0, waited = 0;
  for (uint64_t round = 0; round < ROUNDS; round++) {
    for (; given - waited < PLAN_SIGNALS_MAX; given++) {
      bool done = true;
      if (t->rank == sender) WIRE_TRY(wire_signal_try(t, receiver, 0, given, &done));
      WIRE_REQUIRE(done, "no room for signal %d with %d before it", (int)given,
                   (int)(given - waited));
    }
    harness_meet();
    uint64_t left = round * round / 3 % PLAN_SIGNALS_MAX;
    for (; given - waited > left; waited++) {
      bool done = true;
      if (t->rank == receiver) WIRE_TRY(wire_wait_try(t, sender, 0, waited, &done));
      WIRE_REQUIRE(done, "signal %d is not there", (int)waited);
    }
    harness_meet();
  }
  return 0;
}

/* Gives signals until there is no room, or there are many. */
static int fill_with_signals(transport_t *t, int receiver, uint64_t *given) {
  enum { ENOUGH = 1000 };
  bool done = true;
  for (int burst = 0; done && burst < ENOUGH; burst++) {
    WIRE_TRY(wire_signal_try(t, receiver, 0, *given, &done));
    *given += done;
  }
  return 0;
}

/* A signal that finds no room is not taken, and says so again. */
int transport_case_signals_full(const transport_fixture_t *fixture, transport_t **end) {
  enum { ROUNDS = 5 };
  (void)fixture;
  transport_t *t = *end;
  int sender = 0, receiver = t->size - 1;
  uint64_t *board = harness_board(), given = 0, waited = 0;
  for (int round = 0; round < ROUNDS; round++) {
    if (t->rank == sender) {
      uint64_t before = given;
      WIRE_TRY(fill_with_signals(t, receiver, &given));
      WIRE_REQUIRE(given - before >= PLAN_SIGNALS_MAX, "holds %d signals", (int)(given - before));
      *board = given;
    }
    harness_meet();
    while (t->rank == receiver && waited < *board) {
      bool done;
      WIRE_TRY(wire_wait_try(t, sender, 0, waited++, &done));
      WIRE_REQUIRE(done, "signal %d is not there", (int)waited);
    }
    if (t->rank == receiver) WIRE_TRY(wire_expect_nothing(t, sender, 0));
    harness_meet();
  }
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
    if (t->rank == (int)(round % 2)) {
      for (uint64_t i = 0; i < WORDS; i++) words[i * 16] = round * WORDS + i;
      WIRE_TRY(wire_signal(t, peer, 0, round));
    } else {
      WIRE_TRY(wire_wait(t, peer, 0, round));
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
  return wire_wait_try(t, 0, 0, number, taken);
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
  static const size_t sizes[] = {8, WIRE_BYTES_MAX};
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

/* Rank 0 sleeps until there is room for one more signal. */
static int sleep_for_signal_room(transport_t *t, uint64_t *given) {
  uint64_t begin = base_clock_now_ns();
  bool done = false;
  while (!done && base_clock_now_ns() - begin < SLEEP_NS) {
    t->ops->arm(t);
    WIRE_TRY(wire_signal_try(t, 1, 0, *given, &done));
    if (!done) t->ops->sleep(t, SLEEP_NS);
    t->ops->disarm(t);
  }
  uint64_t slept = base_clock_now_ns() - begin;
  WIRE_REQUIRE(slept < WAKE_NS, "slept %d ms, though there was room", (int)(slept / MILLISECOND));
  ++*given;
  return 0;
}

/* Where fewer than PLAN_SIGNALS_MAX are left, the receiver may wait for what the signaller does
 * next: it has been woken by then. */
int transport_case_wakes_for_signal_room(const transport_fixture_t *fixture, transport_t **end) {
  enum { ROUNDS = 24 };
  (void)fixture;
  transport_t *t = *end;
  uint64_t *board = harness_board(), given = 0, waited = 0;
  for (int round = 0; round < ROUNDS; round++) {
    if (t->rank == 0) {
      WIRE_TRY(fill_with_signals(t, 1, &given));
      *board = given;
    }
    harness_meet();
    if (t->rank == 0) {
      WIRE_TRY(sleep_for_signal_room(t, &given));
    } else {
      uint64_t until = *board - (PLAN_SIGNALS_MAX - 1);
      base_clock_sleep_ns(10 * MILLISECOND);
      while (waited < until) WIRE_TRY(wire_wait(t, 0, 0, waited++));
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

/* Cases about signals and sleeping. */
#include <stdlib.h>

#include "base/clock.h"
#include "transport/kit.h"
#include "transport/kit_steps.h"

#define MILLISECOND UINT64_C(1000000)
#define SLEEP_NS (2 * kit_wake_ns) /* duration of a sleep without a wake */

/* No signal is lost, repeated or delivered with another's identity, on any channel, while both
 * ranks run at their own speed. */
int transport_case_counts(const transport_fixture_t *fixture, transport_t **end) {
  enum { MANY = 20000, OTHER = 77 };
  (void)fixture;
  transport_t *t = *end;
  int sender = 0, receiver = t->size - 1;
  uint64_t sent = t->rank == sender ? 0 : MANY, waited = t->rank == receiver ? 0 : MANY;
  uint64_t deadline = kit_deadline_ns(), had = 0;
  unsigned seed = (unsigned)t->rank + 5;
  if (t->rank == sender) KIT_TRY(kit_signal(t, receiver, 1, OTHER));
  while (sent < MANY || waited < MANY) {
    bool done = sent < MANY;
    for (int burst = rand_r(&seed) % 40; done && burst > 0 && sent < MANY; burst--) {
      KIT_TRY(kit_signal_try(t, receiver, 0, sent, &done));
      sent += done;
    }
    done = waited < MANY;
    for (int burst = rand_r(&seed) % 40; done && burst > 0 && waited < MANY; burst--) {
      KIT_TRY(kit_wait_try(t, sender, 0, waited, &done));
      waited += done;
    }
    KIT_TRY(kit_require_progress(t, sent + waited, &had, &deadline));
    if (t->size > 1) kit_pause();
  }
  if (t->rank != receiver) return 0;
  KIT_TRY(kit_wait(t, sender, 1, OTHER));
  for (int c = 0; c < TRANSPORT_CHANNELS; c++) KIT_TRY(kit_expect_nothing(t, sender, c));
  return 0;
}

/* After any number of signals sent and received, there is room for PLAN_SIGNALS_MAX. */
int transport_case_signals_held(const transport_fixture_t *fixture, transport_t **end) {
  enum { ROUNDS = 60 };
  (void)fixture;
  transport_t *t = *end;
  int sender = 0, receiver = t->size - 1;
  uint64_t sent = 0, waited = 0;
  for (uint64_t round = 0; round < ROUNDS; round++) {
    for (; sent - waited < PLAN_SIGNALS_MAX; sent++) {
      if (t->rank == sender) KIT_TRY(kit_signal(t, receiver, 0, sent));
    }
    harness_barrier();
    uint64_t left = round * round / 3 % PLAN_SIGNALS_MAX;
    for (; sent - waited > left; waited++) {
      if (t->rank == receiver) KIT_TRY(kit_wait(t, sender, 0, waited));
    }
    harness_barrier();
  }
  return 0;
}

/* Sends signals until there is no room, or many are sent. */
static int fill_with_signals(transport_t *t, int receiver, uint64_t *sent) {
  enum { ENOUGH = 1000 };
  bool done = true;
  for (int burst = 0; done && burst < ENOUGH; burst++) {
    KIT_TRY(kit_signal_try(t, receiver, 0, *sent, &done));
    *sent += done;
  }
  return 0;
}

/* A signal without room is refused, repeatedly, and not delivered. */
int transport_case_signals_full(const transport_fixture_t *fixture, transport_t **end) {
  enum { ROUNDS = 5 };
  (void)fixture;
  transport_t *t = *end;
  int sender = 0, receiver = t->size - 1;
  uint64_t *board = harness_board(), sent = 0, waited = 0;
  for (int round = 0; round < ROUNDS; round++) {
    if (t->rank == sender) {
      uint64_t before = sent;
      KIT_TRY(fill_with_signals(t, receiver, &sent));
      KIT_REQUIRE(sent - before >= PLAN_SIGNALS_MAX, "holds %d signals", (int)(sent - before));
      *board = sent;
    }
    harness_barrier();
    while (t->rank == receiver && waited < *board) {
      KIT_TRY(kit_wait(t, sender, 0, waited++));
    }
    if (t->rank == receiver) KIT_TRY(kit_expect_nothing(t, sender, 0));
    harness_barrier();
  }
  return 0;
}

/* Plain memory is passed back and forth: what was written before the signal is visible after the
 * wait. */
int transport_case_publishes(const transport_fixture_t *fixture, transport_t **end) {
  enum { ROUNDS = 2000, WORDS = 64 };
  (void)fixture;
  transport_t *t = *end;
  uint64_t *words = harness_board();
  int peer = 1 - t->rank;
  for (uint64_t round = 0; round < ROUNDS; round++) {
    if (t->rank == (int)(round % 2)) {
      for (uint64_t i = 0; i < WORDS; i++) words[i * 16] = round * WORDS + i;
      KIT_TRY(kit_signal(t, peer, 0, round));
    } else {
      KIT_TRY(kit_wait(t, peer, 0, round));
      for (uint64_t i = 0; i < WORDS; i++) {
        KIT_REQUIRE(words[i * 16] == round * WORDS + i, "round %d: word %d is old", (int)round,
                    (int)i);
      }
    }
  }
  return 0;
}

/* Checks how long a rank slept although there was an event. */
static int note_sleep(uint64_t slept_ns, uint64_t *longest_ns) {
  KIT_REQUIRE(slept_ns < kit_wake_ns, "slept %d ms despite the event",
              (int)(slept_ns / MILLISECOND));
  if (slept_ns > *longest_ns) *longest_ns = slept_ns;
  return 0;
}

typedef enum event { EVENT_MESSAGE, EVENT_SIGNAL, EVENT_KINDS } event_t;

static int send_event(transport_t *t, event_t kind, uint64_t number) {
  if (kind == EVENT_MESSAGE) return kit_send(t, 1, 0, number, 16);
  return kit_signal(t, 1, 0, number);
}

/* Takes the event if it has arrived. */
static int take_event(transport_t *t, event_t kind, uint64_t number, bool *taken) {
  if (kind == EVENT_MESSAGE) return kit_expect_try(t, 0, 0, number, 16, taken);
  return kit_wait_try(t, 0, 0, number, taken);
}

/* Sleeps in the order arm, poll, sleep, disarm until the event has arrived. */
static int sleep_for_event(transport_t *t, event_t kind, uint64_t number) {
  uint64_t begin = base_clock_now_ns();
  bool taken = false;
  while (!taken && base_clock_now_ns() - begin < SLEEP_NS) {
    t->ops->arm(t);
    KIT_TRY(take_event(t, kind, number, &taken));
    if (!taken) t->ops->sleep(t, SLEEP_NS);
    t->ops->disarm(t);
  }
  return 0;
}

/* Rank 1 sleeps with a long timeout; rank 0's event wakes it at once. */
int transport_case_wakes(const transport_fixture_t *fixture, transport_t **end) {
  enum { ROUNDS = 5 };
  (void)fixture;
  transport_t *t = *end;
  uint64_t longest = 0;
  _Atomic uint64_t *sent_ns = harness_board();
  for (int kind = 0; kind < EVENT_KINDS; kind++) {
    for (uint64_t round = 1; round <= ROUNDS; round++) {
      harness_barrier();
      if (t->rank == 0) {
        base_clock_sleep_ns(30 * MILLISECOND);
        *sent_ns = base_clock_now_ns();
        KIT_TRY(send_event(t, (event_t)kind, round));
      } else {
        KIT_TRY(sleep_for_event(t, (event_t)kind, round));
        KIT_TRY(note_sleep(base_clock_now_ns() - *sent_ns, &longest));
      }
      harness_barrier();
    }
  }
  if (t->rank == 1) kit_print("a sleeper is woken", longest);
  return 0;
}

/* An event between the last poll and the sleep ends the sleep. */
int transport_case_no_missed_wake(const transport_fixture_t *fixture, transport_t **end) {
  enum { ROUNDS = 20 };
  (void)fixture;
  transport_t *t = *end;
  uint64_t longest = 0;
  for (int kind = 0; kind < EVENT_KINDS; kind++) {
    for (uint64_t round = 1; round <= ROUNDS; round++) {
      bool taken = false;
      if (t->rank == 1) {
        t->ops->arm(t);
        KIT_TRY(take_event(t, (event_t)kind, round, &taken));
        KIT_REQUIRE(!taken, "round %d: an event before any was sent", (int)round);
      }
      harness_barrier();
      if (t->rank == 0) KIT_TRY(send_event(t, (event_t)kind, round));
      harness_barrier();
      if (t->rank == 1) {
        uint64_t begin = base_clock_now_ns();
        t->ops->sleep(t, SLEEP_NS);
        t->ops->disarm(t);
        KIT_TRY(take_event(t, (event_t)kind, round, &taken));
        if (!taken) KIT_TRY(sleep_for_event(t, (event_t)kind, round)); /* it returned early */
        KIT_TRY(note_sleep(base_clock_now_ns() - begin, &longest));
      }
    }
  }
  if (t->rank == 1) kit_print("an event before the sleep ends it", longest);
  return 0;
}

/* Rank 0 sleeps until there is room for one more message, while rank 1 takes messages. */
static int sleep_for_room(transport_t *t, uint64_t *sent, size_t bytes, uint64_t *longest) {
  uint64_t begin = base_clock_now_ns();
  bool done = false;
  while (!done && base_clock_now_ns() - begin < SLEEP_NS) {
    t->ops->arm(t);
    KIT_TRY(kit_send_try(t, 1, 0, *sent, bytes, &done));
    if (!done) t->ops->sleep(t, SLEEP_NS);
    t->ops->disarm(t);
  }
  ++*sent;
  return note_sleep(base_clock_now_ns() - begin, longest);
}

int transport_case_wakes_for_room(const transport_fixture_t *fixture, transport_t **end) {
  enum { ROUNDS = 4, ENOUGH = 1000 };
  static const size_t sizes[] = {8, KIT_BYTES_MAX};
  (void)fixture;
  transport_t *t = *end;
  uint64_t *held = harness_board(), sent = 0, received = 0, longest = 0;
  for (int round = 0; round < ROUNDS; round++) {
    size_t bytes = sizes[round % 2];
    if (t->rank == 0) {
      bool done = true;
      while (done && sent < ENOUGH) {
        KIT_TRY(kit_send_try(t, 1, 0, sent, bytes, &done));
        sent += done;
      }
      *held = sent;
    }
    harness_barrier();
    if (t->rank == 0) {
      KIT_TRY(sleep_for_room(t, &sent, bytes, &longest));
    } else {
      uint64_t last = *held;
      base_clock_sleep_ns(10 * MILLISECOND);
      while (received <= last) KIT_TRY(kit_expect(t, 0, 0, received++, bytes));
    }
    harness_barrier();
  }
  if (t->rank == 0) kit_print("a sender is woken for room", longest);
  return 0;
}

/* Rank 0 sleeps until there is room for one more signal. */
static int sleep_for_signal_room(transport_t *t, uint64_t *sent, uint64_t *longest) {
  uint64_t begin = base_clock_now_ns();
  bool done = false;
  while (!done && base_clock_now_ns() - begin < SLEEP_NS) {
    t->ops->arm(t);
    KIT_TRY(kit_signal_try(t, 1, 0, *sent, &done));
    if (!done) t->ops->sleep(t, SLEEP_NS);
    t->ops->disarm(t);
  }
  ++*sent;
  return note_sleep(base_clock_now_ns() - begin, longest);
}

/* If fewer than PLAN_SIGNALS_MAX signals are left, the receiver may wait for the signaller's next
 * action: the signaller has been woken by then. */
int transport_case_wakes_for_signal_room(const transport_fixture_t *fixture, transport_t **end) {
  enum { ROUNDS = 24 };
  (void)fixture;
  transport_t *t = *end;
  uint64_t *board = harness_board(), sent = 0, waited = 0, longest = 0;
  for (int round = 0; round < ROUNDS; round++) {
    if (t->rank == 0) {
      KIT_TRY(fill_with_signals(t, 1, &sent));
      *board = sent;
    }
    harness_barrier();
    if (t->rank == 0) {
      KIT_TRY(sleep_for_signal_room(t, &sent, &longest));
    } else {
      uint64_t until = *board - (PLAN_SIGNALS_MAX - 1);
      base_clock_sleep_ns(10 * MILLISECOND);
      while (waited < until) KIT_TRY(kit_wait(t, 0, 0, waited++));
    }
    harness_barrier();
  }
  if (t->rank == 0) kit_print("a signaller is woken for room", longest);
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
  KIT_REQUIRE(slept < kit_wake_ns, "slept %d ms instead of 20", (int)(slept / MILLISECOND));
  kit_print("a sleep of 20 ms ends", slept);
  return 0;
}

/* Deadlines are long: they end a case that hangs, with a message, before the harness does. */
#include "transport/kit_steps.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "verify/random.h"

uint64_t kit_limit_ns = UINT64_C(30000000000), kit_wake_ns = UINT64_C(30000000000);

static bool prints_times;

void kit_measure(unsigned promised_ms) {
  kit_wake_ns = UINT64_C(1000000) * promised_ms;
  prints_times = true;
}

void kit_print(const char *what, uint64_t longest_ns) {
  if (!prints_times) return;
  printf("%s: within %.1f ms / %.0f ms\n", what, (double)longest_ns / 1e6,
         (double)kit_wake_ns / 1e6);
  fflush(stdout);
}

uint64_t kit_deadline_ns(void) {
  return base_clock_now_ns() + kit_limit_ns;
}

int kit_require_progress(const transport_t *t, uint64_t has, uint64_t *had, uint64_t *deadline_ns) {
  if (has > *had) *deadline_ns = kit_deadline_ns();
  *had = has;
  KIT_REQUIRE(base_clock_now_ns() < *deadline_ns, "rank %d is stuck at %d", t->rank, (int)has);
  return 0;
}

void kit_pause(void) {
  sched_yield();
}

/* Of any peer: what is stored for all of them moves. */
static void drain(void *context) {
  transport_t *t = context;
  if (t->size > 1) (void)t->ops->drained(t->ops->port(t, (t->rank + 1) % t->size, 0));
}

void kit_barrier(transport_t *t) {
  harness_barrier_polling(drain, t);
}

/* Messages are filled and compared in blocks, so that a sanitizer checks ranges and not single
 * bytes. A block is a part of one sequence; where it begins follows from the number of the message
 * and that of the block. */
enum { BLOCK = 256 };

static unsigned char sequence[2 * BLOCK];

__attribute__((constructor)) static void make_sequence(void) {
  for (size_t i = 0; i < sizeof sequence; i++) sequence[i] = (unsigned char)((i * 7) ^ 0x5a);
}

static const unsigned char *block_of(uint64_t number, size_t at) {
  return sequence + (number * 31 + at / BLOCK * 7) % BLOCK;
}

static size_t block_bytes(size_t at, size_t bytes) {
  return bytes - at < BLOCK ? bytes - at : BLOCK;
}

void kit_fill(void *data, uint64_t number, size_t bytes) {
  for (size_t at = 0; at < bytes; at += BLOCK) {
    memcpy((char *)data + at, block_of(number, at), block_bytes(at, bytes));
  }
}

bool kit_is(const void *data, uint64_t number, size_t bytes) {
  for (size_t at = 0; at < bytes; at += BLOCK) {
    if (memcmp((const char *)data + at, block_of(number, at), block_bytes(at, bytes)) != 0)
      return false;
  }
  return true;
}

enum { WORDS = BLOCK / sizeof(uint64_t) };

/* The bytes of a block from index `first` on. */
static const char *words_of(int owner, size_t first, uint64_t words[WORDS + 1]) {
  for (size_t i = 0; i <= WORDS; i++) {
    words[i] = random_mix((uint64_t)(owner + 1) << 32 | (first / sizeof *words + i));
  }
  return (const char *)words + first % sizeof *words;
}

void kit_fill_own(void *data, int owner, size_t first, size_t bytes) {
  uint64_t words[WORDS + 1];
  for (size_t at = 0; at < bytes; at += BLOCK) {
    memcpy((char *)data + at, words_of(owner, first + at, words), block_bytes(at, bytes));
  }
}

bool kit_is_own(const void *data, int owner, size_t first, size_t bytes) {
  uint64_t words[WORDS + 1];
  for (size_t at = 0; at < bytes; at += BLOCK) {
    const char *expected = words_of(owner, first + at, words);
    if (memcmp((const char *)data + at, expected, block_bytes(at, bytes)) != 0) return false;
  }
  return true;
}

bool kit_is_all(const void *data, unsigned char byte, size_t bytes) {
  const unsigned char *first = data;
  return bytes == 0 || (*first == byte && memcmp(first, first + 1, bytes - 1) == 0);
}

/* Uses all bits of both words. */
flight_call_t kit_id(uint64_t number) {
  return (flight_call_t){.what = ~(number * UINT64_C(0x9e3779b97f4a7c15)),
                         .count = number * UINT64_C(0xbf58476d1ce4e5b9) + 1};
}

int kit_send_try(transport_t *t, int peer, int channel, uint64_t number, size_t bytes, bool *done) {
  unsigned char data[KIT_BYTES_MAX];
  transport_head_t head = {.call = kit_id(number), .bytes = bytes};
  kit_fill(data, number, bytes);
  *done = false;
  coll_status_t status =
      t->ops->send(t->ops->port(t, peer, channel), bytes > 0 ? data : NULL, &head, done);
  KIT_REQUIRE(status == COLL_OK, "send %d to %d: %s", (int)number, peer, base_last_error());
  kit_fill(data, number + 1, bytes); /* the buffer may be reused after the send */
  return 0;
}

/* Peeks twice, expects the same message, and takes it. */
static int recv_in_place(transport_t *t, int peer, int channel, unsigned char *data,
                         transport_head_t *head, bool *done) {
  const void *seen = NULL, *again = NULL;
  coll_status_t status = t->ops->peek(t->ops->port(t, peer, channel), &seen, head, done);
  KIT_REQUIRE(status == COLL_OK, "peek from %d: %s", peer, base_last_error());
  if (!*done) return 0;
  *head = (transport_head_t){0};
  status = t->ops->peek(t->ops->port(t, peer, channel), &again, head, done);
  KIT_REQUIRE(status == COLL_OK && *done && again == seen, "a polled message was lost");
  KIT_REQUIRE((uintptr_t)seen % 8 == 0, "a peeked message is not aligned");
  if (head->bytes <= KIT_BYTES_MAX) memcpy(data, seen, head->bytes);
  status = t->ops->take(t->ops->port(t, peer, channel));
  KIT_REQUIRE(status == COLL_OK, "take from %d: %s", peer, base_last_error());
  return 0;
}

/* Every other message is received in place, if the transport supports peek. */
int kit_expect_try(transport_t *t, int peer, int channel, uint64_t number, size_t bytes,
                   bool *done) {
  unsigned char data[KIT_BYTES_MAX];
  transport_head_t head = {0};
  *done = false;
  if (t->peeks && number % 2 == 1) {
    KIT_TRY(recv_in_place(t, peer, channel, data, &head, done));
  } else {
    coll_status_t status =
        t->ops->recv(t->ops->port(t, peer, channel), data, sizeof data, &head, done);
    KIT_REQUIRE(status == COLL_OK, "recv %d from %d: %s", (int)number, peer, base_last_error());
  }
  if (!*done) return 0;
  KIT_REQUIRE(flight_call_is(head.call, kit_id(number)),
              "rank %d, channel %d: not message %d of rank %d", t->rank, channel, (int)number,
              peer);
  KIT_REQUIRE(head.bytes == bytes, "message %d has %zu bytes, not %zu", (int)number, head.bytes,
              bytes);
  KIT_REQUIRE(kit_is(data, number, bytes), "message %d has wrong bytes", (int)number);
  return 0;
}

int kit_send(transport_t *t, int peer, int channel, uint64_t number, size_t bytes) {
  uint64_t deadline = kit_deadline_ns();
  bool done = false;
  while (!done) {
    KIT_TRY(kit_send_try(t, peer, channel, number, bytes, &done));
    KIT_REQUIRE(done || base_clock_now_ns() < deadline, "rank %d cannot send message %d to %d",
                t->rank, (int)number, peer);
    if (!done) kit_pause();
  }
  return 0;
}

int kit_expect(transport_t *t, int peer, int channel, uint64_t number, size_t bytes) {
  uint64_t deadline = kit_deadline_ns();
  bool done = false;
  while (!done) {
    KIT_TRY(kit_expect_try(t, peer, channel, number, bytes, &done));
    KIT_REQUIRE(done || base_clock_now_ns() < deadline, "rank %d: no message %d from %d", t->rank,
                (int)number, peer);
    if (!done) kit_pause();
  }
  return 0;
}

int kit_expect_nothing(transport_t *t, int peer, int channel) {
  transport_head_t head = {0};
  bool done = false, arrived = false;
  flight_call_t call;
  coll_status_t status = t->ops->recv(t->ops->port(t, peer, channel), NULL, 0, &head, &done);
  KIT_REQUIRE(status == COLL_OK, "recv: %s", base_last_error());
  KIT_REQUIRE(!done, "rank %d, channel %d: an unexpected message from %d", t->rank, channel, peer);
  status = t->ops->wait(t->ops->port(t, peer, channel), &call, &arrived);
  KIT_REQUIRE(status == COLL_OK, "wait: %s", base_last_error());
  KIT_REQUIRE(!arrived, "rank %d, channel %d: an unexpected signal from %d", t->rank, channel,
              peer);
  return 0;
}

int kit_signal_try(transport_t *t, int peer, int channel, uint64_t number, bool *done) {
  flight_call_t call = kit_id(number);
  *done = false;
  coll_status_t status = t->ops->signal(t->ops->port(t, peer, channel), &call, done);
  call = kit_id(number + 1); /* the call was copied by the signal */
  KIT_REQUIRE(status == COLL_OK, "signal %d to %d: %s", (int)number, peer, base_last_error());
  return 0;
}

int kit_wait_try(transport_t *t, int peer, int channel, uint64_t number, bool *done) {
  flight_call_t call = {0};
  transport_port_t *port = t->ops->port(t, peer, channel);
  bool signaled = t->ops->signaled(port);
  *done = false;
  coll_status_t status = t->ops->wait(port, &call, done);
  KIT_REQUIRE(status == COLL_OK, "wait for %d: %s", peer, base_last_error());
  KIT_REQUIRE(*done || !signaled, "rank %d: a signal of rank %d was lost", t->rank, peer);
  KIT_REQUIRE(!*done || flight_call_is(call, kit_id(number)),
              "rank %d, channel %d: not signal %d of rank %d", t->rank, channel, (int)number, peer);
  return 0;
}

int kit_signal(transport_t *t, int peer, int channel, uint64_t number) {
  uint64_t deadline = kit_deadline_ns();
  bool done = false;
  while (!done) {
    KIT_TRY(kit_signal_try(t, peer, channel, number, &done));
    KIT_REQUIRE(done || base_clock_now_ns() < deadline, "rank %d cannot send signal %d to %d",
                t->rank, (int)number, peer);
    if (!done) kit_pause();
  }
  return 0;
}

int kit_wait(transport_t *t, int peer, int channel, uint64_t number) {
  uint64_t deadline = kit_deadline_ns();
  bool done = false;
  while (!done) {
    KIT_TRY(kit_wait_try(t, peer, channel, number, &done));
    KIT_REQUIRE(done || base_clock_now_ns() < deadline, "rank %d: no signal %d from %d", t->rank,
                (int)number, peer);
    if (!done) kit_pause();
  }
  return 0;
}

/*
 * Capacity of the P2P channel while the receiver takes nothing (coll.h promises a minimum). Rank 0
 * sends to the last rank. Both derive from one seed which messages are sent and how many of them
 * are taken, so they need only barriers to stay in step.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "transport/kit.h"
#include "transport/kit_steps.h"

enum { CHANNEL = TRANSPORT_CHANNEL_P2P };

#define ROUNDS (120 / HARNESS_PATIENCE)

typedef struct walk {
  transport_t *t;
  unsigned seed;
  uint64_t sent, taken;                 /* counts of messages; [taken, sent) are in the FIFO */
  size_t bytes[TRANSPORT_P2P_MESSAGES]; /* of message n at [n % TRANSPORT_P2P_MESSAGES] */
  size_t on_way;
  unsigned char *data; /* [TRANSPORT_P2P_BYTES] */
} walk_t;

typedef enum kind { TINY, WHOLE, AWKWARD, LONG_AND_SHORT, ANY, KINDS } kind_t;

/* Size of the next message of a round of that kind, with `left` bytes left for `messages` messages.
 * */
static size_t size_of(walk_t *w, kind_t kind, size_t left, size_t messages) {
  unsigned random = (unsigned)rand_r(&w->seed);
  switch (kind) {
    case TINY: return 4;
    case WHOLE: return left;
    case AWKWARD: return left / messages / 64 * 64 + random % 2; /* a short slot after full ones */
    case LONG_AND_SHORT: return random % 8 == 0 ? random % (left + 1) : random % 200;
    case ANY: return random % (2 * left / messages + 1);
    case KINDS: break;
  }
  return 0;
}

/* Sends a message in slots. */
static int send_one(walk_t *w, size_t bytes) {
  transport_t *t = w->t;
  transport_port_t *port = t->ops->port(t, t->size - 1, CHANNEL);
  kit_fill(w->data, w->sent, bytes);
  for (size_t at = 0; at == 0 || at < bytes; at += t->slot_bytes) {
    size_t slot = bytes - at < t->slot_bytes ? bytes - at : t->slot_bytes;
    transport_head_t head = {.call = kit_id(w->sent), .bytes = slot};
    bool done = false;
    for (uint64_t deadline = kit_deadline_ns(); !done && base_clock_now_ns() < deadline;) {
      KIT_REQUIRE(t->ops->send(port, w->data + at, &head, &done) == COLL_OK, "send: %s",
                  base_last_error());
    }
    KIT_REQUIRE(done, "no room for byte %zu of %zu, with %d messages of %zu bytes before it", at,
                bytes, (int)(w->sent - w->taken), w->on_way);
  }
  return 0;
}

static int take_one(walk_t *w, size_t bytes) {
  transport_t *t = w->t;
  transport_port_t *port = t->ops->port(t, 0, CHANNEL);
  memset(w->data, 0, bytes);
  for (size_t at = 0; at == 0 || at < bytes; at += t->slot_bytes) {
    size_t slot = bytes - at < t->slot_bytes ? bytes - at : t->slot_bytes;
    transport_head_t head = {0};
    bool done = false;
    for (uint64_t deadline = kit_deadline_ns(); !done && base_clock_now_ns() < deadline;) {
      KIT_REQUIRE(t->ops->recv(port, w->data + at, slot, &head, &done) == COLL_OK, "recv: %s",
                  base_last_error());
    }
    KIT_REQUIRE(done, "message %d: byte %zu is missing", (int)w->taken, at);
    KIT_REQUIRE(head.bytes == slot && flight_call_is(head.call, kit_id(w->taken)),
                "message %d: another message arrived", (int)w->taken);
  }
  KIT_REQUIRE(kit_is(w->data, w->taken, bytes), "message %d changed", (int)w->taken);
  return 0;
}

/* Sends as many messages as the promised capacity has room for, in addition to those in the FIFO.
 * */
static int send_round(walk_t *w, kind_t kind) {
  while (w->sent - w->taken < TRANSPORT_P2P_MESSAGES) {
    size_t left = TRANSPORT_P2P_BYTES - w->on_way;
    size_t bytes = size_of(w, kind, left, TRANSPORT_P2P_MESSAGES - (w->sent - w->taken));
    if (bytes > left) bytes = left;
    if (w->t->rank == 0) KIT_TRY(send_one(w, bytes));
    w->bytes[w->sent++ % TRANSPORT_P2P_MESSAGES] = bytes;
    w->on_way += bytes;
    if (kind == WHOLE) return 0;
  }
  return 0;
}

/* Takes all messages but `left`. */
static int take_round(walk_t *w, uint64_t left) {
  while (w->sent - w->taken > left) {
    size_t bytes = w->bytes[w->taken % TRANSPORT_P2P_MESSAGES];
    if (w->t->rank == w->t->size - 1) KIT_TRY(take_one(w, bytes));
    w->on_way -= bytes;
    w->taken++;
  }
  return 0;
}

static int walk(walk_t *w) {
  for (int round = 0; round < ROUNDS; round++) {
    kind_t kind = (kind_t)((unsigned)rand_r(&w->seed) % KINDS);
    KIT_TRY(send_round(w, round < KINDS ? (kind_t)round : kind));
    harness_barrier();
    uint64_t most = round % 3 == 0 ? 1 : w->sent - w->taken + 1;
    KIT_TRY(take_round(w, (uint64_t)rand_r(&w->seed) % most));
    harness_barrier();
  }
  KIT_TRY(take_round(w, 0));
  return w->t->rank == w->t->size - 1 ? kit_expect_nothing(w->t, 0, CHANNEL) : 0;
}

int transport_case_p2p_capacity(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  walk_t w = {.t = *end, .seed = 11, .data = malloc(TRANSPORT_P2P_BYTES)};
  int code = w.data == NULL ? harness_fail("out of memory") : walk(&w);
  free(w.data);
  return code;
}

/* Owners of wires, and turns of both. */
#include "transport/net/wire/ends.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static void fail(wire_end_t *end, const char *what) {
  if (end->wrong == NULL) end->wrong = what;
}

static wire_end_t *end_of(const wire_t *wire, int link) {
  wire_end_t *end = wire->owner;
  while (end != NULL && end->link != link) end = end->next;
  if (end != NULL) return end;
  fail(wire->owner, "names a link that it does not have");
  return wire->owner;
}

static net_frame_t frame_of(const wire_pair_t *pair, uint64_t number) {
  return (net_frame_t){.kind = NET_MESSAGE,
                       .channel = (uint16_t)(number % 7),
                       .bytes = (uint32_t)pair->bytes_of(number, pair->fixture->bytes_max),
                       .messages_taken = (uint32_t)number * 3,
                       .signals_taken = (uint32_t)number * 5,
                       .number = (uint32_t)number,
                       .received = (uint32_t)number * 7,
                       .call = kit_id(number)};
}

/* ---- what the wire calls --------------------------------------------------------------------*/

static void release(wire_message_t *message, void *context) {
  (void)context;
  free(message);
}

static coll_status_t make_message(wire_t *wire, size_t bytes, wire_message_t **message) {
  void *memory = malloc(sizeof **message + bytes);
  (void)wire;
  if (memory == NULL) return COLL_ERROR_MEMORY;
  *message = wire_message_at(memory, bytes, release, NULL);
  return COLL_OK;
}

static coll_status_t tell(wire_t *wire, int link, const void *note, size_t bytes) {
  wire_end_t *end = end_of(wire, link);
  wire_note_t *made = malloc(sizeof *made + bytes), **last = &end->notes;
  if (made == NULL) return COLL_ERROR_MEMORY;
  if (bytes == 0 || bytes > WIRE_NOTE_BYTES) fail(end, "tells a note of no possible length");
  *made = (wire_note_t){.bytes = bytes};
  memcpy(made->data, note, bytes);
  while (*last != NULL) last = &(*last)->next;
  *last = made;
  return COLL_OK;
}

static coll_status_t ready(wire_t *wire, int link) {
  wire_end_t *end = end_of(wire, link);
  if (end->is_ready) fail(end, "is ready twice");
  end->is_ready = true;
  return COLL_OK;
}

static bool is_frame(wire_t *wire, int link, const net_frame_t *frame) {
  return link == end_of(wire, link)->link && frame->kind == NET_MESSAGE;
}

static char *find_place(wire_t *wire, int link, const net_frame_t *frame) {
  return frame->bytes > 0 ? end_of(wire, link)->place : NULL;
}

static bool expects_long(wire_t *wire, int link) {
  return end_of(wire, link)->place != NULL;
}

/* What is wrong about a frame that has arrived; NULL: nothing. */
static const char *check(const wire_end_t *end, const net_frame_t *frame,
                         const wire_message_t *message, bool is_placed) {
  const net_frame_t expected = frame_of(end->pair, end->arrived);
  const char *payload = is_placed ? end->place : message != NULL ? message->data : NULL;
  if (end->is_lost) return "passes on what came after the loss";
  if (frame->number != expected.number) return "loses, repeats or reorders frames";
  if (memcmp(frame, &expected, sizeof expected) != 0) return "changes a frame";
  if (frame->bytes > 0 && payload == NULL) return "has no payload";
  if (message != NULL && message->bytes != frame->bytes) return "has a payload of another length";
  if (!kit_is(payload, end->arrived, frame->bytes)) return "changes a payload";
  return NULL;
}

static void disconnect(wire_end_t *end) {
  end->is_lost = true;
  end->wire->ops->disconnect(end->wire, end->link);
}

static coll_status_t arrived(wire_t *wire, int link, const net_frame_t *frame,
                             wire_message_t *message, bool is_placed) {
  wire_end_t *end = end_of(wire, link);
  if (frame->kind == ENDS_BAD_KIND) {
    disconnect(end);
  } else {
    const char *wrong = check(end, frame, message, is_placed);
    if (wrong != NULL) fail(end, wrong);
    end->arrived++;
    end->placed += is_placed;
  }
  wire_message_release(message);
  return COLL_OK;
}

typedef struct stored {
  wire_outgoing_t base;
  wire_end_t *end;
  char copy[];
} stored_t;

static coll_status_t store(wire_t *wire, int link, const net_frame_t *frame, const void *payload,
                           bool is_lent, wire_outgoing_t **outgoing) {
  stored_t *made = malloc(sizeof *made + frame->bytes);
  if (made == NULL) return COLL_ERROR_MEMORY;
  *made = (stored_t){.base.frame = *frame, .end = end_of(wire, link)};
  made->base.payload = is_lent ? (char *)(uintptr_t)payload : made->copy;
  if (!is_lent && frame->bytes > 0) memcpy(made->copy, payload, frame->bytes);
  made->end->stored++;
  *outgoing = &made->base;
  return COLL_OK;
}

static void unqueued(wire_t *wire, wire_outgoing_t *outgoing) {
  (void)wire;
  ((stored_t *)(void *)outgoing)->end->stored--;
  free(outgoing);
}

static void flushed(wire_t *wire, int link) {
  wire_end_t *end = end_of(wire, link);
  if (end->stored > 0) fail(end, "says that all is sent, which is not");
  end->flushed++;
}

/* By some link: the first end, which is the one that sleeps. */
static void fetched(wire_t *wire) {
  wire_end_t *end = wire->owner;
  end->fetched++;
}

static void lost(wire_t *wire, int link, int error) {
  wire_end_t *end = end_of(wire, link);
  if (end->is_lost) fail(end, "loses a link twice");
  end->error = error;
  disconnect(end);
}

static const wire_owner_ops_t owner_ops = {
    .message = make_message,
    .arrived = arrived,
    .lost = lost,
    .tell = tell,
    .ready = ready,
    .fetched = fetched,
    .is_frame = is_frame,
    .place = find_place,
    .expects_long = expects_long,
    .store = store,
    .unqueued = unqueued,
    .flushed = flushed,
};

/* ---- turns ----------------------------------------------------------------------------------*/

static int pass_notes(wire_end_t *end) {
  while (end->notes != NULL) {
    wire_note_t *first = end->notes;
    wire_t *to = end->other->wire;
    end->notes = first->next;
    coll_status_t status = COLL_OK;
    if (to != NULL) status = to->ops->hear(to, end->other->link, first->data, first->bytes);
    free(first);
    KIT_REQUIRE(status == COLL_OK, "does not understand a note: %s", base_last_error());
  }
  return 0;
}

int ends_serve(wire_end_t *end) {
  wire_t *wire = end->wire;
  KIT_TRY(pass_notes(end));
  if (wire->ops->flush != NULL) wire->ops->flush(wire, -1);
  coll_status_t status = wire->ops->progress(wire, end->link);
  KIT_REQUIRE(status == COLL_OK, "progress fails: %s", base_last_error());
  KIT_REQUIRE(end->wrong == NULL, "frame %d: the wire %s", (int)end->arrived, end->wrong);
  return 0;
}

int ends_serve_both(wire_pair_t *pair) {
  KIT_TRY(ends_serve(&pair->ends[0]));
  return ends_serve(&pair->ends[1]);
}

/* Memory that stays until the ends are closed. NULL: none. */
static char *lend(wire_end_t *end, size_t bytes) {
  wire_note_t *made = malloc(sizeof *made + bytes);
  if (made == NULL) return NULL;
  *made = (wire_note_t){.next = end->lent, .bytes = bytes};
  end->lent = made;
  return made->data;
}

int ends_send(wire_end_t *end) {
  wire_t *wire = end->wire;
  wire_pair_t *pair = end->pair;
  wire_outgoing_t *outgoing;
  const net_frame_t frame = frame_of(pair, end->sent);
  bool is_lent = end->sent % 4 == 1;
  char *payload = is_lent ? lend(end, frame.bytes) : pair->payload;
  KIT_REQUIRE(payload != NULL, "no memory");
  kit_fill(payload, end->sent, frame.bytes);
  coll_status_t status = COLL_OK;
  if (wire->ops->queue != NULL && (end->queues_all || end->sent % 2 == 0)) {
    status = store(wire, end->link, &frame, payload, is_lent, &outgoing);
    if (status == COLL_OK) wire->ops->queue(wire, end->link, outgoing);
  } else {
    status = wire->ops->send(wire, end->link, &frame, payload, is_lent);
  }
  end->sent++;
  KIT_REQUIRE(status == COLL_OK, "does not send: %s", base_last_error());
  return 0;
}

static int await(wire_end_t *end, uint64_t count, bool alone) {
  uint64_t deadline_ns = kit_deadline_ns();
  while (end->arrived < count) {
    uint64_t before = end->arrived;
    KIT_REQUIRE(base_clock_now_ns() < deadline_ns, "only %d of %d frames arrive", (int)end->arrived,
                (int)count);
    KIT_TRY(alone ? ends_serve(end) : ends_serve_both(end->pair));
    if (end->arrived > before) deadline_ns = kit_deadline_ns();
    kit_pause();
  }
  return 0;
}

int ends_await(wire_end_t *end, uint64_t count) {
  return await(end, count, false);
}

int ends_await_alone(wire_end_t *end, uint64_t count) {
  return await(end, count, true);
}

/* ---- life -----------------------------------------------------------------------------------*/

/* Of ranks 0 and `rank`. */
static int init(wire_pair_t *pair, const wire_fixture_t *fixture, ends_bytes_t bytes_of, int rank) {
  *pair = (wire_pair_t){.fixture = fixture,
                        .bytes_of = bytes_of,
                        .payload = malloc(fixture->bytes_max),
                        .place = calloc(1, fixture->bytes_max)};
  for (int i = 0; i < 2; i++) {
    pair->ends[i] =
        (wire_end_t){.pair = pair, .other = &pair->ends[1 - i], .link = i == 0 ? rank : 0};
  }
  KIT_REQUIRE(pair->payload != NULL && pair->place != NULL, "no memory");
  return 0;
}

static int open_end(wire_end_t *end, int rank) {
  coll_status_t status = end->pair->fixture->open(&end->wire);
  KIT_REQUIRE(status == COLL_OK, "does not open: %s", base_last_error());
  end->wire->owner_ops = &owner_ops;
  end->wire->owner = end;
  end->wire->rank = rank;
  end->wire->size = 3;
  return 0;
}

static int join(wire_pair_t *pair) {
  wire_t *const wires[2] = {pair->ends[0].wire, pair->ends[1].wire};
  if (pair->fixture->join != NULL) {
    KIT_REQUIRE(pair->fixture->join(wires), "the ends cannot be connected");
    return 0;
  }
  for (int i = 0; i < 2; i++) {
    coll_status_t status = wires[i]->ops->connect(wires[i], pair->ends[i].link);
    KIT_REQUIRE(status == COLL_OK, "does not connect: %s", base_last_error());
  }
  uint64_t deadline_ns = kit_deadline_ns();
  while (!pair->ends[0].is_ready || !pair->ends[1].is_ready) {
    KIT_REQUIRE(base_clock_now_ns() < deadline_ns, "the ends do not connect");
    KIT_TRY(ends_serve_both(pair));
    kit_pause();
  }
  return 0;
}

int ends_open(wire_pair_t *pair, const wire_fixture_t *fixture, ends_bytes_t bytes_of,
              bool is_joined) {
  KIT_TRY(init(pair, fixture, bytes_of, 1));
  KIT_TRY(open_end(&pair->ends[0], 0));
  KIT_TRY(open_end(&pair->ends[1], 1));
  return is_joined ? join(pair) : 0;
}

int ends_add(wire_pair_t *pair, const wire_pair_t *to) {
  KIT_TRY(init(pair, to->fixture, to->bytes_of, 2));
  pair->ends[0].wire = to->ends[0].wire;
  ((wire_end_t *)pair->ends[0].wire->owner)->next = &pair->ends[0];
  KIT_TRY(open_end(&pair->ends[1], 2));
  return join(pair);
}

static void close_wire(const wire_end_t *end) {
  wire_end_t *owner = end->wire->owner;
  if (owner == end) {
    end->wire->ops->destroy(end->wire);
  } else {
    end->wire->ops->disconnect(end->wire, end->link);
    owner->next = NULL;
  }
}

static void free_notes(wire_note_t *notes) {
  while (notes != NULL) {
    wire_note_t *first = notes;
    notes = first->next;
    free(first);
  }
}

void ends_close(wire_pair_t *pair) {
  for (int i = 0; i < 2; i++) {
    const wire_end_t *end = &pair->ends[i];
    if (end->wire != NULL) close_wire(end);
    free_notes(end->notes);
    free_notes(end->lent);
  }
  free(pair->payload);
  free(pair->place);
}

bool ends_is_unsent(const wire_end_t *end) {
  return end->wire->ops->is_unsent(end->wire, end->link);
}

int ends_run(const wire_fixture_t *fixture, ends_bytes_t bytes_of,
             int (*steps)(wire_pair_t *pair)) {
  wire_pair_t pair;
  int failed = ends_open(&pair, fixture, bytes_of, true);
  if (!failed) failed = steps(&pair);
  ends_close(&pair);
  return failed;
}

/* Owners of wires, and turns of both. */
#include "transport/net/wire/ends.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static wire_end_t *end_of(const wire_t *wire) {
  return wire->owner;
}

static void fail(wire_end_t *end, const char *what) {
  if (end->wrong == NULL) end->wrong = what;
}

static net_frame_t frame_of(const wire_pair_t *pair, uint64_t number) {
  return (net_frame_t){.kind = NET_MESSAGE,
                       .channel = (uint16_t)(number % 7),
                       .bytes = (uint32_t)pair->bytes_of(number, pair->fixture->bytes_max),
                       .messages_taken = (uint32_t)number * 3,
                       .signals_taken = (uint32_t)number * 5,
                       .number = (uint32_t)number,
                       .received = (uint32_t)number * 7,
                       .call = wire_id(number)};
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
  wire_end_t *end = end_of(wire);
  wire_note_t *made = malloc(sizeof *made + bytes), **last = &end->notes;
  if (made == NULL) return COLL_ERROR_MEMORY;
  if (bytes == 0 || bytes > WIRE_NOTE_BYTES) fail(end, "tells a note of no possible length");
  if (link != end->link) fail(end, "tells something to another link");
  *made = (wire_note_t){.bytes = bytes};
  memcpy(made->data, note, bytes);
  while (*last != NULL) last = &(*last)->next;
  *last = made;
  return COLL_OK;
}

static coll_status_t ready(wire_t *wire, int link) {
  wire_end_t *end = end_of(wire);
  if (link != end->link || end->is_ready) fail(end, "is ready twice, or on another link");
  end->is_ready = true;
  return COLL_OK;
}

static bool is_frame(wire_t *wire, int link, const net_frame_t *frame) {
  return link == end_of(wire)->link && frame->kind == NET_MESSAGE;
}

static char *find_place(wire_t *wire, int link, const net_frame_t *frame) {
  (void)link, (void)frame;
  return end_of(wire)->place;
}

static bool expects_long(wire_t *wire, int link) {
  (void)link;
  return end_of(wire)->place != NULL;
}

/* What is wrong about a frame that has arrived; NULL: nothing. */
static const char *check(const wire_end_t *end, int link, const net_frame_t *frame,
                         const wire_message_t *message, bool is_placed) {
  const net_frame_t expected = frame_of(end->pair, end->arrived);
  const char *payload = is_placed ? end->place : message != NULL ? message->data : NULL;
  if (end->is_lost) return "passes on what came after the loss";
  if (link != end->link) return "says that it came by another link";
  if (frame->number != expected.number) return "loses, repeats or reorders frames";
  if (memcmp(frame, &expected, sizeof expected) != 0) return "changes a frame";
  if (frame->bytes > 0 && payload == NULL) return "has no payload";
  if (message != NULL && message->bytes != frame->bytes) return "has a payload of another length";
  if (!wire_is(payload, end->arrived, frame->bytes)) return "changes a payload";
  return NULL;
}

static void disconnect(wire_end_t *end) {
  end->is_lost = true;
  end->wire->ops->disconnect(end->wire, end->link);
}

static coll_status_t arrived(wire_t *wire, int link, const net_frame_t *frame,
                             wire_message_t *message, bool is_placed) {
  wire_end_t *end = end_of(wire);
  if (frame->kind == ENDS_BAD_KIND) {
    end->error = EBADMSG;
    disconnect(end);
  } else {
    const char *wrong = check(end, link, frame, message, is_placed);
    if (wrong != NULL) fail(end, wrong);
    end->arrived++;
    end->placed += is_placed;
  }
  wire_message_release(message);
  return COLL_OK;
}

static coll_status_t store(wire_t *wire, int link, const net_frame_t *frame, const void *payload,
                           bool is_lent, wire_outgoing_t **outgoing) {
  wire_outgoing_t *made = malloc(sizeof *made + frame->bytes);
  (void)link, (void)is_lent;
  if (made == NULL) return COLL_ERROR_MEMORY;
  *made = (wire_outgoing_t){.payload = (char *)(made + 1), .frame = *frame};
  if (frame->bytes > 0) memcpy(made->payload, payload, frame->bytes);
  end_of(wire)->stored++;
  *outgoing = made;
  return COLL_OK;
}

static void unqueued(wire_t *wire, wire_outgoing_t *outgoing) {
  end_of(wire)->stored--;
  free(outgoing);
}

static void flushed(wire_t *wire, int link) {
  wire_end_t *end = end_of(wire);
  if (link != end->link || end->stored > 0) fail(end, "says that all is sent, which is not");
}

static void fetched(wire_t *wire) {
  (void)wire;
}

static void lost(wire_t *wire, int link, int error) {
  wire_end_t *end = end_of(wire);
  if (link != end->link || end->is_lost) fail(end, "loses a link twice, or another one");
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
    WIRE_REQUIRE(status == COLL_OK, "does not understand a note: %s", base_last_error());
  }
  return 0;
}

int ends_serve(wire_end_t *end) {
  wire_t *wire = end->wire;
  WIRE_TRY(pass_notes(end));
  if (wire->ops->flush != NULL) wire->ops->flush(wire, -1);
  coll_status_t status = wire->ops->progress(wire, end->link);
  WIRE_REQUIRE(status == COLL_OK, "progress fails: %s", base_last_error());
  WIRE_REQUIRE(end->wrong == NULL, "frame %d: the wire %s", (int)end->arrived, end->wrong);
  return 0;
}

int ends_serve_both(wire_pair_t *pair) {
  WIRE_TRY(ends_serve(&pair->ends[0]));
  return ends_serve(&pair->ends[1]);
}

int ends_send(wire_end_t *end) {
  wire_t *wire = end->wire;
  wire_pair_t *pair = end->pair;
  wire_outgoing_t *outgoing;
  const net_frame_t frame = frame_of(pair, end->sent);
  wire_fill(pair->payload, end->sent, frame.bytes);
  coll_status_t status = COLL_OK;
  if (wire->ops->queue != NULL && end->sent % 2 == 0) {
    status = store(wire, end->link, &frame, pair->payload, false, &outgoing);
    if (status == COLL_OK) wire->ops->queue(wire, end->link, outgoing);
  } else {
    status = wire->ops->send(wire, end->link, &frame, pair->payload, false);
  }
  end->sent++;
  WIRE_REQUIRE(status == COLL_OK, "does not send: %s", base_last_error());
  return 0;
}

int ends_await(wire_end_t *end, uint64_t count) {
  uint64_t deadline_ns = wire_deadline_ns();
  while (end->arrived < count) {
    WIRE_REQUIRE(base_clock_now_ns() < deadline_ns, "only %d of %d frames arrive",
                 (int)end->arrived, (int)count);
    WIRE_TRY(ends_serve_both(end->pair));
    wire_pause();
  }
  return 0;
}

/* ---- life -----------------------------------------------------------------------------------*/

static int open_end(wire_pair_t *pair, int rank) {
  wire_end_t *end = &pair->ends[rank];
  *end = (wire_end_t){.pair = pair, .other = &pair->ends[1 - rank], .link = 1 - rank};
  coll_status_t status = pair->fixture->open(&end->wire);
  WIRE_REQUIRE(status == COLL_OK, "does not open: %s", base_last_error());
  end->wire->owner_ops = &owner_ops;
  end->wire->owner = end;
  end->wire->rank = rank;
  end->wire->size = 2;
  return 0;
}

static int join(wire_pair_t *pair) {
  wire_t *const wires[2] = {pair->ends[0].wire, pair->ends[1].wire};
  if (pair->fixture->join != NULL) {
    WIRE_REQUIRE(pair->fixture->join(wires), "the ends cannot be connected");
    return 0;
  }
  for (int i = 0; i < 2; i++) {
    coll_status_t status = wires[i]->ops->connect(wires[i], 1 - i);
    WIRE_REQUIRE(status == COLL_OK, "does not connect: %s", base_last_error());
  }
  uint64_t deadline_ns = wire_deadline_ns();
  while (!pair->ends[0].is_ready || !pair->ends[1].is_ready) {
    WIRE_REQUIRE(base_clock_now_ns() < deadline_ns, "the ends do not connect");
    WIRE_TRY(ends_serve_both(pair));
    wire_pause();
  }
  return 0;
}

int ends_open(wire_pair_t *pair, const wire_fixture_t *fixture, ends_bytes_t bytes_of,
              bool is_joined) {
  *pair = (wire_pair_t){
      .fixture = fixture, .bytes_of = bytes_of, .payload = malloc(fixture->bytes_max)};
  WIRE_REQUIRE(pair->payload != NULL, "no memory");
  WIRE_TRY(open_end(pair, 0));
  WIRE_TRY(open_end(pair, 1));
  return is_joined ? join(pair) : 0;
}

void ends_close(wire_pair_t *pair) {
  for (int i = 0; i < 2; i++) {
    wire_end_t *end = &pair->ends[i];
    if (end->wire != NULL) end->wire->ops->destroy(end->wire);
    while (end->notes != NULL) {
      wire_note_t *first = end->notes;
      end->notes = first->next;
      free(first);
    }
  }
  free(pair->payload);
}

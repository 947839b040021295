/* The cases of wires that are given connections: places of payloads, and where a turn ends. */
#include <string.h>

#include "base/clock.h"
#include "transport/net/wire/ends.h"

/* The sockets hold the first two, and not all of the third one. */
static size_t two_short_ones(uint64_t number, size_t bytes_max) {
  const size_t sizes[] = {4096, 100};
  return number < 2 ? sizes[number] : bytes_max;
}

/* A frame behind one that has a place stays in the socket until the next turn. A payload that has
 * arrived in part moves. */
static int place_all(wire_pair_t *pair) {
  wire_end_t *from = &pair->ends[0], *to = &pair->ends[1];
  uint64_t deadline_ns = kit_deadline_ns();
  char *place = pair->place;
  if (to->wire->ops->leave_place == NULL) return 0;
  to->place = place;
  for (int i = 0; i < 3; i++) KIT_TRY(ends_send(from));
  for (uint64_t i = 1; i <= 2; i++) {
    while (to->arrived < i) {
      KIT_REQUIRE(base_clock_now_ns() < deadline_ns, "a payload that has a place does not arrive");
      KIT_TRY(ends_serve(to));
    }
    KIT_REQUIRE(to->placed == i && to->arrived == i, "goes on after a payload that has a place");
  }
  KIT_TRY(ends_serve(to)); /* begins the third one */
  KIT_REQUIRE(to->arrived == 2, "all fits into the sockets");
  to->place = NULL;
  coll_status_t status = to->wire->ops->leave_place(to->wire, to->link, place);
  KIT_REQUIRE(status == COLL_OK, "leaves no place: %s", base_last_error());
  memset(place, 0, pair->fixture->bytes_max);
  KIT_TRY(ends_await(to, 3));
  KIT_REQUIRE(kit_is_all(place, 0, pair->fixture->bytes_max), "writes to a place that it has left");
  KIT_REQUIRE(to->placed == 2, "says that a payload that has moved is at its place");
  return 0;
}

int wire_case_places(const wire_fixture_t *fixture) {
  return ends_run(fixture, two_short_ones, place_all);
}

static size_t with_empty_one(uint64_t number, size_t bytes_max) {
  (void)bytes_max;
  return number == 1 ? 0 : 4096;
}

/* When all have arrived, the read that ends the first payload also brings the empty frame, which
 * has no place. */
static int place_one(wire_pair_t *pair) {
  wire_end_t *from = &pair->ends[0], *to = &pair->ends[1];
  uint64_t deadline_ns = kit_deadline_ns();
  if (to->wire->ops->leave_place == NULL) return 0;
  to->place = pair->place;
  for (int i = 0; i < 3; i++) KIT_TRY(ends_send(from));
  while (ends_is_unsent(from) || to->arrived < 3) {
    uint64_t placed = to->placed;
    KIT_REQUIRE(base_clock_now_ns() < deadline_ns, "payloads that have a place do not arrive");
    KIT_TRY(ends_serve(ends_is_unsent(from) ? from : to));
    KIT_REQUIRE(to->placed <= placed + 1, "brings two payloads to their places in one turn");
  }
  KIT_REQUIRE(to->placed == 2, "brings %d of 2 payloads to their places", (int)to->placed);
  return 0;
}

int wire_case_places_one(const wire_fixture_t *fixture) {
  return ends_run(fixture, with_empty_one, place_one);
}

/* The sockets hold two of them. */
static size_t long_ones(uint64_t number, size_t bytes_max) {
  (void)number;
  return bytes_max < 9000 ? bytes_max : 9000;
}

static int pause_behind_each(wire_pair_t *pair) {
  wire_end_t *from = &pair->ends[0], *to = &pair->ends[1];
  uint64_t deadline_ns = kit_deadline_ns();
  if (to->wire->ops->leave_place == NULL) return 0;
  for (int i = 0; i < 2; i++) KIT_TRY(ends_send(from));
  while (ends_is_unsent(from) || to->arrived < 2) {
    uint64_t arrived = to->arrived;
    KIT_REQUIRE(base_clock_now_ns() < deadline_ns, "long payloads do not arrive");
    KIT_TRY(ends_serve(ends_is_unsent(from) ? from : to));
    KIT_REQUIRE(to->arrived <= arrived + 1, "brings two long payloads in one turn");
  }
  return 0;
}

int wire_case_pauses(const wire_fixture_t *fixture) {
  return ends_run(fixture, long_ones, pause_behind_each);
}

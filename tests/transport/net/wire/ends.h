/* The two ends of a wire under test, each with an owner that checks what arrives. */
#ifndef TESTS_TRANSPORT_NET_WIRE_ENDS_H
#define TESTS_TRANSPORT_NET_WIRE_ENDS_H

#include "transport/kit_steps.h"
#include "transport/net/wire/kit.h"

#define ENDS_BAD_KIND 99 /* of a frame that no owner accepts */

/* The length of the payload of frame `number`. */
typedef size_t (*ends_bytes_t)(uint64_t number, size_t bytes_max);

typedef struct wire_note {
  struct wire_note *next;
  size_t bytes;
  char data[];
} wire_note_t;

typedef struct wire_end {
  struct wire_pair *pair;
  struct wire_end *other;
  struct wire_end *next; /* of the same wire, at another link */
  wire_t *wire;
  int link;           /* to the other end */
  wire_note_t *notes; /* for the other end */
  wire_note_t *lent;  /* payloads that stay where they are */
  bool is_ready, is_lost;
  bool queues_all;        /* rather than every other frame */
  int error;              /* that the wire has lost the link for */
  uint64_t sent, arrived; /* frames; each has its number */
  char *place;            /* of payloads that are not empty; NULL: in messages */
  uint64_t placed, stored, flushed, fetched;
  const char *wrong; /* what the wire has done that it must not; NULL: nothing */
} wire_end_t;

typedef struct wire_pair {
  const wire_fixture_t *fixture;
  ends_bytes_t bytes_of;
  char *payload; /* [bytes_max], of the next frame */
  char *place;   /* [bytes_max], all zero, for cases that need one */
  wire_end_t ends[2];
} wire_pair_t;

/* Opens both ends, connected if is_joined. */
int ends_open(wire_pair_t *pair, const wire_fixture_t *fixture, ends_bytes_t bytes_of,
              bool is_joined);

/* Opens a pair whose first end is at the second link of the first wire of `to`, and connects it.
 * It is closed before `to`. */
int ends_add(wire_pair_t *pair, const wire_pair_t *to);
void ends_close(wire_pair_t *pair);

/* Runs steps between ends that are connected, and closes them. */
int ends_run(const wire_fixture_t *fixture, ends_bytes_t bytes_of, int (*steps)(wire_pair_t *pair));

/* One turn of an end: passes its notes on, sends and receives. */
int ends_serve(wire_end_t *end);
int ends_serve_both(wire_pair_t *pair);

/* Sends the next frame, by every slot that sends, and with payloads that are lent or not. */
int ends_send(wire_end_t *end);

/* Whether something that the end has sent has not reached the other's host. */
bool ends_is_unsent(const wire_end_t *end);

/* Serves both ends until an end has so many frames. Each has a time limit of its own. */
int ends_await(wire_end_t *end, uint64_t count);

/* The same; the other end makes no calls. */
int ends_await_alone(wire_end_t *end, uint64_t count);

#endif

/*
 * The conformance kit of wires (transport/net/wire/ops.h): the cases that every wire passes,
 * without the rest of the transport. A wire is done when it passes them, and those of
 * transport/kit.h with the transport above it. The two ends of a wire are in one process, and one
 * thread serves both, so that a case decides which of them makes progress.
 */
#ifndef TESTS_TRANSPORT_NET_WIRE_KIT_H
#define TESTS_TRANSPORT_NET_WIRE_KIT_H

#include "transport/net/wire/ops.h"

typedef struct wire_fixture {
  /* Opens one end. Its links are to ranks 0 to 2. */
  coll_status_t (*open)(wire_t **wire);

  /* Gives both ends a connection to each other, at the links that have the number of the other's
   * rank; NULL: they connect by notes. False: it cannot. The sockets hold so little that a payload
   * of bytes_max does not fit. */
  bool (*join)(wire_t *const ends[2]);

  size_t bytes_max; /* of a payload */

  /* The wire may never say that a peer is gone, which then only the socket of the pair shows. The
   * case `lost` is skipped. */
  bool keeps_gone_peers;
} wire_fixture_t;

/* A case opens and destroys its ends. Returns 0, or 1 after harness_fail. Skipped where the wire
 * has no such slots: returns 0. */
typedef int (*wire_case_t)(const wire_fixture_t *fixture);

int wire_case_connects(const wire_fixture_t *fixture); /* also if one end begins alone */
int wire_case_sizes(const wire_fixture_t *fixture);    /* payloads from none to the longest */
int wire_case_order(const wire_fixture_t *fixture);    /* both ways at the same time */
int wire_case_runs(const wire_fixture_t *fixture);     /* of equal lengths */
int wire_case_links(const wire_fixture_t *fixture);    /* two of one end */
int wire_case_full(const wire_fixture_t *fixture);     /* a peer that receives nothing yet */
int wire_case_holds(const wire_fixture_t *fixture);    /* the same, from when the sender may stop */
int wire_case_holds_parts(const wire_fixture_t *fixture); /* of a frame */
int wire_case_queues(const wire_fixture_t *fixture);      /* behind what waits */
int wire_case_wakes_receiver(const wire_fixture_t *fixture);
int wire_case_wakes_sender(const wire_fixture_t *fixture); /* that has stored something */
int wire_case_closes(const wire_fixture_t *fixture);       /* while something is unsent */
int wire_case_lost(const wire_fixture_t *fixture);         /* a peer that is gone */
int wire_case_places(const wire_fixture_t *fixture);       /* of payloads, and their end */
int wire_case_places_one(const wire_fixture_t *fixture);   /* payload in a turn */
int wire_case_pauses(const wire_fixture_t *fixture);       /* behind each long payload */
int wire_case_refuses(const wire_fixture_t *fixture);      /* what the peer may not send */
int wire_case_fetches(const wire_fixture_t *fixture);      /* also one that is stopped */

void wire_kit_run(const wire_fixture_t *fixture, wire_case_t body);

#define WIRE_KIT_CASE(suite, fixture, name)     \
  Test(suite, name) {                           \
    wire_kit_run(&(fixture), wire_case_##name); \
  }

#define WIRE_KIT(suite, fixture)                \
  WIRE_KIT_CASE(suite, fixture, connects)       \
  WIRE_KIT_CASE(suite, fixture, sizes)          \
  WIRE_KIT_CASE(suite, fixture, order)          \
  WIRE_KIT_CASE(suite, fixture, runs)           \
  WIRE_KIT_CASE(suite, fixture, links)          \
  WIRE_KIT_CASE(suite, fixture, full)           \
  WIRE_KIT_CASE(suite, fixture, holds)          \
  WIRE_KIT_CASE(suite, fixture, holds_parts)    \
  WIRE_KIT_CASE(suite, fixture, queues)         \
  WIRE_KIT_CASE(suite, fixture, wakes_receiver) \
  WIRE_KIT_CASE(suite, fixture, wakes_sender)   \
  WIRE_KIT_CASE(suite, fixture, closes)         \
  WIRE_KIT_CASE(suite, fixture, lost)           \
  WIRE_KIT_CASE(suite, fixture, places)         \
  WIRE_KIT_CASE(suite, fixture, places_one)     \
  WIRE_KIT_CASE(suite, fixture, pauses)         \
  WIRE_KIT_CASE(suite, fixture, refuses)        \
  WIRE_KIT_CASE(suite, fixture, fetches)

#endif

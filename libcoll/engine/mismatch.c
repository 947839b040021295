/* Creates the error message of mismatched calls. The history is subtracted from the counts that
 * were sent, and the two ends of a sendrecv are named as send and receive. */
#include "engine/mismatch.h"

/* A send and its receive share one identity; returns that of the end that this rank is. */
static flight_call_t half_of(flight_call_t id, int verb, int peer) {
  flight_words_t words = flight_call_words(id);
  words.verb = verb;
  words.root = peer;
  return flight_call_make(&words);
}

coll_status_t engine_mismatch(const engine_world_t *world, const engine_call_t *call,
                              flight_call_t own, int peer, flight_call_t found) {
  flight_seen_t here = {world->rank, flight_call_number(own), own};
  flight_seen_t there = {peer, flight_call_number(found), found};
  here.call.count -= call->history;
  there.call.count -= call->history;
  if (flight_call_words(own).verb == COLL_SENDRECV) {
    here.call = half_of(own, FLIGHT_RECV, peer);
    there.call = half_of(found, FLIGHT_SEND, world->rank);
  }
  return flight_mismatch(&here, &there);
}

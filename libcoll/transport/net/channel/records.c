/* Flight recorders: this rank's is sent to peers that wait for it, and theirs are kept. */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "transport/net/channel/state.h"

#define SAME_CLOCK_NS 1000000000 /* closer clocks are one, and the rest the message's time */

/* ---- sending --------------------------------------------------------------------------------*/

/* Word by word, because other threads may write to the recorder meanwhile. */
static void copy_recorder(const flight_recorder_t *from, flight_recorder_t *to) {
  const _Atomic uint64_t *words = (const _Atomic uint64_t *)(const void *)from;
  for (size_t i = 0; i < sizeof *from / sizeof *words; i++) {
    uint64_t word = atomic_load_explicit(&words[i], memory_order_relaxed);
    memcpy((char *)to + i * sizeof word, &word, sizeof word);
  }
}

void net_record_publish(net_peer_t *peer) {
  const net_frame_t frame = {.kind = NET_RECORD,
                             .bytes = sizeof(flight_recorder_t),
                             .call = {.count = base_clock_now_ns()}};
  flight_recorder_t copy;
  if (!net_pair_is_open(peer->pair)) return;
  peer->record_due = net_route_is_stored(peer);
  if (peer->record_due) return;
  copy_recorder(peer->all->published, &copy);
  (void)net_route_send(peer, &frame, &copy, false);
}

/* ---- arrival --------------------------------------------------------------------------------*/

coll_status_t net_record_find(net_peer_t *peer) {
  if (peer->recorder != NULL) return COLL_OK;
  return base_alloc(1, sizeof *peer->recorder, "a flight recorder", (void **)&peer->recorder);
}

static void shift(_Atomic uint64_t *ns, uint64_t by) {
  uint64_t old = atomic_load_explicit(ns, memory_order_relaxed);
  if (old != 0) atomic_store_explicit(ns, old + by, memory_order_relaxed);
}

/* Every host has a clock of its own. */
static void shift_clock(flight_recorder_t *recorder, uint64_t by) {
  shift(&recorder->wait.begin_ns, by);
  shift(&recorder->cross_wait.begin_ns, by);
  for (int i = 0; i < FLIGHT_ENTRIES; i++) {
    shift(&recorder->entries[i].wait_begin_ns, by);
    shift(&recorder->entries[i].wait_end_ns, by);
  }
}

/* Word by word, because other threads may read the recorder meanwhile. */
coll_status_t net_record_accept(net_peer_t *peer, uint64_t clock_ns, const char *payload) {
  COLL_TRY(net_record_find(peer));
  _Atomic uint64_t *words = (_Atomic uint64_t *)(void *)peer->recorder;
  for (size_t i = 0; i < sizeof *peer->recorder / sizeof *words; i++) {
    uint64_t word;
    memcpy(&word, payload + i * sizeof word, sizeof word);
    atomic_store_explicit(&words[i], word, memory_order_relaxed);
  }
  int64_t behind_ns = (int64_t)(base_clock_now_ns() - clock_ns);
  if (behind_ns > SAME_CLOCK_NS || behind_ns < -SAME_CLOCK_NS) {
    shift_clock(peer->recorder, (uint64_t)behind_ns);
  }
  return COLL_OK;
}

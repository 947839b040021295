/*
 * Holdback: a receiver holds messages back for a moment so that its sender gets ahead of it.
 *
 * A receiver that has caught up reads each descriptor as soon as it is written. It then waits for
 * the line to be transferred from the sender's core, and the sender waits to get back the lines
 * that the receiver read too early. Measured between two cores of a Zen 4 that share their L3:
 * 4-byte broadcasts in a row take 45 ns each if the receiver has caught up, 27 ns if the root is
 * well ahead.
 *
 * Condition: the receiver polls and finds nothing, and the peer sends a stream of messages without
 * replies. (A sender that gets replies waits for each reply and must not be delayed.) The next
 * message is then held back until more messages are behind it, or for at most SHM_HOLDBACK_POLLS
 * polls. Each attempt in which the sender does not get ahead doubles the interval to the next
 * attempt. After the temporal slipping of FastForward (Giacomoni, Moseley, Vachharajani, PPoPP
 * 2008).
 */
#ifndef TRANSPORT_SHM_HOLDBACK_H
#define TRANSPORT_SHM_HOLDBACK_H

#include <stdbool.h>
#include <stdint.h>

#define SHM_HOLDBACK_AFTER 8 /* messages in a row without a reply that make a stream */
/* Messages of at least this size gain nothing: the transfer of their payload takes longer than that
 * of the descriptor. */
#define SHM_HOLDBACK_BELOW_BYTES 2049u
#define SHM_HOLDBACK_POLLS 512 /* maximum; about 2 µs */
#define SHM_HOLDBACK_INTERVAL_MAX 1024

/* State of one ring, private to its receiver. */
typedef struct shm_holdback {
  bool caught_up;      /* the receiver polled for the next message before it was there */
  uint32_t polls_left; /* polls for which the next message is still held back; 0: not held back */
  uint32_t epoch; /* the receiver's epoch at the start of the holdback, which ends when the epoch
                     changes */
  uint32_t interval, countdown; /* number of misses from one attempt to the next, and those left */
} shm_holdback_t;

static inline void shm_holdback_init(shm_holdback_t *holdback) {
  *holdback = (shm_holdback_t){.interval = 1, .countdown = 1};
}

/* Called for the first poll that finds nothing. is_stream: the peer sends without replies. epoch:
 * see epoch_of in shm.c. */
static inline void shm_holdback_miss(shm_holdback_t *holdback, bool is_stream, uint32_t epoch) {
  holdback->caught_up = true;
  if (!is_stream || --holdback->countdown > 0) return;
  holdback->polls_left = SHM_HOLDBACK_POLLS;
  holdback->epoch = epoch;
}

/* Called once per poll during a holdback; returns whether to go on holding back. */
static inline bool shm_holdback_holds(shm_holdback_t *holdback, bool sender_is_ahead,
                                      uint32_t epoch) {
  if (!sender_is_ahead && epoch == holdback->epoch && --holdback->polls_left > 0) return true;
  uint32_t longer =
      holdback->interval < SHM_HOLDBACK_INTERVAL_MAX ? 2 * holdback->interval : holdback->interval;
  holdback->interval = holdback->countdown = sender_is_ahead ? 1 : longer;
  holdback->polls_left = 0;
  return false;
}

#endif

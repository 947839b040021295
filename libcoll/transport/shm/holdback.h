/*
 * How far a receiver stays behind its sender. One that has caught up takes each descriptor as soon
 * as it is written: it waits until the line has come from the other core, and the sender until it
 * has got back the lines that went there too soon. Between two cores of a Zen 4 that share their
 * last cache, broadcasts of 4 bytes in a row take 45 ns each; where the root is well ahead, 27.
 *
 * So a receiver that finds nothing, of a sender that sends message after message and is not
 * answered (who is, waits for an answer, and must not be kept waiting), slips: the next message is
 * held back until there are more behind it, for some looks at most. The more often that was in
 * vain, the seldomer it is tried. After the temporal slipping of FastForward (Giacomoni, Moseley,
 * Vachharajani, PPoPP 2008).
 */
#ifndef TRANSPORT_SHM_HOLDBACK_H
#define TRANSPORT_SHM_HOLDBACK_H

#include <stdbool.h>
#include <stdint.h>

#define SHM_HOLDBACK_AFTER 8 /* messages that were not answered */
/* Messages from here on have enough of their own to wait for. */
#define SHM_HOLDBACK_BELOW_BYTES 2049u
#define SHM_HOLDBACK_LOOKS 512 /* at most; some 2 µs */
#define SHM_HOLDBACK_PERIOD_MAX 1024

/* Of one ring, private to its receiver. */
typedef struct shm_holdback {
  bool late;            /* the next message was looked for before it was there */
  uint32_t looks;       /* left, for which the next message is held back; 0: it is not */
  uint32_t epoch;       /* of the receiver, when that began; in the next one it is over */
  uint32_t period, due; /* times that it catches up from one try to the next, and those left */
} shm_holdback_t;

static inline void shm_holdback_init(shm_holdback_t *slip) {
  *slip = (shm_holdback_t){.period = 1, .due = 1};
}

/* The first look that finds nothing. flows: the sender may be let get ahead of the receiver. */
static inline void shm_holdback_miss(shm_holdback_t *slip, bool flows, uint32_t epoch) {
  slip->late = true;
  if (!flows || --slip->due > 0) return;
  slip->looks = SHM_HOLDBACK_LOOKS;
  slip->epoch = epoch;
}

/* One of the looks. ahead: the sender has got ahead. */
static inline bool shm_holdback_holds(shm_holdback_t *slip, bool ahead, uint32_t epoch) {
  if (!ahead && epoch == slip->epoch && --slip->looks > 0) return true;
  uint32_t longer = slip->period < SHM_HOLDBACK_PERIOD_MAX ? 2 * slip->period : slip->period;
  slip->period = slip->due = ahead ? 1 : longer;
  slip->looks = 0;
  return false;
}

#endif

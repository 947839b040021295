/*
 * How far a receiver stays behind its sender. One that has caught up takes each letter as soon as
 * it is written: it waits until the line has come from the other core, and the sender until it has
 * got back the lines that went there too soon. Between two cores of a Zen 4 that share their last
 * cache, broadcasts of 4 bytes in a row take 45 ns each; where the root is well ahead, 27.
 *
 * So a receiver that finds nothing, of a sender that sends message after message and is not
 * answered (who is, waits for an answer, and must not be kept waiting), lets it get ahead: the next
 * message is held back until there are more behind it, for some looks at most. The more often that
 * was in vain, the seldomer it is tried.
 */
#ifndef TRANSPORT_SHM_LEAD_H
#define TRANSPORT_SHM_LEAD_H

#include <stdbool.h>
#include <stdint.h>

#define SHM_LEAD_AFTER 8 /* messages that were not answered */
/* Messages from here on have enough of their own to wait for. */
#define SHM_LEAD_BELOW_BYTES 2049u
#define SHM_LEAD_LOOKS 512 /* at most; some 2 µs */
#define SHM_LEAD_PERIOD_MOST 1024

/* Of one ring, private to its receiver. */
typedef struct shm_lead {
  bool late;            /* the next message was looked for before it was there */
  uint32_t looks;       /* left, for which the next message is held back; 0: it is not */
  uint32_t arms;        /* how often the receiver had been about to sleep when that began */
  uint32_t period, due; /* times that it catches up from one try to the next, and those left */
} shm_lead_t;

static inline void shm_lead_init(shm_lead_t *lead) {
  *lead = (shm_lead_t){.period = 1, .due = 1};
}

/* The first look that finds nothing. flows: the sender may be let get ahead. */
static inline void shm_lead_miss(shm_lead_t *lead, bool flows, uint32_t arms) {
  lead->late = true;
  if (!flows || --lead->due > 0) return;
  lead->looks = SHM_LEAD_LOOKS;
  lead->arms = arms;
}

/* One of the looks. ahead: the sender has got ahead. Whoever is about to sleep wants to know
 * whether anything is there at all. */
static inline bool shm_lead_holds(shm_lead_t *lead, bool ahead, uint32_t arms) {
  if (!ahead && arms == lead->arms && --lead->looks > 0) return true;
  uint32_t longer = lead->period < SHM_LEAD_PERIOD_MOST ? 2 * lead->period : lead->period;
  lead->period = lead->due = ahead ? 1 : longer;
  lead->looks = 0;
  return false;
}

#endif

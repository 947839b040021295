/*
 * Which way a sender stores payloads: into its caches, or past them to memory. To store a line that
 * the receiver has read, a core must have it taken from the receiver's caches. Where both share the
 * last cache that is done soon; from other cores it takes many times as long as to write the line
 * to memory, where the receiver finds it as quickly.
 *
 * Whether cores share a cache is not always told, and the cores of virtual machines move. So
 * senders find out: now and then they store a few payloads either way, and compare. The longer
 * nothing changes, the seldomer they try.
 */
#ifndef TRANSPORT_SHM_WAY_H
#define TRANSPORT_SHM_WAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/move.h"

typedef enum shm_way { SHM_BY_CACHE, SHM_BY_MEMORY, SHM_WAYS } shm_way_t;

#define SHM_WAY_BYTES_LEAST 2048                 /* shorter payloads all go by cache */
#define SHM_WAY_SAMPLES 6                        /* payloads that either way is judged by */
#define SHM_WAY_PERIOD_LEAST ((uint64_t)1 << 20) /* bytes from one trial to the next */
#define SHM_WAY_PERIOD_MOST ((uint64_t)64 << 20)

/* Of one ring, private to its sender. */
typedef struct shm_scout {
  shm_way_t way;        /* the better one by the latest trial */
  uint64_t period, due; /* bytes, and those left until the next trial; 0: it is under way */
  int samples[SHM_WAYS];
  uint64_t least[SHM_WAYS]; /* ns per MiB */
} shm_scout_t;

static inline void shm_scout_init(shm_scout_t *scout) {
  *scout = (shm_scout_t){.period = SHM_WAY_PERIOD_LEAST, .due = SHM_WAY_PERIOD_LEAST};
}

/* Of every payload of SHM_WAY_BYTES_LEAST and more: whether it is part of a trial. */
static inline bool shm_scout_tries(shm_scout_t *scout, size_t bytes) {
  if (!BASE_MOVES_PAST_CACHES) return false;
  scout->due = scout->due > bytes ? scout->due - bytes : 0;
  return scout->due == 0;
}

/* The way that a payload of a trial is to go; then, how long it took to be stored. */
shm_way_t shm_scout_next(const shm_scout_t *scout);
void shm_scout_note(shm_scout_t *scout, shm_way_t way, size_t bytes, uint64_t ns);

#endif

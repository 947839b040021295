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
#ifndef TRANSPORT_SHM_STORE_POLICY_H
#define TRANSPORT_SHM_STORE_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/move.h"

typedef enum shm_store { SHM_STORE_CACHED, SHM_STORE_NONTEMPORAL, SHM_STORE_COUNT } shm_store_t;

#define SHM_POLICY_BYTES_MIN 2048                 /* shorter payloads all go by cache */
#define SHM_POLICY_SAMPLES 6                      /* payloads that either way is judged by */
#define SHM_POLICY_PERIOD_MIN ((uint64_t)1 << 20) /* bytes from one trial to the next */
#define SHM_POLICY_PERIOD_MAX ((uint64_t)64 << 20)

/* Of one ring, private to its sender. */
typedef struct shm_policy {
  shm_store_t way;      /* the better one by the latest trial */
  uint64_t period, due; /* bytes, and those left until the next trial; 0: it is under way */
  int samples[SHM_STORE_COUNT];
  uint64_t least[SHM_STORE_COUNT]; /* ns per MiB */
} shm_policy_t;

static inline void shm_policy_init(shm_policy_t *policy) {
  *policy = (shm_policy_t){.period = SHM_POLICY_PERIOD_MIN, .due = SHM_POLICY_PERIOD_MIN};
}

/* Of every payload of SHM_POLICY_BYTES_MIN and more: whether it is part of a trial. */
static inline bool shm_policy_samples(shm_policy_t *policy, size_t bytes) {
  if (!BASE_MOVES_PAST_CACHES) return false;
  policy->due = policy->due > bytes ? policy->due - bytes : 0;
  return policy->due == 0;
}

/* The way that a payload of a trial is to go; then, how long it took to be stored. */
shm_store_t shm_policy_next(const shm_policy_t *policy);
void shm_policy_note(shm_policy_t *policy, shm_store_t way, size_t bytes, uint64_t ns);

#endif

/* In a trial payloads go either way in turn, so that both ways have the same sizes to store. */
#include "transport/shm/way.h"

/* Memory has to be so many times as fast to be taken. To senders that share the last cache with
 * their receivers it is as fast or so, and up to 5 times as fast once lines have gone that way, but
 * then it is the receivers that wait for memory; to others it is mostly 6 to 18 times. */
#define ADVANTAGE 5

shm_way_t shm_scout_next(const shm_scout_t *scout) {
  return scout->samples[SHM_BY_MEMORY] < scout->samples[SHM_BY_CACHE] ? SHM_BY_MEMORY
                                                                      : SHM_BY_CACHE;
}

/* Forgets the samples. */
static void end_trial(shm_scout_t *scout) {
  bool by_memory = scout->least[SHM_BY_MEMORY] < scout->least[SHM_BY_CACHE] / ADVANTAGE;
  shm_way_t better = by_memory ? SHM_BY_MEMORY : SHM_BY_CACHE;
  uint64_t longer = scout->period < SHM_WAY_PERIOD_MOST ? 2 * scout->period : scout->period;
  uint64_t period = better == scout->way ? longer : SHM_WAY_PERIOD_LEAST;
  *scout = (shm_scout_t){.way = better, .period = period, .due = period};
}

/* The least counts, as a thread may lose its core while it stores. */
void shm_scout_note(shm_scout_t *scout, shm_way_t way, size_t bytes, uint64_t ns) {
  uint64_t per_mib = (ns << 20) / bytes;
  if (scout->samples[way] == 0 || per_mib < scout->least[way]) scout->least[way] = per_mib;
  scout->samples[way]++;
  if (scout->samples[SHM_BY_MEMORY] == SHM_WAY_SAMPLES) end_trial(scout);
}

/* What this rank's kernel does, from the record that it writes (record.h); or what its copy engines
 * do, from the flags and what the host has launched. */
#include <stdlib.h>

#include "base/alloc.h"
#include "device/cuda/end_state.h"
#include "device/cuda/mismatch.h"

static uint64_t load(const uint64_t *word) {
  return __atomic_load_n(word, __ATOMIC_RELAXED);
}

bool cuda_end_has_captured(const cuda_end_t *end) {
  return end->has_captured;
}

/* The calls of the copy engines are numbered by the host, and their streams store how many have
 * begun and ended. */
static void find_past(const cuda_end_t *end, cuda_progress_t *progress) {
  const cuda_end_past_t *past = &end->past[progress->begun % CUDA_END_PAST];
  uint64_t before = __atomic_load_n(&past->number, __ATOMIC_ACQUIRE);
  progress->number = __atomic_load_n(&past->collective, __ATOMIC_ACQUIRE);
  progress->words.what = __atomic_load_n(&past->what, __ATOMIC_ACQUIRE);
  progress->words.count = __atomic_load_n(&past->count, __ATOMIC_ACQUIRE);
  uint64_t after = load(&past->number);
  bool is_whole = before == progress->begun && after == before && before > 0;
  progress->is_collective = is_whole && progress->number != UINT64_MAX;
}

/* The words are read one by one, while the kernel writes them: an entry is taken if its check fits,
 * and the rest may be of a moment earlier or later. */
void cuda_end_progress(const cuda_end_t *end, cuda_progress_t *progress) {
  const gpu_record_t *record = end->record;
  const gpu_entry_t *entry = &record->collective;
  uint64_t check = load(&entry->check);
  *progress = (cuda_progress_t){
      .ended = load(&record->ended),
      .begun = load(&record->begun),
      .number = load(&entry->number),
      .words = {.what = load(&entry->words.what),
                .count = load(&entry->words.count),
                .places = {load(&entry->words.places[0]), load(&entry->words.places[1])}}};
  if (end->copy != NULL) {
    find_past(end, progress);
    return;
  }
  progress->is_collective = check == gpu_entry_check(progress->number, progress->words) &&
                            progress->number == load(&record->collectives);
}

/* ---- peers -----------------------------------------------------------------------------------*/

/* Whether the copy engines wait for each peer: [size], which the caller frees. NULL: unknown. */
static bool *waits_of_copies(const cuda_end_t *end) {
  cuda_capture_mode_t mode;
  bool *waits;
  if (base_alloc((size_t)end->size, sizeof *waits, "ranks", (void **)&waits) != COLL_OK) {
    return NULL;
  }
  if (cuda_end_enter(end, &mode) == COLL_OK) {
    (void)cuda_copy_waits(end->copy, waits);
    cuda_end_leave(end, mode);
  }
  return waits;
}

static void add_waits_of_copies(const cuda_end_t *end, base_ranks_t *peers) {
  bool *waits = waits_of_copies(end);
  for (int peer = 0; waits != NULL && peer < end->size; peer++) {
    if (waits[peer]) base_ranks_add(peers, peer);
  }
  free(waits);
}

void cuda_end_waits(const cuda_end_t *end, base_ranks_t *peers) {
  if (end->copy != NULL) {
    add_waits_of_copies(end, peers);
    return;
  }
  const uint64_t *waits = gpu_record_waits(end->record);
  size_t count = (gpu_record_bytes(&end->room) - sizeof *end->record) / sizeof *waits;
  for (size_t i = 0; i < count; i++) {
    uint32_t peer = (uint32_t)load(&waits[i]);
    if (peer > 0 && peer <= (uint32_t)end->size) base_ranks_add(peers, (int)peer - 1);
  }
}

static bool copies_wait_for(const cuda_end_t *end, int peer) {
  bool *waits = waits_of_copies(end), is_waited_for = waits != NULL && waits[peer];
  free(waits);
  return is_waited_for;
}

bool cuda_end_waits_for(const cuda_end_t *end, int peer) {
  if (end->copy != NULL) return copies_wait_for(end, peer);
  const uint64_t *waits = gpu_record_waits(end->record);
  size_t count = (gpu_record_bytes(&end->room) - sizeof *end->record) / sizeof *waits;
  for (size_t i = 0; i < count; i++) {
    if ((uint32_t)load(&waits[i]) == (uint32_t)peer + 1) return true;
  }
  return false;
}

/* ---- waits that do not end -------------------------------------------------------------------*/

/* The number of times that the word of a block has been written since it waits for the peer; 0: it
 * does not, or not for long. */
static uint32_t polls_for(uint64_t word, int peer) {
  return (uint32_t)word == (uint32_t)peer + 1 ? (uint32_t)(word >> 32) : 0;
}

static bool find_wait(const cuda_end_t *end, int peer, cuda_seen_wait_t *seen) {
  const uint64_t *waits = gpu_record_waits(end->record);
  size_t count = (gpu_record_bytes(&end->room) - sizeof *end->record) / sizeof *waits;
  *seen = (cuda_seen_wait_t){0};
  for (size_t i = 0; i < count; i++) {
    uint32_t polls = polls_for(load(&waits[i]), peer);
    if (polls == 0) continue;
    *seen = (cuda_seen_wait_t){peer + 1, (int)i, polls};
    return true;
  }
  return false;
}

/* The first number that is seen to differ may be of polls before the last look; of the second, all
 * are after it. Then the message would have been found. A block that was not run by the device in
 * between, as other contexts or too many threads of the stand-in were, has not polled. */
bool cuda_end_waits_in_vain(const cuda_end_t *end, int peer, cuda_seen_wait_t *seen) {
  if (seen->peer != 0 && seen->peer != peer + 1) return false;
  if (end->copy != NULL) { /* the host knows what the peer has done */
    bool waited = seen->peer != 0, waits = cuda_end_waits_for(end, peer);
    *seen = (cuda_seen_wait_t){.peer = waits ? peer + 1 : 0};
    return waited && waits;
  }
  if (seen->peer != 0) {
    uint32_t polls = polls_for(load(&gpu_record_waits(end->record)[seen->block]), peer);
    if (polls >= seen->polls + 2) return true;
    if (polls >= seen->polls) return false;
  }
  (void)find_wait(end, peer, seen);
  return false;
}

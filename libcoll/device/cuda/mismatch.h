/*
 * Calls of ranks that do not match: how a rank reads the collectives that a peer keeps in its
 * arena, and what it reports to the host. All of it is off the path of calls that match.
 */
#ifndef DEVICE_CUDA_MISMATCH_H
#define DEVICE_CUDA_MISMATCH_H

#include "device/cuda/run.h"

#define GPU_ENTRY_POLLS 65536 /* for a peer whose blocks have sent before it has kept its call */

GPU_FUNCTION uint64_t gpu_entry_check(uint64_t number, gpu_words_t words) {
  return gpu_words_digest(number, words);
}

GPU_FUNCTION bool gpu_words_are(gpu_words_t a, gpu_words_t b) {
  uint64_t places = (a.places[0] ^ b.places[0]) | (a.places[1] ^ b.places[1]);
  return ((a.what ^ b.what) | (a.count ^ b.count) | places) == 0;
}

/* Words of different calls cannot be mistaken for one entry, as `check` would not fit. So no store
 * waits for another. */
GPU_FUNCTION void gpu_entry_write(gpu_entry_t *entry, uint64_t number, gpu_words_t words) {
  gpu_store_relaxed64(&entry->number, number);
  gpu_store_relaxed64(&entry->words.what, words.what);
  gpu_store_relaxed64(&entry->words.count, words.count);
  for (int i = 0; i < 2; i++) gpu_store_relaxed64(&entry->words.places[i], words.places[i]);
  gpu_store_relaxed64(&entry->check, gpu_entry_check(number, words));
}

/* Reads the collective of that number of the arena's owner. If it is not there, *entry is zero. */
GPU_LONG_FUNCTION bool gpu_entry_read(char *arena, uint64_t number, gpu_entry_t *entry) {
  const gpu_entry_t *from = gpu_arena_entry(arena, number);
  memset(entry, 0, sizeof *entry);
  gpu_words_t words;
  words.what = gpu_load_relaxed64(&from->words.what);
  words.count = gpu_load_relaxed64(&from->words.count);
  for (int i = 0; i < 2; i++) words.places[i] = gpu_load_relaxed64(&from->words.places[i]);
  uint64_t check = gpu_load_relaxed64(&from->check);
  if (gpu_load_relaxed64(&from->number) != number) return false;
  if (check != gpu_entry_check(number, words)) return false;
  entry->number = number;
  entry->words = words;
  entry->check = check;
  return true;
}

/* Its own current call a block knows also before block 0 has kept it. */
GPU_FUNCTION bool gpu_own_entry(const gpu_run_t *run, uint64_t number, gpu_entry_t *entry) {
  if (number < run->number) return gpu_entry_read(run->arena, number, entry);
  memset(entry, 0, sizeof *entry);
  if (run->call->identity == 0) return false;
  entry->number = number;
  entry->words = run->call->words;
  entry->check = gpu_entry_check(number, entry->words);
  return true;
}

/* The first collective that differs, up to the current one. */
GPU_FUNCTION bool gpu_find_difference(const gpu_run_t *run, char *peer, gpu_mismatch_t *found) {
  uint64_t last = run->number, number = last >= GPU_ENTRIES ? last - GPU_ENTRIES + 1 : 0;
  for (; number <= last; number++) {
    bool own = gpu_own_entry(run, number, &found->own);
    bool theirs = gpu_entry_read(peer, number, &found->theirs);
    if (own && theirs && !gpu_words_are(found->own.words, found->theirs.words)) return true;
  }
  return false;
}

/* Thread 0 of a block that ends early. Only the first block of the rank tells the host. */
GPU_FUNCTION void gpu_fail(const gpu_run_t *run, uint32_t why, const gpu_mismatch_t *mismatch) {
  const gpu_rank_t *rank = run->rank;
  if (gpu_increment(&gpu_arena_counters(run->arena)->failures) != 0) return;
  if (mismatch != NULL && rank->record != NULL) rank->record->mismatch = *mismatch;
  gpu_store_release32(rank->failed, why);
}

/* The flags: those that were compared, or 0. Blocks of the peer start in any order, so one may have
 * sent before block 0 has kept the call. */
GPU_LONG_FUNCTION void gpu_report_mismatch(const gpu_run_t *run, int32_t peer, uint64_t own_flag,
                                           uint64_t peer_flag) {
  char *arena = run->rank->arenas[peer];
  gpu_mismatch_t mismatch;
  memset(&mismatch, 0, sizeof mismatch);
  for (uint32_t polls = 0; !gpu_find_difference(run, arena, &mismatch); polls++) {
    if (mismatch.theirs.check != 0 || run->call->identity == 0 || polls >= GPU_ENTRY_POLLS) break;
    if (gpu_load_relaxed(run->rank->abort) != 0) break;
    gpu_pause();
  }
  mismatch.peer = (uint32_t)peer;
  mismatch.is_found = 1;
  mismatch.own_digest = own_flag >> GPU_COUNT_BITS;
  mismatch.peer_digest = peer_flag >> GPU_COUNT_BITS;
  gpu_fail(run, GPU_FAILED_MISMATCH, &mismatch);
}

#endif

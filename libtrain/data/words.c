/* Linear probing; a slot keeps half of the hash, so that few comparisons of bytes fail. */
#include "libtrain/data/words.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define SLOTS_LEAST 1024

/* Eight bytes at a time, each mixed in by a multiplication; the high half is the better one. */
static uint32_t hash_of(const uint8_t *word, size_t count) {
  const uint64_t odd = 0x9e3779b97f4a7c15u;
  uint64_t hash = count * odd, piece;
  for (; count >= sizeof piece; word += sizeof piece, count -= sizeof piece) {
    memcpy(&piece, word, sizeof piece);
    hash = (hash ^ piece) * odd;
    hash ^= hash >> 32;
  }
  piece = 0;
  for (size_t i = 0; i < count; i++) piece |= (uint64_t)word[i] << (8 * i);
  hash = (hash ^ piece) * odd;
  return (uint32_t)((hash ^ (hash >> 29)) * odd >> 32);
}

const uint8_t *train_words_at(const train_words_t *words, uint32_t number, size_t *count) {
  assert(number < words->count);
  uint64_t start = number > 0 ? words->ends[number - 1] : 0;
  *count = (size_t)(words->ends[number] - start);
  return words->bytes + start;
}

size_t train_words_bytes(const train_words_t *words) {
  return words->count > 0 ? (size_t)words->ends[words->count - 1] : 0;
}

/* The slot of the word, or the empty one that it would go to. */
static train_word_slot_t *slot_of(const train_words_t *words, const uint8_t *word, size_t count,
                                  uint32_t hash) {
  size_t mask = words->slot_count - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    train_word_slot_t *slot = &words->slots[at];
    if (slot->number == 0) return slot;
    if (slot->hash != hash) continue;
    size_t length;
    const uint8_t *other = train_words_at(words, slot->number - 1, &length);
    if (length == count && memcmp(other, word, count) == 0) return slot;
  }
}

uint32_t train_words_find(const train_words_t *words, const void *word, size_t count) {
  if (words->slot_count == 0) return TRAIN_WORD_NONE;
  const train_word_slot_t *slot = slot_of(words, word, count, hash_of(word, count));
  return slot->number > 0 ? slot->number - 1 : TRAIN_WORD_NONE;
}

static coll_status_t double_slots(train_words_t *words) {
  size_t wanted = words->slot_count > 0 ? 2 * words->slot_count : SLOTS_LEAST;
  void *memory;
  COLL_TRY(base_alloc(wanted, sizeof *words->slots, "a table of words", &memory));
  train_word_slot_t *slots = memory;
  for (size_t i = 0; i < words->slot_count; i++) {
    if (words->slots[i].number == 0) continue;
    size_t at = words->slots[i].hash & (wanted - 1);
    while (slots[at].number != 0) at = (at + 1) & (wanted - 1);
    slots[at] = words->slots[i];
  }
  free(words->slots);
  words->slots = slots;
  words->slot_count = wanted;
  return COLL_OK;
}

static coll_status_t append(train_words_t *words, const uint8_t *word, size_t count) {
  size_t used = train_words_bytes(words);
  void *bytes = words->bytes, *ends = words->ends;
  COLL_TRY(base_grow(&bytes, &words->byte_capacity, used + count, 1, "words"));
  words->bytes = bytes;
  COLL_TRY(base_grow(&ends, &words->end_capacity, words->count + 1, sizeof *words->ends, "words"));
  words->ends = ends;
  memcpy(words->bytes + used, word, count);
  words->ends[words->count++] = used + count;
  return COLL_OK;
}

coll_status_t train_words_add(train_words_t *words, const void *word, size_t count,
                              uint32_t *number) {
  if (2 * (words->count + 1) > words->slot_count) COLL_TRY(double_slots(words));
  uint32_t hash = hash_of(word, count);
  train_word_slot_t *slot = slot_of(words, word, count, hash);
  if (slot->number == 0) {
    if (words->count >= TRAIN_WORD_NONE - 1) {
      return base_fail(COLL_ERROR_UNSUPPORTED, "more than %zu different words", words->count);
    }
    COLL_TRY(append(words, word, count));
    *slot = (train_word_slot_t){hash, (uint32_t)words->count};
  }
  *number = slot->number - 1;
  return COLL_OK;
}

void train_words_free(train_words_t *words) {
  free(words->bytes);
  free(words->ends);
  free(words->slots);
  *words = (train_words_t){0};
}

/*
 * All words lie in one symbol array, separated by gaps. Every pair has a counter and a list of the
 * positions where it was seen. A merge visits these positions and updates the counters of the
 * adjacent pairs, so pairs are never recounted. Queue entries may hold outdated counts, which are
 * never lower than the current ones: a popped entry with an outdated count is pushed again with the
 * current one.
 */
#include "libtrain/data/bpe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "libtrain/data/byte_level.h"
#include "libtrain/data/pretokenize.h"

#define NONE UINT32_MAX
#define MIN_COUNT 2 /* a pair that occurs once is not merged */

typedef struct occurrence {
  uint32_t position, next;
} occurrence_t;

typedef struct counter {
  uint64_t count; /* in the text, including overlapping occurrences */
  uint32_t pair;
  uint32_t first, last; /* indexes into occurrences; NONE */
  uint32_t changed_by;  /* the latest merge that increased the count */
} counter_t;

typedef struct trainer {
  const train_word_counts_t *words;
  train_symbol_t *symbols; /* [position_count] */
  uint32_t *word_at;       /* [position_count] */
  size_t position_count;

  train_pair_map_t counter_index; /* from a pair to its counter */
  counter_t *counters;
  size_t counter_count, counter_capacity;
  occurrence_t *occurrences;
  size_t occurrence_count, occurrence_capacity;
  train_heap_t queue; /* keys are inverted counts, so the most frequent pair is first */

  uint32_t *changed; /* counters that the current merge increased */
  size_t changed_count, changed_capacity;

  train_string_table_t tokens;
  train_merge_t *merges;
  size_t merge_count, merge_capacity;
} trainer_t;

/* ---- words ---- */

coll_status_t train_word_counts_add(train_word_counts_t *counts, const void *text, size_t bytes) {
  const uint8_t *at = text;
  while (bytes > 0) {
    size_t length = train_pretokenize_next(at, bytes);
    size_t known = counts->words.count;
    uint32_t index;
    void *memory = counts->counts;
    COLL_TRY(base_grow(&memory, &counts->capacity, known + 1, sizeof *counts->counts,
                       "counts of words"));
    counts->counts = memory;
    COLL_TRY(train_string_table_add(&counts->words, at, length, &index));
    counts->counts[index] = index == known ? 1 : counts->counts[index] + 1;
    at += length;
    bytes -= length;
  }
  return COLL_OK;
}

void train_word_counts_free(train_word_counts_t *counts) {
  train_string_table_free(&counts->words);
  free(counts->counts);
  *counts = (train_word_counts_t){0};
}

/* ---- counting pairs ---- */

static coll_status_t counter_of(trainer_t *trainer, uint32_t pair, counter_t **counter) {
  uint32_t index = train_pair_map_find(&trainer->counter_index, pair);
  if (index == TRAIN_PAIR_NONE) {
    void *memory = trainer->counters;
    COLL_TRY(base_grow(&memory, &trainer->counter_capacity, trainer->counter_count + 1,
                       sizeof *trainer->counters, "counts of pairs"));
    trainer->counters = memory;
    index = (uint32_t)trainer->counter_count;
    COLL_TRY(train_pair_map_add(&trainer->counter_index, pair, index));
    trainer->counters[trainer->counter_count++] =
        (counter_t){.pair = pair, .first = NONE, .last = NONE, .changed_by = NONE};
  }
  *counter = &trainer->counters[index];
  return COLL_OK;
}

static coll_status_t add_occurrence(trainer_t *trainer, counter_t *counter, size_t position) {
  if (trainer->occurrence_count >= NONE) {
    return base_fail(COLL_ERROR_UNSUPPORTED, "too much text to train a tokenizer: use less");
  }
  void *memory = trainer->occurrences;
  COLL_TRY(base_grow(&memory, &trainer->occurrence_capacity, trainer->occurrence_count + 1,
                     sizeof *trainer->occurrences, "pair occurrences"));
  trainer->occurrences = memory;
  uint32_t index = (uint32_t)trainer->occurrence_count++;
  trainer->occurrences[index] = (occurrence_t){(uint32_t)position, NONE};
  if (counter->last != NONE) trainer->occurrences[counter->last].next = index;
  if (counter->first == NONE) counter->first = index;
  counter->last = index;
  return COLL_OK;
}

/* Adds an occurrence of the pair at `position`, found during merge number `merge`. */
static coll_status_t count_pair(trainer_t *trainer, uint32_t pair, size_t position,
                                uint32_t merge) {
  counter_t *counter;
  COLL_TRY(counter_of(trainer, pair, &counter));
  counter->count += trainer->words->counts[trainer->word_at[position]];
  if (counter->changed_by != merge) {
    void *memory = trainer->changed;
    COLL_TRY(base_grow(&memory, &trainer->changed_capacity, trainer->changed_count + 1,
                       sizeof *trainer->changed, "counts of pairs"));
    trainer->changed = memory;
    trainer->changed[trainer->changed_count++] = (uint32_t)(counter - trainer->counters);
    counter->changed_by = merge;
  }
  return add_occurrence(trainer, counter, position);
}

/* Removes the occurrence of the pair at `position`. */
static void discount_pair(trainer_t *trainer, uint32_t pair, size_t position) {
  uint32_t index = train_pair_map_find(&trainer->counter_index, pair);
  uint64_t times = trainer->words->counts[trainer->word_at[position]];
  assert(index != TRAIN_PAIR_NONE && trainer->counters[index].count >= times);
  trainer->counters[index].count -= times;
}

static coll_status_t queue_counter(trainer_t *trainer, uint32_t index) {
  const counter_t *counter = &trainer->counters[index];
  if (counter->count < MIN_COUNT) return COLL_OK;
  return train_heap_push(&trainer->queue, (train_heap_entry_t){.key = UINT64_MAX - counter->count,
                                                               .tie = counter->pair,
                                                               .value = index});
}

static coll_status_t queue_changed(trainer_t *trainer) {
  for (size_t i = 0; i < trainer->changed_count; i++) {
    COLL_TRY(queue_counter(trainer, trainer->changed[i]));
  }
  trainer->changed_count = 0;
  return COLL_OK;
}

/* ---- initialization ---- */

static coll_status_t build_symbols(trainer_t *trainer, const uint32_t byte_ids[256]) {
  const train_string_table_t *words = &trainer->words->words;
  trainer->position_count = 1 + train_string_table_bytes(words) + words->count;
  if (trainer->position_count >= NONE) {
    return base_fail(COLL_ERROR_UNSUPPORTED, "too much text to train a tokenizer: use less");
  }
  void *memory;
  COLL_TRY(base_alloc(trainer->position_count, sizeof *trainer->symbols, "words", &memory));
  trainer->symbols = memory;
  COLL_TRY(base_alloc(trainer->position_count, sizeof *trainer->word_at, "words", &memory));
  trainer->word_at = memory;
  size_t at = 0;
  trainer->symbols[at++] = (train_symbol_t){TRAIN_SYMBOL_NONE, 0};
  for (uint32_t word = 0; word < words->count; word++) {
    size_t length;
    const uint8_t *bytes = train_string_table_get(words, word, &length);
    for (size_t i = 0; i < length; i++, at++) {
      trainer->symbols[at] = (train_symbol_t){byte_ids[bytes[i]], 1};
      trainer->word_at[at] = word;
    }
    trainer->symbols[at++] = (train_symbol_t){TRAIN_SYMBOL_NONE, 0};
  }
  return COLL_OK;
}

static coll_status_t count_all_pairs(trainer_t *trainer) {
  const train_symbol_t *symbols = trainer->symbols;
  for (size_t at = 0; at + 1 < trainer->position_count; at++) {
    if (symbols[at].length == 0 || symbols[at + 1].length == 0) continue;
    uint32_t pair = train_pair_key(symbols[at].id, symbols[at + 1].id);
    COLL_TRY(count_pair(trainer, pair, at, 0));
  }
  return queue_changed(trainer);
}

static coll_status_t initialize(trainer_t *trainer) {
  uint8_t bytes[256];
  uint32_t byte_ids[256];
  train_byte_level_alphabet(bytes);
  for (int i = 0; i < 256; i++) {
    COLL_TRY(train_string_table_add(&trainer->tokens, &bytes[i], 1, &byte_ids[bytes[i]]));
  }
  COLL_TRY(build_symbols(trainer, byte_ids));
  return count_all_pairs(trainer);
}

/* ---- merging ---- */

/* The counter of the pair to merge next; NONE when no pair occurs twice. */
static coll_status_t most_frequent(trainer_t *trainer, uint32_t *index) {
  train_heap_entry_t entry;
  while (train_heap_pop(&trainer->queue, &entry)) {
    if (trainer->counters[entry.value].count == UINT64_MAX - entry.key) {
      *index = entry.value;
      return COLL_OK;
    }
    COLL_TRY(queue_counter(trainer, entry.value));
  }
  *index = NONE;
  return COLL_OK;
}

static coll_status_t merge_at(trainer_t *trainer, size_t at, const train_merge_t *merge,
                              uint32_t index) {
  train_symbol_t *symbols = trainer->symbols;
  if (symbols[at].id != merge->left) return COLL_OK;
  size_t right = at + symbols[at].length;
  if (symbols[right].id != merge->right) return COLL_OK;
  size_t before = at - symbols[at - 1].length, after = right + symbols[right].length;
  bool has_before = before != at, has_after = symbols[after].length != 0;
  if (has_before) discount_pair(trainer, train_pair_key(symbols[before].id, merge->left), at);
  if (has_after) discount_pair(trainer, train_pair_key(merge->right, symbols[after].id), at);
  train_symbols_merge(symbols, at, right, merge->result);
  if (has_before) {
    uint32_t pair = train_pair_key(symbols[before].id, merge->result);
    COLL_TRY(count_pair(trainer, pair, before, index));
  }
  if (has_after) {
    uint32_t pair = train_pair_key(merge->result, symbols[after].id);
    COLL_TRY(count_pair(trainer, pair, at, index));
  }
  return COLL_OK;
}

/* Adds the token that the pair merges to. It is always new: any other pair with the same bytes
 * would have been merged at these positions before. */
static coll_status_t add_token(trainer_t *trainer, uint32_t pair, train_merge_t *merge) {
  train_string_table_t *tokens = &trainer->tokens;
  size_t left, right, known = tokens->count;
  const uint8_t *first = train_string_table_get(tokens, pair >> 16, &left);
  const uint8_t *second = train_string_table_get(tokens, pair & 0xffff, &right);
  uint32_t id;
  void *both, *merges = trainer->merges;
  COLL_TRY(base_alloc(left + right, 1, "a token", &both));
  memcpy(both, first, left);
  memcpy((uint8_t *)both + left, second, right);
  coll_status_t status = train_string_table_add(tokens, both, left + right, &id);
  free(both);
  COLL_TRY(status);
  assert(id == known);
  *merge = (train_merge_t){(uint16_t)(pair >> 16), (uint16_t)pair, (uint16_t)id};
  COLL_TRY(base_grow(&merges, &trainer->merge_capacity, trainer->merge_count + 1, sizeof *merge,
                     "merges"));
  trainer->merges = merges;
  trainer->merges[trainer->merge_count++] = *merge;
  return COLL_OK;
}

/* Occurrences are visited in ascending position, so of "aaa" the first two descriptors are merged.
 */
static coll_status_t apply_merge(trainer_t *trainer, uint32_t index) {
  train_merge_t merge;
  COLL_TRY(add_token(trainer, trainer->counters[index].pair, &merge));
  uint32_t at = trainer->counters[index].first;
  for (; at != NONE; at = trainer->occurrences[at].next) {
    COLL_TRY(merge_at(trainer, trainer->occurrences[at].position, &merge,
                      (uint32_t)trainer->merge_count));
  }
  trainer->counters[index].count = 0;
  return queue_changed(trainer);
}

static coll_status_t merge_up_to(trainer_t *trainer, size_t tokens,
                                 const train_progress_t *progress) {
  size_t bytes = trainer->tokens.count;
  while (trainer->tokens.count < tokens) {
    uint32_t index;
    COLL_TRY(most_frequent(trainer, &index));
    if (index == NONE) break;
    COLL_TRY(apply_merge(trainer, index));
    train_progress_report(progress, (double)(trainer->tokens.count - bytes),
                          (double)(tokens - bytes));
  }
  return COLL_OK;
}

static void trainer_free(trainer_t *trainer) {
  train_string_table_free(&trainer->tokens);
  free(trainer->merges);
  free(trainer->changed);
  train_heap_free(&trainer->queue);
  free(trainer->occurrences);
  free(trainer->counters);
  train_pair_map_free(&trainer->counter_index);
  free(trainer->word_at);
  free(trainer->symbols);
}

coll_status_t train_bpe_learn(const train_word_counts_t *counts, int vocabulary,
                              const train_progress_t *progress, train_tokenizer_t **tokenizer) {
  if (vocabulary < TRAIN_VOCABULARY_MIN || vocabulary > TRAIN_VOCABULARY_MAX) {
    return base_fail(COLL_ERROR_INVALID, "the vocabulary size %d is out of range: give %d to %d",
                     vocabulary, TRAIN_VOCABULARY_MIN, TRAIN_VOCABULARY_MAX);
  }
  trainer_t trainer = {.words = counts};
  uint32_t end;
  coll_status_t status = initialize(&trainer);
  if (status == COLL_OK) status = merge_up_to(&trainer, (size_t)vocabulary - 1, progress);
  if (status == COLL_OK) {
    status = train_string_table_add(&trainer.tokens, TRAIN_END_TEXT, strlen(TRAIN_END_TEXT), &end);
  }
  if (status == COLL_OK) {
    status = train_tokenizer_create("the trained tokenizer", &trainer.tokens, trainer.merges,
                                    trainer.merge_count, tokenizer);
    if (status == COLL_OK) trainer.merges = NULL;
  }
  trainer_free(&trainer);
  return status;
}

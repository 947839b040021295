/*
 * All words lie in one array of symbols, with a gap before and after each. Every pair has a counter
 * and a list of the places where it has come up; a merge visits those places and corrects the
 * counters of the neighbours, so that nothing is ever counted again. The queue keeps old counts:
 * they are no lower than the new ones, and a pair that comes out with an old one goes back.
 */
#include "libtrain/data/bpe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "libtrain/data/spelling.h"
#include "libtrain/data/split.h"
#include "libtrain/data/tokenizer_parts.h"

#define NOWHERE UINT32_MAX
#define TWICE 2 /* a pair that occurs once is not worth a token */

typedef struct place {
  uint32_t position, next;
} place_t;

typedef struct counter {
  uint64_t count; /* over the text, overlapping ones too */
  uint32_t pair;
  uint32_t first, last; /* into places; NOWHERE */
  uint32_t grown_by;    /* the merge that last added to it */
} counter_t;

typedef struct learner {
  const train_word_counts_t *words;
  train_symbol_t *symbols; /* [position_count] */
  uint32_t *word_at;       /* [position_count] */
  size_t position_count;

  train_pairs_t numbers; /* from a pair to its counter */
  counter_t *counters;
  size_t counter_count, counter_capacity;
  place_t *places;
  size_t place_count, place_capacity;
  train_heap_t queue; /* keys are counts upside down */

  uint32_t *grown; /* counters that the merge under way has added to */
  size_t grown_count, grown_capacity;

  train_words_t tokens;
  train_merge_t *merges;
  size_t merge_count, merge_capacity;
} learner_t;

/* ---- words ---- */

coll_status_t train_word_counts_add(train_word_counts_t *counts, const void *text, size_t bytes) {
  const uint8_t *at = text;
  while (bytes > 0) {
    size_t length = train_split_next(at, bytes);
    size_t known = counts->words.count;
    uint32_t number;
    void *memory = counts->counts;
    COLL_TRY(base_grow(&memory, &counts->capacity, known + 1, sizeof *counts->counts,
                       "counts of words"));
    counts->counts = memory;
    COLL_TRY(train_words_add(&counts->words, at, length, &number));
    counts->counts[number] = number == known ? 1 : counts->counts[number] + 1;
    at += length;
    bytes -= length;
  }
  return COLL_OK;
}

void train_word_counts_free(train_word_counts_t *counts) {
  train_words_free(&counts->words);
  free(counts->counts);
  *counts = (train_word_counts_t){0};
}

/* ---- counting pairs ---- */

static coll_status_t counter_of(learner_t *learner, uint32_t pair, counter_t **counter) {
  uint32_t number = train_pairs_find(&learner->numbers, pair);
  if (number == TRAIN_PAIR_NONE) {
    void *memory = learner->counters;
    COLL_TRY(base_grow(&memory, &learner->counter_capacity, learner->counter_count + 1,
                       sizeof *learner->counters, "counts of pairs"));
    learner->counters = memory;
    number = (uint32_t)learner->counter_count;
    COLL_TRY(train_pairs_add(&learner->numbers, pair, number));
    learner->counters[learner->counter_count++] =
        (counter_t){.pair = pair, .first = NOWHERE, .last = NOWHERE, .grown_by = NOWHERE};
  }
  *counter = &learner->counters[number];
  return COLL_OK;
}

static coll_status_t note_place(learner_t *learner, counter_t *counter, size_t position) {
  if (learner->place_count >= NOWHERE) {
    return base_fail(COLL_ERROR_UNSUPPORTED, "too much text to learn a tokenizer from: take less");
  }
  void *memory = learner->places;
  COLL_TRY(base_grow(&memory, &learner->place_capacity, learner->place_count + 1,
                     sizeof *learner->places, "places of pairs"));
  learner->places = memory;
  uint32_t number = (uint32_t)learner->place_count++;
  learner->places[number] = (place_t){(uint32_t)position, NOWHERE};
  if (counter->last != NOWHERE) learner->places[counter->last].next = number;
  if (counter->first == NOWHERE) counter->first = number;
  counter->last = number;
  return COLL_OK;
}

/* The pair has come up at `position` during merge number `merge`. */
static coll_status_t count_pair(learner_t *learner, uint32_t pair, size_t position,
                                uint32_t merge) {
  counter_t *counter;
  COLL_TRY(counter_of(learner, pair, &counter));
  counter->count += learner->words->counts[learner->word_at[position]];
  if (counter->grown_by != merge) {
    void *memory = learner->grown;
    COLL_TRY(base_grow(&memory, &learner->grown_capacity, learner->grown_count + 1,
                       sizeof *learner->grown, "counts of pairs"));
    learner->grown = memory;
    learner->grown[learner->grown_count++] = (uint32_t)(counter - learner->counters);
    counter->grown_by = merge;
  }
  return note_place(learner, counter, position);
}

/* The pair at `position` is no more. */
static void discount_pair(learner_t *learner, uint32_t pair, size_t position) {
  uint32_t number = train_pairs_find(&learner->numbers, pair);
  uint64_t times = learner->words->counts[learner->word_at[position]];
  assert(number != TRAIN_PAIR_NONE && learner->counters[number].count >= times);
  learner->counters[number].count -= times;
}

static coll_status_t queue_counter(learner_t *learner, uint32_t number) {
  const counter_t *counter = &learner->counters[number];
  if (counter->count < TWICE) return COLL_OK;
  return train_heap_push(&learner->queue, (train_heap_entry_t){.key = UINT64_MAX - counter->count,
                                                               .tie = counter->pair,
                                                               .value = number});
}

static coll_status_t queue_grown(learner_t *learner) {
  for (size_t i = 0; i < learner->grown_count; i++) {
    COLL_TRY(queue_counter(learner, learner->grown[i]));
  }
  learner->grown_count = 0;
  return COLL_OK;
}

/* ---- setting up ---- */

static coll_status_t lay_out(learner_t *learner, const uint32_t byte_ids[256]) {
  const train_words_t *words = &learner->words->words;
  learner->position_count = 1 + train_words_bytes(words) + words->count;
  if (learner->position_count >= NOWHERE) {
    return base_fail(COLL_ERROR_UNSUPPORTED, "too much text to learn a tokenizer from: take less");
  }
  void *memory;
  COLL_TRY(base_alloc(learner->position_count, sizeof *learner->symbols, "words", &memory));
  learner->symbols = memory;
  COLL_TRY(base_alloc(learner->position_count, sizeof *learner->word_at, "words", &memory));
  learner->word_at = memory;
  size_t at = 0;
  learner->symbols[at++] = (train_symbol_t){TRAIN_SYMBOL_NONE, 0};
  for (uint32_t word = 0; word < words->count; word++) {
    size_t length;
    const uint8_t *bytes = train_words_at(words, word, &length);
    for (size_t i = 0; i < length; i++, at++) {
      learner->symbols[at] = (train_symbol_t){byte_ids[bytes[i]], 1};
      learner->word_at[at] = word;
    }
    learner->symbols[at++] = (train_symbol_t){TRAIN_SYMBOL_NONE, 0};
  }
  return COLL_OK;
}

static coll_status_t count_all(learner_t *learner) {
  const train_symbol_t *symbols = learner->symbols;
  for (size_t at = 0; at + 1 < learner->position_count; at++) {
    if (symbols[at].length == 0 || symbols[at + 1].length == 0) continue;
    uint32_t pair = train_pair(symbols[at].id, symbols[at + 1].id);
    COLL_TRY(count_pair(learner, pair, at, 0));
  }
  return queue_grown(learner);
}

static coll_status_t begin(learner_t *learner) {
  uint8_t bytes[256];
  uint32_t byte_ids[256];
  train_bytes_in_order(bytes);
  for (int i = 0; i < 256; i++) {
    COLL_TRY(train_words_add(&learner->tokens, &bytes[i], 1, &byte_ids[bytes[i]]));
  }
  COLL_TRY(lay_out(learner, byte_ids));
  return count_all(learner);
}

/* ---- merging ---- */

/* The counter of the pair to merge next; NOWHERE when none occurs twice. */
static coll_status_t most_frequent(learner_t *learner, uint32_t *number) {
  train_heap_entry_t entry;
  while (train_heap_pop(&learner->queue, &entry)) {
    if (learner->counters[entry.value].count == UINT64_MAX - entry.key) {
      *number = entry.value;
      return COLL_OK;
    }
    COLL_TRY(queue_counter(learner, entry.value));
  }
  *number = NOWHERE;
  return COLL_OK;
}

static coll_status_t merge_at(learner_t *learner, size_t at, const train_merge_t *merge,
                              uint32_t number) {
  train_symbol_t *symbols = learner->symbols;
  if (symbols[at].id != merge->left) return COLL_OK;
  size_t right = at + symbols[at].length;
  if (symbols[right].id != merge->right) return COLL_OK;
  size_t before = at - symbols[at - 1].length, after = right + symbols[right].length;
  bool has_before = before != at, has_after = symbols[after].length != 0;
  if (has_before) discount_pair(learner, train_pair(symbols[before].id, merge->left), at);
  if (has_after) discount_pair(learner, train_pair(merge->right, symbols[after].id), at);
  train_symbols_merge(symbols, at, right, merge->result);
  if (has_before) {
    uint32_t pair = train_pair(symbols[before].id, merge->result);
    COLL_TRY(count_pair(learner, pair, before, number));
  }
  if (has_after) {
    uint32_t pair = train_pair(merge->result, symbols[after].id);
    COLL_TRY(count_pair(learner, pair, at, number));
  }
  return COLL_OK;
}

/* The token that the pair becomes. It is a new one: where the same bytes had been merged from other
 * tokens, they would have been here too. */
static coll_status_t add_token(learner_t *learner, uint32_t pair, train_merge_t *merge) {
  train_words_t *tokens = &learner->tokens;
  size_t left, right, known = tokens->count;
  const uint8_t *first = train_words_at(tokens, pair >> 16, &left);
  const uint8_t *second = train_words_at(tokens, pair & 0xffff, &right);
  uint32_t id;
  void *both, *merges = learner->merges;
  COLL_TRY(base_alloc(left + right, 1, "a token", &both));
  memcpy(both, first, left);
  memcpy((uint8_t *)both + left, second, right);
  coll_status_t status = train_words_add(tokens, both, left + right, &id);
  free(both);
  COLL_TRY(status);
  assert(id == known);
  *merge = (train_merge_t){(uint16_t)(pair >> 16), (uint16_t)pair, (uint16_t)id};
  COLL_TRY(base_grow(&merges, &learner->merge_capacity, learner->merge_count + 1, sizeof *merge,
                     "merges"));
  learner->merges = merges;
  learner->merges[learner->merge_count++] = *merge;
  return COLL_OK;
}

/* Places are in the order of their positions, as each merge adds them: of "aaa" the first two
 * letters become one token. */
static coll_status_t apply(learner_t *learner, uint32_t number) {
  train_merge_t merge;
  COLL_TRY(add_token(learner, learner->counters[number].pair, &merge));
  uint32_t at = learner->counters[number].first;
  for (; at != NOWHERE; at = learner->places[at].next) {
    COLL_TRY(
        merge_at(learner, learner->places[at].position, &merge, (uint32_t)learner->merge_count));
  }
  learner->counters[number].count = 0;
  return queue_grown(learner);
}

static coll_status_t merge_up_to(learner_t *learner, size_t tokens, const train_watch_t *watch) {
  size_t bytes = learner->tokens.count;
  while (learner->tokens.count < tokens) {
    uint32_t number;
    COLL_TRY(most_frequent(learner, &number));
    if (number == NOWHERE) break;
    COLL_TRY(apply(learner, number));
    train_watch_advance(watch, (double)(learner->tokens.count - bytes), (double)(tokens - bytes));
  }
  return COLL_OK;
}

static void learner_free(learner_t *learner) {
  train_words_free(&learner->tokens);
  free(learner->merges);
  free(learner->grown);
  train_heap_free(&learner->queue);
  free(learner->places);
  free(learner->counters);
  train_pairs_free(&learner->numbers);
  free(learner->word_at);
  free(learner->symbols);
}

coll_status_t train_bpe_learn(const train_word_counts_t *counts, int vocabulary,
                              const train_watch_t *watch, train_tokenizer_t **tokenizer) {
  if (vocabulary < TRAIN_VOCABULARY_LEAST || vocabulary > TRAIN_VOCABULARY_MOST) {
    return base_fail(COLL_ERROR_INVALID, "a vocabulary of %d tokens: give %d to %d", vocabulary,
                     TRAIN_VOCABULARY_LEAST, TRAIN_VOCABULARY_MOST);
  }
  learner_t learner = {.words = counts};
  uint32_t end;
  coll_status_t status = begin(&learner);
  if (status == COLL_OK) status = merge_up_to(&learner, (size_t)vocabulary - 1, watch);
  if (status == COLL_OK) {
    status = train_words_add(&learner.tokens, TRAIN_END_TEXT, strlen(TRAIN_END_TEXT), &end);
  }
  if (status == COLL_OK) {
    status = train_tokenizer_assemble("the learned tokenizer", &learner.tokens, learner.merges,
                                      learner.merge_count, tokenizer);
    if (status == COLL_OK) learner.merges = NULL;
  }
  learner_free(&learner);
  return status;
}

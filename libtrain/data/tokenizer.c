/*
 * The merges of a word are popped from a queue ordered by rank and position. Text repeats its
 * words, so the encodings of most words come from a cache.
 */
#include "libtrain/data/tokenizer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "libtrain/common/random.h"
#include "libtrain/data/pretokenize.h"

/* Longer words, and words beyond this number, are not cached. */
#define CACHED_WORD_BYTES 64
#define CACHED_WORDS ((size_t)1 << 20)

void train_ids_free(train_ids_t *ids) {
  free(ids->ids);
  *ids = (train_ids_t){0};
}

static coll_status_t reserve(train_ids_t *ids, size_t count) {
  void *memory = ids->ids;
  COLL_TRY(base_grow(&memory, &ids->capacity, ids->count + count, sizeof *ids->ids, "tokens"));
  ids->ids = memory;
  return COLL_OK;
}

/* ---- construction ---- */

/* Sets merge->result to the id of the concatenated tokens. */
static coll_status_t find_result(const char *name, const train_string_table_t *tokens, size_t rank,
                                 train_merge_t *merge) {
  uint8_t both[512], *bytes = both;
  size_t left, right;
  const uint8_t *first = train_string_table_get(tokens, merge->left, &left);
  const uint8_t *second = train_string_table_get(tokens, merge->right, &right);
  void *memory = NULL;
  if (left + right > sizeof both) {
    COLL_TRY(base_alloc(left + right, 1, "a token", &memory));
    bytes = memory;
  }
  memcpy(bytes, first, left);
  memcpy(bytes + left, second, right);
  uint32_t result = train_string_table_find(tokens, bytes, left + right);
  free(memory);
  if (result == TRAIN_STRING_NONE) {
    return base_fail(
        COLL_ERROR_INVALID,
        "%s: merge %zu, of tokens %u and %u, gives a token that is not in the vocabulary", name,
        rank + 1, merge->left, merge->right);
  }
  merge->result = (uint16_t)result;
  return COLL_OK;
}

static coll_status_t rank_merges(const char *name, train_tokenizer_t *tokenizer) {
  for (size_t rank = 0; rank < tokenizer->merge_count; rank++) {
    train_merge_t *merge = &tokenizer->merges[rank];
    uint32_t pair = train_pair_key(merge->left, merge->right);
    uint32_t before = train_pair_map_find(&tokenizer->ranks, pair);
    if (before != TRAIN_PAIR_NONE) {
      return base_fail(COLL_ERROR_INVALID, "%s: merge %zu repeats merge %u", name, rank + 1,
                       before + 1);
    }
    COLL_TRY(find_result(name, &tokenizer->tokens, rank, merge));
    COLL_TRY(train_pair_map_add(&tokenizer->ranks, pair, (uint32_t)rank));
  }
  return COLL_OK;
}

static coll_status_t find_required_tokens(const char *name, train_tokenizer_t *tokenizer) {
  const train_string_table_t *tokens = &tokenizer->tokens;
  if (tokens->count > TRAIN_VOCABULARY_MAX) {
    return base_fail(COLL_ERROR_INVALID, "%s: %zu tokens; ids have 16 bits, so the maximum is %d",
                     name, tokens->count, TRAIN_VOCABULARY_MAX);
  }
  for (int i = 0; i < 256; i++) {
    uint8_t byte = (uint8_t)i;
    uint32_t id = train_string_table_find(tokens, &byte, 1);
    if (id == TRAIN_STRING_NONE) {
      return base_fail(COLL_ERROR_INVALID,
                       "%s: no token for the byte %d: not a byte-level tokenizer", name, i);
    }
    tokenizer->byte_ids[i] = (uint16_t)id;
  }
  uint32_t end = train_string_table_find(tokens, TRAIN_END_TEXT, strlen(TRAIN_END_TEXT));
  if (end == TRAIN_STRING_NONE) {
    return base_fail(COLL_ERROR_INVALID, "%s: no token " TRAIN_END_TEXT " to end documents with",
                     name);
  }
  tokenizer->end = (uint16_t)end;
  return COLL_OK;
}

static uint64_t digest_of(const train_tokenizer_t *tokenizer) {
  const train_string_table_t *tokens = &tokenizer->tokens;
  uint64_t digest = train_random_digest(0, tokens->ends, tokens->count * sizeof *tokens->ends);
  digest = train_random_digest(digest, tokens->bytes, train_string_table_bytes(tokens));
  return train_random_digest(digest, tokenizer->merges,
                             tokenizer->merge_count * sizeof *tokenizer->merges);
}

coll_status_t train_tokenizer_create(const char *name, train_string_table_t *tokens,
                                     train_merge_t *merges, size_t merge_count,
                                     train_tokenizer_t **tokenizer) {
  void *memory;
  COLL_TRY(base_alloc(1, sizeof(train_tokenizer_t), "a tokenizer", &memory));
  train_tokenizer_t *made = memory;
  made->tokens = *tokens;
  made->merges = merges;
  made->merge_count = merge_count;
  coll_status_t status = find_required_tokens(name, made);
  if (status == COLL_OK) status = rank_merges(name, made);
  if (status != COLL_OK) { /* the caller keeps tokens and merges */
    train_pair_map_free(&made->ranks);
    free(made);
    return status;
  }
  made->digest = digest_of(made);
  *tokens = (train_string_table_t){0};
  *tokenizer = made;
  return COLL_OK;
}

coll_status_t train_tokenizer_create_bytes(train_tokenizer_t **tokenizer) {
  train_string_table_t tokens = {0};
  uint32_t id;
  coll_status_t status = COLL_OK;
  for (int i = 0; status == COLL_OK && i < 256; i++) {
    uint8_t byte = (uint8_t)i;
    status = train_string_table_add(&tokens, &byte, 1, &id);
  }
  if (status == COLL_OK) {
    status = train_string_table_add(&tokens, TRAIN_END_TEXT, strlen(TRAIN_END_TEXT), &id);
  }
  if (status == COLL_OK) {
    status = train_tokenizer_create("the byte tokenizer", &tokens, NULL, 0, tokenizer);
  }
  train_string_table_free(&tokens);
  return status;
}

void train_tokenizer_destroy(train_tokenizer_t *tokenizer) {
  if (tokenizer == NULL) return;
  train_string_table_free(&tokenizer->encoder.words);
  train_ids_free(&tokenizer->encoder.ids);
  free(tokenizer->encoder.ends);
  free(tokenizer->encoder.symbols);
  train_heap_free(&tokenizer->encoder.heap);
  train_pair_map_free(&tokenizer->ranks);
  train_string_table_free(&tokenizer->tokens);
  free(tokenizer->merges);
  free(tokenizer);
}

/* ---- encoding ---- */

/* The rank of the merge of the token at `at` with the next one, which must exist. */
static uint32_t rank_at(const train_tokenizer_t *tokenizer, size_t at) {
  const train_symbol_t *symbols = tokenizer->encoder.symbols;
  return train_pair_map_find(&tokenizer->ranks,
                             train_pair_key(symbols[at].id, symbols[at + symbols[at].length].id));
}

static coll_status_t queue_merge(train_tokenizer_t *tokenizer, size_t at) {
  uint32_t rank = rank_at(tokenizer, at);
  if (rank == TRAIN_PAIR_NONE) return COLL_OK;
  return train_heap_push(&tokenizer->encoder.heap,
                         (train_heap_entry_t){.key = rank, .tie = (uint32_t)at});
}

static coll_status_t init_symbols(train_tokenizer_t *tokenizer, const uint8_t *word, size_t count) {
  void *memory = tokenizer->encoder.symbols;
  COLL_TRY(base_grow(&memory, &tokenizer->encoder.symbol_capacity, count, sizeof(train_symbol_t),
                     "a long word"));
  train_symbol_t *symbols = memory;
  tokenizer->encoder.symbols = symbols;
  for (size_t i = 0; i < count; i++) {
    symbols[i] = (train_symbol_t){tokenizer->byte_ids[word[i]], 1};
  }
  for (size_t i = 0; i + 1 < count; i++) COLL_TRY(queue_merge(tokenizer, i));
  return COLL_OK;
}

/* Applies all possible merges to the current word. An entry is outdated, and skipped, when its
 * tokens have been merged since it was queued. */
static coll_status_t merge_all(train_tokenizer_t *tokenizer, size_t count) {
  train_symbol_t *symbols = tokenizer->encoder.symbols;
  train_heap_entry_t entry;
  while (train_heap_pop(&tokenizer->encoder.heap, &entry)) {
    size_t left = entry.tie, right = left + symbols[left].length;
    if (symbols[left].id == TRAIN_SYMBOL_NONE || right >= count) continue;
    if (rank_at(tokenizer, left) != entry.key) continue;
    train_symbols_merge(symbols, left, right, tokenizer->merges[entry.key].result);
    if (left + symbols[left].length < count) COLL_TRY(queue_merge(tokenizer, left));
    if (left > 0) COLL_TRY(queue_merge(tokenizer, left - symbols[left - 1].length));
  }
  return COLL_OK;
}

static coll_status_t encode_uncached(train_tokenizer_t *tokenizer, const uint8_t *word,
                                     size_t count, train_ids_t *ids) {
  if (count > UINT32_MAX) {
    return base_fail(COLL_ERROR_UNSUPPORTED, "the text has a word of %zu bytes, which is too long",
                     count);
  }
  tokenizer->encoder.heap.count = 0;
  COLL_TRY(init_symbols(tokenizer, word, count));
  COLL_TRY(merge_all(tokenizer, count));
  COLL_TRY(reserve(ids, count));
  const train_symbol_t *symbols = tokenizer->encoder.symbols;
  for (size_t at = 0; at < count; at += symbols[at].length) {
    ids->ids[ids->count++] = (uint16_t)symbols[at].id;
  }
  return COLL_OK;
}

static coll_status_t append(train_ids_t *ids, const uint16_t *more, size_t count) {
  COLL_TRY(reserve(ids, count));
  for (size_t i = 0; i < count; i++) ids->ids[ids->count + i] = more[i];
  ids->count += count;
  return COLL_OK;
}

/* Allocates before it modifies anything, so that a failure leaves the cache consistent. */
static coll_status_t cache_word(train_tokenizer_t *tokenizer, const uint8_t *word, size_t count,
                                const uint16_t *ids, size_t id_count) {
  train_ids_t *cached = &tokenizer->encoder.ids;
  void *ends = tokenizer->encoder.ends;
  uint32_t index;
  COLL_TRY(base_grow(&ends, &tokenizer->encoder.end_capacity, tokenizer->encoder.words.count + 1,
                     sizeof(uint32_t), "cached words"));
  tokenizer->encoder.ends = ends;
  COLL_TRY(reserve(cached, id_count));
  COLL_TRY(train_string_table_add(&tokenizer->encoder.words, word, count, &index));
  COLL_TRY(append(cached, ids, id_count));
  tokenizer->encoder.ends[index] = (uint32_t)cached->count;
  return COLL_OK;
}

static coll_status_t encode_word(train_tokenizer_t *tokenizer, const uint8_t *word, size_t count,
                                 train_ids_t *ids) {
  if (count == 1) return append(ids, &tokenizer->byte_ids[word[0]], 1);
  if (count > CACHED_WORD_BYTES) return encode_uncached(tokenizer, word, count, ids);
  uint32_t index = train_string_table_find(&tokenizer->encoder.words, word, count);
  if (index != TRAIN_STRING_NONE) {
    uint32_t start = index > 0 ? tokenizer->encoder.ends[index - 1] : 0;
    return append(ids, tokenizer->encoder.ids.ids + start, tokenizer->encoder.ends[index] - start);
  }
  size_t before = ids->count;
  COLL_TRY(encode_uncached(tokenizer, word, count, ids));
  if (tokenizer->encoder.words.count >= CACHED_WORDS) return COLL_OK;
  return cache_word(tokenizer, word, count, ids->ids + before, ids->count - before);
}

coll_status_t train_tokenizer_encode(train_tokenizer_t *tokenizer, const void *text, size_t count,
                                     train_ids_t *ids) {
  const uint8_t *bytes = text;
  if (tokenizer->merge_count == 0) {
    COLL_TRY(reserve(ids, count));
    for (size_t i = 0; i < count; i++) ids->ids[ids->count++] = tokenizer->byte_ids[bytes[i]];
    return COLL_OK;
  }
  while (count > 0) {
    size_t length = train_pretokenize_next(bytes, count);
    COLL_TRY(encode_word(tokenizer, bytes, length, ids));
    bytes += length;
    count -= length;
  }
  return COLL_OK;
}

coll_status_t train_tokenizer_encode_document(train_tokenizer_t *tokenizer, const void *text,
                                              size_t count, train_ids_t *ids) {
  COLL_TRY(train_tokenizer_encode(tokenizer, text, count, ids));
  return append(ids, &tokenizer->end, 1);
}

const uint8_t *train_tokenizer_decode(const train_tokenizer_t *tokenizer, uint16_t id,
                                      size_t *count) {
  assert(id < tokenizer->tokens.count);
  return train_string_table_get(&tokenizer->tokens, id, count);
}

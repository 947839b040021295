/* The simplest implementation, with arrays of fixed size. */
#include "reference.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "libtrain/data/unicode.h"

#define MAX_BYTES 4096
#define MAX_TOKENS 1024

uint32_t reference_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33);
}

void reference_text(uint64_t *state, uint8_t *text, size_t count) {
  static const char *const pieces[] = {"a",
                                       "int",
                                       "zz",
                                       "E",
                                       "\xc3\xb6",
                                       "\xe6\x97\xa5",
                                       "\xd0\x96",
                                       "0",
                                       "42",
                                       "7",
                                       "\xc2\xbd",
                                       "\xd9\xa3",
                                       "+",
                                       "->",
                                       "_",
                                       "'",
                                       "'s",
                                       "'re",
                                       "'ll",
                                       "'d",
                                       "\"",
                                       " ",
                                       " ",
                                       "  ",
                                       "\t",
                                       "\n",
                                       "\r\n",
                                       "\xc2\xa0",
                                       "\v",
                                       "/*",
                                       "\f",
                                       "\xcc\x81",
                                       "\xe3\x80\x80",
                                       "\xf0\x9f\x91\x8d",
                                       "\xe2\x80\x8b",
                                       ";",
                                       "====",
                                       "x",
                                       "\xff",
                                       "\xc3",
                                       "\xed\xa0\x80",
                                       "\xf4\x90\x80\x80",
                                       "\x80",
                                       "\xe2\x82",
                                       "\xc0\xaf",
                                       "\xf0\x9d\x94\xb8",
                                       "\xe2\x80\xa8",
                                       "<|endoftext|>"};
  for (size_t at = 0; at < count;) {
    const char *piece = pieces[reference_random(state) % (sizeof pieces / sizeof pieces[0])];
    for (; *piece != '\0' && at < count; piece++) text[at++] = (uint8_t)*piece;
  }
}

void reference_letters(uint64_t *state, int descriptors, uint8_t *text, size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint32_t drawn = reference_random(state) % (uint32_t)(8 * descriptors + 1);
    text[i] = drawn == 0 ? ' ' : (uint8_t)('a' + drawn % (uint32_t)descriptors);
  }
}

/* ---- pre-tokenizer ---- */

typedef struct characters {
  train_class_t classes[MAX_BYTES];
  size_t starts[MAX_BYTES + 1];
  size_t count;
} characters_t;

static void read_characters(const uint8_t *text, size_t count, characters_t *read) {
  read->count = 0;
  for (size_t at = 0; at < count; read->count++) {
    read->starts[read->count] = at;
    at += train_unicode_next(text + at, count - at, &read->classes[read->count]);
  }
  read->starts[read->count] = count;
}

/* " ?X+": length of the longest match in characters, 0 for none. */
static size_t match_run(const uint8_t *text, const characters_t *read, train_class_t expected) {
  size_t first = text[0] == ' ' && read->classes[0] != expected ? 1 : 0, end = first;
  while (end < read->count && read->classes[end] == expected) end++;
  return end > first ? end : 0;
}

size_t reference_split(const uint8_t *text, size_t count) {
  static const char *const contractions[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
  static const train_class_t runs[] = {TRAIN_LETTER, TRAIN_NUMBER, TRAIN_OTHER};
  assert(count <= MAX_BYTES);
  for (int i = 0; i < 7; i++) {
    size_t length = strlen(contractions[i]);
    if (count >= length && memcmp(text, contractions[i], length) == 0) return length;
  }
  characters_t read;
  read_characters(text, count, &read);
  for (int i = 0; i < 3; i++) {
    size_t end = match_run(text, &read, runs[i]);
    if (end > 0) return read.starts[end];
  }
  size_t spaces = 0;
  while (spaces < read.count && read.classes[spaces] == TRAIN_SPACE) spaces++;
  for (size_t end = spaces; end > 0; end--) { /* \s+(?!\S), with backtracking */
    if (end == read.count || read.classes[end] == TRAIN_SPACE) return read.starts[end];
  }
  return read.starts[spaces];
}

/* ---- merges ---- */

/* Merges every left and right in the word from its beginning; returns its new length. */
static size_t merge_word(uint16_t *ids, size_t count, train_merge_t merge) {
  size_t length = 0;
  for (size_t i = 0; i < count; length++) {
    bool both = i + 1 < count && ids[i] == merge.left && ids[i + 1] == merge.right;
    ids[length] = both ? merge.result : ids[i];
    i += both ? 2 : 1;
  }
  return length;
}

size_t reference_encode(const train_tokenizer_t *tokenizer, const uint8_t *text, size_t count,
                        uint16_t *ids) {
  size_t total = 0;
  while (count > 0) {
    size_t bytes = reference_split(text, count), length = bytes;
    for (size_t i = 0; i < bytes; i++) ids[total + i] = tokenizer->byte_ids[text[i]];
    for (size_t rank = 0; rank < tokenizer->merge_count; rank++) {
      length = merge_word(ids + total, length, tokenizer->merges[rank]);
    }
    total += length;
    text += bytes;
    count -= bytes;
  }
  return total;
}

typedef struct corpus {
  uint16_t ids[MAX_BYTES];
  size_t starts[MAX_BYTES + 1], lengths[MAX_BYTES];
  size_t words;
  uint8_t tokens[MAX_TOKENS][64];
  size_t token_bytes[MAX_TOKENS], token_count;
} corpus_t;

static void read_corpus(const uint8_t *text, size_t count, const uint16_t byte_ids[256],
                        corpus_t *corpus) {
  *corpus = (corpus_t){.token_count = 256};
  for (int byte = 0; byte < 256; byte++) {
    corpus->tokens[byte_ids[byte]][0] = (uint8_t)byte;
    corpus->token_bytes[byte_ids[byte]] = 1;
  }
  for (size_t at = 0; at < count; corpus->words++) {
    corpus->starts[corpus->words] = at;
    corpus->lengths[corpus->words] = reference_split(text + at, count - at);
    at += corpus->lengths[corpus->words];
  }
  for (size_t i = 0; i < count; i++) corpus->ids[i] = byte_ids[text[i]];
}

/* The pair with the highest count, the lowest pair among equals; returns its count. */
static size_t best_pair(const corpus_t *corpus, train_merge_t *best) {
  static size_t counts[MAX_TOKENS][MAX_TOKENS];
  size_t highest = 0;
  memset(counts, 0, sizeof counts);
  for (size_t word = 0; word < corpus->words; word++) {
    const uint16_t *ids = corpus->ids + corpus->starts[word];
    for (size_t i = 0; i + 1 < corpus->lengths[word]; i++) counts[ids[i]][ids[i + 1]]++;
  }
  for (uint16_t left = 0; left < corpus->token_count; left++) {
    for (uint16_t right = 0; right < corpus->token_count; right++) {
      if (counts[left][right] <= highest) continue;
      highest = counts[left][right];
      *best = (train_merge_t){.left = left, .right = right};
    }
  }
  return highest;
}

/* The token of these bytes, added if it does not exist. */
static uint16_t token_of(corpus_t *corpus, train_merge_t merge) {
  uint8_t both[64];
  size_t left = corpus->token_bytes[merge.left], right = corpus->token_bytes[merge.right];
  assert(left + right <= sizeof both && corpus->token_count < MAX_TOKENS);
  memcpy(both, corpus->tokens[merge.left], left);
  memcpy(both + left, corpus->tokens[merge.right], right);
  for (uint16_t id = 0; id < corpus->token_count; id++) {
    if (corpus->token_bytes[id] == left + right &&
        memcmp(corpus->tokens[id], both, left + right) == 0) {
      return id;
    }
  }
  memcpy(corpus->tokens[corpus->token_count], both, left + right);
  corpus->token_bytes[corpus->token_count] = left + right;
  return (uint16_t)corpus->token_count++;
}

size_t reference_learn(const uint8_t *text, size_t count, size_t vocabulary,
                       const uint16_t byte_ids[256], train_merge_t *merges) {
  static corpus_t corpus;
  size_t merge_count = 0;
  assert(count <= MAX_BYTES);
  read_corpus(text, count, byte_ids, &corpus);
  while (corpus.token_count + 1 < vocabulary) {
    train_merge_t merge;
    if (best_pair(&corpus, &merge) < 2) break;
    merge.result = token_of(&corpus, merge);
    for (size_t word = 0; word < corpus.words; word++) {
      corpus.lengths[word] =
          merge_word(corpus.ids + corpus.starts[word], corpus.lengths[word], merge);
    }
    merges[merge_count++] = merge;
  }
  return merge_count;
}

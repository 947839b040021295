/*
 * Byte-level byte pair encoding (Sennrich, Haddow and Birch 2016; GPT-2's form of it): text is cut
 * into words (split.h), a word is its bytes, and the learned merges are applied in their order. Any
 * bytes can be encoded, and decode to themselves. Without merges the tokens are the bytes.
 */
#ifndef LIBTRAIN_DATA_TOKENIZER_H
#define LIBTRAIN_DATA_TOKENIZER_H

#include "libtrain/data/heap.h"
#include "libtrain/data/pairs.h"
#include "libtrain/data/symbols.h"
#include "libtrain/data/words.h"

/* What ends a document. Its token never comes out of text, not even out of these letters. */
#define TRAIN_END_TEXT "<|endoftext|>"

/* Every byte and the end; what 16 bits can tell apart. */
#define TRAIN_VOCABULARY_LEAST 257
#define TRAIN_VOCABULARY_MOST 65536

/* Growable; all zero is empty. Freed with train_ids_free. */
typedef struct train_ids {
  uint16_t *ids; /* [count] */
  size_t count, capacity;
} train_ids_t;

void train_ids_free(train_ids_t *ids);

typedef struct train_merge {
  uint16_t left, right, result;
} train_merge_t;

/* The fields are there to be read. Encoding uses the memory of `encoder`, so a tokenizer serves one
 * thread at a time. */
typedef struct train_tokenizer {
  train_words_t tokens; /* by id; tokens.count is the size of the vocabulary */
  uint16_t end;         /* the id of TRAIN_END_TEXT */
  uint16_t byte_ids[256];
  train_merge_t *merges; /* [merge_count], the first to apply first */
  size_t merge_count;
  train_pairs_t ranks; /* from two ids to the merge of them */
  uint64_t digest;     /* of tokens and merges: tokenizers with the same digest encode alike */
  struct {
    train_words_t words; /* met before, */
    train_ids_t ids;     /* what they were encoded to, one after the other, */
    uint32_t *ends;      /* and where that ends in ids */
    size_t end_capacity;
    train_symbol_t *symbols; /* of the word under way */
    size_t symbol_capacity;
    train_heap_t heap;
  } encoder;
} train_tokenizer_t;

/* The tokenizer of bytes: 257 tokens, byte b has the id b. */
coll_status_t train_tokenizer_create_bytes(train_tokenizer_t **tokenizer);

void train_tokenizer_destroy(train_tokenizer_t *tokenizer);

/* Appends the tokens of text[0..count) to ids. What is encoded in one call is cut into words as a
 * whole. On failure ids may have grown by some of them. */
coll_status_t train_tokenizer_encode(train_tokenizer_t *tokenizer, const void *text, size_t count,
                                     train_ids_t *ids);

/* Appends a document: its tokens and the end. */
coll_status_t train_tokenizer_encode_document(train_tokenizer_t *tokenizer, const void *text,
                                              size_t count, train_ids_t *ids);

/* What the token stands for, count bytes owned by the tokenizer; for the end it is its name.
 * id < tokens.count. */
const uint8_t *train_tokenizer_decode(const train_tokenizer_t *tokenizer, uint16_t id,
                                      size_t *count);

#endif

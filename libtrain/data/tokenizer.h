/*
 * GPT-2's byte-level byte pair encoding (Sennrich, Haddow and Birch 2016). Text is split into words
 * (pretokenize.h), a word starts as its bytes, and the learned merges are applied in rank order.
 * Any byte sequence can be encoded and decodes to itself. Without merges the tokens are the bytes.
 */
#ifndef LIBTRAIN_DATA_TOKENIZER_H
#define LIBTRAIN_DATA_TOKENIZER_H

#include "libtrain/data/heap.h"
#include "libtrain/data/pair_map.h"
#include "libtrain/data/string_table.h"
#include "libtrain/data/symbols.h"

/* Marks the end of a document. Encoding text never produces its token, even if the text contains
 * these characters. */
#define TRAIN_END_TEXT "<|endoftext|>"

/* All bytes and the end-of-document token; the range of a 16-bit id. */
#define TRAIN_VOCABULARY_MIN 257
#define TRAIN_VOCABULARY_MAX 65536

/* A growable array; all zero is empty. Freed with train_ids_free. */
typedef struct train_ids {
  uint16_t *ids; /* [count] */
  size_t count, capacity;
} train_ids_t;

void train_ids_free(train_ids_t *ids);

typedef struct train_merge {
  uint16_t left, right, result;
} train_merge_t;

/* Fields are read-only for callers. Encoding modifies `encoder`, so a tokenizer can be used by one
 * thread at a time. */
typedef struct train_tokenizer {
  train_string_table_t tokens; /* indexed by id; tokens.count is the vocabulary size */
  uint16_t end;                /* the id of TRAIN_END_TEXT */
  uint16_t byte_ids[256];
  train_merge_t *merges; /* [merge_count], in rank order */
  size_t merge_count;
  train_pair_map_t ranks; /* from a pair of ids to the rank of their merge */
  uint64_t digest;        /* of tokens and merges; equal digests mean equal encodings */
  struct {
    train_string_table_t words; /* cached words, */
    train_ids_t ids;            /* their encodings, concatenated, */
    uint32_t *ends;             /* and the end of each encoding in ids */
    size_t end_capacity;
    train_symbol_t *symbols; /* of the word being encoded */
    size_t symbol_capacity;
    train_heap_t heap;
  } encoder;
} train_tokenizer_t;

/* Creates a tokenizer from its tokens in the order of their ids and from merges whose left and
 * right are set. On success the tokenizer owns `merges` and the contents of *tokens, which becomes
 * empty. COLL_ERROR_INVALID begins with `name` and says what is inconsistent: more than 65536
 * tokens, no token for a byte or for the end of a document, a merge whose result is not a token, a
 * merge that occurs twice. */
coll_status_t train_tokenizer_create(const char *name, train_string_table_t *tokens,
                                     train_merge_t *merges, size_t merge_count,
                                     train_tokenizer_t **tokenizer);

/* The byte tokenizer: 257 tokens, byte b has id b. */
coll_status_t train_tokenizer_create_bytes(train_tokenizer_t **tokenizer);

void train_tokenizer_destroy(train_tokenizer_t *tokenizer);

/* Appends the tokens of text[0..count) to ids. The text of one call is split into words as a unit.
 * On failure some of the tokens may have been appended. */
coll_status_t train_tokenizer_encode(train_tokenizer_t *tokenizer, const void *text, size_t count,
                                     train_ids_t *ids);

/* Appends a document: its tokens and the end-of-document token. */
coll_status_t train_tokenizer_encode_document(train_tokenizer_t *tokenizer, const void *text,
                                              size_t count, train_ids_t *ids);

/* The bytes of a token, owned by the tokenizer; for the end-of-document token its name. id <
 * tokens.count. */
const uint8_t *train_tokenizer_decode(const train_tokenizer_t *tokenizer, uint16_t id,
                                      size_t *count);

#endif

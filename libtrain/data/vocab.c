/* A JSON object has no order, so tokens are sorted by id before they are added. */
#include "libtrain/data/vocab.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "libtrain/data/byte_level.h"

/* Longest part of a token that a message quotes. */
#define MESSAGE_LENGTH(length) (int)((length) < 40 ? (length) : 40)

/* ---- vocabulary ---- */

static coll_status_t sort_by_id(const char *name, const json_t *vocabulary, const char **by_id) {
  size_t count = json_object_size(vocabulary);
  const char *token;
  json_t *value;
  json_object_foreach((json_t *)vocabulary, token, value) {
    json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    if (id < 0 || (size_t)id >= count || by_id[id] != NULL) {
      return base_fail(COLL_ERROR_INVALID,
                       "%s: the id of token '%.40s' is %s; %zu tokens have the ids 0 to %zu", name,
                       token, json_is_integer(value) ? "a duplicate or too high" : "not a number",
                       count, count - 1);
    }
    by_id[id] = token;
  }
  return COLL_OK;
}

static coll_status_t add_token(const char *name, const char *token, uint8_t *bytes,
                               train_string_table_t *tokens) {
  size_t count;
  uint32_t id;
  if (!train_byte_level_decode(token, strlen(token), bytes, &count) || count == 0) {
    return base_fail(
        COLL_ERROR_INVALID,
        "%s: token '%.40s' is not in the byte-level alphabet: not a byte-level tokenizer", name,
        token);
  }
  return train_string_table_add(tokens, bytes, count, &id);
}

coll_status_t train_vocab_read(const char *name, const json_t *vocabulary,
                               train_string_table_t *tokens) {
  size_t count = json_object_size(vocabulary), longest = 0;
  if (count == 0 || count > TRAIN_VOCABULARY_MAX) {
    return base_fail(COLL_ERROR_INVALID, "%s: a vocabulary of %zu tokens; %d to %d are supported",
                     name, count, TRAIN_VOCABULARY_MIN, TRAIN_VOCABULARY_MAX);
  }
  void *memory, *bytes = NULL;
  COLL_TRY(base_alloc(count, sizeof(char *), "a vocabulary", &memory));
  const char **by_id = memory;
  coll_status_t status = sort_by_id(name, vocabulary, by_id);
  for (size_t i = 0; status == COLL_OK && i < count; i++) {
    if (strlen(by_id[i]) > longest) longest = strlen(by_id[i]);
  }
  if (status == COLL_OK) status = base_alloc(longest, 1, "a vocabulary", &bytes);
  for (size_t i = 0; status == COLL_OK && i < count; i++) {
    status = add_token(name, by_id[i], bytes, tokens);
  }
  free(bytes);
  free(memory);
  return status;
}

/* Writes the token into text[]; returns the end. */
static char *write_token(const train_tokenizer_t *tokenizer, uint16_t id, char *text) {
  size_t count;
  const uint8_t *bytes = train_tokenizer_decode(tokenizer, id, &count);
  return text + train_byte_level_encode(bytes, count, text);
}

static size_t longest_token(const train_tokenizer_t *tokenizer) {
  size_t longest = 0, count;
  for (uint32_t id = 0; id < tokenizer->tokens.count; id++) {
    train_string_table_get(&tokenizer->tokens, id, &count);
    if (count > longest) longest = count;
  }
  return longest;
}

json_t *train_vocab_to_json(const train_tokenizer_t *tokenizer) {
  char *text = malloc(TRAIN_BYTE_LEVEL_MAX * longest_token(tokenizer) + 1);
  json_t *vocabulary = json_object();
  bool complete = text != NULL && vocabulary != NULL;
  for (size_t id = 0; complete && id < tokenizer->tokens.count; id++) {
    *write_token(tokenizer, (uint16_t)id, text) = '\0';
    complete = json_object_set_new(vocabulary, text, json_integer((json_int_t)id)) == 0;
  }
  free(text);
  if (complete) return vocabulary;
  json_decref(vocabulary);
  return NULL;
}

/* ---- merges ---- */

static coll_status_t find_token(const char *name, const train_string_table_t *tokens,
                                const char *text, size_t length, size_t rank, uint16_t *id) {
  uint8_t small[256], *bytes = small;
  void *memory = NULL;
  size_t count;
  if (length > sizeof small) {
    COLL_TRY(base_alloc(length, 1, "a token", &memory));
    bytes = memory;
  }
  uint32_t found = TRAIN_STRING_NONE;
  if (train_byte_level_decode(text, length, bytes, &count))
    found = train_string_table_find(tokens, bytes, count);
  free(memory);
  if (found == TRAIN_STRING_NONE) {
    return base_fail(COLL_ERROR_INVALID, "%s: merge %zu contains '%.*s', which is not a token",
                     name, rank + 1, MESSAGE_LENGTH(length), text);
  }
  *id = (uint16_t)found;
  return COLL_OK;
}

coll_status_t train_vocab_read_merge(const char *name, const train_string_table_t *tokens,
                                     const char *left, size_t left_length, const char *right,
                                     size_t right_length, train_merge_list_t *list) {
  train_merge_t merge = {0};
  void *memory = list->merges;
  COLL_TRY(find_token(name, tokens, left, left_length, list->count, &merge.left));
  COLL_TRY(find_token(name, tokens, right, right_length, list->count, &merge.right));
  COLL_TRY(base_grow(&memory, &list->capacity, list->count + 1, sizeof merge, "merges"));
  list->merges = memory;
  list->merges[list->count++] = merge;
  return COLL_OK;
}

coll_status_t train_vocab_read_merge_line(const char *name, const train_string_table_t *tokens,
                                          const char *line, size_t length,
                                          train_merge_list_t *list) {
  const char *space = memchr(line, ' ', length);
  size_t left = space != NULL ? (size_t)(space - line) : length;
  if (space == NULL || memchr(space + 1, ' ', length - left - 1) != NULL) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s: merge %zu, '%.*s', is not two tokens separated by a space", name,
                     list->count + 1, MESSAGE_LENGTH(length), line);
  }
  return train_vocab_read_merge(name, tokens, line, left, space + 1, length - left - 1, list);
}

coll_status_t train_vocab_merge_line(const train_tokenizer_t *tokenizer, size_t rank, char **line) {
  const train_merge_t *merge = &tokenizer->merges[rank];
  size_t left, right;
  void *memory;
  train_tokenizer_decode(tokenizer, merge->left, &left);
  train_tokenizer_decode(tokenizer, merge->right, &right);
  COLL_TRY(base_alloc(TRAIN_BYTE_LEVEL_MAX * (left + right) + 2, 1, "a merge", &memory));
  *line = memory;
  char *end = write_token(tokenizer, merge->left, *line);
  *end = ' ';
  *write_token(tokenizer, merge->right, end + 1) = '\0';
  return COLL_OK;
}

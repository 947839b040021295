/*
 * Reads and writes Hugging Face's tokenizer.json with jansson. Anything in it that would change the
 * ids is rejected; fields for truncation, padding and offsets are ignored.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/data/tokenizer_files.h"
#include "libtrain/data/vocab.h"

/* ---- reading ---- */

static bool is_nothing(const json_t *value) {
  return value == NULL || json_is_null(value) || json_is_false(value) ||
         (json_is_string(value) && json_string_length(value) == 0) ||
         (json_is_number(value) && json_number_value(value) == 0);
}

static bool is_text(const json_t *value, const char *text) {
  return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

static coll_status_t check_pipeline(const char *name, const json_t *root) {
  const json_t *pre = json_object_get(root, "pre_tokenizer");
  if (!is_nothing(json_object_get(root, "normalizer"))) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s has a normalizer, so that decoding would not restore the text; only "
                     "tokenizers without one are supported",
                     name);
  }
  const json_t *regex = json_object_get(pre, "use_regex");
  if (!is_text(json_object_get(pre, "type"), "ByteLevel") || json_is_false(regex) ||
      json_is_true(json_object_get(pre, "add_prefix_space"))) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s does not split text into words as GPT-2 does (ByteLevel with its regex "
                     "and without a prefix space): other pre-tokenizers are not supported",
                     name);
  }
  return COLL_OK;
}

static coll_status_t check_model(const char *name, const json_t *model) {
  static const char *const foreign[] = {"dropout", "continuing_subword_prefix",
                                        "end_of_word_suffix", "byte_fallback", "ignore_merges"};
  const json_t *type = json_object_get(model, "type");
  if (type != NULL && !is_text(type, "BPE")) {
    return base_fail(COLL_ERROR_INVALID, "%s: its model is %s, not BPE", name,
                     json_is_string(type) ? json_string_value(type) : "none");
  }
  for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
    if (!is_nothing(json_object_get(model, foreign[i]))) {
      return base_fail(COLL_ERROR_INVALID, "%s: its model has %s, which is not supported", name,
                       foreign[i]);
    }
  }
  if (json_is_object(json_object_get(model, "vocab")) &&
      json_is_array(json_object_get(model, "merges"))) {
    return COLL_OK;
  }
  return base_fail(COLL_ERROR_INVALID, "%s: its model has no vocab and merges", name);
}

/* Adds <|endoftext|> to the vocabulary when only added_tokens lists it. Any other added token is
 * rejected: it would be matched in the text before pre-tokenization. */
static coll_status_t check_added_tokens(const char *name, const json_t *root, json_t *vocabulary) {
  const json_t *added = json_object_get(root, "added_tokens");
  for (size_t i = 0; i < json_array_size(added); i++) {
    const json_t *content = json_object_get(json_array_get(added, i), "content");
    const json_t *id = json_object_get(json_array_get(added, i), "id");
    if (!is_text(content, TRAIN_END_TEXT) || !json_is_integer(id)) {
      return base_fail(COLL_ERROR_INVALID,
                       "%s has the added token '%.40s': only " TRAIN_END_TEXT " is supported", name,
                       json_is_string(content) ? json_string_value(content) : "");
    }
    if (json_object_set(vocabulary, TRAIN_END_TEXT, (json_t *)id) != 0) {
      return base_fail(COLL_ERROR_MEMORY, "out of memory for %s", name);
    }
  }
  return COLL_OK;
}

/* A merge is "left right" or, since 2024, ["left", "right"]. */
static coll_status_t read_merges(const char *name, const json_t *merges,
                                 const train_string_table_t *tokens, train_merge_list_t *list) {
  for (size_t i = 0; i < json_array_size(merges); i++) {
    const json_t *merge = json_array_get(merges, i);
    const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
    if (json_is_string(merge)) {
      COLL_TRY(train_vocab_read_merge_line(name, tokens, json_string_value(merge),
                                           json_string_length(merge), list));
    } else if (json_array_size(merge) == 2 && json_is_string(left) && json_is_string(right)) {
      COLL_TRY(train_vocab_read_merge(name, tokens, json_string_value(left),
                                      json_string_length(left), json_string_value(right),
                                      json_string_length(right), list));
    } else {
      return base_fail(COLL_ERROR_INVALID, "%s: merge %zu is not two tokens", name, i + 1);
    }
  }
  return COLL_OK;
}

static coll_status_t from_root(const char *name, const json_t *root,
                               train_tokenizer_t **tokenizer) {
  const json_t *model = json_object_get(root, "model");
  if (!json_is_object(model)) {
    return base_fail(COLL_ERROR_INVALID,
                     "%s is not a tokenizer.json: it has no \"model\" (for vocab.json and "
                     "merges.txt give their folder)",
                     name);
  }
  COLL_TRY(check_model(name, model));
  COLL_TRY(check_pipeline(name, root));
  train_string_table_t tokens = {0};
  train_merge_list_t list = {0};
  json_t *vocabulary = json_object_get(model, "vocab");
  coll_status_t status = check_added_tokens(name, root, vocabulary);
  if (status == COLL_OK) status = train_vocab_read(name, vocabulary, &tokens);
  if (status == COLL_OK) {
    status = read_merges(name, json_object_get(model, "merges"), &tokens, &list);
  }
  if (status == COLL_OK) {
    status = train_tokenizer_create(name, &tokens, list.merges, list.count, tokenizer);
  }
  if (status != COLL_OK) free(list.merges);
  train_string_table_free(&tokens);
  return status;
}

coll_status_t train_tokenizer_from_json(const char *name, const char *text, size_t count,
                                        train_tokenizer_t **tokenizer) {
  json_error_t error;
  json_t *root = json_loadb(text, count, JSON_REJECT_DUPLICATES, &error);
  if (root == NULL) {
    return base_fail(COLL_ERROR_INVALID, "%s is not a tokenizer: line %d: %s", name, error.line,
                     error.text);
  }
  coll_status_t status = from_root(name, root, tokenizer);
  json_decref(root);
  return status;
}

/* ---- writing ---- */

static json_t *merges_of(const train_tokenizer_t *tokenizer) {
  json_t *merges = json_array();
  for (size_t rank = 0; merges != NULL && rank < tokenizer->merge_count; rank++) {
    char *line = NULL;
    bool added = train_vocab_merge_line(tokenizer, rank, &line) == COLL_OK &&
                 json_array_append_new(merges, json_string(line)) == 0;
    free(line);
    if (added) continue;
    json_decref(merges);
    return NULL;
  }
  return merges;
}

static json_t *byte_level(bool add_prefix_space, bool trim_offsets) {
  return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space",
                   add_prefix_space, "trim_offsets", trim_offsets, "use_regex", 1);
}

static json_t *end_of(const train_tokenizer_t *tokenizer) {
  return json_pack("[{s:i, s:s, s:b, s:b, s:b, s:b, s:b}]", "id", tokenizer->end, "content",
                   TRAIN_END_TEXT, "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0,
                   "special", 1);
}

static json_t *model_of(const train_tokenizer_t *tokenizer) {
  return json_pack("{s:s, s:n, s:n, s:s, s:s, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout",
                   "unk_token", "continuing_subword_prefix", "", "end_of_word_suffix", "",
                   "fuse_unk", 0, "byte_fallback", 0, "ignore_merges", 0, "vocab",
                   train_vocab_to_json(tokenizer), "merges", merges_of(tokenizer));
}

coll_status_t train_tokenizer_to_json(const train_tokenizer_t *tokenizer, char **text,
                                      size_t *count) {
  json_t *root =
      json_pack("{s:s, s:n, s:n, s:o, s:n, s:o, s:o, s:o, s:o}", "version", "1.0", "truncation",
                "padding", "added_tokens", end_of(tokenizer), "normalizer", "pre_tokenizer",
                byte_level(false, true), "post_processor", byte_level(true, false), "decoder",
                byte_level(true, true), "model", model_of(tokenizer));
  char *dumped = root != NULL ? json_dumps(root, JSON_INDENT(2)) : NULL;
  json_decref(root);
  if (dumped == NULL) return base_fail(COLL_ERROR_MEMORY, "out of memory for a tokenizer.json");
  *text = dumped;
  *count = strlen(dumped);
  return COLL_OK;
}

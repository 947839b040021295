/* Compares encoding with the reference, checks round trips of arbitrary bytes, and rejects
 * inconsistent tokens and merges. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/data/bpe.h"
#include "reference.h"

static void check_ok(coll_status_t status) {
  cr_assert_eq(status, COLL_OK, "%s", base_last_error());
}

/* A tokenizer trained on random text of the kind it will encode. */
static train_tokenizer_t *learned(uint64_t seed, int vocabulary) {
  static uint8_t text[60000];
  train_word_counts_t counts = {0};
  train_tokenizer_t *tokenizer;
  reference_text(&seed, text, sizeof text);
  check_ok(train_word_counts_add(&counts, text, sizeof text));
  check_ok(train_bpe_learn(&counts, vocabulary, &(train_progress_t){0}, &tokenizer));
  train_word_counts_free(&counts);
  return tokenizer;
}

static void check_decodes(const train_tokenizer_t *tokenizer, const train_ids_t *ids,
                          const uint8_t *text, size_t count) {
  size_t at = 0, length;
  for (size_t i = 0; i < ids->count; i++) {
    const uint8_t *bytes = train_tokenizer_decode(tokenizer, ids->ids[i], &length);
    cr_assert(at + length <= count && memcmp(text + at, bytes, length) == 0, "token %zu", i);
    at += length;
  }
  cr_assert_eq(at, count);
}

Test(tokenizer, byte_tokenizer_has_one_token_per_byte) {
  train_tokenizer_t *tokenizer;
  train_ids_t ids = {0};
  uint8_t all[256];
  for (int i = 0; i < 256; i++) all[i] = (uint8_t)i;
  check_ok(train_tokenizer_create_bytes(&tokenizer));
  cr_assert_eq(tokenizer->tokens.count, 257);
  cr_assert_eq(tokenizer->end, 256);
  check_ok(train_tokenizer_encode_document(tokenizer, all, sizeof all, &ids));
  cr_assert_eq(ids.count, 257);
  for (int i = 0; i < 257; i++) cr_assert_eq(ids.ids[i], i);
  train_ids_free(&ids);
  train_tokenizer_destroy(tokenizer);
}

Test(tokenizer, encodes_as_the_reference_and_decodes_to_the_input) {
  train_tokenizer_t *tokenizer = learned(11, 500);
  uint64_t state = 12;
  uint8_t text[600];
  uint16_t expected[600];
  train_ids_t ids = {0};
  cr_assert_gt(tokenizer->merge_count, 200);
  for (int round = 0; round < 400; round++) {
    size_t count = 1 + reference_random(&state) % sizeof text;
    if (round % 2 == 0) {
      reference_text(&state, text, count);
    } else {
      for (size_t i = 0; i < count; i++) text[i] = (uint8_t)reference_random(&state);
    }
    ids.count = 0;
    check_ok(train_tokenizer_encode(tokenizer, text, count, &ids));
    size_t expected_count = reference_encode(tokenizer, text, count, expected);
    cr_assert_eq(ids.count, expected_count, "round %d: %zu tokens, not %zu", round, ids.count,
                 expected_count);
    cr_assert_arr_eq(ids.ids, expected, expected_count * sizeof expected[0], "round %d", round);
    check_decodes(tokenizer, &ids, text, count);
  }
  train_ids_free(&ids);
  train_tokenizer_destroy(tokenizer);
}

/* In long words of few descriptors merges overlap and compete by rank. */
Test(tokenizer, merges_long_words_in_rank_order) {
  uint64_t state = 5;
  uint8_t text[4000];
  uint16_t expected[4000];
  train_word_counts_t counts = {0};
  train_tokenizer_t *tokenizer;
  train_ids_t ids = {0};
  reference_letters(&state, 2, text, sizeof text);
  check_ok(train_word_counts_add(&counts, text, sizeof text));
  check_ok(train_bpe_learn(&counts, 400, &(train_progress_t){0}, &tokenizer));
  for (size_t i = 0; i < sizeof text; i++) text[i] = (uint8_t)('a' + reference_random(&state) % 2);
  check_ok(train_tokenizer_encode(tokenizer, text, sizeof text, &ids));
  size_t expected_count = reference_encode(tokenizer, text, sizeof text, expected);
  cr_assert_eq(ids.count, expected_count);
  cr_assert_arr_eq(ids.ids, expected, expected_count * sizeof expected[0]);
  cr_assert_lt(expected_count, sizeof text / 4);
  train_ids_free(&ids);
  train_tokenizer_destroy(tokenizer);
  train_word_counts_free(&counts);
}

Test(tokenizer, encodes_a_megabyte_word_quickly) {
  train_tokenizer_t *tokenizer = learned(3, 400);
  size_t count = 1 << 20;
  uint8_t *text = malloc(count);
  train_ids_t ids = {0};
  for (size_t i = 0; i < count; i++) text[i] = "azinxE"[i * i % 6];
  check_ok(train_tokenizer_encode(tokenizer, text, count, &ids));
  check_decodes(tokenizer, &ids, text, count);
  train_ids_free(&ids);
  free(text);
  train_tokenizer_destroy(tokenizer);
}

Test(tokenizer, text_never_encodes_to_the_end_token) {
  train_tokenizer_t *tokenizer = learned(4, 600);
  train_ids_t ids = {0};
  check_ok(train_tokenizer_encode_document(tokenizer, "a<|endoftext|>b", 15, &ids));
  for (size_t i = 0; i + 1 < ids.count; i++) cr_assert_neq(ids.ids[i], tokenizer->end);
  cr_assert_eq(ids.ids[ids.count - 1], tokenizer->end);
  train_ids_free(&ids);
  train_tokenizer_destroy(tokenizer);
}

/* ---- construction ---- */

static void add(train_string_table_t *tokens, const char *token, size_t count) {
  uint32_t id;
  check_ok(train_string_table_add(tokens, token, count, &id));
}

static train_string_table_t bytes_and(const char *const *more) {
  train_string_table_t tokens = {0};
  for (int i = 0; i < 256; i++) add(&tokens, (const char *)&(uint8_t){(uint8_t)i}, 1);
  for (; *more != NULL; more++) add(&tokens, *more, strlen(*more));
  return tokens;
}

static void check_rejected(train_string_table_t tokens, const train_merge_t *merges,
                           size_t merge_count, const char *why) {
  train_tokenizer_t *tokenizer = NULL;
  train_merge_t copies[4];
  memcpy(copies, merges, merge_count * sizeof *merges);
  cr_assert_eq(train_tokenizer_create("some.json", &tokens, copies, merge_count, &tokenizer),
               COLL_ERROR_INVALID, "%s", why);
  cr_assert(strstr(base_last_error(), why), "'%s' in '%s'", why, base_last_error());
  cr_assert_eq(strstr(base_last_error(), "some.json"), base_last_error());
  cr_assert_null(tokenizer);
  train_string_table_free(&tokens);
}

Test(tokenizer, rejects_inconsistent_tokens_and_merges) {
  const char *const none[] = {NULL}, *const end[] = {TRAIN_END_TEXT, NULL};
  const char *const more[] = {"ab", TRAIN_END_TEXT, NULL};
  const train_merge_t merges[] = {{.left = 'a', .right = 'b'}, {.left = 'a', .right = 'b'}};
  check_rejected(bytes_and(none), merges, 0, "no token <|endoftext|>");
  check_rejected((train_string_table_t){0}, merges, 0, "no token for the byte 0");
  check_rejected(bytes_and(end), merges, 1,
                 "merge 1, of tokens 97 and 98, gives a token that is not");
  check_rejected(bytes_and(more), merges, 2, "merge 2 repeats merge 1");
  train_string_table_t many = bytes_and(more);
  for (int i = 0; many.count <= TRAIN_VOCABULARY_MAX; i++) add(&many, (const char *)&i, sizeof i);
  check_rejected(many, merges, 0, "65537 tokens");
}

Test(tokenizer, digest_distinguishes_tokenizers) {
  train_tokenizer_t *one = learned(1, 300), *same = learned(1, 300), *other = learned(1, 301);
  cr_assert_eq(one->digest, same->digest);
  cr_assert_neq(one->digest, other->digest);
  train_tokenizer_destroy(one);
  train_tokenizer_destroy(same);
  train_tokenizer_destroy(other);
}

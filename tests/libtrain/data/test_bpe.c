/* Compares learned merges with those of the reference, which recounts all pairs for every merge. */
#include <criterion/criterion.h>
#include <string.h>

#include "libtrain/data/bpe.h"
#include "reference.h"

static train_tokenizer_t *learn(const uint8_t *text, size_t count, int vocabulary) {
  train_word_counts_t counts = {0};
  train_tokenizer_t *tokenizer;
  cr_assert_eq(train_word_counts_add(&counts, text, count), COLL_OK);
  cr_assert_eq(train_bpe_learn(&counts, vocabulary, &(train_progress_t){0}, &tokenizer), COLL_OK,
               "%s", base_last_error());
  train_word_counts_free(&counts);
  return tokenizer;
}

static void check_learned(const uint8_t *text, size_t count, int vocabulary) {
  static train_merge_t expected[4096];
  train_tokenizer_t *tokenizer = learn(text, count, vocabulary);
  size_t expected_count =
      reference_learn(text, count, (size_t)vocabulary, tokenizer->byte_ids, expected);
  cr_assert_eq(tokenizer->merge_count, expected_count, "%zu merges, not %zu",
               tokenizer->merge_count, expected_count);
  for (size_t i = 0; i < expected_count; i++) {
    const train_merge_t *merge = &tokenizer->merges[i];
    cr_assert(merge->left == expected[i].left && merge->right == expected[i].right &&
                  merge->result == expected[i].result,
              "merge %zu is %u %u, not %u %u", i, merge->left, merge->right, expected[i].left,
              expected[i].right);
  }
  train_tokenizer_destroy(tokenizer);
}

Test(bpe, learns_the_same_merges_as_the_reference) {
  uint64_t state = 2;
  uint8_t text[3000];
  for (int round = 0; round < 40; round++) {
    size_t count = 100 + reference_random(&state) % (sizeof text - 100);
    if (round % 4 == 0) {
      reference_text(&state, text, count);
    } else {
      reference_letters(&state, round % 4, text, count); /* with a single descriptor all occurrences
                                                          * overlap */
    }
    check_learned(text, count, 257 + (int)(reference_random(&state) % 60));
  }
}

Test(bpe, tokens_have_gpt2_order) {
  train_tokenizer_t *tokenizer = learn((const uint8_t *)"low low lower", 13, 260);
  cr_assert_eq(tokenizer->tokens.count, 260);
  cr_assert(tokenizer->byte_ids['!'] == 0 && tokenizer->byte_ids['~'] == 93);
  cr_assert(tokenizer->byte_ids[0xa1] == 94 && tokenizer->byte_ids[0xff] == 187);
  cr_assert(tokenizer->byte_ids[0] == 188 && tokenizer->byte_ids[' '] == 220);
  cr_assert(tokenizer->byte_ids[0x7f] == 221 && tokenizer->byte_ids[0xad] == 255);
  cr_assert_eq(tokenizer->merges[0].result, 256);
  cr_assert_eq(tokenizer->end, 259);
  train_tokenizer_destroy(tokenizer);
}

Test(bpe, stops_when_no_pair_occurs_twice) {
  train_tokenizer_t *tokenizer = learn((const uint8_t *)"abcabd xyz", 10, 5000);
  cr_assert_eq(tokenizer->merge_count, 1);
  cr_assert_eq(tokenizer->tokens.count, 258);
  train_tokenizer_destroy(tokenizer);
  tokenizer = learn(NULL, 0, 257);
  cr_assert_eq(tokenizer->tokens.count, 257);
  train_tokenizer_destroy(tokenizer);
}

Test(bpe, result_does_not_depend_on_document_order) {
  uint64_t state = 9;
  uint8_t text[20000];
  train_word_counts_t counts = {0};
  train_tokenizer_t *forwards, *backwards;
  reference_text(&state, text, sizeof text);
  for (size_t i = 0; i < 20; i++) train_word_counts_add(&counts, text + 1000 * i, 1000);
  cr_assert_eq(train_bpe_learn(&counts, 500, &(train_progress_t){0}, &forwards), COLL_OK);
  train_word_counts_free(&counts);
  for (size_t i = 20; i-- > 0;) train_word_counts_add(&counts, text + 1000 * i, 1000);
  cr_assert_eq(train_bpe_learn(&counts, 500, &(train_progress_t){0}, &backwards), COLL_OK);
  train_word_counts_free(&counts);
  cr_assert_eq(forwards->digest, backwards->digest);
  train_tokenizer_destroy(forwards);
  train_tokenizer_destroy(backwards);
}

Test(bpe, rejects_vocabulary_size_out_of_range) {
  train_word_counts_t counts = {0};
  train_tokenizer_t *tokenizer = NULL;
  const int wrong[] = {-1, 256, 65537};
  for (int i = 0; i < 3; i++) {
    cr_assert_eq(train_bpe_learn(&counts, wrong[i], &(train_progress_t){0}, &tokenizer),
                 COLL_ERROR_INVALID);
    cr_assert(strstr(base_last_error(), "257 to 65536"), "%s", base_last_error());
  }
  cr_assert_null(tokenizer);
}

static void note(void *context, double done, double total) {
  double *seen = context;
  cr_assert(done > seen[0] && done <= total);
  seen[0] = done;
  seen[1] = total;
}

Test(bpe, reports_progress) {
  uint64_t state = 6;
  uint8_t text[5000];
  double seen[2] = {0};
  train_word_counts_t counts = {0};
  train_tokenizer_t *tokenizer;
  reference_text(&state, text, sizeof text);
  train_word_counts_add(&counts, text, sizeof text);
  cr_assert_eq(train_bpe_learn(&counts, 300, &(train_progress_t){note, seen}, &tokenizer), COLL_OK);
  cr_assert(seen[0] == 43 && seen[1] == 43, "%g of %g", seen[0], seen[1]);
  train_tokenizer_destroy(tokenizer);
  train_word_counts_free(&counts);
}

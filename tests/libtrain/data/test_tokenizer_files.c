/* Tokenizers come back from files as they went, and files of others are read or refused. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../folder.h"
#include "libtrain/data/bpe.h"
#include "libtrain/data/spelling.h"
#include "libtrain/data/tokenizer_files.h"
#include "reference.h"

static folder_t folder;

static void setup(void) {
  folder_make(&folder);
}

static void teardown(void) {
  folder_remove(&folder);
}

TestSuite(tokenizer_files, .init = setup, .fini = teardown);

static void check_ok(coll_status_t status) {
  cr_assert_eq(status, COLL_OK, "%s", base_last_error());
}

static train_tokenizer_t *learned(int vocabulary) {
  static uint8_t text[40000];
  uint64_t seed = 1;
  train_word_counts_t counts = {0};
  train_tokenizer_t *tokenizer;
  reference_text(&seed, text, sizeof text);
  check_ok(train_word_counts_add(&counts, text, sizeof text));
  check_ok(train_bpe_learn(&counts, vocabulary, &(train_watch_t){0}, &tokenizer));
  train_word_counts_free(&counts);
  return tokenizer;
}

static void check_opens_as(const char *path, uint64_t digest) {
  train_tokenizer_t *tokenizer;
  check_ok(train_tokenizer_open(path, &tokenizer));
  cr_assert_eq(tokenizer->digest, digest, "%s", path);
  train_tokenizer_destroy(tokenizer);
}

Test(spelling, every_byte_has_one_of_its_own) {
  char text[2 * 256];
  uint8_t all[256], back[2 * 256], ordered[256];
  size_t count;
  for (int i = 0; i < 256; i++) all[i] = (uint8_t)i;
  size_t length = train_spell(all, sizeof all, text);
  cr_assert(train_unspell(text, length, back, &count));
  cr_assert_eq(count, sizeof all);
  cr_assert_arr_eq(back, all, sizeof all);
  length = train_spell((const uint8_t *)" \n\tA\xad", 5, text);
  cr_assert(length == 9 && memcmp(text, "\u0120\u010a\u0109A\u0143", length) == 0);
  cr_assert_not(train_unspell(" ", 1, back, &count));
  cr_assert_not(train_unspell("\u0144", 2, back, &count));
  cr_assert_not(train_unspell("\u0120", 1, back, &count));
  cr_assert_not(train_unspell("\u65e5", 3, back, &count));
  train_bytes_in_order(ordered);
  cr_assert(ordered[0] == '!' && ordered[187] == 0xff && ordered[188] == 0 && ordered[255] == 0xad);
}

Test(tokenizer_files, come_back_as_they_went) {
  train_tokenizer_t *bytes, *bpe = learned(700);
  check_ok(train_tokenizer_open("bytes", &bytes));
  const char *json = folder_path(&folder, "some.json"), *pair = folder_path(&folder, "pair");
  check_ok(train_tokenizer_save(bpe, json));
  check_ok(train_tokenizer_save(bpe, pair));
  check_opens_as(json, bpe->digest);
  check_opens_as(pair, bpe->digest);
  cr_assert_eq(
      rename(folder_path(&folder, "pair/vocab.json"), folder_path(&folder, "pair/encoder.json")),
      0);
  cr_assert_eq(
      rename(folder_path(&folder, "pair/merges.txt"), folder_path(&folder, "pair/vocab.bpe")), 0);
  check_opens_as(pair, bpe->digest);
  check_ok(train_tokenizer_save(bytes, folder_path(&folder, "pair/tokenizer.json")));
  check_opens_as(pair, bytes->digest);
  train_tokenizer_destroy(bytes);
  train_tokenizer_destroy(bpe);
}

/* ---- files of others ---- */

/* A tokenizer.json with these members, the bytes as vocabulary, and `more` tokens after them. */
static const char *json_with(const char *members, const char *more, const char *model) {
  static char text[16384];
  static uint8_t order[256];
  train_bytes_in_order(order);
  int used = snprintf(text, sizeof text, "{%s\"model\": {%s\"vocab\": {", members, model);
  for (int i = 0; i < 256; i++) {
    char spelled[8] = "";
    spelled[train_spell(&order[i], 1, spelled)] = '\0';
    const char *escape = order[i] == '"' || order[i] == '\\' ? "\\" : "";
    used += snprintf(text + used, sizeof text - (size_t)used, "\"%s%s\": %d, ", escape, spelled, i);
  }
  snprintf(text + used, sizeof text - (size_t)used, "%s}}", more);
  return text;
}

#define GPT2 "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, "
#define END "\"<|endoftext|>\": 256}, "

Test(tokenizer_files, both_ways_to_write_merges_are_read) {
  static const char *const ways[] = {
      "\"ab\": 256, \"abc\": 257, \"<|endoftext|>\": 258}, \"merges\": [\"a b\", \"ab c\"]",
      "\"ab\": 256, \"abc\": 257, \"<|endoftext|>\": 258}, "
      "\"merges\": [[\"a\", \"b\"], [\"ab\", \"c\"]]"};
  for (int i = 0; i < 2; i++) {
    train_tokenizer_t *tokenizer;
    train_ids_t ids = {0};
    const char *text = json_with(GPT2, ways[i], "");
    check_ok(train_tokenizer_from_json("some", text, strlen(text), &tokenizer));
    check_ok(train_tokenizer_encode_document(tokenizer, "abcab!", 6, &ids));
    cr_assert_eq(ids.count, 4);
    cr_assert(ids.ids[0] == 257 && ids.ids[1] == 256 && ids.ids[2] == 0 && ids.ids[3] == 258);
    train_ids_free(&ids);
    train_tokenizer_destroy(tokenizer);
  }
}

Test(tokenizer_files, the_end_may_stand_beside_the_vocabulary) {
  train_tokenizer_t *tokenizer;
  const char *text =
      json_with(GPT2 "\"added_tokens\": [{\"id\": 257, \"content\": \"<|endoftext|>\"}], ",
                "\"ab\": 256}, \"merges\": [\"a b\"]", "");
  check_ok(train_tokenizer_from_json("some", text, strlen(text), &tokenizer));
  cr_assert_eq(tokenizer->end, 257);
  train_tokenizer_destroy(tokenizer);
}

static void check_refused(const char *text, const char *why) {
  train_tokenizer_t *tokenizer = NULL;
  const char *path = folder_write(&folder, "tokenizer.json", text, strlen(text));
  cr_assert_eq(train_tokenizer_open(path, &tokenizer), COLL_ERROR_INVALID, "%s", why);
  cr_assert(strstr(base_last_error(), why), "'%s' in '%s'", why, base_last_error());
  cr_assert(strstr(base_last_error(), path), "%s", base_last_error());
  cr_assert_null(tokenizer);
}

Test(tokenizer_files, what_is_no_tokenizer_is_refused) {
  check_refused("", "is not a tokenizer");
  check_refused("int main(void) {", "is not a tokenizer");
  check_refused("[1, 2]", "is not a tokenizer.json");
  check_refused("{\"a\": 0}", "is not a tokenizer.json: it has no \"model\"");
  check_refused("{\"model\": {\"type\": \"WordPiece\"}}", "its model is WordPiece, not BPE");
  check_refused("{\"model\": {\"vocab\": {}}}", "no vocab and merges");
  check_refused("{" GPT2 "\"model\": {\"vocab\": {}, \"merges\": []}}", "a vocabulary of 0 tokens");
}

Test(tokenizer_files, other_kinds_are_refused) {
  const char *plain = END "\"merges\": []";
  check_refused(json_with("", plain, ""), "does not cut text into words as GPT-2 does");
  check_refused(json_with("\"pre_tokenizer\": {\"type\": \"Metaspace\"}, ", plain, ""),
                "does not cut text");
  check_refused(json_with("\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": "
                          "true}, ",
                          plain, ""),
                "does not cut text");
  check_refused(
      json_with("\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"use_regex\": false}, ", plain, ""),
      "does not cut text");
  check_refused(json_with(GPT2 "\"normalizer\": {\"type\": \"NFC\"}, ", plain, ""),
                "has a normalizer");
  check_refused(json_with(GPT2, plain, "\"dropout\": 0.1, "), "dropout, which is not supported");
  check_refused(json_with(GPT2, plain, "\"ignore_merges\": true, "), "ignore_merges");
  check_refused(
      json_with(GPT2 "\"added_tokens\": [{\"id\": 3, \"content\": \"<pad>\"}], ", plain, ""),
      "the added token '<pad>'");
}

Test(tokenizer_files, vocabularies_and_merges_that_do_not_fit_are_refused) {
  check_refused(json_with(GPT2, END "\"merges\": [\"a bc\"]", ""),
                "merge 1 is of 'bc', which is not a token");
  check_refused(json_with(GPT2, END "\"merges\": [\"a b\"]", ""), "not in the vocabulary");
  check_refused(json_with(GPT2, END "\"merges\": [\"ab\"]", ""), "is not two tokens and a space");
  check_refused(json_with(GPT2, END "\"merges\": [\"a b c\"]", ""), "is not two tokens");
  check_refused(json_with(GPT2, END "\"merges\": [[\"a\"]]", ""), "merge 1 is not two tokens");
  check_refused(json_with(GPT2, END "\"merges\": [7]", ""), "merge 1 is not two tokens");
  check_refused(json_with(GPT2, "\"<|endoftext|>\": 300}, \"merges\": []", ""),
                "the id of token '<|endoftext|>' is taken or too high");
  check_refused(json_with(GPT2, "\"<|endoftext|>\": 4}, \"merges\": []", ""), "taken or too high");
  check_refused(json_with(GPT2, "\"<|endoftext|>\": \"4\"}, \"merges\": []", ""), "is no number");
  check_refused(json_with(GPT2, "\"\u2581the\": 256, \"<|endoftext|>\": 257}, \"merges\": []", ""),
                "spells no bytes");
  check_refused(json_with(GPT2, "\"ab\": 256}, \"merges\": [\"a b\"]", ""),
                "no token <|endoftext|>");
}

Test(tokenizer_files, a_pair_that_is_damaged_is_refused) {
  train_tokenizer_t *bpe = learned(300), *tokenizer = NULL;
  const char *pair = folder_path(&folder, "pair");
  check_ok(train_tokenizer_save(bpe, pair));
  folder_write(&folder, "pair/merges.txt", "#version: 0.2\r\n! qq\r\n", 21);
  cr_assert_eq(train_tokenizer_open(pair, &tokenizer), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "merge 1 is of 'qq'"), "%s", base_last_error());
  unlink(folder_path(&folder, "pair/merges.txt"));
  cr_assert_eq(train_tokenizer_open(pair, &tokenizer), COLL_ERROR_SYSTEM);
  cr_assert(strstr(base_last_error(), "merges.txt"), "%s", base_last_error());
  unlink(folder_path(&folder, "pair/vocab.json"));
  cr_assert_eq(train_tokenizer_open(pair, &tokenizer), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "no tokenizer in the folder"), "%s", base_last_error());
  cr_assert_eq(train_tokenizer_open(folder_path(&folder, "none"), &tokenizer), COLL_ERROR_SYSTEM);
  train_tokenizer_destroy(bpe);
}

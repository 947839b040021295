/* Round trips of tokenizer files, files of other programs, and files that must be rejected. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../folder.h"
#include "libtrain/data/bpe.h"
#include "libtrain/data/byte_level.h"
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
  check_ok(train_bpe_learn(&counts, vocabulary, &(train_progress_t){0}, &tokenizer));
  train_word_counts_free(&counts);
  return tokenizer;
}

static void check_opens_as(const char *path, uint64_t digest) {
  train_tokenizer_t *tokenizer;
  check_ok(train_tokenizer_open(path, &tokenizer));
  cr_assert_eq(tokenizer->digest, digest, "%s", path);
  train_tokenizer_destroy(tokenizer);
}

Test(byte_level, every_byte_has_its_own_character) {
  char text[2 * 256];
  uint8_t all[256], back[2 * 256], ordered[256];
  size_t count;
  for (int i = 0; i < 256; i++) all[i] = (uint8_t)i;
  size_t length = train_byte_level_encode(all, sizeof all, text);
  cr_assert(train_byte_level_decode(text, length, back, &count));
  cr_assert_eq(count, sizeof all);
  cr_assert_arr_eq(back, all, sizeof all);
  length = train_byte_level_encode((const uint8_t *)" \n\tA\xad", 5, text);
  cr_assert(length == 9 && memcmp(text, "\u0120\u010a\u0109A\u0143", length) == 0);
  cr_assert_not(train_byte_level_decode(" ", 1, back, &count));
  cr_assert_not(train_byte_level_decode("\u0144", 2, back, &count));
  cr_assert_not(train_byte_level_decode("\u0120", 1, back, &count));
  cr_assert_not(train_byte_level_decode("\u65e5", 3, back, &count));
  train_byte_level_alphabet(ordered);
  cr_assert(ordered[0] == '!' && ordered[187] == 0xff && ordered[188] == 0 && ordered[255] == 0xad);
}

Test(tokenizer_files, survive_a_round_trip) {
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

/* ---- files of other programs ---- */

/* A tokenizer.json with these members, all bytes as vocabulary, and `more` tokens after them. */
static const char *json_with(const char *members, const char *more, const char *model) {
  static char text[16384];
  static uint8_t order[256];
  train_byte_level_alphabet(order);
  int used = snprintf(text, sizeof text, "{%s\"model\": {%s\"vocab\": {", members, model);
  for (int i = 0; i < 256; i++) {
    char spelled[8] = "";
    spelled[train_byte_level_encode(&order[i], 1, spelled)] = '\0';
    const char *escape = order[i] == '"' || order[i] == '\\' ? "\\" : "";
    used += snprintf(text + used, sizeof text - (size_t)used, "\"%s%s\": %d, ", escape, spelled, i);
  }
  snprintf(text + used, sizeof text - (size_t)used, "%s}}", more);
  return text;
}

#define GPT2 "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, "
#define END "\"<|endoftext|>\": 256}, "

Test(tokenizer_files, reads_both_forms_of_merges) {
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

Test(tokenizer_files, end_token_may_be_an_added_token) {
  train_tokenizer_t *tokenizer;
  const char *text =
      json_with(GPT2 "\"added_tokens\": [{\"id\": 257, \"content\": \"<|endoftext|>\"}], ",
                "\"ab\": 256}, \"merges\": [\"a b\"]", "");
  check_ok(train_tokenizer_from_json("some", text, strlen(text), &tokenizer));
  cr_assert_eq(tokenizer->end, 257);
  train_tokenizer_destroy(tokenizer);
}

static void check_rejected(const char *text, const char *why) {
  train_tokenizer_t *tokenizer = NULL;
  const char *path = folder_write(&folder, "tokenizer.json", text, strlen(text));
  cr_assert_eq(train_tokenizer_open(path, &tokenizer), COLL_ERROR_INVALID, "%s", why);
  cr_assert(strstr(base_last_error(), why), "'%s' in '%s'", why, base_last_error());
  cr_assert(strstr(base_last_error(), path), "%s", base_last_error());
  cr_assert_null(tokenizer);
}

Test(tokenizer_files, rejects_files_that_are_no_tokenizers) {
  check_rejected("", "is not a tokenizer");
  check_rejected("int main(void) {", "is not a tokenizer");
  check_rejected("[1, 2]", "is not a tokenizer.json");
  check_rejected("{\"a\": 0}", "is not a tokenizer.json: it has no \"model\"");
  check_rejected("{\"model\": {\"type\": \"WordPiece\"}}", "its model is WordPiece, not BPE");
  check_rejected("{\"model\": {\"vocab\": {}}}", "no vocab and merges");
  check_rejected("{" GPT2 "\"model\": {\"vocab\": {}, \"merges\": []}}",
                 "a vocabulary of 0 tokens");
}

Test(tokenizer_files, rejects_unsupported_tokenizers) {
  const char *plain = END "\"merges\": []";
  check_rejected(json_with("", plain, ""), "does not split text into words as GPT-2 does");
  check_rejected(json_with("\"pre_tokenizer\": {\"type\": \"Metaspace\"}, ", plain, ""),
                 "does not split text");
  check_rejected(json_with("\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": "
                           "true}, ",
                           plain, ""),
                 "does not split text");
  check_rejected(
      json_with("\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"use_regex\": false}, ", plain, ""),
      "does not split text");
  check_rejected(json_with(GPT2 "\"normalizer\": {\"type\": \"NFC\"}, ", plain, ""),
                 "has a normalizer");
  check_rejected(json_with(GPT2, plain, "\"dropout\": 0.1, "), "dropout, which is not supported");
  check_rejected(json_with(GPT2, plain, "\"ignore_merges\": true, "), "ignore_merges");
  check_rejected(
      json_with(GPT2 "\"added_tokens\": [{\"id\": 3, \"content\": \"<pad>\"}], ", plain, ""),
      "the added token '<pad>'");
}

Test(tokenizer_files, rejects_inconsistent_vocabularies_and_merges) {
  check_rejected(json_with(GPT2, END "\"merges\": [\"a bc\"]", ""),
                 "merge 1 contains 'bc', which is not a token");
  check_rejected(json_with(GPT2, END "\"merges\": [\"a b\"]", ""), "not in the vocabulary");
  check_rejected(json_with(GPT2, END "\"merges\": [\"ab\"]", ""),
                 "is not two tokens separated by a space");
  check_rejected(json_with(GPT2, END "\"merges\": [\"a b c\"]", ""), "is not two tokens");
  check_rejected(json_with(GPT2, END "\"merges\": [[\"a\"]]", ""), "merge 1 is not two tokens");
  check_rejected(json_with(GPT2, END "\"merges\": [7]", ""), "merge 1 is not two tokens");
  check_rejected(json_with(GPT2, "\"<|endoftext|>\": 300}, \"merges\": []", ""),
                 "the id of token '<|endoftext|>' is a duplicate or too high");
  check_rejected(json_with(GPT2, "\"<|endoftext|>\": 4}, \"merges\": []", ""),
                 "a duplicate or too high");
  check_rejected(json_with(GPT2, "\"<|endoftext|>\": \"4\"}, \"merges\": []", ""),
                 "is not a number");
  check_rejected(json_with(GPT2, "\"\u2581the\": 256, \"<|endoftext|>\": 257}, \"merges\": []", ""),
                 "is not in the byte-level alphabet");
  check_rejected(json_with(GPT2, "\"ab\": 256}, \"merges\": [\"a b\"]", ""),
                 "no token <|endoftext|>");
}

Test(tokenizer_files, rejects_damaged_vocab_and_merges_files) {
  train_tokenizer_t *bpe = learned(300), *tokenizer = NULL;
  const char *pair = folder_path(&folder, "pair");
  check_ok(train_tokenizer_save(bpe, pair));
  folder_write(&folder, "pair/merges.txt", "#version: 0.2\r\n! qq\r\n", 21);
  cr_assert_eq(train_tokenizer_open(pair, &tokenizer), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "merge 1 contains 'qq'"), "%s", base_last_error());
  unlink(folder_path(&folder, "pair/merges.txt"));
  cr_assert_eq(train_tokenizer_open(pair, &tokenizer), COLL_ERROR_SYSTEM);
  cr_assert(strstr(base_last_error(), "merges.txt"), "%s", base_last_error());
  unlink(folder_path(&folder, "pair/vocab.json"));
  cr_assert_eq(train_tokenizer_open(pair, &tokenizer), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "no tokenizer in the folder"), "%s", base_last_error());
  cr_assert_eq(train_tokenizer_open(folder_path(&folder, "none"), &tokenizer), COLL_ERROR_SYSTEM);
  train_tokenizer_destroy(bpe);
}

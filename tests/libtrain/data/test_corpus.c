/* Opens text and shards on one rank and on several. */
#include <coll.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/party.h"
#include "libtrain/data/bpe.h"
#include "libtrain/data/corpus.h"
#include "libtrain/data/encode.h"
#include "libtrain/data/shuffle.h"
#include "libtrain/data/tokenizer_files.h"
#include "reference.h"
#include "shards.h"

#define RANKS 3

static folder_t folder;
static const train_progress_t no_progress = {0};

static void setup(void) {
  folder_make(&folder);
}

static void teardown(void) {
  folder_remove(&folder);
}

TestSuite(corpus, .init = setup, .fini = teardown);

static void check_ok(coll_status_t status) {
  cr_assert_eq(status, COLL_OK, "%s", base_last_error());
}

static void check_rejected(const char *path, int vocabulary, const char *why) {
  train_corpus_t corpus = {0};
  cr_assert_eq(train_corpus_open(NULL, path, NULL, vocabulary, &no_progress, &corpus),
               COLL_ERROR_INVALID, "%s", why);
  cr_assert(strstr(base_last_error(), why), "'%s' in '%s'", why, base_last_error());
  cr_assert_null(corpus.shards);
}

/* ---- shards ---- */

/* Checks that the tokens of the dataset are first, first + 1, ... */
static void check_counts_up(const train_dataset_t *dataset, int first, int count) {
  int32_t tokens[7], targets[7];
  cr_assert_eq(dataset->count, (uint64_t)count);
  for (int length = 1; length <= 7; length += 3) {
    for (int at = 0; at + length < count; at++) {
      check_ok(train_dataset_sequence(dataset, (uint64_t)at, length, tokens, targets));
      for (int i = 0; i < length; i++) {
        cr_assert_eq(tokens[i], first + at + i);
        cr_assert_eq(targets[i], first + at + i + 1);
      }
    }
  }
}

Test(corpus, windows_span_shards) {
  train_corpus_t corpus;
  shards_write(&folder, "x_train_000000.bin", 0, 40);
  shards_write(&folder, "x_train_000001.bin", 40, 3);
  shards_write(&folder, "x_train_000002.bin", 43, 0);
  shards_write(&folder, "x_train_000003.bin", 43, 57);
  shards_write(&folder, "x_val_000000.bin", 1000, 30);
  folder_write(&folder, "firmware.bin", "no shard", 8);
  check_ok(train_corpus_open(NULL, folder.path, NULL, 2000, &no_progress, &corpus));
  check_counts_up(&corpus.training, 0, 100);
  check_counts_up(&corpus.held_out, 1000, 30);
  cr_assert_eq(corpus.training.files, 4);
  cr_assert_eq(train_dataset_windows(&corpus.training, 9), 11);
  cr_assert_eq(train_dataset_windows(&corpus.training, 100), 0);
  train_corpus_close(&corpus);
}

Test(corpus, without_val_shards_the_last_tenth_is_held_out) {
  train_corpus_t corpus;
  char path[256];
  shards_write(&folder, "evaluation.bin", 0, 60);
  shards_write(&folder, "rivals.bin", 60, 140);
  snprintf(path, sizeof path, "%s/ev*.bin,%s/rivals.bin", folder.path, folder.path);
  check_ok(train_corpus_open(NULL, path, NULL, 200, &no_progress, &corpus));
  check_counts_up(&corpus.training, 0, 180);
  check_counts_up(&corpus.held_out, 180, 20);
  train_corpus_close(&corpus);
}

Test(corpus, rejects_tokens_beyond_the_vocabulary) {
  const char *path = shards_write(&folder, "x.bin", 0, 5000);
  check_rejected(path, 300, "token 300 at 300 is beyond the vocabulary of 300");
  check_rejected(path, 4999, "token 4999 at 4999 is beyond");
  size_t count;
  uint16_t *tokens = folder_read(path, &count);
  tokens[512 + 2000] = 60000; /* outside of the tokens that opening checks */
  path = folder_write(&folder, "y.bin", tokens, count);
  train_corpus_t corpus;
  int32_t read[2][200];
  check_ok(train_corpus_open(NULL, path, NULL, 5000, &no_progress, &corpus));
  check_ok(train_dataset_sequence(&corpus.training, 1700, 200, read[0], read[1]));
  cr_assert_eq(train_dataset_sequence(&corpus.training, 1900, 200, read[0], read[1]),
               COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "y.bin: token 60000 at 2000"), "%s", base_last_error());
  train_corpus_close(&corpus);
  free(tokens);
}

Test(corpus, rejects_damaged_shards_and_wrong_paths) {
  size_t count;
  char path[256];
  void *bytes = folder_read(shards_write(&folder, "train.bin", 0, 500), &count);
  folder_write(&folder, "val.bin", bytes, count - 10);
  check_rejected(folder.path, 500, "val.bin is truncated or padded");
  check_rejected(folder_write(&folder, "text.bin", "int main(void);", 15), 500, "too short to be");
  free(bytes);
  snprintf(path, sizeof path, "%s/train.bin,%s/missing.bin", folder.path, folder.path);
  train_corpus_t corpus;
  cr_assert_eq(train_corpus_open(NULL, path, NULL, 500, &no_progress, &corpus), COLL_ERROR_SYSTEM);
  cr_assert_not(train_corpus_is_shards(path));
  cr_assert(train_corpus_is_shards(folder.path));
}

/* ---- text ---- */

static void write_texts(int files) {
  char name[32];
  uint8_t text[900];
  uint64_t state = 1;
  for (int i = 0; i < files; i++) {
    snprintf(name, sizeof name, "text/file%d", i);
    reference_text(&state, text, sizeof text);
    folder_write(&folder, name, text, sizeof text);
  }
}

static coll_status_t count_words(void *context, const train_text_chunk_t *chunk) {
  return train_word_counts_add(context, chunk->bytes, chunk->count);
}

static train_tokenizer_t *learn(const train_text_files_t *texts, int vocabulary) {
  train_word_counts_t counts = {0};
  train_tokenizer_t *tokenizer;
  check_ok(train_text_files_read(texts, count_words, &counts, &no_progress));
  check_ok(train_bpe_learn(&counts, vocabulary, &no_progress, &tokenizer));
  train_word_counts_free(&counts);
  return tokenizer;
}

static void check_same(const train_dataset_t *one, const train_dataset_t *other) {
  int32_t one_window[2][1], other_window[2][1];
  cr_assert_eq(one->count, other->count);
  for (uint64_t at = 0; at + 1 < one->count; at++) {
    check_ok(train_dataset_sequence(one, at, 1, one_window[0], one_window[1]));
    check_ok(train_dataset_sequence(other, at, 1, other_window[0], other_window[1]));
    cr_assert(one_window[0][0] == other_window[0][0] && one_window[1][0] == other_window[1][0]);
  }
}

Test(corpus, text_and_its_shards_give_the_same_tokens) {
  write_texts(30);
  train_text_files_t texts;
  train_corpus_t direct, shards;
  uint64_t tokens[TRAIN_SPLITS];
  const char *text = folder_path(&folder, "text"), *out = folder_path(&folder, "out");
  check_ok(train_text_files_list(text, &texts));
  train_tokenizer_t *tokenizer = learn(&texts, 400), *stored;
  check_ok(train_encode_to_folder(&texts, tokenizer, out, 1500, &no_progress, tokens));
  check_ok(train_corpus_open(NULL, text, tokenizer, 400, &no_progress, &direct));
  check_ok(train_corpus_tokenizer(out, &stored));
  cr_assert_eq(stored->digest, tokenizer->digest);
  check_ok(train_corpus_open(NULL, out, stored, 400, &no_progress, &shards));
  cr_assert_gt(shards.training.files, 3);
  check_same(&direct.training, &shards.training);
  check_same(&direct.held_out, &shards.held_out);
  cr_assert_eq(direct.training.bytes, texts.bytes_of[TRAIN_SPLIT_TRAINING]);
  cr_assert_eq(direct.held_out.files, texts.files_of[TRAIN_SPLIT_HELD_OUT]);
  train_corpus_close(&direct);
  train_corpus_close(&shards);
  train_tokenizer_destroy(stored);
  check_ok(train_corpus_tokenizer(text, &stored));
  cr_assert_eq(stored->tokens.count, 257);
  cr_assert_eq(train_corpus_open(NULL, out, stored, 400, &no_progress, &shards),
               COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "was made with another tokenizer"), "%s", base_last_error());
  train_tokenizer_destroy(stored);
  train_tokenizer_destroy(tokenizer);
  train_text_files_free(&texts);
}

Test(corpus, rejects_text_shorter_than_the_context) {
  char text[100];
  train_corpus_t corpus;
  train_tokenizer_t *bytes;
  memset(text, 'x', sizeof text);
  check_ok(train_tokenizer_create_bytes(&bytes));
  check_ok(train_corpus_open(NULL, folder_write(&folder, "short", text, sizeof text), bytes, 257,
                             &no_progress, &corpus));
  cr_assert(corpus.training.count == 90 && corpus.held_out.count == 11);
  check_ok(train_corpus_check(&corpus, 10));
  cr_assert_eq(train_corpus_check(&corpus, 11), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "context 11 is longer than the data"));
  train_corpus_close(&corpus);
  train_tokenizer_destroy(bytes);
}

/* ---- ranks ---- */

typedef struct job {
  const char *path;
  const char *message; /* expected in rank 0's error; NULL for success */
} job_t;

static coll_status_t open_and_compare(const train_group_t *group, const job_t *job) {
  int32_t tokens[16], targets[16];
  train_tokenizer_t *bytes;
  train_corpus_t corpus;
  COLL_TRY(train_tokenizer_create_bytes(&bytes));
  coll_status_t status = train_corpus_open(group, job->path, bytes, 257, &no_progress, &corpus);
  train_tokenizer_destroy(bytes);
  COLL_TRY(status);
  uint64_t sum = train_corpus_digest(&corpus);
  uint64_t windows = train_dataset_windows(&corpus.training, 16);
  for (uint64_t draw = 0; status == COLL_OK && draw < windows; draw++) {
    uint64_t window = train_shuffle_window(1, windows, draw);
    status = train_dataset_sequence(&corpus.training, window * 16, 16, tokens, targets);
    for (int i = 0; i < 16; i++) sum = sum * 31 + (uint64_t)targets[i];
  }
  if (status == COLL_OK) status = train_group_check_same(group, sum, "tokens");
  train_corpus_close(&corpus);
  return status;
}

static int rank_body(party_rank_t *self) {
  const job_t *job = self->context;
  train_group_t group;
  coll_status_t status = train_group_init(self->comm, &group);
  if (status == COLL_OK) status = open_and_compare(&group, job);
  if (job->message == NULL) return status == COLL_OK ? 0 : harness_fail("%s", base_last_error());
  PARTY_REQUIRE(status != COLL_OK, "rank %d was not refused", self->rank);
  const char *words = self->rank == 0 ? job->message : "";
  PARTY_REQUIRE(strstr(base_last_error(), words) != NULL, "'%s' in '%s'", words, base_last_error());
  return 0;
}

static void run_ranks(const char *path, const char *message) {
  job_t job = {.path = path, .message = message};
  harness_result_t result;
  cr_assert(party_processes(RANKS, 10000, rank_body, &job, &result), "%s", result.text);
}

Test(corpus, all_ranks_map_the_text_encoded_by_rank_0) {
  write_texts(12);
  run_ranks(folder_path(&folder, "text"), NULL);
}

Test(corpus, ranks_map_the_same_shards) {
  shards_write(&folder, "train.bin", 0, 200);
  shards_write(&folder, "val.bin", 0, 50);
  run_ranks(folder.path, NULL);
}

Test(corpus, errors_reach_all_ranks) {
  run_ranks(folder_path(&folder, "missing"), "No such file");
  run_ranks(folder.path, "contains no text");
  run_ranks(shards_write(&folder, "wrong.bin", 0, 300), "beyond the vocabulary of 257");
}

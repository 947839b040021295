/* Reading and writing shards, and files in other formats. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libtrain/data/encode.h"
#include "libtrain/data/tokenizer_files.h"
#include "reference.h"
#include "shards.h"

static folder_t folder;
static train_tokenizer_t *tokenizer;

static void check_ok(coll_status_t status) {
  cr_assert_eq(status, COLL_OK, "%s", base_last_error());
}

static void setup(void) {
  folder_make(&folder);
  check_ok(train_tokenizer_create_bytes(&tokenizer));
}

static void teardown(void) {
  folder_remove(&folder);
  train_tokenizer_destroy(tokenizer);
}

TestSuite(shard, .init = setup, .fini = teardown);

Test(shard, reads_shards_of_llmc) {
  train_shard_t shard;
  check_ok(train_shard_open(shards_write(&folder, "x.bin", 50000, 700), &shard));
  cr_assert(shard.count == 700 && shard.vocabulary == 0 && shard.tokenizer_digest == 0);
  for (int i = 0; i < 700; i++) cr_assert_eq(shard.tokens[i], 50000 + i);
  train_shard_close(&shard);
  check_ok(train_shard_open(shards_write(&folder, "none.bin", 0, 0), &shard));
  cr_assert_eq(shard.count, 0);
  train_shard_close(&shard);
}

static void check_rejected(const char *path, const char *why) {
  train_shard_t shard = {0};
  cr_assert_eq(train_shard_open(path, &shard), COLL_ERROR_INVALID, "%s", why);
  cr_assert(strstr(base_last_error(), why), "'%s' in '%s'", why, base_last_error());
  cr_assert(strstr(base_last_error(), path), "%s", base_last_error());
  cr_assert_null(shard.tokens);
}

Test(shard, rejects_damaged_and_other_files) {
  size_t count;
  int32_t *words = folder_read(shards_write(&folder, "x.bin", 0, 500), &count);
  check_rejected(folder_write(&folder, "cut.bin", words, count - 2), "truncated");
  check_rejected(folder_write(&folder, "odd.bin", words, count - 1), "truncated");
  check_rejected(folder_write(&folder, "head.bin", words, 1000), "too short to be a token shard");
  check_rejected(folder_write(&folder, "empty.bin", words, 0), "too short to be a token shard");
  words[2] = -1;
  check_rejected(folder_write(&folder, "negative.bin", words, count), "truncated or padded");
  words[1] = 2;
  check_rejected(folder_write(&folder, "newer.bin", words, count), "version 2");
  words[0] = 20240801;
  check_rejected(folder_write(&folder, "wide.bin", words, count), "32-bit tokens");
  memset(words, '#', count);
  check_rejected(folder_write(&folder, "text.bin", words, count), "is not a token shard");
  check_rejected(folder.path, "not a file");
  train_shard_t shard;
  cr_assert_eq(train_shard_open(folder_path(&folder, "missing.bin"), &shard), COLL_ERROR_SYSTEM);
  free(words);
}

/* Adds the ids 0, 1, 2, ... in portions of 1, 2, 3, ... */
static void add_portions(train_shard_writer_t *writer, int count) {
  static uint16_t some[2000];
  for (int done = 0, portion = 1; done < count; portion++) {
    train_ids_t ids = {.ids = some, .count = (size_t)portion};
    if (done + portion > count) ids.count = (size_t)(count - done);
    for (size_t i = 0; i < ids.count; i++) some[i] = (uint16_t)(done + (int)i);
    check_ok(train_shard_writer_add(writer, &ids));
    done += (int)ids.count;
  }
}

Test(shard, writer_starts_a_new_shard_when_one_is_full) {
  train_shard_writer_t writer;
  check_ok(train_shard_writer_open(tokenizer, folder.path, TRAIN_SPLIT_HELD_OUT, 1000, &writer));
  add_portions(&writer, 2500);
  check_ok(train_shard_writer_finish(&writer));
  cr_assert(writer.tokens == 2500 && writer.shards == 3);
  train_shard_writer_close(&writer);
  for (int i = 0; i < 3; i++) {
    char name[32];
    train_shard_t shard;
    snprintf(name, sizeof name, "val_00000%d.bin", i);
    check_ok(train_shard_open(folder_path(&folder, name), &shard));
    cr_assert_eq(shard.count, i < 2 ? 1000 : 500);
    cr_assert(shard.vocabulary == 257 && shard.tokenizer_digest == tokenizer->digest);
    for (size_t at = 0; at < shard.count; at++) cr_assert_eq(shard.tokens[at], i * 1000 + (int)at);
    train_shard_close(&shard);
  }
}

Test(shard, in_memory_shard_has_a_size_limit) {
  train_shard_writer_t writer;
  train_shard_t shard;
  char path[64];
  check_ok(train_shard_writer_open(tokenizer, NULL, TRAIN_SPLIT_TRAINING, 600000, &writer));
  add_portions(&writer, 600000);
  const train_ids_t more = {.ids = (uint16_t[]){1}, .count = 1};
  cr_assert_eq(train_shard_writer_add(&writer, &more), COLL_ERROR_UNSUPPORTED);
  cr_assert(strstr(base_last_error(), "gpt tokenizer encode"), "%s", base_last_error());
  check_ok(train_shard_writer_finish(&writer));
  snprintf(path, sizeof path, "/proc/self/fd/%d", writer.file);
  check_ok(train_shard_open(path, &shard));
  train_shard_writer_close(&writer);
  cr_assert_eq(shard.count, 600000);
  for (int i = 0; i < 600000; i++) cr_assert_eq(shard.tokens[i], i % 65536);
  train_shard_close(&shard);
}

/* ---- output folders ---- */

static train_text_files_t some_texts(int files) {
  char name[32];
  uint8_t text[700];
  uint64_t state = 1;
  train_text_files_t texts;
  for (int i = 0; i < files; i++) {
    snprintf(name, sizeof name, "text/file%d", i);
    reference_text(&state, text, sizeof text);
    folder_write(&folder, name, text, sizeof text);
  }
  check_ok(train_text_files_list(folder_path(&folder, "text"), &texts));
  return texts;
}

static void note(void *context, double done, double total) {
  *(double *)context = done / total;
}

Test(shard, folder_contains_documents_and_tokenizer) {
  train_text_files_t texts = some_texts(40);
  uint64_t tokens[TRAIN_SPLITS];
  double progress = 0;
  const char *out = folder_path(&folder, "out/");
  check_ok(train_encode_to_folder(&texts, tokenizer, out, 10000,
                                  &(train_progress_t){note, &progress}, tokens));
  cr_assert_eq(progress, 1);
  cr_assert_eq(tokens[TRAIN_SPLIT_TRAINING],
               texts.bytes_of[TRAIN_SPLIT_TRAINING] + texts.files_of[TRAIN_SPLIT_TRAINING]);
  cr_assert_eq(tokens[TRAIN_SPLIT_HELD_OUT],
               texts.bytes_of[TRAIN_SPLIT_HELD_OUT] + texts.files_of[TRAIN_SPLIT_HELD_OUT]);
  train_tokenizer_t *stored;
  check_ok(train_tokenizer_open(folder_path(&folder, "out"), &stored));
  cr_assert_eq(stored->digest, tokenizer->digest);
  train_tokenizer_destroy(stored);
  train_shard_t shard;
  check_ok(train_shard_open(folder_path(&folder, "out/val_000000.bin"), &shard));
  size_t at = 0, count;
  for (size_t i = 0; i < texts.count; i++) {
    if (texts.files[i].held_out_from > 0) continue;
    uint8_t *text = folder_read(texts.files[i].path, &count);
    for (size_t b = 0; b < count; b++) cr_assert_eq(shard.tokens[at++], text[b]);
    cr_assert_eq(shard.tokens[at++], 256);
    free(text);
  }
  cr_assert_eq(at, shard.count);
  cr_assert_neq(access(folder_path(&folder, "out.part"), F_OK), 0);
  train_shard_close(&shard);
  train_text_files_free(&texts);
}

Test(shard, existing_folder_is_not_modified) {
  train_text_files_t texts = some_texts(2);
  uint64_t tokens[TRAIN_SPLITS];
  folder_write(&folder, "out/mine", "mine", 4);
  folder_write(&folder, "new.part/val_000007.bin", "left behind", 11);
  const train_progress_t no_progress = {0};
  cr_assert_eq(train_encode_to_folder(&texts, tokenizer, folder_path(&folder, "out"), 100,
                                      &no_progress, tokens),
               COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "it already exists"), "%s", base_last_error());
  cr_assert_eq(access(folder_path(&folder, "out/mine"), F_OK), 0);
  check_ok(train_encode_to_folder(&texts, tokenizer, folder_path(&folder, "new"), 100, &no_progress,
                                  tokens));
  cr_assert_neq(access(folder_path(&folder, "new/val_000007.bin"), F_OK), 0);
  folder_write(&folder, "other.part/mine", "mine", 4);
  cr_assert_eq(train_encode_to_folder(&texts, tokenizer, folder_path(&folder, "other"), 100,
                                      &no_progress, tokens),
               COLL_ERROR_SYSTEM);
  cr_assert_eq(access(folder_path(&folder, "other.part/mine"), F_OK), 0);
  train_text_files_free(&texts);
}

Test(shard, full_disk_leaves_no_files) {
  train_text_files_t texts = some_texts(30);
  uint64_t tokens[TRAIN_SPLITS];
  struct rlimit before, limit;
  getrlimit(RLIMIT_FSIZE, &before);
  limit = (struct rlimit){.rlim_cur = 20000, .rlim_max = before.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &limit);
  coll_status_t status = train_encode_to_folder(&texts, tokenizer, folder_path(&folder, "out"),
                                                1000000, &(train_progress_t){0}, tokens);
  setrlimit(RLIMIT_FSIZE, &before);
  cr_assert_eq(status, COLL_ERROR_SYSTEM);
  cr_assert(strstr(base_last_error(), "train_000000.bin: File too large"), "%s", base_last_error());
  cr_assert_neq(access(folder_path(&folder, "out"), F_OK), 0);
  cr_assert_neq(access(folder_path(&folder, "out.part"), F_OK), 0);
  train_text_files_free(&texts);
}

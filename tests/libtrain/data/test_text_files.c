/* Which files of a folder are read, and how they are split. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../folder.h"
#include "libtrain/data/pretokenize.h"
#include "libtrain/data/text_files.h"
#include "reference.h"

static folder_t folder;

static void setup(void) {
  folder_make(&folder);
}

static void teardown(void) {
  folder_remove(&folder);
}

TestSuite(text_files, .init = setup, .fini = teardown);

static train_text_files_t list(const char *path) {
  train_text_files_t texts;
  cr_assert_eq(train_text_files_list(path, &texts), COLL_OK, "%s", base_last_error());
  return texts;
}

Test(text_files, split_depends_on_the_relative_path) {
  char name[32];
  for (int i = 0; i < 200; i++) {
    snprintf(name, sizeof name, "sub%d/<%d>", i % 7, i);
    folder_write(&folder, name, name, strlen(name));
  }
  train_text_files_t texts = list(folder.path);
  cr_assert_eq(texts.count, 200);
  for (size_t i = 0; i < texts.count; i++) {
    const train_text_file_t *file = &texts.files[i];
    bool held_out = train_text_is_held_out(file->path + strlen(folder.path) + 1);
    cr_assert_eq(file->held_out_from, held_out ? 0 : file->bytes, "%s", file->path);
    if (i > 0) cr_assert_lt(strcmp(file[-1].path, file->path), 0);
  }
  cr_assert_eq(texts.files_of[TRAIN_SPLIT_TRAINING] + texts.files_of[TRAIN_SPLIT_HELD_OUT], 200);
  size_t held_out = texts.files_of[TRAIN_SPLIT_HELD_OUT];
  cr_assert(held_out > 5 && held_out < 40, "%zu of 200 held out", held_out);
  train_text_files_free(&texts);
}

Test(text_files, trailing_slash_is_ignored) {
  char name[128];
  for (int i = 0; i < 40; i++) {
    snprintf(name, sizeof name, "file%d", i);
    folder_write(&folder, name, name, strlen(name));
  }
  snprintf(name, sizeof name, "%s/", folder.path);
  train_text_files_t one = list(folder.path), two = list(name);
  cr_assert_eq(one.count, two.count);
  for (size_t i = 0; i < one.count; i++) {
    cr_assert_eq(one.files[i].held_out_from, two.files[i].held_out_from, "%s", one.files[i].path);
  }
  train_text_files_free(&one);
  train_text_files_free(&two);
}

Test(text_files, non_text_files_are_skipped) {
  folder_write(&folder, "text", "some text", 9);
  folder_write(&folder, "object", "\177ELF\0\0", 6);
  folder_write(&folder, "empty", "", 0);
  cr_assert_eq(symlink(folder.path, folder_path(&folder, "loop")), 0);
  cr_assert_eq(mkfifo(folder_path(&folder, "pipe"), 0600), 0);
  train_text_files_t texts = list(folder.path);
  cr_assert_eq(texts.count, 1);
  cr_assert_str_eq(texts.files[0].path, folder_path(&folder, "text"));
  train_text_files_free(&texts);
}

Test(text_files, holds_out_the_last_tenth_if_a_split_is_empty) {
  char text[400], name[2] = "a", last[2];
  memset(text, 'x', sizeof text);
  for (int made = 0; made < 3; name[0]++) {
    if (train_text_is_held_out(name)) continue;
    folder_write(&folder, name, text, made++ == 1 ? 200 : 400);
    memcpy(last, name, sizeof last);
  }
  train_text_files_t texts = list(folder.path);
  cr_assert_eq(texts.bytes_of[TRAIN_SPLIT_TRAINING], 900);
  cr_assert_eq(texts.bytes_of[TRAIN_SPLIT_HELD_OUT], 100);
  cr_assert(texts.files_of[TRAIN_SPLIT_TRAINING] == 3 && texts.files_of[TRAIN_SPLIT_HELD_OUT] == 1);
  cr_assert_eq(texts.files[2].held_out_from, 300);
  train_text_files_free(&texts);
  texts = list(folder_path(&folder, last));
  cr_assert_eq(texts.count, 1);
  cr_assert_eq(texts.files[0].held_out_from, 360);
  train_text_files_free(&texts);
}

/* ---- reading ---- */

/* All visited text, concatenated. */
typedef struct collected {
  uint8_t *bytes;
  size_t count, chunks, ends, held_out;
} collected_t;

static coll_status_t collect(void *context, const train_text_chunk_t *chunk) {
  collected_t *collected = context;
  collected->bytes = realloc(collected->bytes, collected->count + chunk->count);
  memcpy(collected->bytes + collected->count, chunk->bytes, chunk->count);
  collected->count += chunk->count;
  collected->chunks++;
  collected->ends += chunk->is_last;
  collected->held_out += chunk->split == TRAIN_SPLIT_HELD_OUT ? chunk->count : 0;
  return COLL_OK;
}

static collected_t read_all(const train_text_files_t *texts) {
  static const train_progress_t no_progress = {0};
  collected_t collected = {0};
  cr_assert_eq(train_text_files_read(texts, collect, &collected, &no_progress), COLL_OK, "%s",
               base_last_error());
  return collected;
}

Test(text_files, are_read_with_their_listed_length) {
  static const train_progress_t no_progress = {0};
  const char *path = folder_write(&folder, "file", "0123456789abcdefghij", 20);
  train_text_files_t texts = list(path);
  FILE *file = fopen(path, "a");
  fputs("and more", file);
  fclose(file);
  collected_t collected = read_all(&texts);
  cr_assert(collected.count == 20 && collected.chunks == 2 && collected.ends == 1 &&
            collected.held_out == 2);
  cr_assert_arr_eq(collected.bytes, "0123456789abcdefghij", 20);
  cr_assert_eq(truncate(path, 4), 0);
  cr_assert_eq(train_text_files_read(&texts, collect, &collected, &no_progress), COLL_ERROR_SYSTEM);
  cr_assert(strstr(base_last_error(), "was truncated"), "%s", base_last_error());
  unlink(path);
  cr_assert_eq(train_text_files_read(&texts, collect, &collected, &no_progress), COLL_ERROR_SYSTEM);
  cr_assert(strstr(base_last_error(), path), "%s", base_last_error());
  free(collected.bytes);
  train_text_files_free(&texts);
}

/* Counts the words that differ from those of the unsplit file. */
typedef struct words {
  const uint8_t *full_text;
  size_t at, count, chunks;
} words_t;

static coll_status_t compare_words(void *context, const train_text_chunk_t *chunk) {
  words_t *words = context;
  for (size_t at = 0; at < chunk->count;) {
    size_t length = train_pretokenize_next(chunk->bytes + at, chunk->count - at);
    cr_assert_eq(length,
                 train_pretokenize_next(words->full_text + words->at, words->count - words->at),
                 "at byte %zu", words->at);
    at += length;
    words->at += length;
  }
  words->chunks++;
  return COLL_OK;
}

Test(text_files, chunks_end_at_word_boundaries) {
  static const train_progress_t no_progress = {0};
  size_t count = (size_t)36 << 20;
  uint8_t *text = malloc(count), some[5000];
  uint64_t state = 1;
  reference_text(&state, some, sizeof some);
  for (size_t i = 0; i < count; i++) text[i] = some[i % (sizeof some - i / (1 << 20))];
  memset(text + ((size_t)16 << 20) - 500, '\n', 1000); /* no word boundary near the end of a
                                                        * chunk */
  const char *path = folder_write(&folder, "long", text, count);
  train_text_files_t texts = list(path);
  texts.files[0].held_out_from = count; /* otherwise the last tenth would be cut off at any byte */
  words_t words = {.full_text = text, .count = count};
  cr_assert_eq(train_text_files_read(&texts, compare_words, &words, &no_progress), COLL_OK);
  cr_assert_eq(words.at, count);
  cr_assert_eq(words.chunks, 3);
  train_text_files_free(&texts);
  free(text);
}

Test(text_files, line_longer_than_a_chunk_is_not_split) {
  size_t count = (size_t)40 << 20;
  char *text = malloc(count);
  memset(text, 'x', count);
  memset(text + count - 5000, '\n', 100);
  train_text_files_t texts = list(folder_write(&folder, "line", text, count));
  texts.files[0].held_out_from = count;
  collected_t collected = read_all(&texts);
  cr_assert(collected.count == count && memcmp(collected.bytes, text, count) == 0);
  cr_assert(collected.chunks == 1 && collected.ends == 1, "%zu pieces", collected.chunks);
  free(collected.bytes);
  train_text_files_free(&texts);
  free(text);
}

Test(text_files, empty_input_is_an_error) {
  train_text_files_t texts;
  cr_assert_eq(train_text_files_list(folder.path, &texts), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "contains no text"), "%s", base_last_error());
  cr_assert_eq(train_text_files_list(folder_path(&folder, "missing"), &texts), COLL_ERROR_SYSTEM);
  cr_assert(strstr(base_last_error(), "No such file"), "%s", base_last_error());
}

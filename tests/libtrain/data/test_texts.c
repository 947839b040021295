/* Which files are read from a folder, and how they are split. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../folder.h"
#include "libtrain/data/split.h"
#include "libtrain/data/texts.h"
#include "reference.h"

static folder_t folder;

static void setup(void) {
  folder_make(&folder);
}

static void teardown(void) {
  folder_remove(&folder);
}

TestSuite(texts, .init = setup, .fini = teardown);

static train_texts_t list(const char *path) {
  train_texts_t texts;
  cr_assert_eq(train_texts_list(path, &texts), COLL_OK, "%s", base_last_error());
  return texts;
}

Test(texts, every_file_lands_on_its_own_side) {
  char name[32];
  for (int i = 0; i < 200; i++) {
    snprintf(name, sizeof name, "sub%d/<%d>", i % 7, i);
    folder_write(&folder, name, name, strlen(name));
  }
  train_texts_t texts = list(folder.path);
  cr_assert_eq(texts.count, 200);
  for (size_t i = 0; i < texts.count; i++) {
    const train_text_file_t *file = &texts.files[i];
    bool held_out = train_text_is_held_out(file->path + strlen(folder.path) + 1);
    cr_assert_eq(file->held_out_from, held_out ? 0 : file->bytes, "%s", file->path);
    if (i > 0) cr_assert_lt(strcmp(file[-1].path, file->path), 0);
  }
  cr_assert_eq(texts.files_of[TRAIN_TRAINING] + texts.files_of[TRAIN_HELD_OUT], 200);
  size_t held_out = texts.files_of[TRAIN_HELD_OUT];
  cr_assert(held_out > 5 && held_out < 40, "%zu of 200 held out", held_out);
  train_texts_free(&texts);
}

Test(texts, a_trailing_slash_changes_nothing) {
  char name[128];
  for (int i = 0; i < 40; i++) {
    snprintf(name, sizeof name, "file%d", i);
    folder_write(&folder, name, name, strlen(name));
  }
  snprintf(name, sizeof name, "%s/", folder.path);
  train_texts_t one = list(folder.path), two = list(name);
  cr_assert_eq(one.count, two.count);
  for (size_t i = 0; i < one.count; i++) {
    cr_assert_eq(one.files[i].held_out_from, two.files[i].held_out_from, "%s", one.files[i].path);
  }
  train_texts_free(&one);
  train_texts_free(&two);
}

Test(texts, what_is_no_text_is_passed_over) {
  folder_write(&folder, "text", "some text", 9);
  folder_write(&folder, "object", "\177ELF\0\0", 6);
  folder_write(&folder, "empty", "", 0);
  cr_assert_eq(symlink(folder.path, folder_path(&folder, "loop")), 0);
  cr_assert_eq(mkfifo(folder_path(&folder, "pipe"), 0600), 0);
  train_texts_t texts = list(folder.path);
  cr_assert_eq(texts.count, 1);
  cr_assert_str_eq(texts.files[0].path, folder_path(&folder, "text"));
  train_texts_free(&texts);
}

Test(texts, with_one_side_empty_the_last_tenth_is_held_out) {
  char text[400], name[2] = "a", last[2];
  memset(text, 'x', sizeof text);
  for (int made = 0; made < 3; name[0]++) {
    if (train_text_is_held_out(name)) continue;
    folder_write(&folder, name, text, made++ == 1 ? 200 : 400);
    memcpy(last, name, sizeof last);
  }
  train_texts_t texts = list(folder.path);
  cr_assert_eq(texts.bytes_of[TRAIN_TRAINING], 900);
  cr_assert_eq(texts.bytes_of[TRAIN_HELD_OUT], 100);
  cr_assert(texts.files_of[TRAIN_TRAINING] == 3 && texts.files_of[TRAIN_HELD_OUT] == 1);
  cr_assert_eq(texts.files[2].held_out_from, 300);
  train_texts_free(&texts);
  texts = list(folder_path(&folder, last));
  cr_assert_eq(texts.count, 1);
  cr_assert_eq(texts.files[0].held_out_from, 360);
  train_texts_free(&texts);
}

/* ---- reading ---- */

/* What has been visited, all in one. */
typedef struct seen {
  uint8_t *bytes;
  size_t count, pieces, ends, held_out;
} seen_t;

static coll_status_t see(void *context, const train_text_piece_t *piece) {
  seen_t *seen = context;
  seen->bytes = realloc(seen->bytes, seen->count + piece->count);
  memcpy(seen->bytes + seen->count, piece->bytes, piece->count);
  seen->count += piece->count;
  seen->pieces++;
  seen->ends += piece->ends;
  seen->held_out += piece->side == TRAIN_HELD_OUT ? piece->count : 0;
  return COLL_OK;
}

static seen_t read_all(const train_texts_t *texts) {
  static const train_watch_t nobody = {0};
  seen_t seen = {0};
  cr_assert_eq(train_texts_read(texts, see, &seen, &nobody), COLL_OK, "%s", base_last_error());
  return seen;
}

Test(texts, are_read_as_they_were_listed) {
  static const train_watch_t nobody = {0};
  const char *path = folder_write(&folder, "file", "0123456789abcdefghij", 20);
  train_texts_t texts = list(path);
  FILE *file = fopen(path, "a");
  fputs("and more", file);
  fclose(file);
  seen_t seen = read_all(&texts);
  cr_assert(seen.count == 20 && seen.pieces == 2 && seen.ends == 1 && seen.held_out == 2);
  cr_assert_arr_eq(seen.bytes, "0123456789abcdefghij", 20);
  cr_assert_eq(truncate(path, 4), 0);
  cr_assert_eq(train_texts_read(&texts, see, &seen, &nobody), COLL_ERROR_SYSTEM);
  cr_assert(strstr(base_last_error(), "became shorter"), "%s", base_last_error());
  unlink(path);
  cr_assert_eq(train_texts_read(&texts, see, &seen, &nobody), COLL_ERROR_SYSTEM);
  cr_assert(strstr(base_last_error(), path), "%s", base_last_error());
  free(seen.bytes);
  train_texts_free(&texts);
}

/* Counts what would be other words than those of the whole file. */
typedef struct words {
  const uint8_t *whole;
  size_t at, count, pieces;
} words_t;

static coll_status_t compare_words(void *context, const train_text_piece_t *piece) {
  words_t *words = context;
  for (size_t at = 0; at < piece->count;) {
    size_t length = train_split_next(piece->bytes + at, piece->count - at);
    cr_assert_eq(length, train_split_next(words->whole + words->at, words->count - words->at),
                 "at byte %zu", words->at);
    at += length;
    words->at += length;
  }
  words->pieces++;
  return COLL_OK;
}

Test(texts, pieces_of_a_long_file_have_the_same_words) {
  static const train_watch_t nobody = {0};
  size_t count = (size_t)36 << 20;
  uint8_t *text = malloc(count), some[5000];
  uint64_t state = 1;
  reference_text(&state, some, sizeof some);
  for (size_t i = 0; i < count; i++) text[i] = some[i % (sizeof some - i / (1 << 20))];
  memset(text + ((size_t)16 << 20) - 500, '\n', 1000); /* no place to cut where a piece ends */
  const char *path = folder_write(&folder, "long", text, count);
  train_texts_t texts = list(path);
  texts.files[0].held_out_from = count; /* or its last tenth would be cut off anywhere */
  words_t words = {.whole = text, .count = count};
  cr_assert_eq(train_texts_read(&texts, compare_words, &words, &nobody), COLL_OK);
  cr_assert_eq(words.at, count);
  cr_assert_eq(words.pieces, 3);
  train_texts_free(&texts);
  free(text);
}

Test(texts, a_line_that_is_longer_than_a_piece_stays_whole) {
  size_t count = (size_t)40 << 20;
  char *text = malloc(count);
  memset(text, 'x', count);
  memset(text + count - 5000, '\n', 100);
  train_texts_t texts = list(folder_write(&folder, "line", text, count));
  texts.files[0].held_out_from = count;
  seen_t seen = read_all(&texts);
  cr_assert(seen.count == count && memcmp(seen.bytes, text, count) == 0);
  cr_assert(seen.pieces == 1 && seen.ends == 1, "%zu pieces", seen.pieces);
  free(seen.bytes);
  train_texts_free(&texts);
  free(text);
}

Test(texts, nothing_to_read_is_one_sentence) {
  train_texts_t texts;
  cr_assert_eq(train_texts_list(folder.path, &texts), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "no text"), "%s", base_last_error());
  cr_assert_eq(train_texts_list(folder_path(&folder, "missing"), &texts), COLL_ERROR_SYSTEM);
  cr_assert(strstr(base_last_error(), "No such file"), "%s", base_last_error());
}

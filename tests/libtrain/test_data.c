/* What is read from a folder, how it is split, and which places a run visits. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "folder.h"
#include "libtrain/data/data.h"

static folder_t folder;

static void setup(void) {
  folder_make(&folder);
}

static void teardown(void) {
  folder_remove(&folder);
}

TestSuite(data, .init = setup, .fini = teardown);

/* Writes a file whose text is its own name. */
static void write_named(const char *name) {
  folder_write(&folder, name, name, strlen(name));
}

static bool holds(const train_text_t *text, const char *name) {
  return memmem(text->bytes, text->count, name, strlen(name) + 1) != NULL;
}

Test(data, every_file_lands_on_its_own_side) {
  char name[32];
  int held_out = 0;
  for (int i = 0; i < 200; i++) {
    snprintf(name, sizeof name, "sub%d/<%d>", i % 7, i);
    write_named(name);
    held_out += train_data_is_held_out(name);
  }
  train_data_t data;
  cr_assert_eq(train_data_load(folder.path, &data), COLL_OK, "%s", base_last_error());
  for (int i = 0; i < 200; i++) {
    snprintf(name, sizeof name, "sub%d/<%d>", i % 7, i);
    bool expected = train_data_is_held_out(name);
    cr_assert_eq(holds(&data.held_out, name), expected, "%s", name);
    cr_assert_eq(holds(&data.training, name), !expected, "%s", name);
  }
  cr_assert_eq(data.held_out.files, (size_t)held_out);
  cr_assert_eq(data.training.files, (size_t)(200 - held_out));
  cr_assert(held_out > 5 && held_out < 40, "%d of 200 held out", held_out);
  train_data_free(&data);
}

Test(data, a_trailing_slash_changes_nothing) {
  char slashed[128];
  for (int i = 0; i < 40; i++) {
    snprintf(slashed, sizeof slashed, "file%d", i);
    write_named(slashed);
  }
  snprintf(slashed, sizeof slashed, "%s/", folder.path);
  train_data_t one, two;
  cr_assert_eq(train_data_load(folder.path, &one), COLL_OK);
  cr_assert_eq(train_data_load(slashed, &two), COLL_OK);
  cr_assert_eq(one.training.count, two.training.count);
  cr_assert_arr_eq(one.training.bytes, two.training.bytes, one.training.count);
  train_data_free(&one);
  train_data_free(&two);
}

Test(data, what_is_no_text_is_passed_over) {
  folder_write(&folder, "text", "some text", 9);
  folder_write(&folder, "object",
               "\x7f"
               "ELF\0\0",
               6);
  folder_write(&folder, "empty", "", 0);
  cr_assert_eq(symlink(folder.path, folder_path(&folder, "loop")), 0);
  cr_assert_eq(mkfifo(folder_path(&folder, "pipe"), 0600), 0);
  train_data_t data;
  cr_assert_eq(train_data_load(folder.path, &data), COLL_OK, "%s", base_last_error());
  cr_assert_eq(data.training.count + data.held_out.count, 10);
  train_data_free(&data);
}

Test(data, a_single_file_is_split_by_place) {
  char text[1000];
  for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i % 26);
  train_data_t data;
  cr_assert_eq(train_data_load(folder_write(&folder, "one", text, sizeof text), &data), COLL_OK);
  cr_assert_eq(data.training.count, 901);
  cr_assert_eq(data.held_out.count, 100);
  cr_assert_arr_eq(data.training.bytes, text, 901);
  cr_assert_arr_eq(data.held_out.bytes, text + 901, 99);
  train_data_free(&data);
}

Test(data, nothing_to_read_is_one_sentence) {
  train_data_t data;
  cr_assert_eq(train_data_load(folder.path, &data), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "no text"), "%s", base_last_error());
  cr_assert_eq(train_data_load(folder_path(&folder, "missing"), &data), COLL_ERROR_SYSTEM);
  cr_assert(strstr(base_last_error(), "No such file"), "%s", base_last_error());
}

Test(data, text_shorter_than_the_context_is_refused) {
  train_data_t data;
  char text[100];
  memset(text, 'x', sizeof text);
  cr_assert_eq(train_data_load(folder_write(&folder, "short", text, sizeof text), &data), COLL_OK);
  cr_assert_eq(train_data_check(&data, 9), COLL_OK);
  cr_assert_eq(train_data_check(&data, 10), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "context 10 is longer than the data"));
  train_data_free(&data);
}

Test(data, targets_are_one_byte_ahead) {
  uint8_t bytes[] = "abcdef";
  const train_text_t text = {.bytes = bytes, .count = 6};
  int32_t tokens[3], targets[3];
  train_data_sequence(&text, 2, 3, tokens, targets);
  cr_assert(tokens[0] == 'c' && tokens[2] == 'e' && targets[0] == 'd' && targets[2] == 'f');
}

/* 4000 draws over 100 places: each is visited, none is out of bounds, and none stands out. */
Test(data, places_are_spread_evenly) {
  int visits[100] = {0};
  for (uint64_t step = 0; step < 500; step++) {
    for (int row = 0; row < 8; row++) visits[train_data_offset(7, step, 8, row, 110, 10)]++;
  }
  for (int i = 0; i < 100; i++) cr_assert(visits[i] > 10 && visits[i] < 90, "%d: %d", i, visits[i]);
  cr_assert_neq(train_data_offset(7, 0, 8, 0, 1 << 30, 10),
                train_data_offset(8, 0, 8, 0, 1 << 30, 10));
  cr_assert_eq(train_data_offset(7, 3, 8, 0, 1 << 30, 10),
               train_data_offset(7, 0, 8, 24, 1 << 30, 10));
}

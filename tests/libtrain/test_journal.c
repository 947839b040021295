/* The log of a run: every line a record that can be read back, whatever happens after it. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "libtrain/files/journal.h"

static folder_t folder;

static void setup(void) {
  folder_make(&folder);
}

static void teardown(void) {
  folder_remove(&folder);
}

TestSuite(journal, .init = setup, .fini = teardown);

static void write_step(train_journal_t *journal, int step, double loss) {
  json_t *record = json_pack("{s:i, s:f}", "step", step, "loss", loss);
  cr_assert_eq(train_journal_write(journal, record), COLL_OK, "%s", base_last_error());
}

/* The file's lines as records, in an array to be given up with json_decref. */
static json_t *read_records(const char *path) {
  size_t count;
  char *text = folder_read(path, &count);
  json_t *records = json_array();
  for (char *line = text, *end; line < text + count; line = end + 1) {
    json_error_t error;
    end = memchr(line, '\n', (size_t)(text + count - line));
    cr_assert_not_null(end, "the last line has no end");
    json_t *record = json_loadb(line, (size_t)(end - line), 0, &error);
    cr_assert_not_null(record, "%s", error.text);
    json_array_append_new(records, record);
  }
  free(text);
  return records;
}

static void check_step(const json_t *records, size_t index, int step, double loss) {
  const json_t *record = json_array_get(records, index);
  cr_assert_eq(json_integer_value(json_object_get(record, "step")), step);
  cr_assert_eq((float)json_real_value(json_object_get(record, "loss")), (float)loss);
}

Test(journal, each_record_is_in_the_file_before_the_next) {
  const char *path = folder_path(&folder, "log");
  train_journal_t *journal;
  cr_assert_eq(train_journal_open(path, false, &journal), COLL_OK, "%s", base_last_error());
  for (int step = 1; step <= 3; step++) {
    write_step(journal, step, 1.0 / 3 * step);
    json_t *records = read_records(path);
    cr_assert_eq(json_array_size(records), (size_t)step);
    check_step(records, (size_t)step - 1, step, 1.0 / 3 * step);
    json_decref(records);
  }
  train_journal_close(journal);
}

Test(journal, appending_keeps_what_is_there) {
  const char *path = folder_path(&folder, "log");
  for (int run = 0; run < 3; run++) {
    train_journal_t *journal;
    cr_assert_eq(train_journal_open(path, run == 2, &journal), COLL_OK);
    write_step(journal, run, 0.5);
    train_journal_close(journal);
  }
  json_t *records = read_records(path);
  cr_assert_eq(json_array_size(records), 2, "the second run replaced, the third added");
  check_step(records, 0, 1, 0.5);
  check_step(records, 1, 2, 0.5);
  json_decref(records);
}

Test(journal, what_cannot_be_written_is_said) {
  train_journal_t *journal;
  cr_assert_eq(train_journal_open(folder_path(&folder, "missing/log"), false, &journal),
               COLL_ERROR_SYSTEM);
  cr_assert(strstr(base_last_error(), "missing/log: No such file"), "%s", base_last_error());
  cr_assert_eq(train_journal_open("/dev/full", false, &journal), COLL_OK);
  cr_assert_eq(train_journal_write(journal, json_object()), COLL_ERROR_SYSTEM);
  cr_assert(strstr(base_last_error(), "/dev/full: No space left"), "%s", base_last_error());
  train_journal_close(journal);
}

static void add_step(void *context, const json_t *record) {
  json_array_append_new(context, json_incref(json_object_get(record, "step")));
}

/* That two records are read back, and the second one's step. */
static void check_two_steps(const char *path, int second) {
  json_t *steps = json_array();
  cr_assert_eq(train_journal_read(path, add_step, steps), COLL_OK, "%s", base_last_error());
  cr_assert_eq(json_array_size(steps), 2u);
  cr_assert_eq(json_integer_value(json_array_get(steps, 1)), second);
  json_decref(steps);
}

Test(journal, is_read_back_without_what_was_cut_short) {
  const char *path = folder_path(&folder, "log");
  train_journal_t *journal;
  cr_assert_eq(train_journal_open(path, false, &journal), COLL_OK, "%s", base_last_error());
  write_step(journal, 1, 3.0);
  write_step(journal, 2, 2.0);
  train_journal_close(journal);
  FILE *file = fopen(path, "a");
  fputs("[1]\n{\"step\": 3, \"lo", file);
  fclose(file);
  check_two_steps(path, 2);
}

/* A full disk cuts a line; the run that goes on loses none of its own. */
Test(journal, goes_on_behind_a_line_that_was_cut) {
  const char *path = folder_path(&folder, "log");
  train_journal_t *journal;
  FILE *file = fopen(path, "w");
  fputs("{\"step\": 1}\n{\"step\": 2, \"lo", file);
  fclose(file);
  cr_assert_eq(train_journal_open(path, true, &journal), COLL_OK, "%s", base_last_error());
  write_step(journal, 3, 1.0);
  train_journal_close(journal);
  check_two_steps(path, 3);
}

Test(journal, that_is_not_there_has_no_records) {
  json_t *steps = json_array();
  cr_assert_eq(train_journal_read(folder_path(&folder, "none"), add_step, steps), COLL_OK);
  cr_assert_eq(json_array_size(steps), 0u);
  cr_assert_eq(train_journal_read(folder_path(&folder, "."), add_step, steps), COLL_ERROR_SYSTEM);
  json_decref(steps);
}

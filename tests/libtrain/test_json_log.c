/* Every record can be read back, whatever happens to later ones. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "libtrain/files/json_log.h"

static folder_t folder;

static void setup(void) {
  folder_make(&folder);
}

static void teardown(void) {
  folder_remove(&folder);
}

TestSuite(json_log, .init = setup, .fini = teardown);

static void write_step(train_json_log_t *log, int step, double loss) {
  json_t *record = json_pack("{s:i, s:f}", "step", step, "loss", loss);
  cr_assert_eq(train_json_log_write(log, record), COLL_OK, "%s", base_last_error());
}

/* All records of the file as a JSON array; the caller calls json_decref. */
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

Test(json_log, record_is_in_the_file_before_the_next) {
  const char *path = folder_path(&folder, "log");
  train_json_log_t *log;
  cr_assert_eq(train_json_log_open(path, false, &log), COLL_OK, "%s", base_last_error());
  for (int step = 1; step <= 3; step++) {
    write_step(log, step, 1.0 / 3 * step);
    json_t *records = read_records(path);
    cr_assert_eq(json_array_size(records), (size_t)step);
    check_step(records, (size_t)step - 1, step, 1.0 / 3 * step);
    json_decref(records);
  }
  train_json_log_close(log);
}

Test(json_log, appending_keeps_existing_records) {
  const char *path = folder_path(&folder, "log");
  for (int run = 0; run < 3; run++) {
    train_json_log_t *log;
    cr_assert_eq(train_json_log_open(path, run == 2, &log), COLL_OK);
    write_step(log, run, 0.5);
    train_json_log_close(log);
  }
  json_t *records = read_records(path);
  cr_assert_eq(json_array_size(records), 2, "the second run replaced, the third added");
  check_step(records, 0, 1, 0.5);
  check_step(records, 1, 2, 0.5);
  json_decref(records);
}

Test(json_log, write_failures_are_errors) {
  train_json_log_t *log;
  cr_assert_eq(train_json_log_open(folder_path(&folder, "missing/log"), false, &log),
               COLL_ERROR_SYSTEM);
  cr_assert(strstr(base_last_error(), "missing/log: No such file"), "%s", base_last_error());
  cr_assert_eq(train_json_log_open("/dev/full", false, &log), COLL_OK);
  cr_assert_eq(train_json_log_write(log, json_object()), COLL_ERROR_SYSTEM);
  cr_assert(strstr(base_last_error(), "/dev/full: No space left"), "%s", base_last_error());
  train_json_log_close(log);
}

static void add_step(void *context, const json_t *record) {
  json_array_append_new(context, json_incref(json_object_get(record, "step")));
}

/* Checks that there are two records, and the step of the second one. */
static void check_two_steps(const char *path, int second) {
  json_t *steps = json_array();
  cr_assert_eq(train_json_log_read(path, add_step, steps), COLL_OK, "%s", base_last_error());
  cr_assert_eq(json_array_size(steps), 2u);
  cr_assert_eq(json_integer_value(json_array_get(steps, 1)), second);
  json_decref(steps);
}

Test(json_log, reading_skips_a_truncated_line) {
  const char *path = folder_path(&folder, "log");
  train_json_log_t *log;
  cr_assert_eq(train_json_log_open(path, false, &log), COLL_OK, "%s", base_last_error());
  write_step(log, 1, 3.0);
  write_step(log, 2, 2.0);
  train_json_log_close(log);
  FILE *file = fopen(path, "a");
  fputs("[1]\n{\"step\": 3, \"lo", file);
  fclose(file);
  check_two_steps(path, 2);
}

/* A full disk truncates a line; the next run's records are unaffected. */
Test(json_log, appends_after_a_truncated_line) {
  const char *path = folder_path(&folder, "log");
  train_json_log_t *log;
  FILE *file = fopen(path, "w");
  fputs("{\"step\": 1}\n{\"step\": 2, \"lo", file);
  fclose(file);
  cr_assert_eq(train_json_log_open(path, true, &log), COLL_OK, "%s", base_last_error());
  write_step(log, 3, 1.0);
  train_json_log_close(log);
  check_two_steps(path, 3);
}

Test(json_log, missing_file_has_no_records) {
  json_t *steps = json_array();
  cr_assert_eq(train_json_log_read(folder_path(&folder, "none"), add_step, steps), COLL_OK);
  cr_assert_eq(json_array_size(steps), 0u);
  cr_assert_eq(train_json_log_read(folder_path(&folder, "."), add_step, steps), COLL_ERROR_SYSTEM);
  json_decref(steps);
}

/* Knobs: a wrong value is rejected with a helpful message, and never replaced by the default. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/knob.h"

static const char *const words[] = {"auto", "ring", "tree", NULL};
static const base_knob_t number = {
    .name = "COLL_TEST_NUMBER", .kind = BASE_KNOB_INTEGER, .fallback = "5", .min = 1, .max = 9};
static const base_knob_t size = {
    .name = "COLL_TEST_SIZE", .kind = BASE_KNOB_BYTES, .fallback = "4K", .min = 1, .max = 8192};
static const base_knob_t word = {.name = "COLL_TEST_WORD",
                                 .kind = BASE_KNOB_WORD,
                                 .fallback = "auto",
                                 .help = "how",
                                 .words = words};
static const base_knob_t text = {.name = "COLL_TEST_TEXT", .kind = BASE_KNOB_TEXT, .fallback = ""};

Test(knob, uses_the_default_if_unset) {
  int64_t value = 0;
  int index = -1;
  const char *written = NULL;
  cr_assert(base_knob_integer(&number, &value) == COLL_OK && value == 5);
  cr_assert(base_knob_integer(&size, &value) == COLL_OK && value == 4096);
  cr_assert(base_knob_word(&word, &index) == COLL_OK && index == 0);
  cr_assert_eq(base_knob_text(&text, &written), COLL_OK);
  cr_assert_str_eq(written, "");
}

Test(knob, rejects_an_empty_value) {
  int64_t value = 77;
  int index = 77;
  const char *written = "kept";
  const base_knob_t *const all[] = {&number, &size, &word, &text};
  for (int i = 0; i < 4; i++) {
    setenv(all[i]->name, "", 1);
    coll_status_t status = all[i] == &text   ? base_knob_text(&text, &written)
                           : all[i] == &word ? base_knob_word(&word, &index)
                                             : base_knob_integer(all[i], &value);
    cr_assert_eq(status, COLL_ERROR_INVALID, "%s", all[i]->name);
    cr_assert_not_null(strstr(base_last_error(), all[i]->name), "%s", base_last_error());
    cr_assert_not_null(strstr(base_last_error(), "is set but empty"), "%s", base_last_error());
  }
  cr_assert(value == 77 && index == 77, "a rejected value was set");
  cr_assert_str_eq(written, "kept");
}

/* A default that is set lies below the environment, the latest one counts, and messages have where
 * it is from. */
Test(knob, uses_a_default_that_is_set) {
  int64_t value = 0;
  int index = -1;
  const char *written = NULL;
  cr_assert_eq(base_knob_set_default(&number, "7", "a file, line 1"), COLL_OK);
  cr_assert(base_knob_integer(&number, &value) == COLL_OK && value == 7);
  cr_assert(base_knob_integer(&size, &value) == COLL_OK && value == 4096);
  setenv(number.name, "3", 1);
  cr_assert(base_knob_integer(&number, &value) == COLL_OK && value == 3);
  setenv(number.name, "33", 1);
  cr_assert_eq(base_knob_integer(&number, &value), COLL_ERROR_INVALID);
  cr_assert_null(strstr(base_last_error(), "a file"), "%s", base_last_error());
  unsetenv(number.name);
  cr_assert_eq(base_knob_set_default(&number, "77", "a file, line 2"), COLL_OK);
  cr_assert_eq(base_knob_integer(&number, &value), COLL_ERROR_INVALID);
  cr_assert_not_null(strstr(base_last_error(), "COLL_TEST_NUMBER=77 (a file, line 2): give"), "%s",
                     base_last_error());
  setenv(number.name, "", 1);
  cr_assert_eq(base_knob_integer(&number, &value), COLL_ERROR_INVALID);
  cr_assert_not_null(strstr(base_last_error(), "COLL_TEST_NUMBER is set but empty"), "%s",
                     base_last_error());
  cr_assert_eq(base_knob_set_default(&text, "", "a file"), COLL_OK);
  cr_assert_eq(base_knob_text(&text, &written), COLL_ERROR_INVALID);
  cr_assert_not_null(strstr(base_last_error(), "COLL_TEST_TEXT (a file) is set but empty"), "%s",
                     base_last_error());
  cr_assert_eq(base_knob_set_default(&word, "rign", "a file"), COLL_OK);
  cr_assert_eq(base_knob_word(&word, &index), COLL_ERROR_INVALID);
  cr_assert_not_null(strstr(base_last_error(), "COLL_TEST_WORD=rign (a file) is not"), "%s",
                     base_last_error());
}

Test(knob, reads_the_environment) {
  int64_t value = 0;
  int index = -1;
  setenv(number.name, "9", 1);
  setenv(size.name, "8k", 1);
  setenv(word.name, "tree", 1);
  cr_assert(base_knob_integer(&number, &value) == COLL_OK && value == 9);
  cr_assert(base_knob_integer(&size, &value) == COLL_OK && value == 8192);
  cr_assert(base_knob_word(&word, &index) == COLL_OK && index == 2);
}

Test(knob, rejects_wrong_values) {
  static const char *const numbers[] = {"0", "10", "five", "5 ", "1K"};
  int64_t value = 77;
  int index = 77;
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    setenv(number.name, numbers[i], 1);
    cr_assert_eq(base_knob_integer(&number, &value), COLL_ERROR_INVALID, "%s", numbers[i]);
    cr_assert_not_null(strstr(base_last_error(), number.name));
    cr_assert_not_null(strstr(base_last_error(), "1 to 9"), "%s", base_last_error());
  }
  setenv(size.name, "9K", 1);
  cr_assert_eq(base_knob_integer(&size, &value), COLL_ERROR_INVALID);
  setenv(word.name, "rnig", 1);
  cr_assert_eq(base_knob_word(&word, &index), COLL_ERROR_INVALID);
  cr_assert_not_null(strstr(base_last_error(), "'ring'"), "%s", base_last_error());
  cr_assert(value == 77 && index == 77, "a rejected value was set");
}

Test(knob, shows_a_value_as_it_is_written) {
  cr_assert_str_eq(base_knob_value(&word), "auto");
  setenv(word.name, "rnig", 1);
  cr_assert_str_eq(base_knob_value(&word), "rnig");
}

/* What the program has configured lies below the variable, and above a default that was set. */
Test(knob, uses_what_is_configured) {
  int index = -1;
  const char *written = NULL;
  cr_assert_eq(base_knob_set_default(&text, "preset", "a file, line 1"), COLL_OK);
  cr_assert_eq(base_knob_choose_text(&text, NULL, &written), COLL_OK);
  cr_assert_str_eq(written, "preset");
  cr_assert_eq(base_knob_choose_text(&text, "configured", &written), COLL_OK);
  cr_assert_str_eq(written, "configured");
  cr_assert(base_knob_choose_word(&word, "tree", &index) == COLL_OK && index == 2);
  cr_assert_eq(base_knob_choose_word(&word, "tere", &index), COLL_ERROR_INVALID);
  cr_assert_not_null(strstr(base_last_error(), "=tere (the communicator's config)"), "%s",
                     base_last_error());
  cr_assert_eq(base_knob_choose_text(&text, "", &written), COLL_ERROR_INVALID);
  cr_assert_not(base_knob_is_set(&text));
  setenv(text.name, "variable", 1);
  setenv(word.name, "ring", 1);
  cr_assert(base_knob_is_set(&text));
  cr_assert_eq(base_knob_choose_text(&text, "configured", &written), COLL_OK);
  cr_assert_str_eq(written, "variable");
  cr_assert(base_knob_choose_word(&word, "tree", &index) == COLL_OK && index == 1);
}

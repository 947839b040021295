/* Lines of any length and with any end, and files that end without one. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/lines.h"

#define LONG 100000

static void expect(const char *text, size_t bytes, const char *const wanted[], int count) {
  base_lines_t lines = {0};
  FILE *file = fmemopen((void *)text, bytes, "r");
  cr_assert_not_null(file);
  for (int i = 0; i < count; i++) {
    cr_assert(base_lines_next(&lines, file), "line %d", i + 1);
    cr_expect_str_eq(lines.text, wanted[i]);
    cr_expect_eq(lines.number, i + 1);
  }
  cr_expect_not(base_lines_next(&lines, file));
  cr_expect_eq(base_lines_end(&lines, "memory"), COLL_OK);
  fclose(file);
}

Test(lines, end_in_lf_or_cr_lf_or_the_file) {
  static const char unix_text[] = "one\n\n two \nthree",
                    dos_text[] = "one\r\n\r\n two \r\nthree\r\n";
  static const char *const wanted[] = {"one", "", " two ", "three"};
  expect(unix_text, strlen(unix_text), wanted, 4);
  expect(dos_text, strlen(dos_text), wanted, 4);
}

Test(lines, have_no_byte_order_mark) {
  static const char text[] = "\xef\xbb\xbfone\n\xef\xbb\xbftwo\n";
  static const char *const wanted[] = {"one", "\xef\xbb\xbftwo"};
  expect(text, strlen(text), wanted, 2);
}

Test(lines, are_as_long_as_they_are) {
  char *text = malloc(LONG + 5);
  cr_assert_not_null(text);
  memset(text, 'x', LONG);
  memcpy(text + LONG, "\nend", 5);
  base_lines_t lines = {0};
  FILE *file = fmemopen(text, LONG + 4, "r");
  cr_assert(base_lines_next(&lines, file));
  cr_expect_eq(lines.length, (size_t)LONG);
  cr_assert(base_lines_next(&lines, file));
  cr_expect_str_eq(lines.text, "end");
  cr_expect_eq(base_lines_end(&lines, "memory"), COLL_OK);
  fclose(file);
  free(text);
}

Test(lines, show_zero_bytes) {
  base_lines_t lines = {0};
  FILE *file = fmemopen("a\0b\n", 4, "r");
  cr_assert(base_lines_next(&lines, file));
  cr_expect_eq(lines.length, (size_t)3);
  cr_expect_eq(base_lines_end(&lines, "memory"), COLL_OK);
  fclose(file);
}

Test(lines, of_a_folder_cannot_be_read) {
  base_lines_t lines = {0};
  FILE *file = fopen("/", "re");
  cr_assert_not_null(file);
  cr_expect_not(base_lines_next(&lines, file));
  cr_expect_eq(base_lines_end(&lines, "/"), COLL_ERROR_SYSTEM);
  cr_expect_not_null(strstr(base_last_error(), "cannot read /: Is a directory"));
  fclose(file);
  cr_expect_null(base_lines_first("/no/such/file"));
}

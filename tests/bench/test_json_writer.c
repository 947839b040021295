/* JSON as text: brackets, commas, escapes, numbers. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/json_writer.h"

static char *text;
static size_t bytes;
static bench_json_t json;

static void begin(bool lines) {
  json = (bench_json_t){.out = open_memstream(&text, &bytes), .lines = lines};
}

static void expect(const char *expected) {
  fclose(json.out);
  cr_assert_str_eq(text, expected);
  free(text);
}

static void write_example(void) {
  bench_json_open(&json, NULL, '{');
  bench_json_integer(&json, "a", -7);
  bench_json_open(&json, "b", '[');
  bench_json_open(&json, NULL, '{');
  bench_json_close(&json, '}');
  bench_json_open(&json, NULL, '[');
  bench_json_close(&json, ']');
  bench_json_bool(&json, NULL, true);
  bench_json_close(&json, ']');
  bench_json_null(&json, "c");
  bench_json_text(&json, "d", NULL);
  bench_json_close(&json, '}');
}

Test(json_writer, writes_one_line) {
  begin(false);
  write_example();
  expect("{\"a\":-7,\"b\":[{},[],true],\"c\":null,\"d\":null}");
}

Test(json_writer, writes_a_line_for_each_value) {
  begin(true);
  write_example();
  expect("{\n \"a\": -7,\n \"b\": [\n  {},\n  [],\n  true\n ],\n \"c\": null,\n \"d\": null\n}");
}

static void expect_text(const char *given, const char *expected) {
  begin(false);
  bench_json_text(&json, NULL, given);
  expect(expected);
}

Test(json_writer, escapes) {
  expect_text("a\"\\\n\x1f/\x7f", "\"a\\\"\\\\\\u000a\\u001f/\x7f\"");
  expect_text("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
}

/* Overlong, surrogate, beyond the last code point, cut off, no beginning. */
Test(json_writer, replaces_what_is_not_utf8) {
  static const char *const wrong[] = {
      "\xc0\x80", "\xe0\x9f\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\x80", "\xff"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    begin(false);
    bench_json_text(&json, NULL, wrong[i]);
    fclose(json.out);
    size_t marks = 0;
    for (const char *at = text; (at = strstr(at, "\xef\xbf\xbd")) != NULL; at += 3) marks++;
    cr_assert_eq(marks, strlen(wrong[i]), "%zu: %s", i, text);
    cr_assert_eq(strlen(text), 2 + 3 * marks);
    free(text);
  }
}

static void expect_real(double value, const char *expected) {
  begin(false);
  bench_json_real(&json, NULL, value);
  expect(expected);
}

Test(json_writer, writes_reals_that_read_back) {
  expect_real(0.1, "0.1");
  expect_real(3, "3.0");
  expect_real(0.1 + 0.2, "0.30000000000000004");
  expect_real(1e300, "1e+300");
  expect_real(-0.0, "-0.0");
  expect_real(INFINITY, "null");
  expect_real(NAN, "null");
}

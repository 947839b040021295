/* Parsers accept the whole text or nothing. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/text.h"

static const char *const fruit[] = {"ring", "tree", "halving"};

Test(text, finds_the_nearest_word) {
  cr_assert_str_eq(base_text_nearest("rnig", fruit, 3), "ring");
  cr_assert_str_eq(base_text_nearest("halfing", fruit, 3), "halving");
  cr_assert_str_eq(base_text_nearest("", fruit, 3), "ring"); /* a tie: the first */
  cr_assert_null(base_text_nearest("ring", fruit, 0));
  char endless[1000];
  memset(endless, 'x', sizeof endless);
  endless[sizeof endless - 1] = '\0';
  cr_assert_not_null(base_text_nearest(endless, fruit, 3));
}

Test(text, cuts_a_word_visibly) {
  char word[8];
  base_text_word("12,34", 2, word, sizeof word);
  cr_assert_str_eq(word, "12");
  base_text_word("1234567,", 7, word, sizeof word);
  cr_assert_str_eq(word, "1234567");
  base_text_word("00000000004,", 11, word, sizeof word);
  cr_assert_str_eq(word, "0000...");
}

Test(text, parses_integers) {
  int64_t value = -1;
  cr_assert(base_text_integer("0", 0, 9, &value) && value == 0);
  cr_assert(base_text_integer("-9223372036854775808", INT64_MIN, INT64_MAX, &value));
  cr_assert_eq(value, INT64_MIN);
  static const char *const bad[] = {"",    " 1",  "1 ",  "1x",
                                    "0x1", "1.5", "--1", "9223372036854775808"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    cr_assert_not(base_text_integer(bad[i], INT64_MIN, INT64_MAX, &value), "'%s'", bad[i]);
  }
  cr_assert_not(base_text_integer("10", 0, 9, &value));
  cr_assert_not(base_text_integer("-1", 0, 9, &value));
  cr_assert_eq(value, INT64_MIN, "a rejected text set the value");
}

Test(text, parses_numbers) {
  double value = 0.0;
  cr_assert(base_text_number("1e-3", &value) && value == 1e-3);
  static const char *const bad[] = {"", " 1", "1,5", "nan", "inf", "1e999", "x"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    cr_assert_not(base_text_number(bad[i], &value), "'%s'", bad[i]);
  }
}

Test(text, parses_and_formats_byte_counts) {
  static const struct {
    const char *text;
    uint64_t bytes;
  } good[] = {{"0", 0},           {"8", 8},         {"4K", 4096},
              {"16M", 16u << 20}, {"1G", 1u << 30}, {"1025", 1025}};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    uint64_t bytes = 1;
    char text[24];
    cr_assert(base_text_bytes(good[i].text, &bytes) && bytes == good[i].bytes, "%s", good[i].text);
    cr_assert_str_eq(base_text_from_bytes(bytes, text), good[i].text);
  }
  uint64_t bytes = 77;
  cr_assert(base_text_bytes("3k", &bytes) && bytes == 3072);
  static const char *const bad[] = {
      "", "K", "-1", "1KB", "1T", "1.5K", "18446744073709551616", "17179869184G"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    cr_assert_not(base_text_bytes(bad[i], &bytes), "'%s'", bad[i]);
  }
  cr_assert_eq(bytes, 3072, "a rejected text set the value");
}

/* Character classes, malformed UTF-8, and the words of sample texts. */
#include <criterion/criterion.h>
#include <string.h>

#include "libtrain/data/pretokenize.h"
#include "libtrain/data/unicode.h"
#include "reference.h"

/* Totals of the Unicode Standard, version 16. */
Test(unicode, class_counts_match_the_standard) {
  size_t counts[4] = {0};
  for (uint32_t point = 0; point <= 0x10ffff; point++) counts[train_unicode_class(point)]++;
  cr_assert_eq(counts[TRAIN_LETTER], 141028);
  cr_assert_eq(counts[TRAIN_NUMBER], 1911);
  cr_assert_eq(counts[TRAIN_SPACE], 25);
}

Test(unicode, classifies_sample_characters) {
  static const uint32_t descriptors[] = {'a',   'Z',   0xaa,   0xdf,   0x2b0,
                                         0x416, 0x5d0, 0x65e5, 0x1d538};
  static const uint32_t numbers[] = {'0', '9', 0xb2, 0xbd, 0x663, 0x216b, 0x2460, 0x1d7ce};
  static const uint32_t spaces[] = {9, 13, ' ', 0x85, 0xa0, 0x1680, 0x2003, 0x2028, 0x3000};
  static const uint32_t others[] = {0, 0x1f, '_', '`', '{', 0x7f, 0x301, 0x200b, 0xfeff, 0x1f44d};
  for (size_t i = 0; i < sizeof descriptors / 4; i++) {
    cr_assert_eq(train_unicode_class(descriptors[i]), TRAIN_LETTER, "%x", descriptors[i]);
  }
  for (size_t i = 0; i < sizeof numbers / 4; i++) {
    cr_assert_eq(train_unicode_class(numbers[i]), TRAIN_NUMBER, "%x", numbers[i]);
  }
  for (size_t i = 0; i < sizeof spaces / 4; i++) {
    cr_assert_eq(train_unicode_class(spaces[i]), TRAIN_SPACE, "%x", spaces[i]);
  }
  for (size_t i = 0; i < sizeof others / 4; i++) {
    cr_assert_eq(train_unicode_class(others[i]), TRAIN_OTHER, "%x", others[i]);
  }
}

static size_t length_of(const char *bytes, train_class_t expected) {
  train_class_t found;
  size_t length = train_unicode_next((const uint8_t *)bytes, strlen(bytes), &found);
  cr_assert_eq(found, expected, "class %d of %s", found, bytes);
  return length;
}

Test(unicode, invalid_bytes_are_single_characters) {
  cr_assert_eq(length_of("\xc3\xb6x", TRAIN_LETTER), 2);
  cr_assert_eq(length_of("\xe6\x97\xa5", TRAIN_LETTER), 3);
  cr_assert_eq(length_of("\xf0\x9d\x94\xb8", TRAIN_LETTER), 4);
  static const char *const broken[] = {"\x80",
                                       "\xbf"
                                       "a",
                                       "\xc0\x80",
                                       "\xc1\xbf",
                                       "\xc3",
                                       "\xc3"
                                       "a",
                                       "\xe0\x80\x80",
                                       "\xe0\x9f\xbf",
                                       "\xe6\x97",
                                       "\xed\xa0\x80",
                                       "\xed\xbf\xbf",
                                       "\xf0\x8f\xbf\xbf",
                                       "\xf4\x90\x80\x80",
                                       "\xf5\x80\x80\x80",
                                       "\xff\xff"};
  for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
    cr_assert_eq(length_of(broken[i], TRAIN_OTHER), 1, "case %zu", i);
  }
}

static void check_words(const char *text, const char *const *words) {
  const uint8_t *at = (const uint8_t *)text;
  size_t left = strlen(text);
  for (int i = 0; left > 0; i++) {
    size_t length = train_pretokenize_next(at, left);
    cr_assert_not_null(words[i], "more words than expected in '%s'", text);
    cr_assert(length == strlen(words[i]) && memcmp(at, words[i], length) == 0,
              "word %d of '%s' is '%.*s', not '%s'", i, text, (int)length, (const char *)at,
              words[i]);
    at += length;
    left -= length;
  }
}

/* Words as produced by Hugging Face's tokenizers. */
Test(pretokenize, splits_like_hugging_face) {
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
  check_words("it's I'LL they've  we'd x'y'", WORDS("it", "'s", " I", "'", "LL", " they", "'ve",
                                                    " ", " we", "'d", " x", "'", "y", "'"));
  check_words("int\tmain (void)\r\n{\n\treturn 0;\n}\n",
              WORDS("int", "\t", "main", " (", "void", ")", "\r", "\n", "{", "\n", "\t", "return",
                    " 0", ";", "\n", "}", "\n"));
  check_words("a  b   \n\n  c \t", WORDS("a", " ", " b", "   \n\n ", " c", " \t"));
  check_words("Gr\u00f6\u00dfe \u21165 \u216b\u00bd \u0663\u0664",
              WORDS("Gr\u00f6\u00dfe", " \u2116", "5", " \u216b\u00bd", " \u0663\u0664"));
  check_words(
      "\u65e5\u672c\u8a9e \u30c6\u30b9\u30c8\u3001\u3067\u3059\u3002",
      WORDS("\u65e5\u672c\u8a9e", " \u30c6\u30b9\u30c8", "\u3001", "\u3067\u3059", "\u3002"));
  check_words("\U0001f44d\U0001f3fd e\u0301 \u00a0x \u200b y\u3000z",
              WORDS("\U0001f44d\U0001f3fd", " e", "\u0301", " ", "\u00a0", "x", " \u200b", " y",
                    "\u3000", "z"));
  check_words("foo_bar->x++ == 0x1Fu;",
              WORDS("foo", "_", "bar", "->", "x", "++", " ==", " 0", "x", "1", "Fu", ";"));
  check_words(" 's 't''ll'", WORDS(" '", "s", " '", "t", "''", "ll", "'"));
  check_words("   ", WORDS("   "));
#undef WORDS
}

Test(pretokenize, agrees_with_the_reference) {
  uint64_t state = 1;
  uint8_t text[160];
  for (int round = 0; round < 3000; round++) {
    size_t count = 1 + reference_random(&state) % sizeof text;
    reference_text(&state, text, count);
    for (size_t at = 0; at < count;) {
      size_t length = train_pretokenize_next(text + at, count - at);
      cr_assert_eq(length, reference_split(text + at, count - at), "round %d, byte %zu", round, at);
      at += length;
    }
  }
}

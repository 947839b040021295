/* A recursive descent parser over fractions in lowest terms. */
#include "tools/collplan/formula.h"

#include <stdbool.h>
#include <string.h>

typedef struct fraction {
  int64_t above, below; /* below > 0 */
} fraction_t;

typedef struct parser {
  const char *at;
  const formula_values_t *values;
  bool failed;
} parser_t;

/* ---- fractions ------------------------------------------------------------------------------*/

static int64_t common_divisor(int64_t a, int64_t b) {
  while (b != 0) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a < 0 ? -a : a;
}

static fraction_t reduced(int64_t above, int64_t below) {
  int64_t divisor = common_divisor(above, below);
  if (below < 0) divisor = -divisor;
  return (fraction_t){above / divisor, below / divisor};
}

static fraction_t whole(int64_t value) {
  return (fraction_t){value, 1};
}

static fraction_t sum(fraction_t a, fraction_t b) {
  return reduced(a.above * b.below + b.above * a.below, a.below * b.below);
}

static fraction_t negative(fraction_t a) {
  return (fraction_t){-a.above, a.below};
}

/* Common factors are divided out first, so that products stay small. */
static fraction_t product(fraction_t a, fraction_t b) {
  fraction_t x = reduced(a.above, b.below), y = reduced(b.above, a.below);
  return (fraction_t){x.above * y.above, x.below * y.below};
}

static fraction_t quotient(parser_t *parser, fraction_t a, fraction_t b) {
  if (b.above == 0) {
    parser->failed = true;
    return a;
  }
  return product(a, reduced(b.below, b.above));
}

/* ---- grammar --------------------------------------------------------------------------------*/

static fraction_t parse_sum(parser_t *parser);

static char look(parser_t *parser) {
  while (*parser->at == ' ') parser->at++;
  return *parser->at;
}

static bool take(parser_t *parser, const char *text) {
  look(parser);
  size_t length = strlen(text);
  if (strncmp(parser->at, text, length) != 0) return false;
  parser->at += length;
  return true;
}

static void expect(parser_t *parser, const char *text) {
  if (!take(parser, text)) parser->failed = true;
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int64_t parse_variable(parser_t *parser) {
  char name = look(parser);
  if (!is_letter(name) || parser->values->of[(int)name] == 0) {
    parser->failed = true;
    return 1;
  }
  parser->at++;
  return parser->values->of[(int)name];
}

static fraction_t parse_number(parser_t *parser) {
  int64_t value = 0;
  while (is_digit(*parser->at) && value < 100000000) value = value * 10 + (*parser->at++ - '0');
  return whole(value);
}

/* After the opening bracket. */
static fraction_t parse_condition(parser_t *parser) {
  fraction_t left = parse_sum(parser);
  char sign = look(parser);
  if (sign != '>' && sign != '<' && sign != '=') {
    parser->failed = true;
    return whole(0);
  }
  parser->at++;
  int64_t difference = sum(left, negative(parse_sum(parser))).above;
  expect(parser, "]");
  if (sign == '=') return whole(difference == 0);
  return whole(sign == '>' ? difference > 0 : difference < 0);
}

static fraction_t parse_log2(parser_t *parser, bool up, const char *end) {
  int64_t value = parse_variable(parser), log2 = 0;
  while ((INT64_C(2) << log2) <= value) log2++;
  expect(parser, end);
  return whole(log2 + (up && (INT64_C(1) << log2) < value));
}

static fraction_t parse_factor(parser_t *parser) {
  if (take(parser, "\u2308log2")) return parse_log2(parser, true, "\u2309");
  if (take(parser, "\u230alog2")) return parse_log2(parser, false, "\u230b");
  if (take(parser, "[")) return parse_condition(parser);
  if (take(parser, "(")) {
    fraction_t inner = parse_sum(parser);
    expect(parser, ")");
    return inner;
  }
  if (is_digit(look(parser))) return parse_number(parser);
  return whole(parse_variable(parser));
}

static bool begins_factor(parser_t *parser) {
  char next = look(parser);
  return is_digit(next) || is_letter(next) || next == '(' || next == '[' ||
         strncmp(parser->at, "\u2308log2", 7) == 0 || strncmp(parser->at, "\u230alog2", 7) == 0;
}

static fraction_t parse_product(parser_t *parser) {
  fraction_t value = parse_factor(parser);
  while (!parser->failed) {
    if (take(parser, "/")) {
      value = quotient(parser, value, parse_factor(parser));
    } else if (begins_factor(parser)) {
      value = product(value, parse_factor(parser));
    } else {
      break;
    }
  }
  return value;
}

static fraction_t parse_sum(parser_t *parser) {
  fraction_t value = parse_product(parser);
  while (!parser->failed) {
    if (take(parser, "+")) {
      value = sum(value, parse_product(parser));
    } else if (take(parser, "-")) {
      value = sum(value, negative(parse_product(parser)));
    } else {
      break;
    }
  }
  return value;
}

coll_status_t formula_evaluate(const char *formula, const formula_values_t *values,
                               int64_t *result) {
  parser_t parser = {.at = formula, .values = values};
  fraction_t value = parse_sum(&parser);
  if (parser.failed || look(&parser) != '\0') {
    return base_fail(COLL_ERROR_INVALID, "formula '%s' cannot be read from '%s' on", formula,
                     parser.at);
  }
  if (value.below != 1) {
    return base_fail(COLL_ERROR_INVALID, "formula '%s' is %lld/%lld, no integer", formula,
                     (long long)value.above, (long long)value.below);
  }
  *result = value.above;
  return COLL_OK;
}

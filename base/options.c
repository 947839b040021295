/* Parses argv from left to right; options are searched linearly, because tables are short. */
#include "base/options.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"

#define OPTIONS_MAX 64

static const base_option_t *find_by_name(const base_command_t *command, const char *name,
                                         size_t length) {
  for (size_t i = 0; i < command->option_count; i++) {
    const char *candidate = command->options[i].name;
    if (candidate != NULL && strlen(candidate) == length && strncmp(candidate, name, length) == 0) {
      return &command->options[i];
    }
  }
  return NULL;
}

static const base_option_t *find_by_letter(const base_command_t *command, char letter) {
  for (size_t i = 0; i < command->option_count; i++) {
    if (command->options[i].letter == letter) return &command->options[i];
  }
  return NULL;
}

static coll_status_t unknown_option(const base_command_t *command, const char *word) {
  const char *names[OPTIONS_MAX];
  size_t count = 0;
  for (size_t i = 0; i < command->option_count && count < OPTIONS_MAX; i++) {
    if (command->options[i].name != NULL) names[count++] = command->options[i].name;
  }
  if (strncmp(word, "--", 2) != 0 || count == 0) {
    return base_fail(COLL_ERROR_INVALID, "unknown option %s; see %s --help", word, command->name);
  }
  return base_fail(COLL_ERROR_INVALID, "unknown option %s; did you mean --%s? (%s --help)", word,
                   base_text_nearest(word + 2, names, count), command->name);
}

static size_t words_count(const char *const *words) {
  size_t count = 0;
  while (words[count] != NULL) count++;
  return count;
}

static coll_status_t store_word(const base_option_t *option, const char *shown, const char *text) {
  size_t count = words_count(option->words);
  for (size_t i = 0; i < count; i++) {
    if (strcmp(option->words[i], text) == 0) {
      *(int *)option->value = (int)i;
      return COLL_OK;
    }
  }
  return base_fail(COLL_ERROR_INVALID, "%s %s: no such value; did you mean '%s'?", shown, text,
                   base_text_nearest(text, option->words, count));
}

static coll_status_t store(const base_option_t *option, const char *shown, const char *text) {
  bool any = option->min == 0 && option->max == 0;
  int64_t least = option->min, most = any ? INT64_MAX : option->max;
  uint64_t bytes = 0;
  switch (option->kind) {
    case BASE_OPTION_FLAG: *(bool *)option->value = true; return COLL_OK;
    case BASE_OPTION_TEXT: *(const char **)option->value = text; return COLL_OK;
    case BASE_OPTION_WORD: return store_word(option, shown, text);
    case BASE_OPTION_NUMBER:
      if (base_text_number(text, option->value)) return COLL_OK;
      return base_fail(COLL_ERROR_INVALID, "%s %s: give a number", shown, text);
    case BASE_OPTION_INTEGER:
      if (base_text_integer(text, least, most, option->value)) return COLL_OK;
      if (any) {
        return base_fail(COLL_ERROR_INVALID, "%s %s: give a whole number from 0 up", shown, text);
      }
      return base_fail(COLL_ERROR_INVALID,
                       "%s %s: give a whole number from %" PRId64 " to %" PRId64, shown, text,
                       least, most);
    case BASE_OPTION_BYTES:
      if (base_text_bytes(text, &bytes) && bytes >= (uint64_t)least && bytes <= (uint64_t)most) {
        *(uint64_t *)option->value = bytes;
        return COLL_OK;
      }
      break;
  }
  char low[24], high[24];
  return base_fail(COLL_ERROR_INVALID, "%s %s: give a size such as 64K or 1M, from %s to %s", shown,
                   text, base_text_from_bytes((uint64_t)least, low),
                   base_text_from_bytes((uint64_t)most, high));
}

/* Parses one option at argv[*index], with its value if it takes one, and advances *index past both.
 * */
static coll_status_t parse_one(const base_command_t *command, int argc, char **argv, int *index) {
  char *word = argv[*index];
  bool is_long = strncmp(word, "--", 2) == 0;
  char *equals = is_long ? strchr(word, '=') : NULL;
  size_t length = equals != NULL ? (size_t)(equals - word) - 2 : strlen(word) - (is_long ? 2 : 0);
  const base_option_t *option = is_long       ? find_by_name(command, word + 2, length)
                                : length == 2 ? find_by_letter(command, word[1])
                                              : NULL;
  if (option == NULL) return unknown_option(command, word);
  ++*index;
  if (option->kind == BASE_OPTION_FLAG) {
    if (equals != NULL) {
      return base_fail(COLL_ERROR_INVALID, "%s takes no value", word);
    }
    return store(option, word, NULL);
  }
  const char *text = equals != NULL ? equals + 1 : *index < argc ? argv[(*index)++] : NULL;
  if (text == NULL) {
    return base_fail(COLL_ERROR_INVALID, "%s needs a value (%s)", word, option->value_name);
  }
  return store(option, word, text);
}

coll_status_t base_options_parse(const base_command_t *command, int argc, char **argv, int *first,
                                 bool *helped) {
  int index = 1;
  *helped = false;
  while (index < argc && argv[index][0] == '-' && argv[index][1] != '\0') {
    if (strcmp(argv[index], "--") == 0) {
      index++;
      break;
    }
    if (strcmp(argv[index], "--help") == 0 || strcmp(argv[index], "-h") == 0) {
      base_options_help(command, stdout);
      *helped = true;
      break;
    }
    COLL_TRY(parse_one(command, argc, argv, &index));
  }
  *first = index;
  return COLL_OK;
}

static void print_default(const base_option_t *option, FILE *out) {
  char text[24];
  switch (option->kind) {
    case BASE_OPTION_FLAG: break;
    case BASE_OPTION_INTEGER:
      fprintf(out, " (default %" PRId64 ")", *(const int64_t *)option->value);
      break;
    case BASE_OPTION_BYTES:
      fprintf(out, " (default %s)", base_text_from_bytes(*(const uint64_t *)option->value, text));
      break;
    case BASE_OPTION_NUMBER: fprintf(out, " (default %g)", *(const double *)option->value); break;
    case BASE_OPTION_WORD:
      fprintf(out, " (default %s)", option->words[*(const int *)option->value]);
      break;
    case BASE_OPTION_TEXT:
      if (*(const char **)option->value != NULL) {
        fprintf(out, " (default %s)", *(const char **)option->value);
      }
      break;
  }
}

static void print_option(const base_option_t *option, FILE *out) {
  char left[64];
  snprintf(left, sizeof left, "%c%c%s%s%s %s", option->letter != 0 ? '-' : ' ',
           option->letter != 0 ? option->letter : ' ',
           option->letter != 0 && option->name != NULL ? ", " : "  ",
           option->name != NULL ? "--" : "", option->name != NULL ? option->name : "",
           option->value_name != NULL ? option->value_name : "");
  fprintf(out, "  %-26s %s", left, option->help);
  print_default(option, out);
  fputc('\n', out);
}

void base_options_help(const base_command_t *command, FILE *out) {
  fprintf(out, "%s %s\n\n%s\n", command->name, command->usage, command->summary);
  if (command->examples != NULL) fprintf(out, "\nExamples:\n%s", command->examples);
  fprintf(out, "\nOptions:\n");
  for (size_t i = 0; i < command->option_count; i++) print_option(&command->options[i], out);
  fprintf(out, "  %-26s %s\n", "-h, --help", "this page");
}

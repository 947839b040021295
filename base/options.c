/* Parses argv from left to right; options are searched linearly, because tables are short. */
#include "base/options.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"

#define OPTIONS_MAX 128

/* In the order of the tables: those in the help come first. */
static const base_option_t *option_at(const base_command_t *command, size_t index) {
  if (index < command->option_count) return &command->options[index];
  index -= command->option_count;
  return index < command->other_count ? &command->others[index] : NULL;
}

static bool is_name(const char *name, const char *word, size_t length) {
  if (name == NULL || strlen(name) != length) return false;
  for (size_t i = 0; i < length; i++) {
    bool is_dash = (name[i] == '-' || name[i] == '_') && (word[i] == '-' || word[i] == '_');
    if (name[i] != word[i] && !is_dash) return false;
  }
  return true;
}

static const base_option_t *find_by_name(const base_command_t *command, const char *name,
                                         size_t length) {
  const base_option_t *option;
  for (size_t i = 0; (option = option_at(command, i)) != NULL; i++) {
    if (is_name(option->name, name, length)) return option;
  }
  return NULL;
}

static const base_option_t *find_by_letter(const base_command_t *command, char letter) {
  const base_option_t *option;
  for (size_t i = 0; (option = option_at(command, i)) != NULL; i++) {
    if (option->letter == letter) return option;
  }
  return NULL;
}

static coll_status_t unknown_option(const base_command_t *command, const char *word) {
  const char *names[OPTIONS_MAX], *name = word + strspn(word, "-");
  const base_option_t *option;
  char meant[64];
  size_t count = 0;
  for (size_t i = 0; (option = option_at(command, i)) != NULL && count < OPTIONS_MAX; i++) {
    if (option->name != NULL) names[count++] = option->name;
  }
  base_text_word(name, strcspn(name, "="), meant, sizeof meant);
  const char *suggestion = base_text_suggestion(meant, names, count);
  if (suggestion == NULL) {
    return base_fail(COLL_ERROR_INVALID, "unknown option %s; see %s --help", word, command->name);
  }
  return base_fail(COLL_ERROR_INVALID, "unknown option %s; did you mean --%s? (%s --help)", word,
                   suggestion, command->name);
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

static coll_status_t append(base_option_list_t *list, const char *shown, const char *text) {
  if (list->count == BASE_OPTION_VALUES_MAX) {
    return base_fail(COLL_ERROR_INVALID, "%s %s: there are %d values already", shown, text,
                     BASE_OPTION_VALUES_MAX);
  }
  list->values[list->count++] = text;
  return COLL_OK;
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
    case BASE_OPTION_LIST:
    case BASE_OPTION_PAIR: return append(option->value, shown, text);
    case BASE_OPTION_INTEGER:
    case BASE_OPTION_SWITCH:
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

/* A word of the command line that is an option. */
typedef struct word {
  const base_option_t *option; /* NULL: unknown */
  char shown[64];              /* without its value */
  const char *value;           /* in the same word; NULL: none */
} word_t;

/* "-n2", or "-n=2". An option that wants a number takes no letters: -nn is a mistake. */
static void read_short(const base_command_t *command, const char *text, word_t *word) {
  const char *value = text + 2 + (text[2] == '=');
  const base_option_t *option = find_by_letter(command, text[1]);
  if (option == NULL) return;
  bool takes_number = option->kind == BASE_OPTION_INTEGER || option->kind == BASE_OPTION_BYTES ||
                      option->kind == BASE_OPTION_NUMBER || option->kind == BASE_OPTION_SWITCH;
  bool has_value = text[2] != '\0';
  if (has_value && option->kind == BASE_OPTION_FLAG) return;
  if (has_value && takes_number && strchr("+-.0123456789", value[0]) == NULL) return;
  word->option = option;
  word->value = has_value ? value : NULL;
  snprintf(word->shown, sizeof word->shown, "%.2s", text);
}

static word_t read_word(const base_command_t *command, const char *text) {
  word_t word = {0};
  size_t dashes = strncmp(text, "--", 2) == 0 ? 2 : 1;
  const char *equals = strchr(text, '=');
  size_t length = equals != NULL ? (size_t)(equals - text) : strlen(text);
  if (length > 1) word.option = find_by_name(command, text + dashes, length - dashes);
  if (word.option != NULL) {
    base_text_word(text, length, word.shown, sizeof word.shown);
    word.value = equals != NULL ? equals + 1 : NULL;
  } else if (dashes == 1) {
    read_short(command, text, &word);
  }
  return word;
}

/* The number that may follow a switch. */
static bool is_number(const char *text) {
  return text != NULL && text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* Parses one option at argv[*index], with its values, and advances *index past them. */
static coll_status_t parse_one(const base_command_t *command, int argc, char **argv, int *index) {
  word_t word = read_word(command, argv[*index]);
  if (word.option == NULL) return unknown_option(command, argv[*index]);
  ++*index;
  base_option_kind_t kind = word.option->kind;
  if (kind == BASE_OPTION_FLAG) {
    if (word.value == NULL) return store(word.option, word.shown, NULL);
    return base_fail(COLL_ERROR_INVALID, "%s takes no value", argv[*index - 1]);
  }
  if (kind == BASE_OPTION_SWITCH && word.value == NULL &&
      (*index == argc || !is_number(argv[*index]))) {
    return store(word.option, word.shown, "1");
  }
  for (int left = kind == BASE_OPTION_PAIR ? 2 : 1; left > 0; left--) {
    const char *text = word.value != NULL ? word.value : *index < argc ? argv[(*index)++] : NULL;
    if (text == NULL) {
      return base_fail(COLL_ERROR_INVALID, "%s needs a value (%s)", word.shown,
                       word.option->value_name);
    }
    COLL_TRY(store(word.option, word.shown, text));
    word.value = NULL;
  }
  return COLL_OK;
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

static bool is_given(const char *text) {
  return text != NULL && text[0] != '\0';
}

static void print_default(const base_option_t *option, FILE *out) {
  char text[24];
  switch (option->kind) {
    case BASE_OPTION_FLAG:
    case BASE_OPTION_SWITCH:
    case BASE_OPTION_LIST:
    case BASE_OPTION_PAIR: break;
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
      if (is_given(*(const char **)option->value)) {
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

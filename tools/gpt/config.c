/* Values of the file are converted to text, so that one parser handles the file and the command
 * line. */
#include "tools/gpt/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

#define MAX_NAMES 64

/* Whether the option concerns the command line itself and is not allowed in the file. */
static bool is_of_command_line(const base_option_t *option) {
  return strcmp(option->name, "config") == 0 || strcmp(option->name, "print-config") == 0;
}

static coll_status_t find_key(const base_command_t *command, const char *path, const char *key,
                              const base_option_t **option) {
  const char *names[MAX_NAMES];
  size_t count = 0;
  for (size_t i = 0; i < command->option_count && count < MAX_NAMES; i++) {
    if (is_of_command_line(&command->options[i])) continue;
    *option = &command->options[i];
    if (strcmp((*option)->name, key) == 0) return COLL_OK;
    names[count++] = (*option)->name;
  }
  return base_fail(COLL_ERROR_INVALID, "--config %s: unknown key \"%s\"; did you mean \"%s\"?",
                   path, key, base_text_nearest(key, names, count));
}

/* Formats into new memory; NULL when out of memory. */
__attribute__((format(printf, 1, 2))) static char *text_of(const char *format, ...) {
  char *text;
  va_list arguments;
  va_start(arguments, format);
  int printed = vasprintf(&text, format, arguments);
  va_end(arguments);
  return printed < 0 ? NULL : text;
}

/* Appends "--key" and the value's text. A flag that is false has no argument. */
static coll_status_t add_pair(const base_option_t *option, const json_t *value,
                              gpt_config_t *config) {
  bool is_flag = option->kind == BASE_OPTION_FLAG;
  bool is_value = json_is_string(value) || json_is_number(value);
  if (is_flag ? !json_is_boolean(value) : !is_value) {
    return base_fail(COLL_ERROR_INVALID, "--config %s: \"%s\" needs %s", config->path, option->name,
                     is_flag ? "true or false" : "a number or a text");
  }
  if (json_is_false(value)) {
    config->cleared[config->cleared_count++] = option->value;
    return COLL_OK;
  }
  int before = config->count;
  config->arguments[config->count++] = text_of("--%s", option->name);
  switch (json_typeof(value)) {
    case JSON_STRING:
      config->arguments[config->count++] = text_of("%s", json_string_value(value));
      break;
    case JSON_INTEGER:
      config->arguments[config->count++] = text_of("%lld", (long long)json_integer_value(value));
      break;
    case JSON_REAL:
      config->arguments[config->count++] = text_of("%.17g", json_real_value(value));
      break;
    default: break;
  }
  if (config->arguments[before] != NULL && config->arguments[config->count - 1] != NULL)
    return COLL_OK;
  return base_fail(COLL_ERROR_MEMORY, "out of memory for the configuration");
}

static coll_status_t add_pairs(const base_command_t *command, json_t *root, gpt_config_t *config) {
  const char *key;
  json_t *value;
  void *memory;
  size_t max = 1 + 2 * json_object_size(root);
  COLL_TRY(base_alloc(max, sizeof(char *), "the configuration", &memory));
  config->arguments = memory;
  config->count = 1;
  COLL_TRY(base_alloc(json_object_size(root), sizeof(bool *), "the configuration", &memory));
  config->cleared = memory;
  json_object_foreach(root, key, value) {
    const base_option_t *option = NULL;
    COLL_TRY(find_key(command, config->path, key, &option));
    COLL_TRY(add_pair(option, value, config));
  }
  return COLL_OK;
}

coll_status_t gpt_config_load(const base_command_t *command, const char *path,
                              gpt_config_t *config) {
  json_error_t error;
  gpt_config_t loaded = {.path = path};
  json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
  if (root == NULL && error.line < 0) {
    return base_fail(COLL_ERROR_INVALID, "cannot read --config: %s", error.text);
  }
  if (root == NULL) {
    return base_fail(COLL_ERROR_INVALID, "--config %s is not JSON: line %d: %s", path, error.line,
                     error.text);
  }
  if (!json_is_object(root)) {
    json_decref(root);
    return base_fail(COLL_ERROR_INVALID, "--config %s: give an object of \"option\": value", path);
  }
  coll_status_t status = add_pairs(command, root, &loaded);
  json_decref(root);
  if (status != COLL_OK) {
    gpt_config_free(&loaded);
    return status;
  }
  *config = loaded;
  return COLL_OK;
}

void gpt_config_free(gpt_config_t *config) {
  for (int i = 1; i < config->count; i++) free(config->arguments[i]);
  free(config->arguments);
  free(config->cleared);
  *config = (gpt_config_t){0};
}

coll_status_t gpt_config_apply(const base_command_t *command, const gpt_config_t *config) {
  int first;
  bool help_printed;
  for (int i = 0; i < config->cleared_count; i++) *config->cleared[i] = false;
  if (config->count == 0) return COLL_OK;
  coll_status_t status =
      base_options_parse(command, config->count, config->arguments, &first, &help_printed);
  if (status == COLL_OK) return COLL_OK;
  return base_fail(status, "--config %s: %s", config->path, base_last_error());
}

static json_t *value_of(const base_option_t *option) {
  char text[24];
  switch (option->kind) {
    case BASE_OPTION_FLAG: return json_boolean(*(const bool *)option->value);
    case BASE_OPTION_INTEGER: return json_integer(*(const int64_t *)option->value);
    case BASE_OPTION_BYTES:
      return json_string(base_text_from_bytes(*(const uint64_t *)option->value, text));
    case BASE_OPTION_NUMBER: return json_real(*(const double *)option->value);
    case BASE_OPTION_WORD: return json_string(option->words[*(const int *)option->value]);
    case BASE_OPTION_TEXT: return json_string(*(const char **)option->value);
    case BASE_OPTION_SWITCH: return json_integer(*(const int64_t *)option->value);
    case BASE_OPTION_LIST:
    case BASE_OPTION_PAIR: break; /* no option of gpt is given several times */
  }
  return NULL;
}

json_t *gpt_config_object(const base_command_t *command) {
  json_t *object = json_object();
  for (size_t i = 0; i < command->option_count; i++) {
    const base_option_t *option = &command->options[i];
    if (is_of_command_line(option)) continue;
    if (option->kind == BASE_OPTION_TEXT && *(const char **)option->value == NULL) continue;
    json_object_set_new(object, option->name, value_of(option));
  }
  return object;
}

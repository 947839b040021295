/* JSON by way of jansson, read strictly: a member that is missing or of another type is refused. */
#include "libtrain/files/record.h"

#include <assert.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void train_record_free(train_record_t *record) {
  free(record->tokenizer);
  record->tokenizer = NULL;
  record->tokenizer_bytes = 0;
}

coll_status_t train_record_set_tokenizer(train_record_t *record, const char *bytes, size_t count) {
  void *copy = NULL;
  if (count > TRAIN_TOKENIZER_BYTES_MAX) {
    return base_fail(COLL_ERROR_INVALID, "a tokenizer of %zu bytes: %zu are the most", count,
                     TRAIN_TOKENIZER_BYTES_MAX);
  }
  if (count > 0) {
    COLL_TRY(base_alloc(count + 1, 1, "the tokenizer", &copy));
    memcpy(copy, bytes, count);
  }
  train_record_free(record);
  record->tokenizer = copy;
  record->tokenizer_bytes = count;
  return COLL_OK;
}

/* ---- settings ---- */

static int find(const train_record_t *record, const char *name) {
  int i = 0;
  while (i < record->setting_count && strcmp(record->settings[i].name, name) != 0) i++;
  return i;
}

void train_record_set(train_record_t *record, const char *name, const char *format, ...) {
  int at = find(record, name);
  assert(at < TRAIN_SETTINGS_MAX && strlen(name) < sizeof record->settings[at].name);
  train_setting_t *setting = &record->settings[at];
  if (at == record->setting_count) record->setting_count++;
  snprintf(setting->name, sizeof setting->name, "%s", name);
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(setting->value, sizeof setting->value, format, arguments);
  va_end(arguments);
  assert(length >= 0 && (size_t)length < sizeof setting->value);
  (void)length;
}

const char *train_record_get(const train_record_t *record, const char *name) {
  int at = find(record, name);
  return at < record->setting_count ? record->settings[at].value : NULL;
}

coll_status_t train_record_check(const char *path, const train_record_t *saved,
                                 const train_record_t *now) {
  for (int i = 0; i < saved->setting_count; i++) {
    const train_setting_t *setting = &saved->settings[i];
    const char *value = train_record_get(now, setting->name);
    if (value == NULL || strcmp(value, setting->value) != 0) {
      return base_fail(COLL_ERROR_INVALID,
                       "%s was trained with %s %s, this run has %s: go on with the same", path,
                       setting->name, setting->value, value != NULL ? value : "none");
    }
  }
  return COLL_OK;
}

/* ---- JSON ---- */

/* JSON's integers are signed here; the upper half of unsigned ones travels as negative. */
static json_t *position_to_json(const train_position_t *position) {
  return json_pack("{s:I, s:I, s:I, s:I, s:I}", "step", (json_int_t)position->step, "micro_steps",
                   (json_int_t)position->micro_steps, "tokens", (json_int_t)position->tokens,
                   "sequences", (json_int_t)position->sequences, "seed",
                   (json_int_t)position->seed);
}

coll_status_t train_record_to_json(const train_record_t *record, char **text) {
  const train_model_config_t *config = &record->config;
  json_t *settings = json_object();
  for (int i = 0; i < record->setting_count; i++) {
    const train_setting_t *setting = &record->settings[i];
    if (json_object_set_new(settings, setting->name, json_string(setting->value)) != 0) {
      json_decref(settings);
      return base_fail(COLL_ERROR_INVALID, "cannot save the setting %s: it is no UTF-8",
                       setting->name);
    }
  }
  json_t *root = json_pack("{s:{s:i, s:i, s:i, s:i, s:i}, s:o, s:b, s:o}", "model", "vocabulary",
                           config->vocabulary, "context", config->context, "layers", config->layers,
                           "heads", config->heads, "width", config->width, "position",
                           position_to_json(&record->position), "moments", record->moments,
                           "settings", settings);
  char *dumped = root != NULL ? json_dumps(root, JSON_INDENT(1)) : NULL;
  json_decref(root);
  if (dumped == NULL) return base_fail(COLL_ERROR_MEMORY, "out of memory for the record");
  *text = dumped;
  return COLL_OK;
}

static bool position_from_json(json_t *object, train_position_t *position) {
  json_int_t step, micro_steps, tokens, sequences, seed;
  if (json_unpack(object, "{s:I, s:I, s:I, s:I, s:I}", "step", &step, "micro_steps", &micro_steps,
                  "tokens", &tokens, "sequences", &sequences, "seed", &seed) != 0) {
    return false;
  }
  *position = (train_position_t){.step = (uint64_t)step,
                                 .micro_steps = (uint64_t)micro_steps,
                                 .tokens = (uint64_t)tokens,
                                 .sequences = (uint64_t)sequences,
                                 .seed = (uint64_t)seed};
  return true;
}

static bool settings_from_json(json_t *object, train_record_t *record) {
  const char *name;
  json_t *value;
  if (!json_is_object(object) || json_object_size(object) > TRAIN_SETTINGS_KEPT) return false;
  json_object_foreach(object, name, value) {
    if (!json_is_string(value) || strlen(name) >= sizeof record->settings[0].name ||
        json_string_length(value) >= sizeof record->settings[0].value) {
      return false;
    }
    train_record_set(record, name, "%s", json_string_value(value));
  }
  return true;
}

static bool record_from_json(json_t *root, train_record_t *record) {
  train_model_config_t *config = &record->config;
  json_t *position, *settings;
  int moments;
  if (json_unpack(root, "{s:{s:i, s:i, s:i, s:i, s:i}, s:o, s:b, s:o}", "model", "vocabulary",
                  &config->vocabulary, "context", &config->context, "layers", &config->layers,
                  "heads", &config->heads, "width", &config->width, "position", &position,
                  "moments", &moments, "settings", &settings) != 0) {
    return false;
  }
  record->moments = moments != 0;
  return position_from_json(position, &record->position) && settings_from_json(settings, record);
}

coll_status_t train_record_from_json(const char *text, size_t count, train_record_t *record) {
  json_error_t error;
  train_record_t read = {0};
  json_t *root = json_loadb(text, count, JSON_REJECT_DUPLICATES, &error);
  if (root == NULL) {
    return base_fail(COLL_ERROR_INVALID, "the record is no JSON: %s", error.text);
  }
  bool whole = record_from_json(root, &read);
  json_decref(root);
  if (!whole) return base_fail(COLL_ERROR_INVALID, "the record lacks what it should tell");
  COLL_TRY(train_model_config_check(&read.config));
  *record = read;
  return COLL_OK;
}

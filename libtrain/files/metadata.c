/* JSON conversion with jansson. Parsing is strict: a wrong type is an error, and so is a missing
 * member, except for those that earlier versions did not write. */
#include "libtrain/files/metadata.h"

#include <assert.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

void train_metadata_free(train_metadata_t *metadata) {
  free(metadata->tokenizer);
  metadata->tokenizer = NULL;
  metadata->tokenizer_bytes = 0;
}

coll_status_t train_metadata_set_tokenizer(train_metadata_t *metadata, const char *bytes,
                                           size_t count) {
  void *copy = NULL;
  if (count > TRAIN_TOKENIZER_BYTES_MAX) {
    return base_fail(COLL_ERROR_INVALID, "a tokenizer of %zu bytes: the maximum is %zu", count,
                     TRAIN_TOKENIZER_BYTES_MAX);
  }
  if (count > 0) {
    COLL_TRY(base_alloc(count + 1, 1, "the tokenizer", &copy));
    memcpy(copy, bytes, count);
  }
  train_metadata_free(metadata);
  metadata->tokenizer = copy;
  metadata->tokenizer_bytes = count;
  return COLL_OK;
}

/* ---- settings ---- */

static int find(const train_metadata_t *metadata, const char *name) {
  int i = 0;
  while (i < metadata->setting_count && strcmp(metadata->settings[i].name, name) != 0) i++;
  return i;
}

void train_metadata_set(train_metadata_t *metadata, const char *name, const char *format, ...) {
  int at = find(metadata, name);
  assert(at < TRAIN_SETTINGS_MAX && strlen(name) < sizeof metadata->settings[at].name);
  train_setting_t *setting = &metadata->settings[at];
  if (at == metadata->setting_count) metadata->setting_count++;
  snprintf(setting->name, sizeof setting->name, "%s", name);
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(setting->value, sizeof setting->value, format, arguments);
  va_end(arguments);
  assert(length >= 0 && (size_t)length < sizeof setting->value);
  (void)length;
}

const char *train_metadata_get(const train_metadata_t *metadata, const char *name) {
  int at = find(metadata, name);
  return at < metadata->setting_count ? metadata->settings[at].value : NULL;
}

coll_status_t train_metadata_check(const char *path, const train_metadata_t *saved,
                                   const train_metadata_t *now) {
  for (int i = 0; i < saved->setting_count; i++) {
    const train_setting_t *setting = &saved->settings[i];
    const char *value = train_metadata_get(now, setting->name);
    if (value == NULL || strcmp(value, setting->value) != 0) {
      return base_fail(COLL_ERROR_INVALID,
                       "%s was trained with %s %s, this run has %s: resume with the same value",
                       path, setting->name, setting->value, value != NULL ? value : "none");
    }
  }
  return COLL_OK;
}

/* ---- JSON ---- */

/* jansson's integers are signed, so the upper half of uint64 values is stored as negative
 * numbers. */
static json_t *position_to_json(const train_position_t *position) {
  return json_pack("{s:I, s:I, s:I, s:I, s:I}", "step", (json_int_t)position->step, "skipped",
                   (json_int_t)position->skipped, "tokens", (json_int_t)position->tokens,
                   "sequences", (json_int_t)position->sequences, "seed",
                   (json_int_t)position->seed);
}

/* Adds the members "loss_scale" and "good_steps" to `root` if the run scales the loss. */
static bool add_loss_scale(const train_loss_scale_t *loss_scale, json_t *root) {
  if (loss_scale->scale == 0) return true;
  return json_object_set_new(root, "loss_scale", json_real(loss_scale->scale)) == 0 &&
         json_object_set_new(root, "good_steps",
                             json_integer((json_int_t)loss_scale->good_steps)) == 0;
}

/* Adds the member "experts" to `root` if the model has some. */
static bool add_experts(const train_model_config_t *config, json_t *root) {
  if (config->experts == 0) return true;
  json_t *experts =
      json_pack("{s:i, s:i, s:i, s:b}", "count", config->experts, "top_k", config->top_k,
                "moe_every", config->moe_every, "shared", (int)config->shared_expert);
  return json_object_set_new(root, "experts", experts) == 0;
}

coll_status_t train_metadata_to_json(const train_metadata_t *metadata, char **text) {
  const train_model_config_t *config = &metadata->config;
  json_t *settings = json_object();
  for (int i = 0; i < metadata->setting_count; i++) {
    const train_setting_t *setting = &metadata->settings[i];
    if (json_object_set_new(settings, setting->name, json_string(setting->value)) != 0) {
      json_decref(settings);
      return base_fail(COLL_ERROR_INVALID, "cannot save the setting %s: it is not UTF-8",
                       setting->name);
    }
  }
  json_t *root = json_pack("{s:{s:i, s:i, s:i, s:i, s:i}, s:o, s:s, s:b, s:o}", "model",
                           "vocabulary", config->vocabulary, "context", config->context, "layers",
                           config->layers, "heads", config->heads, "width", config->width,
                           "position", position_to_json(&metadata->position), "precision",
                           train_policy_of(metadata->precision)->name, "moments", metadata->moments,
                           "settings", settings);
  bool complete = root != NULL && add_loss_scale(&metadata->loss_scale, root) &&
                  add_experts(config, root) &&
                  (!config->untied || json_object_set_new(root, "untied", json_true()) == 0);
  char *dumped = complete ? json_dumps(root, JSON_INDENT(1)) : NULL;
  json_decref(root);
  if (dumped == NULL) return base_fail(COLL_ERROR_MEMORY, "out of memory for the metadata");
  *text = dumped;
  return COLL_OK;
}

static bool position_from_json(json_t *object, train_position_t *position) {
  json_int_t step, skipped = 0, tokens, sequences, seed;
  if (json_unpack(object, "{s:I, s?I, s:I, s:I, s:I}", "step", &step, "skipped", &skipped, "tokens",
                  &tokens, "sequences", &sequences, "seed", &seed) != 0 ||
      skipped < 0 || skipped > step) {
    return false;
  }
  *position = (train_position_t){.step = (uint64_t)step,
                                 .skipped = (uint64_t)skipped,
                                 .tokens = (uint64_t)tokens,
                                 .sequences = (uint64_t)sequences,
                                 .seed = (uint64_t)seed};
  return true;
}

static bool loss_scale_from_json(json_t *root, train_loss_scale_t *loss_scale) {
  double scale = 0;
  json_int_t good_steps = 0;
  if (json_unpack(root, "{s?F, s?I}", "loss_scale", &scale, "good_steps", &good_steps) != 0) {
    return false;
  }
  int exponent;
  bool power_of_2 = frexp(scale, &exponent) == 0.5;
  *loss_scale = (train_loss_scale_t){scale, (uint64_t)good_steps};
  if (scale == 0) return good_steps == 0;
  return power_of_2 && scale >= TRAIN_LOSS_SCALE_MIN && scale <= TRAIN_LOSS_SCALE_MAX &&
         good_steps >= 0;
}

static bool settings_from_json(json_t *object, train_metadata_t *metadata) {
  const char *name;
  json_t *value;
  if (!json_is_object(object) || json_object_size(object) > TRAIN_FILE_SETTINGS_MAX) return false;
  json_object_foreach(object, name, value) {
    if (!json_is_string(value) || strlen(name) >= sizeof metadata->settings[0].name ||
        json_string_length(value) >= sizeof metadata->settings[0].value) {
      return false;
    }
    train_metadata_set(metadata, name, "%s", json_string_value(value));
  }
  return true;
}

static bool experts_from_json(json_t *root, train_model_config_t *config) {
  json_t *experts = json_object_get(root, "experts");
  int shared;
  if (experts == NULL) return true;
  if (json_unpack(experts, "{s:i, s:i, s:i, s:b}", "count", &config->experts, "top_k",
                  &config->top_k, "moe_every", &config->moe_every, "shared", &shared) != 0) {
    return false;
  }
  config->shared_expert = shared != 0;
  return true;
}

static bool fields_from_json(json_t *root, train_metadata_t *metadata) {
  train_model_config_t *config = &metadata->config;
  json_t *position, *settings;
  int moments;
  if (json_unpack(root, "{s:{s:i, s:i, s:i, s:i, s:i}, s:o, s:b, s:o}", "model", "vocabulary",
                  &config->vocabulary, "context", &config->context, "layers", &config->layers,
                  "heads", &config->heads, "width", &config->width, "position", &position,
                  "moments", &moments, "settings", &settings) != 0) {
    return false;
  }
  metadata->moments = moments != 0;
  config->untied = json_is_true(json_object_get(root, "untied"));
  return position_from_json(position, &metadata->position) &&
         loss_scale_from_json(root, &metadata->loss_scale) && experts_from_json(root, config) &&
         settings_from_json(settings, metadata);
}

/* Files of earlier versions have no "precision"; they are from float32 runs. */
static coll_status_t precision_from_json(json_t *root, train_precision_t *precision) {
  json_t *value = json_object_get(root, "precision");
  *precision = TRAIN_PRECISION_FLOAT32;
  if (value == NULL) return COLL_OK;
  const char *name = json_is_string(value) ? json_string_value(value) : "";
  for (int i = 0; i < TRAIN_PRECISIONS; i++) {
    if (strcmp(name, train_precision_names[i]) != 0) continue;
    *precision = (train_precision_t)i;
    return COLL_OK;
  }
  return base_fail(COLL_ERROR_INVALID, "the metadata has an unknown precision \"%.32s\"", name);
}

coll_status_t train_metadata_from_json(const char *text, size_t count, train_metadata_t *metadata) {
  json_error_t error;
  train_metadata_t read = {0};
  json_t *root = json_loadb(text, count, JSON_REJECT_DUPLICATES, &error);
  if (root == NULL) {
    return base_fail(COLL_ERROR_INVALID, "the metadata is not JSON: %s", error.text);
  }
  coll_status_t status =
      fields_from_json(root, &read)
          ? precision_from_json(root, &read.precision)
          : base_fail(COLL_ERROR_INVALID, "the metadata has missing or invalid fields");
  json_decref(root);
  COLL_TRY(status);
  COLL_TRY(train_model_config_check(&read.config));
  *metadata = read;
  return COLL_OK;
}
